//===- Variants.cpp - schedules for launches where a guard holds ----------===//

#include "Asked.h"
#include "Table.h"

#include "fa2/Schedule/Selection.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using llvm::formatv;

FailureOr<std::vector<Variant>> fa2::parseVariants(StringRef text,
                                                   std::string &error) {
  std::vector<Variant> variants;
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ';');
  for (StringRef part : parts) {
    auto [when, rest] = part.split(':');
    auto [after, fields] = rest.split(':');
    bool shares = after.consume_front(" after ") && !fields.empty();
    if (!shares)
      fields = rest;
    if (when.size() == part.size() || fields.trim().empty()) {
      error = formatv("expected variants to be 'guard: name=value,...' or "
                      "'guard: after rows: name=value,...', separated by ';', "
                      "or none, got '{0}'",
                      part.trim());
      return failure();
    }
    Variant &v = variants.emplace_back();
    v.when = when.trim().str();
    if (shares)
      v.after = after.trim().str();
    if (error = v.fields.setFields("variants", fields); !error.empty())
      return failure();
  }
  return variants;
}

/// The guard, or the verifier's message in `error`.
static FailureOr<GuardAttr> guardOf(MLIRContext *context, StringRef when,
                                    std::string &error) {
  ScopedDiagnosticHandler capture(context, [&](Diagnostic &d) {
    error = d.str();
    return success();
  });
  GuardAttr guard = GuardAttr::getChecked(
      [&] { return mlir::emitError(UnknownLoc::get(context)); }, context, when);
  if (!guard)
    return failure();
  return guard;
}

namespace {
/// A variant and whether the table has it: what the table says beside its own
/// schedules gives way beside others.
struct Offer {
  Variant variant;
  bool ofTable;
};

using Offers = std::vector<Offer>;
} // namespace

static void append(Offers &offers, const std::vector<Variant> &variants,
                   bool ofTable) {
  for (const Variant &v : variants)
    offers.push_back({v, ofTable});
}

/// Beside the schedule of a row or of the table, nothing asked. What no
/// candidate is that a row could have, the table says: packed heads, for
/// launches of few queries, and backward's persistent blocks, where nothing
/// that was measured is taken.
static Offers tunedVariants(const Target &target, const Problem &problem,
                            const Selection &selection) {
  auto table = tableVariants(target, problem, selection.schedule.getFields(),
                             selection.deterministic);
  Offers offers;
  if (!selection.measuredVariants || selection.deterministic) {
    append(offers, table, /*ofTable=*/true);
  } else if (problem.backward) {
    auto isBefore = [](const Variant &v) { return v.beforeRow; };
    auto others = std::stable_partition(table.begin(), table.end(), isBefore);
    append(offers, std::vector<Variant>(table.begin(), others),
           /*ofTable=*/true);
    append(offers, *selection.measuredVariants, /*ofTable=*/false);
    append(offers, std::vector<Variant>(others, table.end()),
           /*ofTable=*/true);
  } else {
    llvm::erase_if(table, [](const Variant &v) {
      return v.fields.packedHeads.value_or(1) == 1;
    });
    append(offers, table, /*ofTable=*/true);
    append(offers, *selection.measuredVariants, /*ofTable=*/false);
  }
  return offers;
}

/// Leaves out what the table offers where the batch would choose between it and
/// a schedule of other bits: the table is for its own schedules. What is left
/// out is in the selection's reasons.
static void dropOfOtherBits(SmallVector<VariantAttr> &variants,
                            SmallVector<bool> &ofTable, Selection &selection) {
  auto drop = [&](size_t i, StringRef fault) {
    std::string when = variants[i].getWhen().getExpression().str();
    selection.reasons.push_back(
        {Decision::Kind::Missed,
         "variant",
         formatv("where {0} no other schedule: {1}", when, fault),
         {{"When", when}},
         ""});
    variants.erase(variants.begin() + i);
    ofTable.erase(ofTable.begin() + i);
  };
  for (size_t i = variants.size(); i-- > 0;) {
    auto fault = [&] {
      return batchGuardFault(ArrayRef(variants).drop_front(i),
                             selection.schedule);
    };
    if (ofTable[i] && !fault().empty())
      drop(i, fault());
    // What a row of the database has stays, and what follows must fit it.
    else
      for (size_t k = variants.size(); k-- > i + 1 && !fault().empty();)
        if (ofTable[k] && !variants[i]
                               .getSchedule()
                               .differsInBits(variants[k].getSchedule())
                               .empty())
          drop(k, fault());
  }
}

