// RUN: fa2-opt %s --split-input-file --verify-diagnostics --fa2-tile

func.func @no_schedule(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  // expected-error @+1 {{expected a schedule; run fa2-select-schedule}}
  %o, %lse = fa2.attention ins(%q, %k, %v) : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

func.func @not_all_of_the_function(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> tensor<?x?x?x64xbf16> {
  // expected-error @+1 {{expected to be all of a function that returns its results, because the function becomes the kernel}}
  %o, %lse = fa2.attention ins(%q, %k, %v) {schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o : tensor<?x?x?x64xbf16>
}

// -----

func.func @other_arguments(%v: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %q: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  // expected-error @+1 {{expected the function's arguments to be q, k, v and scale, in this order}}
  %o, %lse = fa2.attention ins(%q, %k, %v) {schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

func.func @score_program(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  // expected-error @+1 {{expected no score region because tiling of score programs is not supported}}
  %o, %lse = fa2.attention ins(%q, %k, %v) {schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        fa2.yield %s : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
