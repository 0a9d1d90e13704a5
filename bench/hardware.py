#!/usr/bin/env python3
"""Makes the most of a short time on a GPU: builds kernels into a folder here, checks and times them there. See --help."""

import argparse
import os
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

from fa2bench import ends, options as command_line  # noqa: E402
from fa2bench.cases import Refused  # noqa: E402
from fa2bench.kernel_lists import read_list  # noqa: E402
from fa2bench.session_folder import MOST_MIB, Builder, flags_text, read_index  # noqa: E402
from fa2bench.session_run import STEPS, run  # noqa: E402
from fa2bench.session_sheets import write_report  # noqa: E402

GRID = BENCH.parent / "test" / "Grid" / "kernels.txt"

EPILOG = f"""\
  cmake --preset portable && cmake --build --preset portable
  hardware.py build session --tools build/release/bin --list bench/hardware/backward-sm90a.txt
  scp -r session gpu:                                    # {MOST_MIB} MiB at the most
  ssh gpu python3 session/bench/hardware.py run session --seconds 1500
  scp -r gpu:session/results .                           # check.csv, bits.csv, times.csv, sanitize.csv, report.md

The steps of run, in order: check (every kernel against float64), bits (deterministic kernels again and in two batch sizes), times (the
groups of the lists), peers (their baselines beside PyTorch's backends, where PyTorch is), sanitize. What results has is not done again, so
a run that was cut short goes on with the same command. exit status: 0; 1 when a kernel failed or was refused; 2 for bad input.
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def steps(text):
    names = command_line.one_of(STEPS)(text)
    return [name for name in STEPS if name in names]


def parse(arguments):
    p = argparse.ArgumentParser(prog="hardware.py", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = p.add_subparsers(dest="verb", required=True)
    b = verbs.add_parser("build", help="compile lists of kernels into a folder; needs no GPU")
    b.add_argument("folder", type=Path)
    b.add_argument("--tools", type=Path, default=Path("build/release/bin"), help="where fa2-compile is (default: build/release/bin)")
    b.add_argument("--runtime", type=Path, default=Path("build/portable"),
                   help="the build folder of libfa2rt.so, fa2-run and fa2-tune (default: build/portable)")
    b.add_argument("--list", type=Path, action="append", default=[],
                   help="kernels and groups; several (default: test/Grid/kernels.txt; --no-grid leaves that out)")
    b.add_argument("--no-grid", action="store_true", help="the lists named alone")
    b.add_argument("--only", default="", metavar="TEXT", help="kernels whose flags have this text, and groups with one")
    b.add_argument("--compiler", type=command_line.named_file, action="append", default=[], metavar="NAME=FILE",
                   help="another fa2-compile, of flags that have compiler=NAME, for kernels of an older commit beside today's; several")
    b.add_argument("--local", action="store_true", help="for this machine: the programs may need its libraries")
    b.add_argument("--jobs", type=command_line.positive, default=os.cpu_count())
    r = verbs.add_parser("run", help="check and time a folder's kernels")
    r.add_argument("folder", type=Path)
    r.add_argument("--results", type=Path, help="default: FOLDER/results")
    r.add_argument("--device", default="cuda", help="of fa2-run and fa2-tune (default: cuda)")
    r.add_argument("--seconds", type=command_line.seconds, default=1500.0, help="stop after so long (default: 1500)")
    r.add_argument("--only", default="", metavar="TEXT", help="kernels whose flags have this text or whose group's name has it, and such groups")
    r.add_argument("--steps", type=steps, default=list(STEPS), metavar="STEP,...", help=f"of {', '.join(STEPS)} (default: all)")
    r.add_argument("--cases", type=command_line.positive, default=12, help="random cases a kernel is checked in (default: 12)")
    r.add_argument("--repeats", type=command_line.positive, default=50, help="launches that must give the same bits (default: 50)")
    r.add_argument("--rounds", type=command_line.positive, default=7, help="turns of each candidate of a group (default: 7)")
    r.add_argument("--sanitize", type=int, default=8, metavar="N", help="kernels that compute-sanitizer's four tools see (default: 8)")
    r.add_argument("--processes", type=command_line.positive, default=14, help="kernels that are checked at a time (default: 14)")
    r.add_argument("--patience", type=command_line.seconds, default=90.0, help="seconds that a kernel may take (default: 90)")
    r.add_argument("--cubins", type=Path, help="keep machine code for times here, by ptxas (default: the driver's cache)")
    for verb in (verbs.add_parser("report", help="write report.md of what results has"),):
        verb.add_argument("folder", type=Path)
        verb.add_argument("--results", type=Path, help="default: FOLDER/results")
    return p.parse_args(arguments)


def build(options):
    kernels, groups = [], []
    for path in ([] if options.no_grid else [GRID]) + options.list:
        more = read_list(path)
        kernels += more[0]
        groups += more[1]
    kernels = [flags for flags in kernels if options.only in flags_text(flags)]
    groups = [g for g in groups if any(options.only in text for _, flags in g.candidates for text in (g.name, flags_text(flags)))]
    if not kernels and not groups:
        raise Refused(f"nothing to compile: no line of the lists has '{options.only}'" if options.only else "nothing to compile: name a --list")
    return Builder(options.folder, options.tools, options.runtime, options.local, options.jobs, say,
                   options.compiler).build(kernels, groups)


def report(options):
    write_report(read_index(options.folder), options.results or options.folder / "results")
    return 0


def main(arguments):
    options = parse(arguments)
    verbs = {"build": build, "report": report, "run": lambda o: run(o.folder.resolve(), read_index(o.folder), o, say)}
    return ends.said("hardware.py", lambda: verbs[options.verb](options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
