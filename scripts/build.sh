# Sourced by the other scripts. configure FOLDER [CMAKE-ARGUMENT...]: a release build there, with ccache and
# mold where they are.
configure() {
  folder=$1
  shift
  if command -v ccache >/dev/null; then
    set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
  if command -v mold >/dev/null; then
    set -- "$@" -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=mold
  fi
  cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@"
}
