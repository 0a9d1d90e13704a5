//===- Manifest.cpp - what a launcher has to know of a PTX file -----------===//

#include "Manifest.h"

#include "Device.h"
#include "ManifestReader.h"
#include "PtxEntries.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fa2rt {

namespace {

constexpr int64_t kMaxExtent = (int64_t(1) << 31) - 1;
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt64 = std::numeric_limits<int64_t>::min();
constexpr std::string_view kBegin = "// fa2-manifest-begin";
constexpr std::string_view kEnd = "// fa2-manifest-end";

const char *const kDeviceFields[] = {
    "device.multiprocessors", "device.l2_bytes",
    "device.shared_bytes_per_block", "device.compute_capability"};

/// Takes the JSON out of the leading comment. Its first line is line 2.
std::string extractJson(std::string_view ptx) {
  auto takeLine = [&]() {
    size_t end = ptx.find('\n');
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(end == std::string_view::npos ? ptx.size() : end + 1);
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    return line;
  };
  if (takeLine() != kBegin)
    fail(FA2RT_ERROR_MANIFEST,
         "no manifest: the first line is not '{}' (was this PTX written by "
         "fa2-compile?)",
         kBegin);
  std::string json;
  for (int number = 2; !ptx.empty(); ++number) {
    std::string_view line = takeLine();
    if (line == kEnd)
      return json;
    if (line == "//")
      line = "// ";
    if (line.substr(0, 3) != "// ")
      fail(FA2RT_ERROR_MANIFEST,
           "manifest, line {}: expected a line that begins with '// ' or "
           "'{}'",
           number, kEnd);
    json.append(line.substr(3));
    json.push_back('\n');
  }
  fail(FA2RT_ERROR_MANIFEST, "manifest: the text ends before '{}'", kEnd);
}

class Reader {
public:
  Reader(Manifest &manifest, const std::vector<PtxEntry> &entries)
      : manifest(manifest), entries(entries) {}

  void read(const JsonNode &root) {
    Object object(Field(root, "manifest"));
    version = object.required("fa2_manifest").integer(1, kMaxInt64);
    if (version > kManifestVersion)
      object.required("fa2_manifest")
          .refuse("version {} is newer than this runtime reads ({}); use a "
                  "newer runtime",
                  version, kManifestVersion);
    manifest.compiler = object.required("compiler").string();
    readSpecification(Object(object.required("specification")));
    readTarget(Object(object.required("target")));
    (void)Object(object.required("schedule")); // any object; for people
    for (Field &field : object.required("arguments").elements(0, 256))
      readArgument(Object(field));
    assignSlots();
    for (Field &field : object.required("requires").elements(0, 256)) {
      Object condition(field);
      Condition result;
      result.that = expression(condition.required("that"));
      result.message = condition.required("message").string();
      condition.finish();
      manifest.conditions.push_back(std::move(result));
    }
    Object workspace(object.required("workspace"));
    manifest.workspaceBytes = expression(workspace.required("bytes"));
    manifest.workspaceAlignment = powerOfTwo(workspace.required("alignment"));
    if (workspace.has("zeroed"))
      manifest.workspaceZeroed = workspace.required("zeroed").boolean();
    workspace.finish();
    for (Field &field : object.required("launches").elements(1, 64))
      readLaunch(Object(field));
    object.finish();
  }

private:
  void readSpecification(Object object) {
    manifest.pass = object.required("pass").string();
    object.required("dtype").string();
    object.required("head_dim").integer(1, kMaxExtent);
    object.required("head_dim_v").integer(1, kMaxExtent);
    object.required("mask").string();
    if (object.has("deterministic"))
      manifest.deterministic = object.required("deterministic").boolean();
  }

  void readTarget(Object object) {
    CodeTarget &target = manifest.target;
    target.arch = object.required("arch").string();
    target.family = object.required("family").boolean();
    target.minComputeCapability =
        int(object.required("min_compute_capability").integer(10, 9999));
    target.ptx = object.required("ptx").string();
    target.minDriver =
        int(object.required("min_driver").integer(0, kMaxExtent));
    object.finish();
  }

