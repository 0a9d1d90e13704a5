//===- StageFile.cpp - a file that a stage left, to be run ----------------===//

#include "fa2/Interpreter/StageFile.h"

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/Interpreter/Interpreter.h"
#include "fa2/Pipelines/Registration.h"
#include "fa2/Target/Ptx/Ptx.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

static DialectRegistry allDialects() {
  DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

struct StageFile::Contents {
  llvm::SourceMgr sources;
  MLIRContext context{allDialects(), MLIRContext::Threading::DISABLED};
  SourceMgrDiagnosticHandler diagnostics{sources, &context};
  OwningOpRef<ModuleOp> module;
  SmallVector<KernelOp> operations; // one each of `kernels`
  std::vector<Kernel> kernels;
  std::vector<std::vector<Workspace>> workspaces; // one each of `kernels`
  std::string manifest;

  bool open(const std::string &path);
  LogicalResult describe();
  void add(KernelOp operation, Kernel kernel);
};

StageFile::StageFile(std::unique_ptr<Contents> contents)
    : contents(std::move(contents)) {}
StageFile::~StageFile() = default;

const std::string &StageFile::manifest() const { return contents->manifest; }
const std::vector<StageFile::Kernel> &StageFile::kernels() const {
  return contents->kernels;
}
const std::vector<StageFile::Workspace> &
StageFile::workspaces(size_t kernel) const {
  return contents->workspaces[kernel];
}

bool StageFile::Contents::open(const std::string &path) {
  // What is made here, and need not stand in the file.
  context.loadDialect<fa2::gpu::FA2GPUDialect, arith::ArithDialect>();
  std::string error;
  auto file = openInputFile(path, &error);
  if (!file) {
    llvm::WithColor::error() << error << "\n";
    return false;
  }
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  module = parseSourceFile<ModuleOp>(sources, &context);
  return module && succeeded(describe());
}

static std::vector<std::string> extentsOf(ArgumentAttr argument) {
  std::vector<std::string> extents;
  for (Attribute dim : argument.getDims())
    if (auto name = dyn_cast<StringAttr>(dim))
      extents.push_back(name.str());
    else
      extents.push_back(std::to_string(cast<IntegerAttr>(dim).getInt()));
  return extents;
}

void StageFile::Contents::add(KernelOp operation, Kernel kernel) {
  operations.push_back(operation);
  kernels.push_back(std::move(kernel));
  auto &own = workspaces.emplace_back();
  for (auto argument : operation.getArguments().getAsRange<ArgumentAttr>())
    if (argument.getDirection() == "workspace")
      own.push_back({argument.getName().str(), extentsOf(argument)});
}

/// How a kernel would be launched, as far as its manifest's head says it.
static fa2::gpu::LaunchOp launchOf(OpBuilder &b, KernelOp kernel) {
  auto grid = b.getStrArrayAttr({"1", "1", "1"});
  return fa2::gpu::LaunchOp::create(
      b, kernel.getLoc(), SymbolRefAttr::get(kernel.getSymNameAttr()), grid,
      /*block=*/b.getI64IntegerAttr(1), /*shared_bytes=*/b.getI64IntegerAttr(0),
      kernel.getSpec(), kernel.getSchedule(), kernel.getArguments(),
      /*parameters=*/b.getArrayAttr({}), kernel.getWhenAttr(),
      /*programmatic=*/UnitAttr(), /*cluster=*/b.getI64IntegerAttr(1),
      /*main=*/UnitAttr(), /*rows=*/RowsAttr());
}

LogicalResult StageFile::Contents::describe() {
  auto all = llvm::to_vector(module->getOps<KernelOp>());
  if (all.empty())
    return module->emitError()
           << "expected fa2.kernel operations, which stages from fa2-tile to "
              "fa2gpu-verify leave (fa2-compile --save-temps)";
  OwningOpRef<ModuleOp> launches = ModuleOp::create(module->getLoc());
  OpBuilder b(launches->getBodyRegion());
  SmallVector<fa2::gpu::LaunchOp> described;
  for (KernelOp kernel : all) {
    described.push_back(launchOf(b, kernel));
    GuardAttr when = kernel.getWhenAttr();
    add(kernel, {kernel.getName().str(),
                 when ? when.getExpression().str() : std::string()});
    if (ArrayAttr parts = kernel.getPartsAttr())
      for (auto rows : parts.getAsRange<RowsAttr>())
        add(kernel,
            {kernel.getName().str(), rows.getWhen().getExpression().str(),
             rows.getFrom().getExpression().str(),
             rows.getCount().getExpression().str()});
  }
  auto text = writeManifest(described);
  if (failed(text))
    return failure();
  manifest = *text;
  return success();
}

std::unique_ptr<StageFile> StageFile::read(const std::string &path) {
  auto contents = std::make_unique<Contents>();
  if (!contents->open(path))
    return nullptr;
  return std::unique_ptr<StageFile>(new StageFile(std::move(contents)));
}

/// The rows of tensors that have them.
static void takeRows(KernelOp kernel, std::vector<Argument> &arguments,
                     StageFile::Rows rows) {
  for (auto described : kernel.getArguments().getAsRange<ArgumentAttr>())
    for (auto [d, dim] : llvm::enumerate(described.getDims())) {
      auto name = dyn_cast<StringAttr>(dim);
      auto argument = llvm::find_if(arguments, [&](const Argument &a) {
        return a.name == described.getName();
      });
      if (!name || name != "seqlen_q" || argument == arguments.end())
        continue;
      int64_t bytes = described.getDtype().getIntOrFloatBitWidth() / 8;
      argument->shape[d] = rows.count;
      argument->data = static_cast<char *>(argument->data) +
                       rows.from * argument->strides[d] * bytes;
    }
}

bool StageFile::run(size_t kernel, std::vector<Argument> arguments,
                    const Observer &observer, std::optional<Rows> rows) {
  KernelOp operation = contents->operations[kernel];
  if (rows)
    takeRows(operation, arguments, *rows);
  return succeeded(interpret(operation, arguments, observer));
}
