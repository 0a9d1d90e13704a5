// A kernel with roles that keeps every rule, and what is said of it with one operation gone, twice, changed or moved.
// RUN: fa2-opt %s --fa2gpu-verify | FileCheck %s --check-prefix=OK
// OK: fa2.kernel @roles

// DEFINE: %{tag} = none
// DEFINE: %{edit} = d
// DEFINE: %{prefix} = NONE
// DEFINE: %{try} = sed '/@%{tag}$/%{edit}' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=%{prefix}

// Uses of rings: each released once on every path, by the one who holds it, and read by nobody else.
// REDEFINE: %{tag} = release-k
// REDEFINE: %{prefix} = LEAK
// RUN: %{try}
// LEAK: 'fa2gpu.ring.wait' op expected this use of ring 'k' to be released on every path, or on none
// LEAK: note: paths that differ from one iteration of this loop to the next
// What is waited for comes when its slot is free: not while the one who waits holds that. An order that multiplies a tile of queries beside the next one has no use for one slot.
// RUN: sed 's/x64x/x256x/g' %S/choose-order.mlir | fa2-opt --fa2-pipeline="target=sm_90a database=none pass=backward stop-after=fa2gpu-chain-kernels" | sed 's/<2 x tensor<64x256xbf16/<1 x tensor<64x256xbf16/g' | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=EVER
// EVER: 'fa2gpu.ring.wait' op expected the use of ring 'q' that is held to be released before: of 1 slots it has the one into which this use would come, never
// EVER: note: held since here
// Lane 0 releases for its warp, and commits what all its lanes wrote: a release does not stand between a write and its commit, unless lanes have met.
// RUN: sed 's/x64x/x256x/g' %S/choose-order.mlir | fa2-opt --fa2-pipeline="target=sm_90a database=none pass=backward stop-after=fa2gpu-chain-kernels" -o %t.pair.mlir
// RUN: awk '/local_store/ && ++n == 2 {print; held=1; next} held && /dot_wait .*64x256xf32/ {print; getline; print; sub(/^\n/,"",kept); print kept; held=0; next} held {kept=kept "\n" $0; next} {print}' %t.pair.mlir > %t.amid.mlir
// RUN: not fa2-opt %t.amid.mlir --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=AMID
// RUN: awk '/local_store/ && ++n == 2 {print; print "fa2gpu.warp_barrier"; next} {print}' %t.amid.mlir | fa2-opt --fa2gpu-verify -o /dev/null
// AMID: 'fa2gpu.ring.release' op expected fa2gpu.ring.commit or fa2gpu.warp_barrier before because lanes wrote ring 'exchange', and one of them releases ring 'exchange' for all
// AMID: note: acquired here
// REDEFINE: %{edit} = p
// REDEFINE: %{prefix} = TWICE
// RUN: %{try}
// TWICE: 'fa2gpu.ring.release' op expected a use of ring 'k' that is waited for and not yet released
// TWICE: note: the same use ends here
// RUN: sed -e '/@release-k$/d' -e 's#// @cold$#\n fa2gpu.ring.release %%rk[%%u] : !kring#' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=ARM
// ARM: 'fa2gpu.ring.wait' op expected this use of ring 'k' to be released on every path, or on none
// ARM: note: paths that differ meet behind this branch
// RUN: sed -e '/@release-q$/d' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=TILE
// TILE: 'fa2gpu.ring.wait' op expected this use of ring 'q' to be released before the tile ends
// RUN: sed -e 's#// @after$#\n %%late = fa2gpu.dot_start %%p, %%v : !op, !kt -> !fa2gpu.in_flight<!acc>#' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: 'fa2gpu.dot_start' op expected a tile of ring 'v' that has not been released
// LATE: note: waited for here
// RUN: sed -e 's#// @copying$#\n %%early = fa2gpu.local_load %%ks : !kt -> !op#' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: 'fa2gpu.local_load' op expected a tile of ring 'k' that was waited for, got one that is being written
// RUN: sed -e 's/, %%v_next = fa2gpu.ring.wait %%rv/ = fa2gpu.ring.slot %%rv/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=UNWAITED
// UNWAITED: 'fa2gpu.ring.slot' op expected fa2gpu.ring.wait or fa2gpu.ring.acquire of this use before because roles share ring 'v'
// RUN: sed -e 's#// @after$#\n %%again = fa2gpu.ring.slot %%rv[%%u] : !kring -> !kt#' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=UNWAITED

