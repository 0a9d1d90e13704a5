// RUN: not fa2-opt %s --fa2-select-schedule=target=sm_85 2>&1 | FileCheck %s --check-prefix=ARCH
// RUN: not fa2-opt %s --fa2-select-schedule=target=hopper 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fa2-opt %s --fa2-select-schedule="schedule=block_q=128,block_kv=128,stages=4" 2>&1 | FileCheck %s --check-prefix=FIT
// RUN: not fa2-opt %s --fa2-select-schedule=schedule=block_q=100 2>&1 | FileCheck %s --check-prefix=BLOCKQ
// RUN: not fa2-opt %s --fa2-select-schedule=schedule=warps=3000000000 2>&1 | FileCheck %s --check-prefix=WARPS
// RUN: not fa2-opt %s --fa2-select-schedule=schedule=stages=-1 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not fa2-opt %s --fa2-select-schedule="schedule=warps=3,block_q=64" 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not fa2-opt %s --fa2-select-schedule=schedule=partition=split_v 2>&1 | FileCheck %s --check-prefix=PARTITION
// RUN: not fa2-opt %s --fa2-select-schedule=schedule=order=random 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not fa2-opt %s --fa2-select-schedule=schedule=q_in_registers=2 2>&1 | FileCheck %s --check-prefix=FLAG

// ARCH: error: 'fa2.attention' op unknown arch 'sm_85'; the nearest supported is sm_86 (supported: sm_80, sm_86,
// NAME: error: 'fa2.attention' op unknown arch 'hopper' (supported: sm_80,
// FIT: error: 'fa2.attention' op the schedule needs 294912 bytes of shared memory of 166912 that sm_80 allows a block (queries 32768, 4 stages of keys and values 262144,
// BLOCKQ: error: 'fa2.attention' op expected block_q to be a multiple of 16 from 16 to 256, got 100
// WARPS: error: 'fa2.attention' op expected warps to be 1 to 16, got 3000000000
// STAGES: error: 'fa2.attention' op expected stages to be 1 to 4, got -1
// WHOLE: error: 'fa2.attention' op expected block_q to be a multiple of 16 * warps = 48
// PARTITION: error: 'fa2.attention' op expected partition to be split_q, split_k or keys, got 'split_v'
// ORDER: error: 'fa2.attention' op expected order to be ascending, longest_first, interleaved, shortest_first, descending, batches_abreast, longest_batches_abreast, balanced, interleaved_batches_abreast or shortest_then_longest, got 'random'
// FLAG: error: 'fa2.attention' op expected q_in_registers to be 0 or 1, got '2'
func.func @attention(%q: tensor<?x?x?x128xbf16>) {
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return
}
