//===- Stages.cpp - the files of fa2-compile --save-temps -----------------===//

#include "Stages.h"

#include "Failure.h"
#include "Files.h"

#include <algorithm>
#include <filesystem>

namespace fa2interpret {

bool isFolder(const std::string &path) {
  return std::filesystem::is_directory(path);
}

std::vector<std::string> stagesIn(const std::string &folder) {
  std::vector<std::string> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".mlir" &&
        fa2run::readFile(entry.path()).find("fa2.kernel @") !=
            std::string::npos)
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  if (paths.empty())
    fa2run::refuse("{} has no file of kernels of tiles; fa2-compile "
                   "--save-temps={} writes them",
                   folder, folder);
  return paths;
}

} // namespace fa2interpret
