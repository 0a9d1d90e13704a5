//===- OtherTarget.cpp - the target that a user may have meant ------------===//

#include "fa2/Target/OtherTarget.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/FormatVariadic.h"

using namespace fa2;

std::string fa2::otherTargetNote(llvm::StringRef arch) {
  std::string error;
  const Target *asked = lookupTarget(arch, error);
  if (!asked || asked->asynchronousMatmul())
    return "";
  for (const Target *other : allTargets())
    if (other->isFamilySpecific() && other->asynchronousMatmul() &&
        other->computeCapability() == asked->computeCapability())
      return llvm::formatv(
          "{0} has wgmma and tensor maps, which {1} does not use: it is the "
          "faster on these GPUs, and runs on them alone; code for {1} runs on "
          "later GPUs too",
          other->name(), arch);
  return "";
}
