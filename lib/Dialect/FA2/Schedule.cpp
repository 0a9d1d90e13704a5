//===- Schedule.cpp - schedules, their constraints and #fa2.schedule ------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// What is derived
//===----------------------------------------------------------------------===//

int64_t fa2::warpsAlongGradQ(int64_t warps, int64_t blockQ) {
  int64_t n = warps;
  while (n > 1 && (blockQ % (16 * n) != 0 || warps % n != 0))
    --n;
  return n;
}

Schedule Schedule::derived() const {
  Schedule s = *this;
#define FA2_SCHEDULE_DERIVED(MEMBER, GETTER, NAME, RANGE, GROUP, SHOWN, BITS,  \
                             SEEN, DERIVED, HELP)                              \
  if (MEMBER == 0)                                                             \
    s.MEMBER = DERIVED;
#include "fa2/Dialect/FA2/ScheduleFields.def"
  return s;
}

int64_t Schedule::tilesOfSumTurn() const {
  return sumTurns ? sumTurns : sumsInOrder(dq) ? 4 : 0;
}

int64_t Schedule::slotsOf(StringRef tensor, bool inLoop) const {
  // What stays is forward's queries, and backward's keys and values.
  if (!inLoop && partition != Partition::Keys)
    return querySlots;
  int64_t slots = inLoop ? stages : 1;
  forEachScheduleField([&]<typename T>(const ScheduleField<T> &field) {
    StringRef name = field.name;
    if constexpr (std::is_same_v<T, int64_t>)
      if (name.consume_front("rings.") && name == tensor)
        slots = derived().*field.member;
  });
  return slots;
}

//===----------------------------------------------------------------------===//
// Constraints
//===----------------------------------------------------------------------===//

/// Of partition `keys`: scores are [block_kv, block_q] over key_warps x the
/// rest, dQ is [block_q, d] over dq_warps x the rest.
static std::string checkKeys(const Schedule &s) {
  for (auto [name, n] :
       {std::pair{"key_warps", s.keyWarps}, {"dq_warps", s.dqWarps}})
    if (n > 0 && s.warps % n != 0)
      return formatv("expected {0} to divide warps = {1}, got {2}", name,
                     s.warps, n);
  int64_t along = s.derived().keyWarps, across = s.warps / along;
  if (s.blockKV % (16 * along) != 0)
    return formatv("expected block_kv to be a multiple of 16 * {0} = {1} "
                   "because keys gives each warp whole rows of 16, got {2}",
                   s.keyWarps ? "key_warps" : "warps", 16 * along, s.blockKV);
  if (s.blockQ % (16 * across) != 0)
    return formatv("expected block_q to be a multiple of 16 * warps / "
                   "key_warps = {0}, got {1}",
                   16 * across, s.blockQ);
  if (s.dqWarps != 0 && s.blockQ % (16 * s.dqWarps) != 0)
    return formatv("expected block_q to be a multiple of 16 * dq_warps = {0}, "
                   "got {1}",
                   16 * s.dqWarps, s.blockQ);
  if ((s.blockQ & (s.blockQ - 1)) != 0)
    return formatv("expected block_q to be a power of 2 because dS is read "
                   "transposed, got {0}",
                   s.blockQ);
  return "";
}

std::string Schedule::check() const {
  ScheduleOverrides all;
  forEachScheduleField(
      [&](auto field) { all.*field.asked = this->*field.member; });
  if (std::string wrong = all.check(); !wrong.empty())
    return wrong;
  if (dq == GradQ::Deterministic)
    return "expected dq = ordered or recompute of a schedule, got "
           "deterministic, which is whichever of them is chosen";
  if (partition == Partition::Keys)
    return checkKeys(*this);
  if (keyWarps != 0 || dqWarps != 0)
    return formatv("expected partition keys because key_warps or dq_warps is "
                   "given, got {0}",
                   stringifyPartition(partition));
  bool rows = partition == Partition::SplitQ;
  int64_t split = rows ? blockQ : blockKV;
  if (split % (16 * warps) != 0)
    return formatv("expected {0} to be a multiple of 16 * warps = {1} because "
                   "{2} gives each warp whole rows of 16, got {3}",
                   rows ? "block_q" : "block_kv", 16 * warps,
                   stringifyPartition(partition), split);
  return "";
}

//===----------------------------------------------------------------------===//
// The attribute
//===----------------------------------------------------------------------===//

FailureOr<ScheduleAttr> Schedule::toAttr(MLIRContext *context, StringRef target,
                                         std::string &error) const {
  if (error = check(); !error.empty())
    return failure();
  return ScheduleAttr::get(context, target, *this);
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringRef target, Schedule fields) {
  if (std::string wrong = fields.check(); !wrong.empty())
    return emitError() << wrong;
  return success();
}

llvm::hash_code fa2::hash_value(const Schedule &s) {
  llvm::hash_code code(0);
  forEachScheduleField(
      [&](auto field) { code = llvm::hash_combine(code, s.*field.member); });
  return code;
}

/// A keyword, or an integer, as text. Keywords first: `true` is an integer too.
static ParseResult parseValue(AsmParser &p, StringRef name,
                              std::string &value) {
  if (succeeded(p.parseOptionalKeywordOrString(&value)))
    return success();
  int64_t n;
  OptionalParseResult number = p.parseOptionalInteger(n);
  if (!number.has_value())
    return p.emitError(p.getCurrentLocation(), "expected a value of ") << name;
  value = std::to_string(n);
  return *number;
}

Attribute ScheduleAttr::parse(AsmParser &p, Type) {
  llvm::SMLoc start = p.getCurrentLocation();
  std::string target;
  ScheduleOverrides given;
  auto parseField = [&]() -> ParseResult {
    llvm::SMLoc at = p.getCurrentLocation();
    StringRef name;
    std::string value;
    if (p.parseKeyword(&name) || p.parseEqual())
      return failure();
    if (name == "target")
      return p.parseString(&target);
    if (parseValue(p, name, value))
      return failure();
    if (std::string wrong = given.setField(name, value); !wrong.empty())
      return p.emitError(at, wrong);
    return success();
  };
  if (p.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseField,
                                " in a schedule"))
    return {};
  if (target.empty()) {
    p.emitError(start, "expected the schedule to have a target");
    return {};
  }
  return p.getChecked<ScheduleAttr>(start, p.getContext(), StringRef(target),
                                    given.applyTo(Schedule()));
}

void ScheduleAttr::print(AsmPrinter &p) const {
  p << "<target = \"" << getTarget() << "\"";
  forEachScheduleField([&](auto field) {
    if (field.shown == FieldShown::Always || !field.isDefault(getFields()))
      p << ", " << field.name << " = " << field.text(getFields().*field.member);
  });
  p << ">";
}
