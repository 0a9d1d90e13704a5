//===- Check.cpp - whether a target can run a schedule -----------------===//

#include "Check.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace mlir;
using namespace fa2;
using llvm::formatv;

bool fa2::turnsBlock(const Schedule &s) {
  Schedule rings = s.derived();
  return std::min(rings.slotsK, rings.slotsV) < 2 && s.overlap && s.pingPong &&
         s.groupLimits && s.blockQ > kGroupRows;
}

bool fa2::groupsGoAlone(const Schedule &s) {
  return s.dqByProducer && s.dq != GradQ::Recompute && s.rotateQueries == 0;
}

static std::string scratchText(const Footprint &f) {
  return f.scratchBytes ? formatv(", split-K scratch {0}", f.scratchBytes).str()
                        : "";
}

int64_t fa2::budgetOf(const Target &t, const Footprint &f, const Schedule &s) {
  return t.producerWarps() ? t.roleRegisters(s).consumer
                           : t.registerBudget(f.threads, s.minBlocks);
}

/// "2 stages of keys and values"
static std::string ringText(const Problem &p, const Schedule &s) {
  auto slots = [](int64_t n) {
    return formatv("{0} stage{1}", n, n == 1 ? "" : "s").str();
  };
  Schedule rings = s.derived();
  if (p.backward)
    return s.slotsDout && s.slotsDout != s.stages
               ? formatv("{0} of queries and {1} of dO", slots(s.stages),
                         s.slotsDout)
                     .str()
               : slots(s.stages) + " of queries and dO";
  if (rings.slotsK == rings.slotsV)
    return slots(rings.slotsK) + " of keys and values";
  return formatv("{0} of keys and {1} of values", slots(rings.slotsK),
                 slots(rings.slotsV));
}

/// How deep the rings are, as messages name it.
static std::string depthsOf(const Schedule &s) {
  if (!s.slotsK && !s.slotsV)
    return formatv("stages = {0}", s.stages);
  Schedule rings = s.derived();
  return formatv("rings.k = {0} and rings.v = {1}", rings.slotsK, rings.slotsV);
}

/// A footprint's parts: "queries 16384, 2 stages of ...".
static std::string describeShared(const Target &t, const Problem &p,
                                  const Schedule &s, const Footprint &f) {
  std::string rings = ringText(p, s);
  if (p.backward)
    return formatv("keys and values {0}, {1} {2}, exchange of dS {3}{4}",
                   f.queryBytes, rings, f.ringBytes, f.exchangeBytes,
                   t.producerWarps() > 0 && f.ownOutputBytes > 0
                       ? formatv(", dK and dV {0}", f.ownOutputBytes).str()
                       : "");
  return formatv("queries {0}, {1} {2}, output {3}{4}", f.queryBytes, rings,
                 f.ringBytes, f.outputBytes, scratchText(f));
}

/// The fields of some groups that are not at their defaults, as messages name
/// them: as they should be and as they are.
static std::pair<std::string, std::string>
fieldsOf(llvm::ArrayRef<FieldGroup> groups, const Schedule &s) {
  std::string expected, got;
  forEachScheduleField([&](auto field) {
    if (!llvm::is_contained(groups, field.group) || field.isDefault(s))
      return;
    auto add = [&](std::string &list, const Schedule &of) {
      list += formatv("{0}{1} = {2}", list.empty() ? "" : ", ", field.name,
                      field.text(of.*field.member));
    };
    add(expected, Schedule());
    add(got, s);
  });
  return {expected, got};
}

