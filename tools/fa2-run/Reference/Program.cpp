//===- Program.cpp - score programs on the host ---------------------------===//

#include "Reference/Program.h"

#include "Failure.h"
#include "Reference/ProgramIntegers.h"

#include <bit>

namespace fa2run {

using Op = ScoreProgram::Op;
using Type = ScoreProgram::Type;
using Step = ScoreProgram::Step;

namespace {

/// A value for each score of a line.
struct Values {
  Type type;
  std::vector<Number> reals;
  std::vector<Whole> wholes;

  void resize(Type of, size_t count) {
    type = of;
    of.real ? reals.resize(count) : wholes.resize(count);
  }
};

Number onReals(Op op, Number a, Number b) {
  switch (op) {
  case Op::AddF:
    return add(a, b);
  case Op::SubF:
    return add(a, negate(b));
  case Op::MulF:
    return multiply(a, b);
  case Op::DivF:
    return divide(a, b);
  case Op::MaximumF:
    return largest(a, b);
  case Op::MinimumF:
    return negate(largest(negate(a), negate(b)));
  case Op::NegF:
    return negate(a);
  case Op::AbsF:
    return absolute(a);
  case Op::Exp:
    return power(a, std::numbers::log2e);
  case Op::Exp2:
    return power(a, 1);
  case Op::Tanh:
    return hyperbolicTangent(a);
  case Op::ApproximateTanh:
    return hyperbolicTangent(a, 0x1p-11); // of tanh.approx
  default:                                // extf
    return a;
  }
}

/// Element (j) of an operand at each key's indices, which are brought into the
/// extents; the one element of an extent of 1 stands for all.
class Reading {
public:
  Reading(const Operand &operand, std::vector<const Values *> indices)
      : operand(operand), indices(std::move(indices)) {}
  double at(size_t j, bool &doubtful) const {
    size_t offset = element(j, doubtful);
    return operand.elements.empty() ? 0 : operand.elements[offset];
  }
  size_t element(size_t j, bool &doubtful) const {
    size_t offset = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      Whole index = indices[d]->wholes[j];
      doubtful |= index.doubtful;
      int64_t extent = operand.shape[d];
      offset = offset * size_t(extent) +
               size_t(std::clamp<int64_t>(index.value, 0, extent - 1));
    }
    return offset;
  }

private:
  const Operand &operand;
  std::vector<const Values *> indices;
};

Reading readingOf(const Step &step, const Operands &operands,
                  const std::vector<Values> &values) {
  std::vector<const Values *> indices;
  for (size_t number : step.of)
    indices.push_back(&values[number]);
  return Reading(operands.at(step.operand), indices);
}

void runStep(const Step &step, const Operands &operands,
             const std::vector<Values> &values, Values &out, size_t count) {
  auto of = [&](size_t i) -> const Values & { return values[step.of[i]]; };
  out.resize(step.type, count);
  auto eachReal = [&](auto body) {
    for (size_t j = 0; j < count; ++j)
      out.reals[j] = body(j);
  };
  auto eachWhole = [&](auto body) {
    for (size_t j = 0; j < count; ++j)
      out.wholes[j] = body(j);
  };
  switch (step.op) {
  case Op::Constant:
    if (step.type.real)
      return eachReal([&](size_t) { return Number{step.real, 0, 0, 0}; });
    return eachWhole([&](size_t) { return Whole{step.whole, false}; });
  case Op::Extract: {
    Reading reading = readingOf(step, operands, values);
    for (size_t j = 0; j < count; ++j) {
      bool doubtful = false;
      double x = reading.at(j, doubtful);
      if (step.type.real)
        out.reals[j] = {x, doubtful ? kUnknown : 0, 0, 0};
      else
        out.wholes[j] = {int64_t(x), doubtful};
    }
    return;
  }
  case Op::CmpF:
    return eachWhole([&](size_t j) {
      return compareReals(step.predicate, of(0).reals[j], of(1).reals[j]);
    });
  case Op::CmpI:
    return eachWhole([&](size_t j) {
      return compareWholes(step.predicate, of(0).wholes[j], of(1).wholes[j],
                           of(0).type.bits);
    });
  case Op::Select:
    for (size_t j = 0; j < count; ++j) {
      Whole c = of(0).wholes[j];
      const Values &taken = of(c.value ? 1 : 2), &other = of(c.value ? 2 : 1);
      if (!step.type.real) {
        Whole x = taken.wholes[j];
        x.doubtful |= c.doubtful && x.value != other.wholes[j].value;
        out.wholes[j] = x;
      } else {
        out.reals[j] = c.doubtful ? either(taken.reals[j], other.reals[j])
                                  : taken.reals[j];
      }
    }
    return;
  case Op::Resize:
    return eachWhole([&](size_t j) {
      Whole a = of(0).wholes[j];
      return Whole{wrap(a.value, step.type.bits), a.doubtful};
    });
  case Op::ResizeU:
    return eachWhole([&](size_t j) {
      Whole a = of(0).wholes[j];
      uint64_t x = asUnsigned(a.value, of(0).type.bits);
      return Whole{wrap(int64_t(x), step.type.bits), a.doubtful};
    });
  case Op::SIToFP:
  case Op::UIToFP:
    return eachReal([&](size_t j) {
      return toReal(of(0).wholes[j], of(0).type.bits, step.op == Op::UIToFP);
    });
  case Op::FPToSI:
  case Op::FPToUI:
    return eachWhole([&](size_t j) {
      return toWhole(of(0).reals[j], step.type.bits, step.op == Op::FPToUI);
    });
  case Op::Bitcast:
    if (step.type.real == of(0).type.real) {
      out = of(0);
      return;
    }
    if (step.type.real)
      return eachReal([&](size_t j) {
        Whole a = of(0).wholes[j];
        return Number{double(std::bit_cast<float>(uint32_t(a.value))),
                      a.doubtful ? kUnknown : 0, 0, 0};
      });
    return eachWhole([&](size_t j) {
      Number a = of(0).reals[j];
      return Whole{std::bit_cast<int32_t>(float(a.value)), a.error > 0};
    });
  default:
    break;
  }
  size_t second = step.of.size() - 1;
  if (step.type.real)
    return eachReal([&](size_t j) {
      return onReals(step.op, of(0).reals[j], of(second).reals[j]);
    });
  return eachWhole([&](size_t j) {
    return onWholes(step.op, of(0).wholes[j], of(second).wholes[j],
                    step.type.bits);
  });
}

} // namespace

