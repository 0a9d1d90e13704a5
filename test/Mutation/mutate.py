#!/usr/bin/env python3
"""Mutates each kernel of a list and prints the tables of docs/measurements/*-mutants.md.

    mutate.py --compiler fa2-compile --tool fa2-sim-mutation LIST [--every N] [--first K] [--only TEXT] [--threads N]
              [--synchronisation | --values] [--kind TEXT] [--expect-sync F] [--survivors FILE]

LIST has a kernel a line, as flags of fa2-compile. With --every N, every Nth mutant from --first on: a sample for CI.
The exit status is 1 when a survivor is unexplained, or a smaller share of the synchronisation mutants is caught than
--expect-sync asks.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def lengths(manifest):
    """(queries, keys, heads): several tiles of each, enough tiles for the rings to wrap, more queries than keys, and then
    every residue that tells the mask compares apart. Blocks of persistent kernels take several tiles of the first and
    fourth."""
    tile_q, tile_kv = manifest["schedule"]["block_q"], manifest["schedule"]["block_kv"]
    if manifest["specification"]["pass"] == "backward":
        few = min(33, tile_kv + 1)
        cases = [(tile_q + 5, few, 1), (7 * tile_q - 1, few, 1), (tile_kv // 2 + 5, tile_kv // 2 - 4, 1),
                 (tile_q + 135, tile_q + 235, 2)]  # dq's own kernel has tiles of its own
        for residue in range(0, max(tile_q, tile_kv), 8):
            cases += [(tile_q + residue + n, tile_kv + residue + n, 1) for n in (1, 2)]
        return cases
    few = min(33, tile_q + 1)
    heads = 3 if manifest["schedule"].get("persistent") else 1
    top_left = manifest["specification"]["mask"] == "causal_top_left"  # few queries never see the last keys
    cases = [(few, tile_kv + 5, heads), (7 * tile_kv if top_left else few, 7 * tile_kv - 1, 1),
             (tile_q // 2 + 5, tile_q // 2 - 4, 1),
             (tile_q + 9, 2 * tile_kv, 1) if heads == 1 else (2 * tile_q + 9, 2 * tile_q + 40, heads)]
    if top_left:
        few = tile_kv + 17
    for residue in range(0, tile_kv, 8):
        cases += [(few, tile_kv + residue + 1, 1), (few, tile_kv + residue + 2, 1)]
    return cases


def read_manifest(path):
    with open(path) as file:
        text = file.read().split("// fa2-manifest-end")[0]
    return json.loads("\n".join(line[3:] for line in text.splitlines()[1:]))


def mutants_of(flags, args, folder):
    ptx, listing = os.path.join(folder, "kernel.ptx"), os.path.join(folder, "list.txt")
    subprocess.run([args.compiler, *flags.split(), "-o", ptx], check=True)
    cases = []
    manifest = read_manifest(ptx)
    for numbers in lengths(manifest):
        numbers = [str(n) for n in numbers]
        cases.append(os.path.join(folder, "x".join(numbers) + ".case"))
        with open(cases[-1], "w") as file:
            subprocess.run([sys.executable, os.path.join(HERE, "case_from_manifest.py"), ptx, *numbers], stdout=file,
                           check=True)
    options = ["--capability", str(manifest["target"]["min_compute_capability"]), "--every", str(args.every), "--first",
               str(args.first), "--threads", str(args.threads), "--list", listing]
    if args.kinds:
        options.append(args.kinds)
    mutants = []
    for chosen in [["--kind", kind] for kind in args.kind] or [[]]:
        done = subprocess.run([args.tool, *options, *chosen, ptx, *cases], capture_output=True, text=True)
        if done.returncode == 2 or not os.path.exists(listing):
            sys.exit(f"{flags}: {done.stderr}")
        with open(listing) as file:
            mutants += [line.rstrip("\n").split("\t") for line in file]
        os.remove(listing)
    return mutants


def survivor_table(survivors):
    """Survivors of one kernel, kind and class whose evidence is the same share a row."""
    rows = collections.OrderedDict()
    for flags, line, kind, category, detail in survivors:
        rows.setdefault((flags, kind, category, detail), []).append(line)
    lines = ["| kernel | mutant | PTX lines | class | evidence |", "|---|---|---|---|---|"]
    lines += [f"| `{flags}` | {kind} | {', '.join(at)} | {category} | {detail} |"
              for (flags, kind, category, detail), at in rows.items()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--synchronisation", dest="kinds", action="store_const", const="--synchronisation",
                        help="only mutants of synchronisation")
    parser.add_argument("--values", dest="kinds", action="store_const", const="--values", help="only the others")
    parser.add_argument("--kind", action="append", default=[], help="only mutants of this kind; of each that is given")
    parser.add_argument("--only", default="", help="kernels whose flags contain this")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--expect-sync", type=float, default=0)
    parser.add_argument("--survivors", help="write the table of survivors here")
    args = parser.parse_args()

    with open(args.list) as file:
        kernels = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    table, survivors = collections.defaultdict(collections.Counter), []
    for flags in kernels:
        if args.only not in flags:
            continue
        with tempfile.TemporaryDirectory() as folder:
            mutants = mutants_of(flags, args, folder)
        for kind, sync, fate, category, line, detail in mutants:
            column = fate if fate != "survived" else category
            for row in [(0, kind), (2, "all")] + [(1, "synchronisation")] * (sync == "1"):
                table[row][column] += 1
                table[row]["number"] += 1
            if fate == "survived":
                survivors.append((flags, line, kind, category, detail))
        print(f"{flags}: {len(mutants)} mutants, {sum(m[2] == 'survived' for m in mutants)} survived", flush=True)

    columns = ["number", "report", "error", "numbers", "implied value", "implied order", "masked zero", "unexplained", "unexecuted"]
    print("\n| mutants | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
    for row in sorted(table):
        print(f"| {row[1]} | " + " | ".join(str(table[row][c]) for c in columns) + " |")
    text = survivor_table(survivors)
    if args.survivors:
        with open(args.survivors, "w") as file:
            file.write(text + "\n")
    else:
        print("\n" + text)

    def share(row):
        caught = table[row]["report"] + table[row]["error"] + table[row]["numbers"]
        return caught / max(1, table[row]["number"])
    sync = share((1, "synchronisation"))
    print(f"\ncaught: {100 * sync:.1f}% of synchronisation, {100 * share((2, 'all')):.1f}% of all")
    if not table:
        sys.exit("there are no such mutants")
    return 1 if sync < args.expect_sync or table[(2, "all")]["unexplained"] or table[(2, "all")]["unexecuted"] else 0


if __name__ == "__main__":
    sys.exit(main())
