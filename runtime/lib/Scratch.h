//===- Scratch.h - memory of one call ---------------------------*- C++ -*-===//
#ifndef FA2RT_LIB_SCRATCH_H
#define FA2RT_LIB_SCRATCH_H

#include <cstddef>
#include <memory_resource>

namespace fa2rt {

/// Memory that a launch needs while it is made: the stack's, so that the usual
/// launch asks nobody for it, and the heap's where that does not do.
class Scratch {
public:
  std::pmr::memory_resource *get() { return &pool; }

private:
  alignas(64) std::byte stack[4096];
  std::pmr::monotonic_buffer_resource pool{stack, sizeof stack};
};

} // namespace fa2rt

#endif // FA2RT_LIB_SCRATCH_H