  void readArgument(Object object) {
    Argument argument;
    Field name = object.required("name");
    argument.name = name.identifier();
    if (argument.name == "device")
      name.refuse("the name 'device' is taken by the expressions");
    if (manifest.findArgument(argument.name))
      name.refuse("the argument '{}' is given twice", argument.name);
    Field kind = object.required("kind");
    if (kind.string() == "tensor")
      readTensor(object, argument);
    else if (kind.string() == "scalar")
      readScalar(object, argument);
    else
      kind.refuse("unknown kind '{}' (known: tensor, scalar)", kind.string());
    object.finish();
    manifest.arguments.push_back(std::move(argument));
  }

  void readTensor(Object &object, Argument &argument) {
    argument.tensor = true;
    Field direction = object.required("direction");
    if (direction.string() == "in")
      argument.direction = FA2RT_IN;
    else if (direction.string() == "out")
      argument.direction = FA2RT_OUT;
    else if (direction.string() == "inout")
      argument.direction = FA2RT_INOUT;
    else
      direction.refuse("unknown direction '{}' (known: in, out, inout)",
                       direction.string());
    Field dtype = object.required("dtype");
    argument.dtype = parseDType(dtype, /*tensor=*/true);
    if (version >= 2 && object.has("broadcast")) {
      Field broadcast = object.required("broadcast");
      argument.broadcast = broadcast.boolean();
      if (argument.broadcast && argument.direction != FA2RT_IN &&
          argument.direction != FA2RT_OUT)
        broadcast.refuse("only tensors of direction 'in' or 'out' are "
                         "broadcast");
    }
    for (Field &extent : object.required("shape").elements(1, FA2RT_MAX_RANK)) {
      if (extent.isInteger())
        argument.shape.push_back({extent.integer(0, kMaxExtent), 0});
      else
        argument.shape.push_back({-1, dimension(extent, argument)});
    }
    argument.alignment = powerOfTwo(object.required("alignment"));
    argument.strideMultiple =
        object.required("stride_multiple").integer(1, kMaxExtent);
    if (object.has("optional"))
      argument.optional = object.required("optional").boolean();
  }

  void readScalar(Object &object, Argument &argument) {
    argument.tensor = false;
    argument.dtype = parseDType(object.required("dtype"), /*tensor=*/false);
    if (object.has("default")) {
      Field value = object.required("default");
      argument.hasDefault = argument.optional = true;
      if (argument.dtype == FA2RT_F32) {
        argument.defaultReal = value.number();
      } else {
        bool narrow = argument.dtype == FA2RT_I32;
        argument.defaultInteger =
            value.integer(narrow ? -kMaxExtent - 1 : kMinInt64,
                          narrow ? kMaxExtent : kMaxInt64);
      }
    }
    if (object.has("require")) {
      Field require = object.required("require");
      if (require.string() == "positive_finite")
        argument.require = Requirement::PositiveFinite;
      else if (require.string() == "invertible")
        argument.require = Requirement::Invertible;
      else if (require.string() == "finite")
        argument.require = Requirement::Finite;
      else
        require.refuse("unknown requirement '{}' (known: positive_finite, "
                       "invertible, finite)",
                       require.string());
      if (argument.dtype != FA2RT_F32)
        require.refuse("'{}' belongs to f32 scalars, not {}", require.string(),
                       dtypeName(argument.dtype));
    }
  }

  fa2rtDType parseDType(const Field &field, bool tensor) {
    const std::string &name = field.string();
    for (fa2rtDType dtype :
         {FA2RT_BF16, FA2RT_F16, FA2RT_F32, FA2RT_I32, FA2RT_I64}) {
      bool allowed = tensor ? dtype != FA2RT_I64
                            : dtype != FA2RT_BF16 && dtype != FA2RT_F16;
      if (allowed && name == dtypeName(dtype))
        return dtype;
    }
    field.refuse("unknown dtype '{}' (known for a {})", name,
                 tensor ? "tensor: bf16, f16, f32, i32"
                        : "scalar: f32, i32, i64");
  }