std::string fa2::gradientSumsError(const Target &t, const Problem &p,
                                   const Schedule &s) {
  if (int64_t most = (p.headDim + 63) / 64 * 64; s.dqColumns > most)
    return formatv("expected dq_columns to be at most {0}, the head dim in "
                   "whole panels, or 0 for all of it; got {1}",
                   most, s.dqColumns);
  if (s.cluster > 1) {
    if (p.headDim < 64)
      return formatv("expected a head dim from 64 on with cluster = 2, where "
                     "each of two blocks sums half of dQ's columns; got {0}",
                     p.headDim);
    // Whoever finishes a sum stores to dQ what it has of it.
    if (s.turnsFinish && p.headDim % (8 * s.cluster) != 0)
      return formatv("expected turns_finish = false with cluster = 2 and a "
                     "head dim that is no multiple of 16, of which one block "
                     "sums eight columns more than there are; got head dim "
                     "{0}",
                     p.headDim);
    if (s.dqColumns == 0 || s.cluster * s.dqColumns > p.headDim)
      return formatv("expected dq_columns to be from 32 to {0}, half of the "
                     "head dim, with cluster = 2; got {1}",
                     p.headDim / s.cluster, s.dqColumns);
    if (s.dq == GradQ::Recompute ||
        (s.takesTurns() && s.turns != TurnChange::ByRoles))
      return formatv("expected dq = atomic_v4, or ordered with turns = "
                     "by_roles, with cluster = 2; got dq = {0} and turns = {1}",
                     stringifyGradQ(s.dq), stringifyTurnChange(s.turns));
  }
  return gradQColumnsError(t, p.headDim, s);
}

/// Programs of which each multiplies some columns of every product.
static std::string roleColumnsError(const Problem &p, const Schedule &s) {
  if (s.takesTurns() && s.turns != TurnChange::ByRoles)
    return formatv("expected turns = by_roles with role_columns and dq = "
                   "ordered or turns_finish, since two roles add in one turn; "
                   "got {0}",
                   stringifyTurnChange(s.turns));
  if (s.dqByProducer)
    return formatv("expected role_columns = 0 with dq_by_producer, where "
                   "role_products divides what is left; got {0}",
                   s.roleColumns);
  // Where dS is waited for in its own iteration, P may be given behind that.
  if (s.loopOrder != LoopOrder::Written &&
      s.loopOrder != LoopOrder::KeysBehind &&
      s.loopOrder != LoopOrder::KeysBehindLean &&
      s.loopOrder != LoopOrder::ScoresBetween)
    return formatv("expected loop_order = scores_between, keys_behind, "
                   "keys_behind_lean or written with role_columns, whose "
                   "programs wait for each other's tiles; got {0}",
                   stringifyLoopOrder(s.loopOrder));
  int64_t columns = s.dqColumns ? s.dqColumns : p.headDim;
  if (s.dq != GradQ::Recompute &&
      (s.roleColumns % columns != 0 || columns % 64 != 0))
    return formatv("expected dq_columns to divide role_columns = {0}, in "
                   "whole panels of 64; got {1}",
                   s.roleColumns, columns);
  return "";
}

/// Two warpgroups that have programs of their own, and 64 keys.
static std::string twoProgramsError(const Problem &p, const Schedule &s) {
  if (!s.hasTwoPrograms())
    return "";
  if (s.roleColumns && s.roleProducts)
    return formatv("expected role_columns = 0 with role_products, which "
                   "divides products and not columns; got {0}",
                   s.roleColumns);
  int64_t least = std::min(p.headDim, p.headDimV);
  if (s.roleColumns >= least)
    return formatv("expected role_columns to be less than the head dim, {0}, "
                   "whose other columns another role multiplies; got {1}",
                   least, s.roleColumns);
  auto [name, none] = s.roleColumns ? std::pair("role_columns", "0")
                                    : std::pair("role_products", "false");
  if (s.warps != 8 || s.derived().keyWarps != 4 || !s.roundedP)
    return formatv("expected warps = 8, key_warps = 4 and rounded_p = true "
                   "with {3}, where one warpgroup gives the other P of 64 "
                   "keys; got warps = {0}, key_warps = {1} and rounded_p = {2}",
                   s.warps, s.derived().keyWarps, s.roundedP, name);
  if (p.program || p.dropout)
    return formatv("expected {0} = {1} with a score program or dropout, whose "
                   "values both roles would compute; got {2}",
                   name, none,
                   s.roleColumns ? std::to_string(s.roleColumns) : "true");
  if (s.pingPong || s.qInRegisters || s.separateOutput)
    return formatv("expected {0} = {1} with ping_pong, q_in_registers or "
                   "separate_output; got {2}",
                   name, none,
                   s.roleColumns ? std::to_string(s.roleColumns) : "true");
  if (s.roleProducts && s.dq != GradQ::Recompute && !s.dqByProducer)
    return formatv("expected dq_by_producer with role_products and dq = {0}, "
                   "since both programs have products enough; got false",
                   stringifyGradQ(s.dq));
  return s.roleColumns ? roleColumnsError(p, s) : "";
}

