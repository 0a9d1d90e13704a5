//===- Checks.cpp - what code generation must not be given ----------------===//

#include "Checks.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace {
/// Intrinsics that are newer than sm_80 and PTX 7.0, by prefix. PTX ISA, the
/// "Target ISA Notes" of each instruction.
struct Newer {
  StringRef prefix;
  int computeCapability, ptxVersion;
  bool familySpecific;
};
constexpr Newer kNewer[] = {
    {"llvm.nvvm.wgmma.", 90, 80, true},
    {"llvm.nvvm.setmaxnreg.", 90, 80, true},
    {"llvm.nvvm.cp.async.bulk.", 90, 80, false},
    {"llvm.nvvm.fence.proxy.", 90, 80, false},
    {"llvm.nvvm.mbarrier.", 80, 70, false},
    {"llvm.nvvm.elect.sync", 90, 80, false},
    {"llvm.nvvm.stmatrix.", 90, 78, false},
    {"llvm.nvvm.cluster.", 90, 78, false},
    {"llvm.nvvm.barrier.cluster.", 90, 78, false},
    {"llvm.nvvm.mapa", 90, 78, false},
    {"llvm.nvvm.griddepcontrol.", 90, 78, false},
    {"llvm.nvvm.tcgen05.", 100, 86, true},
};

/// Parameters take at most 4352 bytes, 32764 from PTX 8.1 and sm_70 on (PTX
/// ISA, "Kernel Function Parameters").
constexpr uint64_t kParameterBytes = 4352;

/// What is wrong with the name of a function or variable, or an empty string
/// (PTX ISA, "Identifiers"; LLVM aborts at some others, and writes the rest).
std::string checkName(StringRef name) {
  auto follows = [](char c) { return isAlnum(c) || c == '_' || c == '$'; };
  StringRef rest = name;
  bool begins = rest.consume_front("_") || rest.consume_front("$")
                    ? !rest.empty()
                    : !rest.empty() && isAlpha(rest.front());
  if (begins && llvm::all_of(rest, follows))
    return "";
  std::string shown;
  raw_string_ostream os(shown);
  printEscapedString(name, os);
  return formatv("expected a name of letters, digits, _ and $ that begins with "
                 "no digit, as PTX has them; got '{0}'",
                 shown);
}

std::string checkCall(const CallBase &call, const fa2::Target &target) {
  if (call.isInlineAsm())
    return "";
  const Function *callee = call.getCalledFunction();
  if (!callee)
    return "an indirect call cannot be compiled into a kernel";
  StringRef name = callee->getName();
  if (!callee->isIntrinsic())
    return callee->isDeclaration()
               ? formatv("'{0}' is called but not defined in the module", name)
                     .str()
               : "";
  for (const Newer &n : kNewer) {
    if (!name.starts_with(n.prefix))
      continue;
    if (target.computeCapability() < n.computeCapability ||
        target.ptx().isaVersion < n.ptxVersion ||
        (n.familySpecific && !target.isFamilySpecific()))
      return formatv("'{0}' needs sm_{1}{2} and PTX {3}.{4}, the target is "
                     "{5} with PTX {6}.{7}",
                     name, n.computeCapability, n.familySpecific ? "a" : "",
                     n.ptxVersion / 10, n.ptxVersion % 10, target.name(),
                     target.ptx().isaVersion / 10,
                     target.ptx().isaVersion % 10);
  }
  if (callee->isTargetIntrinsic() && !name.starts_with("llvm.nvvm."))
    return formatv("'{0}' is an intrinsic of another target", name);
  // What the backend would turn into a call of a library that PTX has not.
  if (const auto *intrinsic = dyn_cast<IntrinsicInst>(&call))
    switch (intrinsic->getIntrinsicID()) {
    case Intrinsic::exp:
    case Intrinsic::log:
    case Intrinsic::log10:
    case Intrinsic::pow:
    case Intrinsic::powi:
    case Intrinsic::tan:
    case Intrinsic::asin:
    case Intrinsic::acos:
    case Intrinsic::atan:
    case Intrinsic::sinh:
    case Intrinsic::cosh:
    case Intrinsic::exp10:
    case Intrinsic::ldexp:
    case Intrinsic::frexp:
      return formatv("'{0}' has no instruction in PTX", name);
    default:
      break;
    }
  return "";
}
} // namespace

std::string fa2::checkForCodeGeneration(const Module &module,
                                        const Target &target) {
  // Code generation gives local ones names of its own.
  for (const GlobalValue &value : module.global_values())
    if (!value.hasLocalLinkage() && !value.getName().starts_with("llvm."))
      if (std::string wrong = checkName(value.getName()); !wrong.empty())
        return wrong;
  for (const Function &f : module) {
    if (f.getCallingConv() == CallingConv::PTX_Kernel) {
      uint64_t bytes = 0;
      for (const Argument &a : f.args())
        bytes += module.getDataLayout().getTypeAllocSize(a.getType());
      if (bytes > kParameterBytes)
        return formatv("kernel '{0}' has {1} bytes of parameters of {2} that "
                       "PTX allows",
                       f.getName(), bytes, kParameterBytes);
    }
    for (const BasicBlock &block : f)
      for (const Instruction &inst : block) {
        if (isa<InvokeInst, LandingPadInst, ResumeInst, IndirectBrInst>(inst))
          return formatv("'{0}' cannot be compiled to PTX",
                         inst.getOpcodeName());
        if (const auto *alloca = dyn_cast<AllocaInst>(&inst);
            alloca && !alloca->isStaticAlloca())
          return "an alloca of dynamic size cannot be compiled to PTX";
        if (const auto *call = dyn_cast<CallBase>(&inst))
          if (std::string wrong = checkCall(*call, target); !wrong.empty())
            return formatv("in '{0}': {1}", f.getName(), wrong);
      }
  }
  return "";
}
