//===- CudaDevice.h - a CUDA device -----------------------------*- C++ -*-===//
#ifndef FA2RT_LIB_CUDA_CUDADEVICE_H
#define FA2RT_LIB_CUDA_CUDADEVICE_H

#include "Device.h"

#include <memory>
#include <optional>

namespace fa2rt::cuda {

/// Opens device `ordinal`, or with none the current context's, else device 0.
std::unique_ptr<Device> openCudaDevice(std::optional<int> ordinal);

int driverVersion();
int deviceCount();

} // namespace fa2rt::cuda

#endif // FA2RT_LIB_CUDA_CUDADEVICE_H
