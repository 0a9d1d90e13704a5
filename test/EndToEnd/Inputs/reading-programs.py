#!/usr/bin/env python3
"""Random score programs that read operands, forward and backward on both families, each held to fa2-run's float64 reference,
which interprets the program that the manifest holds and draws what it reads.

    reading-programs.py FOLDER --seed 1 --count 40
    reading-programs.py FOLDER --seed 2 --count 300 --compile-only               # here: FOLDER/NNNN/FAMILY.ptx and case.json
    reading-programs.py FOLDER --run-only --device cuda --jobs 14 --cases 4      # there: needs fa2-run alone

Program N of a seed is the same whatever the count. Backward asks for gradients of some of the floats that are read. A program
that the compiler refuses by name is no failure, but at most --refused of them may be. Of a wrong result FOLDER/NNNN stays, and
what to type is printed; the folders of programs that passed are removed unless --keep, --compile-only or --run-only says
otherwise. How tight the check is: of each program one step of the manifest is altered, and fa2-run must refuse the forward
kernel then (--altered is the least share that it must). The exit status is 1 when anything failed.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from scorefuzz.draws import Random  # noqa: E402
from scorefuzz.folders import numbers  # noqa: E402
from scorefuzz.readers import draw_program  # noqa: E402

LENGTHS = ((70, 133), (130, 150), (33, 257), (1, 300), (133, 70), (64, 128), (65, 129), (200, 190), (17, 1), (129, 330))
FAMILIES = {  # what --schedule says; "": as chosen
    "forward-sm_80": ("", "", "", "stages=1", "partition=split_k,block_q=16", "lazy_rescale=0", "block_kv=32"),
    "forward-sm_90a": ("", "", "", "rings.reads=0", "overlap=0", "persistent=0", "block_kv=48,block_q=64"),
    "backward-sm_80": ("", "", "", "dq=atomic", "dq=recompute"),
    "backward-sm_90a": ("", "", "", "dq=ordered", "dq=recompute", "rings.reads=0"),
}
REFUSED = re.compile(r"error: (line \d+: )?('(arith|math|tensor|fa2\.attention)\S*' op )?(has no derivative|is not supported|expected)")


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--first", type=int, default=0, help="number of the first program")
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--families", default=list(FAMILIES), type=lambda text: text.split(","), help=",".join(FAMILIES))
    p.add_argument("--device", default="sim?sms=2", help="fa2-run's --device")
    p.add_argument("--compile-only", action="store_true")
    p.add_argument("--run-only", action="store_true", help="what --compile-only left")
    p.add_argument("--cases", type=int, default=0, metavar="N", help="of each kernel N that fa2-run draws, not the program's one")
    p.add_argument("--max-seqlen", type=int, default=0, metavar="N", help="of such cases")
    p.add_argument("--fa2-run", default="fa2-run", metavar="PATH")
    p.add_argument("--fa2-compile", default="fa2-compile", metavar="PATH")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--refused", type=float, default=0.15, help="largest share of kernels that the compiler may refuse")
    p.add_argument("--altered", type=float, default=0.6, help="least share of altered programs that fa2-run refuses, of ten or more")
    p.add_argument("--seconds", type=float, default=200, help="a command that takes longer hangs")
    p.add_argument("--keep", action="store_true")
    o = p.parse_args()
    if unknown := set(o.families) - set(FAMILIES):
        p.error(f"unknown family {', '.join(sorted(unknown))}")
    return o


def draw_case(random, extras):
    """Shapes, and flags of each family."""
    q, k = random.pick(LENGTHS)
    batch = random.pick((1, 1, 2))
    heads, heads_kv = random.pick(((1, 1), (2, 2), (2, 1), (3, 1), (4, 2)))
    while batch > 1 and batch * heads * q * k > 70000:
        batch -= 1
    while heads > heads_kv and batch * heads * q * k > 70000:
        heads -= heads_kv
    run = ["--batch", batch, "--heads", heads, "--heads-kv", heads_kv, "--seqlen-q", q, "--seqlen-k", k, "--seed",
           random.between(0, 10**6)]
    run += random.pick(([], [], [], ["--random-scale", 6], ["--sign"]))
    case = {"head_dim": random.pick((40, 64, 64, 64, 128, 128, 192)), "dtype": random.pick(("bf16", "f16")), "scale": random.chance(0.3),
            "mask": random.pick(("none", "causal", "causal", "causal_top_left", "strictly_causal")), "run": [str(x) for x in run],
            "compile": {}}
    grads = [x.name for x in extras if x.smooth and random.chance(0.6)]
    packed = random.chance(0.3) and heads % (2 * heads_kv) == 0
    for family, schedules in FAMILIES.items():
        flags = ["--arch", family.split("-")[1], "--variants", "none", "--cache", "none"]
        schedule = random.pick(schedules)
        if family.startswith("backward"):
            flags += ["--pass", "backward"] + (["--grads", ",".join(grads)] if grads else [])
        elif packed and family == "forward-sm_90a":
            schedule = "packed_heads=2"
        case["compile"][family] = flags + (["--schedule", schedule] if schedule else [])
    return case


def module(case, text, extras):
    tensor = f"tensor<?x?x?x{case['head_dim']}x{case['dtype']}>"
    argument, use = (", %scale: f32", " scale(%scale)") if case["scale"] else ("", "")
    operands = "".join(f", %{x.name}: {x.kind}" for x in extras)
    attributes = [] if case["mask"] == "none" else [f"mask = #fa2.mask<{case['mask']}>"]
    if extras:
        use += f"\n      extras({', '.join('%' + x.name for x in extras)} : {', '.join(x.kind for x in extras)})"
        attributes.append(f"extra_names = {json.dumps([x.name for x in extras])}")

    def inside(part):  # the region's own arguments, named otherwise than the function's
        return re.sub(r"%x(\d)", r"%e\1", part)
    return f"""func.func @program(%q: {tensor}, %k: {tensor}, %v: {tensor}{argument}{operands})
    -> ({tensor}, tensor<?x?x?xf32>) {{
  %o, %lse = fa2.attention ins(%q, %k, %v){use} {{{', '.join(attributes)}}}
      : {tensor}, {tensor}, {tensor} -> {tensor}, tensor<?x?x?xf32>
      score {{
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %column: index{inside(operands)}):
{inside(text)}
      }}
  return %o, %lse : {tensor}, tensor<?x?x?xf32>
}}
"""


def start(o, command):
    """Status and what it printed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=o.seconds)
    except subprocess.TimeoutExpired:
        return -1, f"still running after {o.seconds} s"
    return done.returncode, done.stderr + done.stdout


