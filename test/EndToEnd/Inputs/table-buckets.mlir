func.func @table(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %scale: f32, %t: tensor<?x?xf32>, %n: i32)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%t, %n : tensor<?x?xf32>, i32) {mask = #fa2.mask<causal>, extra_names = ["table", "n"]}
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %column: index, %u: tensor<?x?xf32>, %m: i32):
        %i = arith.index_cast %row : index to i32
        %j = arith.index_cast %column : index to i32
        %d = arith.subi %i, %j : i32
        %zero = arith.constant 0 : i32
        %four = arith.constant 4 : i32
        %last = arith.constant 7 : i32
        %back = arith.subi %zero, %d : i32
        %far = arith.maxsi %d, %back : i32
        %each = arith.divsi %far, %four : i32
        %bucket = arith.minsi %each, %last : i32
        %f = arith.index_cast %bucket : i32 to index
        %x = tensor.extract %u[%head, %f] : tensor<?x?xf32>
        %r = arith.addf %s, %x : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}
