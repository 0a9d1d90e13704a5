"""Which field of the schedule makes a kernel wrong? Switches each off, one at a time, and runs the case again.

usage: bisect-schedule.py [--tools BUILD/bin] [--compile FLAGS] [--run FLAGS]

FLAGS of --compile go to fa2-compile, those of --run to fa2-run; the device is `sim?strict` unless --run names one. Prints a line a
field: right, wrong, or why the schedule is refused. Exit status 0 when the kernel is right as it is.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The plainest value of what is not a switch.
PLAIN = {"stages": 1, "lazy_rescale": 0, "speculate_max": 0, "query_slots": 1, "packed_heads": 1, "min_blocks": 1, "order": "ascending",
         "dq": "recompute", "partition": "split_q"}


def manifest_of(path):
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("// fa2-manifest-end")[0].splitlines()[1:]
    return json.loads("\n".join(line[3:] for line in lines))


class Case:
    def __init__(self, tools, compile_flags, run_flags, folder):
        self.path = os.path.join(folder, "kernel.ptx")
        self.compile = [os.path.join(tools, "fa2-compile"), "--variants", "none", *shlex.split(compile_flags), "-o", self.path]
        self.run = [os.path.join(tools, "fa2-run"), self.path, *shlex.split(run_flags)]
        if "--device" not in run_flags:
            self.run += ["--device", "sim?strict"]

    def verdict(self, change=""):
        """("right", ""), ("wrong", what is) or ("refused", why)."""
        compiled = subprocess.run(self.compile + ([f"--schedule={change}"] if change else []), capture_output=True, text=True)
        if compiled.returncode:
            return "refused", compiled.stderr.strip().splitlines()[0]
        ran = subprocess.run(self.run, capture_output=True, text=True)
        if ran.returncode == 0:
            return "right", ""
        if ran.returncode != 1:
            sys.exit(f"bisect-schedule: {shlex.join(self.run)}: {ran.stderr.strip()}")
        said = [line for line in (ran.stdout + ran.stderr).splitlines() if "error" in line.lower() or "exceeds" in line]
        return "wrong", said[0][:160] if said else ""


def plainer(schedule):
    """name=value for each field that is not at its plainest."""
    for name, value in schedule.items():
        plain = False if isinstance(value, bool) else PLAIN.get(name)
        if plain is not None and plain != value:
            yield f"{name}={int(plain) if isinstance(plain, bool) else plain}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(root, "build", "release", "bin"))
    parser.add_argument("--compile", default="", help="flags of fa2-compile")
    parser.add_argument("--run", default="", help="flags of fa2-run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        case = Case(args.tools, args.compile, args.run, folder)
        found, why = case.verdict()
        print(f"{found:8} as it is  {why}")
        if found == "refused":
            return 2
        for change in list(plainer(manifest_of(case.path)["schedule"])):
            verdict, said = case.verdict(change)
            print(f"{verdict:8} {change}  {said}", flush=True)
    return 0 if found == "right" else 1


sys.exit(main())
