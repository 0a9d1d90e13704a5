// Each example of the ops' documentation, as it stands there, parses, and comes back the same from both forms of text and from bytecode.
// RUN: fa2-opt %s -o %t.mlir
// RUN: fa2-opt %t.mlir | diff %t.mlir -
// RUN: fa2-opt %s --mlir-print-op-generic | fa2-opt | diff %t.mlir -
// RUN: fa2-opt %s --emit-bytecode | fa2-opt | diff %t.mlir -
// RUN: mlir-tblgen -gen-op-doc -dialect=fa2gpu %td_flags %fa2_source/include/fa2/Dialect/FA2GPU/FA2GPUOps.td | %check_examples %s
// RUN: mlir-tblgen -gen-attrdef-doc -attrdefs-dialect=fa2gpu %td_flags %fa2_source/include/fa2/Dialect/FA2GPU/FA2GPUAttrs.td | %check_examples %s
// RUN: mlir-tblgen -gen-typedef-doc -typedefs-dialect=fa2gpu %td_flags %fa2_source/include/fa2/Dialect/FA2GPU/FA2GPUOps.td | %check_examples %s

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#op = #fa2gpu.operand<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>>
#row = #fa2gpu.row<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>>
#column = #fa2gpu.column<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>>
#diagonal = #fa2gpu.diagonal<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>, rows = 64>
#lrow = #fa2gpu.row<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>, partial = lanes>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>

