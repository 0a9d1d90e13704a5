//===- Manifest.cpp - fa2gpu.launch to the manifest's JSON ----------------===//
//
// docs/manifest.md is the contract.
//
//===----------------------------------------------------------------------===//

#include "ManifestProgram.h"
#include "fa2/Target/Ptx/Ptx.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using llvm::formatv;
using llvm::json::OStream;

namespace {

/// Blocks a grid may have in x, y and z (CUDA C++ Programming Guide).
constexpr int64_t kMaxGrid[3] = {2147483647, 65535, 65535};

std::string dtypeName(Type type) {
  if (type.isIndex())
    return "i64";
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

std::string number(double value) {
  return formatv("{0}", llvm::json::Value(value)).str();
}

class Writer {
public:
  Writer(ArrayRef<LaunchOp> launches, const Target &target,
         llvm::raw_ostream &os)
      : launches(launches), launch(mainLaunch(launches)), target(target),
        json(os, /*IndentSize=*/2) {
    for (LaunchOp each : launches)
      placeWorkspace(each.getArguments());
  }

  void write() {
    json.object([&] {
      // The oldest that has what this program needs.
      json.attribute("fa2_manifest", version());
      json.attribute("compiler", "fa2 " FA2_VERSION);
      specification();
      targetObject();
      schedule(launch.getSchedule());
      json.attributeArray("arguments", [&] {
        for (auto arg : launch.getArguments().getAsRange<ArgumentAttr>())
          if (arg.getDirection() != "workspace")
            argument(arg);
      });
      json.attributeArray("requires", [&] { requirements(); });
      json.attributeObject("workspace", [&] {
        if (workspaceBytes.empty())
          json.attribute("bytes", countersBytes());
        else
          json.attribute("bytes", workspaceBytes);
        json.attribute("alignment", alignment());
        if (countersBytes() > 0)
          json.attribute("zeroed", true);
      });
      json.attributeArray("launches", [&] {
        for (LaunchOp each : launches)
          launchObject(each);
      });
    });
  }

private:
  static constexpr int64_t kCounterBytes = 16;
  /// Bytes of a line of the caches. Reductions by whole warps take a twentieth
  /// longer where they begin in the midst of one.
  static constexpr int64_t kLineBytes = 128;

  int64_t version() {
    bool sliced = llvm::any_of(
        launches, [](LaunchOp each) { return bool(each.getRowsAttr()); });
    bool chained = llvm::any_of(
        launches, [](LaunchOp each) { return each.getProgrammatic(); });
    return sliced                               ? 4
           : chained                            ? 3
           : launch.getSpec().getScoreProgram() ? 2
                                                : 1;
  }

  /// Of counters of tiles drawn and of blocks that finished, as many pairs as
  /// kernels may run at once.
  int64_t countersBytes() {
    int64_t bytes = 0;
    for (LaunchOp each : launches)
      for (auto p : each.getParameters().getAsRange<ParamAttr>())
        if (p.getKind() == "workspace" && p.getOf() == kTileCounters)
          bytes = std::max(bytes, kCounterBytes * (p.getDim() + 1));
    return bytes;
  }
  int64_t alignment() { return std::max(kCounterBytes, countersBytes()); }

  /// The counters come first, where launches of all lengths find them zero as
  /// the one before left them. Workspace arguments lie behind them from the
  /// next line on, one after the other: each holds whole rows of 16 values at
  /// least, which keeps the next one aligned.
  /// Kernels of a launch all have the same; where others take their place, with
  /// other arguments, the memory is as large as the larger one.
  void placeWorkspace(ArrayAttr arguments) {
    auto [known, isNew] = workspaceOffsets.try_emplace(arguments);
    if (!isNew)
      return;
    std::string all;
    for (auto arg : arguments.getAsRange<ArgumentAttr>()) {
      if (arg.getDirection() != "workspace")
        continue;
      if (all.empty() && countersBytes() > 0)
        all = std::to_string(kLineBytes);
      known->second[arg.getName()] = all.empty() ? "0" : all;
      std::string bytes = "4";
      for (Attribute dim : arg.getDims())
        if (auto name = dyn_cast<StringAttr>(dim))
          bytes += " * (" + name.str() + ")";
        else
          bytes += " * " + std::to_string(cast<IntegerAttr>(dim).getInt());
      all += (all.empty() ? "" : " + ") + bytes;
    }
    workspaceBytes = workspaceBytes.empty() || workspaceBytes == all
                         ? all
                         : "max(" + workspaceBytes + ", " + all + ")";
  }

  void specification() {
    SpecAttr spec = launch.getSpec();
    json.attributeObject("specification", [&] {
      json.attribute("pass", spec.getPass());
      json.attribute("dtype", dtypeName(spec.getDtype()));
      json.attribute("head_dim", spec.getHeadDim());
      json.attribute("head_dim_v", spec.getHeadDimV());
      auto mask = dyn_cast_or_null<IntervalMaskAttr>(spec.getMask());
      json.attribute("mask", mask ? mask.getSpecName() : "none");
      if (ProgramAttr program = spec.getScoreProgram())
        json.attributeObject("program", [&] { writeProgram(json, program); });
      if (spec.getPass() == "backward")
        json.attribute("deterministic",
                       sumsInOrder(launch.getSchedule().getDq()) &&
                           !sumsForAll());
    });
  }

  /// Gradients of what a score program reads are added in any order, but for
  /// those with words in the workspace, where no order matters.
  bool sumsForAll() {
    auto arguments = launch.getArguments().getAsRange<ArgumentAttr>();
    return llvm::any_of(arguments, [&](ArgumentAttr arg) {
      std::string words = (arg.getName() + "_words").str();
      return arg.getDirection() == "out" && arg.getBroadcast() &&
             llvm::none_of(arguments, [&](ArgumentAttr other) {
               return other.getDirection() == "workspace" &&
                      other.getName() == words;
             });
    });
  }

  void targetObject() {
    PtxRequirement ptx = target.ptx();
    json.attributeObject("target", [&] {
      json.attribute("arch", target.name());
      json.attribute("family", target.isFamilySpecific());
      json.attribute("min_compute_capability", target.computeCapability());
      json.attribute(
          "ptx",
          formatv("{0}.{1}", ptx.isaVersion / 10, ptx.isaVersion % 10).str());
      json.attribute("min_driver", ptx.minDriver);
    });
  }

  bool concerns(FieldGroup group, const Schedule &s) {
    switch (group) {
    case FieldGroup::Every:
      return true;
    case FieldGroup::AnyRoles:
    case FieldGroup::Roles:
      return target.producerWarps() > 0;
    case FieldGroup::Gradient:
      return s.partition == Partition::Keys;
    case FieldGroup::GradientRoles:
      return s.partition == Partition::Keys && target.producerWarps() > 0;
    }
    return false;
  }

  void schedule(ScheduleAttr attr) {
    Schedule given = attr.getFields(), full = given.derived();
    json.attributeObject("schedule", [&] {
      forEachScheduleField([&]<typename T>(const ScheduleField<T> &field) {
        bool unset =
            field.shown == FieldShown::WhereSet && field.isDefault(given);
        if (unset || !concerns(field.group, given))
          return;
        if constexpr (std::is_enum_v<T>)
          json.attribute(field.name, field.text(full.*field.member));
        else
          json.attribute(field.name, full.*field.member);
      });
    });
  }

  void argument(ArgumentAttr arg) {
    writeLine(json, [&](OStream &o) {
      o.attribute("name", arg.getName());
      if (arg.getDims().empty()) {
        o.attribute("kind", "scalar");
        o.attribute("dtype", dtypeName(arg.getDtype()));
        if (FloatAttr value = arg.getDefaultValue()) {
          o.attributeBegin("default");
          o.rawValue(number(value.getValueAsDouble()));
          o.attributeEnd();
        }
        if (StringAttr require = arg.getRequire())
          o.attribute("require", require.getValue());
        return;
      }
      // Rows of elements are read and written 16 bytes at a time, and so are
      // those of a gradient for each of the scores.
      bool ofScores = arg.getDirection() == "out" &&
                      arg.getDtype().getIntOrFloatBitWidth() == 16;
      bool rows = !arg.getBroadcast() &&
                  (ofScores ||
                   isa<IntegerAttr>(arg.getDims()[arg.getDims().size() - 1]));
      o.attribute("kind", "tensor");
      o.attribute("direction", arg.getDirection());
      o.attribute("dtype", dtypeName(arg.getDtype()));
      o.attributeArray("shape", [&] {
        for (Attribute dim : arg.getDims())
          if (auto name = dyn_cast<StringAttr>(dim)) {
            dims.insert(name.getValue());
            o.value(name.getValue());
          } else {
            o.value(cast<IntegerAttr>(dim).getInt());
          }
      });
      int64_t bytes = arg.getDtype().getIntOrFloatBitWidth() / 8;
      o.attribute("alignment", rows ? 16 : bytes);
      o.attribute("stride_multiple", rows ? 16 / bytes : 1);
      if (arg.getBroadcast())
        o.attribute("broadcast", true);
    });
  }

  void requirement(const std::string &that, const std::string &message) {
    writeLine(json, [&](OStream &o) {
      o.attribute("that", that);
      o.attribute("message", message);
    });
  }

  /// What lets a launch pass that another kernel is chosen for.
  static std::string unlessChosen(GuardAttr when) {
    return when ? formatv("!({0}) || ", when.getExpression()).str() : "";
  }

  void requirements() {
    if (dims.contains("heads") && dims.contains("heads_kv"))
      requirement("heads == 0 || (heads_kv > 0 && heads % heads_kv == 0)",
                  "heads must be a multiple of heads_kv: every key and value "
                  "head serves the same number of query heads");
    for (LaunchOp each : launches)
      if (int64_t packed = each.getSchedule().getPackedHeads(); packed > 1)
        requirement(
            unlessChosen(each.getWhenAttr()) +
                formatv("heads % (heads_kv * {0}) == 0", packed).str(),
            formatv("heads / heads_kv must be a multiple of {0}: so many query "
                    "heads of one key head are packed into a tile",
                    packed));
    llvm::SetVector<std::tuple<size_t, StringRef, GuardAttr>> grids;
    for (LaunchOp each : launches)
      for (auto [i, attr] : llvm::enumerate(each.getGrid()))
        grids.insert(
            {i, cast<StringAttr>(attr).getValue(), each.getWhenAttr()});
    for (auto [i, expression, when] : grids) {
      int64_t blocks;
      std::string unless = unlessChosen(when);
      if (i < 3 && expression.getAsInteger(10, blocks))
        requirement(formatv("{0}({1}) <= {2}", unless, expression, kMaxGrid[i]),
                    formatv("the grid would have more than {0} blocks in {1}; "
                            "split the batch over several calls",
                            kMaxGrid[i], "xyz"[i]));
    }
  }

  void launchObject(LaunchOp launch) {
    json.object([&] {
      json.attribute("kernel",
                     launch.getKernel().getLeafReference().getValue());
      if (GuardAttr when = launch.getWhenAttr()) {
        json.attribute("when", when.getExpression());
        if (launch.getSchedule() != this->launch.getSchedule())
          schedule(launch.getSchedule());
      }
      compactArray("grid", [&](OStream &o) {
        for (Attribute e : launch.getGrid())
          o.value(cast<StringAttr>(e).getValue());
      });
      compactArray("block", [&](OStream &o) {
        o.value(launch.getBlock());
        o.value(1);
        o.value(1);
      });
      compactArray("cluster", [&](OStream &o) {
        o.value(int64_t(launch.getCluster()));
        o.value(1);
        o.value(1);
      });
      json.attribute("shared_bytes", launch.getSharedBytes());
      if (launch.getProgrammatic())
        json.attribute("programmatic", true);
      if (RowsAttr rows = launch.getRowsAttr())
        json.attributeObject("slice", [&] {
          json.attribute("dimension", "seqlen_q");
          json.attribute("from", rows.getFrom().getExpression());
          json.attribute("count", rows.getCount().getExpression());
        });
      json.attributeArray("parameters", [&] {
        for (auto p : launch.getParameters().getAsRange<ParamAttr>())
          writeLine(json, [&](OStream &o) {
            parameter(o, p, workspaceOffsets[launch.getArguments()]);
          });
      });
    });
  }

  template <typename Body> void compactArray(StringRef name, Body body) {
    std::string text;
    {
      llvm::raw_string_ostream os(text);
      OStream inner(os);
      inner.array([&] { body(inner); });
    }
    json.attributeBegin(name);
    json.rawValue(text);
    json.attributeEnd();
  }

  int64_t elementBytes(StringRef argument) {
    for (LaunchOp each : launches)
      for (auto arg : each.getArguments().getAsRange<ArgumentAttr>())
        if (arg.getName() == argument)
          return arg.getDtype().getIntOrFloatBitWidth() / 8;
    llvm_unreachable("an operation's verifier has seen that it is one");
  }

  void parameter(OStream &o, ParamAttr p,
                 const llvm::StringMap<std::string> &offsets) {
    o.attribute("kind", p.getKind());
    if (p.getKind() == "i32" || p.getKind() == "i64") {
      o.attribute("value", p.getOf());
    } else if (p.getKind() == "workspace") {
      if (p.getOf() == kTileCounters)
        o.attribute("offset", kCounterBytes * p.getDim());
      else
        o.attribute("offset", offsets.lookup(p.getOf()));
    } else if (p.getKind() == "tensor_map") {
      o.attribute("of", p.getOf());
      o.attribute("box_rows", p.getDim() / p.getHeads());
      if (p.getHeads() > 1)
        o.attribute("box_heads", p.getHeads());
      o.attribute("box_cols",
                  target.sharedPanelBytes() / elementBytes(p.getOf()));
      o.attribute("swizzle", target.sharedPanelBytes());
      if (p.getDims()) // [batch, row, head, column], here from the innermost
        o.attributeArray("dims", [&] {
          for (int64_t i : {3, 1, 2, 0})
            if (p.getDims()[i] >= 0)
              o.value(p.getDims()[i]);
        });
    } else {
      o.attribute("of", p.getOf());
      if (p.getKind() == "stride")
        o.attribute("dim", p.getDim());
    }
  }

  ArrayRef<LaunchOp> launches;
  LaunchOp launch; // the main one
  const Target &target;
  OStream json;
  llvm::StringSet<> dims;
  llvm::DenseMap<Attribute, llvm::StringMap<std::string>>
      workspaceOffsets; // by lists of arguments
  std::string workspaceBytes;
};

} // namespace

FailureOr<std::string> fa2::writeManifest(ModuleOp module) {
  auto launches = findLaunches(module);
  if (failed(launches))
    return failure();
  return writeManifest(*launches);
}

FailureOr<std::string> fa2::writeManifest(ArrayRef<LaunchOp> launches) {
  std::string error, text;
  LaunchOp first = launches.front();
  const Target *target = lookupTarget(first.getSchedule().getTarget(), error);
  if (!target)
    return first.emitOpError(error);
  llvm::raw_string_ostream os(text);
  Writer(launches, *target, os).write();
  return text;
}
