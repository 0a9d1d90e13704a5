"""Writes the table of what is supported where: it asks the compiler for each kernel.

usage: make-support.py [--tools BUILD/bin] [--check]

The table goes between `<!-- support -->` and `<!-- end -->` of README.md and docs/guide/support.md. A kernel is supported where the
compiler makes one; whether it is right is the other tests' matter. --check writes nothing and fails when a page has another table.
"""
import argparse
import os
import re
import subprocess
import sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
pages = ["README.md", os.path.join("docs", "guide", "support.md")]

TARGETS = {"sm_80": "sm_80: A100 and every later GPU", "sm_90a": "sm_90a: H100, H200"}

PROGRAM = """
func.func @softcap(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32> score {
  ^bb0(%s: f32, %batch: index, %head: index, %row: index, %col: index):
    %cap = arith.constant 5.0 : f32
    %t = math.tanh %s : f32
    %capped = arith.mulf %t, %cap : f32
    fa2.yield %capped : f32
  }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
"""

DIMS = (8, 64, 72, 128, 200, 256)


def flags(*which):
    """Supported where all of these are."""
    return lambda tools, arch: all(
        run([os.path.join(tools, "fa2-compile"), "--arch", arch, "--variants", "none", "--emit=gpu", "-o", os.devnull, *f.split()])
        for f in which)


def program(options=""):
    return lambda tools, arch: run([os.path.join(tools, "fa2-opt"), "-", "-o", os.devnull,
                                    f"--fa2-pipeline=target={arch} stop-after=fa2gpu-verify {options}"], PROGRAM)


def run(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True).returncode == 0


def each_dim(more=""):
    return flags(*(f"--head-dim {d} {more}" for d in DIMS))


ROWS = [
    ("forward, bf16 and f16", flags("--dtype bf16", "--dtype f16")),
    ("head dims 8 to 256, multiples of 8", each_dim()),
    ("head dim of v other than that of q and k", flags("--head-dim 192 --head-dim-v 128", "--head-dim 64 --head-dim-v 256")),
    ("causal, aligned to the last key or to the first", flags("--mask causal", "--mask causal-top-left")),
    ("programs of scores: softcap, ALiBi, bias and others", lambda tools, arch: program()(tools, arch) and flags(
        "--softcap 30", "--alibi head", "--bias full")(tools, arch)),
    ("backward, the same head dims and masks",
     flags(*(f"--pass backward --head-dim {d}" for d in DIMS), "--pass backward --mask causal")),
    ("backward with the same bits in each run", flags("--pass backward --dq deterministic")),
    ("backward of programs of scores", program("pass=backward")),
    ("gradients of what programs read: slopes, biases and others",
     flags("--pass backward --alibi head --grads slopes", "--pass backward --bias full --grads bias")),
    ("sinks and dropout, forward and backward; gradients of sinks and from lse",
     flags("--sink head --dropout argument", "--pass backward --sink head --grads sink --dropout argument --grad-lse argument")),
]


def table(tools):
    lines = ["| | " + " | ".join(TARGETS.values()) + " |", "|---|" + "---|" * len(TARGETS)]
    for text, supported in ROWS:
        lines.append(f"| {text} | " + " | ".join("yes" if supported(tools, arch) else "not yet" for arch in TARGETS) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(root, "build", "release", "bin"))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    block = "\n".join(["<!-- support -->", "", *table(args.tools), "", "<!-- end -->"])
    stale = []
    for page in pages:
        path = os.path.join(root, page)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        wanted, found = re.subn(r"<!-- support -->.*?<!-- end -->", lambda _: block, text, flags=re.DOTALL)
        if found != 1:
            sys.exit(f"make-support: {page} has {found} places for the table")
        if args.check:
            stale += [page] if wanted != text else []
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(wanted)
    if stale:
        print(f"{' and '.join(stale)}: not what the compiler supports now; run scripts/make-support.py\n{block}")
    return 1 if stale else 0


sys.exit(main())
