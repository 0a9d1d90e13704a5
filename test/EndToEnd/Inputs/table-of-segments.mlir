func.func @segments(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %scale: f32, %t: tensor<?x?xbf16>, %seg: tensor<?x?xi32>, %w: tensor<?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%t, %seg, %w : tensor<?x?xbf16>, tensor<?x?xi32>, tensor<?xf32>) {mask = #fa2.mask<causal>, extra_names = ["table", "segments", "weight"]}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %column: index, %u: tensor<?x?xbf16>, %g: tensor<?x?xi32>, %ws: tensor<?xf32>):
        %a = arith.index_cast %row : index to i32
        %j = tensor.extract %g[%batch, %column] : tensor<?x?xi32>
        %y = arith.xori %a, %j : i32
        %e = arith.index_cast %y : i32 to index
        %h = tensor.extract %u[%batch, %e] : tensor<?x?xbf16>
        %x = arith.extf %h : bf16 to f32
        %f = tensor.extract %ws[%head] : tensor<?xf32>
        %z = arith.mulf %x, %f : f32
        %r = arith.addf %s, %z : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