FailureOr<SmallVector<VariantAttr>>
fa2::selectVariants(MLIRContext *context, const Target &target,
                    const Problem &problem, StringRef asked,
                    Selection &selection, std::string &error) {
  Offers offers;
  bool tuned = asked.empty() && (selection.tuned || selection.deterministic);
  if (tuned) {
    offers = tunedVariants(target, problem, selection);
  } else if (!asked.empty() && asked != "none") {
    auto parsed = parseVariants(asked, error);
    if (failed(parsed))
      return failure();
    append(offers, *parsed, /*ofTable=*/false);
  }
  SmallVector<VariantAttr> attrs;
  SmallVector<bool> attrsOfTable;
  for (auto &[v, ofTable] : offers) {
    if (error = v.fields.check(); !error.empty()) {
      error = formatv("where {0}: {1}", v.when, error);
      return failure();
    }
    completeRows(v.fields, target, problem);
    FailureOr<GuardAttr> guard = guardOf(context, v.when, error),
                         after = GuardAttr();
    if (failed(guard) ||
        (!v.after.empty() && failed(after = guardOf(context, v.after, error))))
      return failure();
    for (GuardAttr each : {*guard, *after})
      if (each && each.readsLayouts()) {
        error = formatv("expected a guard of a variant to read no strides, "
                        "addresses or extents of arguments, got '{0}'",
                        each.getExpression());
        return failure();
      }
    auto schedule = withAsked(selection.schedule.getFields(), v.fields)
                        .toAttr(context, target.name(), error);
    if (failed(schedule)) {
      error = formatv("where {0}: {1}", v.when, error);
      return failure();
    }
    // What was measured on one target may be too large for another.
    std::string flaw;
    if (tuned && failed(checkSchedule(target, problem, *schedule, flaw))) {
      selection.reasons.push_back(
          {Decision::Kind::Missed,
           "variant",
           formatv("where {0} no other schedule: {1}", v.when, flaw),
           {{"When", v.when}},
           ""});
      continue;
    }
    attrs.push_back(VariantAttr::get(context, *guard, *after, *schedule));
    attrsOfTable.push_back(ofTable);
  }
  dropOfOtherBits(attrs, attrsOfTable, selection);
  if (failed(checkVariants(target, problem, attrs, selection, error)))
    return failure();
  return attrs;
}

LogicalResult fa2::checkVariants(const Target &target, const Problem &problem,
                                 ArrayRef<VariantAttr> variants,
                                 Selection &selection, std::string &error) {
  for (VariantAttr variant : variants) {
    std::string where =
        formatv("where {0}: ", variant.getWhen().getExpression());
    auto checked = checkSchedule(target, problem, variant.getSchedule(), error);
    if (failed(checked)) {
      error.insert(0, where);
      return failure();
    }
    std::string text;
    llvm::raw_string_ostream(text) << variant.getSchedule();
    selection.reasons.push_back(
        {Decision::Kind::Passed,
         "variant",
         where + text,
         {{"When", variant.getWhen().getExpression().str()}},
         ""});
    for (Decision &decision : checked->reasons) {
      decision.reason.insert(0, where);
      selection.reasons.push_back(std::move(decision));
    }
    for (const std::string &warning : checked->warnings)
      selection.warnings.push_back(where + warning);
  }
  error = batchGuardFault(variants, selection.schedule);
  return success(error.empty());
}
