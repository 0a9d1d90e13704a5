#!/bin/sh
# Fails, naming the places, unless every C and C++ file of the project is as clang-format 14 would write it.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
format=$(command -v clang-format-14 || command -v clang-format)
"$format" --version | grep -q "version 14" || { echo "expected clang-format 14, found $("$format" --version)" >&2; exit 1; }
if [ -e .git ] && command -v git >/dev/null; then
  files=$(git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp' '*.c')
else
  files=$(find include lib runtime tools test examples -name '*.h' -o -name '*.cpp' -o -name '*.c')
fi
# shellcheck disable=SC2086
"$format" --dry-run --Werror $files
