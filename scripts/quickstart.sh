#!/bin/sh
# Generates the PTX of a forward kernel and runs it on random input: on a GPU when there is one, else on the
# simulator. Its arguments are those of fa2-compile; without any it takes head dim 128, causal.
#   scripts/quickstart.sh
#   scripts/quickstart.sh --head-dim 64 --dtype f16
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${FA2_BUILD_DIR:-$root/build/release}
. "$root/scripts/build.sh"

"$root/scripts/setup.sh"
[ -f "$build/build.ninja" ] || configure "$build"
cmake --build "$build" --target fa2-compile fa2-run

[ $# -gt 0 ] || set -- --head-dim 128 --mask causal
ptx=$build/attention.ptx
echo
echo "+ fa2-compile $* --explain -o $ptx"
"$build/tools/fa2-compile/fa2-compile" "$@" --explain -o "$ptx"
echo
echo "+ fa2-run $ptx"
status=0
"$build/tools/fa2-run/fa2-run" "$ptx" || status=$?
if [ $status -eq 3 ]; then
  echo "no GPU and no simulator here: the kernel was not run"
  if command -v ptxas >/dev/null; then
    "$build/tools/fa2-compile/fa2-compile" "$@" --emit=cubin -o "$build/attention.cubin"
    echo "ptxas assembles it"
  fi
fi
exit $status
