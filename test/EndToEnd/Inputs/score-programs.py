#!/usr/bin/env python3
"""Random score programs on both families of kernels, each held to attention in float64 that evaluates the same program: here,
with bounds of its roundings, and in fa2-run, which interprets the program that the manifest holds.

    score-programs.py FOLDER --seed 1 --count 40
    score-programs.py FOLDER --seed 2 --count 2000 --compile-only      # here: FOLDER/NNN/FAMILY.ptx and case.json
    score-programs.py FOLDER --run-only --device cuda --jobs 8         # there: needs fa2-run and NumPy alone

Program N of a seed is the same whatever the count. A wrong result leaves FOLDER/NNN with the program's text and what to
type; the folders of programs that passed are removed unless --keep or --compile-only says otherwise. How tight the check is:
each program is altered, one operation at a time, and what the altered program would give must fail the check (--mutants is
the least share that must). The exit status is 1 when anything failed.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from scorefuzz.attention import Attention, excess, expect, plain  # noqa: E402
from scorefuzz.bounded import Context, Rejected  # noqa: E402
from scorefuzz.cases import Random  # noqa: E402
from scorefuzz.folders import numbers  # noqa: E402
from scorefuzz.generate import generate  # noqa: E402
from scorefuzz.programs import Program, mutants  # noqa: E402


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--first", type=int, default=0, help="number of the first program")
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--families", default="sm_80,sm_90a,backward", type=lambda text: text.split(","),
                   help="of kernels; backward: the gradients, on sm_80, against fa2-run's reference alone")
    p.add_argument("--device", default="sim?sms=3", help="fa2-run's --device")
    p.add_argument("--compile-only", action="store_true")
    p.add_argument("--run-only", action="store_true")
    p.add_argument("--fa2-run", default="fa2-run", metavar="PATH")
    p.add_argument("--fa2-opt", default="fa2-opt", metavar="PATH")
    p.add_argument("--fa2-translate", default="fa2-translate", metavar="PATH")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--mutants", type=float, default=0.8, help="least share of altered programs that the check refuses")
    p.add_argument("--keep", action="store_true")
    return p.parse_args()


def module(case, program):
    d, dtype = case["head_dim"], case["dtype"]
    tensor = f"tensor<?x?x?x{d}x{dtype}>"
    argument, use = (", %scale: f32", " scale(%scale)") if case["scale"] else ("", "")
    mask = "" if case["mask"] == "none" else f" {{mask = #fa2.mask<{case['mask']}>}}"
    return f"""func.func @program(%q: {tensor}, %k: {tensor}, %v: {tensor}{argument})
    -> ({tensor}, tensor<?x?x?xf32>) {{
  %o, %lse = fa2.attention ins(%q, %k, %v){use}{mask}
      : {tensor}, {tensor}, {tensor} -> {tensor}, tensor<?x?x?xf32>
      score {{
      ^bb0(%s: f32, %batch: index, %head: index, %row: index, %col: index):
{program.text()}
      }}
  return %o, %lse : {tensor}, tensor<?x?x?xf32>
}}
"""


def compile_case(o, folder, case):
    """The PTX of each family; what went wrong, or an empty list."""
    wrong = []
    for family in o.families:
        if family == "backward":
            pipeline = f"target=sm_80 pass=backward schedule=dq={('atomic', 'recompute')[case['data'] % 2]}"
        else:
            pipeline = f"target={family} schedule={case['schedules'][family]}"
        opt = [o.fa2_opt, f"{folder}/program.mlir", f"--fa2-pipeline={pipeline}"]
        translate = [o.fa2_translate, "--fa2-to-ptx", "-o", f"{folder}/{family}.ptx"]
        lowered = subprocess.run(opt, capture_output=True)
        if family == "backward" and b"has no derivative" in lowered.stderr:
            continue
        done = lowered if lowered.returncode else subprocess.run(translate, input=lowered.stdout, capture_output=True)
        if done.returncode:
            wrong.append(f"{family}: not compiled: {done.stderr.decode()[:300].strip()} ({' '.join(opt[1:])})")
    return wrong


def run_case(o, folder, attention, expected, family):
    """What is wrong with one family's results, or an empty string."""
    case = attention.case
    if not os.path.exists(f"{folder}/{family}.ptx"):
        return ""  # it has no derivative
    # fa2-run's reference interprets the program that the manifest holds: two references, which must agree.
    command = [o.fa2_run, f"{folder}/{family}.ptx", "--device", o.device, "--check", "full", "--repeats", "0"]
    for name, array in zip("qkv", attention.arrays):
        command += [f"--{name}", f"{folder}/{name}.npy"]
    if case["scale"]:
        command += ["--scale", str(case["scale"])]
    if family != "backward":
        command += ["--save-out", f"{folder}/{family}.out.npy", "--save-lse", f"{folder}/{family}.lse.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{family}: {' '.join(command)}: status {done.returncode}: {(done.stdout + done.stderr).strip()[-300:]}"
    if family == "backward":
        return ""
    out = np.load(f"{folder}/{family}.out.npy").astype(np.float64).transpose(0, 2, 1, 3)
    lse = np.load(f"{folder}/{family}.lse.npy").astype(np.float64)
    # Where maxima are assumed, P begins at 2^-7 in f16 (docs/decisions/2026-11-22-tiles-and-references.md).
    with open(f"{folder}/{family}.ptx") as f:
        assumed = case["dtype"] == "f16" and '"speculate_max"' in f.read()
    off, lse_off = excess(expected, out, lse, least=2.0**-7 if assumed else 1.0)
    if max(off.max(initial=0), lse_off.max(initial=0)) <= 1:
        return ""
    worst = off if off.max() >= lse_off.max() else lse_off
    at = np.unravel_index(worst.argmax(), worst.shape)
    b, h, i = (int(x) for x in at)
    return (f"{family} ({case['schedules'][family]}): out is off by {off.max():.3g} and lse by {lse_off.max():.3g} times what is "
            f"allowed, {int(((off > 1) | (lse_off > 1)).sum())} rows of {off.size}; batch {b} head {h} row {i}: "
            f"lse {lse[at]} for {expected.lse[at]}, out[0] {out[at][0]} for {expected.out[at][0]}; {' '.join(command)}")


def count_mutants(attention, program, expected, random):
    """How many altered programs there are, of those that give other scores at all, and which of them pass the check."""
    arguments, v = attention.last()
    visible = attention.visible

    def scores(p):
        context = Context(visible)
        s = p.evaluate(context, arguments).value
        return np.where(visible, np.broadcast_to(s, arguments[0].value.shape), -np.inf)
    own = scores(program)
    last = type(expected)(**{name: x[-1:, -1:] for name, x in vars(expected).items()})
    total, passed = 0, []
    for what, mutant in mutants(program, random):
        try:
            with np.errstate(all="ignore"):
                s = scores(mutant)
                if np.array_equal(s, own, equal_nan=True):
                    continue
                total += 1
                off, lse_off = excess(last, *plain(s, v))
        except Rejected:
            continue
        if max(off.max(), lse_off.max()) <= 1:
            passed.append(what)
    return total, passed


def write_inputs(folder, attention):
    for name, array in zip("qkv", attention.arrays):
        np.save(f"{folder}/{name}.npy", array)


def generate_and_compile(o, number):
    folder = os.path.join(o.folder, f"{number:04}")
    os.makedirs(folder, exist_ok=True)
    attention, program = generate(o.seed, number)
    with open(f"{folder}/program.mlir", "w") as f:
        f.write(module(attention.case, program))
    with open(f"{folder}/case.json", "w") as f:
        json.dump({"case": attention.case, "program": program.to_json(), "seed": o.seed, "number": number}, f)
    return attention, program, compile_case(o, folder, attention.case)


def one(o, number):
    """Of one program: what is wrong, mutants, mutants that pass, rows, rows that are decided, operations."""
    folder = os.path.join(o.folder, f"{number:04}")
    if o.run_only:
        with open(f"{folder}/case.json") as f:
            record = json.load(f)
        attention, program, wrong = Attention(record["case"]), Program.from_json(record["program"]), []
    else:
        attention, program, wrong = generate_and_compile(o, number)
    if o.compile_only:
        return wrong, 0, [], 0, 0, len(program.operations())
    expected = expect(attention, program)
    write_inputs(folder, attention)
    wrong += [text for family in o.families if os.path.exists(f"{folder}/{family}.ptx")
              for text in [run_case(o, folder, attention, expected, family)] if text]
    total, passed = count_mutants(attention, program, expected, Random(f"mutants/{o.seed}/{number}"))
    if not wrong and not o.keep:
        if o.run_only:
            for name in ("q", "k", "v") + tuple(f"{f}.{x}" for f in o.families for x in ("out", "lse")):
                os.remove(f"{folder}/{name}.npy")
        else:
            shutil.rmtree(folder)
    return wrong, total, passed, expected.decided.size, int(expected.decided.sum()), len(program.operations())


def main():
    o = options()
    sums, failed, survivors = [0] * 5, 0, []
    todo = numbers(o)
    with concurrent.futures.ProcessPoolExecutor(o.jobs) as pool:
        for number, result in zip(todo, pool.map(one, [o] * len(todo), todo)):
            wrong, total, passed, rows, decided, operations = result
            for text in wrong:
                print(f"program {number}: {text}", flush=True)
            failed += bool(wrong)
            sums = [a + b for a, b in zip(sums, (total, len(passed), rows, decided, operations))]
            survivors += [f"{number}: {what}" for what in passed]
    total, passed, rows, decided, operations = sums
    print(f"{len(todo)} programs of {operations} operations for {', '.join(o.families)}: {failed} wrong")
    if not o.compile_only:
        caught = 1 - passed / max(total, 1)
        print(f"{decided} of {rows} rows decided; {total} altered programs, {100 * caught:.1f} percent refused")
        if o.keep:
            print("\n".join(survivors))
        failed += caught < o.mutants or decided < 0.9 * rows
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
