//===- Features.cpp - what trees see of a candidate -----------------------===//

#include "Features.h"

#include "fa2/Schedule/Footprint.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace fa2;
using namespace fa2tune;

using Visit = llvm::function_ref<void(llvm::StringRef name, double value)>;

static void visitEstimate(const Estimate &e, Visit visit) {
  visit("tensor", e.tensor);
  visit("exponential", e.exponential);
  visit("arithmetic", e.arithmetic);
  visit("shared", e.shared);
  visit("global", e.global);
  visit("step", e.step);
  visit("step_alone", e.stepAlone);
  visit("ends", e.ends);
  visit("steps", e.steps);
  visit("longest", e.longest);
  visit("blocks", double(e.blocks));
  visit("blocks_held", double(e.blocksPerMultiprocessor));
  visit("imbalance", e.imbalance);
  visit("part_tensor", e.tensor / e.step);
  visit("part_softmax", (e.exponential + e.arithmetic) / e.step);
  visit("part_shared", e.shared / e.step);
  visit("part_global", e.global / e.step);
}

static void visitFootprint(const Footprint &f, Visit visit) {
  visit("registers", double(f.registers()));
  visit("accumulators", double(f.accumulatorRegisters));
  visit("score_registers", double(f.scoreRegisters));
  visit("shared_bytes", double(f.sharedBytes));
}

/// What fields come to together.
static void visitTiles(const RankedCandidate &c, const Schedule &s,
                       Visit visit) {
  const Estimate &e = c.estimate;
  double q = double(s.blockQ), k = double(s.blockKV), warps = double(s.warps),
         dim = double(c.problem.headDim);
  double held = double(e.blocksPerMultiprocessor) * warps;
  double columns = s.dqColumns > 0 ? double(s.dqColumns) : dim;
  auto padding = [](int64_t length, int64_t tile) {
    return double(llvm::alignTo(length, tile)) / double(length);
  };
  visit("scores_a_lane", q * k / warps / 32);
  visit("rows_a_warp", q / warps);
  visit("q_a_lane", q / warps * dim / 32);
  visit("k_a_lane", k / warps * dim / 32);
  visit("dq_pieces", std::ceil(dim / columns));
  visit("intensity", q * k / (q + k));
  visit("clocks_a_score", e.step / (q * k));
  visit("warps_held", held);
  visit("registers_held",
        double(footprint(c.target, c.problem, c.schedule).registers()) * held);
  visit("waves", double(e.blocks) / double(e.blocksPerMultiprocessor));
  visit("q_padding", padding(c.shape.seqlenQ, s.blockQ));
  visit("k_padding", padding(c.shape.seqlenK, s.blockKV));
}

void fa2tune::forEachFeature(const RankedCandidate &c, Visit visit) {
  const Problem &p = c.problem;
  const Shape &shape = c.shape;
  double heads = double(shape.batch) * double(shape.heads);
  double work =
      heads * double(shape.seqlenQ) * double(shape.seqlenK) * double(p.headDim);
  visit("backward", double(p.backward));
  visit("roles", double(c.target.asynchronousMatmul()));
  visit("head_dim", double(p.headDim));
  visit("masked", double(p.masked));
  visit("heads", heads);
  visit("seqlen_q", double(shape.seqlenQ));
  visit("seqlen_k", double(shape.seqlenK));
  visit("estimate_over_work", std::log(c.estimate.milliseconds / work));
  visitEstimate(c.estimate, visit);
  visitFootprint(footprint(c.target, p, c.schedule), visit);
  visit("pads", double(padsColumns(c.target, p, c.schedule)));
  Schedule derived = c.schedule.derived();
  visitTiles(c, derived, visit);
  forEachScheduleField([&](auto field) {
    visit(field.name, double(int64_t(derived.*field.member)));
  });
}
