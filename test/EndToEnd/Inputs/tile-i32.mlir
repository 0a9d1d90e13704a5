func.func @gather(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %scale: f32, %t: tensor<?x?xf32>, %dist: tensor<?x?x?xi32>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%t, %dist : tensor<?x?xf32>, tensor<?x?x?xi32>) {extra_names = ["table", "dist"]}
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %column: index, %u: tensor<?x?xf32>, %w: tensor<?x?x?xi32>):
        %j = tensor.extract %w[%batch, %row, %column] : tensor<?x?x?xi32>
        %e = arith.index_cast %j : i32 to index
        %x = tensor.extract %u[%head, %e] : tensor<?x?xf32>
        %r = arith.addf %s, %x : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}
