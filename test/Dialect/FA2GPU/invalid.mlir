// RUN: fa2-opt %s -split-input-file -verify-diagnostics -o /dev/null

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#other = #fa2gpu.operand<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 4]>>
func.func @moves(%p: tensor<64x64xf16, #acc>) {
  // expected-error @+1 {{expected element (16, 0) to stay in warp 0, lane 0 because the conversion only renames registers}}
  %x = fa2gpu.convert_layout %p : tensor<64x64xf16, #acc> -> tensor<64x64xf16, #other>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#two = #fa2gpu.operand<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [2, 1]>>
func.func @warps(%p: tensor<64x64xf16, #acc>) {
  // expected-error @+1 {{expected layouts over the same warps}}
  %x = fa2gpu.convert_layout %p : tensor<64x64xf16, #acc> -> tensor<64x64xf16, #two>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
func.func @not_registers(%p: tensor<64x64xf16, #acc>) {
  // expected-error @+1 {{expected two layouts in registers}}
  %x = fa2gpu.convert_layout %p : tensor<64x64xf16, #acc> -> tensor<64x64xf16, #fa2gpu.shared>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
func.func @shape(%p: tensor<64x64xf16, #acc>) {
  // expected-error @+1 {{expected the same shape and element type}}
  %x = fa2gpu.convert_layout %p : tensor<64x64xf16, #acc> -> tensor<64x64xbf16, #acc>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
func.func @inner(%a: tensor<64x32xf16, #fa2gpu.shared>, %b: tensor<64x64xf16, #fa2gpu.shared>) {
  // expected-error @+1 {{expected 64x64 by 64x64}}
  %d = fa2gpu.dot_start %a, %b {transpose_b} : tensor<64x32xf16, #fa2gpu.shared>, tensor<64x64xf16, #fa2gpu.shared>
      -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

func.func @no_layout(%a: tensor<64x64xf16, #fa2gpu.shared>) {
  // expected-error @+1 {{expected a result in an accumulator layout}}
  %d = fa2gpu.dot_start %a, %a : tensor<64x64xf16, #fa2gpu.shared>, tensor<64x64xf16, #fa2gpu.shared>
      -> !fa2gpu.in_flight<tensor<64x64xf32>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
func.func @b_in_registers(%a: tensor<64x64xf16, #fa2gpu.shared>, %b: tensor<64x64xf16, #fa2gpu.operand<#acc>>) {
  // expected-error @+1 {{expected b in shared memory}}
  %d = fa2gpu.dot_start %a, %b : tensor<64x64xf16, #fa2gpu.shared>, tensor<64x64xf16, #fa2gpu.operand<#acc>>
      -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
func.func @a_accumulator(%a: tensor<64x64xf16, #acc>, %b: tensor<64x64xf16, #fa2gpu.shared>) {
  // expected-error @+1 {{expected a in shared memory or operand registers}}
  %d = fa2gpu.dot_start %a, %b : tensor<64x64xf16, #acc>, tensor<64x64xf16, #fa2gpu.shared>
      -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
func.func @accumulator(%a: tensor<64x64xf16, #fa2gpu.shared>, %c: tensor<64x64xf32>) {
  // expected-error @+1 {{expected acc to have the result's type}}
  %d = fa2gpu.dot_start %a, %a acc(%c : tensor<64x64xf32>) : tensor<64x64xf16, #fa2gpu.shared>, tensor<64x64xf16, #fa2gpu.shared>
      -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

func.func @carries_more(%n: index, %tiles: !fa2gpu.ring<2 x tensor<1xi32>>) {
  // expected-error @+1 {{expected a body of tile, head, batch, visit and 1 carried cursors, all of which it yields}}
  fa2gpu.tile_loop(%n by 128, %n, %n) order ascending queue %tiles carries(%n) {
  ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %use: index):
    fa2gpu.tile_yield
  } : !fa2gpu.ring<2 x tensor<1xi32>>
  return
}

// -----

func.func @yields_nothing(%n: index) {
  // expected-error @+1 {{'fa2gpu.tile_yield' op expects parent op 'fa2gpu.tile_loop'}}
  fa2gpu.tile_yield %n
}

// -----

func.func @role_without_program() {
  // expected-error @+1 {{'fa2gpu.roles' op region #1 ('programs') failed to verify constraint: region with 1 blocks}}
  "fa2gpu.roles"() <{names = ["a", "b"], warps = array<i64: 8, 4>, registers = array<i64: 240, 24>, one_thread = array<i1: false, false>}> ({
    fa2gpu.group_barrier
  }, {
  }) : () -> ()
  return
}

// -----

func.func @one_role() {
  // expected-error @+1 {{'fa2gpu.roles' op expected two roles or more, got 1}}
  fa2gpu.roles @all(8 warps, 240 registers) { }
  return
}

// -----

func.func @role_without_registers() {
  // expected-error @+1 {{'fa2gpu.roles' op expected a name, warps and registers of each of 2 roles}}
  "fa2gpu.roles"() <{names = ["a", "b"], warps = array<i64: 8, 4>, registers = array<i64: 240>, one_thread = array<i1: false, false>}> ({
    fa2gpu.group_barrier
  }, {
    fa2gpu.group_barrier
  }) : () -> ()
  return
}

// -----

func.func @role_twice() {
  // expected-error @+1 {{'fa2gpu.roles' op expected roles of different names, got 'rows' twice}}
  fa2gpu.roles @rows(8 warps, 240 registers) { } @rows(4 warps, 24 registers) { }
  return
}

// -----

func.func @half_a_warpgroup() {
  // expected-error @+1 {{'fa2gpu.roles' op expected roles of whole warpgroups of 4 warps together, got 9}}
  fa2gpu.roles @rows(8 warps, 240 registers) { } @copy(1 warps, 24 registers) { }
  return
}

// -----

func.func @over_two_warpgroups() {
  // expected-error @+1 {{'fa2gpu.roles' op expected whole warpgroups of 4 warps, or part of one, because they have registers together, got role 'copy' of 4 behind 6}}
  fa2gpu.roles @rows(4 warps, 240 registers) { } @looks(2 warps, 24 registers) { } @copy(4 warps, 24 registers) { } @rest(2 warps, 24 registers) { }
  return
}

// -----

func.func @registers_of_a_warpgroup() {
  // expected-error @+1 {{'fa2gpu.roles' op expected roles that share a warpgroup to have as many registers, got 24 and 32}}
  fa2gpu.roles @rows(4 warps, 240 registers) { } @looks(2 warps, 24 registers) { } @copy(2 warps, 32 registers) { }
  return
}

// -----

func.func @no_warps() {
  // expected-error @+1 {{'fa2gpu.roles' op expected a warp or more, got role 'looks' of 0}}
  fa2gpu.roles @rows(4 warps, 240 registers) { } @looks(0 warps, 24 registers) { }
  return
}

// -----

// Warps of mma.sync are counted along the rows first, those of a warpgroup down.
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 2]>
#other = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 2]>
func.func @numbered(%p: tensor<64x64xf16, #acc>) {
  // expected-error @+1 {{expected warp 1 to have the same part of the tile in both}}
  %x = fa2gpu.convert_layout %p : tensor<64x64xf16, #acc> -> tensor<64x64xf16, #other>
  return
}

// -----

// expected-error @+1 {{constraint 1: expected groups = [down, across], each at least 1, got [4]}}
func.func private @one_number() attributes {a = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4]>}

// -----

// expected-error @+1 {{constraint 2: expected split_k at least 1, and 1 of #fa2gpu.wgmma, got 2}}
func.func private @private_groups() attributes {a = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1], split_k = 2>}

// -----

// What a warpgroup's instruction does, by name. Eight warps are two groups of 64 rows, or of one's columns.
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
func.func @rows(%a: tensor<64x64xbf16, #shared>, %b: tensor<64x64xbf16, #shared>) {
  // expected-error @+1 {{expected 64 rows a warpgroup, 128 in all, got 64 because #fa2gpu.wgmma multiplies}}
  %f = fa2gpu.dot_start %a, %b : tensor<64x64xbf16, #shared>, tensor<64x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

#shared = #fa2gpu.shared<panel = 128>
func.func @across(%t: tensor<64x192xbf16, #shared>, %x: memref<?x?x?x192xbf16, strided<[?, ?, ?, 1]>>, %n: index) {
  %m = fa2gpu.tensor_map %x rows 64 : memref<?x?x?x192xbf16, strided<[?, ?, ?, 1]>>
  // expected-error @+1 {{expected across to be at least 1, got 0}}
  fa2gpu.tensor_store %t, %m[%n, %n, %n] {across = 0 : i64} : tensor<64x192xbf16, #shared>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 2]>
#shared = #fa2gpu.shared<panel = 128>
func.func @columns(%a: tensor<64x64xbf16, #shared>, %b: tensor<64x192xbf16, #shared>) {
  // expected-error @+1 {{expected 256 columns of b for 2 warpgroups, 128 each, got 192}}
  %f = fa2gpu.dot_start %a, %b : tensor<64x64xbf16, #shared>, tensor<64x192xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x192xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared
func.func @panels(%a: tensor<64x64xbf16, #shared>, %b: tensor<64x64xbf16, #shared>) {
  // expected-error @+1 {{expected tiles in panels of 128 bytes in shared memory, got tensor<64x64xbf16, #fa2gpu.shared>}}
  %f = fa2gpu.dot_start %a, %b : tensor<64x64xbf16, #shared>, tensor<64x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
func.func @steps(%a: tensor<40x64xbf16, #shared>, %b: tensor<40x64xbf16, #shared>) {
  // expected-error @+1 {{expected a reduced dimension in steps of 16, got 40}}
  %f = fa2gpu.dot_start %a, %b {transpose_a} : tensor<40x64xbf16, #shared>, tensor<40x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
func.func @stored_panels(%a: tensor<64x64xbf16, #acc>, %b: tensor<64x64xbf16, #fa2gpu.shared>) {
  // expected-error @+1 {{expected a slot in panels of 128 bytes because #fa2gpu.wgmma stores by stmatrix, got 'tensor<64x64xbf16, #fa2gpu.shared>'}}
  fa2gpu.local_store %a, %b : tensor<64x64xbf16, #acc>, tensor<64x64xbf16, #fa2gpu.shared>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
func.func @stored_shape(%a: tensor<64x64xbf16, #acc>, %b: tensor<64x32xbf16, #fa2gpu.shared>) {
  // expected-error @+1 {{expected a slot in shared memory for}}
  fa2gpu.local_store %a, %b : tensor<64x64xbf16, #acc>, tensor<64x32xbf16, #fa2gpu.shared>
  return
}

// -----

// Each of two groups side by side needs all rows of A; registers hold them once.
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 2]>
#op = #fa2gpu.operand<#acc>
#shared = #fa2gpu.shared<panel = 128>
func.func @registers(%a: tensor<64x64xbf16, #op>, %b: tensor<64x128xbf16, #shared>) {
  // expected-error @+1 {{expected a in registers of the warps that have its rows of the result}}
  %f = fa2gpu.dot_start %a, %b : tensor<64x64xbf16, #op>, tensor<64x128xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x128xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 3]>
#shared = #fa2gpu.shared<panel = 128>
func.func @columns_further_on(%a: tensor<64x64xbf16, #shared>, %b: tensor<64x64xbf16, #shared>) {
  // expected-error @+1 {{expected 48 columns of b from column 32 on, 16 for each of 3 warpgroups, got 64 in all}}
  %f = fa2gpu.dot_start %a, %b {first_column = 32 : i64} : tensor<64x64xbf16, #shared>, tensor<64x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x32xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
func.func @rows_between_atoms(%a: tensor<64x64xbf16, #shared>, %b: tensor<64x64xbf16, #shared>) {
  // expected-error @+1 {{expected 64x64 by 64x64, got}}
  %f = fa2gpu.dot_start %a, %b {transpose_b, first_column = 4 : i64} : tensor<64x64xbf16, #shared>, tensor<64x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x32xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
func.func @joins_with_an_accumulator(%a: tensor<64x64xbf16, #shared>, %b: tensor<64x64xbf16, #shared>, %c: tensor<64x64xf32, #acc>) {
  %e = fa2gpu.dot_start %a, %b : tensor<64x64xbf16, #shared>, tensor<64x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  // expected-error @+1 {{expected no registers that are read where a product joins the one before}}
  %f = fa2gpu.dot_start %a, %b acc(%c : tensor<64x64xf32, #acc>) {joins} : tensor<64x64xbf16, #shared>, tensor<64x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
func.func @joins_nothing(%a: tensor<64x64xbf16, #shared>, %b: tensor<64x64xbf16, #shared>) {
  // expected-error @+1 {{expected the product that it joins right before it}}
  %f = fa2gpu.dot_start %a, %b {joins} : tensor<64x64xbf16, #shared>, tensor<64x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
func.func @join_of_more(%a: tensor<64x32xf32, #acc>, %b: tensor<64x24xf32, #acc>) {
  // expected-error @+1 {{expected accumulators of one layout, whose columns, multiples of 8, add up; got}}
  %x = fa2gpu.join %a, %b : tensor<64x32xf32, #acc>, tensor<64x24xf32, #acc> -> tensor<64x64xf32, #acc>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#op = #fa2gpu.operand<#acc>
func.func @transposed_registers(%a: tensor<64x64xbf16, #op>, %b: tensor<64x64xbf16, #fa2gpu.shared>) {
  // expected-error @+1 {{expected a in shared memory because it is transposed}}
  %f = fa2gpu.dot_start %a, %b {transpose_a} : tensor<64x64xbf16, #op>, tensor<64x64xbf16, #fa2gpu.shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

// Packed heads are the map's: a copy that took others would fill other rows.
func.func @packed_copy(%k: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %row: index, %n: index,
                       %r: !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>>,
                       %slot: tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>) {
  %m = fa2gpu.tensor_map %k rows 64 {heads = 4 : i64} : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  // expected-error @+1 {{expected heads = 4, as its map has, got 1}}
  fa2gpu.tensor_copy %m[%row, %row, %row], %slot signal %r[%n] : tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>, !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>>
  return
}

// -----

// A box has the rows of each head in one piece: products want them in 64 rows.
func.func @packed_rows(%k: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %row: index, %n: index,
                       %r: !fa2gpu.ring<2 x tensor<128x64xbf16, #fa2gpu.shared<panel = 128>>>,
                       %slot: tensor<128x64xbf16, #fa2gpu.shared<panel = 128>>) {
  %m = fa2gpu.tensor_map %k rows 128 {heads = 2 : i64} : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  // expected-error @+1 {{expected a ring whose parts have 64 rows, of 2 heads, got 128}}
  fa2gpu.tensor_copy %m[%row, %row, %row], %slot signal %r[%n] {heads = 2 : i64} : tensor<128x64xbf16, #fa2gpu.shared<panel = 128>>, !fa2gpu.ring<2 x tensor<128x64xbf16, #fa2gpu.shared<panel = 128>>>
  return
}

// -----

func.func @packed_store(%k: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %row: index,
                        %slot: tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>) {
  %m = fa2gpu.tensor_map %k rows 64 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  // expected-error @+1 {{expected heads = 1, as its map has, got 2}}
  fa2gpu.tensor_store %slot, %m[%row, %row, %row] {heads = 2 : i64} : tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>
  return
}

// -----

func.func @twice(%from: index, %to: index, %step: index) {
  scf.for %i = %from to %to step %step {
  // expected-error @+1 {{expected names of products with a blank between them, each once, got "s s'"}}
  } {fa2gpu.order = #fa2gpu.order<"s s'", 2 in flight>}
  return
}

// -----

func.func @alone(%from: index, %to: index, %step: index) {
  scf.for %i = %from to %to step %step {
  // expected-error @+1 {{expected two products or more, and one in flight or more, got "s" and 2}}
  } {fa2gpu.order = #fa2gpu.order<"s", 2 in flight>}
  return
}

// -----

func.func @open_bracket(%from: index, %to: index, %step: index) {
  scf.for %i = %from to %to step %step {
  // expected-error @+1 {{expected a bracket behind dp}}
  } {fa2gpu.order = #fa2gpu.order<"(dp s dp", 2 in flight>}
  return
}

// -----

func.func @begins_behind(%from: index, %to: index, %step: index) {
  scf.for %i = %from to %to step %step {
  // expected-error @+1 {{expected o, which begins early, to be a product of this tile, got "(o) s o'"}}
  } {fa2gpu.order = #fa2gpu.order<"(o) s o'", 2 in flight>}
  return
}

// -----

// expected-error @+1 {{expected fa2gpu.plan, of #fa2gpu.plan, on a kernel, fa2gpu.role, or fa2gpu.order on a loop, got fa2gpu.order}}
func.func @no_loop() attributes {fa2gpu.order = #fa2gpu.order<"s o'", 2 in flight>} {
  return
}

// -----

// Only a ring that says so is filled from another block.
!tile = tensor<64x64xf16, #fa2gpu.shared<panel = 128>>
func.func @no_peer(%ds: !tile, %n: index) {
  %r = fa2gpu.ring.create {name = "ds"} : !fa2gpu.ring<1 x !tile>
  %slot, %next = fa2gpu.ring.acquire %r[%n] : !fa2gpu.ring<1 x !tile> -> !tile
  // expected-error @+1 {{'fa2gpu.peer_copy' op expected a ring that the cluster's other block fills, which has 'peer'}}
  fa2gpu.peer_copy %ds, %slot signal %r[%n] : !tile, !fa2gpu.ring<1 x !tile>
  return
}

// -----

!tile = tensor<64x64xf16, #fa2gpu.shared<panel = 128>>
!wide = tensor<64x128xf16, #fa2gpu.shared<panel = 128>>
func.func @other_tile(%ds: !wide, %n: index) {
  %r = fa2gpu.ring.create {name = "peer", peer} : !fa2gpu.ring<1 x !tile>
  // expected-error @+1 {{'fa2gpu.peer_copy' op expected a tile of ring 'peer', 'tensor<64x64xf16, #fa2gpu.shared<panel = 128>>', got 'tensor<64x128xf16, #fa2gpu.shared<panel = 128>>'}}
  fa2gpu.peer_copy %ds, %ds signal %r[%n] : !wide, !fa2gpu.ring<1 x !tile>
  return
}

// -----

!tile = tensor<64x64xf16, #fa2gpu.shared<panel = 128>>
func.func @unknown_ring(%ds: !tile, %slot: !tile, %r: !fa2gpu.ring<1 x !tile>, %n: index) {
  // expected-error @+1 {{'fa2gpu.peer_copy' op expected a ring that the cluster's other block fills, which has 'peer'}}
  fa2gpu.peer_copy %ds, %slot signal %r[%n] : !tile, !fa2gpu.ring<1 x !tile>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
!tile = tensor<64x64xf16, #fa2gpu.shared<panel = 128>>
func.func @column_of_transposed(%a: !tile, %n: index) {
  // expected-error @+1 {{'fa2gpu.dot_start' op expected 64x64 by 64x64}}
  %f = fa2gpu.dot_start %a, %a from %n {transpose_b} : !tile, !tile -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
!tile = tensor<64x64xf16, #fa2gpu.shared>
func.func @column_of_mma(%a: !tile, %n: index) {
  // expected-error @+1 {{expected first_column = 0, no other column, all rows and no clears because #fa2gpu.mma_sync multiplies, got 0 and 64 of 64 rows}}
  %f = fa2gpu.dot_start %a, %a from %n : !tile, !tile -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

func.func @adds_twice(%from: index, %to: index, %step: index) {
  scf.for %i = %from to %to step %step {
  // expected-error @+1 {{expected names of products with a blank between them, each once, got "dq+ dq'+"}}
  } {fa2gpu.order = #fa2gpu.order<"dq+ dq'+", 2 in flight>}
  return
}

// -----

func.func @adds_nothing(%from: index, %to: index, %step: index) {
  scf.for %i = %from to %to step %step {
  // expected-error @+1 {{expected names of products with a blank between them, each once, got "s +"}}
  } {fa2gpu.order = #fa2gpu.order<"s +", 2 in flight>}
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
func.func @unaligned_of_nothing(%t: tensor<64x64xbf16, #fa2gpu.shared<unaligned = true>>) {
  // expected-error @+1 {{expected a view of an unaligned tile, as it lies, and of no other, got 'tensor<64x64xbf16, #fa2gpu.shared<unaligned = true>>'}}
  %x = fa2gpu.local_load %t : tensor<64x64xbf16, #fa2gpu.shared<unaligned = true>> -> tensor<64x64xbf16, #acc>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
func.func @aligned_of_a_view(%t: tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>, %v: !fa2.view<? x ? x bf16>, %n: index) {
  // expected-error @+1 {{expected a view of an unaligned tile, as it lies, and of no other, got 'tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>' of a view}}
  %x = fa2gpu.local_load %t of %v[%n, %n] : !fa2.view<? x ? x bf16> : tensor<64x64xbf16, #fa2gpu.shared<panel = 128>> -> tensor<64x64xbf16, #acc>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
func.func @unaligned_turned(%t: tensor<64x64xbf16, #fa2gpu.shared<unaligned = true>>, %v: !fa2.view<? x ? x bf16>, %n: index) {
  // expected-error @+1 {{expected a view of an unaligned tile, as it lies, and of no other, got 'tensor<64x64xbf16, #fa2gpu.shared<unaligned = true>>' of a view, transposed}}
  %x = fa2gpu.local_load %t of %v[%n, %n] : !fa2.view<? x ? x bf16> {transposed} : tensor<64x64xbf16, #fa2gpu.shared<unaligned = true>> -> tensor<64x64xbf16, #acc>
  return
}

// -----

func.func @aligned_with_a_column(%t: tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>, %v: !fa2.view<? x ? x bf16>, %n: index) {
  // expected-error @+1 {{expected a column and a turn of an unaligned tile, and of no other, got 'tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>' with a column}}
  fa2gpu.copy %v[%n, %n], %t : !fa2.view<? x ? x bf16>, tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>
  return
}

// -----

func.func @look_without_result(%turns: !fa2.view<? x i32>, %row: index) {
  // expected-error @+1 {{expected a result where it looks for the next turn, and there alone}}
  fa2gpu.change_turn %turns past %row next %row : !fa2.view<? x i32>
  return
}

// -----

func.func @awaited_turns_of_f32(%turns: !fa2.view<? x f32>, %row: index, %seen: i32, %come: tensor<1xi32>) {
  // expected-error @+1 {{expected turns of i32, a vector of them, got '!fa2.view<? x f32>'}}
  %next = fa2gpu.await_turn %turns[%row by %row] until %row seen(%seen) tells %come : !fa2.view<? x f32>, tensor<1xi32>
  return
}

// -----

func.func @turns_of_f32(%turns: !fa2.view<? x f32>, %row: index) {
  // expected-error @+1 {{expected turns of i32, a vector of them, got '!fa2.view<? x f32>'}}
  fa2gpu.change_turn %turns past %row : !fa2.view<? x f32>
  return
}

// -----

// Both groups need all of the columns that are held.
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 2]>
#op = #fa2gpu.operand<#acc>
#shared = #fa2gpu.shared<panel = 128>
func.func @held(%a: tensor<64x64xbf16, #shared>, %b: tensor<64x64xbf16, #shared>, %h: tensor<64x32xbf16, #op>) {
  // expected-error @+1 {{expected 64 rows and a multiple of 16, at most 64, of columns to be held as an operand of #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 2]>, whole where one row of warpgroups shares its columns; got}}
  %f = fa2gpu.dot_start %a, %b held(%h : tensor<64x32xbf16, #op>) {transpose_b} : tensor<64x64xbf16, #shared>, tensor<64x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#op = #fa2gpu.operand<#acc>
func.func @held_by_warps(%a: tensor<64x64xbf16, #fa2gpu.shared>, %h: tensor<64x32xbf16, #op>) {
  // expected-error @+1 {{expected columns to be held of an a in shared memory that is not transposed, by an asynchronous product that joins no other; got}}
  %f = fa2gpu.dot_start %a, %a held(%h : tensor<64x32xbf16, #op>) {transpose_b} : tensor<64x64xbf16, #fa2gpu.shared>, tensor<64x64xbf16, #fa2gpu.shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return
}