def wrong_text(commands, status, text):
    """What to type, and what was said."""
    said = [line for line in text.splitlines() if re.search("error: |FAILED|exceeds|running", line)] or text.splitlines()[-5:]
    return "\n".join(["", *(f"    {shlex.join(c)}" for c in commands), f"    status {status}", *(f"    {line[:300]}" for line in said[:5])])


def compile_command(o, folder, family, case):
    return [o.fa2_compile, f"{folder}/program.mlir", *case["compile"][family], "-o", f"{folder}/{family}.ptx"]


def generate(o, number, folder):
    os.makedirs(folder, exist_ok=True)
    random = Random(f"{o.seed}/{number}")
    text, extras = draw_program(random)
    case = {"seed": o.seed, "number": number, **draw_case(random, extras)}
    with open(f"{folder}/program.mlir", "w") as f:
        f.write(module(case, text, extras))
    with open(f"{folder}/case.json", "w") as f:
        json.dump(case, f)
    return case


def compile_family(o, folder, family, case):
    """What is wrong, and why it is refused."""
    command = compile_command(o, folder, family, case)
    status, text = start(o, command)
    if status == 1 and text.count("error: ") == 1 and REFUSED.search(text):
        return "", " ".join(re.search(r"error: .*", text)[0].split())
    return (wrong_text([command], status, text) if status else ""), ""


def run_family(o, folder, family, case):
    more = case["run"]
    if o.cases:
        more = ["--cases", str(o.cases), "--seed", str(case["number"])]
        more += ["--max-seqlen", str(o.max_seqlen)] if o.max_seqlen else []
    command = [o.fa2_run, f"{folder}/{family}.ptx", "--device", o.device, "--repeats", "0", *more]
    status, text = start(o, command)
    return wrong_text([compile_command(o, folder, family, case), command], status, text) if status else ""


EXCHANGED = {"addf": "subf", "subf": "addf", "mulf": "addf", "divf": "mulf", "maximumf": "minimumf", "minimumf": "maximumf", "exp": "exp2",
             "exp2": "exp", "tanh": "absf", "absf": "exp2", "negf": "addf"}
