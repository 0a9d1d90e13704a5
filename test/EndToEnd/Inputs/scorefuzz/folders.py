"""The folders of programs that a script compiles, or that lie ready where it only runs them."""
import os
import sys


def numbers(o):
    """Of the programs: those asked for, or with --run-only those that have a case.json."""
    if o.run_only:
        todo = sorted(int(name) for name in os.listdir(o.folder) if os.path.exists(f"{o.folder}/{name}/case.json"))
    else:
        todo = list(range(o.first, o.first + o.count))
    if not todo:
        sys.exit(f"{o.folder} holds no programs")
    return todo
