//===- ProgramReader.cpp - score programs from the manifest's JSON --------===//

#include "Failure.h"
#include "Reference/ProgramNumbers.h"

#include <optional>
#include <set>

namespace fa2run {

using Json = nlohmann::json;
using Op = ScoreProgram::Op;
using Type = ScoreProgram::Type;
using Step = ScoreProgram::Step;

namespace {

constexpr const char *kArguments[] = {"score", "batch", "head", "row",
                                      "column"};

struct Known {
  Op op;
  size_t operands;
};

const std::map<std::string, Known> &knownOperations() {
  static const std::map<std::string, Known> known = {
      {"arith.constant", {Op::Constant, 0}},
      {"tensor.extract", {Op::Extract, 0}},
      {"arith.addf", {Op::AddF, 2}},
      {"arith.subf", {Op::SubF, 2}},
      {"arith.mulf", {Op::MulF, 2}},
      {"arith.divf", {Op::DivF, 2}},
      {"arith.maximumf", {Op::MaximumF, 2}},
      {"arith.minimumf", {Op::MinimumF, 2}},
      {"arith.negf", {Op::NegF, 1}},
      {"math.absf", {Op::AbsF, 1}},
      {"math.exp", {Op::Exp, 1}},
      {"math.exp2", {Op::Exp2, 1}},
      {"math.tanh", {Op::Tanh, 1}},
      {"math.tanh fastmath<afn>", {Op::ApproximateTanh, 1}},
      {"arith.extf", {Op::ExtF, 1}},
      {"arith.cmpf", {Op::CmpF, 2}},
      {"arith.cmpi", {Op::CmpI, 2}},
      {"arith.select", {Op::Select, 3}},
      {"arith.addi", {Op::AddI, 2}},
      {"arith.subi", {Op::SubI, 2}},
      {"arith.muli", {Op::MulI, 2}},
      {"arith.divsi", {Op::DivSI, 2}},
      {"arith.divui", {Op::DivUI, 2}},
      {"arith.ceildivsi", {Op::CeilDivSI, 2}},
      {"arith.ceildivui", {Op::CeilDivUI, 2}},
      {"arith.floordivsi", {Op::FloorDivSI, 2}},
      {"arith.remsi", {Op::RemSI, 2}},
      {"arith.remui", {Op::RemUI, 2}},
      {"arith.andi", {Op::AndI, 2}},
      {"arith.ori", {Op::OrI, 2}},
      {"arith.xori", {Op::XOrI, 2}},
      {"arith.shli", {Op::ShLI, 2}},
      {"arith.shrsi", {Op::ShRSI, 2}},
      {"arith.shrui", {Op::ShRUI, 2}},
      {"arith.maxsi", {Op::MaxSI, 2}},
      {"arith.minsi", {Op::MinSI, 2}},
      {"arith.maxui", {Op::MaxUI, 2}},
      {"arith.minui", {Op::MinUI, 2}},
      {"arith.trunci", {Op::Resize, 1}},
      {"arith.extsi", {Op::Resize, 1}},
      {"arith.index_cast", {Op::Resize, 1}},
      {"arith.extui", {Op::ResizeU, 1}},
      {"arith.index_castui", {Op::ResizeU, 1}},
      {"arith.sitofp", {Op::SIToFP, 1}},
      {"arith.uitofp", {Op::UIToFP, 1}},
      {"arith.fptosi", {Op::FPToSI, 1}},
      {"arith.fptoui", {Op::FPToUI, 1}},
      {"arith.bitcast", {Op::Bitcast, 1}}};
  return known;
}

std::optional<Type> typeOf(const std::string &text) {
  if (text == "f32" || text == "bf16" || text == "f16")
    return Type{true, 32};
  if (text == "index")
    return Type{false, 32};
  int bits = 0;
  if (text.size() > 1 && text.size() < 4 && text[0] == 'i')
    for (char c : text.substr(1))
      bits = c >= '0' && c <= '9' ? 10 * bits + (c - '0') : 99;
  if (bits < 1 || bits > 64)
    return std::nullopt;
  return Type{false, bits};
}

/// Reads steps one after the other; what is wrong is said with its number.
class Reader {
public:
  explicit Reader(const Json &program) : program(program) {}

  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format,
                          Args &&...args) const {
    refuse("the manifest's program{}: {}", place,
           fmt::format(format, std::forward<Args>(args)...));
  }

  const Json &field(const Json &object, const char *name) const {
    if (!object.is_object() || !object.contains(name))
      wrong("expected a field '{}'", name);
    return object[name];
  }
  std::string text(const Json &object, const char *name) const {
    const Json &value = field(object, name);
    if (!value.is_string())
      wrong("expected '{}' to be a string, got {}", name, value.dump());
    return value;
  }
  const Json &array(const Json &object, const char *name) const {
    const Json &value = field(object, name);
    if (!value.is_array())
      wrong("expected '{}' to be an array, got {}", name, value.dump());
    return value;
  }

  void readNames(std::vector<std::string> &operands) {
    for (const char *name : kArguments)
      numbers.emplace(name, numbers.size());
    types.assign(5, Type{false, 32});
    types[0] = Type{};
    for (const Json &name : array(program, "reads")) {
      if (!name.is_string() ||
          !numbers.emplace(name.get<std::string>(), numbers.size()).second)
        wrong("expected names in 'reads', each once, got {}", name.dump());
      operands.push_back(name);
      types.push_back(Type{}); // of a scalar: the first step that has it knows
    }
    firstStep = numbers.size();
  }

