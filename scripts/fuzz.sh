#!/bin/sh
# fuzz.sh [SECONDS]: builds the libFuzzer programs of test/Fuzz with AddressSanitizer and UBSan, without the compiler, and runs each
# for so long (120). Exit status 1 when one finds something, which it leaves in the build folder.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${FA2_FUZZ_DIR:-$root/build/fuzz}
. "$root/scripts/build.sh"
configure "$build" -DFA2_FUZZ=ON -DFA2_BUILD_COMPILER=OFF -DFA2_BUILD_TESTS=ON -DFA2_FUZZ_SECONDS="${1:-120}"
cmake --build "$build" --target fuzz