/// A warpgroup that leaves out queries leaves out all that is done with them.
static std::string groupLimitsError(const Problem &p, const Schedule &s) {
  if (!s.groupLimits)
    return "";
  if (p.rowSums)
    return "expected group_limits = false in backward with gradients of what a "
           "score program reads for each query, to which all queries of a "
           "block add; got group_limits = true";
  if (!s.dqByProducer || s.dq == GradQ::Recompute)
    return formatv("expected group_limits = false but with dq_by_producer, "
                   "where each warpgroup of backward goes through its queries "
                   "alone; got dq_by_producer = {0} and dq = {1}",
                   s.dqByProducer, stringifyGradQ(s.dq));
  if (s.rotateQueries)
    return formatv("expected group_limits = false with rotate_queries, where "
                   "queries begin anywhere; got rotate_queries = {0}",
                   s.rotateQueries);
  return "";
}

/// What a target with roles makes of the form of backward's main kernel: keys
/// stay, 64 of them a warpgroup.
static std::string gradientRolesError(const Target &t, const Problem &p,
                                      const Schedule &s) {
  if (auto [expected, got] = fieldsOf({FieldGroup::Roles}, s); !got.empty())
    return formatv("expected {0} in backward kernels of {1}; got {2}", expected,
                   t.name(), got);
  Schedule d = s.derived();
  if (s.warps % 4 != 0 || d.keyWarps % 4 != 0 || s.blockKV != 16 * d.keyWarps)
    return formatv("expected warps and key_warps to be multiples of 4 and "
                   "block_kv to be 16 * key_warps on {0}, whose matmuls take "
                   "64 rows of four warps; got warps = {1}, key_warps = {2} "
                   "and block_kv = {3}",
                   t.name(), s.warps, d.keyWarps, s.blockKV);
  if (d.dqWarps % 4 != 0 || s.warpsOfGradQ() % d.dqWarps != 0 ||
      (s.dqByProducer ? s.blockQ % (16 * d.dqWarps) != 0
                      : s.blockQ != 16 * d.dqWarps))
    return formatv("expected dq_warps to be a multiple of 4 that divides warps "
                   "and block_q to be {0}16 * dq_warps on {1}, whose matmuls "
                   "take 64 rows of four warps; got dq_warps = {2}, warps = "
                   "{3} and block_q = {4}",
                   s.dqByProducer ? "a multiple of " : "", t.name(), d.dqWarps,
                   s.warps, s.blockQ);
  if (std::string wrong = gradientSumsError(t, p, s); !wrong.empty())
    return wrong;
  if (std::string wrong = twoProgramsError(p, s); !wrong.empty())
    return wrong;
  if (s.storesHidden && !(p.storesScores && p.masked))
    return "expected stores_hidden = false but with a mask and a gradient that "
           "stores tiles of dS, of which it hides some; got true";
  if (std::string wrong = groupLimitsError(p, s); !wrong.empty())
    return wrong;
  for (auto [name, slots] :
       {std::pair("rings.k", s.slotsK), {"rings.v", s.slotsV}})
    if (slots > 1 && !s.persistent)
      return formatv("expected {0} = 0 or 1 in backward but with persistent, "
                     "whose blocks take another tile of keys; got {0} = {1}",
                     name, slots);
  for (auto [name, dim, columns] :
       {std::tuple("keys_in_registers", p.headDim, s.keysInRegisters),
        {"values_in_registers", p.headDimV, s.valuesInRegisters}}) {
    if (columns > dim || (columns && s.qInRegisters))
      return formatv("expected {0} to be at most the head dim, {1}, and 0 with "
                     "q_in_registers, which keeps all of them; got {2}",
                     name, dim, columns);
    if (columns && d.keyWarps != 4 && d.keyWarps != s.warps)
      return formatv("expected {0} = 0 with key_warps = {1} of {2} warps, "
                     "where warpgroups share some rows of keys; got {3}",
                     name, d.keyWarps, s.warps, columns);
  }
  // The next tile comes while this one's products are still to start.
  bool all = s.loopOrder == LoopOrder::GradientsBehind;
  if ((all || s.loopOrder == LoopOrder::KeysBehind ||
       s.loopOrder == LoopOrder::KeysBehindLean ||
       s.loopOrder == LoopOrder::ScoresBetween) &&
      s.stages < 2)
    return formatv("expected stages to be at least 2 with loop_order = {0}, "
                   "which multiplies a tile of queries beside the next one; "
                   "got {1}",
                   stringifyLoopOrder(s.loopOrder), s.stages);
  bool values = all || s.loopOrder == LoopOrder::ValuesBehind;
  if (values && s.slotsOf("dout", /*inLoop=*/true) < 2)
    return formatv("expected rings.dout to be at least 2 with loop_order = "
                   "{0}, which multiplies a tile of dO beside the next one; "
                   "got {1}",
                   stringifyLoopOrder(s.loopOrder), s.slotsDout);
  // All that is stored for this tile is still read for the one before.
  if (values && s.exchangeSlots < 2 && !s.roleProducts &&
      (d.keyWarps < s.warps || !s.dqByProducer))
    return formatv("expected rings.exchange to be at least 2 with loop_order = "
                   "{0}; got {1}",
                   stringifyLoopOrder(s.loopOrder), s.exchangeSlots);
  return "";
}

