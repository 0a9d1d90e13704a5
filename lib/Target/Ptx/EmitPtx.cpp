//===- EmitPtx.cpp - LLVM IR to PTX text ----------------------------------===//

#include "Checks.h"
#include "fa2/Target/Ptx/Ptx.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/NVPTXAddrSpace.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace fa2;

static std::unique_ptr<llvm::TargetMachine>
createTargetMachine(const Target &target, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *llvmTarget =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!llvmTarget)
    return nullptr;
  // Multiplications and additions stay as they are: what is to be fused is
  // an fma in the IR already, so results do not hang on the optimizer's mood.
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::string features = "+ptx" + std::to_string(target.ptx().isaVersion);
  return std::unique_ptr<llvm::TargetMachine>(llvmTarget->createTargetMachine(
      triple, target.name(), features, options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

/// Inline assembly may hold barriers and warp-wide instructions; without the
/// mark, code generation could sink or duplicate it under a condition.
static void markInlineAsmConvergent(llvm::Module &module) {
  for (llvm::Function &f : module)
    for (llvm::Instruction &inst : llvm::instructions(f))
      if (auto *call = llvm::dyn_cast<llvm::CallBase>(&inst);
          call && call->isInlineAsm())
        call->setConvergent();
}

namespace {
/// Without a handler, an error of the backend ends the process.
struct CollectErrors : llvm::DiagnosticHandler {
  explicit CollectErrors(std::string &errors) : errors(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream os(errors);
      llvm::DiagnosticPrinterRawOStream printer(os);
      os << (errors.empty() ? "" : "; ");
      info.print(printer);
    }
    return true;
  }
  std::string &errors;
};

/// Keeps passes of LLVM's code generation away from functions that are as good
/// without them.
///
/// Straight-line strength reduction ("slsr") takes half a second a kernel, nine
/// tenths of all, where many addresses are computed from one base, as by
/// kernels that read a bias element by element; the machine code is as long
/// without it. Of the grid's other kernels none has more than 12.
///
/// Where products read shared memory by descriptors, few addresses are left to
/// reduce, and that takes up to a fifth of a compilation with
/// "nary-reassociate", which finds what "slsr" leaves. Kernels of ldmatrix lose
/// 2 percent without.
///
/// Equal values were found before translation. "early-cse" and "gvn" hardly
/// find more in functions that load nothing, such as forward's on Hopper, nor
/// among loads of shared memory there, which barriers divide
/// (docs/decisions/2026-11-28-compilations.md).
class SkipIdlePasses : public llvm::OptPassGate {
public:
  SkipIdlePasses(const llvm::Module &module, const Target &target)
      : byDescriptors(target.asynchronousMatmul()) {
    for (const llvm::Function &f : module) {
      std::string name = ("function (" + f.getName() + ")").str();
      if (mostAddressesOfABase(f) > kMostAddresses)
        manyAddresses.insert(name);
      if (llvm::none_of(llvm::instructions(f),
                        [&](const llvm::Instruction &i) { return isLoad(i); }))
        withoutLoads.insert(name);
    }
  }
  bool isEnabled() const override { return true; }
  bool shouldRunPass(llvm::StringRef pass,
                     llvm::StringRef description) const override {
    if (pass == "nary-reassociate")
      return !byDescriptors;
    if (pass == "slsr")
      return !byDescriptors && !manyAddresses.contains(description);
    if (pass == "early-cse" || pass == "gvn")
      return !withoutLoads.contains(description);
    return true;
  }

private:
  static constexpr unsigned kMostAddresses = 24;

  /// Volatile ones are never equal; those under a predicate are assembly.
  bool isLoad(const llvm::Instruction &inst) const {
    if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&inst))
      return !load->isVolatile() &&
             !(byDescriptors && load->getPointerAddressSpace() ==
                                    llvm::NVPTXAS::ADDRESS_SPACE_SHARED);
    auto *call = llvm::dyn_cast<llvm::CallBase>(&inst);
    auto *code = call
                     ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand())
                     : nullptr;
    return code && code->getAsmString().contains("ld.global");
  }

  static unsigned mostAddressesOfABase(const llvm::Function &f) {
    llvm::DenseMap<const llvm::Value *, unsigned> addresses;
    unsigned most = 0;
    for (const llvm::Instruction &inst : llvm::instructions(f))
      if (auto *gep = llvm::dyn_cast<llvm::GetElementPtrInst>(&inst);
          gep && !gep->hasAllConstantIndices())
        most = std::max(most, ++addresses[gep->getPointerOperand()]);
    return most;
  }

  bool byDescriptors;
  llvm::StringSet<> manyAddresses, withoutLoads;
};
} // namespace

FailureOr<std::string> fa2::compileToPtx(llvm::Module &module,
                                         const Target &target,
                                         std::string &error) {
  auto machine = createTargetMachine(target, error);
  if (!machine)
    return failure();
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  llvm::raw_string_ostream verifierText(error);
  if (llvm::verifyModule(module, &verifierText))
    return failure();
  markInlineAsmConvergent(module);
  error = checkForCodeGeneration(module, target);
  if (!error.empty())
    return failure();

  llvm::SmallString<0> text;
  llvm::raw_svector_ostream os(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, os, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile)) {
    error = "LLVM's NVPTX backend cannot write assembly";
    return failure();
  }
  llvm::LLVMContext &context = module.getContext();
  auto before = context.getDiagnosticHandler();
  context.setDiagnosticHandler(std::make_unique<CollectErrors>(error));
  llvm::OptPassGate &usual = context.getOptPassGate();
  SkipIdlePasses gate(module, target);
  context.setOptPassGate(gate);
  passes.run(module);
  context.setOptPassGate(usual);
  context.setDiagnosticHandler(std::move(before));
  if (!error.empty())
    return failure();
  return text.str().str();
}
