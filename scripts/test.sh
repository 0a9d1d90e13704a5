#!/bin/sh
# test.sh [quick | full | nightly]: builds everything and runs the tests of a tier (docs/contributing/testing.md); full when none
# is named. The last line is "N passed, N failed", over all suites; the exit status is 0 only when none failed.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${FA2_BUILD_DIR:-$root/build/release}
tier=${1:-full}
case $tier in
quick) tiers="quick" ;;
full) tiers="quick|full" ;;
nightly) tiers="quick|full|nightly" ;;
*) echo "usage: test.sh [quick | full | nightly]" >&2 && exit 2 ;;
esac
. "$root/scripts/build.sh"

"$root/scripts/setup.sh"
configure "$build" -DFA2_BUILD_TESTS=ON
cmake --build "$build"

results=$build/test-results
rm -rf "$results"
mkdir -p "$results"
: >"$results/ctest.xml"
: >"$results/lit.json"
jobs=$(nproc)
# A suite's exit status is in its results; a suite that leaves none counts as failed. lit runs by itself, so that its tests
# are counted one by one; count-tests.py reads what unittest says of each of its tests.
ctest --test-dir "$build" -C "$tier" -L "$tiers" -LE lit -j "$jobs" --output-on-failure --test-output-size-passed 1000000 \
  --output-junit "$results/ctest.xml" || true
lit=$(command -v lit-22 || echo /usr/lib/llvm-22/bin/lit)
"$lit" -v -j "$jobs" --config-prefix=lit --param tier="$tier" --output "$results/lit.json" "$build/test" || true
# check NAME COMMAND...: a command that counts as one test.
check() {
  name=$1
  shift
  code=PASS
  "$@" || code=FAIL
  printf '{"tests": [{"name": "%s", "code": "%s"}]}\n' "$name" "$code" >"$results/$name.json"
}
case $tier in
full) check clang-tidy "$root/scripts/check-tidy.sh" "$build" --light ;;
nightly)
  check clang-tidy "$root/scripts/check-tidy.sh" "$build"
  check fuzzers "$root/scripts/fuzz.sh"
  ;;
esac
python3 "$root/scripts/count-tests.py" "$results"/*.xml "$results"/*.json
