# Sourced by the other scripts. configure FOLDER [CMAKE-ARGUMENT...]: a release build there, with ccache and
# mold where they are, and with clang unless CC and CXX say otherwise: it halves the time.
configure() {
  folder=$1
  shift
  if command -v clang++-14 >/dev/null && [ -z "${CC-}${CXX-}" ] && ! [ -f "$folder/CMakeCache.txt" ]; then
    set -- "$@" -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14
  fi
  if command -v ccache >/dev/null; then
    # What ccache wants for precompiled headers.
    export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
  if command -v mold >/dev/null; then
    set -- "$@" -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=mold
  fi
  cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@"
}
