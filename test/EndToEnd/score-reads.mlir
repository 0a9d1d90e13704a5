// REQUIRES: fa2-run
// What a program reads, of every kind at once: scalars, values of a head, of rows, of columns, of single elements, a table by an index that the
// program computes. Drawn with extents of 1, strides of 0 and gaps, between poison; against the float64 reference, which reads the same.

// DEFINE: %{target} =
// DEFINE: %{compile} = fa2-opt %s --fa2-pipeline="target=%{target}" | fa2-translate --fa2-to-ptx -o %t.ptx
// DEFINE: %{run} = fa2-run %t.ptx --device sim --cases 12 --max-seqlen 150
// REDEFINE: %{target} = sm_80
// RUN: %{compile} && %{run} --seed 1
// RUN: FileCheck %s < %t.ptx
// A value that the kernel computes otherwise is seen.
// RUN: sed 's/"of":\["column","row"\]/"of":["row","column"]/' %t.ptx | not fa2-run - --device sim --heads 2 --seqlen-q 70 --seqlen-k 133 | FileCheck %s --check-prefix=WRONG
// WRONG: FAILED {{.*}} exceeds the allowed
// REDEFINE: %{target} = sm_80 schedule=partition=split_k,block_q=16
// RUN: %{compile} && %{run} --seed 2
// REDEFINE: %{target} = sm_90a
// RUN: %{compile} && %{run} --seed 3
// REDEFINE: %{target} = sm_80 pass=backward
// RUN: %if long_tests %{ %{compile} && %{run} --seed 4 %}
// REDEFINE: %{target} = sm_80 pass=backward schedule=dq=recompute
// RUN: %if nightly_tests %{ %{compile} && %{run} --seed 5 %}

// The gradients of all that is read: summed over what it lacks, in registers where the place stays.
// REDEFINE: %{target} = sm_80 pass=backward grads=temperature,slopes,query_bias,key_bias,bias,table
// RUN: %{compile}
// RUN: %if long_tests %{ %{run} --seed 6 %}
// RUN: FileCheck %s --check-prefix=GRADS < %t.ptx
// A sum that gets zeros is seen in each of them.
// RUN: sed 's/^\(\t@.p[0-9]* red.relaxed.gpu.global.add.f32 .*, \).r[0-9]*;/\10f00000000;/' %t.ptx > %t.less.ptx
// RUN: not fa2-run %t.less.ptx --device sim --heads 2 --seqlen-q 70 --seqlen-k 133 | FileCheck %s --check-prefix=LESS
// LESS: FAILED     dtemperature element 0: 0 is off
// LESS: dslopes element
// LESS: dquery_bias element
// LESS: dkey_bias element
// LESS: dbias element
// LESS: dtable element
// REDEFINE: %{target} = sm_80 pass=backward grads=slopes,key_bias,table schedule=dq=recompute
// RUN: %if nightly_tests %{ %{compile} && %{run} --seed 7 %}
// GRADS: "deterministic": false
// GRADS: {"name":"dtemperature","kind":"tensor","direction":"out","dtype":"f32","shape":[1],"alignment":4,"stride_multiple":1,"broadcast":true},
// GRADS: {"name":"dkey_bias",{{.*}}"dtype":"f32","shape":["batch","heads","seqlen_k"],

// The manifest has all of it.
// CHECK: "fa2_manifest": 2
// CHECK: "program": {
// CHECK: "reads": [
// CHECK: "temperature"
// CHECK: {"name":"%0","op":"tensor.extract","of":["slopes","head"],"type":"f32"},
// CHECK: {"name":"slopes","kind":"tensor","direction":"in","dtype":"f32","shape":["heads"],"alignment":4,"stride_multiple":1,"broadcast":true},
// CHECK: {"name":"query_bias",{{.*}}"dtype":"f16","shape":["batch","seqlen_q"],
// CHECK: {"name":"key_bias",{{.*}}"dtype":"bf16","shape":["batch","heads","seqlen_k"],
// CHECK: {"name":"bias",{{.*}}"shape":["heads","seqlen_q","seqlen_k"],
// CHECK: {"name":"table",{{.*}}"shape":["heads","table_1"],
// CHECK: {"name":"document",{{.*}}"dtype":"i32","shape":["batch","document_1"],
// CHECK: {"kind":"stride","of":"slopes","dim":0}

func.func @reads_forward(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32,
    %temperature: f32, %slopes: tensor<?xf32>, %query_bias: tensor<?x?xf16>, %key_bias: tensor<?x?x?xbf16>, %bias: tensor<?x?x?xbf16>,
    %table: tensor<?x?xf32>, %document: tensor<?x?xi32>, %window: i32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c)
      extras(%temperature, %slopes, %query_bias, %key_bias, %bias, %table, %document, %window
          : f32, tensor<?xf32>, tensor<?x?xf16>, tensor<?x?x?xbf16>, tensor<?x?x?xbf16>, tensor<?x?xf32>, tensor<?x?xi32>, i32)
      {mask = #fa2.mask<causal>, extra_names = ["temperature", "slopes", "query_bias", "key_bias", "bias", "table", "document", "window"]}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %col: index, %t: f32, %sl: tensor<?xf32>, %qb: tensor<?x?xf16>,
           %kb: tensor<?x?x?xbf16>, %b: tensor<?x?x?xbf16>, %tab: tensor<?x?xf32>, %doc: tensor<?x?xi32>, %w: i32):
        // tanh(s / t) t + slopes[h] (j - i) / 64
        %slope = tensor.extract %sl[%head] : tensor<?xf32>
        %x = arith.divf %s, %t : f32
        %y = math.tanh %x : f32
        %capped = arith.mulf %y, %t : f32
        %d = arith.subi %col, %row : index
        %d32 = arith.index_cast %d : index to i32
        %df = arith.sitofp %d32 : i32 to f32
        %unit = arith.constant 0.015625 : f32
        %step = arith.mulf %slope, %unit : f32
        %far = arith.mulf %df, %step : f32
        %s1 = arith.addf %capped, %far : f32
        // + query_bias[b, i] + key_bias[b, h, j] + bias[h, i, j] + table[h, j - i + 7]
        %q16 = tensor.extract %qb[%batch, %row] : tensor<?x?xf16>
        %q32 = arith.extf %q16 : f16 to f32
        %s2 = arith.addf %s1, %q32 : f32
        %k16 = tensor.extract %kb[%batch, %head, %col] : tensor<?x?x?xbf16>
        %k32 = arith.extf %k16 : bf16 to f32
        %s3 = arith.addf %s2, %k32 : f32
        %b16 = tensor.extract %b[%head, %row, %col] : tensor<?x?x?xbf16>
        %b32 = arith.extf %b16 : bf16 to f32
        %s4 = arith.addf %s3, %b32 : f32
        %seven = arith.constant 7 : index
        %at = arith.addi %d, %seven : index
        %tx = tensor.extract %tab[%head, %at] : tensor<?x?xf32>
        %s5 = arith.addf %s4, %tx : f32
        // Keys of other documents, or further away than the window, are hidden: of rows that see others.
        %di = tensor.extract %doc[%batch, %row] : tensor<?x?xi32>
        %dj = tensor.extract %doc[%batch, %col] : tensor<?x?xi32>
        %same = arith.cmpi eq, %di, %dj : i32
        %negative = arith.subi %row, %col : index
        %n32 = arith.index_cast %negative : index to i32
        %near = arith.cmpi slt, %n32, %w : i32
        %seen = arith.ori %same, %near : i1
        %none = arith.constant 0xFF800000 : f32
        %r = arith.select %seen, %s5, %none : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
