//===- SimDevice.h - the simulator as a device ------------------*- C++ -*-===//
#ifndef FA2RT_LIB_SIMDEVICE_H
#define FA2RT_LIB_SIMDEVICE_H

#include "Device.h"

#include <memory>
#include <string_view>

namespace fa2rt {

/// Opens "sm_80?seed=3&strict" (what follows "sim:"; empty: sm_80). Device
/// memory is host memory, and with "separate" only what was allocated on the
/// device is; launches have finished when they return.
std::unique_ptr<Device> openSimDevice(std::string_view specification);

} // namespace fa2rt

#endif // FA2RT_LIB_SIMDEVICE_H
