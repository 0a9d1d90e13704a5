// A variant that takes the rows behind so many, which the schedule's own kernel has, in one launch of the program.
// RUN: fa2-opt %s --fa2-select-schedule="target=sm_90a schedule=block_q=192 variants='heads > 9: block_q=64; seqlen_q > 384: after 384: block_q=128; heads > 3: block_q=128; batch > 7: after 192: block_q=64,query_slots=1'" --mlir-print-local-scope > %t.mlir
// RUN: FileCheck %s --check-prefix=ASKED --input-file=%t.mlir
// RUN: fa2-opt %t.mlir --fa2-tile --mlir-print-local-scope | FileCheck %s --check-prefix=TILED
// RUN: fa2-opt %t.mlir --fa2-pipeline | fa2-translate --fa2-manifest | FileCheck %s --check-prefix=MANIFEST
// RUN: not fa2-opt %s --fa2-select-schedule="target=sm_90a variants='heads > 1: after q.stride[0]: block_q=64'" 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not fa2-opt %s --fa2-select-schedule="target=sm_90a variants='heads > 1: after rows: block_q=64'" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fa2-opt %s --fa2-select-schedule="target=sm_90a variants='heads > 1: behind 64: block_q=64'" 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: fa2-opt %s --fa2-select-schedule="target=sm_90a database=none" --mlir-print-local-scope | FileCheck %s --check-prefix=TABLE

// ASKED: #fa2.variant<when = <"seqlen_q > 384">, after = <"384">, schedule = <target = "sm_90a", block_q = 128,

// Kernels that share rows stand one behind the other. One that a guard launches for all rows too is the same kernel; one that
// only gets a rest is never launched for all.
// TILED: fa2.kernel @attention(
// TILED-SAME: main
// TILED-SAME: parts = [#fa2.rows<when = <"!(heads > 9) && (seqlen_q > 384)">, from = <"0">, count = <"384">>,
// TILED-SAME: #fa2.rows<when = <"!(heads > 9) && !(seqlen_q > 384) && !(heads > 3) && (batch > 7)">, from = <"0">, count = <"192">>]
// TILED: fa2.kernel @attention_variant3(
// TILED-SAME: parts = [#fa2.rows<when = <"!(heads > 9) && (seqlen_q > 384)">, from = <"384">, count = <"seqlen_q - (384)">>]
// TILED-SAME: when = #fa2.guard<"!(heads > 9) && !(seqlen_q > 384) && (heads > 3)">
// TILED: fa2.kernel @attention_variant4(
// TILED-SAME: from = <"192">, count = <"seqlen_q - (192)">>]
// TILED-SAME: when = #fa2.guard<"0">
// TILED: fa2.kernel @attention_variant1(
// TILED-NOT: parts
// TILED-SAME: when = #fa2.guard<"heads > 9">
// TILED-NOT: fa2.kernel

// The second of two may run beside the first, and draws from counters of its own.
// MANIFEST: "fa2_manifest": 4,
// MANIFEST: "bytes": 32,
// MANIFEST-NEXT: "alignment": 32,
// MANIFEST-NEXT: "zeroed": true
// MANIFEST: "kernel": "attention",
// MANIFEST: "offset":0}
// MANIFEST: "kernel": "attention",
// MANIFEST-NEXT: "when": "!(heads > 9) && (seqlen_q > 384)",
// MANIFEST: "slice": {
// MANIFEST-NEXT: "dimension": "seqlen_q",
// MANIFEST-NEXT: "from": "0",
// MANIFEST-NEXT: "count": "384"
// MANIFEST: "kernel": "attention",
// MANIFEST: "kernel": "attention_variant3",
// MANIFEST: "kernel": "attention_variant3",
// MANIFEST: "programmatic": true,
// MANIFEST-NEXT: "slice": {
// MANIFEST: "from": "384",
// MANIFEST-NEXT: "count": "seqlen_q - (384)"
// MANIFEST: "offset":16}
// MANIFEST: "kernel": "attention_variant4",
// MANIFEST-NEXT: "when": "!(heads > 9) && !(seqlen_q > 384) && !(heads > 3) && (batch > 7)",
// MANIFEST: "kernel": "attention_variant1",
// MANIFEST: "offset":0}

// LAYOUT: error: 'fa2.attention' op expected a guard of a variant to read no strides, addresses or extents of arguments, got 'q.stride[0]'
// NAME: error: 'fa2.attention' op guard 'rows': unknown name 'rows'
// FORM: error: 'fa2.attention' op unknown schedule field 'behind 64: block_q'; the nearest is block_q

// The table's: whole rounds of the multiprocessors, or one fewer, then smaller tiles.
// TABLE: #fa2.variant<when = <"seqlen_k >= 2048 && (seqlen_q / 192 * heads * batch / device.multiprocessors) > 0 && 30 * ({{[^"]*}}">, after = <"192 * ((seqlen_q / 192 * heads * batch / device.multiprocessors) * device.multiprocessors / max(1, heads * batch))">, schedule = <target = "sm_90a", block_q = 128,
// TABLE-SAME: after = <"192 * ((seqlen_q / 192 * heads * batch / device.multiprocessors - 1) * device.multiprocessors / max(1, heads * batch))">
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %l = fa2.attention ins(%q, %k, %v)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %l : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
