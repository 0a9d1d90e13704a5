//===- Bits.cpp - which schedules give a row the same bits ----------------===//
//
// A row's bits follow from the order in which its keys' parts are added and
// from when its maximum moves, which the row alone decides. How many rows a
// block takes, and how their tiles come and go, is not among that.
//
//===----------------------------------------------------------------------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;

/// Rows that stop at the same key tile: up to it the maximum is taken, tile by
/// tile; below it scores may be speculated.
static int64_t rowsOfOneLimit(const Schedule &s) {
  return s.groupLimits ? kGroupRows : s.blockQ;
}

bool fa2::sumsInOrder(GradQ dq) {
  return dq == GradQ::Ordered || dq == GradQ::Recompute;
}

std::vector<std::pair<llvm::StringRef, std::string>>
fa2::fieldsOfBits(const Schedule &s) {
  bool gradients = s.partition == Partition::Keys;
  bool ordered = s.dq == GradQ::Ordered;
  std::vector<std::pair<llvm::StringRef, std::string>> list;
  forEachScheduleField([&](auto field) {
    bool counts = false;
    switch (field.bits) {
    case FieldBits::Same:
      break;
    case FieldBits::Own:
      counts = gradients || field.group != FieldGroup::Gradient;
      break;
    case FieldBits::OfKeys:
      counts = !gradients || ordered;
      break;
    case FieldBits::Ordered:
      counts = gradients && ordered;
      break;
    }
    if (counts)
      list.emplace_back(field.name, field.text(s.*field.member));
  });
  if (gradients)
    list.emplace_back("dq", sumsInOrder(s.dq) ? stringifyGradQ(s.dq).str()
                                              : "in any order");
  // With which tile of queries sums of a tile of keys begin.
  if (s.rotateQueries)
    list.emplace_back("rotate_queries", llvm::formatv("{0} by {1}", s.blockQ,
                                                      s.blockKV * s.cluster));
  if (s.partition == Partition::SplitK)
    list.emplace_back("warps", std::to_string(s.warps));
  if (s.speculateMax > 0)
    list.emplace_back("group_limits", std::to_string(rowsOfOneLimit(s)));
  return list;
}

/// What decides about dQ alone, where it is summed in one order.
static bool isOfGradQ(StringRef name) {
  bool ofGradQ = name == "dq";
  forEachScheduleField([&](auto field) {
    ofGradQ |= name == field.name && (field.bits == FieldBits::OfKeys ||
                                      field.bits == FieldBits::Ordered);
  });
  return ofGradQ;
}

StringRef ScheduleAttr::differsInBits(ScheduleAttr otherAttr) const {
  if (getTarget() != otherAttr.getTarget())
    return "target";
  auto own = fieldsOfBits(getFields()),
       other = fieldsOfBits(otherAttr.getFields());
  // A dQ that is summed in any order has no bits that another could miss.
  if (getFields().partition == Partition::Keys &&
      !(sumsInOrder(getDq()) && sumsInOrder(otherAttr.getDq())))
    for (auto *list : {&own, &other})
      llvm::erase_if(*list, [](auto &each) { return isOfGradQ(each.first); });
  for (auto [x, y] : llvm::zip(own, other))
    if (x != y)
      return x.first;
  return own.size() == other.size() ? "" : "group_limits";
}

StringRef ScheduleAttr::differsAround(ScheduleAttr otherAttr) const {
  StringRef difference = getTarget() != otherAttr.getTarget() ? "target" : "";
  forEachScheduleField([&](auto field) {
    if (difference.empty() && field.seen == FieldSeen::Around &&
        getFields().*field.member != otherAttr.getFields().*field.member)
      difference = field.name;
  });
  return difference;
}

/// The parts of `a && b && ...`, or the whole of anything else.
static SmallVector<StringRef> conjuncts(StringRef text) {
  SmallVector<StringRef> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    StringRef rest = text.drop_front(i);
    depth += rest.front() == '(' ? 1 : rest.front() == ')' ? -1 : 0;
    if (depth > 0)
      continue;
    if (rest.starts_with("||"))
      return {text.trim()};
    if (rest.starts_with("&&")) {
      parts.push_back(text.slice(begin, i).trim());
      begin = i + 2;
    }
  }
  parts.push_back(text.drop_front(begin).trim());
  return parts;
}

/// Whether `guard` holds wherever `other` does, for all that its text shows.
static bool isImpliedBy(GuardAttr guard, GuardAttr other) {
  auto known = conjuncts(other.getExpression());
  return llvm::all_of(conjuncts(guard.getExpression()), [&](StringRef part) {
    return llvm::is_contained(known, part);
  });
}

/// The schedules that a launch may get in place of the first variant's, where
/// the batch alone makes its guard false.
static SmallVector<ScheduleAttr> instead(ArrayRef<VariantAttr> variants,
                                         ScheduleAttr otherwise) {
  SmallVector<ScheduleAttr> schedules;
  for (VariantAttr later : variants.drop_front()) {
    schedules.push_back(later.getSchedule());
    if (!later.getWhen().readsBatch() &&
        isImpliedBy(later.getWhen(), variants.front().getWhen()))
      return schedules;
  }
  schedules.push_back(otherwise);
  return schedules;
}

std::string fa2::batchGuardFault(ArrayRef<VariantAttr> variants,
                                 ScheduleAttr otherwise) {
  for (; !variants.empty(); variants = variants.drop_front()) {
    VariantAttr variant = variants.front();
    if (!variant.getWhen().readsBatch())
      continue;
    for (ScheduleAttr schedule : instead(variants, otherwise))
      if (StringRef field = variant.getSchedule().differsInBits(schedule);
          !field.empty())
        return llvm::formatv(
            "guard '{0}' reads batch, but its schedule and one after it differ "
            "in {1}, and so in bits: a sequence gets the same bits in every "
            "batch",
            variant.getWhen().getExpression(), field);
  }
  return "";
}
