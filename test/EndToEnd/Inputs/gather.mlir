func.func @gather(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %scale: f32, %t: tensor<?x?xf32>, %n: i32)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%t, %n : tensor<?x?xf32>, i32) {mask = #fa2.mask<causal>, extra_names = ["table", "n"]}
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %column: index, %u: tensor<?x?xf32>, %m: i32):
        %d = arith.muli %row, %column : index
        %mi = arith.index_cast %m : i32 to index
        %e = arith.remui %d, %mi : index
        %x = tensor.extract %u[%head, %e] : tensor<?x?xf32>
        %r = arith.addf %s, %x : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}
