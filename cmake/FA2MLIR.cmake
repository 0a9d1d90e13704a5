# Finds LLVM and MLIR 22 and defines how the compiler's libraries are built on them.
if(NOT MLIR_DIR)
  find_program(FA2_LLVM_CONFIG NAMES llvm-config-22 llvm-config)
  if(FA2_LLVM_CONFIG)
    execute_process(COMMAND ${FA2_LLVM_CONFIG} --prefix OUTPUT_VARIABLE fa2_llvm_prefix OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND CMAKE_PREFIX_PATH ${fa2_llvm_prefix})
  endif()
endif()
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "expected LLVM 22, found ${LLVM_VERSION} in ${LLVM_DIR}")
endif()
message(STATUS "MLIR ${MLIR_VERSION} in ${MLIR_DIR}")
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# What a compiler library sees: headers as system headers, so that only our own warnings count.
add_library(fa2_compiler_options INTERFACE)
target_include_directories(fa2_compiler_options SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_include_directories(fa2_compiler_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_definitions(fa2_compiler_options INTERFACE FA2_VERSION="${PROJECT_VERSION}")
target_compile_options(fa2_compiler_options INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-redundant-move -Wno-comment)
if(FA2_STATIC)
  # A distribution's MLIR archives name the shared libLLVM as what they need. Two
  # copies of LLVM in one process break at start-up, so it goes, and the
  # archives of LLVM come after those of MLIR.
  get_property(fa2_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS fa2_imported)
    get_target_property(needs ${target} INTERFACE_LINK_LIBRARIES)
    if(target MATCHES "^MLIR" AND "LLVM" IN_LIST needs)
      list(REMOVE_ITEM needs LLVM)
      set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${needs}")
    endif()
  endforeach()
  llvm_map_components_to_libnames(fa2_llvm_libs NVPTXCodeGen NVPTXDesc NVPTXInfo Core Support Target
    TargetParser CodeGen Analysis IRReader BitReader BitWriter Remarks FrontendOpenMP)
  target_link_libraries(fa2_compiler_options INTERFACE
    # tools
    MLIROptLib MLIRTranslateLib
    # dialects
    MLIRArithDialect MLIRControlFlowDialect MLIRFuncDialect MLIRFuncInlinerExtension MLIRGPUDialect MLIRLLVMDialect
    MLIRMathDialect MLIRMemRefDialect MLIRNVVMDialect MLIRSCFDialect MLIRTensorDialect MLIRUBDialect MLIRVectorDialect
    # passes
    MLIRTransforms MLIRArithTransforms MLIRSCFTransforms MLIRSCFUtils MLIRLLVMIRTransforms
    # conversions
    MLIRArithToLLVM MLIRControlFlowToLLVM MLIRFuncToLLVM MLIRGPUToNVVMTransforms MLIRMathToLLVM MLIRMemRefToLLVM
    MLIRNVVMToLLVM MLIRReconcileUnrealizedCasts MLIRSCFToControlFlow MLIRUBToLLVM MLIRVectorToLLVM
    # translation to LLVM IR
    MLIRTargetLLVMIRExport MLIRBuiltinToLLVMIRTranslation MLIRGPUToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation
    MLIRNVVMToLLVMIRTranslation
    ${fa2_llvm_libs})
  # LLVM's archives name shared libraries of which nothing here uses a function.
  target_link_options(fa2_compiler_options INTERFACE -Wl,--as-needed)
else()
  target_link_libraries(fa2_compiler_options INTERFACE MLIR LLVM)
endif()

if(FA2_PRECOMPILE)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(fa2_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(fa2_precompiled PRIVATE fa2_compiler_options)
  target_precompile_headers(fa2_precompiled PRIVATE
    <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Func/IR/FuncOps.h> <mlir/Dialect/GPU/IR/GPUDialect.h>
    <mlir/Dialect/LLVMIR/LLVMDialect.h> <mlir/Dialect/LLVMIR/NVVMDialect.h> <mlir/Dialect/Math/IR/Math.h>
    <mlir/Dialect/MemRef/IR/MemRef.h> <mlir/Dialect/SCF/IR/SCF.h> <mlir/Dialect/Tensor/IR/Tensor.h>
    <mlir/IR/BuiltinOps.h> <mlir/IR/DialectImplementation.h> <mlir/IR/IRMapping.h> <mlir/IR/Matchers.h>
    <mlir/IR/OpImplementation.h> <mlir/IR/Remarks.h> <mlir/Pass/Pass.h> <mlir/Transforms/DialectConversion.h>
    ${PROJECT_SOURCE_DIR}/include/fa2/Dialect/FA2/FA2.h ${PROJECT_SOURCE_DIR}/include/fa2/Dialect/FA2GPU/FA2GPU.h)
  add_dependencies(fa2_precompiled fa2-headers)
endif()

# Units that read MLIR's or the dialects' headers. -fPIC, as the precompiled headers are, also where a program would have -fPIE.
function(fa2_read_precompiled name)
  if(FA2_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM fa2_precompiled)
    target_compile_options(${name} PRIVATE -fPIC)
  endif()
endfunction()

# fa2_add_library(NAME source... [LINK lib...] [DEPENDS target...])
function(fa2_add_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} fa2_compiler_options)
  add_dependencies(${name} fa2-headers ${ARG_DEPENDS})
  fa2_read_precompiled(${name})
endfunction()

# A compilation makes small objects all the time: a tenth of it is the C library's allocator's.
if(NOT FA2_STATIC AND NOT FA2_SANITIZE)
  find_package(mimalloc QUIET)
endif()

function(fa2_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE $<TARGET_NAME_IF_EXISTS:mimalloc> ${ARG_LINK})
  fa2_read_precompiled(${name})
  set_target_properties(${name} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# mlir_tablegen takes its include path from the directory.
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR}/include)
