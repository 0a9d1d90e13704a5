#!/usr/bin/env python3
"""What a kernel's warps wait for, from a profile by Nsight Compute: its loops, and the instructions of one where samples fell.
See --help and bench/README.md."""

import argparse
import csv
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fa2bench import ends  # noqa: E402
from fa2bench.cases import Refused  # noqa: E402

EPILOG = """\
where a GPU is:
  ncu --set full --import-source no -o profile -k regex:^fa2_backward_bf16_d128$ --launch-skip 1 -c 1 ...
  ncu -i profile.ncu-rep --page source --print-source sass --csv > profile.csv
here:
  waits.py profile.csv                   runs of instructions that were executed equally often: the kernel's loops
  waits.py profile.csv --lines 1106-1453 those of one with a percent of its samples or more, and what they waited for

A sample at an instruction is a warp that could not issue it yet. exit status: 0; 2 for bad input.
"""
STALL, SAMPLES, EXECUTED, SOURCE = "stall_", "# Samples", "Instructions Executed", "Source"


@dataclass
class Line:
    """One instruction: how often warps executed it, samples at it, and of these by what they waited for."""

    text: str
    executed: int
    samples: int
    stalls: dict


def number(text):
    return int(float(text.replace(",", ""))) if text not in ("", "-") else 0


def read(path):
    """The instructions of a source page, in order."""
    try:
        rows = list(csv.reader(Path(path).read_text().splitlines()))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    head = next((i for i, row in enumerate(rows) if SOURCE in row and SAMPLES in row), None)
    if head is None:
        raise Refused(f"{path}: no source page by ncu: no line with the columns '{SOURCE}' and '{SAMPLES}' "
                      "(ncu -i REPORT --page source --print-source sass --csv)")
    names = rows[head]
    try:
        at = {name: names.index(name) for name in (SOURCE, SAMPLES, EXECUTED)}
        stalls = {name[len(STALL):]: i for i, name in enumerate(names) if name.startswith(STALL) and "(" not in name}
        return [Line(row[at[SOURCE]].strip(), number(row[at[EXECUTED]]), number(row[at[SAMPLES]]),
                     {name: number(row[i]) for name, i in stalls.items() if number(row[i])})
                for row in rows[head + 1:] if len(row) == len(names)]
    except ValueError as error:
        raise Refused(f"{path}: {error}") from None


def runs(lines, tolerance=0.02):
    """[first, last] of neighbours that were executed equally often, to within a share."""
    found = []
    for i, line in enumerate(lines):
        if found and abs(lines[found[-1][0]].executed - line.executed) <= tolerance * max(line.executed, 1):
            found[-1][1] = i
        else:
            found.append([i, i])
    return found


def share(part, whole):
    return 100 * part / max(whole, 1)


def tell_runs(lines, least):
    whole = sum(line.samples for line in lines)
    yield f"{whole} samples, {len(lines)} instructions, {sum(line.executed for line in lines)} executed by warps"
    for first, last in runs(lines):
        part = lines[first:last + 1]
        samples = sum(line.samples for line in part)
        if share(samples, whole) >= least:
            yield (f"{first:5}-{last:<5} {len(part):4} instructions, each {lines[first].executed:9} times: "
                   f"{share(samples, whole):5.1f} % of the samples")


def tell_lines(lines, first, last, least):
    whole = sum(line.samples for line in lines[first:last + 1])
    for i in range(first, last + 1):
        line = lines[i]
        if share(line.samples, whole) >= least:
            most = sorted(line.stalls.items(), key=lambda stall: -stall[1])[:3]
            yield (f"{i:5} {share(line.samples, whole):5.1f} % {line.text[:72]:72} "
                   + " ".join(f"{name}:{count}" for name, count in most))


def parse(arguments):
    p = argparse.ArgumentParser(prog="waits.py", description=__doc__, epilog=EPILOG,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("profile", help="a source page as CSV")
    p.add_argument("--lines", metavar="FIRST-LAST", help="instructions of one run, as they are counted without this")
    p.add_argument("--least", type=float, metavar="PERCENT", help="leave out what has less (default: 0.5 of runs, 1 of lines)")
    return p.parse_args(arguments)


def tell(options):
    lines = read(options.profile)
    if options.lines is None:
        texts = tell_runs(lines, 0.5 if options.least is None else options.least)
    else:
        first, dash, last = options.lines.partition("-")
        if not (dash and first.isdigit() and last.isdigit() and int(first) <= int(last) < len(lines)):
            raise Refused(f"--lines {options.lines}: must be FIRST-LAST, at most 0-{len(lines) - 1}")
        texts = tell_lines(lines, int(first), int(last), 1 if options.least is None else options.least)
    for text in texts:
        print(text)
    return 0


def main(arguments):
    options = parse(arguments)
    return ends.said("waits.py", lambda: tell(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
