// REQUIRES: long_tests, fa2-run, numpy
// A program's own choices: between scores (in every tile, the first too), and -inf for keys that it hides. A row whose
// keys are all hidden is an empty row, in however many tiles they lie: out is 0 and lse is -inf.

// DEFINE: %{target} =
// DEFINE: %{program} =
// DEFINE: %{lengths} =
// DEFINE: %{expected} =
// DEFINE: %{compile} = sed '%{program}' %s | fa2-opt --fa2-pipeline="target=%{target}" | fa2-translate --fa2-to-ptx -o %t/kernel.ptx
// DEFINE: %{launch} = fa2-run %t/kernel.ptx --device sim --check none --heads 2 --heads-kv 1 %{lengths} --scale 0.125
// DEFINE: %{save} = --save-q %t/q.npy --save-k %t/k.npy --save-v %t/v.npy --save-out %t/out.npy --save-lse %t/lse.npy
// DEFINE: %{check} = %numpy %S/Inputs/check-score.py %t 0.125 "%{expected}"
// RUN: rm -rf %t && mkdir %t

// REDEFINE: %{expected} = np.where(j - i < 7, s, -3)
// REDEFINE: %{program} = s/OTHER/-3.0/;s/BOUND/7/
// REDEFINE: %{lengths} = --seqlen-q 70 --seqlen-k 533
// REDEFINE: %{target} = sm_80
// RUN: %{compile} && %{launch} %{save} && %{check}
// REDEFINE: %{target} = sm_90a
// RUN: %{compile} && %{launch} %{save} && %{check}

// REDEFINE: %{expected} = np.where(j - i < 1, s, -np.inf)
// REDEFINE: %{program} = s/OTHER/0xFF800000/;s/BOUND/1/
// REDEFINE: %{lengths} = --seqlen-q 256 --seqlen-k 533
// RUN: %{compile} && %{launch} %{save} && %{check}
// REDEFINE: %{target} = sm_80
// RUN: %{compile} && %{launch} %{save} && %{check}
// REDEFINE: %{lengths} = --seqlen-q 256 --seqlen-k 256
// RUN: %{compile} && %{launch} %{save} && %{check}

// Rows 0 to 299 see no key, and none of their tiles says so.
// REDEFINE: %{expected} = np.where(j - i < -299, s, -np.inf)
// REDEFINE: %{program} = s/OTHER/0xFF800000/;s/BOUND/-299/
// REDEFINE: %{lengths} = --seqlen-q 320 --seqlen-k 300
// RUN: %{compile} && %{launch} %{save} && %{check}
// REDEFINE: %{target} = sm_90a
// RUN: %{compile} && %{launch} %{save} && %{check}

// -1e9 hides keys from rows that see others; rows that see no others see all of them alike, in f16 too.
// REDEFINE: %{expected} = np.where(j - i < -199, s, -1e9)
// REDEFINE: %{program} = s/OTHER/-1.0e9/;s/BOUND/-199/;s/bf16/f16/g
// RUN: %{compile} && %{launch} %{save} && %{check}
// REDEFINE: %{target} = sm_80
// RUN: %{compile} && %{launch} %{save} && %{check}

// A constant that the accumulator begins with too, in another layout.
// REDEFINE: %{expected} = np.where(j - i < 7, s, 0)
// REDEFINE: %{program} = s/OTHER/0.0/;s/BOUND/7/
// REDEFINE: %{target} = sm_80 schedule=partition=split_k,block_q=16
// RUN: %{compile} && %{launch} %{save} && %{check}

func.func @select(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %col: index):
        %other = arith.constant OTHER : f32
        %bound = arith.constant BOUND : index
        %d = arith.subi %col, %row : index
        %near = arith.cmpi slt, %d, %bound : index
        %r = arith.select %near, %s, %other : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
