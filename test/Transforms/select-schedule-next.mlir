// RUN: fa2-opt %s --remarks-filter=fa2-select-schedule --fa2-select-schedule="target=sm_90a" 2>&1 | FileCheck %s

// Head dims that differ need a place of the output's own; where the table's first schedule then does not fit, a later one does.
// CHECK: remark: [Passed] table | {{.*}}Reason="schedule from sm_90a's table for head dims 184 and 136, for where its first does not serve: the schedule needs {{[0-9]+}} bytes of shared memory
// CHECK: remark: [Missed] table | {{.*}}Reason="dropped block_q = {{[0-9]+}}, block_kv = {{[0-9]+}}, warps = {{[0-9]+}}, stages = {{[0-9]+}} of the table: the schedule needs
// CHECK: block_q = 128, block_kv = 80, warps = 8, stages = 2
func.func @unequal(%q: tensor<?x?x?x184xbf16>, %v: tensor<?x?x?x136xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %v) : tensor<?x?x?x184xbf16>, tensor<?x?x?x184xbf16>, tensor<?x?x?x136xbf16>
      -> tensor<?x?x?x136xbf16>, tensor<?x?x?xf32>
  return
}
