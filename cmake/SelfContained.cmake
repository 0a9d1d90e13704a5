# What is to run on other machines: programs and libraries that need the C library of glibc 2.35 or later, and nothing else.
if(FA2_BUILD_COMPILER AND NOT FA2_STATIC)
  message(FATAL_ERROR "what runs elsewhere needs FA2_STATIC=ON: on other machines there is no shared LLVM 22")
endif()

function(fa2_self_contained)
  foreach(target ${ARGN})
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/Arc4random.c)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc LINKER:--gc-sections LINKER:--strip-all
      LINKER:--exclude-libs,ALL)
  endforeach()
endfunction()

# LLVM compresses nothing that we ask it for, but links what could.
foreach(library zstd::libzstd_shared ZLIB::ZLIB)
  if(TARGET ${library})
    foreach(configuration "" _RELEASE _NONE _NOCONFIG)
      get_target_property(path ${library} IMPORTED_LOCATION${configuration})
      if(path)
        get_filename_component(folder ${path} DIRECTORY)
        get_filename_component(file ${path} NAME)
        string(REGEX REPLACE "\\.so.*" ".a" archive ${folder}/${file})
        if(EXISTS ${archive})
          set_target_properties(${library} PROPERTIES IMPORTED_LOCATION${configuration} ${archive})
        endif()
      endif()
    endforeach()
  endif()
endforeach()