/// The same of any kernel.
static std::string rolesError(const Target &t, const Problem &p,
                              const Schedule &s, const Footprint &f) {
  if (p.backward)
    return gradientRolesError(t, p, s);
  if (auto [expected, got] = fieldsOf({FieldGroup::GradientRoles}, s);
      !got.empty())
    return formatv("expected {0} in forward kernels; got {1}", expected, got);
  if (s.termsRole && !(s.preloadTerms && (p.termsOfKeys || p.termsOfDistances)))
    return "expected terms_role = false but where products of scores begin "
           "with what a score program adds for a key or a distance "
           "(preload_terms); got true";
  bool several =
      !s.termsRole && (p.columnVectors > 0 || (s.preloadTerms && p.hasTerms()));
  if (s.chained != Chain::None && !several)
    return formatv("expected chained = none in forward, whose score programs "
                   "alone have a kernel before, of what they have of keys, "
                   "distances or entries of a table; got {0}",
                   stringifyChain(s.chained));
  if (s.preloadTerms && !p.hasTerms())
    return formatv("expected preload_terms = false {0}",
                   p.program ? "because the score program does more than add "
                               "what it has of keys, of distances, or of "
                               "entries of a table"
                             : "without a score program");
  if ((s.warps % 4 != 0 || s.blockQ != 16 * s.warps))
    return formatv("expected warps to be a multiple of 4 and block_q to be 16 "
                   "* warps on {0}, whose matmuls take 64 rows of four warps; "
                   "got warps = {1} and block_q = {2}",
                   t.name(), s.warps, s.blockQ);
  if ((s.partition != Partition::SplitQ || s.qInRegisters))
    return formatv("expected partition = split_q and q_in_registers = false on "
                   "{0}, where queries_in_registers says how many columns are "
                   "held",
                   t.name());
  if (s.queriesInRegisters > p.headDim)
    return formatv("expected queries_in_registers to be at most the head dim, "
                   "{0}; got {1}",
                   p.headDim, s.queriesInRegisters);
  if (s.queriesInRegisters && s.splitScores)
    return formatv("expected queries_in_registers = 0 with split_scores, whose "
                   "second product joins the first; got {0}",
                   s.queriesInRegisters);
  if (s.loopOrder != LoopOrder::Written && s.loopOrder != LoopOrder::Derived)
    return formatv("expected loop_order = written or derived in forward "
                   "kernels, whose products {0} does not name; got {0}",
                   stringifyLoopOrder(s.loopOrder));
  // Its producer brings the keys of the first tile before the values.
  if (s.loopOrder == LoopOrder::Derived && !s.overlap)
    return "expected overlap = true with loop_order = derived in forward "
           "kernels; got overlap = false";
  // The output takes the place of one tile of queries.
  if (int64_t place = f.queryBytes / s.querySlots;
      !s.separateOutput && f.outputBytes > place)
    return formatv("expected separate_output because the output of {0} bytes "
                   "does not fit the {1} bytes of the queries",
                   f.outputBytes, place);
  return "";
}