  /// A broadcast input defines dimensions that are its own, and its gradient's:
  /// of others, an extent of 1 says nothing. A broadcast output defines none.
  uint32_t dimension(const Field &field, const Argument &argument) {
    const std::string &name = field.identifier();
    if (name == "device")
      field.refuse("the name 'device' is taken by the expressions");
    auto &names = manifest.dimensions;
    for (uint32_t i = 0; i < names.size(); ++i) {
      if (names[i] != name)
        continue;
      if (ofBroadcast[i] && !sums(argument))
        field.refuse("the dimension '{}' is defined by a broadcast tensor, "
                     "whose extent may be 1",
                     name);
      return i;
    }
    if (sums(argument))
      field.refuse("the dimension '{}' is of a broadcast output: an input "
                   "before it must have it",
                   name);
    names.push_back(name);
    ofBroadcast.push_back(argument.broadcast);
    return uint32_t(names.size() - 1);
  }

  static bool sums(const Argument &argument) {
    return argument.broadcast && argument.direction == FA2RT_OUT;
  }

  int64_t powerOfTwo(const Field &field) {
    int64_t value = field.integer(1, int64_t(1) << 20);
    if (value & (value - 1))
      field.refuse("expected a power of two, got {}", value);
    return value;
  }

  void assignSlots() {
    uint32_t next = uint32_t(manifest.dimensions.size());
    for (uint32_t i = 0; i < next; ++i)
      slots.emplace(manifest.dimensions[i], i);
    manifest.deviceSlot = next;
    for (const char *field : kDeviceFields)
      slots.emplace(field, next++);
    for (Argument &argument : manifest.arguments) {
      if (argument.tensor) {
        argument.firstStrideSlot = next;
        for (size_t d = 0; d < argument.shape.size(); ++d)
          slots.emplace(fmt::format("{}.stride[{}]", argument.name, d), next++);
        argument.misalignmentSlot = next++;
        if (version >= 2)
          slots.emplace(argument.name + ".misalignment",
                        argument.misalignmentSlot);
      } else if (argument.dtype != FA2RT_F32) {
        argument.slot = next;
        if (!slots.emplace(argument.name, next++).second)
          fail(FA2RT_ERROR_MANIFEST,
               "manifest: '{}' names both a dimension and a scalar",
               argument.name);
      }
    }
    manifest.slotCount = next;
  }

  Expression expression(const Field &field) {
    if (field.isInteger())
      return Expression::constant(field.integer(kMinInt64, kMaxInt64));
    if (!field.isString())
      field.refuse("expected an expression, got {}", field.json().kindName());
    try {
      Expression result = Expression::parse(
          field.string(),
          [&](std::string_view name) -> std::optional<uint32_t> {
            auto slot = slots.find(name);
            if (slot == slots.end())
              return std::nullopt;
            return slot->second;
          });
      noteMisalignments(result);
      return result;
    } catch (const std::invalid_argument &error) {
      field.refuse("{}", error.what());
    }
  }

  void noteMisalignments(const Expression &expression) {
    std::vector<uint32_t> &read = manifest.misalignmentsRead;
    for (const auto &[name, slot] : expression.names())
      for (uint32_t i = 0; i < manifest.arguments.size(); ++i) {
        const Argument &argument = manifest.arguments[i];
        if (argument.tensor && argument.misalignmentSlot == slot &&
            std::find(read.begin(), read.end(), i) == read.end())
          read.push_back(i);
      }
  }

  void readLaunch(Object object) {
    LaunchInfo launch;
    Field kernel = object.required("kernel");
    launch.kernel = kernel.string();
    if (object.has("when"))
      launch.when = expression(object.required("when"));
    if (object.has("schedule"))
      (void)Object(object.required("schedule")); // any object; for people
    auto grid = object.required("grid").elements(3, 3);
    auto block = object.required("block").elements(3, 3);
    auto cluster = object.required("cluster").elements(3, 3);
    for (size_t d = 0; d < 3; ++d) {
      launch.grid[d] = expression(grid[d]);
      launch.block[d] = uint32_t(block[d].integer(1, 1024));
      launch.cluster[d] = uint32_t(cluster[d].integer(1, 16));
    }
    if (launch.block[0] * launch.block[1] * launch.block[2] > 1024)
      object.required("block").refuse(
          "{} threads a block; a device takes at most 1024",
          launch.block[0] * launch.block[1] * launch.block[2]);
    if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 16)
      object.required("cluster").refuse(
          "{} blocks a cluster; a device takes at most 16",
          launch.cluster[0] * launch.cluster[1] * launch.cluster[2]);
    launch.sharedBytes =
        uint32_t(object.required("shared_bytes").integer(0, 1 << 20));
    if (version >= 3 && object.has("programmatic"))
      launch.programmatic = object.required("programmatic").boolean();
    if (version >= 4 && object.has("slice"))
      launch.slice = readSlice(Object(object.required("slice")));
    for (Field &field : object.required("parameters").elements(0, 512))
      readParameter(Object(field), launch);
    object.finish();
    checkEntry(kernel, launch);
    manifest.launches.push_back(std::move(launch));
  }

