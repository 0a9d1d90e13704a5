//===- Target.cpp - the registry of targets, register budgets -------------===//

#include "fa2/Target/Target.h"
#include "Sm80/Sm80.h"
#include "Sm90/Sm90.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cstdlib>

using namespace fa2;

int64_t fa2::maxSlack(mlir::Type dtype) { return dtype.isBF16() ? 60 : 15; }

int64_t Target::registerBudget(int64_t threads, int64_t minBlocks) const {
  // Registers are handed out to a warp by 256, so to a thread by 8.
  int64_t share = limits().registersPerMultiprocessor / (threads * minBlocks);
  return std::min(limits().registersPerThread, share / 8 * 8);
}

llvm::ArrayRef<const Target *> fa2::allTargets() {
  static const auto all = [] {
    // sm_90a after sm_90, before what is newer.
    llvm::SmallVector<const Target *> list(sm80::mmaSyncTargets());
    auto newer = llvm::find_if(list, [](const Target *t) {
      return t->computeCapability() > sm90::target()->computeCapability();
    });
    list.insert(newer, sm90::target());
    return list;
  }();
  return all;
}

/// The number in "sm_90a", or -1.
static int archNumber(llvm::StringRef name) {
  int number = -1;
  if (!name.consume_front_insensitive("sm_") &&
      !name.consume_front_insensitive("sm"))
    return -1;
  name = name.take_while(llvm::isDigit);
  return name.getAsInteger(10, number) ? -1 : number;
}

const Target *fa2::lookupTarget(llvm::StringRef name, std::string &error) {
  llvm::SmallVector<llvm::StringRef> names;
  for (const Target *target : allTargets()) {
    if (target->name() == name)
      return target;
    names.push_back(target->name());
  }
  error = "unknown arch '" + name.str() + "'";
  if (int number = archNumber(name); number >= 0) {
    const Target *nearest =
        *std::min_element(allTargets().begin(), allTargets().end(),
                          [&](const Target *a, const Target *b) {
                            return std::abs(a->computeCapability() - number) <
                                   std::abs(b->computeCapability() - number);
                          });
    error += "; the nearest supported is " + nearest->name().str();
  }
  error += " (supported: " + llvm::join(names, ", ") + ")";
  return nullptr;
}

const Target *fa2::targetOf(KernelOp kernel) {
  std::string error;
  const Target *target = lookupTarget(kernel.getSchedule().getTarget(), error);
  if (!target)
    kernel.emitOpError() << error;
  return target;
}
