//===- CApi.cpp - the C interface -----------------------------------------===//

#include "Cuda/CudaDevice.h"
#include "Error.h"
#include "ObjectCall.h"
#include "Prepared.h"
#include "fa2rt/fa2rt.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

using namespace fa2rt;

struct fa2rtDevice {
  std::shared_ptr<Device> device;
};

// Programs and events may live longer than the handle of their device.
struct fa2rtProgram {
  explicit fa2rtProgram(std::shared_ptr<Device> on, std::string_view ptx,
                        std::span<const std::byte> image)
      : device(std::move(on)), program(*device, ptx, image) {}
  std::shared_ptr<Device> device;
  Program program;
};

struct fa2rtEvent {
  std::shared_ptr<Device> device;
  std::unique_ptr<Event> event;
};

namespace {

std::string &lastError() {
  thread_local std::string text;
  return text;
}

fa2rtStatus report(fa2rtStatus status, const char *text) noexcept {
  try {
    lastError() = text;
  } catch (...) {
    lastError().clear();
  }
  return status;
}

/// Runs `body` and turns what it throws into a status and a text.
template <typename Body> fa2rtStatus guarded(Body body) noexcept {
  try {
    body();
    return FA2RT_OK;
  } catch (const Error &error) {
    return report(error.status, error.what());
  } catch (const std::bad_alloc &) {
    return report(FA2RT_ERROR_MEMORY, "out of host memory");
  } catch (const std::exception &error) {
    return report(FA2RT_ERROR_INTERNAL, error.what());
  } catch (...) {
    return report(FA2RT_ERROR_INTERNAL, "an unknown failure");
  }
}

template <typename T> T *need(T *pointer, const char *name) {
  if (!pointer)
    fail(FA2RT_ERROR_ARGUMENT, "'{}' is null", name);
  return pointer;
}

std::span<const fa2rtArgument> list(const fa2rtArgument *arguments,
                                    size_t count) {
  if (count)
    need(arguments, "arguments");
  return {arguments, count};
}

/// Runs `body` on the device with a context current.
template <typename Body>
fa2rtStatus onDevice(fa2rtDevice *handle, Body body) noexcept {
  return guarded([&] {
    Device &device = *need(handle, "device")->device;
    ContextScope scope(device);
    body(device);
  });
}

} // namespace