  Slice readSlice(Object object) {
    Slice slice;
    Field dimension = object.required("dimension");
    auto &names = manifest.dimensions;
    auto found = std::find(names.begin(), names.end(), dimension.string());
    if (found == names.end())
      dimension.refuse("no tensor has the dimension '{}'", dimension.string());
    slice.dimension = uint32_t(found - names.begin());
    slice.from = expression(object.required("from"));
    slice.count = expression(object.required("count"));
    object.finish();
    return slice;
  }

  void readParameter(Object object, LaunchInfo &launch) {
    Parameter parameter;
    Field kind = object.required("kind");
    const std::string &name = kind.string();
    if (name == "pointer") {
      parameter.kind = Parameter::Kind::Pointer;
      parameter.argument = argumentOf(object, /*tensor=*/true);
    } else if (name == "stride") {
      parameter.kind = Parameter::Kind::Stride;
      parameter.argument = argumentOf(object, /*tensor=*/true);
      const Argument &tensor = manifest.arguments[parameter.argument];
      parameter.dim = uint32_t(
          object.required("dim").integer(0, int64_t(tensor.shape.size()) - 1));
    } else if (name == "i32" || name == "i64") {
      parameter.kind =
          name == "i32" ? Parameter::Kind::I32 : Parameter::Kind::I64;
      parameter.value = expression(object.required("value"));
      parameter.bytes = name == "i32" ? 4 : 8;
    } else if (name == "scalar") {
      parameter.kind = Parameter::Kind::Scalar;
      parameter.argument = argumentOf(object, /*tensor=*/false);
      parameter.bytes =
          size_t(dtypeBytes(manifest.arguments[parameter.argument].dtype));
    } else if (name == "workspace") {
      parameter.kind = Parameter::Kind::Workspace;
      parameter.value = expression(object.required("offset"));
    } else if (name == "tensor_map") {
      readTensorMap(object, parameter);
    } else {
      kind.refuse("unknown kind '{}' (known: pointer, stride, i32, i64, "
                  "scalar, workspace, tensor_map)",
                  name);
    }
    object.finish();
    size_t alignment = parameter.alignment();
    size_t offset =
        (launch.parameterBytes + alignment - 1) / alignment * alignment;
    launch.parameterOffsets.push_back(offset);
    launch.parameterBytes = offset + parameter.bytes;
    launch.parameters.push_back(std::move(parameter));
  }

  /// Each of the tensor's dimensions once.
  static void readMapDims(Field dims, const Argument &tensor,
                          Parameter &parameter) {
    int64_t rank = int64_t(tensor.shape.size());
    for (Field &field : dims.elements(2, 4)) {
      uint32_t dim = uint32_t(field.integer(0, rank - 1));
      if (std::find(parameter.mapDims.begin(), parameter.mapDims.end(), dim) !=
          parameter.mapDims.end())
        field.refuse("dimension {} is given twice", dim);
      parameter.mapDims.push_back(dim);
    }
    if (int64_t(parameter.mapDims.size()) != rank)
      dims.refuse("expected the {} dimensions of '{}', got {}", rank,
                  tensor.name, parameter.mapDims.size());
  }

