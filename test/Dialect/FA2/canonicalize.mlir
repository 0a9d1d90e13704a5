// RUN: fa2-opt %s --canonicalize --cse | FileCheck %s

// Products and softmax steps are pure: unused ones go, equal ones become one.
// CHECK-LABEL: func @pure
// CHECK-COUNT-1: fa2.dot
// CHECK-NOT: fa2.dot
// CHECK-NOT: fa2.softmax_step
// CHECK: return
func.func @pure(%q: tensor<16x16xf16>, %m: tensor<16xf32>, %c: f32) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  %a = fa2.dot %q, %q {transpose_b} : tensor<16x16xf16>, tensor<16x16xf16> -> tensor<16x16xf32>
  %b = fa2.dot %q, %q {transpose_b} : tensor<16x16xf16>, tensor<16x16xf16> -> tensor<16x16xf32>
  %p, %m1, %l1, %al = fa2.softmax_step %a, %m, %m scale %c : tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>
  return %a, %b : tensor<16x16xf32>, tensor<16x16xf32>
}

// Transposed and plain products of the same tiles differ.
// CHECK-LABEL: func @attributes_count
// CHECK-COUNT-2: fa2.dot
func.func @attributes_count(%q: tensor<16x16xf16>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  %a = fa2.dot %q, %q {transpose_b} : tensor<16x16xf16>, tensor<16x16xf16> -> tensor<16x16xf32>
  %b = fa2.dot %q, %q : tensor<16x16xf16>, tensor<16x16xf16> -> tensor<16x16xf32>
  return %a, %b : tensor<16x16xf32>, tensor<16x16xf32>
}

// A load after a store is a new load; a store and the loop around it stay.
// CHECK-LABEL: func @memory
// CHECK: fa2.load
// CHECK: fa2.for_each_tile
// CHECK: fa2.store
// CHECK: fa2.load
func.func @memory(%v: !fa2.view<? x 16 x f16>, %i: index) -> (tensor<16x16xf16>, tensor<16x16xf16>) {
  %a = fa2.load %v[%i] : !fa2.view<? x 16 x f16> -> tensor<16x16xf16>
  fa2.for_each_tile %qb, %h, %b in (%i by 16, %i, %i) {
    fa2.store %a, %v[%qb] : tensor<16x16xf16>, !fa2.view<? x 16 x f16>
  }
  %b = fa2.load %v[%i] : !fa2.view<? x 16 x f16> -> tensor<16x16xf16>
  return %a, %b : tensor<16x16xf16>, tensor<16x16xf16>
}
