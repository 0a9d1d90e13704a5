//===- WriteSeeds.cpp - the seeds and the dictionary as files -------------===//
//
// fa2-fuzz-seeds FOLDER: FOLDER/TARGET/0, 1, ... and FOLDER/words.dict.
//
//===----------------------------------------------------------------------===//

#include "Mutator.h"
#include "Targets.h"

#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  fs::path folder = argv[1];
  for (const fa2::fuzz::Target &target : fa2::fuzz::targets()) {
    fs::create_directories(folder / target.name);
    int number = 0;
    for (const std::string &seed : target.seeds())
      std::ofstream(folder / target.name / std::to_string(number++),
                    std::ios::binary)
          << seed;
  }
  std::ofstream dictionary(folder / "words.dict");
  for (std::string_view word : fa2::fuzz::words()) {
    dictionary << '"';
    for (char c : word)
      dictionary << (c == '"' || c == '\\' ? "\\" : "") << c;
    dictionary << "\"\n";
  }
  return dictionary.flush() ? 0 : 1;
}