/// Fields that do not go together, whatever the target.
static std::string togetherError(const Problem &p, const Schedule &s) {
  if (s.directOutput && s.separateOutput)
    return "expected separate_output = false with direct_output = true, which "
           "leaves no output in shared memory; got true";
  bool changed = p.program && !s.preloadTerms;
  if (s.splitScores && (s.speculateMax == 0 || changed))
    return formatv("expected split_scores = false without {0}; got true",
                   changed ? "scores that are a product alone, which no "
                             "program changes but for terms that it begins "
                             "with (preload_terms)"
                           : "speculate_max, whose exponentials alone begin "
                             "while scores are multiplied");
  if (s.fromEnd && (p.dropout || s.packedHeads > 1))
    return formatv("expected from_end = false with {0}, whose rows are counted "
                   "from the sequence's begin; got true",
                   p.dropout ? "dropout" : "packed_heads");
  if (s.preload == Preload::Both && p.slope)
    return "expected preload = delta or none because the score program does "
           "more than add to the scores, which then cannot begin with "
           "-lse / scale; got both";
  if (s.roundedP && p.sums)
    return "expected rounded_p = false with a score program by which gradients "
           "are summed, which are exact in f32; got true";
  // bf16 has f32's exponents; of f16 probabilities may reach 2^15.
  if (s.roundedP && p.slope && p.maxSlack <= 15)
    return "expected rounded_p = false in f16 with a score program whose "
           "derivative is not 1, since P is multiplied with it before; got "
           "true";
  if (s.order == TileOrder::Balanced && (p.backward || !s.persistent))
    return formatv("expected order = longest_first or another in place of "
                   "balanced, which shares tiles of forward among persistent "
                   "blocks, {0}; got balanced",
                   p.backward ? "in backward" : "without persistent");
  if (s.turnTiles > 1 && !s.takesTurns())
    return formatv("expected turn_tiles = 1 with dq = {0}, whose blocks take "
                   "no turns; got {1}",
                   stringifyGradQ(s.dq), s.turnTiles);
  // Other blocks add to one tile than to its neighbour.
  if (s.turnTiles > 1 && s.dq != GradQ::Ordered && p.masked)
    return formatv("expected turn_tiles = 1 under a mask with dq = {0}, whose "
                   "blocks add in any order between the first and the last; "
                   "got {1}",
                   stringifyGradQ(s.dq), s.turnTiles);
  if (s.turns != TurnChange::AtOnce && !s.takesTurns())
    return formatv("expected turns = at_once with dq = {0}, whose blocks take "
                   "none; got {1}",
                   stringifyGradQ(s.dq), stringifyTurnChange(s.turns));
  if (s.turns == TurnChange::ByRoles &&
      (!(s.roleColumns || s.dqRole) || s.turnTiles > 1))
    return formatv("expected turns = at_once or another in place of by_roles, "
                   "which is for dq_role or role_columns, and turn_tiles = 1; "
                   "got dq_role = {0}, role_columns = {1} and turn_tiles = {2}",
                   s.dqRole, s.roleColumns, s.turnTiles);
  if (s.turnsFinish && s.dq == GradQ::Recompute)
    return "expected turns_finish = false with dq = recompute, which has no "
           "sum; got true";
  if (s.turnsResume && !(s.turnsFinish && s.dqByProducer))
    return "expected turns_resume = false without turns_finish and "
           "dq_by_producer, whose product begins with the sum; got true";
  if (s.groupLimits && p.backward && s.cluster > 1)
    return "expected group_limits = false in backward with cluster = 2, whose "
           "blocks give each other dS of every tile; got true";
  if (s.rotateQueries && p.masked)
    return formatv("expected rotate_queries = 0 under a mask, where each tile "
                   "of keys begins with other queries already; got {0}",
                   s.rotateQueries);
  if (s.rotateQueries && s.takesTurns())
    return formatv("expected rotate_queries = 0 with dq = ordered or "
                   "turns_finish, whose blocks come to a tile of queries one "
                   "after the other; got {0}",
                   s.rotateQueries);
  if (s.sumTurns && !p.batchSums)
    return formatv("expected sum_turns = 0 without a gradient that is summed "
                   "over the batch alone, by tiles; got {0}",
                   s.sumTurns);
  // Limits of groups are refused beside all such sums.
  if (p.batchSums && s.tilesOfSumTurn() > 0 && s.order == TileOrder::Descending)
    return formatv("expected order = ascending or another in place of {0}, "
                   "which starts with the last of the batch's entries, where "
                   "these add in turns (sum_turns = {1}, dq = {2})",
                   stringifyTileOrder(s.order), s.sumTurns,
                   stringifyGradQ(s.dq));
  // Sums along diagonals go on from tile to tile.
  if (s.rotateQueries && p.sums)
    return formatv("expected rotate_queries = 0 with a score program by which "
                   "gradients are summed; got {0}",
                   s.rotateQueries);
  if (s.dqRole && (!s.dqByProducer || s.dq == GradQ::Recompute))
    return formatv("expected dq_role = false but with dq_by_producer and a dQ "
                   "that is summed, whose products leave the warps that "
                   "multiply keys; got dq_by_producer = {0} and dq = {1}",
                   s.dqByProducer, stringifyGradQ(s.dq));
  if (s.joinLoops && (!s.dqByProducer || s.dqRole))
    return formatv("expected join_loops = false but with dq_by_producer and "
                   "without dq_role, where the producer copies and multiplies "
                   "in one loop; got true with dq_by_producer = {0} and "
                   "dq_role = {1}",
                   s.dqByProducer, s.dqRole);
  constexpr int64_t kLeastRegisters = 24; // of setmaxnreg
  if (s.producerRegisters && s.producerRegisters < kLeastRegisters)
    return formatv("expected producer_registers to be 0 or at least {0}; got "
                   "{1}",
                   kLeastRegisters, s.producerRegisters);
  if (s.order == TileOrder::ShortestThenLongest &&
      (!s.takesTurns() || !p.masked))
    return "expected order = longest_first or another in place of "
           "shortest_then_longest, which is for backward under a mask with dq "
           "= ordered or turns_finish; got shortest_then_longest";
  // Blocks wait for those that start before them.
  if (s.takesTurns() && s.order == TileOrder::Descending)
    return formatv("expected order = ascending, shortest_first or another in "
                   "place of {0} with dq = ordered or turns_finish, which adds "
                   "from the first keys on, or with shortest_first from the "
                   "last",
                   stringifyTileOrder(s.order));
  if (s.querySlots > 1 && !s.persistent)
    return formatv("expected query_slots = 1 without persistent, whose blocks "
                   "have one tile of queries; got {0}",
                   s.querySlots);
  for (auto [name, slack] : {std::pair{"lazy_rescale", s.lazyRescale},
                             {"speculate_max", s.speculateMax}})
    if (slack > p.maxSlack)
      return formatv("expected {0} to be at most {1}, the powers of two that "
                     "probabilities of this element type may reach; got {2}",
                     name, p.maxSlack, slack);
  if (s.slotsReads > 0 && p.tileReads == 0)
    return formatv("expected rings.reads = 0 because no score program reads "
                   "a tile: a value at each score's row and column; got {0}",
                   s.slotsReads);
  if (s.slotsReads > 0 && p.backward &&
      (s.derived().keyWarps != s.warps || s.cluster > 1))
    return formatv("expected rings.reads = 0 because warps share rows of keys, "
                   "or blocks dS, and tiles that are read come to warps that "
                   "have all of a tile's queries; got {0}",
                   s.slotsReads);
  if (s.speculateMax > 0 && !s.overlap)
    return formatv("expected speculate_max = 0 without overlap, got {0}",
                   s.speculateMax);
  // What keys or distances have comes through a ring of so many stages.
  Schedule beside = s;
  if (p.columnVectors > 0 || (s.preloadTerms && p.termsOfDistances))
    beside.slotsK = std::min(s.derived().slotsK, s.stages);
  if (turnsBlock(beside))
    return formatv("expected {0} to be at least 2 with overlap, ping_pong and "
                   "group_limits, whose warpgroups would wait for each other; "
                   "got 1",
                   !turnsBlock(s)           ? "stages"
                   : s.derived().slotsK > 1 ? "rings.v"
                   : s.slotsK == 1          ? "rings.k"
                                            : "stages");
  return "";
}

