//===- Rule.cpp - a schedule where no table serves ---------------------===//

#include "Rule.h"
#include "Check.h"
#include "Table.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <tuple>

using namespace mlir;
using namespace fa2;
using llvm::formatv;

bool fa2::isWhole(const Target &t, const Schedule &s) {
  if (t.asynchronousMatmul() && s.partition == Partition::Keys) {
    int64_t rows = 16 * s.derived().dqWarps;
    int64_t along = s.derived().keyWarps;
    return s.warps % along == 0 && s.blockKV == 16 * along &&
           (s.dqByProducer ? s.blockQ % rows == 0 : s.blockQ == rows);
  }
  if (t.asynchronousMatmul())
    return s.blockQ == 16 * s.warps && s.warps % 4 == 0 && !s.qInRegisters;
  if (s.partition == Partition::Keys) {
    int64_t along = s.derived().keyWarps, rows = s.derived().dqWarps;
    return s.warps % along == 0 && s.warps % rows == 0 &&
           s.blockKV % (16 * along) == 0 && s.blockQ % (16 * rows) == 0 &&
           s.blockQ % (16 * (s.warps / along)) == 0 &&
           (s.blockQ & (s.blockQ - 1)) == 0;
  }
  int64_t split = s.partition == Partition::SplitQ ? s.blockQ : s.blockKV;
  return split % (16 * s.warps) == 0;
}

/// What a warp of backward reads of shared memory for the products with dK and
/// dV: least where its parts of them are square.
static int64_t edgeOfGradKV(const Problem &p, const Schedule &s) {
  int64_t along = s.derived().keyWarps, across = s.warps / along;
  return 2 * s.blockKV / along + fa2::gpu::columnsPerPart(p.headDim, across) +
         fa2::gpu::columnsPerPart(p.headDimV, across);
}

/// Registers that the rule leaves ptxas for what the estimate does not count.
/// With fewer to spare ptxas keeps up to 68 bytes of backward's numbers in
/// local memory.
static constexpr int64_t kSpareRegisters = 4;

std::optional<Schedule> fa2::ruleSchedule(const Target &t, const Problem &p,
                                          const ScheduleOverrides &asked,
                                          Rule rule) {
  auto choices = [](std::optional<int64_t> value,
                    llvm::ArrayRef<int64_t> otherwise) {
    return value ? llvm::SmallVector<int64_t>{*value}
                 : llvm::to_vector(otherwise);
  };
  static constexpr int64_t all[] = {192, 128, 112, 96, 80, 64, 48, 32, 16};
  llvm::ArrayRef<int64_t> rows = all;
  if (!t.asynchronousMatmul())
    rows = rows.drop_front();
  static constexpr int64_t stages[] = {2, 1};
  static constexpr int64_t splits[] = {0, 8, 4, 2, 1};
  bool columns = p.backward && rule != Rule::Rows;
  auto warps = choices(asked.warps, t.warpChoices());
  auto keyWarps =
      choices(asked.keyWarps, llvm::ArrayRef(splits, columns ? 5 : 1));
  std::optional<Schedule> best;
  auto missing = [&](const Footprint &f, const Schedule &s) {
    int64_t spare = p.backward ? kSpareRegisters : 0;
    return std::max<int64_t>(f.registers() + spare - budgetOf(t, f, s), 0);
  };
  auto rank = [&](const Schedule &s) {
    // Square tiles move the fewest bytes a product.
    return std::tuple(-missing(footprint(t, p, s), s), s.blockQ * s.blockKV,
                      std::min(s.blockQ, s.blockKV), s.blockQ, s.stages,
                      columns ? -edgeOfGradKV(p, s) : 0);
  };
  auto consider = [&](Schedule s) {
    if (p.backward) {
      s.partition = Partition::Keys;
      s.qInRegisters = false;
      s.lazyRescale = 0;
    }
    s = withAsked(s, asked);
    if (s.warps < 1 || !isWhole(t, s) || (!columns && padsColumns(t, p, s)))
      return;
    Footprint f = footprint(t, p, s);
    if (!fitError(t, p, s, f).empty() ||
        (rule != Rule::Spilling && missing(f, s) > 0))
      return;
    if (!best || rank(s) > rank(*best))
      best = s;
  };
  for (int64_t w : warps)
    for (int64_t q : choices(asked.blockQ, rows))
      for (int64_t kv : choices(asked.blockKV, rows))
        for (int64_t st : choices(asked.stages, stages))
          for (int64_t along : keyWarps)
            for (bool inRegisters : {true, false}) {
              Schedule s = t.ruleBase(p);
              s.blockQ = q;
              s.blockKV = kv;
              s.warps = w;
              s.stages = st;
              s.keyWarps = along;
              s.qInRegisters = inRegisters;
              consider(s);
            }
  return best;
}

FailureOr<ScheduleAttr> fa2::gradQSchedule(MLIRContext *context,
                                           const Target &target,
                                           const Problem &problem,
                                           std::string &error) {
  Schedule s = tableGradQSchedule(target, problem);
  // What the table asks for may be more than a smaller chip has.
  Problem forward = problem;
  forward.backward = false;
  gpu::SharedLayout dout(s.blockQ, problem.headDimV, /*elementBytes=*/2);
  while (footprint(target, forward, s).sharedBytes + dout.pitch() >
             target.limits().sharedBytesPerBlock &&
         s.blockKV > 16)
    s.blockKV -= 16;
  return s.toAttr(context, target.name(), error);
}
