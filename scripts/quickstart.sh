#!/bin/sh
# Builds the compiler, the runtime and the tools, generates the PTX of a forward kernel and runs it on random input: on a
# GPU when there is one, else on the simulator. Its arguments are those of fa2-compile; without any it takes head dim 128,
# causal. Afterwards `cmake --install` works too.
#   scripts/quickstart.sh
#   scripts/quickstart.sh --head-dim 64 --dtype f16
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${FA2_BUILD_DIR:-$root/build/release}
. "$root/scripts/build.sh"

"$root/scripts/setup.sh"
# All but the tests: what is installed, and the examples.
[ -f "$build/build.ninja" ] || configure "$build" -DFA2_BUILD_TESTS=OFF
cmake --build "$build"
PATH=$build/bin:$PATH

[ $# -gt 0 ] || set -- --head-dim 128 --mask causal
ptx=$build/attention.ptx
echo
echo "+ fa2-compile $* --explain -o $ptx"
fa2-compile "$@" --explain -o "$ptx"
echo
echo "+ fa2-run $ptx"
status=0
fa2-run "$ptx" || status=$?
if [ $status -eq 3 ]; then
  echo "no GPU and no simulator here: the kernel was not run"
  if command -v ptxas >/dev/null; then
    fa2-compile "$@" --emit=cubin -o "$build/attention.cubin"
    echo "ptxas assembles it"
  fi
fi
echo
echo "The tools are in $build/bin. For this shell:"
echo "  export PATH=\"$build/bin:\$PATH\""
exit $status
