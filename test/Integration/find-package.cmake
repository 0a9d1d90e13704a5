function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)

# The program in the head of fa2.h, as it stands there.
file(READ ${WORK}/prefix/include/fa2/fa2.h header)
string(REGEX MATCH "#include <fa2/fa2.h>\n.*\n \\*   }\n" sample "${header}")
string(REPLACE "\n *   " "\n" sample "${sample}")
string(REPLACE "\n *\n" "\n\n" sample "${sample}")
file(WRITE ${WORK}/sample.c "${sample}")

# What the page for C and README.md tell to write, as it stands there.
foreach(name docs/guide/from-c.md README.md)
  file(READ ${SOURCE}/../../../${name} page)
  if(NOT page MATCHES "```cmake\n([^`]*)```")
    message(FATAL_ERROR "${name} has no block of CMake")
  endif()
  if(DEFINED block AND NOT block STREQUAL CMAKE_MATCH_1)
    message(FATAL_ERROR "README.md has other lines of CMake than docs/guide/from-c.md:\n${CMAKE_MATCH_1}")
  endif()
  set(block "${CMAKE_MATCH_1}")
endforeach()
file(WRITE ${WORK}/guide.cmake "${block}")

set(configure ${CMAKE_COMMAND} -S ${SOURCE} -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_C_FLAGS=${FLAGS}
  -D SAMPLE=${WORK}/sample.c -D GUIDE=${WORK}/guide.cmake)
run(${configure} -B ${WORK}/build)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
run(${WORK}/build/app)
execute_process(COMMAND ${WORK}/build/sample RESULT_VARIABLE result OUTPUT_VARIABLE ptx)
if(NOT result EQUAL 0 OR NOT ptx MATCHES "^// fa2-manifest-begin\n.*\n\\.target sm_90a\n")
  message(FATAL_ERROR "the sample of fa2.h (${result}) printed no PTX of sm_90a: ${ptx}")
endif()

# A component that there is not.
execute_process(COMMAND ${configure} -D COMPONENTS=gpu -B ${WORK}/refused RESULT_VARIABLE result ERROR_VARIABLE error)
if(result EQUAL 0 OR NOT error MATCHES "component gpu is not in this installation of fa2, which has:[ \n]+rt,[ \n]+compiler")
  message(FATAL_ERROR "find_package(fa2 COMPONENTS gpu) said (${result}): ${error}")
endif()

# The tools run from where they were installed.
run(${WORK}/prefix/bin/fa2-compile --head-dim 64 -o ${WORK}/installed.ptx)
run(${WORK}/prefix/bin/fa2-run --version)
