// RUN: fa2-opt %s --fa2-derive-backward -split-input-file -verify-diagnostics
// RUN: not fa2-compile --bias key --alibi head --pass backward --grads bias,slope -o /dev/null 2>&1 | FileCheck %s
// CHECK: expected grads to name what its score program reads (slopes, bias), got 'slope'

func.func @bits(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>)
    -> (tensor<?x?x?x16xf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>
      -> tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = arith.bitcast %s : f32 to i32
        // expected-error @+1 {{'arith.bitcast' op has no derivative: expected differentiable operations between the score and the result}}
        %r = arith.bitcast %x : i32 to f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
}