func.func private @attributes(!fa2gpu.ring<2 x tensor<64x128xbf16, #fa2gpu.shared>>,
                              !fa2gpu.in_flight<tensor<64x64xf32, #acc>>,
                              !fa2gpu.tensor_map,
                              !fa2.tile_range, !fa2.view<? x 128 x bf16>, !fa2.view<? x f32>, !fa2.view<4 heads, ? x 128 x bf16>,
                              !fa2.view<? x 64 x f32, order = <<4 x 2>, width = 4>>, !fa2.view<? x ? x bf16>) attributes {
  family = #fa2gpu.mma_sync, groups = #fa2gpu.wgmma, rows = #fa2gpu.lanes, shared = #fa2gpu.shared,
  panels = #fa2gpu.shared<panel = 128>, split = #fa2gpu.shared<parts = 4>, unaligned = #fa2gpu.shared<unaligned = true>, param = #fa2gpu.param<"stride", "q", 1>}

func.func @tiles(%kv: !fa2.view<? x 64 x bf16>, %ov: !fa2.view<? x 64 x bf16>, %row: index,
                 %q: tensor<128x64xbf16, #fa2gpu.shared>, %o: tensor<128x64xbf16, #acc>,
                 %slot: tensor<128x64xbf16, #fa2gpu.shared>, %p: tensor<64x64xbf16, #acc>) {
  %k = fa2gpu.load %kv[%row] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16, #fa2gpu.shared>
  %qr = fa2gpu.local_load %q : tensor<128x64xbf16, #fa2gpu.shared> -> tensor<128x64xbf16, #op>
  fa2gpu.local_store %o, %slot : tensor<128x64xbf16, #acc>, tensor<128x64xbf16, #fa2gpu.shared>
  %pb = fa2gpu.convert_layout %p : tensor<64x64xbf16, #acc> -> tensor<64x64xbf16, #op>
  return
}

func.func @joined(%a: tensor<64x32xf32, #acc>, %b: tensor<64x32xf32, #acc>) {
  %p = fa2gpu.join %a, %b : tensor<64x32xf32, #acc>, tensor<64x32xf32, #acc> -> tensor<64x64xf32, #acc>
  return
}

func.func @unaligned(%bv: !fa2.view<? x ? x bf16>, %row: index, %col: index, %t: tensor<128x64xbf16, #fa2gpu.shared<unaligned = true>>) {
  %x = fa2gpu.local_load %t of %bv[%row, %col] : !fa2.view<? x ? x bf16> : tensor<128x64xbf16, #fa2gpu.shared<unaligned = true>> -> tensor<128x64xbf16, #acc>
  return
}

func.func @turns(%turns: !fa2.view<? x i32>, %before: index, %row: index, %first: i1) {
  %seen = fa2gpu.change_turn %turns past %before next %row from %first : !fa2.view<? x i32> -> i32
  fa2gpu.change_turn %turns past %row : !fa2.view<? x i32>
  return
}

func.func @turns_ahead(%turns: !fa2.view<? x i32>, %row: index, %turn: index, %step: index, %seen: i32, %come: tensor<1xi32>) {
  %next = fa2gpu.await_turn %turns[%row by %step] until %turn seen(%seen) tells %come {at_least} : !fa2.view<? x i32>, tensor<1xi32>
  return
}

func.func @exchange(%x: tensor<128x64xbf16, #acc>) {
  %ds = fa2gpu.share %x : tensor<128x64xbf16, #acc> -> tensor<128x64xbf16, #fa2gpu.shared>
  return
}

func.func @peers(%ds: tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>, %n: index) {
  %other = fa2gpu.exchange %ds : tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>
  %r = fa2gpu.ring.create {name = "peer", peer} : !fa2gpu.ring<1 x tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>>
  %slot, %next = fa2gpu.ring.acquire %r[%n] : !fa2gpu.ring<1 x tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>> -> tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>
  fa2gpu.peer_copy %ds, %slot signal %r[%n] : tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>, !fa2gpu.ring<1 x tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>>
  return
}

func.func @copy_out_from(%slot: tensor<64x128xbf16, #fa2gpu.shared<panel = 128>>, %ov: !fa2.view<? x ? x bf16>, %row: index, %column: index) {
  fa2gpu.copy_out %slot, %ov[%row, %column] : tensor<64x128xbf16, #fa2gpu.shared<panel = 128>>, !fa2.view<? x ? x bf16>
  return
}

func.func @copy_out(%slot: tensor<64x64xbf16, #fa2gpu.shared>, %ov: !fa2.view<? x 64 x bf16>, %row: index) {
  fa2gpu.copy_out %slot, %ov[%row] : tensor<64x64xbf16, #fa2gpu.shared>, !fa2.view<? x 64 x bf16>
  fa2gpu.copy_commit
  fa2gpu.copy_wait 1
  fa2gpu.barrier
  return
}

func.func @products(%q: tensor<64x64xbf16, #fa2gpu.shared>, %k: tensor<64x64xbf16, #fa2gpu.shared>) {
  %f = fa2gpu.dot_start %q, %k {transpose_b}
      : tensor<64x64xbf16, #fa2gpu.shared>, tensor<64x64xbf16, #fa2gpu.shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #acc>
  return
}

func.func @later_begins() {
  fa2gpu.dot_fence 1
  return
}

func.func @rings(%kv: !fa2.view<? x 64 x bf16>, %row: index, %n: index, %m: index) {
  %r = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>
  %w, %n1 = fa2gpu.ring.acquire %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>> -> tensor<64x64xbf16, #fa2gpu.shared>
  fa2gpu.copy %kv[%row], %w : !fa2.view<? x 64 x bf16>, tensor<64x64xbf16, #fa2gpu.shared>
  fa2gpu.ring.commit %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>
  %k, %m1 = fa2gpu.ring.wait %r[%m] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>> -> tensor<64x64xbf16, #fa2gpu.shared>
  fa2gpu.ring.release %r[%m] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>
  return
}

func.func @slot(%r: !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>, %n: index) {
  %k = fa2gpu.ring.slot %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>> -> tensor<64x64xbf16, #fa2gpu.shared>
  return
}

func.func @tensor_maps(%k: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %row: index, %head: index, %batch: index, %n: index,
                       %r: !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>>,
                       %slot: tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>) {
  %m = fa2gpu.tensor_map %k rows 64 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  fa2gpu.tensor_map_prefetch %m
  fa2gpu.tensor_copy %m[%row, %head, %batch], %slot signal %r[%n] : tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>, !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>>
  return
}

func.func @bulk_copy(%n: !fa2.view<? x f32>, %row: index, %slot: tensor<64xf32, #fa2gpu.shared>,
                     %r: !fa2gpu.ring<2 x tensor<64xf32, #fa2gpu.shared>>, %use: index) {
  fa2gpu.bulk_copy %n[%row], %slot signal %r[%use] : !fa2.view<? x f32>, tensor<64xf32, #fa2gpu.shared>, !fa2gpu.ring<2 x tensor<64xf32, #fa2gpu.shared>>
  fa2gpu.role_barrier
  return
}

func.func @tensor_store(%m: !fa2gpu.tensor_map, %row: index, %head: index, %batch: index,
                        %slot: tensor<128x64xbf16, #fa2gpu.shared<panel = 128>>) {
  fa2gpu.proxy_fence
  fa2gpu.group_barrier
  fa2gpu.warp_barrier
  fa2gpu.tensor_store %slot, %m[%row, %head, %batch] : tensor<128x64xbf16, #fa2gpu.shared<panel = 128>>
  fa2gpu.store_wait
  return
}

func.func @roles(%first: index, %rows: index, %heads: index, %batches: index, %tiles: !fa2gpu.ring<2 x tensor<1xi32>>,
                 %r: !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>) {
  fa2gpu.ring.init %r consumers 8 : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    %g = fa2gpu.warpgroup
    fa2gpu.turn_wait of 2
    fa2gpu.turn_pass of 2
  } @producer(4 warps, 24 registers, one thread) {
    fa2gpu.tile_loop(%rows by 128, %heads, %batches) order ascending queue %tiles draws carries(%first) {
    ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %use: index):
      %next = arith.addi %use, %visit : index
      fa2gpu.tile_yield %next
    } : !fa2gpu.ring<2 x tensor<1xi32>>
  }
  return
}

