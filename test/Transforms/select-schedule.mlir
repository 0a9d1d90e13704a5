// RUN: fa2-opt %s --split-input-file --mlir-print-local-scope --fa2-select-schedule | FileCheck %s --check-prefix=SM80
// RUN: fa2-opt %s --split-input-file --remarks-filter=fa2-select-schedule --fa2-select-schedule -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHY
// RUN: fa2-opt %s --split-input-file --mlir-print-local-scope --fa2-select-schedule="target=sm_86" | FileCheck %s --check-prefix=SM86
// RUN: fa2-opt %s --split-input-file --remarks-filter=fa2-select-schedule --fa2-select-schedule="target=sm_86" -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHY86
// RUN: fa2-opt %s --split-input-file --mlir-print-local-scope --fa2-select-schedule="schedule=block_q=64,block_kv=16,warps=2,stages=1,partition=split_q,q_in_registers=0,lazy_rescale=3,min_blocks=2,order=ascending" | FileCheck %s --check-prefix=ASKED

// What the tables hold is for tuning to say; here is who wins.

// Where head dims differ, from the table of the target, and without a mask in ascending order (not printed).
// WHY: remark: [Passed] table | Category:fa2-select-schedule | Function=d72 | Reason="schedule from sm_80's table for head dims 72 and 64"
// WHY: remark: [Missed] database | {{.*}}Reason="the database of measured schedules has none for it", Suggestion="fa2-tune measures schedules on a GPU"
// WHY: remark: [Analysis] shared-memory | {{.*}}Bytes={{[0-9]+}}, Limit=166912, Reason="shared memory: {{[0-9]+}} of 166912 bytes a block
// SM80-LABEL: func @d72
// SM80: schedule = #fa2.schedule<target = "sm_80", block_q =
// SM80-NOT: order
// WHY86: remark: [Passed] table | {{.*}}Reason="schedule from sm_86's table for head dims 72 and 64
// WHY86: remark: [Analysis] shared-memory | {{.*}}Reason="shared memory: {{[0-9]+}} of 101376 bytes a block
// SM86-LABEL: func @d72
// SM86: target = "sm_86", block_q =

// Everything as asked.
// ASKED-LABEL: func @d72
// ASKED: <target = "sm_80", block_q = 64, block_kv = 16, warps = 2, stages = 1, lazy_rescale = 3, min_blocks = 2>
func.func @d72(%q: tensor<?x?x?x72xbf16>, %v: tensor<?x?x?x64xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %v) : tensor<?x?x?x72xbf16>, tensor<?x?x?x72xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return
}

// -----

// Masked: the longest blocks first, unless asked otherwise.
// WHY: remark: [Passed] field | {{.*}}Reason="order = longest_first: the mask {{.*}}", order=longest_first
// WHY: remark: [Analysis] model-step | {{.*}}Bound="{{.*}}", Clocks={{[0-9]+}},
// SM80-LABEL: func @causal248
// SM80: order = longest_first>
// ASKED-LABEL: func @causal248
// ASKED: <target = "sm_80", block_q = 64, block_kv = 16, warps = 2, stages = 1, lazy_rescale = 3, min_blocks = 2>
func.func @causal248(%q: tensor<?x?x?x248xbf16>, %v: tensor<?x?x?x240xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %v) {mask = #fa2.mask<causal>} : tensor<?x?x?x248xbf16>, tensor<?x?x?x248xbf16>, tensor<?x?x?x240xbf16>
      -> tensor<?x?x?x240xbf16>, tensor<?x?x?xf32>
  return
}

// -----

// What stands on the operation stays, whatever the options say.
// WHY: remark: [Passed] operation | {{.*}}Reason="schedule written on the operation
// SM80-LABEL: func @standing
// SM80: target = "sm_90", block_q = 32, block_kv = 32, warps = 2, stages = 4>
// ASKED-LABEL: func @standing
// ASKED: target = "sm_90", block_q = 32, block_kv = 32, warps = 2, stages = 4>
func.func @standing(%q: tensor<?x?x?x64xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %q) {schedule = #fa2.schedule<target = "sm_90", block_q = 32, block_kv = 32, warps = 2, stages = 4>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return
}
