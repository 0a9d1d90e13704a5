//===- LoopOrders.cpp - the table of loop orders --------------------------===//

#include "fa2/Loops/LoopOrders.h"

using namespace fa2;
using namespace fa2::gpu;
using llvm::StringLiteral;
using llvm::StringRef;

namespace {
struct Row {
  LoopOrder order;
  StringLiteral products; // a quote: of the tile before; +: adds at once
  size_t inFlight;
};
// Both products of scores before either is used, as FlashAttention-3
// (arXiv:2407.08608) has it: dP is multiplied while P is computed, dV while dS
// is. Then, a tile behind, what dS is multiplied with: while the next scores
// are; and the same with dP's first values written late, in registers that dK'
// has read by then. At last all that P and dS are multiplied with.
// Or dV as soon as P is there, and dP beside it, so that no two tiles of scores
// are held at once: what registers that frees, the product with the keys takes.
// Where a cluster's blocks give each other dS, dq_other is the product with the
// other block's. The last two are for warpgroups that have programs of their
// own: the next scores start between what the other's dS is multiplied with, or
// behind dV of the tile before, whose P the other has long had.
// clang-format off
constexpr Row kTable[] = {
    {LoopOrder::ScoresFirst,     "(dp) s dp dv dk dq dq_other",      2},
    {LoopOrder::KeysBehind,      "(dp) dq' dq_other'+ dk' s dp dv",  2},
    {LoopOrder::KeysBehindLean,  "dq' dq_other'+ dk' s dp dv",       2},
    {LoopOrder::ValuesFirst,     "s dv dp dk dq dq_other",           2},
    {LoopOrder::GradientsBehind, "(dp) s dp dv' dk' dq' dq_other'",  5},
    {LoopOrder::ScoresBetween,   "dq' s dq_other'+ dk' dp dv",       2},
    {LoopOrder::ValuesBehind,    "dv' s dp dk dq dq_other",          2},
};
// clang-format on

// Forward: the next scores start before P V does, whose P is of the tile
// before, and their softmax is computed while it is in flight (section 3.2 of
// FlashAttention-3, intra-warpgroup overlap).
constexpr Row kOverlap = {LoopOrder::Written, "s o'", 2};
} // namespace

std::string Order::text() const {
  std::string text;
  for (const std::string &name : begunEarly)
    text += (text.empty() ? "(" : " (") + name + ")";
  for (const Product &product : products)
    text += (text.empty() ? "" : " ") + product.name +
            (product.behind ? "'" : "") + (product.addsAtOnce ? "+" : "");
  return text;
}

Order fa2::gpu::parseOrder(StringRef products, size_t inFlight) {
  Order order;
  order.inFlight = inFlight;
  llvm::SmallVector<StringRef> names;
  products.split(names, ' ');
  for (StringRef name : names) {
    if (name.consume_front("(") && name.consume_back(")")) {
      order.begunEarly.push_back(name.str());
      continue;
    }
    bool atOnce = name.consume_back("+"), behind = name.consume_back("'");
    order.products.push_back({name.str(), behind, atOnce});
  }
  return order;
}

Order fa2::gpu::orderOf(ScheduleAttr schedule) {
  if (schedule.getLoopOrder() == LoopOrder::Derived)
    return {};
  if (schedule.getOverlap())
    return parseOrder(kOverlap.products, kOverlap.inFlight);
  for (const Row &row : kTable)
    if (row.order == schedule.getLoopOrder())
      return parseOrder(row.products, row.inFlight);
  return {};
}
