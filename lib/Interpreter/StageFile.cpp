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
  SmallVector<KernelOp> operations;
  std::vector<Kernel> kernels;
  std::vector<Workspace> workspaces;
  std::string manifest;

  bool open(const std::string &path);
  LogicalResult describe();
};

StageFile::StageFile(std::unique_ptr<Contents> contents)
    : contents(std::move(contents)) {}
StageFile::~StageFile() = default;

const std::string &StageFile::manifest() const { return contents->manifest; }
const std::vector<StageFile::Kernel> &StageFile::kernels() const {
  return contents->kernels;
}
const std::vector<StageFile::Workspace> &StageFile::workspaces() const {
  return contents->workspaces;
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

/// How a kernel would be launched, as far as its manifest's head says it.
static fa2::gpu::LaunchOp launchOf(OpBuilder &b, KernelOp kernel) {
  auto grid = b.getStrArrayAttr({"1", "1", "1"});
  return fa2::gpu::LaunchOp::create(
      b, kernel.getLoc(), SymbolRefAttr::get(kernel.getSymNameAttr()), grid,
      /*block=*/b.getI64IntegerAttr(1), /*shared_bytes=*/b.getI64IntegerAttr(0),
      kernel.getSpec(), kernel.getSchedule(), kernel.getArguments(),
      /*parameters=*/b.getArrayAttr({}), kernel.getWhenAttr());
}

LogicalResult StageFile::Contents::describe() {
  operations = llvm::to_vector(module->getOps<KernelOp>());
  if (operations.empty())
    return module->emitError()
           << "expected fa2.kernel operations, which stages from fa2-tile to "
              "fa2gpu-verify leave (fa2-compile --save-temps)";
  OwningOpRef<ModuleOp> launches = ModuleOp::create(module->getLoc());
  OpBuilder b(launches->getBodyRegion());
  SmallVector<fa2::gpu::LaunchOp> all;
  for (KernelOp kernel : operations) {
    GuardAttr when = kernel.getWhenAttr();
    kernels.push_back({kernel.getName().str(),
                       when ? when.getExpression().str() : std::string()});
    all.push_back(launchOf(b, kernel));
  }
  for (auto argument :
       operations.front().getArguments().getAsRange<ArgumentAttr>())
    if (argument.getDirection() == "workspace")
      workspaces.push_back({argument.getName().str(), extentsOf(argument)});
  auto text = writeManifest(all);
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

bool StageFile::run(size_t kernel, const std::vector<Argument> &arguments,
                    const Observer &observer) {
  return succeeded(
      interpret(contents->operations[kernel], arguments, observer));
}