func.func @chain() {
  fa2gpu.chain_pass
  fa2gpu.chain_wait
  return
}

func.func @softmax(%s: tensor<128x64xf32, #acc>, %alpha: tensor<128xf32, #row>, %m: tensor<128xf32, #row>,
                   %l: tensor<128xf32, #lrow>, %c: f32) {
  %any = fa2gpu.needs_rescale %alpha after %l : tensor<128xf32, #row>, tensor<128xf32, #lrow>
  %p, %sum = fa2gpu.softmax_speculate %s, %m scale %c : tensor<128x64xf32, #acc>, tensor<128xf32, #row> -> tensor<128xf32, #lrow>
  %p_alone = fa2gpu.softmax_speculate %s, %m scale %c : tensor<128x64xf32, #acc>, tensor<128xf32, #row>
  %p_of, %sum_of = fa2gpu.softmax_speculate %s scale %c : tensor<128x64xf32, #acc> -> tensor<128xf32, #lrow>
  %sums = fa2gpu.lane_sums %p_alone : tensor<128x64xf32, #acc> -> tensor<128xf32, #lrow>
  %grew = fa2gpu.exceeds %sum above 60 : tensor<128xf32, #lrow>
  %m1, %a = fa2gpu.softmax_rebase %m, %sum scale %c above 60 : tensor<128xf32, #row>, tensor<128xf32, #lrow>
  %m2, %a2 = fa2gpu.softmax_rebase %m, %sum from %s scale %c above 100 : tensor<128xf32, #row>, tensor<128xf32, #lrow>, tensor<128x64xf32, #acc>
  %inv, %lse = fa2gpu.normalizer %m, %l scale %c : tensor<128xf32, #row>, tensor<128xf32, #lrow>
      -> tensor<128xf32, #row>, tensor<128xf32, #row>
  return
}

func.func @split_k(%o: tensor<16x64xf32, #acc>, %m: tensor<16xf32, #row>, %l: tensor<16xf32, #lrow>, %c: f32,
                   %r: !fa2gpu.ring<1 x tensor<64x64xf32, #fa2gpu.shared>>) {
  %o1, %m1, %l1 = fa2gpu.combine_splits %o, %m, %l scale %c scratch %r : tensor<16x64xf32, #acc>, tensor<16xf32, #row>, tensor<16xf32, #lrow>, !fa2gpu.ring<1 x tensor<64x64xf32, #fa2gpu.shared>>
      -> tensor<16x64xf32, #acc>, tensor<16xf32, #row>, tensor<16xf32, #row>
  return
}

fa2gpu.launch @attention::@attention_fwd grid ["ceildiv(seqlen_q, 128)", "1", "1"] block 128 shared 49152
    spec #spec schedule #schedule arguments [] parameters [] {when = #fa2.guard<"seqlen_k <= 1024">}

fa2.kernel @planned(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>],
                fa2gpu.plan = #fa2gpu.plan<roles = [#fa2gpu.role<"rows", 8 warps, 240 registers>, #fa2gpu.role<"copy", 4 warps, 24 registers>]>} {
  fa2.return
}

fa2.kernel @planned_by_grid(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>],
                fa2gpu.plan = #fa2gpu.plan<copies = threads, tiles = grid, rings = {k = 2, q = 1}>} {
  fa2.return
}

func.func @ordered(%from: index, %to: index, %step: index) {
  scf.for %i = %from to %to step %step {
  } {fa2gpu.order = #fa2gpu.order<"s o'", 2 in flight>}
  return
}
