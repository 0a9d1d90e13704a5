// Where the table with what was asked does not fit, the rule finds the largest tile that does.
// RUN: fa2-opt %s --remarks-filter=fa2-select-schedule --fa2-select-schedule="schedule=block_kv=128" 2>&1 | FileCheck %s --check-prefix=KV
// RUN: fa2-opt %s --remarks-filter=fa2-select-schedule --fa2-select-schedule="schedule=partition=split_k,block_q=16" 2>&1 | FileCheck %s --check-prefix=SPLITK
// RUN: fa2-opt %s --remarks-filter=fa2-select-schedule --fa2-select-schedule="schedule=block_q=128,block_kv=64,warps=2,stages=1,q_in_registers=0" 2>&1 | FileCheck %s --check-prefix=SPILL

// KV: remark: [Passed] rule | {{.*}}Reason="schedule by rule, the largest tile that fits, because the table's does not serve:
// KV: remark: [Passed] field | {{.*}}Reason="block_kv = 128 as asked
// KV: block_kv = 128
// SPLITK: remark: [Passed] field | {{.*}}Reason="partition = split_k as asked
// SPLITK: block_q = 16
// SPLITK-SAME: partition = split_k
// What is asked in full stands; that it may spill is a warning.
// SPILL-NOT: dropped
// SPILL: remark: [Missed] spills | {{.*}}Reason="about {{[0-9]+}} registers a thread are wanted of 255: the kernel will probably spill", Suggestion="lower block_q,
// SPILL: block_q = 128, block_kv = 64, warps = 2, stages = 1
func.func @attention(%q: tensor<?x?x?x256xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>
      -> tensor<?x?x?x256xbf16>, tensor<?x?x?xf32>
  return
}