  size_t valueNamed(const Json &name) const {
    auto found = name.is_string() ? numbers.find(name.get<std::string>())
                                  : numbers.end();
    if (found == numbers.end())
      wrong("no value before it is named {}", name.dump());
    return found->second;
  }

  Step readStep(const Json &json, size_t index) {
    place = fmt::format(", step {}", index);
    std::string op = text(json, "op"), type = text(json, "type");
    auto known = knownOperations().find(op);
    if (known == knownOperations().end())
      wrong("the operation '{}' is not known to this fa2-run", op);
    std::optional<Type> result = typeOf(type);
    if (!result)
      wrong("the type '{}' is not known to this fa2-run", type);
    Step step{known->second.op, *result, {}, 0, 0, "", ""};
    if (json.contains("of"))
      for (const Json &name : array(json, "of"))
        step.of.push_back(valueNamed(name));
    if (step.op == Op::Extract)
      readExtract(step);
    else if (step.of.size() != known->second.operands)
      wrong("'{}' takes {} operands, got {}", op, known->second.operands,
            step.of.size());
    if (step.op == Op::Constant)
      readConstant(step, field(json, "value"));
    if (step.op == Op::CmpF || step.op == Op::CmpI)
      readPredicate(step, text(json, "predicate"));
    checkTypes(step, op);
    if (!numbers.emplace(text(json, "name"), numbers.size()).second)
      wrong("the name {} is taken", field(json, "name").dump());
    types.push_back(step.type);
    return step;
  }

  void clearPlace() { place.clear(); }
  std::set<size_t> tensors; // operands that are read by index

private:
  void readExtract(Step &step) {
    if (step.of.empty() || step.of[0] < 5 || step.of[0] >= firstStep)
      wrong("expected a read of one of 'reads'");
    for (const auto &[name, number] : numbers)
      if (number == step.of[0])
        step.operand = name;
    tensors.insert(step.of[0]);
    step.of.erase(step.of.begin());
  }

  void readConstant(Step &step, const Json &value) {
    static const std::map<std::string, double> named = {{"inf", kUnknown},
                                                        {"-inf", -kUnknown},
                                                        {"nan", std::nan("")},
                                                        {"-0", -0.0}};
    if (step.type.real && value.is_number())
      step.real = value.get<double>();
    else if (step.type.real && value.is_string() &&
             named.count(value.get<std::string>()))
      step.real = named.at(value.get<std::string>());
    else if (!step.type.real && value.is_boolean())
      step.whole = value.get<bool>() ? -1 : 0;
    else if (!step.type.real && value.is_number_integer())
      step.whole = value.get<int64_t>();
    else
      wrong("expected the value of a constant, got {}", value.dump());
  }

  void readPredicate(Step &step, const std::string &predicate) {
    static const std::set<std::string> reals = {
        "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
        "ueq",   "ugt", "uge", "ult", "ule", "une", "uno", "true"};
    static const std::set<std::string> integers = {
        "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"};
    if (!(step.op == Op::CmpF ? reals : integers).count(predicate))
      wrong("the predicate '{}' is not known to this fa2-run", predicate);
    step.predicate = predicate;
  }

  /// Reals go to reals and integers to integers, but for conversions.
  void checkTypes(const Step &step, const std::string &op) const {
    auto expect = [&](size_t operand, bool real) {
      size_t number = step.of[operand];
      bool isExtra = number >= 5 && number < firstStep; // of any type
      if (!isExtra && types[number].real != real)
        wrong("expected operand {} of '{}' to be {}", operand, op,
              real ? "a float" : "an integer");
    };
    bool toReal = step.op == Op::SIToFP || step.op == Op::UIToFP;
    bool toWhole = step.op == Op::FPToSI || step.op == Op::FPToUI;
    bool compares = step.op == Op::CmpF || step.op == Op::CmpI;
    if (toReal != (toReal && step.type.real) || (toWhole && step.type.real) ||
        (compares && step.type.real))
      wrong("'{}' has no result of this type", op);
    for (size_t i = 0; i < step.of.size(); ++i) {
      if (step.op == Op::Extract || (step.op == Op::Select && i == 0) || toReal)
        expect(i, false);
      else if (toWhole || step.op == Op::CmpF)
        expect(i, true);
      else if (step.op == Op::CmpI)
        expect(i, false);
      else if (step.op != Op::Bitcast)
        expect(i, step.type.real);
    }
  }

  const Json &program;
  std::string place;
  std::map<std::string, size_t> numbers;
  std::vector<Type> types;
  size_t firstStep = 0;
};

} // namespace

ScoreProgram ScoreProgram::parse(const Json &json) {
  ScoreProgram program;
  Reader reader(json);
  reader.readNames(program.operandNames);
  const Json &steps = reader.array(json, "steps");
  if (steps.size() > 4096)
    reader.wrong("{} steps; at most 4096 are supported", steps.size());
  for (size_t i = 0; i < steps.size(); ++i)
    program.steps.push_back(reader.readStep(steps[i], i));
  reader.clearPlace();
  program.result = reader.valueNamed(reader.field(json, "result"));
  size_t first = 5 + program.operandNames.size();
  bool real =
      program.result == 0 || (program.result >= first &&
                              program.steps[program.result - first].type.real);
  if (!real)
    reader.wrong("expected the result to be a float of the program");
  return program;
}

} // namespace fa2run
