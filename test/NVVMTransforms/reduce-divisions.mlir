// RUN: fa2-opt %s --allow-unregistered-dialect --split-input-file --fa2-reduce-divisions | FileCheck %s
// RUN: fa2-opt %s --allow-unregistered-dialect --split-input-file --fa2-reduce-divisions --canonicalize --cse | FileCheck %s --check-prefix=CLEAN

// Slots of three, used at %base + counter + 1 and %base + counter: one division before the loop, none in it. The use that is
// one ahead is what the next iteration starts from.
// CHECK-LABEL: func @slots
// CLEAN-LABEL: func @slots
// CLEAN-SAME: (%[[BASE:.*]]: index, %[[N:.*]]: index)
func.func @slots(%base: index, %n: index) {
  // CLEAN-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // CLEAN-DAG: %[[C1:.*]] = arith.constant 1 : i32
  // CLEAN-DAG: %[[C3:.*]] = arith.constant 3 : i32
  // CLEAN: %[[USE:.*]] = arith.index_cast %[[BASE]] : index to i32
  // CLEAN: %[[R:.*]] = arith.remui %[[USE]], %[[C3]] : i32
  // CLEAN: %[[Q:.*]] = arith.divui %[[USE]], %[[C3]] : i32
  // CLEAN: scf.for {{.*}} iter_args(%[[SLOT:.*]] = %[[R]], %[[PHASE:.*]] = %[[Q]]) -> (i32, i32)
  // CLEAN: %[[UP:.*]] = arith.addi %[[SLOT]], %[[C1]]
  // CLEAN: %[[WRAPS:.*]] = arith.cmpi eq, %[[UP]], %[[C3]]
  // CLEAN: %[[NEXT:.*]] = arith.select %[[WRAPS]], %[[C0]], %[[UP]]
  // CLEAN: %[[MORE:.*]] = arith.addi %[[PHASE]], %[[C1]]
  // CLEAN: %[[NEXTPHASE:.*]] = arith.select %[[WRAPS]], %[[MORE]], %[[PHASE]]
  // CHECK: scf.for
  // CHECK-NOT: {{remui|divui}}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : i32
  scf.for %i = %c0 to %n step %c1 {
    %ahead = arith.addi %i, %c1 : index
    %key = arith.addi %base, %ahead : index
    %key32 = arith.index_cast %key : index to i32
    %keySlot = arith.remui %key32, %c3 : i32
    %keyPhase = arith.divui %key32, %c3 : i32
    // CLEAN: "test.key"(%[[NEXT]], %[[NEXTPHASE]])
    "test.key"(%keySlot, %keyPhase) : (i32, i32) -> ()
    %value = arith.addi %base, %i : index
    %value32 = arith.index_cast %value : index to i32
    %valueSlot = arith.remui %value32, %c3 : i32
    %valuePhase = arith.divui %value32, %c3 : i32
    // CLEAN: "test.value"(%[[SLOT]], %[[PHASE]])
    "test.value"(%valueSlot, %valuePhase) : (i32, i32) -> ()
    // CLEAN: scf.yield %[[NEXT]], %[[NEXTPHASE]]
  }
  return
}

// -----

// The state of the loop stays, remainders alone carry no quotient, and divisions in branches count.
// CHECK-LABEL: func @state
// CLEAN-LABEL: func @state
// CLEAN: arith.remui
// CLEAN: %[[FOR:.*]]:2 = scf.for {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}, %[[SLOT:.*]] = %{{.*}}) -> (f32, i32)
// CLEAN: scf.if
// CLEAN: "test.use"(%[[SLOT]])
// CLEAN: scf.yield %{{.*}}, %{{.*}} : f32, i32
// CLEAN: return %[[FOR]]#0
func.func @state(%from: i32, %n: i32, %x: f32, %which: i1) -> f32 {
  %c1 = arith.constant 1 : i32
  %c5 = arith.constant 5 : i32
  %r = scf.for %i = %from to %n step %c1 iter_args(%sum = %x) -> (f32) : i32 {
    %next = arith.addf %sum, %x : f32
    scf.if %which {
      %slot = arith.remui %i, %c5 : i32
      "test.use"(%slot) : (i32) -> ()
    }
    scf.yield %next : f32
  }
  return %r : f32
}

// -----

// Left alone: powers of two, other steps, dividends that do not count one by one or begin below zero, uses further apart than
// the divisor.
// CHECK-LABEL: func @others
// CHECK: scf.for
// CHECK-COUNT-6: arith.remui
// CHECK-NOT: iter_args
// CHECK: scf.for
// CHECK: arith.remui
func.func @others(%n: index, %base: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %below = arith.constant -1 : index
  scf.for %i = %c0 to %n step %c1 {
    %power = arith.remui %i, %c4 : index
    %twice = arith.addi %i, %i : index
    %double = arith.remui %twice, %c3 : index
    %product = arith.muli %i, %base : index
    %scaled = arith.remui %product, %c3 : index
    %near = arith.addi %base, %i : index
    %nearSlot = arith.remui %near, %c3 : index
    %up = arith.addi %near, %c4 : index
    %farSlot = arith.remui %up, %c3 : index
    %down = arith.addi %i, %below : index
    %before = arith.addi %base, %down : index
    %beforeSlot = arith.remui %before, %c3 : index
    "test.use"(%power, %double, %scaled, %nearSlot, %farSlot, %beforeSlot) : (index, index, index, index, index, index) -> ()
  }
  scf.for %i = %c0 to %n step %c2 {
    %slot = arith.remui %i, %c3 : index
    "test.use"(%slot) : (index) -> ()
  }
  return
}
