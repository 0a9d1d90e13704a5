//===- Stages.h - the files of fa2-compile --save-temps ---------*- C++ -*-===//
#ifndef FA2INTERPRET_STAGES_H
#define FA2INTERPRET_STAGES_H

#include <string>
#include <vector>

namespace fa2interpret {

bool isFolder(const std::string &path);

/// The files of a folder that hold kernels of tiles, in the order of stages.
/// Throws Failure where there is none.
std::vector<std::string> stagesIn(const std::string &folder);

} // namespace fa2interpret

#endif // FA2INTERPRET_STAGES_H