// The roles agree on the uses, in their order and their number.
// RUN: sed -e 's/ring.wait %%rv\[%%u\]/ring.wait %%rv[%%u1]/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: 'scf.for' op expected as many uses of ring 'v' on every path at this loop's first iteration, got 1 more
// RUN: sed -e 's/ring.wait %%rq\[%%visit\]/ring.wait %%rq[%%later]/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=SKIP
// SKIP: 'fa2gpu.ring.wait' op expected the uses of ring 'q' one after the other, got use n + 1 for use n
// RUN: sed -e 's/to %%kv step %%c1 iter_args/to %%n step %%c1 iter_args/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=FEWER
// FEWER: 'fa2gpu.tile_yield' op expected the next tile to go on where this one ends in ring
// RUN: sed -e 's/%%many = arith.maxsi %%kv/%%many = arith.maxsi %%n/' -e 's/to %%kv step %%c1 {/to %%n step %%c1 {/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: 'fa2gpu.roles' op expected role 'consumer' to wait for as many uses of ring 'k' as role 'producer' fills
// REDEFINE: %{edit} = d
// REDEFINE: %{tag} = copy-k
// REDEFINE: %{prefix} = COPY
// RUN: %{try}
// COPY: 'fa2gpu.ring.commit' op expected a copy into ring 'k' before its use is committed
// REDEFINE: %{edit} = p
// REDEFINE: %{prefix} = COPIES
// RUN: %{try}
// COPIES: 'fa2gpu.tensor_copy' op expected one copy into a use of ring 'k', whose arrival completes it
// RUN: sed -e 's/%%ks signal %%rk\[%%w\]/%%ks signal %%rv[%%w]/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=SIGNAL
// SIGNAL: 'fa2gpu.tensor_copy' op expected a copy to signal the use of ring 'k' that it fills
// REDEFINE: %{edit} = d
// REDEFINE: %{tag} = commit-k
// REDEFINE: %{prefix} = COMMIT
// RUN: %{try}
// COMMIT: 'fa2gpu.ring.acquire' op expected this use of ring 'k' to be committed on every path, or on none

// Nothing in flight is read, released or forgotten.
// RUN: sed -e 's/pending = 1 : i64/pending = 2 : i64/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=PENDING
// PENDING: 'fa2gpu.dot_wait' op expected pending to be at most 1, the matmuls started after this one, got 2
// PENDING: note: started here
// RUN: sed -e '/@release-v$/d' -e 's#// @flying$#\n fa2gpu.ring.release %%rv[%%u] : !kring#' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=FLYING
// FLYING: 'fa2gpu.ring.release' op expected no matmul in flight that reads this use of ring 'v'
// FLYING: note: started here
// RUN: sed -e '/@other$/s/ keep(%%p : !op)//' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=KEEP
// KEEP: 'fa2gpu.dot_wait' op expected to keep the operand in registers, which the matmul reads until here
// RUN: sed -e '/@other$/d' -e 's/scf.yield %%b : !acc/scf.yield %%o : !acc/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=FORGOTTEN
// FORGOTTEN: 'fa2gpu.dot_start' op expected this matmul to be waited for on every path, or on none

