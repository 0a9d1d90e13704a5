//===- KeyFlags.cpp - a specification from the command line ---------------===//

#include "KeyFlags.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cl = llvm::cl;
using namespace fa2;
using Key = Specification::Key;

KeyFlags::KeyFlags(cl::OptionCategory &kernel, cl::OptionCategory &schedule,
                   cl::OptionCategory &output) {
  for (const Key &key : Specification::keys()) {
    std::string flag = key.name.str();
    llvm::replace(flag, '_', '-');
    names.push_back(std::make_unique<std::string>(flag));
    bool isKernel = key.of == Key::Kernel || key.of == Key::Operation;
    cl::OptionCategory &category = isKernel                ? kernel
                                   : key.of == Key::Output ? output
                                                           : schedule;
    flags.push_back(std::make_unique<cl::opt<std::string>>(
        llvm::StringRef(*names.back()), cl::desc(key.help),
        cl::value_desc("value"), cl::cat(category)));
  }
}

std::string KeyFlags::apply(Specification &spec, bool file) const {
  for (auto [key, flag] : llvm::zip(Specification::keys(), flags)) {
    if (flag->getNumOccurrences() == 0)
      continue;
    if (file && key.of == Key::Operation)
      return llvm::formatv("expected no --{0} beside a file, whose operation "
                           "says it, got '{1}'",
                           flag->ArgStr, flag->getValue());
    if (std::string wrong = spec.set(key.name, *flag); !wrong.empty())
      return wrong;
  }
  return "";
}
