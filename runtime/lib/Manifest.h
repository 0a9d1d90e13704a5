//===- Manifest.h - what a launcher has to know of a PTX file ---*- C++ -*-===//
//
// The object that docs/manifest.md describes, parsed and validated.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RT_LIB_MANIFEST_H
#define FA2RT_LIB_MANIFEST_H

#include "Expression.h"
#include "fa2rt/fa2rt.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fa2rt {

constexpr int kManifestVersion = 4;

struct CodeTarget {
  std::string arch; // "sm_80"
  bool family = false;
  int minComputeCapability = 0; // 80
  std::string ptx;              // "7.0"
  int minDriver = 0;            // 11000
};

/// One extent of a tensor argument: a number, or a dimension.
struct Extent {
  int64_t fixed = -1;     // the required extent; -1: a dimension
  uint32_t dimension = 0; // index into Manifest::dimensions
};

enum class Requirement { None, PositiveFinite, Invertible, Finite };
/// The least value of a scalar that kernels divide by (Invertible): 2^-100.
inline constexpr float kLeastInvertible = 0x1p-100f;

struct Argument {
  std::string name;
  bool tensor = true;
  fa2rtDType dtype = FA2RT_F32;
  bool optional = false;

  // Tensors.
  fa2rtDirection direction = FA2RT_IN;
  std::vector<Extent> shape;
  int64_t alignment = 1;
  int64_t strideMultiple = 1;
  uint32_t firstStrideSlot = 0;
  uint32_t misalignmentSlot = 0;
  /// Read one element at a time: an extent may be 1 in place of its
  /// dimension's, and any stride will do.
  bool broadcast = false;

  // Scalars.
  bool hasDefault = false;
  double defaultReal = 0;
  int64_t defaultInteger = 0;
  Requirement require = Requirement::None;
  uint32_t slot = 0; // integer scalars
};

struct Condition {
  Expression that;
  std::string message;
};

struct Parameter {
  enum class Kind { Pointer, Stride, I32, I64, Scalar, Workspace, TensorMap };
  Kind kind = Kind::I64;
  uint32_t argument = 0; // Pointer, Stride, Scalar, TensorMap
  uint32_t dim = 0;      // Stride
  Expression value;      // I32, I64, Workspace (offset)

  // TensorMap: the tensor's dimensions from the map's innermost, the box's
  // extents in d, seq and heads, the swizzle's bytes.
  std::vector<uint32_t> mapDims;
  uint32_t boxCols = 0, boxRows = 0, boxHeads = 1;
  int swizzle = 0;

  /// Bytes in the entry's parameter space; also the alignment, save for tensor
  /// maps, which are 128 bytes at 64.
  size_t bytes = 8;
  size_t alignment() const { return kind == Kind::TensorMap ? 64 : bytes; }
};

/// A part of a dimension: a launch that has one sees tensors and the dimension
/// as if the caller had passed the part alone.
struct Slice {
  uint32_t dimension = 0; // index into Manifest::dimensions
  Expression from, count;
};

struct LaunchInfo {
  std::string kernel;
  std::optional<Expression> when; // 0: the kernel is skipped
  std::array<Expression, 3> grid;
  std::array<uint32_t, 3> block{};
  std::array<uint32_t, 3> cluster{};
  uint32_t sharedBytes = 0;
  bool programmatic = false; // may start while the kernel before it ends
  std::optional<Slice> slice;
  std::vector<Parameter> parameters;
  std::vector<size_t> parameterOffsets;
  size_t parameterBytes = 0;
};

class Manifest {
public:
  /// Reads the manifest of a PTX text and checks it against the text's entries.
  /// Throws Error(FA2RT_ERROR_MANIFEST) with the field and its line.
  static Manifest parse(std::string_view ptx);

  std::string json; // as it stands in the file, without the comment marks
  std::string compiler;
  std::string pass;
  CodeTarget target;
  std::vector<Argument> arguments;
  std::vector<Condition> conditions;
  Expression workspaceBytes;
  int64_t workspaceAlignment = 1;
  bool workspaceZeroed = false; // before a launch, and after it
  bool deterministic = false;   // backward's: sums are in one order
  std::vector<LaunchInfo> launches;
  /// Tensors of whose addresses expressions read how they lie.
  std::vector<uint32_t> misalignmentsRead;

  std::vector<std::string> dimensions; // slots [0, dimensions.size())
  /// Slots of device.multiprocessors, l2_bytes, shared_bytes_per_block and
  /// compute_capability, in that order from here.
  uint32_t deviceSlot = 0;
  uint32_t slotCount = 0;

  std::optional<uint32_t> findArgument(std::string_view name) const;
};

/// "bf16", "f32", …
const char *dtypeName(int dtype);
/// Bytes of one element.
int64_t dtypeBytes(fa2rtDType dtype);

} // namespace fa2rt

#endif // FA2RT_LIB_MANIFEST_H