DIALECTS = {"exp": "math", "exp2": "math", "absf": "math"}


def alter(step):
    """Another step of the same types, or None."""
    name, of, value = step["op"].split(".")[-1], step.get("of", []), step.get("value")
    if name in EXCHANGED:
        other = EXCHANGED[name]
        return {**step, "op": f"{DIALECTS.get(other, 'arith')}.{other}", "of": of if name != "negf" else of * 2}
    if name == "select":
        return {**step, "of": [of[0], of[2], of[1]]}
    if name == "extract" and ("row" in of or "column" in of):
        return {**step, "of": [{"row": "column", "column": "row"}.get(x, x) for x in of]}
    if name == "constant" and step["type"] == "f32":
        return {**step, "value": -4 if isinstance(value, str) else 1.5 * value + 0.5}
    return None


def run_altered(o, folder, family, case, random):
    """Of a kernel whose manifest says something else: whether fa2-run finds its results wrong, and what was altered."""
    with open(f"{folder}/{family}.ptx") as f:
        lines = f.readlines()
    steps = [(i, match[2], alter(json.loads(match[2]))) for i, line in enumerate(lines)
             for match in [re.match(r'(//\s+)(\{"name":"%.*","op":.*\})', line)] if match]
    steps = [step for step in steps if step[2]]
    if not steps:
        return True, ""
    i, before, after = random.pick(steps)
    lines[i] = lines[i].replace(before, json.dumps(after))
    with open(f"{folder}/altered.ptx", "w") as f:
        f.writelines(lines)
    command = [o.fa2_run, f"{folder}/altered.ptx", "--device", o.device, "--repeats", "0", *case["run"]]
    status, text = start(o, command)
    if status not in (0, 1):  # it is no manifest
        raise RuntimeError(wrong_text([command], status, text))
    return status == 1, f"{before} to {json.dumps(after)}"


def one(o, number):
    """Of one program: what is wrong, and a Counter of what was compiled, refused, run and altered."""
    folder = os.path.join(o.folder, f"{number:04}")
    random, wrong, counts = Random(f"altered/{o.seed}/{number}"), [], collections.Counter()
    if o.run_only:
        with open(f"{folder}/case.json") as f:
            case = json.load(f)
    else:
        case = generate(o, number, folder)
    ready = [family for family in o.families if o.run_only and os.path.exists(f"{folder}/{family}.ptx")]
    for family in () if o.run_only else o.families:
        error, refused = compile_family(o, folder, family, case)
        wrong += [error] if error else []
        counts["kernels"] += 1
        counts["refused"] += bool(refused)
        counts[refused] += 1
        ready += [family] if not error and not refused else []
    for family in () if o.compile_only else ready:
        error = run_family(o, folder, family, case)
        wrong += [error] if error else []
        counts[family] += 1
    forward = [family for family in ready if family.startswith("forward")]
    if forward and not wrong and not (o.compile_only or o.run_only):
        caught, what = run_altered(o, folder, random.pick(forward), case, random)
        counts["altered"] += 1
        counts["caught"] += caught
        if o.keep and not caught:
            print(f"{folder}: altered, not seen: {what}", flush=True)
    if not (wrong or o.keep or o.compile_only or o.run_only):
        shutil.rmtree(folder)
    return wrong, counts


def main():
    o = options()
    todo, failed, counts = numbers(o), 0, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for number, (wrong, of) in zip(todo, pool.map(lambda n: one(o, n), todo)):
            for text in wrong:
                print(f"program {number}, {o.folder}/{number:04}:{text}", flush=True)
            failed += bool(wrong)
            counts += of
    print(f"{len(todo)} programs, run: {', '.join(f'{family} {counts[family]}' for family in o.families)}: {failed} wrong")
    if counts["kernels"]:
        share = counts["refused"] / counts["kernels"]
        print(f"{counts['kernels']} compiled, {100 * share:.1f} percent refused")
        for text in sorted(text for text in counts if text.startswith("error: ")):
            print(f"    {counts[text]} times {text}")
        failed += share > o.refused
    if counts["altered"]:
        caught = counts["caught"] / counts["altered"]
        print(f"{counts['altered']} altered programs, {100 * caught:.1f} percent refused")
        failed += counts["altered"] >= 10 and caught < o.altered
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
