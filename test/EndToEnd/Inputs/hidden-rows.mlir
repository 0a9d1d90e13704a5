func.func @program(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%c : f32) {extra_names = ["c"]} : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32> score {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %ec: f32):
    %t0 = arith.divf %s, %ec : f32
    %t1 = math.tanh %t0 : f32
    %t2 = arith.mulf %t1, %ec : f32
    %n = arith.constant 0xFF800000 : f32
    %z = arith.constant 5 : index
    %d = arith.cmpi slt, %i, %z : index
    %r = arith.select %d, %n, %t2 : f32
    fa2.yield %r : f32
  }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
