#!/bin/sh
# Builds everything and runs every test. The last line is "N passed, N failed", over all suites; the exit status
# is 0 only when none failed.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${FA2_BUILD_DIR:-$root/build/release}
. "$root/scripts/build.sh"

"$root/scripts/setup.sh"
configure "$build" -DFA2_BUILD_TESTS=ON
cmake --build "$build"

results=$build/test-results
rm -rf "$results"
mkdir -p "$results"
jobs=$(nproc)
# A suite's exit status is in its results; a suite that leaves none counts as failed.
# count-tests.py reads what unittest says of each of its tests.
ctest --test-dir "$build" -LE lit -j "$jobs" --output-on-failure --test-output-size-passed 1000000 --output-junit "$results/ctest.xml" || true
lit=$(command -v lit-22 || echo /usr/lib/llvm-22/bin/lit)
"$lit" -v -j "$jobs" --config-prefix=lit --output "$results/lit.json" "$build/test" || true
python3 "$root/scripts/count-tests.py" "$results/ctest.xml" "$results/lit.json"
