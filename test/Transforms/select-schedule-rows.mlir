// RUN: fa2-opt %s --remarks-filter=fa2-select-schedule --fa2-select-schedule="target=sm_90a database=none schedule=block_q=64" 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: fa2-opt %s --fa2-select-schedule="target=sm_90a schedule=warps=8" | FileCheck %s --check-prefix=WARPS
// RUN: fa2-opt %s --fa2-select-schedule="target=sm_90a variants='seqlen_q <= 64: block_q=64'" --mlir-print-local-scope | FileCheck %s --check-prefix=VARIANT
// RUN: not fa2-opt %s --fa2-select-schedule="target=sm_90a schedule=block_q=48" 2>&1 | FileCheck %s --check-prefix=PART
// RUN: not fa2-opt %s --fa2-select-schedule="target=sm_90a schedule=block_q=64,warps=8" 2>&1 | FileCheck %s --check-prefix=BOTH

// Where warps take 16 rows each, the rows of a tile say how many warps there are, and the other way round.
// ROWS: remark: [Passed] field | {{.*}}Reason="block_q = 64 as asked", block_q=64
// ROWS: remark: [Passed] field | {{.*}}Reason="block_q = 64 and warps = 4: a warp takes 16 rows
// ROWS: block_q = 64, block_kv = {{[0-9]+}}, warps = 4
// WARPS: block_q = 128, block_kv = {{[0-9]+}}, warps = 8
// VARIANT: #fa2.variant<when = <"seqlen_q <= 64">, schedule = <target = "sm_90a", block_q = 64, block_kv = {{[0-9]+}}, warps = 4
// A warpgroup is the least.
// PART: error: {{.*}}expected warps to be a multiple of 4 and block_q to be 16 * warps on sm_90a, {{.*}}got warps = 3 and block_q = 48
// BOTH: error: {{.*}}expected block_q to be a multiple of 16 * warps = 128 {{.*}}got 64
func.func @attention(%q: tensor<?x?x?x64xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return
}
