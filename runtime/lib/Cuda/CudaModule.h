//===- CudaModule.h - kernels in a CUDA context -----------------*- C++ -*-===//
#ifndef FA2RT_LIB_CUDA_CUDAMODULE_H
#define FA2RT_LIB_CUDA_CUDAMODULE_H

#include "Cuda/Driver.h"
#include "Device.h"

#include <memory>

namespace fa2rt::cuda {

/// Loads into the current context, `context`, and sets each kernel's limit of
/// dynamic shared memory.
std::unique_ptr<Module> loadModule(const Driver &driver, Context context,
                                   const LoadRequest &request);

} // namespace fa2rt::cuda

#endif // FA2RT_LIB_CUDA_CUDAMODULE_H
