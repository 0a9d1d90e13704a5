//===- ManifestProgram.cpp - a score program as JSON ----------------------===//

#include "ManifestProgram.h"

using namespace mlir;
using namespace fa2;
using llvm::json::OStream;

namespace {

/// Names of a program's values: those of its arguments, %0 and on of its steps.
std::vector<std::string> valueNames(ProgramAttr program) {
  std::vector<std::string> names{"score", "batch", "head", "row", "column"};
  for (StringAttr read : program.getReads())
    names.push_back(read.str());
  for (size_t i = 0; i < program.getSteps().size(); ++i)
    names.push_back("%" + std::to_string(i));
  return names;
}

/// JSON has no infinities, and its readers differ over -0.
void writeNumber(OStream &o, const llvm::APFloat &value) {
  if (value.isNaN())
    o.value("nan");
  else if (value.isInfinity())
    o.value(value.isNegative() ? "-inf" : "inf");
  else if (value.isNegZero())
    o.value("-0");
  else
    o.value(value.convertToDouble());
}

void writeValue(OStream &o, Attribute value) {
  if (auto predicate = dyn_cast<StringAttr>(value))
    return o.attribute("predicate", predicate.getValue());
  o.attributeBegin("value");
  if (auto real = dyn_cast<FloatAttr>(value))
    writeNumber(o, real.getValue());
  else if (auto truth = dyn_cast<BoolAttr>(value))
    o.value(truth.getValue());
  else
    o.value(cast<IntegerAttr>(value).getValue().getSExtValue());
  o.attributeEnd();
}

} // namespace

void fa2::writeProgram(OStream &json, ProgramAttr program) {
  std::vector<std::string> names = valueNames(program);
  json.attributeArray("reads", [&] {
    for (StringAttr read : program.getReads())
      json.value(read.getValue());
  });
  json.attributeArray("steps", [&] {
    size_t first = names.size() - program.getSteps().size();
    for (auto [i, step] : llvm::enumerate(program.getSteps()))
      writeLine(json, [&, i = i, step = step](OStream &o) {
        o.attribute("name", names[first + i]);
        o.attribute("op", step.getOp());
        if (Attribute value = step.getValue())
          writeValue(o, value);
        if (!step.getOperands().empty())
          o.attributeArray("of", [&] {
            for (int64_t operand : step.getOperands())
              o.value(names[operand]);
          });
        std::string type;
        llvm::raw_string_ostream(type) << step.getType();
        o.attribute("type", type);
      });
  });
  json.attribute("result", names[program.getResult()]);
}
