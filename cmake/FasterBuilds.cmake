# ccache and mold where they are, so that presets and scripts build alike. Whoever names a launcher or a linker has the word.
if(NOT CMAKE_C_COMPILER_LAUNCHER AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(FA2_CCACHE ccache)
  if(FA2_CCACHE)
    # What ccache wants for precompiled headers.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${FA2_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()
# A wheel is linked as it always was.
if(NOT SKBUILD AND NOT "${CMAKE_EXE_LINKER_FLAGS}${CMAKE_SHARED_LINKER_FLAGS}" MATCHES "-fuse-ld")
  find_program(FA2_MOLD mold)
  if(FA2_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
# Reading headers (MLIR's, the dialects', JSON's) is most of what a unit costs. With clang they are read once, those of the
# compiler in 50 seconds and 216 MB; gcc's precompiled headers take 80 seconds and a gigabyte, and gain little.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(fa2_precompile ON)
endif()
option(FA2_PRECOMPILE "read large headers once for all units" ${fa2_precompile})

# Where a build only serves tests (.ci/run), what does not interpret kernels itself is optimized less.
option(FA2_FAST_BUILD "optimize what runs briefly with -O1, which takes half to nine tenths of the time to compile" OFF)
macro(fa2_runs_briefly)
  if(FA2_FAST_BUILD)
    add_compile_options(-O1)
  endif()
endmacro()
