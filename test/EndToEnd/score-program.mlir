// REQUIRES: fa2-run, numpy
// A score program computes what it says, under masks, in every partition and with grouped heads: against float64.

// DEFINE: %{more} =
// DEFINE: %{pipeline} = fa2-opt %s --fa2-pipeline="target=sm_80 %{more}" | fa2-translate --fa2-to-ptx -o %t/kernel.ptx
// DEFINE: %{launch} = fa2-run %t/kernel.ptx --device sim --check none --batch 2 --heads 4 --heads-kv 2 --seqlen-q 70 --seqlen-k 133 --scale 0.2
// DEFINE: %{save} = --save-q %t/q.npy --save-k %t/k.npy --save-v %t/v.npy --save-out %t/out.npy --save-lse %t/lse.npy
// DEFINE: %{expected} = np.where(j <= i + 63, 5 * np.tanh(s / 5) - 0.01 * (h + 1) * np.abs(i - j) + 0.25 * b, -np.inf)
// RUN: rm -rf %t && mkdir %t
// RUN: %{pipeline}
// RUN: %{launch} %{save}
// RUN: %numpy %S/Inputs/check-score.py %t 0.2 "%{expected}"
// REDEFINE: %{more} = schedule=partition=split_k,block_q=16,stages=1
// RUN: %{pipeline}
// RUN: %{launch} %{save}
// RUN: %numpy %S/Inputs/check-score.py %t 0.2 "%{expected}"
// A check that cannot fail would pass this.
// RUN: not %numpy %S/Inputs/check-score.py %t 0.2 "np.where(j <= i + 63, s, -np.inf)"

// The manifest holds the program, from which fa2-run has its own reference.
// RUN: FileCheck %s < %t/kernel.ptx
// CHECK: "fa2_manifest": 2
// CHECK: "program": {
// CHECK-NEXT: "reads": [],
// CHECK-NEXT: "steps": [
// CHECK-NEXT: {"name":"%0","op":"arith.constant","value":0.2{{.*}},"type":"f32"},
// CHECK-NEXT: {"name":"%1","op":"arith.constant","value":5,"type":"f32"},
// CHECK-NEXT: {"name":"%2","op":"arith.mulf","of":["score","%0"],"type":"f32"},
// CHECK: "result": "%
// RUN: fa2-run %t/kernel.ptx --device sim --cases 8 --max-seqlen 150
// Of another program's kernel it says so.
// RUN: sed 's/"value":5,/"value":5.5,/' %t/kernel.ptx > %t/wrong.ptx
// RUN: not fa2-run %t/wrong.ptx --device sim | FileCheck %s --check-prefix=WRONG
// WRONG: FAILED {{.*}} exceeds the allowed

func.func @softcap_alibi(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %col: index):
        // 5 tanh(s / 5)
        %fifth = arith.constant 0.2 : f32
        %cap = arith.constant 5.0 : f32
        %x = arith.mulf %s, %fifth : f32
        %t = math.tanh %x : f32
        %capped = arith.mulf %t, %cap : f32
        // - 0.01 (head + 1) |row - col|
        %one = arith.constant 1 : index
        %h1 = arith.addi %head, %one : index
        %h2 = arith.index_cast %h1 : index to i32
        %h3 = arith.sitofp %h2 : i32 to f32
        %step = arith.constant -0.01 : f32
        %slope = arith.mulf %h3, %step : f32
        %d = arith.subi %row, %col : index
        %d1 = arith.index_cast %d : index to i32
        %d2 = arith.sitofp %d1 : i32 to f32
        %far = math.absf %d2 : f32
        %bias = arith.mulf %slope, %far : f32
        %sum = arith.addf %capped, %bias : f32
        // + batch / 4
        %b1 = arith.index_cast %batch : index to i32
        %b2 = arith.sitofp %b1 : i32 to f32
        %quarter = arith.constant 0.25 : f32
        %b3 = arith.mulf %b2, %quarter : f32
        %r = arith.addf %sum, %b3 : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