void ScoreProgram::checkOperands(
    const std::map<std::string, size_t> &ranks) const {
  for (const Step &step : steps)
    if (step.op == Op::Extract && ranks.at(step.operand) != step.of.size())
      refuse("the manifest's program reads '{}' with {} indices, but the "
             "argument has {} dimensions",
             step.operand, step.of.size(), ranks.at(step.operand));
  for (size_t i = 0; i < operandNames.size(); ++i)
    for (const Step &step : steps)
      if (ranks.at(operandNames[i]) > 0 &&
          std::find(step.of.begin(), step.of.end(), 5 + i) != step.of.end())
        refuse("the manifest's program takes '{}' for a number, but the "
               "argument is a tensor",
               operandNames[i]);
}

void ScoreProgram::apply(const ProgramLine &line,
                         std::vector<Number> &scores) const {
  scores = run(line, std::move(scores), 0, nullptr);
}

void ScoreProgram::applyBy(size_t place, const ProgramLine &line,
                           std::vector<Number> &scores,
                           std::vector<size_t> &elements) const {
  elements.assign(scores.size(), 0);
  scores = run(line, std::move(scores), place, &elements);
}

std::vector<size_t> ScoreProgram::placesOf(const std::string &operand) const {
  std::vector<size_t> places;
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].operand == operand)
      places.push_back(5 + operandNames.size() + i);
  for (size_t i = 0; places.empty() && i < operandNames.size(); ++i)
    if (operandNames[i] == operand) // a scalar
      places.push_back(5 + i);
  return places;
}

std::vector<Number> ScoreProgram::run(const ProgramLine &line,
                                      std::vector<Number> scores, size_t by,
                                      std::vector<size_t> *elements) const {
  size_t count = scores.size(), next = 5;
  std::vector<Values> values(5 + operandNames.size() + steps.size());
  auto derive = [&](size_t number) {
    for (Number &x : values[number].reals)
      x.slope = number == by ? 1 : 0;
  };
  values[0].type = Type{};
  values[0].reals = std::move(scores);
  derive(0);
  const int64_t coordinates[] = {line.batch, line.head, line.row, line.column};
  const size_t along = line.alongColumn ? 2 : 3;
  for (size_t i = 0; i < 4; ++i) {
    values[1 + i].resize({false, 32}, count);
    for (size_t e = 0; e < count; ++e)
      values[1 + i].wholes[e].value =
          coordinates[i] + (i == along ? int64_t(e) : 0);
  }
  static const Operands none;
  const Operands &operands = line.operands ? *line.operands : none;
  for (const std::string &name : operandNames) {
    size_t number = next++;
    Values &to = values[number];
    const Operand &operand = operands.at(name);
    if (!operand.shape.empty())
      continue; // read by index
    double x = operand.elements.at(0);
    to.reals.assign(count, {x, 0, 0, 0});
    to.wholes.assign(count, {int64_t(x), false});
    derive(number);
  }
  for (const Step &step : steps) {
    size_t number = next++;
    runStep(step, operands, values, values[number], count);
    if (number != by)
      continue;
    derive(number);
    Reading reading = readingOf(step, operands, values);
    bool doubtful = false; // which makes what is read unknown
    for (size_t j = 0; elements && j < count; ++j)
      (*elements)[j] = reading.element(j, doubtful);
  }
  return std::move(values[result].reals);
}

} // namespace fa2run