// What lanes read and write, for the copy engine.
// REDEFINE: %{prefix} = LANES
// REDEFINE: %{tag} = lanes-fence
// RUN: %{try}
// REDEFINE: %{tag} = lanes-meet
// RUN: %{try}
// LANES: 'fa2gpu.ring.release' op expected fa2gpu.proxy_fence and fa2gpu.warp_barrier because lanes read this use of ring 'k'
// REDEFINE: %{tag} = read-before
// REDEFINE: %{prefix} = STORING
// RUN: %{try}
// STORING: 'fa2gpu.local_store' op expected fa2gpu.store_wait because the copy engine reads ring 'out'
// REDEFINE: %{tag} = met-before
// REDEFINE: %{prefix} = STORED
// RUN: %{try}
// STORED: 'fa2gpu.local_store' op expected fa2gpu.group_barrier because one thread alone waited for the store from ring 'out'
// REDEFINE: %{prefix} = FENCE
// REDEFINE: %{tag} = fence
// RUN: %{try}
// REDEFINE: %{tag} = met
// RUN: %{try}
// FENCE: 'fa2gpu.tensor_store' op expected fa2gpu.proxy_fence and then fa2gpu.group_barrier between the writes to ring 'out' and the copy engine's read
// REDEFINE: %{tag} = write
// REDEFINE: %{prefix} = UNWRITTEN
// RUN: %{try}
// UNWRITTEN: 'fa2gpu.tensor_store' op expected this use of ring 'out' to have been written on every path
// REDEFINE: %{tag} = read-at-end
// REDEFINE: %{prefix} = END
// RUN: %{try}
// END: 'fa2gpu.tensor_store' op expected fa2gpu.store_wait before the program ends because the copy engine reads shared memory of ring 'out'

// Turns.
// REDEFINE: %{tag} = pass
// REDEFINE: %{prefix} = PASS
// RUN: %{try}
// PASS: 'scf.for' op expected the turn to be passed on every path
// REDEFINE: %{tag} = first
// REDEFINE: %{prefix} = FIRST
// RUN: %{try}
// FIRST: 'fa2gpu.turn_wait' op expected the last warpgroup to give the first turn before
// REDEFINE: %{tag} = last
// REDEFINE: %{prefix} = LAST
// RUN: %{try}
// LAST: 'fa2gpu.roles' op expected the first warpgroup to take its last turn (turn_wait first) before the program ends
// RUN: sed -e 's/%%kv = arith.addi %%n, %%c1/%%kv = arith.addi %%n, %%g/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=UNEQUAL
// UNEQUAL: 'scf.for' op expected as many iterations in every warpgroup because they take turns

// Warps of a warpgroup take the same wait, as PTX asks.
// RUN: sed -e 's/^ *%%hot = .*/%%f = arith.constant dense<1.0> : tensor<128xf32, #fa2gpu.row<#acc>>\n%%hot = fa2gpu.needs_rescale %%f after %%f : tensor<128xf32, #fa2gpu.row<#acc>>, tensor<128xf32, #fa2gpu.row<#acc>>/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=ALIGNED
// ALIGNED: 'fa2gpu.dot_wait' op expected to stand where all warps of a warpgroup come to it because its instruction is theirs together
// ALIGNED: note: warps may take either arm of this branch

// A warpgroup that skips tiles releases their slots behind its turn; another one waits in the same turn for the next slot.
// RUN: fa2-compile --arch sm_90a --head-dim 128 --stages 2 --schedule overlap=1,ping_pong=1,group_limits=1 --emit=gpu | sed 's/<2 x tensor<64x128xbf16/<1 x tensor<64x128xbf16/g' | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=ONESLOT
// ONESLOT: 'fa2gpu.turn_pass' op expected at least 2 slots of ring 'k', got 1: before this turn is passed a slot is waited for that another warpgroup releases in a later turn

