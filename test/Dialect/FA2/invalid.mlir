// RUN: fa2-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect -o /dev/null

// Constraint 1 of fa2.attention: one element type, bf16 or f16.
func.func @c1_f32(%q: tensor<?x?x?x64xf32>) {
  // expected-error @+1 {{expected q of bf16 or f16, got 'f32'}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32> -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return
}

// -----

func.func @c1_mixed(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xbf16>) {
  // expected-error @+1 {{expected k to have q's element type 'f16', got 'bf16'}}
  %o, %l = fa2.attention ins(%q, %k, %q) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

// Constraint 2: rank 4, static d, that of k.
func.func @c2_rank(%q: tensor<?x?x64xf16>) {
  // expected-error @+1 {{expected q to have rank 4, got rank 3}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x64xf16>, tensor<?x?x64xf16>, tensor<?x?x64xf16> -> tensor<?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

func.func @c2_dynamic(%q: tensor<?x?x?x?xf16>) {
  // expected-error @+1 {{expected the head dim of q to be static because it is compiled in}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x?xf16>, tensor<?x?x?x?xf16>, tensor<?x?x?x?xf16> -> tensor<?x?x?x?xf16>, tensor<?x?x?xf32>
  return
}

// -----

func.func @c2_batch(%q: tensor<2x?x?x64xf16>) {
  // expected-error @+1 {{expected dimension 0 of q to be ? because a launch gives it, got 2}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<2x?x?x64xf16>, tensor<2x?x?x64xf16>, tensor<2x?x?x64xf16> -> tensor<2x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

func.func @c2_heads(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x0x64xf16>) {
  // expected-error @+1 {{expected dimension 2 of k to be ? because a launch gives it, got 0}}
  %o, %l = fa2.attention ins(%q, %k, %q) : tensor<?x?x?x64xf16>, tensor<?x?x0x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

func.func @c3_seqlen(%q: tensor<?x?x?x64xf16>) {
  // expected-error @+1 {{expected dimension 2 of lse to be ? because a launch gives it, got 7}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x7xf32>
  return
}

// -----

func.func @c2_k(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x32xf16>) {
  // expected-error @+1 {{expected k's head dim to be q's, 64, got 32}}
  %o, %l = fa2.attention ins(%q, %k, %q) : tensor<?x?x?x64xf16>, tensor<?x?x?x32xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

func.func @c2_out(%q: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x32xf16>) {
  // expected-error @+1 {{expected out's head dim to be v's, 32, got 64}}
  %o, %l = fa2.attention ins(%q, %q, %v) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x32xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

// Constraint 3: lse.
func.func @c3(%q: tensor<?x?x?x64xf16>) {
  // expected-error @+1 {{expected lse to be f32 of rank 3, got 'tensor<?x?x?xf16>'}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf16>
  return
}

// -----

// Constraint 4: head dims.
func.func @c4_100(%q: tensor<?x?x?x100xf16>) {
  // expected-error @+1 {{expected d to be a multiple of 8 from 8 to 256, got 100; the nearest supported are 96 and 104}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x100xf16>, tensor<?x?x?x100xf16>, tensor<?x?x?x100xf16> -> tensor<?x?x?x100xf16>, tensor<?x?x?xf32>
  return
}

// -----

func.func @c4_0(%q: tensor<?x?x?x0xf16>) {
  // expected-error @+1 {{expected d to be a multiple of 8 from 8 to 256, got 0; the nearest supported is 8}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x0xf16>, tensor<?x?x?x0xf16>, tensor<?x?x?x0xf16> -> tensor<?x?x?x0xf16>, tensor<?x?x?xf32>
  return
}

// -----

func.func @c4_v(%q: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x264xf16>) {
  // expected-error @+1 {{expected d_v to be a multiple of 8 from 8 to 256, got 264; the nearest supported is 256}}
  %o, %l = fa2.attention ins(%q, %q, %v) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x264xf16> -> tensor<?x?x?x264xf16>, tensor<?x?x?xf32>
  return
}

// -----

// Constraint 5: the score region.
func.func @c5_arguments(%q: tensor<?x?x?x64xf16>) {
  // expected-error @+1 {{(score, batch, head, row, column, extras...)}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
    score {
    ^bb0(%s: f32):
      fa2.yield %s : f32
    }
  return
}

// -----

func.func @c5_names(%q: tensor<?x?x?x64xf16>, %x: f32) {
  // expected-error @+1 {{expected extra_names for 1 extras, got 2}}
  %o, %l = fa2.attention ins(%q, %q, %q) extras(%x : f32) {extra_names = ["a", "b"]} : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
    score {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %e: f32):
      fa2.yield %s : f32
    }
  return
}

// -----

func.func @c5_taken_name(%q: tensor<?x?x?x64xf16>, %x: f32) {
  // expected-error @+1 {{expected extra_names that nothing else has, got 'lse'}}
  %o, %l = fa2.attention ins(%q, %q, %q) extras(%x : f32) {extra_names = ["lse"]} : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
    score {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %e: f32):
      fa2.yield %s : f32
    }
  return
}

// -----

func.func @c5_name(%q: tensor<?x?x?x64xf16>, %x: f32) {
  // expected-error @+1 {{expected extra_names of letters, digits and _, not beginning with a digit, got 'a-b'}}
  %o, %l = fa2.attention ins(%q, %q, %q) extras(%x : f32) {extra_names = ["a-b"]} : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
    score {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %e: f32):
      fa2.yield %s : f32
    }
  return
}

// -----

func.func @read_indices(%t: memref<?x?xf32, strided<[?, ?]>>, %i: index) {
  // expected-error @+1 {{expected 2 indices, one a dimension, got 1}}
  %x = fa2.read %t[%i] : memref<?x?xf32, strided<[?, ?]>>, index -> f32
  return
}

// -----

func.func @read_clamped(%t: memref<?x?xf32, strided<[?, ?]>>, %i: index) {
  // expected-error @+1 {{expected clamped to have dimensions from 0 to 1, got 2}}
  %x = fa2.read %t[%i, %i] {clamped = array<i64: 2>} : memref<?x?xf32, strided<[?, ?]>>, index, index -> f32
  return
}

// -----

func.func @read_element(%t: memref<?xbf16, strided<[?]>>, %i: index) {
  // expected-error @+1 {{expected a result of 'f32', got 'bf16'}}
  %x = fa2.read %t[%i] : memref<?xbf16, strided<[?]>>, index -> bf16
  return
}

// -----

func.func @read_shape(%t: memref<?xf32, strided<[?]>>, %i: tensor<64xindex>) {
  // expected-error @+1 {{expected each index to be an index or a tensor of them with the result's shape, got 'tensor<64xindex>'}}
  %x = fa2.read %t[%i] : memref<?xf32, strided<[?]>>, tensor<64xindex> -> tensor<32xf32>
  return
}

// -----

func.func @broadcast_output() attributes {
  // expected-error @+1 {{expected x to be a tensor of direction in or out because it is broadcast}}
  arg = #fa2.arg<"x", "inout", ["heads"] x f32 broadcast true>} {
  return
}

// -----

func.func @c5_yield(%q: tensor<?x?x?x64xf16>) {
  // expected-error @+1 {{expected the score region to yield one f32}}
  %o, %l = fa2.attention ins(%q, %q, %q) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
    score {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      fa2.yield %i : index
    }
  return
}

// -----

// expected-error @+1 {{expected block_q to be a multiple of 16 from 16 to 256, got 100}}
"test.x"() {s = #fa2.schedule<target = "sm_80", block_q = 100, block_kv = 64, warps = 4, stages = 2>} : () -> ()

// -----

// expected-error @+1 {{expected stages to be 1 to 4, got 5}}
"test.x"() {s = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 5>} : () -> ()

// -----

// expected-error @+1 {{expected block_kv to be a multiple of 16 * warps = 128 because split_k gives each warp whole rows of 16, got 64}}
"test.x"() {s = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 8, stages = 1, partition = split_k>} : () -> ()

// -----

// expected-error @+1 {{expected scale to require positive_finite, invertible or finite, got "even"}}
"test.x"() {a = #fa2.arg<"scale", "in", [] x f32 require "even">} : () -> ()

// -----

// expected-error @+1 {{expected q to be an f32 scalar because it has a default or a requirement, got ["batch"] x 'bf16'}}
"test.x"() {a = #fa2.arg<"q", "in", ["batch"] x bf16 require "finite">} : () -> ()

// -----

// expected-error @+1 {{expected q to be in, out, inout or workspace, got down}}
"test.x"() {a = #fa2.arg<"q", "down", ["batch"] x bf16>} : () -> ()

// -----

// expected-error @+1 {{expected x to be of 'f32', got 'bf16'}}
fa2.kernel @k(%x: memref<?xf32>) attributes {spec = #fa2.spec<pass = "forward", dtype = f16, head_dim = 64, head_dim_v = 64>,
    schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>,
    arguments = [#fa2.arg<"x", "in", ["batch"] x bf16>]} {
  fa2.return
}

// -----

// expected-error @+1 {{expected one description an argument, 1, got 0}}
fa2.kernel @k(%c: f32) attributes {spec = #fa2.spec<pass = "forward", dtype = f16, head_dim = 64, head_dim_v = 64>,
    schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>, arguments = []} {
  fa2.return
}

// -----

func.func @view(%x: memref<?x?x?x64xf16>, %i: index) {
  // expected-error @+1 {{expected a view of 64 columns of 'f16' because its source is 'memref<?x?x?x64xf16>', got '!fa2.view<? x 72 x f16>'}}
  %v = fa2.view %x[%i, %i] rows(%i, %i) : memref<?x?x?x64xf16> -> !fa2.view<? x 72 x f16>
  return
}

// -----

func.func @load(%v: !fa2.view<? x 64 x f16>, %i: index) {
  // expected-error @+1 {{expected a tile of the view's 64 columns, got 'tensor<16x32xf16>'}}
  %t = fa2.load %v[%i] : !fa2.view<? x 64 x f16> -> tensor<16x32xf16>
  return
}

// -----

func.func @store(%v: !fa2.view<? x 64 x f16>, %t: tensor<16x64xf32>, %i: index) {
  // expected-error @+1 {{expected a static tile of 'f16', got 'tensor<16x64xf32>'}}
  fa2.store %t, %v[%i] : tensor<16x64xf32>, !fa2.view<? x 64 x f16>
  return
}

// -----

func.func @dot_inner(%a: tensor<64x32xf16>, %b: tensor<64x16xf16>) {
  // expected-error @+1 {{expected a to have b's 16 inner columns, got 32}}
  %d = fa2.dot %a, %b {transpose_b} : tensor<64x32xf16>, tensor<64x16xf16> -> tensor<64x64xf32>
  return
}

// -----

func.func @dot_result(%a: tensor<64x32xf16>, %b: tensor<32x16xf16>) {
  // expected-error @+1 {{expected a result of 64x16, got 'tensor<64x64xf32>'}}
  %d = fa2.dot %a, %b : tensor<64x32xf16>, tensor<32x16xf16> -> tensor<64x64xf32>
  return
}

// -----

func.func @softmax(%s: tensor<64x64xf32>, %m: tensor<32xf32>, %c: f32) {
  // expected-error @+1 {{expected a value for each of the 64 rows, got 'tensor<32xf32>'}}
  %p, %m1, %l1, %a = fa2.softmax_step %s, %m, %m scale %c : tensor<64x64xf32>, tensor<32xf32>, tensor<32xf32>
  return
}

// -----

// expected-error @+1 {{expected the schedule to have a target}}
"test.x"() {s = #fa2.schedule<block_q = 64>} : () -> ()

// -----

// expected-error @+1 {{unknown schedule field 'blockq'; the nearest is block_q (known: block_q, block_kv, }}
"test.x"() {s = #fa2.schedule<target = "sm_80", blockq = 64>} : () -> ()

// -----

// expected-error @+1 {{expected one value of block_q, got 64 and 32}}
"test.x"() {s = #fa2.schedule<target = "sm_80", block_q = 64, block_q = 32>} : () -> ()

// -----

// expected-error @+1 {{expected overlap to be 0 or 1, got 'on'}}
"test.x"() {s = #fa2.schedule<target = "sm_80", overlap = on>} : () -> ()

// -----

// expected-error @+1 {{expected a value of block_q}}
"test.x"() {s = #fa2.schedule<target = "sm_80", block_q = >} : () -> ()

// -----

// expected-error @+1 {{expected speculate_max to be 0 to 60, got 61}}
"test.x"() {s = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, overlap = true, speculate_max = 61>} : () -> ()

// -----

// Constraint 2 of fa2.attention_grad: dout has v's head dim.
func.func @g2_dout(%q: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x32xf16>, %l: tensor<?x?x?xf32>) {
  // expected-error @+1 {{expected dout's head dim to be v's, 32, got 64}}
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %q, %v, %v, %l, %q) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x32xf16>, tensor<?x?x?x32xf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x32xf16>
  return
}

// -----

// Constraint 3: dlse.
func.func @g3_dlse(%q: tensor<?x?x?x64xf16>, %l: tensor<?x?x?xf32>, %d: tensor<?x?xf32>) {
  // expected-error @+1 {{expected dlse to be f32 of rank 3, got 'tensor<?x?xf32>'}}
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %q, %q, %q, %l, %q) dlse(%d : tensor<?x?xf32>) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>
  return
}

// -----

// Constraint 3: lse.
func.func @g3(%q: tensor<?x?x?x64xf16>) {
  // expected-error @+1 {{expected lse to be f32 of rank 3, got 'tensor<?x?x?x64xf16>'}}
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %q, %q, %q, %q, %q) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>
  return
}

// -----

// Constraint 5: each gradient has its tensor's type.
func.func @g5(%q: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x32xf16>, %l: tensor<?x?x?xf32>) {
  // expected-error @+1 {{expected dv to have the type of v, 'tensor<?x?x?x32xf16>', got 'tensor<?x?x?x64xf16>'}}
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %q, %v, %v, %l, %v) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x32xf16>, tensor<?x?x?x32xf16>, tensor<?x?x?xf32>, tensor<?x?x?x32xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>
  return
}

// -----

func.func @dot_transposed(%a: tensor<32x64xbf16>, %b: tensor<16x8xbf16>) {
  // expected-error @+1 {{expected a to have b's 16 inner rows, got 32}}
  %d = fa2.dot %a, %b {transpose_a} : tensor<32x64xbf16>, tensor<16x8xbf16> -> tensor<64x8xf32>
  return
}

// -----

func.func @recompute(%s: tensor<64x128xf32>, %n: tensor<64xf32>, %c: f32) {
  // expected-error @+1 {{expected a value for each of the 128 columns, got 'tensor<64xf32>'}}
  %p = fa2.softmax_recompute %s, %n scale %c {columns} : tensor<64x128xf32>, tensor<64xf32>
  return
}

// -----

func.func @distance(%j: index, %i: index) {
  // expected-error @+1 {{expected a tile, or a vector of the diagonals of one (of), got 'tensor<191xf32>'}}
  %d = fa2.distance %j from %i : tensor<191xf32>
  return
}

// -----

func.func @distance_of(%j: index, %i: index) {
  // expected-error @+1 {{expected of to have rows and columns whose sum less 1 is the vector's size, got [128, 64] for 'tensor<192xf32>'}}
  %d = fa2.distance %j from %i {of = array<i64: 128, 64>} : tensor<192xf32>
  return
}

// -----

func.func @gather_places(%v: tensor<128xf32>, %at: tensor<128x64xi32>) {
  // expected-error @+1 {{expected a tile of f32 from a vector of f32, with a place of type index for each element, got 'tensor<128x64xf32>' from 'tensor<128xf32>' at 'tensor<128x64xi32>'}}
  %t = fa2.gather %v[%at] : tensor<128xf32>, tensor<128x64xi32> -> tensor<128x64xf32>
  return
}

// -----

func.func @gather_shape(%v: tensor<128xf32>, %at: tensor<64x64xindex>) {
  // expected-error @+1 {{expected a tile of f32 from a vector of f32, with a place of type index for each element, got 'tensor<128x64xf32>' from 'tensor<128xf32>' at 'tensor<64x64xindex>'}}
  %t = fa2.gather %v[%at] : tensor<128xf32>, tensor<64x64xindex> -> tensor<128x64xf32>
  return
}

// -----

func.func @broadcast_diagonals(%v: tensor<128xf32>) {
  // expected-error @+1 {{expected a value of f32 for each of the 191 diagonals, or more, got 'tensor<128xf32>' for 'tensor<128x64xf32>'}}
  %t = fa2.broadcast %v {diagonals} : tensor<128xf32> -> tensor<128x64xf32>
  return
}

// -----

func.func @broadcast_indices(%v: tensor<191xindex>) {
  // expected-error @+1 {{expected a value of f32 for each of the 191 diagonals, or more, got 'tensor<191xindex>' for 'tensor<128x64xindex>'}}
  %t = fa2.broadcast %v {diagonals} : tensor<191xindex> -> tensor<128x64xindex>
  return
}

// -----

func.func @broadcast_part_of_diagonals(%v: tensor<192xf32>) {
  // expected-error @+1 {{expected a value of f32 for each of the 255 diagonals, or more, got 'tensor<192xf32>' for 'tensor<128x64xf32>'}}
  %t = fa2.broadcast %v {diagonals, first = 64 : i64} : tensor<192xf32> -> tensor<128x64xf32>
  return
}

// -----

func.func @broadcast_part_of_columns(%v: tensor<128xf32>) {
  // expected-error @+1 {{expected a value for each of the 64 columns, got 'tensor<128xf32>'}}
  %t = fa2.broadcast %v {columns, first = 80 : i64} : tensor<128xf32> -> tensor<128x64xf32>
  return
}

// -----

func.func @broadcast_part_of_rows(%v: tensor<128xf32>) {
  // expected-error @+1 {{expected first to be 0 or, with columns or diagonals, more, got 64}}
  %t = fa2.broadcast %v {first = 64 : i64} : tensor<128xf32> -> tensor<128x64xf32>
  return
}

// -----

func.func @accumulate(%t: tensor<64x64xbf16>, %v: !fa2.view<? x 64 x bf16>, %row: index) {
  // expected-error @+1 {{expected a tile of f32, got 'tensor<64x64xbf16>'}}
  fa2.accumulate %t, %v[%row] : tensor<64x64xbf16>, !fa2.view<? x 64 x bf16>
  return
}

// -----

// expected-error @+1 {{expected block_kv to be a multiple of 16 * warps = 128 because keys gives each warp whole rows of 16, got 64}}
func.func private @keys_whole() attributes {s = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 8, stages = 2, partition = keys>}

// -----

// expected-error @+1 {{expected key_warps to divide warps = 8, got 3}}
func.func private @keys_divide() attributes {s = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, key_warps = 3>}

// -----

// expected-error @+1 {{expected block_q to be a multiple of 16 * dq_warps = 128, got 64}}
func.func private @dq_rows() attributes {s = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, dq_warps = 8>}

// -----

// expected-error @+1 {{expected block_q to be a power of 2 because dS is read transposed, got 48}}
func.func private @dq_power() attributes {s = #fa2.schedule<target = "sm_80", block_q = 48, block_kv = 64, warps = 4, stages = 2, partition = keys>}

// -----

// expected-error @+1 {{expected partition keys because key_warps or dq_warps is given, got split_q}}
func.func private @not_keys() attributes {s = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2, dq_warps = 2>}

// -----

// expected-error @+1 {{expected width to be 1 or 4, got 2}}
func.func private @reduction_width(!fa2.view<? x 64 x f32, order = <<4 x 1>, width = 2>>)

// -----

// expected-error @+1 {{expected warps that share one sum, got #fa2.warps<1 x 1, sums = 4>}}
func.func private @private_sums(!fa2.view<? x 64 x f32, order = <<1 x 1, sums = 4>>>)

// -----

// expected-error @+1 {{expected columns of f32 of one head because the view has an order, got 'bf16'}}
func.func private @order(!fa2.view<? x 64 x bf16, order = <<4 x 1>>>)

// -----

// expected-error @+1 {{expected at least one warp down, across and for each sum, got 0 x 1, sums = 1}}
func.func private @no_warps() attributes {w = #fa2.warps<0 x 1>}

// -----

func.func @no_order(%t: tensor<64x64xf32>, %sum: !fa2.view<? x 64 x f32>, %row: index) {
  // expected-error @+1 {{expected a view with an order, in which it adds, got '!fa2.view<? x 64 x f32>'}}
  fa2.accumulate %t, %sum[%row] : tensor<64x64xf32>, !fa2.view<? x 64 x f32>
  return
}

// -----

func.func @no_turn(%t: tensor<64x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>>>, %row: index) {
  // expected-error @+1 {{expected a turn where it begins, ends or changes (1)}}
  fa2.accumulate %t, %sum[%row] {begins} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  return
}

// -----

// expected-error @+1 {{expected dq = ordered or recompute of a schedule, got deterministic, which is whichever of them is chosen}}
"test.x"() {s = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, dq = deterministic>} : () -> ()

// -----

func.func @shared_turn_without_turn(%t: tensor<64x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>>>, %row: index, %first: i1) {
  // expected-error @+1 {{expected a turn where it begins, ends or changes (1)}}
  fa2.accumulate %t, %sum[%row] at(%row from %first to %first) : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  return
}

// -----

func.func @seen_without_begin(%t: tensor<64x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>>>, %row: index, %turns: !fa2.view<? x i32>, %seen: i32) {
  // expected-error @+1 {{expected what is seen where it begins, and later where it ends (1)}}
  fa2.accumulate %t, %sum[%row] turn(%row of %turns : !fa2.view<? x i32>) seen(%seen) {ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  return
}

// -----

func.func @given_and_later(%t: tensor<64x64xf32>, %come: tensor<1xi32>, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>>>, %row: index, %turns: !fa2.view<? x i32>) {
  // expected-error @+1 {{expected a turn of one tile that is given, neither seen before nor passed on later (1)}}
  fa2.accumulate %t, %sum[%row] turn(%row of %turns : !fa2.view<? x i32>) given(%come to %come : tensor<1xi32>, tensor<1xi32>) {begins, ends, later} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  return
}

// -----

func.func @opens_without_turn(%t: tensor<64x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>>>, %row: index, %to: !fa2.view<? x 64 x bf16>, %is: i1) {
  // expected-error @+1 {{expected a turn where a sum is opened and closed, and what it goes into (1)}}
  fa2.accumulate %t, %sum[%row] opens(%is) closes(%is) into(%to : !fa2.view<? x 64 x bf16>) : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  return
}

// -----

func.func @into_other_columns(%t: tensor<64x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>>>, %row: index, %turns: !fa2.view<? x i32>, %to: !fa2.view<? x 32 x bf16>, %is: i1) {
  // expected-error @+1 {{expected a tile of the view's 32 columns, got 'tensor<64x64xbf16>'}}
  fa2.accumulate %t, %sum[%row] turn(%row of %turns : !fa2.view<? x i32>) opens(%is) closes(%is) into(%to : !fa2.view<? x 32 x bf16>) {begins, ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  return
}

// -----

func.func @turned_into_columns(%t: tensor<128x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<8 x 1>>>, %row: index, %turns: !fa2.view<? x i32>, %to: !fa2.view<? x 128 x bf16>, %is: i1) {
  // expected-error @+1 {{expected no column because the view is '!fa2.view<? x 128 x bf16>'}}
  fa2.accumulate %t, %sum[%row] turn(%row of %turns : !fa2.view<? x i32>) opens(%is) closes(%is) into(%to turned [%row, %row] : !fa2.view<? x 128 x bf16>) {begins, ends} : tensor<128x64xf32>, !fa2.view<? x 64 x f32, order = <<8 x 1>>>
  return
}

// -----

func.func @resumed_and_left_open(%t: tensor<64x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>>>, %row: index, %turns: !fa2.view<? x i32>) {
  // expected-error @+1 {{expected a sum that closes where it was resumed (1)}}
  fa2.accumulate %t, %sum[%row] turn(%row of %turns : !fa2.view<? x i32>) {begins, ends, resumed} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  return
}

// -----

func.func @resumes_no_sum(%sum: !fa2.view<? x 64 x f32>, %row: index, %turns: !fa2.view<? x i32>, %is: i1) {
  // expected-error @+1 {{expected a view with an order, in which it adds, got '!fa2.view<? x 64 x f32>'}}
  %t = fa2.resume %sum[%row] turn(%row of %turns : !fa2.view<? x i32>) opens(%is) closes(%is) : !fa2.view<? x 64 x f32> -> tensor<64x64xf32>
  return
}

// -----

func.func @turns_of_f32(%t: tensor<64x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>>>, %row: index, %turns: !fa2.view<? x f32>) {
  // expected-error @+1 {{expected turns of i32, a vector of them (1), got '!fa2.view<? x f32>'}}
  fa2.accumulate %t, %sum[%row] turn(%row of %turns : !fa2.view<? x f32>) {begins} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  return
}

// -----

// expected-error @+1 {{guard '1/0': a division by 0, which has no value, at column 4}}
"test.x"() {g = #fa2.guard<"1/0">} : () -> ()

// -----

// expected-error @+1 {{guard 'seqlen_q % (2 * 3 - 6) == 1': a division by 0, which has no value, at column 23}}
"test.x"() {g = #fa2.guard<"seqlen_q % (2 * 3 - 6) == 1">} : () -> ()

// -----

// expected-error @+1 {{guard 'ceildiv(seqlen_q, -4) > 1': ceildiv of -4, which has no value, at column 21}}
"test.x"() {g = #fa2.guard<"ceildiv(seqlen_q, -4) > 1">} : () -> ()

// -----

// expected-error @+1 {{guard 'heads < 9223372036854775807 + 1': an overflow of 64 bits at column 32}}
"test.x"() {g = #fa2.guard<"heads < 9223372036854775807 + 1">} : () -> ()

// -----

// What depends on the launch is for the launch.
"test.x"() {g = #fa2.guard<"heads / heads_kv > 8 / 2 - 1 && seqlen_q % -3 == 0 && ceildiv(seqlen_k, 4) > min(0, 0) && 1 - !0 < 2">} : () -> ()

// -----

// expected-error @+1 {{guard 'seqlen_k <= ': expected a value, got the end at column 13}}
"test.x"() {g = #fa2.guard<"seqlen_k <= ">} : () -> ()

// -----

// Constraint 6 of fa2.attention: variants stand beside a schedule, have its target, and are few.
func.func @c6_alone(%q: tensor<?x?x?x64xf16>) {
  // expected-error @+1 {{expected a schedule because there are variants}}
  %o, %l = fa2.attention ins(%q, %q, %q) {variants = [#fa2.variant<when = <"heads > 1">, schedule = <target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>>]}
      : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

#s = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>
func.func @c6_target(%q: tensor<?x?x?x64xf16>) {
  // expected-error @+1 {{expected variants for the schedule's target sm_80, got one for sm_90}}
  %o, %l = fa2.attention ins(%q, %q, %q) {schedule = #s, variants = [#fa2.variant<when = <"heads > 1">, schedule = <target = "sm_90", block_q = 64, block_kv = 64, warps = 4, stages = 1>>]}
      : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

#s = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>
#v = #fa2.variant<when = <"heads > 1">, schedule = #s>
func.func @c6_many(%q: tensor<?x?x?x64xf16>) {
  // expected-error @+1 {{expected at most 8 variants, got 9}}
  %o, %l = fa2.attention ins(%q, %q, %q) {schedule = #s, variants = [#v, #v, #v, #v, #v, #v, #v, #v, #v]}
      : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

#s = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>
func.func @batch_chooses_bits(%q: tensor<?x?x?x64xbf16>) {
  // expected-error @+1 {{guard 'batch > 1' reads batch, but its schedule and one after it differ in block_kv, and so in bits: a sequence gets the same bits in every batch}}
  %o, %l = fa2.attention ins(%q, %q, %q) {schedule = #s, variants = [#fa2.variant<when = <"batch > 1">, schedule = <target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 1>>]}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return
}

// -----

// Variants that share rows with the schedule: rows are alike, and the bits of both the same.
#s = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>
#v = #fa2.variant<when = <"heads > 1">, after = <"128">, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 2>>
func.func @shares_under_a_mask(%q: tensor<?x?x?x64xbf16>) {
  // expected-error @+1 {{expected rows that are all alike because a variant takes those after 128, got a mask}}
  %o, %l = fa2.attention ins(%q, %q, %q) {mask = #fa2.mask<causal>, schedule = #s, variants = [#v]}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return
}

// -----

#s = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>
#v = #fa2.variant<when = <"heads > 1">, after = <"128">, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 32, warps = 4, stages = 2>>
func.func @shares_in_other_bits(%q: tensor<?x?x?x64xbf16>) {
  // expected-error @+1 {{expected the schedule of the rows after 128 to be of one class of bits with that of those before, got another block_kv}}
  %o, %l = fa2.attention ins(%q, %q, %q) {schedule = #s, variants = [#v]}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return
}

// -----

// expected-error @+1 {{expected heads to be a power of two from 1 to 64, got 3}}
"test.x"() {t = !fa2.view<3 heads, ? x 64 x bf16>} : () -> ()

// -----

// expected-error @+1 {{expected packed_heads to be a power of two from 1 to 64, got 128}}
"test.x"() {s = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, packed_heads = 128>} : () -> ()

// -----

func.func @range_from_nowhere(%r: !fa2.tile_range, %p: index) {
  // expected-error @+1 {{expected a range that an operation gives, because passes ask it for its tiles}}
  %j = fa2.tile_at %r[%p]
  return
}

// -----

func.func @both_ways(%b: index, %e: index) {
  %r = fa2.tile_range %b to %e full(%b, %e)
  %s = fa2.tile_range %b to %e falling full(%b, %e)
  // expected-error @+1 {{expected two ranges that both fall or both rise, without a rotation}}
  %n = fa2.tiles_until %r in %s
  return
}

// -----

func.func @either_way(%kb: index, %sq: index, %sk: index, %down: i1) {
  %r = fa2.q_range %kb lengths(%sq, %sk) blocks(128, 64)
  %s = fa2.q_range %kb falling %down lengths(%sq, %sk) blocks(128, 64)
  // expected-error @+1 {{expected two ranges that both fall or both rise, without a rotation}}
  %n = fa2.tiles_through %r in %s
  return
}

// -----

func.func @from(%b: index, %e: index) {
  %r = fa2.tile_range %b to %e full(%b, %e)
  // expected-error @+1 {{expected from to be at least 0, got -1}}
  "fa2.for_tiles"(%r) ({
  ^bb0(%j: index):
    fa2.yield
  }) {from = -1 : i64} : (!fa2.tile_range) -> ()
  return
}

// -----

func.func @carries(%b: index, %e: index) {
  %r = fa2.tile_range %b to %e full(%b, %e)
  // expected-error @+1 {{expected fa2.yield of what the loop carries}}
  %x = fa2.for_tiles %j in %r iter_args(%y = %b) -> (index) {
    fa2.yield
  }
  return
}

// -----

func.func @arguments(%b: index, %e: index) {
  %r = fa2.tile_range %b to %e full(%b, %e)
  // expected-error @+1 {{expected a tile and what the loop carries as arguments of the body}}
  "fa2.for_tiles"(%r) ({
  ^bb0(%j: index, %p: index):
    fa2.yield
  }) : (!fa2.tile_range) -> ()
  return
}

// -----

func.func @grad_c6(%q: tensor<?x?x?x64xf16>, %l: tensor<?x?x?xf32>) {
  // expected-error @+1 {{expected the score region to yield two f32}}
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %q, %q, %q, %l, %q)
      : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf16>
      -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>
    score {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      fa2.yield %s : f32
    }
  return
}

// -----

func.func @scatter_indices(%x: tensor<64x32xf32>, %t: memref<?x?xf32, strided<[?, ?]>>, %i: index) {
  // expected-error @+1 {{expected 2 indices, one a dimension, got 1}}
  fa2.scatter %x to %t[%i] : tensor<64x32xf32>, memref<?x?xf32, strided<[?, ?]>>, index
  return
}

// -----

func.func @scatter_words(%x: tensor<64x32xf32>, %t: memref<?xf32, strided<[?]>>, %i: index, %w: memref<?x256xf32, strided<[?, 1]>>) {
  // expected-error @+1 {{expected words of i32 for sums of f32, got 'memref<?x256xf32, strided<[?, 1]>>' and 'memref<?xf32, strided<[?]>>'}}
  fa2.scatter %x to %t[%i] exactly(%w : memref<?x256xf32, strided<[?, 1]>>) : tensor<64x32xf32>, memref<?xf32, strided<[?]>>, index
  return
}

// -----

func.func @round_sums(%t: memref<?xbf16, strided<[?]>>, %i: index, %w: memref<?x256xi32, strided<[?, 1]>>) {
  // expected-error @+1 {{expected words of i32 for sums of f32, got 'memref<?x256xi32, strided<[?, 1]>>' and 'memref<?xbf16, strided<[?]>>'}}
  fa2.round_sums %w to %t part(%i, %i) : memref<?x256xi32, strided<[?, 1]>>, memref<?xbf16, strided<[?]>>
  return
}

// -----

func.func @scatter_element(%x: tensor<64x32xf32>, %t: memref<?xbf16, strided<[?]>>, %i: index) {
  // expected-error @+1 {{expected values and a sum of f32, got 'tensor<64x32xf32>' and 'memref<?xbf16, strided<[?]>>'}}
  fa2.scatter %x to %t[%i] : tensor<64x32xf32>, memref<?xbf16, strided<[?]>>, index
  return
}

// -----

// A value a row has no place by columns.
func.func @scatter_columns(%x: tensor<64x32xf32>, %t: memref<?xf32, strided<[?]>>, %i: tensor<64xindex>) {
  // expected-error @+1 {{expected indices of the values' shape, or of their columns, got 1 dimensions, the first of 64}}
  fa2.scatter %x to %t[%i] {columns} : tensor<64x32xf32>, memref<?xf32, strided<[?]>>, tensor<64xindex>
  return
}

// -----

func.func @scatter_diagonals(%x: tensor<64x32xf32>, %t: memref<?xf32, strided<[?]>>, %i: tensor<64xindex>) {
  // expected-error @+1 {{expected diagonals of a tile's indices, got 1 dimensions}}
  fa2.scatter %x to %t[%i] {diagonals} : tensor<64x32xf32>, memref<?xf32, strided<[?]>>, tensor<64xindex>
  return
}

// -----

func.func @scatter_shapes(%x: tensor<64x32xf32>, %t: memref<?x?xf32, strided<[?, ?]>>, %i: tensor<64xindex>, %j: tensor<64x32xindex>) {
  // expected-error @+1 {{expected indices, or tensors of them with one shape, got 'tensor<64x32xindex>'}}
  fa2.scatter %x to %t[%i, %j] : tensor<64x32xf32>, memref<?x?xf32, strided<[?, ?]>>, tensor<64xindex>, tensor<64x32xindex>
  return
}

// -----

func.func @grads_results(%q: tensor<?x?x?x64xf16>, %l: tensor<?x?x?xf32>, %x: f32) {
  // expected-error @+1 {{expected a result for each of the 1 grads, got 0}}
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %q, %q, %q, %l, %q) extras(%x : f32) {grads = array<i64: 0>}
    : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf16>
    -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> score {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %e: f32):
      fa2.yield %s, %s : f32, f32
    }
  return
}

// -----

func.func @grads_integer(%q: tensor<?x?x?x64xf16>, %l: tensor<?x?x?xf32>, %x: i32) {
  // expected-error @+1 {{expected extra 0, which is in grads, to be of floats, got 'i32'}}
  %dq, %dk, %dv, %dx = fa2.attention_grad ins(%q, %q, %q, %q, %l, %q) extras(%x : i32) {grads = array<i64: 0>}
    : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf16>
    -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<1xf32> score {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %e: i32):
      fa2.yield %s, %s : f32, f32
    }
  return
}

// -----

func.func @contribute_elsewhere(%q: tensor<?x?x?x64xf16>, %l: tensor<?x?x?xf32>, %x: f32, %t: tensor<?xf32>) {
  %dq, %dk, %dv, %dx = fa2.attention_grad ins(%q, %q, %q, %q, %l, %q) extras(%x, %t : f32, tensor<?xf32>) {grads = array<i64: 0>}
    : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf16>
    -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<1xf32> score {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %e: f32, %u: tensor<?xf32>):
      // expected-error @+1 {{expected an extra in grads with an index a dimension}}
      fa2.contribute %s to %u[%h] : tensor<?xf32>
      fa2.yield %s, %s : f32, f32
    }
  return
}

// -----

// Constraint 7 of fa2.attention: the sink.
func.func @c7_sink(%q: tensor<?x?x?x64xf16>, %s: tensor<?x?xf32>) {
  // expected-error @+1 {{expected sink to be tensor<?xf32>, [heads], got 'tensor<?x?xf32>'}}
  %o, %l = fa2.attention ins(%q, %q, %q) sink(%s : tensor<?x?xf32>) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

// Constraint 8 of fa2.attention_grad.
func.func @g8_type(%q: tensor<?x?x?x64xf16>, %l: tensor<?x?x?xf32>, %s: tensor<?xf32>) {
  // expected-error @+1 {{expected dsink to have the type of sink, 'tensor<?xf32>', got 'tensor<?xf16>'}}
  %dq, %dk, %dv, %ds = fa2.attention_grad ins(%q, %q, %q, %q, %l, %q) sink(%s : tensor<?xf32>) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> sink tensor<?xf16>
  return
}

// -----

func.func @g8_none(%q: tensor<?x?x?x64xf16>, %l: tensor<?x?x?xf32>) {
  // expected-error @+1 {{expected a sink because there is dsink, its gradient}}
  %dq, %dk, %dv, %ds = fa2.attention_grad ins(%q, %q, %q, %q, %l, %q) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> sink tensor<?xf32>
  return
}

// -----

func.func @store_sums_rows(%x: tensor<40xf32>, %t: memref<?x?xf32, strided<[?, 1]>>, %i: index) {
  // expected-error @+1 {{expected a vector of f32, 16 rows a sum, got 'tensor<40xf32>'}}
  fa2.store_sums %x to %t[%i] from %i : tensor<40xf32>, memref<?x?xf32, strided<[?, 1]>>
  return
}

// -----

func.func @store_sums_indices(%x: tensor<64xf32>, %t: memref<?x?xf32, strided<[?, 1]>>, %i: index) {
  // expected-error @+1 {{expected sums of f32 with one dimension more than 2 indices, got 'memref<?x?xf32, strided<[?, 1]>>'}}
  fa2.store_sums %x to %t[%i, %i] from %i : tensor<64xf32>, memref<?x?xf32, strided<[?, 1]>>
  return
}

// -----

func.func @add_up_parts(%p: memref<?xf32, strided<[1]>>, %t: memref<?xf32, strided<[?]>>, %i: index) {
  // expected-error @+1 {{expected parts of f32 of rank 2 or more, got 'memref<?xf32, strided<[1]>>'}}
  fa2.add_up %p to %t[%i] : memref<?xf32, strided<[1]>>, memref<?xf32, strided<[?]>>
  return
}

// -----

func.func @add_up_sums(%p: memref<?x?xf32, strided<[?, 1]>>, %i: index) {
  // expected-error @+1 {{expected sums of f32 of rank 1, got 'memref<?x?xf32, strided<[?, 1]>>'}}
  fa2.add_up %p to %p[%i] : memref<?x?xf32, strided<[?, 1]>>, memref<?x?xf32, strided<[?, 1]>>
  return
}

// -----

// Constraint 8 of fa2.attention: dropout.
func.func @c8_rng(%q: tensor<?x?x?x64xf16>, %p: f32, %r: tensor<2xi64>) {
  // expected-error @+1 {{expected rng to be tensor<4xi32>, seed and offset, got 'tensor<2xi64>'}}
  %o, %l = fa2.attention ins(%q, %q, %q) dropout(%p, %r : tensor<2xi64>) : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return
}

// -----

func.func @transpose_wide(%x: tensor<16x32xf32>) {
  // expected-error @+1 {{expected a tile of 16 bits, got 'tensor<16x32xf32>'}}
  %t = fa2.transpose %x : tensor<16x32xf32> -> tensor<32x16xf32>
  return
}

// -----

func.func @transpose_shape(%x: tensor<16x32xbf16>) {
  // expected-error @+1 {{expected a result of 'tensor<32x16xbf16>', got 'tensor<16x32xbf16>'}}
  %t = fa2.transpose %x : tensor<16x32xbf16> -> tensor<16x32xbf16>
  return
}

// -----

func.func @zero_box_indices(%x: memref<?x?xbf16, strided<[?, ?]>>, %i: index) {
  // expected-error @+1 {{expected 2 indices in from and in to, one a dimension, got 1 and 2}}
  fa2.zero_box %x from(%i) to(%i, %i) {rows = 0} : memref<?x?xbf16, strided<[?, ?]>>
  return
}

// -----

func.func @zero_box_rows(%x: memref<?x?xbf16, strided<[?, ?]>>, %i: index) {
  // expected-error @+1 {{expected rows to be a dimension before the last, 0 to 0, got 1}}
  fa2.zero_box %x from(%i, %i) to(%i, %i) {rows = 1} : memref<?x?xbf16, strided<[?, ?]>>
  return
}

// -----

func.func @keep_words(%i: index, %t: i32) {
  // expected-error @+1 {{expected 4 words, of seed and offset, got 1}}
  %k = fa2.keep at(%i, %i) head(%i) words(%t) from %t : tensor<16x16xi1>
  return
}

// -----

func.func @keep_tile(%i: index, %t: i32) {
  // expected-error @+1 {{expected a tile of i1 or i16, got 'tensor<16x16xf32>'}}
  %k = fa2.keep at(%i, %i) head(%i) words(%t, %t, %t, %t) from %t : tensor<16x16xf32>
  return
}

// -----

// Of a block alone nobody asks which it is.
func.func @rank_of_one(%n: index) {
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    // expected-error @+1 {{'fa2.cluster_rank' op expected fa2.for_each_tile with a cluster of blocks around it}}
    %rank = fa2.cluster_rank
  }
  return
}

// -----

func.func @rank_of_nothing() {
  // expected-error @+1 {{'fa2.cluster_rank' op expected fa2.for_each_tile with a cluster of blocks around it}}
  %rank = fa2.cluster_rank
  return
}

// -----

func.func @exchange_alone(%n: index, %ds: tensor<64x64xbf16>) {
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    // expected-error @+1 {{'fa2.exchange' op expected fa2.for_each_tile with a cluster of blocks around it}}
    %other = fa2.exchange %ds : tensor<64x64xbf16>
  } {cluster = 1 : i64}
  return
}

// -----

func.func @cluster_of_three(%n: index) {
  // expected-error @+1 {{attribute 'cluster' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 1 whose maximum value is 2}}
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
  } {cluster = 3 : i64}
  return
}

// -----

func.func @column_of_vector(%x: memref<?x?x?xf32>, %i: index) {
  // expected-error @+1 {{expected no column because the source has none, or the view packs heads}}
  %v = fa2.view %x[%i, %i] rows(%i, %i) from %i : memref<?x?x?xf32> -> !fa2.view<? x f32>
  return
}

// -----

func.func @column_of_packed_heads(%x: memref<?x?x?x64xf16>, %i: index) {
  // expected-error @+1 {{expected no column because the source has none, or the view packs heads}}
  %v = fa2.view %x[%i, %i] rows(%i, %i) from %i : memref<?x?x?x64xf16> -> !fa2.view<4 heads, ? x 64 x f16>
  return
}

// -----

func.func @column_of_transposed(%a: tensor<64x32xf16>, %b: tensor<16x32xf16>, %i: index) {
  // expected-error @+1 {{expected no column of b, which is transposed}}
  %d = fa2.dot %a, %b from %i {transpose_b} : tensor<64x32xf16>, tensor<16x32xf16> -> tensor<64x16xf32>
  return
}

// -----

func.func @rotation(%kb: index, %n: index) {
  // expected-error @+1 {{expected no mask and no falling tiles in a range with a rotation, got a rotation of 2}}
  %r = fa2.q_range %kb lengths(%n, %n) blocks(64, 128) {mask = #fa2.mask<causal>, rotation = 2}
  return
}
