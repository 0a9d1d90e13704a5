// RUN: fa2-opt %s --split-input-file --mlir-print-local-scope --fa2-select-schedule | FileCheck %s --check-prefix=SM80
// RUN: fa2-opt %s --split-input-file --mlir-print-local-scope --fa2-select-schedule=target=sm_86 | FileCheck %s --check-prefix=SM86
// RUN: fa2-opt %s --split-input-file --mlir-print-local-scope --fa2-select-schedule="block-q=64 stages=1 partition=split_q lazy-rescale=0 order=ascending" | FileCheck %s --check-prefix=ASKED

// From the table. sm_86 has 99 KiB a block: at head dim 256 the rule takes over.
// SM80-LABEL: func @d64
// SM80: target = "sm_80", block_q = 128, block_kv = 64, warps = 4, stages = 2, q_in_registers = true, lazy_rescale = 8>
// SM86-LABEL: func @d64
// SM86: target = "sm_86", block_q = 128, block_kv = 64, warps = 4, stages = 2
// ASKED-LABEL: func @d64
// ASKED: target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1, q_in_registers = true>
func.func @d64(%q: tensor<?x?x?x64xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return
}

// -----

// Masked: the longest blocks first, unless asked otherwise.
// SM80-LABEL: func @causal256
// SM80: block_q = 64, block_kv = 64, warps = 4, stages = 2, lazy_rescale = 8, order = longest_first>
// SM86-LABEL: func @causal256
// SM86: block_q = 64, block_kv = 64, warps = 4, stages = 1, lazy_rescale = 8, order = longest_first>
// ASKED-LABEL: func @causal256
// ASKED-NOT: longest_first
func.func @causal256(%q: tensor<?x?x?x256xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %q) {mask = #fa2.mask<causal>} : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>
      -> tensor<?x?x?x256xbf16>, tensor<?x?x?xf32>
  return
}

// -----

// The larger of the two head dims decides.
// SM80-LABEL: func @dv
// SM80: block_q = 64, block_kv = 64
func.func @dv(%q: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x160xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %v) : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x160xbf16>
      -> tensor<?x?x?x160xbf16>, tensor<?x?x?xf32>
  return
}

// -----

// What stands on the operation stays, whatever the options say.
// SM80-LABEL: func @standing
// SM80: target = "sm_90", block_q = 32, block_kv = 32, warps = 2, stages = 4>
// ASKED-LABEL: func @standing
// ASKED: target = "sm_90", block_q = 32, block_kv = 32, warps = 2, stages = 4>
func.func @standing(%q: tensor<?x?x?x64xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %q) {schedule = #fa2.schedule<target = "sm_90", block_q = 32, block_kv = 32, warps = 2, stages = 4>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return
}