// Budgets.
// RUN: sed -e 's/4 warps, 24 registers/4 warps, 32 registers/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=SUM
// SUM: 'fa2gpu.roles' op expected registers of the roles' 3 warpgroups to sum to at most 504 (168 each at entry), got 512: the increase would wait for ever
// RUN: sed -e 's/stages = 2, persistent/stages = 2, min_blocks = 2, persistent/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: 'fa2gpu.roles' op expected registers of the roles' 3 warpgroups to sum to at most 240 (80 each at entry), got 504: the increase would wait for ever
// RUN: sed -e 's/8 warps, 240 registers/8 warps, 236 registers/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=EIGHT
// EIGHT: 'fa2gpu.roles' op expected registers of a role to be a multiple of 8 from 24 to 256, got 236
// RUN: sed -e '/ draws /s/ascending/descending/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=SAMETILES
// RUN: sed -e '/^  } @producer/,$s/^    } : !tiles/    } {located} : !tiles/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=SAMETILES
// SAMETILES: 'fa2gpu.tile_loop' op expected the tiles of the other role
// RUN: sed -e 's/shared_bytes = 65696/shared_bytes = 300000/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=BYTES
// BYTES: 'fa2.kernel' op expected at most 232448 bytes of shared memory on sm_90a, got 300000
// RUN: sed -e 's/shared_bytes = 65696/shared_bytes = 65680/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=WITHIN
// WITHIN: 'fa2gpu.ring.create' op expected ring 'tiles' to end within the block's 65680 bytes, got 65696
// RUN: sed -e 's/name = "v", offset = 49152/name = "v", offset = 48128/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=APART
// APART: 'fa2gpu.ring.create' op expected ring 'v' to have bytes of its own because roles run side by side: those before end at 49152, got 48128
// RUN: sed -e 's/id = 3 : i64/id = 15 : i64/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=NUMBERS
// NUMBERS: 'fa2gpu.group_barrier' op expected named barriers from 1 to 15 (0 is the block's), got 15 to 16
// RUN: sed -e 's/id = 3 : i64/id = 2 : i64/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: op expected named barrier 2 to be for turns, for warpgroups or for all warps of one role, not two of them
// RUN: sed -e 's/init %%rk consumers 8/init %%rk consumers 4/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=ARRIVALS
// ARRIVALS: 'fa2gpu.ring.init' op expected ring 'k' to be released by 8 warps, got 4
// REDEFINE: %{tag} = init
// REDEFINE: %{prefix} = INIT
// RUN: %{try}
// INIT: 'fa2gpu.ring.create' op expected one fa2gpu.ring.init of ring 'k', got 0

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#sync = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [8, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!bf = tensor<128x64xbf16, #acc>
!op = tensor<128x64xbf16, #fa2gpu.operand<#acc>>
!sync = tensor<128x64xf32, #sync>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!qring = !fa2gpu.ring<1 x !qt, parts = 2>
!oring = !fa2gpu.ring<1 x !qt>
!kring = !fa2gpu.ring<2 x !kt>
!tiles = !fa2gpu.ring<2 x tensor<1xi32>>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @roles(%t: !global, %n: index, %p: !op, %zero: !acc)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, persistent = true, separate_output = true>,
                shared_bytes = 65696 : i64,
                arguments = [#fa2.arg<"t", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"n", "in", [] x index>,
                             #fa2.arg<"p", "in", [] x bf16>, #fa2.arg<"zero", "in", [] x f32>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %g = fa2gpu.warpgroup
  %kv = arith.addi %n, %c1 : index
  %map = fa2gpu.tensor_map %t rows 64 : !global
  %ro = fa2gpu.ring.create {name = "out", offset = 0 : i64} : !oring
  %rq = fa2gpu.ring.create {name = "q", offset = 16384 : i64, barriers = 65600 : i64} : !qring
  %rk = fa2gpu.ring.create {name = "k", offset = 32768 : i64, barriers = 65536 : i64} : !kring
  %rv = fa2gpu.ring.create {name = "v", offset = 49152 : i64, barriers = 65568 : i64} : !kring
  %tiles = fa2gpu.ring.create {name = "tiles", offset = 65664 : i64, barriers = 65632 : i64} : !tiles
  fa2gpu.ring.init %rq consumers 4 : !qring
  fa2gpu.ring.init %rk consumers 8 : !kring // @init
  fa2gpu.ring.init %rv consumers 8 : !kring
  fa2gpu.ring.init %tiles consumers 8 : !tiles
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2gpu.turn_pass of 2 first {id = 1 : i64} // @first
    fa2gpu.tile_loop(%n by 128, %n, %n) order ascending queue %tiles carries(%c0) {
    ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %uses: index):
      %later = arith.addi %visit, %c1 : index
      %hot = arith.cmpi eq, %tile, %c0 : index
      %q, %q_next = fa2gpu.ring.wait %rq[%visit] : !qring -> !qt
      %sum = scf.for %i = %c0 to %kv step %c1 iter_args(%o = %zero) -> (!acc) {
        %u = arith.addi %uses, %i : index
        %u1 = arith.addi %u, %c1 : index
        fa2gpu.turn_wait of 2 {id = 1 : i64}
        %k, %k_next = fa2gpu.ring.wait %rk[%u] : !kring -> !kt
        %fs = fa2gpu.dot_start %q, %k {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
        %v, %v_next = fa2gpu.ring.wait %rv[%u] : !kring -> !kt
        %fo = fa2gpu.dot_start %p, %v acc(%o : !acc) : !op, !kt -> !fa2gpu.in_flight<!acc>
        fa2gpu.turn_pass of 2 {id = 1 : i64} // @pass
        %s = fa2gpu.dot_wait %fs {pending = 1 : i64} : !fa2gpu.in_flight<!acc> -> !acc
        // @flying
        %new = scf.if %hot -> (!acc) {
          %a = fa2gpu.dot_wait %fo keep(%p : !op) {pending = 0 : i64} : !fa2gpu.in_flight<!acc> -> !acc
          %x = fa2gpu.dot_start %q, %k {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!sync>
          %y = fa2gpu.dot_wait %x : !fa2gpu.in_flight<!sync> -> !sync
          fa2gpu.proxy_fence // @lanes-fence
          fa2gpu.warp_barrier // @lanes-meet
          // @cold
          scf.yield %a : !acc
        } else {
          %b = fa2gpu.dot_wait %fo keep(%p : !op) {pending = 0 : i64} : !fa2gpu.in_flight<!acc> -> !acc // @other
          scf.yield %b : !acc
        }
        fa2gpu.ring.release %rk[%u] : !kring // @release-k
        fa2gpu.ring.release %rv[%u] : !kring // @release-v
        // @after
        scf.yield %new : !acc
      }
      fa2gpu.ring.release %rq[%visit] : !qring // @release-q
      %half = arith.truncf %sum : !acc to !bf
      %slot = fa2gpu.ring.slot %ro[%visit] : !oring -> !qt
      fa2gpu.store_wait // @read-before
      fa2gpu.group_barrier {id = 3 : i64} // @met-before
      fa2gpu.local_store %half, %slot : !bf, !qt // @write
      fa2gpu.proxy_fence // @fence
      fa2gpu.group_barrier {id = 3 : i64} // @met
      fa2gpu.tensor_store %slot, %map[%tile, %head, %batch] : !qt
      %count = arith.maxsi %kv, %c0 : index
      %next = arith.addi %uses, %count : index
      fa2gpu.tile_yield %next
    } : !tiles
    fa2gpu.store_wait // @read-at-end
    fa2gpu.turn_wait of 2 first {id = 1 : i64} // @last
  } @producer(4 warps, 24 registers) {
    fa2gpu.tile_loop(%n by 128, %n, %n) order ascending queue %tiles draws carries(%c0) {
    ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %uses: index):
      %qs, %qs_next = fa2gpu.ring.acquire %rq[%visit] : !qring -> !qt
      fa2gpu.tensor_copy %map[%tile, %head, %batch], %qs signal %rq[%visit] : !qt, !qring
      fa2gpu.ring.commit %rq[%visit] : !qring
      scf.for %i = %c0 to %kv step %c1 {
        %w = arith.addi %uses, %i : index
        %ks, %ks_next = fa2gpu.ring.acquire %rk[%w] : !kring -> !kt
        // @copying
        fa2gpu.tensor_copy %map[%i, %head, %batch], %ks signal %rk[%w] : !kt, !kring // @copy-k
        fa2gpu.ring.commit %rk[%w] : !kring // @commit-k
        %vs, %vs_next = fa2gpu.ring.acquire %rv[%w] : !kring -> !kt
        fa2gpu.tensor_copy %map[%i, %head, %batch], %vs signal %rv[%w] : !kt, !kring
        fa2gpu.ring.commit %rv[%w] : !kring
      }
      %many = arith.maxsi %kv, %c0 : index
      %next = arith.addi %uses, %many : index
      fa2gpu.tile_yield %next
    } : !tiles
  }
  fa2.return
}
