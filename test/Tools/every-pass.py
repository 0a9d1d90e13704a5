"""every-pass.py FA2-OPT FOLDER [PART/PARTS [EVERY]]: runs each pass of fa2-opt alone, and the pipeline, on each .mlir file under FOLDER, and the pipeline
on the output of each of its stages. A pass may refuse what it is given, with an error; it must not crash. Prints what did. EVERY takes a
sample: every EVERY-th file and stage for a pass, beginning one later for the next, so that each pass and each file is in it."""
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

tool, folder = sys.argv[1], Path(sys.argv[2])
part, parts = map(int, (sys.argv[3] if len(sys.argv) > 3 else "0/1").split("/"))
every = int(sys.argv[4]) if len(sys.argv) > 4 else 1
text = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True).stdout
passes = sorted(set(re.findall(r"^ +(--(?:convert-)?fa2[a-z0-9-]*)", text, re.MULTILINE)))
assert len(passes) > 20, f"expected fa2-opt --help to list the passes, got {passes}"
stages = re.search(r"to be one of (.*), got", subprocess.run(
    [tool, "--fa2-pipeline=stop-after=none"], input="module {}", capture_output=True, text=True).stderr).group(1).split(", ")


def sample(number):
    """The passes for the file or stage of this number."""
    return [p for at, p in enumerate(passes) if (at + number) % every == 0]


def run(arguments, source=None):
    """What crashed, or nothing."""
    done = subprocess.run([tool, "--split-input-file", "--allow-unregistered-dialect", *arguments], input=source, capture_output=True, text=True)
    if done.returncode < 0 or done.returncode > 1:
        return f"{' '.join(arguments)}: exit status {done.returncode}\n{done.stderr[-600:]}"
    if done.returncode == 1 and "error:" not in done.stderr:
        return f"{' '.join(arguments)}: failed without an error"
    return None


ATTENTION = """func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}"""


def again(number, target, stage):
    """The sample's passes on what the pipeline gives after a stage."""
    first = subprocess.run([tool, f"--fa2-pipeline=target={target} stop-after={stage}"], input=ATTENTION, capture_output=True, text=True, check=True)
    return [f"after {stage} for {target}: {c}" for c in (run([p], first.stdout) for p in sample(number)) if c]


jobs = [(run, ([p, str(f)],)) for number, f in enumerate(sorted(folder.rglob("*.mlir"))) for p in sample(number)]
jobs += [(again, (number, target, stage))
         for number, (target, stage) in enumerate((target, stage) for target in ("sm_80", "sm_90a") for stage in stages)]
jobs = jobs[part::parts]
with ThreadPoolExecutor(2) as pool:
    results = list(pool.map(lambda job: job[0](*job[1]), jobs))
crashes = [c for r in results for c in (r if isinstance(r, list) else [r]) if c]
print(f"{len(jobs)} files and passes, {len(crashes)} crashes")
for crash in crashes:
    print(crash)
sys.exit(1 if crashes else 0)
