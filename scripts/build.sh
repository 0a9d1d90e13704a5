# Sourced by the other scripts, which set root. configure FOLDER [CMAKE-ARGUMENT...]: a release build there, with clang
# unless CC and CXX say otherwise: it halves the time. (cmake/FasterBuilds.cmake takes ccache and mold where they are.)
configure() {
  folder=$1
  shift
  if command -v clang++-14 >/dev/null && [ -z "${CC-}${CXX-}" ] && ! [ -f "$folder/CMakeCache.txt" ]; then
    set -- "$@" -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14
  fi
  # Folders that were configured before name ccache as it is.
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
  cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release ${FA2_CMAKE_ARGUMENTS-} "$@"
}
