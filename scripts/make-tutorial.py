"""Writes docs/concepts/tutorial.md and docs/concepts/hopper.md from their templates (.in.md) and what the tools really print.

usage: make-tutorial.py [--tools BUILD/bin] [--check]

In a template, a line `@run COMMAND` becomes the command and its output as code. After the
command, `| cut STEP` cuts the output, in the order written, and `...` stands wherever lines are left out: `lines A-B`,
`from REGEX`, `to REGEX`, `only REGEX`, `without REGEX`, `loop REGEX` (the first loop with a line that matches,
whole). `mark REGEX` puts `>` before lines that match. `untyped` leaves out types at a line's end and roles'
names, and `wide N` (where long lines are cut). `@do COMMAND`, above a `@run`, runs a command whose output says nothing
and shows it before the other: readers can type every command that made the page. --check writes nothing
and fails when a page is not what would be written.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

pages = ("concepts/tutorial", "concepts/hopper")


def kept_lines(lines, keep):
    """The lines that are kept, and `...` for each stretch that is not."""
    out = []
    for line, kept in zip(lines, keep):
        if kept:
            out.append(line)
        elif not out or out[-1].strip() != "...":
            out.append(re.match(" *", line).group(0) + "...")
    return out


def first_match(lines, regex):
    at = next((i for i, line in enumerate(lines) if re.search(regex, line)), None)
    if at is None:
        sys.exit(f"make-tutorial: no line matches {regex!r}; the template needs a new cut")
    return at


def loop_with(lines, regex):
    """The innermost loop around the first line that matches within one."""
    loops = []  # (depth, first line) of those that are open
    for i, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        while loops and line.strip() and depth <= loops[-1][0]:
            loops.pop()
        if re.search(r"fa2\.for_tiles|scf\.for ", line):
            loops.append((depth, i))
        elif loops and re.search(regex, line):
            depth, begin = loops[-1]
            end = next(j for j in range(i, len(lines)) if lines[j].startswith(" " * depth + "}"))
            return [begin <= j <= end for j in range(len(lines))]
    sys.exit(f"make-tutorial: no loop has a line that matches {regex!r}; the template needs a new cut")


def untyped(line):
    line = re.sub(r'fa2gpu\.role = "\w+"(, )?', "", line).replace(" {}", "")
    line = re.sub(r" -> \([^()]*\) \{$", " {", line)
    return re.sub(r" : [^:]*(tensor|memref|!fa2|<|index)[^:]*$", "", line)


def cut(lines, steps):
    width = 116
    for step in steps:
        word, _, rest = step.partition(" ")
        count = range(len(lines))
        if word == "lines":
            first, last = map(int, rest.split("-"))
            lines = kept_lines(lines, [first - 1 <= i < last for i in count])
        elif word == "from":
            at = first_match(lines, rest)
            lines = kept_lines(lines, [i >= at for i in count])
        elif word == "to":
            at = first_match(lines, rest)
            lines = kept_lines(lines, [i <= at for i in count])
        elif word == "only":
            first_match(lines, rest)
            lines = kept_lines(lines, [bool(re.search(rest, line)) for line in lines])
        elif word == "without":
            lines = kept_lines(lines, [not re.search(rest, line) for line in lines])
        elif word == "loop":
            lines = kept_lines(lines, loop_with(lines, rest))
        elif word == "mark":
            first_match(lines, rest)
            lines = [("> " if re.search(rest, line) else "  ") + line for line in lines]
        elif word == "untyped":
            lines = [untyped(line) for line in lines]
        elif word == "wide":
            width = int(rest)
        else:
            sys.exit(f"make-tutorial: unknown cut {step!r}")
    return [line if len(line) <= width else line[:width - 3] + "..." for line in lines]


def render(template, environment):
    text, above = [], []
    for line in template.splitlines():
        if not line.startswith(("@run ", "@do ")):
            if above:
                sys.exit(f"make-tutorial: expected a @run below {above[-1]!r}, got {line!r}")
            text.append(line)
            continue
        verb, _, rest = line.partition(" ")
        command, *steps = [part.strip() for part in rest.split(" | cut ")]
        result = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True,
                                cwd=environment["FA2_TUTORIAL_FOLDER"])
        output = (result.stdout + result.stderr).rstrip("\n").splitlines()
        if result.returncode != 0 and "error:" not in result.stderr:
            sys.exit(f"make-tutorial: {command!r} failed ({result.returncode}):\n" + "\n".join(output))
        above.append("$ " + command)
        if verb == "@run":
            text += ["```"] + above + cut(output, steps) + ["```"]
            above = []
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(root, "build", "release", "bin"))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([os.path.abspath(args.tools), environment.get("PATH", "")])
    stale = []
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            environment["FA2_TUTORIAL_FOLDER"] = folder
            with open(os.path.join(root, "docs", page + ".in.md")) as f:
                text = render(f.read(), environment)
        path = os.path.join(root, "docs", page + ".md")
        if not args.check:
            with open(path, "w") as f:
                f.write(text)
            continue
        with open(path) as f:
            if f.read() != text:
                stale.append(f"docs/{page}.md")
    if stale:
        print(f"{' and '.join(stale)}: not what the tools print now; run scripts/make-tutorial.py and read the difference")
    return 1 if stale else 0


sys.exit(main())