/// Threads and bytes that a block may have.
static std::string limitsError(const Target &t, const Problem &p,
                               const Schedule &s, const Footprint &f) {
  if (f.threads > t.limits().threadsPerBlock)
    return formatv("the schedule has {0} threads a block of {1} that {2} "
                   "allows; lower warps",
                   f.threads, t.limits().threadsPerBlock, t.name());
  if (f.sharedBytes > t.limits().sharedBytesPerBlock)
    return formatv("the schedule needs {0} bytes of shared memory of {1} that "
                   "{2} allows a block ({3}); lower "
                   "block_q = {4}, block_kv = {5} or {6}",
                   f.sharedBytes, t.limits().sharedBytesPerBlock, t.name(),
                   describeShared(t, p, s, f), s.blockQ, s.blockKV,
                   depthsOf(s));
  return "";
}

/// Where matmuls are asynchronous, their registers cannot be spilled.
static std::string registersError(const Target &t, const Problem &p,
                                  const Schedule &s, const Footprint &f) {
  // ptxas C7602: an instruction's accumulators, and 32 registers beside them,
  // must fit what a thread has at entry, before roles share out registers.
  int64_t entry = t.registerBudget(f.threads, s.minBlocks) / 8 * 8;
  if (int64_t widest = std::max(p.headDimV, s.blockKV); widest / 2 + 32 > entry)
    return formatv("expected {0} to be at most {1} with {2} threads a block, "
                   "whose {3} registers a thread must hold a matmul's "
                   "accumulators; got {4}; the nearest with it is block_q = "
                   "{5}",
                   s.blockKV == widest ? "block_kv" : "head_dim_v",
                   (entry - 32) * 2, f.threads, entry, widest,
                   s.blockQ - kGroupRows);
  // Matmuls in flight cannot be spilled: ptxas runs them one by one (C7512).
  if (int64_t budget = budgetOf(t, f, s); f.registers() > budget)
    return formatv("expected block_kv = {0} and warps = {1} to want at most "
                   "{2} registers a thread, because matmuls in flight cannot "
                   "be spilled; got about {3}; lower either",
                   s.blockKV, s.warps, budget, f.registers());
  return "";
}

