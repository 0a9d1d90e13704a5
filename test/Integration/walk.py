"""Walks a page as a reader would: runs its commands, in order, in a copy of the checkout beside a finished build.

usage: walk.py PAGE --build BUILD --work FOLDER

Commands are the lines of ```sh blocks and, in any block, the lines after `$ `. Each must exit with 0, or, where the page
shows an "error:" below it, with another status and just that text, in which `...` stands for any. What a command exports holds for those
after it. A block with a title, such as ```mlir title="alibi.mlir", becomes the file of that name, where it does not exist yet. The build is at build/release, as the pages have it; on PATH only where README.md puts it there, or on a later page.
Commands that a test cannot run are listed in NOT_RUN with the reason.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Beginnings of commands. One that a page no longer has fails the test.
NOT_RUN = {
    "README.md": {
        "scripts/quickstart.sh": "installs packages and builds for minutes; what it builds is what is walked here",
        "scripts/test.sh": "runs this test",
        "scripts/setup.sh": "installs packages",
        "cmake --preset release &&": "builds everything and runs this test",
        "PYTHONPATH=python": "needs PyTorch and a GPU",
    },
    "CONTRIBUTING.md": {
        "scripts/setup.sh": "installs packages",
        "cmake --preset release &&": "builds everything",
        "ln -s ../../scripts/pre-commit": "the copy that is walked is no repository",
    },
    "docs/guide/install.md": {
        "scripts/quickstart.sh": "installs packages and builds",
        "cmake --preset release &&": "builds everything",
        "pip install .": "builds everything statically",
    },
    "docs/contributing/debugging.md": {
        "gdb --args": "waits for a person; the replay above it is the same without a debugger",
    },
    "bench/README.md": {
        "python3 bench/forward.py": "needs PyTorch and a GPU",
        "python3 bench/backward.py": "needs PyTorch and a GPU",
        "python3 bench/pairs.py": "needs PyTorch and a GPU",
        "cmake --preset portable": "builds the runtime and its tools once more",
        "python3 bench/hardware.py build": "needs what that builds; bench/tests builds and runs a small session",
        "python3 bench/waits.py": "reads a profile, which needs a GPU; bench/tests has one in small",
        "scp -r session gpu:": "needs another machine",
        "ssh gpu": "needs another machine",
        "scp -r gpu:": "needs another machine",
    },
}


class File:
    """A block with a title: what a reader puts into a file."""

    def __init__(self, name):
        self.name, self.lines = name, []


def commands(text):
    """(command, lines shown below it or None), and of each block with a title (File, None)"""
    found, block, shell = [], False, False
    for line in text.splitlines():
        if line.startswith("```"):
            block = not block
            # A block that shows a session has prompts; its other lines are output.
            shell = block and line == "```sh"
            prompts = False
            title = re.search(r' title="([^"]+)"', line)
            file = File(title.group(1)) if block and title else None
            if file:
                found.append((file, None))
        elif block and file:
            file.lines.append(line)
        elif block and line.startswith("$ "):
            found.append((line[2:], []))
            prompts = True
        elif block and prompts:
            found[-1][1].append(line)
        elif shell and line:
            found.append((line, None))
    return found


class Session:
    def __init__(self, folder, build, tools_known):
        self.folder = folder
        self.record = os.path.join(folder, "environment")
        path = [p for p in os.environ["PATH"].split(os.pathsep) if not os.path.exists(os.path.join(p, "fa2-compile"))]
        if tools_known:
            path.insert(0, os.path.join(build, "bin"))
        self.environment = {**os.environ, "PATH": os.pathsep.join(path), "HOME": folder, "RECORD": self.record}
        self.checkout = os.path.join(folder, "checkout")
        os.makedirs(os.path.join(self.checkout, "build"))
        for name in os.listdir(root):
            if name not in ("build", ".git"):
                os.symlink(os.path.join(root, name), os.path.join(self.checkout, name))
        os.symlink(build, os.path.join(self.checkout, "build", "release"))

    def run(self, command):
        script = "trap 'env -0 >\"$RECORD\"' EXIT\n" + command
        result = subprocess.run(["sh", "-c", script], cwd=self.checkout, env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        with open(self.record, "rb") as f:
            self.environment = dict(entry.split("=", 1) for entry in f.read().decode().split("\0") if entry)
        return result.returncode, result.stdout


def judge(status, output, shown):
    """What is wrong, or None."""
    expected = [line for line in shown or [] if line]
    if any("error:" in line for line in expected):
        if status == 0:
            return "exits with 0, but the page shows an error"
        missing = [line for line in expected
                   if not re.search(".*".join(re.escape(part) for part in line.split("...")), output)]
        return f"does not print what the page shows: {missing[0]}" if missing else None
    return f"exits with {status}" if status else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page")
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--work", required=True, type=os.path.abspath)
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    session = Session(args.work, args.build, tools_known=args.page != "README.md")
    with open(os.path.join(root, args.page), encoding="utf-8") as f:
        steps = commands(f.read())
    skips, ran, failures = dict(NOT_RUN.get(args.page, {})), 0, []
    left = set(skips)
    for command, shown in steps:
        if isinstance(command, File):
            with open(os.path.join(session.checkout, command.name), "x", encoding="utf-8") as f:
                f.write("\n".join(command.lines) + "\n")
            continue
        skip = next((s for s in skips if command.startswith(s)), None)
        if skip:
            left.discard(skip)
            print(f"not run ({skips[skip]}): {command}")
            continue
        status, output = session.run(command)
        ran += 1
        print(f"{status}: {command}", flush=True)
        wrong = judge(status, output, shown)
        if wrong:
            failures.append(command)
            print(f"  FAILED: {wrong}\n" + "".join(f"  | {line}\n" for line in output.splitlines()[-20:]))
    for skip in left:
        failures.append(skip)
        print(f"FAILED: NOT_RUN lists '{skip}', which {args.page} does not have")
    if not steps:
        failures.append(args.page)
        print(f"FAILED: no command found in {args.page}")
    print(f"{args.page}: {ran} commands run, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
