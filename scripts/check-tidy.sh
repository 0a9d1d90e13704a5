#!/bin/sh
# check-tidy.sh BUILD [--light | FILE...]: clang-tidy 14 over the project's C++ (or the files named), by the compile
# commands of a configured and built folder. Exit status 1 when there is a finding. A file that includes LLVM or the JSON
# library takes 10 s and more; --light takes those that include neither (the simulator and fa2-run's references, 3 s a file).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
[ $# -ge 1 ] || { echo "usage: check-tidy.sh BUILD [--light | FILE...]" >&2; exit 2; }
build=$1
shift
tidy=$(command -v clang-tidy-14 || command -v clang-tidy)
folders=
if [ "${1:-}" = --light ]; then
  folders="runtime/sim/ tools/fa2-run/Reference/"
  shift
fi
if [ $# -eq 0 ]; then
  # Only what this build compiles.
  set -- $(python3 - "$build/compile_commands.json" "$root/" $folders <<'PY'
import json
import os
import sys
files = {os.path.normpath(os.path.join(c["directory"], c["file"])) for c in json.load(open(sys.argv[1]))}
root = sys.argv[2]
folders = tuple(root + f for f in sys.argv[3:]) or root
print("\n".join(sorted(f for f in files if f.startswith(folders) and f.endswith(".cpp") and "/test/" not in f)))
PY
)
fi
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 "$tidy" -p "$build" --quiet
