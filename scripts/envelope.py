#!/usr/bin/env python3
"""Compares whole kernels on a GPU with an envelope of simulator runs.

    python3 scripts/envelope.py --fa2-run BUILD/fa2-run KERNEL.ptx... [--runs 8] [--capability 90] [--json FILE]

Approximations (ex2, lg2, rcp) of the GPU differ from the simulator's within the manual's bounds, so outputs need not
have the same bits. The simulator runs each case once as it is and --runs times with every approximation moved by a
pseudo-random amount inside its bound (perturb=N). Each element of the GPU's outputs must lie between the least and
the largest of these, give or take one ulp of the output's type, of the row's largest value as in the accuracy rule (the
count by each element's own ulp is printed too). lse is f32, so that every perturbation shows in it and a few draws do
not reach the ends of their range: its envelope is as wide again on each side, and by the bounds of ex2 and
lg2 in a logarithm of a sum, 2^-22 each, of lse or of 1.

--device NAME takes another device in the GPU's place: 'sim:sm_90?perturb=99' tests this script without one.
The exit status is 1 when anything lies outside.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

# Tiles of every schedule begin, end and are cut somewhere; scores small and large; empty rows under a causal mask.
CASES = [
    "--heads 2 --heads-kv 1 --seqlen-q 113 --seqlen-k 200 --seed 1",
    "--batch 2 --seqlen 257 --layout bhsd --row-padding 1 --seed 2",
    "--heads 2 --seqlen-q 300 --seqlen-k 190 --random-scale 6 --seed 3",
    "--heads 2 --seqlen-q 64 --seqlen-k 700 --random-scale 60 --seed 4",
    "--seqlen-q 200 --seqlen-k 333 --sign --seed 5",
]


def run(tool, kernel, device, case):
    """out and lse as arrays of f32."""
    with tempfile.TemporaryDirectory() as folder:
        out, lse = os.path.join(folder, "out.npy"), os.path.join(folder, "lse.npy")
        done = subprocess.run([tool, kernel, "--device", device, "--check", "none", "--repeats", "0", "--save-out", out,
                               "--save-lse", lse] + case.split(), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{kernel} on {device}, {case}: {done.stdout}{done.stderr}")
        return np.load(out).astype(np.float32), np.load(lse).astype(np.float32)


def manifest_dtype(path):
    with open(path) as file:
        for line in file:
            if '"dtype":' in line:
                return "f16" if '"f16"' in line else "bf16"
    sys.exit(f"{path}: no dtype in its manifest")


def ulp(x, dtype):
    """Of |x|, in the type; the smallest normal number's for what is smaller."""
    bits, least = {"bf16": (7, -126), "f16": (10, -14)}[dtype]
    x = np.abs(x)
    _, exponent = np.frexp(np.where(np.isfinite(x), x, 1))
    return np.exp2(np.maximum(exponent - 1, least).astype(np.float64) - bits)


def outside(device, runs, allowance):
    """How far each element is beyond the envelope, in allowances; infinities must agree."""
    with np.errstate(invalid="ignore"):
        low, high = np.min(runs, 0).astype(np.float64), np.max(runs, 0).astype(np.float64)
        beyond = np.maximum(np.maximum(low - device, device - high), 0) / allowance
    beyond[(device == low) | (device == high)] = 0
    return np.where(np.isnan(beyond), np.inf, beyond)


def compare(tool, kernel, case, devices, dtype, pool):
    """One case: the first device against the others."""
    runs = list(pool.map(lambda device: run(tool, kernel, device, case), devices))
    (out, lse), simulated = runs[0], runs[1:]
    outs, lses = ([r[k] for r in simulated] for k in (0, 1))
    row_ulp = ulp(np.max(np.abs(outs[0]), -1, keepdims=True), dtype)
    by_row = outside(out, outs, row_ulp)
    by_element = outside(out, outs, ulp(outs[0], dtype))
    with np.errstate(invalid="ignore"):
        width = np.nan_to_num(np.max(lses, 0).astype(np.float64) - np.min(lses, 0))
        allowance = width + 2.0**-21 * np.maximum(1, np.nan_to_num(np.abs(lses[0]), posinf=1))
    lse_beyond = outside(lse, lses, allowance)
    return dict(kernel=os.path.basename(kernel), case=case, elements=out.size, equal=int(np.sum(out == outs[0])),
                in_envelope=int(np.sum(by_row == 0)), worst_ulp=float(by_row.max(initial=0)),
                outside=int(np.sum(by_row > 1)), outside_own_ulp=int(np.sum(by_element > 1)),
                lse_elements=lse.size, lse_equal=int(np.sum(lse == lses[0])),
                lse_worst=float(lse_beyond.max(initial=0)), lse_outside=int(np.sum(lse_beyond > 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="+", metavar="KERNEL.ptx")
    parser.add_argument("--fa2-run", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--capability", default="90", help="of the device, for its tensor cores' numerics: 80 or 90")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--json", help="write the results here")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()

    simulator = f"sim:sm_{args.capability}?nochecks&perturb="
    devices = [args.device] + [simulator + str(k) for k in range(args.runs + 1)]  # 0: as it is
    results = []
    with concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        for kernel in args.kernels:
            for case in CASES:
                r = compare(args.fa2_run, kernel, case, devices, manifest_dtype(kernel), pool)
                results.append(r)
                bad = r["outside"] + r["lse_outside"]
                print(f"{'FAIL' if bad else 'ok  '} {r['kernel']} {case}: out {r['elements']} elements, {r['equal']} equal, "
                      f"{r['in_envelope']} in the envelope, farthest {r['worst_ulp']:.2f} row ulp, {r['outside']} outside "
                      f"({r['outside_own_ulp']} by their own ulp); lse {r['lse_elements']}, {r['lse_equal']} equal, "
                      f"farthest {r['lse_worst']:.2f} of what is allowed, {r['lse_outside']} outside", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)
    bad = sum(r["outside"] + r["lse_outside"] for r in results)
    print(f"{len(results)} cases, {sum(r['elements'] + r['lse_elements'] for r in results)} elements, {bad} outside")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
