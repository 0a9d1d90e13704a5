func.func @sum_of_terms(%q: tensor<?x?x?x96xbf16>, %k: tensor<?x?x?x96xbf16>, %v: tensor<?x?x?x96xbf16>, %scale: f32, %t: tensor<?x?xf32>, %u: tensor<?xbf16>, %w: tensor<?xf32>)
    -> (tensor<?x?x?x96xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%t, %u, %w : tensor<?x?xf32>, tensor<?xbf16>, tensor<?xf32>) {mask = #fa2.mask<causal>, extra_names = ["rows", "keys", "slopes"]}
      : tensor<?x?x?x96xbf16>, tensor<?x?x?x96xbf16>, tensor<?x?x?x96xbf16> -> tensor<?x?x?x96xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %column: index, %r: tensor<?x?xf32>, %c: tensor<?xbf16>, %m: tensor<?xf32>):
        %x = tensor.extract %r[%head, %row] : tensor<?x?xf32>
        %y = tensor.extract %c[%column] : tensor<?xbf16>
        %key = arith.extf %y : bf16 to f32
        %slope = tensor.extract %m[%head] : tensor<?xf32>
        %far = arith.subi %row, %column : index
        %narrow = arith.index_cast %far : index to i32
        %d = arith.sitofp %narrow : i32 to f32
        %a = arith.mulf %slope, %d : f32
        %s1 = arith.subf %s, %a : f32
        %s2 = arith.addf %x, %s1 : f32
        %s3 = arith.addf %s2, %key : f32
        fa2.yield %s3 : f32
      }
  return %o, %lse : tensor<?x?x?x96xbf16>, tensor<?x?x?xf32>
}
