func.func @dense(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %scale: f32, %t: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%t : tensor<?x?x?xf32>) {mask = #fa2.mask<causal>, extra_names = ["bias"]}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %column: index, %w: tensor<?x?x?xf32>):
        %x = tensor.extract %w[%head, %row, %column] : tensor<?x?x?xf32>
        %r = arith.addf %s, %x : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
