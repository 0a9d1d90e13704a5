// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none stop-after=fa2gpu-choose-order" | FileCheck %s --check-prefix=TABLE
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none variants=none pass=backward stop-after=fa2gpu-choose-order" | FileCheck %s --check-prefix=BACKWARD
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none schedule=overlap=0,speculate_max=0 stop-after=fa2gpu-choose-order" | FileCheck %s --check-prefix=WRITTEN
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none schedule=loop_order=derived stop-after=fa2gpu-choose-order" | FileCheck %s --check-prefix=DERIVED
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none schedule=loop_order=derived stop-after=fa2gpu-order-loop" --remarks-filter=fa2gpu-order-loop -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIMES

// The table's rows, of the products that the role's loop has: another role multiplies dQ.
// TABLE: fa2gpu.order = #fa2gpu.order<"s o'", 2 in flight>
// BACKWARD: fa2gpu.order = #fa2gpu.order<"(dp) dk' s dp dv", 2 in flight>
// BACKWARD-NOT: fa2gpu.order
// WRITTEN-NOT: fa2gpu.order

// Nobody says that scores come before the product of the tile before: it is the shortest iteration.
// DERIVED: fa2gpu.order = #fa2gpu.order<"s o'", 2 in flight>

// Backward with 128 columns has no registers for two tiles of scores in flight: as it is written. With 256, whose warpgroups share
// the scores, dQ's reductions run beside the next tile's products.
// RUN: sed 's/x64x/x128x/g' %s | fa2-opt --fa2-pipeline="target=sm_90a database=none pass=backward schedule=loop_order=derived,preload=delta stop-after=fa2gpu-choose-order" | FileCheck %s --check-prefix=NONE
// RUN: sed 's/x64x/x256x/g' %s | fa2-opt --fa2-pipeline="target=sm_90a database=none pass=backward schedule=loop_order=derived,dq=atomic_v4,preload=delta,cluster=1,rings.dout=0 stop-after=fa2gpu-choose-order" | FileCheck %s --check-prefix=SHARED
// NONE-NOT: fa2gpu.order
// SHARED: fa2gpu.order = #fa2gpu.order<"(dp) dq' s dp dv dk", 2 in flight>

// An order that is wrong for the role's registers is refused before the loop is touched.
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward stop-after=fa2gpu-choose-order" | sed -E 's/2[0-9]{2} registers/120 registers/' | not fa2-opt --pass-pipeline="builtin.module(fa2.kernel(fa2gpu-order-loop))" 2>&1 | FileCheck %s --check-prefix=FULL
// FULL: error: expected the order "(dp) dk' s dp dv" to keep what the loop's steps need: expected the values of all steps to take at most [[#]] registers, got [[#]] when '{{[a-z_]+}}' writes

// A time line: the softmax of one tile beside the product of the other.
// TIMES: order "s o'": a warpgroup alone takes [[#]] clocks an iteration
// TIMES-NEXT: clocks        0
// TIMES-NEXT: tensor cores  |s{{-+}}|o'{{-+}}
// TIMES-NEXT: {{exponentials +}}|softmax_step
// TIMES-NEXT: arithmetic

func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
