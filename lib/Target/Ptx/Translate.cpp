//===- Translate.cpp - compiled modules to LLVM IR and PTX ----------------===//

#include "fa2/Target/Ptx/Ptx.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

static LogicalResult checkLaunch(ModuleOp module, LaunchOp launch) {
  std::string error;
  const Target *target = lookupTarget(launch.getSchedule().getTarget(), error);
  if (!target)
    return launch.emitOpError(error);
  const TargetLimits &limits = target->limits();
  if (launch.getBlock() < 1 ||
      launch.getBlock() > uint64_t(limits.threadsPerBlock))
    return launch.emitOpError()
           << "expected 1 to " << limits.threadsPerBlock
           << " threads a block, got " << launch.getBlock();
  if (launch.getSharedBytes() > uint64_t(limits.sharedBytesPerBlock))
    return launch.emitOpError()
           << "needs " << launch.getSharedBytes()
           << " bytes of shared memory of " << limits.sharedBytesPerBlock
           << " that " << target->name() << " allows a block";
  if (launch.getGrid().size() != 3)
    return launch.emitOpError() << "expected a grid of three expressions, got "
                                << launch.getGrid().size();

  Operation *kernel =
      SymbolTable::lookupSymbolIn(module, launch.getKernelAttr());
  if (!kernel)
    return launch.emitOpError() << "expected its kernel " << launch.getKernel()
                                << " to be defined beside it";
  auto func = dyn_cast<LLVM::LLVMFuncOp>(kernel);
  if (!func)
    return launch.emitOpError()
           << "expected " << launch.getKernel() << " to be an llvm.func, got "
           << kernel->getName()
           << "; is this module the result of --fa2-pipeline?";
  if (func.getNumArguments() != launch.getParameters().size())
    return launch.emitOpError()
           << "expected a description for each of the kernel's "
           << func.getNumArguments() << " parameters, got "
           << launch.getParameters().size();
  return success();
}

/// All but the workspace, which is each alternative's own.
static SmallVector<ArgumentAttr> givenArguments(LaunchOp launch) {
  return llvm::filter_to_vector(
      launch.getArguments().getAsRange<ArgumentAttr>(),
      [](ArgumentAttr arg) { return arg.getDirection() != "workspace"; });
}

FailureOr<SmallVector<LaunchOp>> fa2::findLaunches(ModuleOp module) {
  auto launches = llvm::to_vector(module.getOps<LaunchOp>());
  if (launches.empty())
    return module.emitError() << "expected a fa2gpu.launch; is this module the "
                                 "result of --fa2-pipeline?";
  for (LaunchOp launch : launches) {
    LaunchOp first = launches.front();
    for (auto [mine, others] :
         llvm::zip(givenArguments(launch), givenArguments(first)))
      if (mine != others && mine.getName() == others.getName())
        return launch.emitOpError()
               << "expected the schedules of one program to ask the same of "
                  "argument '"
               << mine.getName() << "' (preload = both asks for a scale that "
               << "is not 0), got " << mine << " beside " << others;
    if (launch.getSpec() != first.getSpec() ||
        givenArguments(launch) != givenArguments(first) ||
        launch.getKernel().getRootReference() !=
            first.getKernel().getRootReference())
      return launch.emitOpError()
             << "expected the launches of one program, got one of pass '"
             << launch.getSpec().getPass() << "' beside one of '"
             << first.getSpec().getPass() << "'";
    if (failed(checkLaunch(module, launch)))
      return failure();
  }
  return launches;
}

LaunchOp fa2::mainLaunch(ArrayRef<LaunchOp> launches) {
  for (LaunchOp launch : launches)
    if (launch.getMain())
      return launch;
  return launches.front();
}

std::unique_ptr<llvm::Module> fa2::translateToLLVMIR(ModuleOp module,
                                                     llvm::LLVMContext &context,
                                                     bool verify) {
  auto launches = findLaunches(module);
  if (failed(launches))
    return nullptr;
  LaunchOp launch = mainLaunch(*launches);
  auto gpuModule = SymbolTable::lookupNearestSymbolFrom<mlir::gpu::GPUModuleOp>(
      launch, launch.getKernel().getRootReference());
  if (!gpuModule) {
    launch.emitOpError("expected its kernel to be in a gpu.module");
    return nullptr;
  }
  // An op that has no translation would be reported by name, but only after
  // others: llvm and nvvm are all that may be left.
  WalkResult walk = gpuModule.walk([&](Operation *op) {
    StringRef dialect =
        op->getDialect() ? op->getDialect()->getNamespace() : "";
    if (op == gpuModule || dialect == "llvm" || dialect == "nvvm")
      return WalkResult::advance();
    op->emitError() << "'" << op->getName()
                    << "' is left where only llvm and nvvm operations can be "
                       "translated; is this module the result of "
                       "--fa2-pipeline?";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return nullptr;
  return translateModuleToLLVMIR(gpuModule, context,
                                 launch.getKernel().getLeafReference(),
                                 /*disableVerification=*/!verify);
}

FailureOr<std::string> fa2::translateToPtx(ModuleOp module) {
  llvm::LLVMContext context;
  auto manifest = writeManifest(module);
  if (failed(manifest))
    return failure();
  // What compiles it verifies it.
  std::unique_ptr<llvm::Module> llvmModule =
      translateToLLVMIR(module, context, /*verify=*/false);
  if (!llvmModule)
    return failure();
  LaunchOp launch = mainLaunch(*findLaunches(module));
  std::string error;
  const Target *target = lookupTarget(launch.getSchedule().getTarget(), error);
  auto ptx = compileToPtx(*llvmModule, *target, error);
  if (failed(ptx))
    return launch.emitOpError() << "cannot be compiled: " << error;

  std::string text;
  llvm::raw_string_ostream os(text);
  os << "// fa2-manifest-begin\n";
  for (StringRef line : llvm::split(*manifest, '\n'))
    os << "// " << line << "\n";
  os << "// fa2-manifest-end\n" << *ptx;
  return text;
}
