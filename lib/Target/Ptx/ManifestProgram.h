//===- ManifestProgram.h - a score program as JSON --------------*- C++ -*-===//
#ifndef FA2_TARGET_PTX_MANIFESTPROGRAM_H
#define FA2_TARGET_PTX_MANIFESTPROGRAM_H

#include "fa2/Dialect/FA2/FA2.h"

#include "llvm/Support/JSON.h"

namespace fa2 {

/// An object on one line, within an indented document.
template <typename Body> void writeLine(llvm::json::OStream &json, Body body) {
  std::string text;
  {
    llvm::raw_string_ostream os(text);
    llvm::json::OStream inner(os);
    inner.object([&] { body(inner); });
  }
  json.rawValue(text);
}

/// The fields of `specification.program` (docs/manifest.md).
void writeProgram(llvm::json::OStream &json, ProgramAttr program);

} // namespace fa2

#endif
