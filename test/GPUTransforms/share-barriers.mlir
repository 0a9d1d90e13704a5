// DEFINE: %{before} = fa2-opt %s --fa2-pipeline="pass=backward target=sm_90a stop-after=fa2gpu-insert-fences" --mlir-print-local-scope
// DEFINE: %{after} = fa2-opt --fa2gpu-share-barriers --fa2gpu-place-waits --fa2gpu-allocate --fa2gpu-verify --mlir-print-local-scope
// RUN: %{before} | %{after} | FileCheck %s

// One kernel after the other in one thread: none takes roles of operations that the one before it had.
// RUN: %{before} --mlir-disable-threading | %{after} | FileCheck %s

// -lse and -delta arrive with the tiles of queries and dO, whose mbarriers count the bytes of both. They have none to be
// initialized, and whoever copies the tile fences for both.
// CHECK-LABEL: fa2.kernel @attention_backward(
// CHECK-DAG: %[[DO:.*]] = fa2gpu.ring.create {barriers = [[AT:[0-9]+]] : i64, name = "dout",
// CHECK-DAG: %[[DELTA:.*]] = fa2gpu.ring.create shares(%[[DO]] : {{.*}}) {barriers = [[AT]] : i64, name = "neg_delta",
// CHECK-DAG: %[[Q:.*]] = fa2gpu.ring.create {barriers = [[THERE:[0-9]+]] : i64, name = "q",
// CHECK-DAG: %[[LSE:.*]] = fa2gpu.ring.create shares(%[[Q]] : {{.*}}) {barriers = [[THERE]] : i64, name = "neg_lse",
// CHECK-NOT: fa2gpu.ring.init %[[LSE]]
// CHECK-NOT: fa2gpu.ring.init %[[DELTA]]
// CHECK: fa2gpu.roles
// CHECK: fa2gpu.ring.acquire %[[Q]]{{.*}} {fences}
// CHECK: fa2gpu.ring.acquire %[[LSE]]

// The producer multiplies keys with dS alone, for which the consumers have waited for the keys. So it need not, and its next copies
// do not stand behind the arrival of the first.
// CHECK: @producer
// CHECK: fa2gpu.ring.wait %{{.*}} {implied} : <1 x tensor<128x64xbf16
// Where it had nothing to read, it waits before it releases: it must not release the next use too before this one has come.
// CHECK: fa2gpu.ring.release %{{.*}} {waits} : <1 x tensor<128x64xbf16

// Whoever makes the other tile must have waited. Here nobody has.
// RUN: %{before} | %{after} | sed -e '/@consumer/,/@producer/s/\(ring.wait.*\]\) : <1 x/\1 {implied} : <1 x/' | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=IMPLIED
// IMPLIED: error: 'fa2gpu.ring.wait' op expected a wait that is not implied: something reads the tile beside nothing that another role made

// RUN: %{before} | %{after} | sed -e 's/ {waits}//' | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: 'fa2gpu.ring.wait' op expected a wait that is not implied: it releases the use without having waited for it

// A tile that may be released before the vector has been read keeps its mbarriers to itself. Here what is released a tile behind gets the
// number of the tile that has just arrived.
// DEFINE: %{edit} = sed -e '/arith.subi .*, %%c1 : index/{N;/ring.slot/s/%%c1 : index/%%c0 : index/;}'
// RUN: %{before} | %{edit} | fa2-opt --fa2gpu-share-barriers --remarks-filter=fa2gpu-share-barriers -o /dev/null 2>&1 | FileCheck %s --check-prefix=OWN
// OWN: neg_lse has mbarriers of its own beside those of q: a tile is released before what arrived with it
// Whoever copies the tile must fence for the vector, too.
// RUN: %{before} | %{after} | sed -e '/ring.acquire.*tensor<64x64xbf16/s/ {fences}//' | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=FENCE
// FENCE: error: 'fa2gpu.ring.create' op expected acquires of ring '{{q|dout}}' to fence as those of ring 'neg_{{lse|delta}}' do
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
