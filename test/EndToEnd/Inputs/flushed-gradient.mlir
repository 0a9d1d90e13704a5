func.func @program(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %x: tensor<?xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%x : tensor<?xf32>) {extra_names = ["x"]} : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32> score {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %ex: tensor<?xf32>):
    %y = tensor.extract %ex[%h] : tensor<?xf32>
    %c = arith.constant -90.0 : f32
    %u = arith.addf %y, %c : f32
    %p = math.exp %u : f32
    %r = arith.addf %s, %p : f32
    fa2.yield %r : f32
  }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
