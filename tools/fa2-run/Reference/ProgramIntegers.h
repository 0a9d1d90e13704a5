//===- ProgramIntegers.h - operations on integers ---------------*- C++ -*-===//
//
// Integers of a program are held sign-extended; true is -1. Kernels compute
// them exactly: what may differ is a decision that rounding turns, or what has
// no value (a division by zero, say). Both are doubtful.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_PROGRAMINTEGERS_H
#define FA2RUN_REFERENCE_PROGRAMINTEGERS_H

#include "Reference/ProgramNumbers.h"

namespace fa2run {

/// An integer that may be another one in a kernel, or undefined.
struct Whole {
  int64_t value = 0;
  bool doubtful = false;
};

inline int64_t wrap(int64_t x, int bits) {
  int unused = 64 - bits;
  return int64_t(uint64_t(x) << unused) >> unused;
}
inline uint64_t asUnsigned(int64_t x, int bits) {
  return bits == 64 ? uint64_t(x) : uint64_t(x) & ((uint64_t(1) << bits) - 1);
}

template <typename T>
bool compare(const std::string &relation, const T &a, const T &b) {
  if (relation == "eq")
    return a == b;
  if (relation == "ne")
    return a != b;
  if (relation == "lt")
    return a < b;
  if (relation == "le")
    return a <= b;
  return relation == "gt" ? a > b : a >= b;
}

inline Whole compareReals(const std::string &predicate, Number a, Number b) {
  if (predicate == "true" || predicate == "false")
    return {predicate == "true" ? -1 : 0, false};
  bool unordered = std::isnan(a.value) || std::isnan(b.value);
  if (predicate == "ord" || predicate == "uno")
    return {unordered == (predicate == "uno") ? -1 : 0, false};
  if (unordered)
    return {predicate[0] == 'u' ? -1 : 0, false};
  bool holds = compare(predicate.substr(1), a.value, b.value);
  double off = a.error + b.error;
  bool doubtful = off > 0 && !(std::abs(a.value - b.value) > off);
  return {holds ? -1 : 0, doubtful};
}

inline Whole compareWholes(const std::string &predicate, Whole a, Whole b,
                           int bits) {
  std::string relation =
      predicate.size() == 3 ? predicate.substr(1) : predicate;
  bool holds = predicate[0] == 'u'
                   ? compare(relation, asUnsigned(a.value, bits),
                             asUnsigned(b.value, bits))
                   : compare(relation, a.value, b.value);
  return {holds ? -1 : 0, a.doubtful || b.doubtful};
}

/// The quotient rounded down (towards zero where `truncated`) or up.
inline int64_t quotient(ScoreProgram::Op op, int64_t a, int64_t b) {
  if (b == -1) // of the least number there is none
    return int64_t(0 - uint64_t(a));
  int64_t q = a / b;
  bool inexact = a % b != 0, negative = (a < 0) != (b < 0);
  if (op == ScoreProgram::Op::FloorDivSI && inexact && negative)
    --q;
  if (op == ScoreProgram::Op::CeilDivSI && inexact && !negative)
    ++q;
  return q;
}

inline Whole divideWholes(ScoreProgram::Op op, int64_t a, int64_t b, int bits) {
  if (b == 0)
    return {0, true};
  uint64_t ua = asUnsigned(a, bits), ub = asUnsigned(b, bits);
  switch (op) {
  case ScoreProgram::Op::DivUI:
    return {int64_t(ua / ub), false};
  case ScoreProgram::Op::CeilDivUI:
    return {int64_t(ua / ub + (ua % ub != 0)), false};
  case ScoreProgram::Op::RemUI:
    return {int64_t(ua % ub), false};
  case ScoreProgram::Op::RemSI:
    return {b == -1 ? 0 : a % b, false};
  default:
    return {quotient(op, a, b), false};
  }
}

inline Whole shift(ScoreProgram::Op op, int64_t a, int64_t by, int bits) {
  if (by < 0 || by >= bits)
    return {0, true};
  if (op == ScoreProgram::Op::ShLI)
    return {int64_t(uint64_t(a) << by), false};
  return {op == ScoreProgram::Op::ShRSI ? a >> by
                                        : int64_t(asUnsigned(a, bits) >> by),
          false};
}

inline int64_t combine(ScoreProgram::Op op, int64_t a, int64_t b, int bits) {
  uint64_t ua = asUnsigned(a, bits), ub = asUnsigned(b, bits);
  switch (op) {
  case ScoreProgram::Op::AddI:
    return int64_t(uint64_t(a) + uint64_t(b));
  case ScoreProgram::Op::SubI:
    return int64_t(uint64_t(a) - uint64_t(b));
  case ScoreProgram::Op::MulI:
    return int64_t(uint64_t(a) * uint64_t(b));
  case ScoreProgram::Op::AndI:
    return a & b;
  case ScoreProgram::Op::OrI:
    return a | b;
  case ScoreProgram::Op::XOrI:
    return a ^ b;
  case ScoreProgram::Op::MaxSI:
    return std::max(a, b);
  case ScoreProgram::Op::MinSI:
    return std::min(a, b);
  case ScoreProgram::Op::MaxUI:
    return ua > ub ? a : b;
  default:
    return ua < ub ? a : b;
  }
}

inline Whole onWholes(ScoreProgram::Op op, Whole a, Whole b, int bits) {
  Whole result;
  if (op >= ScoreProgram::Op::DivSI && op <= ScoreProgram::Op::RemUI)
    result = divideWholes(op, a.value, b.value, bits);
  else if (op >= ScoreProgram::Op::ShLI && op <= ScoreProgram::Op::ShRUI)
    result = shift(op, a.value, b.value, bits);
  else
    result.value = combine(op, a.value, b.value, bits);
  result.value = wrap(result.value, bits);
  result.doubtful |= a.doubtful || b.doubtful;
  return result;
}

inline Number toReal(Whole a, int bits, bool isUnsigned) {
  double value = isUnsigned ? double(asUnsigned(a.value, bits))
                            : double(wrap(a.value, bits));
  Number n = rounded(value, 0, 0, 0);
  if (a.doubtful)
    n.error = kUnknown;
  return n;
}

inline Whole toWhole(Number a, int bits, bool isUnsigned) {
  double least = isUnsigned ? 0 : -std::ldexp(1.0, bits - 1);
  double end = std::ldexp(1.0, isUnsigned ? bits : bits - 1);
  double low = std::trunc(a.value - a.error),
         high = std::trunc(a.value + a.error);
  if (!(low >= least && high < end))
    return {0, true};
  double value = std::trunc(a.value);
  return {wrap(isUnsigned ? int64_t(uint64_t(value)) : int64_t(value), bits),
          low != high};
}

} // namespace fa2run

#endif // FA2RUN_REFERENCE_PROGRAMINTEGERS_H
