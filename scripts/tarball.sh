#!/bin/sh
# Builds dist/fa2-VERSION-linux-x86_64.tar.xz, tools and libraries that need glibc 2.35 and nothing else, and tries it in an empty folder with
# nothing of this machine's environment. Needs what the compiler is built with (scripts/setup.sh).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
. scripts/build.sh
configure build/tarball -DFA2_STATIC=ON -DFA2_TARBALL=ON -DFA2_BUILD_TESTS=OFF
cmake --build build/tarball --target fa2-compile fa2-run fa2_compiler fa2rt
rm -f build/tarball/fa2-*.tar.xz
(cd build/tarball && cpack --config CPackConfig.cmake)
mkdir -p dist
mv build/tarball/fa2-*.tar.xz dist
archive=$(ls -t dist/fa2-*.tar.xz | head -n 1)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar xf "$archive" -C "$work" --strip-components=1
for file in "$work"/bin/* "$work"/lib/lib*.so; do
  # The C library's parts alone, of no later version than 2.35.
  needed=$(objdump -p "$file" | sed -n 's/^ *NEEDED *//p' | grep -Ev '^(lib(c|m|dl|pthread|rt)\.so\.[0-9]+|ld-linux-.*|libfa2(rt)?\.so\.0)$' || true)
  [ -z "$needed" ] || { echo "error: $file needs $needed" >&2; exit 1; }
  latest=$(objdump -T "$file" | grep -o 'GLIBC_2\.[0-9]*' | sort -V | tail -n 1)
  [ "$(printf '%s\nGLIBC_2.35\n' "$latest" | sort -V | tail -n 1)" = GLIBC_2.35 ] || { echo "error: $file needs $latest" >&2; exit 1; }
done
mkdir "$work/empty"
cd "$work/empty"
for arch in sm_80 sm_90a; do
  env -i "$work/bin/fa2-compile" --arch $arch --head-dim 64 --mask causal -o attention.ptx
  env -i "$work/bin/fa2-run" attention.ptx --device sim --seqlen 200
done
cd "$root"
"${CC:-cc}" test/Integration/Consumer/consumer.c -I"$work/include" -L"$work/lib" -lfa2 -lfa2rt -Wl,-rpath,"$work/lib" -o "$work/empty/consumer"
"$work/empty/consumer"
du -h "$archive"
