//===- ObjectCall.h - launches on Python's tensors --------------*- C++ -*-===//
#ifndef FA2RT_LIB_OBJECTCALL_H
#define FA2RT_LIB_OBJECTCALL_H

#include "Device.h"

namespace fa2rt {

/// Reads the tensors of a dict of objects and launches what was prepared of
/// their layout. False, and nothing is launched, where nothing was, where the
/// names are others, or an object cannot be read. Throws what Program::launch
/// does.
bool launchObjects(const fa2rtObjectCall &call, void *dict,
                   WorkspaceRegion workspace, void *stream);

} // namespace fa2rt

#endif // FA2RT_LIB_OBJECTCALL_H
