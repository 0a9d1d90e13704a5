//===- Shapes.h - what candidates are chosen and measured for ---*- C++ -*-===//
#ifndef FA2_TOOLS_TUNEBUILD_SHAPES_H
#define FA2_TOOLS_TUNEBUILD_SHAPES_H

#include "fa2/Compiler/Specification.h"
#include "fa2/Schedule/Model.h"

#include <optional>
#include <string>
#include <vector>

namespace fa2tune {

/// "4,16,16,4096,4096", or nothing where it is none.
std::optional<fa2::Shape> parseShape(llvm::StringRef text);

/// The shapes that papers measure, 16384 tokens and a width of 2048, and one of
/// few tiles.
std::vector<fa2::Shape> defaultShapes(const fa2::Specification &spec);

/// A file of shapes: a JSON list of them, for any specification, or the lines
/// that the runtime wrote to FA2RT_RECORD, each for its own.
class ShapeFile {
public:
  /// Returns what is wrong, or an empty string.
  std::string read(llvm::StringRef path);
  /// Those of a specification, which has no program and dropout where
  /// `isPlain`; of recorded ones the `most` that had the most work, launches
  /// times scores. Returns what is wrong, or an empty string.
  std::string shapesOf(const fa2::Specification &spec, bool isPlain,
                       size_t most, std::vector<fa2::Shape> &shapes) const;
  /// Lines that were cut short, as those of a process that died may be.
  size_t damaged() const { return cut; }

private:
  struct Recorded {
    std::string problem; // as problemOf() says
    fa2::Shape shape;
    int64_t launches = 0;
  };
  std::string readList(llvm::StringRef text);
  std::string readLines(llvm::StringRef text);

  std::string path;
  std::vector<fa2::Shape> listed;
  std::vector<Recorded> recorded;
  size_t cut = 0;
};

} // namespace fa2tune

#endif