extern "C" {

const char *fa2rtLastError(void) { return lastError().c_str(); }
const char *fa2rtVersion(void) { return FA2RT_VERSION_TEXT; }
int32_t fa2rtManifestVersion(void) { return kManifestVersion; }

fa2rtStatus fa2rtDeviceOpen(const char *name, fa2rtDevice **device) {
  return guarded([&] {
    need(device, "device");
    *device = nullptr;
    *device = new fa2rtDevice{openDevice(need(name, "name"))};
  });
}

void fa2rtDeviceClose(fa2rtDevice *device) { delete device; }

int32_t fa2rtHasSimulator(void) {
#ifdef FA2RT_HAS_SIMULATOR
  return 1;
#else
  return 0;
#endif
}

fa2rtStatus fa2rtCudaDriverVersion(int32_t *version) {
  return guarded([&] { *need(version, "version") = cuda::driverVersion(); });
}

fa2rtStatus fa2rtCudaDeviceCount(int32_t *count) {
  return guarded([&] { *need(count, "count") = cuda::deviceCount(); });
}

fa2rtStatus fa2rtDeviceGetProperties(fa2rtDevice *device,
                                     fa2rtDeviceProperties *properties) {
  return guarded([&] {
    const DeviceProperties &info = need(device, "device")->device->properties();
    fa2rtDeviceProperties &out = *need(properties, "properties");
    out = {};
    info.name.copy(out.name, sizeof out.name - 1);
    out.is_simulated = info.simulated;
    out.compute_capability = info.computeCapability;
    out.multiprocessors = info.multiprocessors;
    out.driver_version = info.driverVersion;
    out.l2_bytes = info.l2Bytes;
    out.shared_bytes_per_block = info.sharedBytesPerBlock;
    out.memory_bytes = info.memoryBytes;
    out.ordinal = info.ordinal;
  });
}

fa2rtStatus fa2rtProgramLoad(fa2rtDevice *device, const char *ptx,
                             size_t ptx_bytes, const void *image,
                             size_t image_bytes, fa2rtProgram **program) {
  return guarded([&] {
    *need(program, "program") = nullptr;
    need(device, "device");
    std::string_view text(need(ptx, "ptx"), ptx_bytes);
    // A final 0 may have been counted in.
    while (!text.empty() && text.back() == '\0')
      text.remove_suffix(1);
    if (image && image_bytes == 0)
      fail(FA2RT_ERROR_ARGUMENT, "the image has 0 bytes");
    *program = new fa2rtProgram(
        device->device, text,
        {static_cast<const std::byte *>(image), image ? image_bytes : 0});
  });
}

void fa2rtProgramUnload(fa2rtProgram *program) { delete program; }

fa2rtStatus fa2rtManifestCheck(const char *ptx, size_t ptx_bytes) {
  return guarded([&] { Manifest::parse({need(ptx, "ptx"), ptx_bytes}); });
}

const char *fa2rtProgramManifest(const fa2rtProgram *program) {
  return program ? program->program.manifest().json.c_str() : nullptr;
}

int32_t fa2rtProgramArgumentCount(const fa2rtProgram *program) {
  return program ? int32_t(program->program.manifest().arguments.size()) : 0;
}

fa2rtStatus fa2rtProgramGetArgument(const fa2rtProgram *program, int32_t index,
                                    fa2rtArgumentInfo *info) {
  return guarded([&] {
    const Manifest &manifest = need(program, "program")->program.manifest();
    if (index < 0 || size_t(index) >= manifest.arguments.size())
      fail(FA2RT_ERROR_ARGUMENT, "argument {} does not exist; there are {}",
           index, manifest.arguments.size());
    const Argument &argument = manifest.arguments[size_t(index)];
    fa2rtArgumentInfo &out = *need(info, "info");
    out = {};
    out.name = argument.name.c_str();
    out.is_tensor = argument.tensor;
    out.dtype = argument.dtype;
    out.direction = argument.direction;
    out.is_optional = argument.optional;
    out.rank = int32_t(argument.shape.size());
    for (size_t d = 0; d < argument.shape.size(); ++d) {
      const Extent &extent = argument.shape[d];
      out.extents[d] = extent.fixed;
      out.dims[d] = extent.fixed >= 0
                        ? nullptr
                        : manifest.dimensions[extent.dimension].c_str();
    }
    out.alignment = argument.alignment;
    out.stride_multiple = argument.strideMultiple;
    out.default_value = argument.dtype == FA2RT_F32
                            ? argument.defaultReal
                            : double(argument.defaultInteger);
  });
}

int32_t fa2rtProgramKernelCount(const fa2rtProgram *program) {
  return program ? int32_t(program->program.manifest().launches.size()) : 0;
}

fa2rtStatus fa2rtProgramGetKernel(const fa2rtProgram *program, int32_t index,
                                  fa2rtKernelInfo *info) {
  return guarded([&] {
    const Manifest &manifest = need(program, "program")->program.manifest();
    if (index < 0 || size_t(index) >= manifest.launches.size())
      fail(FA2RT_ERROR_ARGUMENT, "kernel {} does not exist; there are {}",
           index, manifest.launches.size());
    const LaunchInfo &launch = manifest.launches[size_t(index)];
    KernelAttributes attributes = program->program.attributes(size_t(index));
    fa2rtKernelInfo &out = *need(info, "info");
    out = {};
    out.name = launch.kernel.c_str();
    out.threads = int32_t(launch.block[0] * launch.block[1] * launch.block[2]);
    out.dynamic_shared_bytes = launch.sharedBytes;
    out.registers = attributes.registers;
    out.local_bytes = attributes.localBytes;
    out.static_shared_bytes = attributes.staticSharedBytes;
  });
}

fa2rtStatus fa2rtKernelRuns(const fa2rtProgram *program, int32_t index,
                            const fa2rtArgument *arguments, size_t count,
                            int32_t *runs) {
  return guarded([&] {
    const Program &target = need(program, "program")->program;
    size_t kernels = target.manifest().launches.size();
    if (index < 0 || size_t(index) >= kernels)
      fail(FA2RT_ERROR_ARGUMENT, "kernel {} does not exist; there are {}",
           index, kernels);
    *need(runs, "runs") =
        int32_t(target.runs(size_t(index), list(arguments, count)));
  });
}

fa2rtStatus fa2rtWorkspaceSize(const fa2rtProgram *program,
                               const fa2rtArgument *arguments, size_t count,
                               size_t *bytes, size_t *alignment) {
  return guarded([&] {
    const Program &target = need(program, "program")->program;
    *need(bytes, "bytes") =
        size_t(target.workspaceBytes(list(arguments, count)));
    if (alignment)
      *alignment = size_t(target.manifest().workspaceAlignment);
  });
}

int32_t fa2rtWorkspaceZeroed(const fa2rtProgram *program) {
  return program ? int32_t(program->program.manifest().workspaceZeroed) : 0;
}

fa2rtStatus fa2rtLaunch(const fa2rtProgram *program,
                        const fa2rtArgument *arguments, size_t count,
                        void *workspace, size_t workspace_bytes, void *stream) {
  return guarded([&] {
    need(program, "program")
        ->program.launch(list(arguments, count), {workspace, workspace_bytes},
                         stream);
  });
}

fa2rtStatus fa2rtPrepare(const fa2rtProgram *program,
                         const fa2rtArgument *arguments, size_t count,
                         fa2rtPrepared **prepared) {
  return guarded([&] {
    *need(prepared, "prepared") = nullptr;
    const Program &target = need(program, "program")->program;
    *prepared =
        new fa2rtPrepared{target, target.prepare(list(arguments, count))};
  });
}

void fa2rtPreparedFree(fa2rtPrepared *prepared) { delete prepared; }

size_t fa2rtPreparedWorkspaceSize(const fa2rtPrepared *prepared) {
  return prepared ? size_t(prepared->plan.bound().workspaceBytes) : 0;
}

fa2rtStatus fa2rtPreparedLaunch(const fa2rtPrepared *prepared,
                                void *const *addresses, size_t count,
                                void *workspace, size_t workspace_bytes,
                                void *stream) {
  return guarded([&] {
    need(prepared, "prepared");
    if (count)
      need(addresses, "addresses");
    prepared->program.launch(prepared->plan, {addresses, count},
                             {workspace, workspace_bytes}, stream);
  });
}

fa2rtStatus fa2rtPreparedLaunchObjects(const fa2rtObjectCall *call, void *dict,
                                       void *workspace, void *stream) {
  bool launched = false;
  fa2rtStatus status = guarded([&] {
    need(need(call, "call")->next, "next");
    need(call->read, "read");
    if (call->count)
      need(call->names, "names");
    if (call->prepared_count)
      need(call->prepared, "prepared");
    launched =
        launchObjects(*call, dict, {workspace, call->workspace_bytes}, stream);
  });
  if (status != FA2RT_OK || launched)
    return status;
  return report(FA2RT_ERROR_LAYOUT,
                "no launch was prepared of these objects' layout");
}

fa2rtStatus fa2rtMemoryAllocate(fa2rtDevice *device, size_t bytes,
                                void **memory) {
  return onDevice(device, [&](Device &target) {
    *need(memory, "memory") = nullptr;
    *memory = target.allocate(bytes);
  });
}

fa2rtStatus fa2rtMemoryFree(fa2rtDevice *device, void *memory) {
  return onDevice(device, [&](Device &target) {
    if (memory)
      target.release(memory);
  });
}

fa2rtStatus fa2rtMemoryCopyIn(fa2rtDevice *device, void *to,
                              const void *from_host, size_t bytes) {
  return onDevice(device, [&](Device &target) {
    target.copyIn(to, bytes ? need(from_host, "from_host") : from_host, bytes);
  });
}

fa2rtStatus fa2rtMemoryCopyOut(fa2rtDevice *device, void *to_host,
                               const void *from, size_t bytes) {
  return onDevice(device, [&](Device &target) {
    target.copyOut(bytes ? need(to_host, "to_host") : to_host, from, bytes);
  });
}

fa2rtStatus fa2rtMemorySet(fa2rtDevice *device, void *memory, int32_t value,
                           size_t bytes) {
  return onDevice(device,
                  [&](Device &target) { target.set(memory, value, bytes); });
}

fa2rtStatus fa2rtDeviceSynchronize(fa2rtDevice *device) {
  return onDevice(device, [](Device &target) { target.synchronize(); });
}

fa2rtStatus fa2rtEventCreate(fa2rtDevice *device, fa2rtEvent **event) {
  return onDevice(device, [&](Device &target) {
    *need(event, "event") = nullptr;
    *event = new fa2rtEvent{device->device, target.createEvent()};
  });
}

void fa2rtEventDestroy(fa2rtEvent *event) { delete event; }

fa2rtStatus fa2rtEventRecord(fa2rtEvent *event, void *stream) {
  return guarded([&] {
    ContextScope scope(*need(event, "event")->device);
    event->event->record(stream);
  });
}

fa2rtStatus fa2rtEventElapsed(fa2rtEvent *start, fa2rtEvent *stop,
                              float *milliseconds) {
  return guarded([&] {
    need(start, "start");
    ContextScope scope(*need(stop, "stop")->device);
    if (start->device->properties().simulated !=
        stop->device->properties().simulated)
      fail(
          FA2RT_ERROR_ARGUMENT,
          "'start' is an event of {}, 'stop' of {}; both must be of one device",
          start->device->properties().name, stop->device->properties().name);
    *need(milliseconds, "milliseconds") = stop->event->since(*start->event);
  });
}

fa2rtStatus fa2rtMeasure(const fa2rtProgram *program,
                         const fa2rtArgument *arguments, size_t count,
                         void *workspace, size_t workspace_bytes, void *stream,
                         int32_t repeats, float *milliseconds) {
  return fa2rtMeasureInTurn(program, &arguments, 1, count, workspace,
                            workspace_bytes, stream, repeats, milliseconds);
}

fa2rtStatus fa2rtMeasureInTurn(const fa2rtProgram *program,
                               const fa2rtArgument *const *sets,
                               size_t set_count, size_t count, void *workspace,
                               size_t workspace_bytes, void *stream,
                               int32_t repeats, float *milliseconds) {
  return guarded([&] {
    if (set_count < 1)
      fail(FA2RT_ERROR_ARGUMENT, "set_count is 0; it must be at least 1");
    need(sets, "sets");
    if (repeats < 0)
      fail(FA2RT_ERROR_ARGUMENT, "repeats is {}; it must be at least 0",
           repeats);
    if (repeats)
      need(milliseconds, "milliseconds");
    std::vector<std::span<const fa2rtArgument>> lists;
    for (size_t i = 0; i < set_count; ++i)
      lists.push_back(list(sets[i], count));
    need(program, "program")
        ->program.measure(lists, {workspace, workspace_bytes}, stream,
                          {milliseconds, size_t(repeats)});
  });
}

fa2rtStatus fa2rtProgramProfile(const fa2rtProgram *program,
                                const char **json) {
  return guarded([&] {
    thread_local std::string text;
    text = need(program, "program")->program.profile();
    if (text.empty())
      fail(FA2RT_ERROR_ARGUMENT,
           "there is no profile: it needs the simulator opened with the "
           "option 'profile', and a launch");
    *need(json, "json") = text.c_str();
  });
}

} // extern "C"
