// RUN: fa2-opt %s --fa2-select-schedule="target=sm_90a database=none" --mlir-print-local-scope | FileCheck %s --check-prefix=TABLE
// RUN: fa2-opt %s --remarks-filter=fa2-select-schedule --fa2-select-schedule="target=sm_90a database=none" -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHY
// RUN: fa2-opt %s --fa2-select-schedule="target=sm_90a variants=none" --mlir-print-local-scope | FileCheck %s --check-prefix=NONE
// RUN: fa2-opt %s --fa2-select-schedule="target=sm_90a schedule=stages=1" --mlir-print-local-scope | FileCheck %s --check-prefix=NONE
// RUN: fa2-opt %s --fa2-select-schedule="variants='seqlen_k <= 32: block-q=32,warps=2; heads > 3: stages=1'" --mlir-print-local-scope > %t.mlir
// RUN: FileCheck %s --check-prefix=ASKED --input-file=%t.mlir
// RUN: fa2-opt %t.mlir --fa2-tile --mlir-print-local-scope | FileCheck %s --check-prefix=TILED
// RUN: fa2-opt %t.mlir --fa2-pipeline --mlir-print-local-scope | FileCheck %s --check-prefix=LAUNCH
// RUN: fa2-opt %t.mlir --fa2-pipeline | fa2-translate --fa2-manifest | FileCheck %s --check-prefix=MANIFEST
// RUN: not fa2-opt %s --fa2-select-schedule="variants='batch > 1: block_kv=16'" 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: fa2-opt %s --fa2-derive-backward=replace=1 --fa2-select-schedule="target=sm_90a variants='seqlen_k <= 32: persistent=1; heads > 3: stages=2'" --fa2-tile-grad | FileCheck %s --check-prefix=BACKWARD
// RUN: fa2-opt %s --fa2-derive-backward=replace=1 --fa2-select-schedule="target=sm_90a variants='seqlen_k <= 32: stages=2; heads > 3: block_kv=64,warps=4; seqlen_k <= 64: persistent=1'" --fa2-tile-grad | FileCheck %s --check-prefix=AROUND
// RUN: not fa2-opt %s --fa2-derive-backward=replace=1 --fa2-select-schedule="target=sm_90a schedule=dq=ordered variants='heads > 1: dq=atomic_v4'" 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: fa2-opt %s --fa2-derive-backward=replace=1 --fa2-select-schedule="target=sm_90a variants='batch > 1: dq=recompute'" --fa2-tile-grad | FileCheck %s --check-prefix=EITHER
// RUN: not fa2-opt %s --fa2-derive-backward=replace=1 --fa2-select-schedule="target=sm_90a schedule=dq=ordered variants='batch > 1: dq=recompute'" 2>&1 | FileCheck %s --check-prefix=WAYS
// RUN: not fa2-opt %s --fa2-derive-backward=replace=1 --fa2-select-schedule="target=sm_90a variants='batch > 1: preload=delta'" 2>&1 | FileCheck %s --check-prefix=ROUNDING
// RUN: fa2-opt %s --fa2-derive-backward=replace=1 --fa2-select-schedule="target=sm_90a variants='batch > 1: block_kv=64,warps=4'" -o /dev/null
// RUN: not fa2-opt %s --fa2-derive-backward=replace=1 --fa2-select-schedule="target=sm_90a schedule=dq=ordered variants='batch > 1: block_kv=64,warps=4'" 2>&1 | FileCheck %s --check-prefix=ORDERED

// The table's, where nothing is asked.
// TABLE: fa2.attention
// TABLE-SAME: schedule = #fa2.schedule<target = "sm_90a", block_q = [[Q:[0-9]+]]
// Few queries of grouped heads, then smaller tiles where they leave fewer multiprocessors idle.
// TABLE-SAME: variants = [#fa2.variant<when = <"seqlen_q <= 64 && heads % (4 * heads_kv) == 0">, schedule = <target = "sm_90a", block_q = 64,{{[^>]*}} packed_heads = 4, cache.keys = evict_first>>,
// TABLE-SAME: #fa2.variant<when = <"{{[^"]*}} * batch {{[^"]*}}">, schedule = <target = "sm_90a", block_q = 64, block_kv = [[KV:[0-9]+]],
// TABLE-SAME: #fa2.variant<when = <"{{[^"]*}} * batch {{[^"]*}}">, schedule = <target = "sm_90a", block_q = 128, block_kv = [[KV]],
// WHY: remark: [Passed] table | {{.*}}Reason="schedule from sm_90a's table
// WHY: remark: [Passed] variant | {{.*}}Reason="where seqlen_q <= {{[0-9]+}} && heads % (4 * heads_kv) == 0: #fa2.schedule<target = "sm_90a", block_q =
// WHY: remark: [Analysis] shared-memory | {{.*}}Reason="where seqlen_q <= {{[0-9]+}} && heads % (4 * heads_kv) == 0: shared memory: {{[0-9]+}} of 232448 bytes a block
// NONE: schedule = #fa2.schedule
// NONE-NOT: variant

// The main schedule with fields in place.
// ASKED: schedule = #fa2.schedule<target = "sm_80", block_q = [[Q:[0-9]+]], block_kv = [[KV:[0-9]+]], warps = [[W:[0-9]+]], stages = [[S:[0-9]+]]
// ASKED-SAME: variants = [#fa2.variant<when = <"seqlen_k <= 32">, schedule = <target = "sm_80", block_q = 32, block_kv = [[KV]], warps = 2, stages = [[S]]
// ASKED-SAME: #fa2.variant<when = <"heads > 3">, schedule = <target = "sm_80", block_q = [[Q]], block_kv = [[KV]], warps = [[W]], stages = 1