std::string fa2::fitError(const Target &t, const Problem &p, const Schedule &s,
                          const Footprint &f) {
  if (s.dq == GradQ::AtomicV4 && !t.hasVectorReductions())
    return formatv("expected dq = atomic or recompute on {0}, whose reductions "
                   "add one element; got dq = atomic_v4",
                   t.name());
  std::string wrong;
  if (t.producerWarps() > 0)
    wrong = rolesError(t, p, s, f);
  if (wrong.empty())
    wrong = togetherError(p, s);
  if (wrong.empty() && t.producerWarps() == 0)
    if (auto [expected, got] =
            fieldsOf({FieldGroup::AnyRoles, FieldGroup::Roles,
                      FieldGroup::GradientRoles},
                     s);
        !got.empty())
      wrong = formatv("expected {0} on {1}, which has no roles; got {2}",
                      expected, t.name(), got);
  if (wrong.empty())
    wrong = limitsError(t, p, s, f);
  if (wrong.empty() && t.producerWarps() > 0)
    wrong = registersError(t, p, s, f);
  return wrong;
}

static void explainFootprint(const Target &t, const Problem &p,
                             const Schedule &s, Selection &sel) {
  const Footprint &f = sel.footprint;
  int64_t budget = budgetOf(t, f, s);
  sel.blocksPerMultiprocessor =
      std::max<int64_t>(1, blocksPerMultiprocessor(t, f));
  auto count = [&](StringRef name, std::string reason,
                   Decision::Metrics metrics) {
    sel.reasons.push_back({Decision::Kind::Analysis, name.str(),
                           std::move(reason), std::move(metrics), ""});
  };
  count("shared-memory",
        formatv("shared memory: {0} of {1} bytes a block ({2})", f.sharedBytes,
                t.limits().sharedBytesPerBlock, describeShared(t, p, s, f)),
        {{"Bytes", std::to_string(f.sharedBytes)},
         {"Limit", std::to_string(t.limits().sharedBytesPerBlock)}});
  count("registers",
        formatv("registers: about {0} of {1} a thread (accumulator {2}, scores "
                "{3}, queries {4}, other {5})",
                f.registers(), budget, f.accumulatorRegisters, f.scoreRegisters,
                f.queryRegisters, f.otherRegisters),
        {{"Registers", std::to_string(f.registers())},
         {"Limit", std::to_string(budget)}});
  count("occupancy",
        formatv("{0} threads a block, about {1} block{2} a multiprocessor",
                f.threads, sel.blocksPerMultiprocessor,
                sel.blocksPerMultiprocessor == 1 ? "" : "s"),
        {{"Threads", std::to_string(f.threads)},
         {"Blocks", std::to_string(sel.blocksPerMultiprocessor)}});
  if (f.registers() > budget)
    sel.warnings.push_back(
        formatv("about {0} registers a thread are wanted of {1}: the kernel "
                "will probably spill",
                f.registers(), budget));
}

FailureOr<Selection> fa2::checkSchedule(const Target &target,
                                        const Problem &problem,
                                        ScheduleAttr attr, std::string &error) {
  const Schedule &s = attr.getFields();
  Selection sel;
  sel.schedule = attr;
  sel.footprint = footprint(target, problem, s);
  if (problem.backward != (s.partition == Partition::Keys)) {
    error = formatv("the schedule's partition is {0}; {1} takes {2}",
                    stringifyPartition(s.partition),
                    problem.backward ? "backward" : "forward",
                    problem.backward ? "keys" : "split_q or split_k");
    return failure();
  }
  error = fitError(target, problem, s, sel.footprint);
  if (!error.empty())
    return failure();
  explainFootprint(target, problem, s, sel);
  return sel;
}
