func.func @fa2_forward_program(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %scale: f32, %bias: tensor<?x?x?x?xTYPE>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %out, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%bias : tensor<?x?x?x?xTYPE>) {extra_names = ["bias"]} : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32> score {
  ^bb0(%score: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index, %given: tensor<?x?x?x?xTYPE>):
    %read = tensor.extract %given[%b, %h, %q_idx, %kv_idx] : tensor<?x?x?x?xTYPE>
    %x = arith.extf %read : TYPE to f32
    %zero = arith.constant 0.0 : f32
    %twice = arith.addf %score, %score : f32
    %above = arith.cmpf ogt, %x, %zero : f32
    %result = arith.select %above, %twice, %score : f32
    fa2.yield %result : f32
  }
  return %out, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