// A kernel each; of their guards exactly one holds.
// TILED: fa2.kernel @attention(
// TILED-SAME: when = #fa2.guard<"!(seqlen_k <= 32) && !(heads > 3)">
// TILED: fa2.kernel @attention_variant1(
// TILED-SAME: schedule = #fa2.schedule<target = "sm_80", block_q = 32,
// TILED-SAME: when = #fa2.guard<"seqlen_k <= 32">
// TILED: fa2.for_each_tile {{.*}} by 32,
// TILED: fa2.kernel @attention_variant2(
// TILED-SAME: when = #fa2.guard<"!(seqlen_k <= 32) && (heads > 3)">
// TILED-NOT: func.func

// LAUNCH: gpu.module @attention_module
// LAUNCH: fa2gpu.launch @attention_module::@attention grid
// LAUNCH-SAME: {main, when = #fa2.guard<"!(seqlen_k <= 32) && !(heads > 3)">}
// LAUNCH: fa2gpu.launch @attention_module::@attention_variant1 grid ["ceildiv(seqlen_q, 32) * heads * batch", "1", "1"] block 64
// LAUNCH-SAME: {when = #fa2.guard<"seqlen_k <= 32">}
// LAUNCH: fa2gpu.launch @attention_module::@attention_variant2 grid
// LAUNCH-SAME: {when = #fa2.guard<"!(seqlen_k <= 32) && (heads > 3)">}

// A grid that is not launched need not be possible. Schedules stand at the launches that have another than the program's.
// MANIFEST: "that":"!(seqlen_k <= 32) || (ceildiv(seqlen_q, 32) * heads * batch) <= 2147483647"
// MANIFEST: "launches": [
// MANIFEST: "kernel": "attention",
// MANIFEST-NEXT: "when": "!(seqlen_k <= 32) && !(heads > 3)",
// MANIFEST-NEXT: "grid":
// MANIFEST: "kernel": "attention_variant1",
// MANIFEST-NEXT: "when": "seqlen_k <= 32",
// MANIFEST-NEXT: "schedule": {
// MANIFEST-NEXT: "block_q": 32,
// MANIFEST: "grid":
// MANIFEST: "kernel": "attention_variant2",
// MANIFEST-NEXT: "when": "!(seqlen_k <= 32) && (heads > 3)",

// BATCH: error: 'fa2.attention' op guard 'batch > 1' reads batch, but its schedule and one after it differ in 

// Of backward's kernels the one of keys has variants; the kernels around it are launched whatever holds.
// BACKWARD: fa2.kernel @attention_backward_statistics(
// BACKWARD-NOT: when =
// BACKWARD: fa2.kernel @attention_backward(
// BACKWARD-SAME: when = #fa2.guard<"!(seqlen_k <= 32) && !(heads > 3)">
// BACKWARD: fa2.kernel @attention_backward_variant1(
// BACKWARD-SAME: when = #fa2.guard<"seqlen_k <= 32">
// BACKWARD: fa2.kernel @attention_backward_variant2(
// BACKWARD-SAME: when = #fa2.guard<"!(seqlen_k <= 32) && (heads > 3)">
// BACKWARD: fa2.kernel @attention_backward_dq(
// BACKWARD-NOT: when =

// One that differs in what they see has its own around it; a launch runs the one or the others.
// AROUND: fa2.kernel @attention_backward_statistics(
// AROUND: %neg_lse: memref<?x?x?xf32, {{.*}} when = #fa2.guard<"((!(seqlen_k <= 32) && !(heads > 3) && !(seqlen_k <= 64)) || (seqlen_k <= 32)) || (!(seqlen_k <= 32) && !(heads > 3) && (seqlen_k <= 64))">
// AROUND: fa2.kernel @attention_backward(
// AROUND: fa2.kernel @attention_backward_variant1(
// AROUND: fa2.kernel @attention_backward_variant3(
// AROUND: fa2.kernel @attention_backward_dq(
// AROUND-SAME: when = #fa2.guard<"((
// AROUND-NOT: alternative
// AROUND: fa2.kernel @attention_backward_statistics_variant2(
// AROUND-SAME: alternative = 1
// AROUND-SAME: "ceildiv(seqlen_q, 64) * 64"
// AROUND-SAME: when = #fa2.guard<"!(seqlen_k <= 32) && (heads > 3)">
// AROUND: fa2.kernel @attention_backward_variant2(
// AROUND-SAME: alternative = 1
// AROUND-SAME: when = #fa2.guard<"!(seqlen_k <= 32) && (heads > 3)">
// AROUND: fa2.kernel @attention_backward_dq_variant2(
// AROUND-SAME: alternative = 1
// ORDER: error: 'fa2.attention_grad' op expected variants with dq = ordered or recompute beside the schedule's dq = ordered, which promises the same bits in each run, got atomic_v4 where heads > 1

// dK and dV of a key do not know the keys beside it; dQ does, where it is summed in order.
// ROUNDING: error: 'fa2.attention_grad' op guard 'batch > 1' reads batch, but its schedule and one after it differ in preload
// A dQ that may be summed in any order may have a kernel of its own where the batch says so; of two that promise their bits the batch chooses neither.
// EITHER: fa2.kernel @attention_backward_dq(
// EITHER-SAME: #fa2.arg<"dq_sum", "workspace"
// EITHER: fa2.kernel @attention_backward_dq_variant1(
// EITHER-NOT: "dq_sum"
// EITHER: fa2.for_tiles
// WAYS: error: 'fa2.attention_grad' op guard 'batch > 1' reads batch, but its schedule and one after it differ in
// ORDERED: error: 'fa2.attention_grad' op guard 'batch > 1' reads batch, but its schedule and one after it differ in block_kv
func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) {mask = #fa2.mask<causal>} : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}