  void readTensorMap(Object &object, Parameter &parameter) {
    parameter.kind = Parameter::Kind::TensorMap;
    parameter.bytes = kTensorMapBytes;
    parameter.argument = argumentOf(object, /*tensor=*/true);
    const Argument &tensor = manifest.arguments[parameter.argument];
    Field of = object.required("of");
    if (version >= 2 && object.has("dims"))
      readMapDims(object.required("dims"), tensor, parameter);
    else if (tensor.shape.size() != 4)
      of.refuse("'{}' has rank {}; a tensor map is of a tensor [batch, seq, "
                "heads, d]",
                tensor.name, tensor.shape.size());
    else
      parameter.mapDims = {3, 1, 2, 0};
    parameter.boxRows = uint32_t(object.required("box_rows").integer(1, 256));
    if (object.has("box_heads"))
      parameter.boxHeads =
          uint32_t(object.required("box_heads").integer(1, 256));
    Field cols = object.required("box_cols");
    parameter.boxCols = uint32_t(cols.integer(1, 256));
    Field swizzle = object.required("swizzle");
    parameter.swizzle = int(swizzle.integer(0, 128));
    if (parameter.swizzle != 0 && parameter.swizzle != 32 &&
        parameter.swizzle != 64 && parameter.swizzle != 128)
      swizzle.refuse("expected 0, 32, 64 or 128 bytes, got {}",
                     parameter.swizzle);
    int64_t inner = dtypeBytes(tensor.dtype) * parameter.boxCols;
    if (inner % 16)
      cols.refuse("{} elements of {} are {} bytes; a box's rows are multiples "
                  "of 16 bytes",
                  parameter.boxCols, dtypeName(tensor.dtype), inner);
    if (parameter.swizzle && inner > parameter.swizzle)
      cols.refuse("{} elements of {} are {} bytes, wider than the swizzle of "
                  "{} bytes",
                  parameter.boxCols, dtypeName(tensor.dtype), inner,
                  parameter.swizzle);
  }

  uint32_t argumentOf(Object &object, bool tensor) {
    Field of = object.required("of");
    std::optional<uint32_t> index = manifest.findArgument(of.string());
    if (!index)
      of.refuse("no argument is named '{}'", of.string());
    if (manifest.arguments[*index].tensor != tensor)
      of.refuse("'{}' is not a {}", of.string(), tensor ? "tensor" : "scalar");
    return *index;
  }

  /// The PTX entry must take exactly these parameters.
  void checkEntry(const Field &kernel, const LaunchInfo &launch) {
    for (const PtxEntry &entry : entries) {
      if (entry.name != launch.kernel)
        continue;
      if (entry.parameterBytes.size() != launch.parameters.size())
        kernel.refuse("the entry '{}' takes {} parameters, the manifest "
                      "gives {}",
                      entry.name, entry.parameterBytes.size(),
                      launch.parameters.size());
      for (size_t i = 0; i < launch.parameters.size(); ++i)
        if (entry.parameterBytes[i] != launch.parameters[i].bytes)
          kernel.refuse("parameter {} of the entry '{}' has {} bytes, the "
                        "manifest gives {}",
                        i, entry.name, entry.parameterBytes[i],
                        launch.parameters[i].bytes);
      return;
    }
    kernel.refuse("the PTX has no entry '{}'", launch.kernel);
  }

  Manifest &manifest;
  const std::vector<PtxEntry> &entries;
  std::map<std::string, uint32_t, std::less<>> slots;
  int64_t version = 1;
  std::vector<bool> ofBroadcast; // the dimensions that broadcast tensors define
};

} // namespace

Manifest Manifest::parse(std::string_view ptx) {
  Manifest manifest;
  manifest.json = extractJson(ptx);
  JsonNode root;
  try {
    root = parseJson(manifest.json, /*firstLine=*/2);
  } catch (const Error &error) {
    throw Error(error.status, fmt::format("manifest, {}", error.what()));
  }
  Reader(manifest, findEntries(ptx)).read(root);
  return manifest;
}

std::optional<uint32_t> Manifest::findArgument(std::string_view name) const {
  for (uint32_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name == name)
      return i;
  return std::nullopt;
}

const char *dtypeName(int dtype) {
  switch (dtype) {
  case FA2RT_BF16:
    return "bf16";
  case FA2RT_F16:
    return "f16";
  case FA2RT_F32:
    return "f32";
  case FA2RT_I32:
    return "i32";
  case FA2RT_I64:
    return "i64";
  }
  return "unknown";
}

int64_t dtypeBytes(fa2rtDType dtype) {
  switch (dtype) {
  case FA2RT_BF16:
  case FA2RT_F16:
    return 2;
  case FA2RT_F32:
  case FA2RT_I32:
    return 4;
  case FA2RT_I64:
    return 8;
  }
  return 0;
}

} // namespace fa2rt
