// Two blocks give each other a tile, iteration by iteration: the copy engine has read it when the other block gives the next slot of the
// ring that it goes into. What is said where a block writes the tile again before it knows.
// RUN: fa2-opt %s --fa2gpu-verify | FileCheck %s
// CHECK: fa2.kernel @sends

// The other block's slot is asked for behind the write, which is right for the first tile alone.
// RUN: sed -e '/@ask$/{h;d}' -e '/@written$/G' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: 'fa2gpu.local_store' op expected fa2gpu.ring.acquire of ring 'peer' before because the copy engine may still read ring 'ds'
// LATE: note: the copy to the other block starts here

// One of two slots that the other block gives says nothing of the copy before, into the other one: then the tile needs two as well.
// RUN: sed -e 's/^!peer = !fa2gpu.ring<1/!peer = !fa2gpu.ring<2/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: sed -e 's/^!peer = !fa2gpu.ring<1/!peer = !fa2gpu.ring<2/' -e 's/^!own = !fa2gpu.ring<1/!own = !fa2gpu.ring<2/' %s | fa2-opt --fa2gpu-verify -o /dev/null
// With two slots of its own the tile before is another one.
// RUN: sed -e '/@ask$/{h;d}' -e '/@written$/G' -e 's/^!own = !fa2gpu.ring<1/!own = !fa2gpu.ring<2/' %s | fa2-opt --fa2gpu-verify -o /dev/null

// The copy engine reads what threads wrote and fenced, as long as they hold it; what is committed it has been told of.
// RUN: sed '/@fence$/d' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=FENCE
// FENCE: 'fa2gpu.ring.commit' op expected fa2gpu.proxy_fence before this use of ring 'ds' is committed because threads wrote it and matmuls or the copy engine read it
// RUN: sed '/@send$/d' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: 'fa2gpu.ring.commit' op expected a copy into ring 'peer' before its use is committed
// RUN: sed -e '/@send$/{h;d}' -e '/@sent$/G' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=RELEASED
// RELEASED: 'fa2gpu.peer_copy' op expected a tile of ring 'ds' that has not been released

// Who writes a tile sends it: another role would not know when it has been read.
// RUN: sed -e '/@send$/d' -e 's#// @other role$#\n %%o, %%p = fa2gpu.ring.wait %%rd[%%c0] : !own -> !t\n %%q, %%s = fa2gpu.ring.acquire %%rp[%%c0] : !peer -> !t\n fa2gpu.peer_copy %%o, %%q signal %%rp[%%c0] : !t, !peer#' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=SENDER
// SENDER: 'fa2gpu.peer_copy' op expected role 'consumer', which writes ring 'ds', to send its tiles

// All roles are of blocks in pairs, or none.
// RUN: sed -e 's#// @other role$#\n fa2.for_each_tile %%t, %%h, %%b in (%%n by 128, %%n, %%n) {\n }#' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=TILES
// TILES: 'fa2.for_each_tile' op expected the tiles of the other role

// A block alone has no other that would fill its ring.
// RUN: sed 's/ {cluster = 2 : i64}$//' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: 'fa2gpu.ring.create' op expected fa2.for_each_tile with a cluster of blocks because another block fills ring 'peer'

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<64x64xf32, #acc>
!bf = tensor<64x64xbf16, #acc>
!t = tensor<64x64xbf16, #shared>
!own = !fa2gpu.ring<1 x !t>
!peer = !fa2gpu.ring<1 x !t>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @sends(%n: index, %ds: !bf)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 2, partition = keys>,
                shared_bytes = 32832 : i64,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"ds", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rd = fa2gpu.ring.create {name = "ds", offset = 0 : i64, barriers = 32768 : i64} : !own
  %rp = fa2gpu.ring.create {name = "peer", offset = 16384 : i64, barriers = 32800 : i64, peer} : !peer
  fa2gpu.ring.init %rd consumers 4 fillers 4 : !own
  fa2gpu.ring.init %rp consumers 4 : !peer
  fa2gpu.roles @consumer(4 warps, 240 registers) {
    fa2.for_each_tile %tile, %head, %batch in (%n by 128, %n, %n) {
      scf.for %i = %c0 to %n step %c1 {
        %there, %there_next = fa2gpu.ring.acquire %rp[%i] : !peer -> !t // @ask
        %w, %w_next = fa2gpu.ring.acquire %rd[%i] : !own -> !t
        fa2gpu.local_store %ds, %w : !bf, !t // @written
        fa2gpu.proxy_fence // @fence
        fa2gpu.ring.commit %rd[%i] : !own
        %own, %own_next = fa2gpu.ring.wait %rd[%i] : !own -> !t
        fa2gpu.peer_copy %own, %there signal %rp[%i] : !t, !peer // @send
        fa2gpu.ring.release %rd[%i] : !own // @sent
        fa2gpu.ring.commit %rp[%i] : !peer
        %other, %other_next = fa2gpu.ring.wait %rp[%i] : !peer -> !t
        %f = fa2gpu.dot_start %other, %other {transpose_a} : !t, !t -> !fa2gpu.in_flight<!acc>
        %s = fa2gpu.dot_wait %f {pending = 0 : i64} : !fa2gpu.in_flight<!acc> -> !acc
        fa2gpu.ring.release %rp[%i] : !peer
      }
    } {cluster = 2 : i64}
  } @producer(4 warps, 24 registers) {
    // @other role
  }
  fa2.return
}
