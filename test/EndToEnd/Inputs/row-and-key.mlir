func.func @row_and_key(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %scale: f32, %t: tensor<?x?xf32>, %u: tensor<?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%t, %u : tensor<?x?xf32>, tensor<?xf32>) {mask = #fa2.mask<causal>, extra_names = ["rows", "keys"]}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %column: index, %w: tensor<?x?xf32>, %z: tensor<?xf32>):
        %x = tensor.extract %w[%head, %row] : tensor<?x?xf32>
        %y = tensor.extract %z[%column] : tensor<?xf32>
        %r = arith.addf %s, %x : f32
        %r2 = arith.subf %r, %y : f32
        fa2.yield %r2 : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
