//===- Flow.cpp - the verifier's walk: blocks, branches, loops ------------===//

#include "fa2/Analysis/Flow.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

/// Rounds in which a loop's state must have been found.
static constexpr int kMaxRounds = 12;
/// Uses that one operation leaves behind; with more of them it may be any.
static constexpr int kMaxUses = 4;

StringRef fa2::gpu::nameOf(Value ring) {
  if (auto create = ring.getDefiningOp<RingCreateOp>())
    return create.getName();
  return "?";
}

void Flow::fail(Operation *op, const Twine &text, Operation *note,
                const Twine &why) {
  if (quiet > 0 || failed)
    return;
  failed = true;
  InFlightDiagnostic error = op->emitOpError() << text;
  if (note)
    error.attachNote(note->getLoc()) << why;
}

bool Flow::same(const Use &a, const Use &b) {
  return a.ring == b.ring && a.n && b.n && symbols.equal(*a.n, *b.n);
}

bool Flow::mayMeet(const Use &a, const Use &b) {
  if (a.ring == b.ring) {
    if (!a.n || !b.n)
      return true;
    Linear d = *a.n - *b.n;
    int64_t slots = cast<RingType>(a.ring.getType()).getSlots();
    return !d.isConstant() || d.constant % slots == 0;
  }
  auto first = a.ring.getDefiningOp<RingCreateOp>(),
       second = b.ring.getDefiningOp<RingCreateOp>();
  auto x = first.getOffset(), y = second.getOffset();
  return x && y && *x < *y + ringBytes(second) && *y < *x + ringBytes(first);
}

bool Flow::run(Block &program) {
  block(program);
  if (!now.storing.empty())
    fail(now.storing.front().at,
         "expected fa2gpu.store_wait before the program ends because the "
         "copy engine reads shared memory of ring '" +
             nameOf(now.storing.front().ring) + "'");
  if (now.given)
    fail(program.getParentOp(),
         "expected the first warpgroup to take its last turn (turn_wait first) "
         "before the program ends");
  return !failed;
}

void Flow::block(Block &block) {
  for (Operation &op : block) {
    if (failed)
      return;
    if (auto inner = dyn_cast<scf::ForOp>(op))
      loop(inner);
    else if (auto inner = dyn_cast<scf::IfOp>(op))
      branch(inner);
    else if (isa<TileLoopOp, ForEachTileOp>(op))
      program(&op);
    else
      step(op);
  }
}

//===----------------------------------------------------------------------===//
// Where paths meet
//===----------------------------------------------------------------------===//

void Flow::expectSame(const State &a, const State &b, Operation *op,
                      StringRef where) {
  auto missing = [&](const State &x, const State &y) {
    for (const Held &h : x.held)
      if (llvm::none_of(y.held, [&](const Held &o) {
            return o.toWrite == h.toWrite && same(h, o);
          }))
        return fail(h.at,
                    "expected this use of ring '" + nameOf(h.ring) +
                        "' to be " + (h.toWrite ? "committed" : "released") +
                        " on every path, or on none",
                    op, "paths that differ " + where);
  };
  missing(a, b);
  missing(b, a);
  if (a.flying.size() != b.flying.size() ||
      !llvm::equal(a.flying, b.flying, [](const Flying &x, const Flying &y) {
        return x.dot == y.dot;
      })) {
    const State &more = a.flying.size() > b.flying.size() ? a : b;
    fail(more.flying.empty() ? op : more.flying.back().at,
         "expected this matmul to be waited for on every path, or on none", op,
         "paths that differ " + where);
  }
  for (int side : {0, 1})
    for (auto &[ring, n] : a.next[side]) {
      auto it = b.next[side].find(ring);
      Linear d = it == b.next[side].end() ? Linear(0) : it->second - n;
      if (!symbols.equal(d, 0))
        fail(op, "expected as many uses of ring '" + nameOf(ring) +
                     "' on every path " + where +
                     (d.isConstant() ? ", got " + Twine(d.constant) + " more"
                                     : Twine("")));
    }
  if (a.turn != b.turn || a.given != b.given)
    fail(op, "expected the turn to be passed on every path " + where);
  if (a.adding != b.adding)
    fail(op, "expected additions in a turn to end it on every path " + where);
}

bool Flow::contains(ArrayRef<Filled> set, const Filled &f, Filled *found) {
  for (const Filled &o : set)
    if (o.generic == f.generic && same(f, o)) {
      *found = o;
      return true;
    }
  return false;
}

void Flow::merge(State &state, const State &other) {
  state.owes |= other.owes;
  auto weaken = [](Filled &f, const Filled &o) {
    f.level = std::min(f.level, o.level);
    f.younger = std::min(f.younger, o.younger);
    f.fenced &= o.fenced;
    f.ownRows &= o.ownRows;
  };
  llvm::erase_if(state.filled, [&](Filled &f) {
    Filled o;
    if (!contains(other.filled, f, &o))
      return true;
    weaken(f, o);
    return false;
  });
  for (Held &h : state.held)
    for (const Held &o : other.held)
      if (h.toWrite == o.toWrite && same(h, o)) {
        weaken(h, o);
        h.generic |= o.generic;
        h.written &= o.written;
        h.met &= o.met;
      }
  auto add = [&](auto &set, const auto &more) {
    for (const auto &m : more) {
      auto *it = llvm::find_if(set, [&](const auto &s) {
        return s.at == m.at && s.ring == m.ring &&
               (!s.n || (m.n && *s.n == *m.n));
      });
      auto sameSource = [&](const auto &s) {
        return s.at == m.at && s.ring == m.ring;
      };
      if (it == set.end() && llvm::count_if(set, sameSource) >= kMaxUses)
        it = llvm::find_if(set, sameSource), it->n = std::nullopt;
      if (it == set.end()) {
        set.push_back(m);
        continue;
      }
      it->groupsMet &= m.groupsMet;
      it->ownRows &= m.ownRows;
      if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Filled>)
        weaken(*it, m);
    }
  };
  add(state.open, other.open);
  add(state.read, other.read);
  add(state.byLanes, other.byLanes);
  add(state.storing, other.storing);
  add(state.stored, other.stored);
  add(state.sending, other.sending);
}

void Flow::branch(scf::IfOp op) {
  State before = now;
  auto arm = [&](Region &region) {
    now = before;
    if (!region.empty()) {
      block(region.front());
      Operation *end = region.front().getTerminator();
      for (Flying &f : now.flying)
        for (auto [from, to] : llvm::zip(end->getOperands(), op.getResults()))
          if (f.dot == from)
            f.dot = to;
    }
    return now;
  };
  State a = arm(op.getThenRegion());
  State b = arm(op.getElseRegion());
  expectSame(a, b, op, "meet behind this branch");
  now = a;
  merge(now, b);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

static void forEachUse(State &state, llvm::function_ref<void(Use &)> visit) {
  llvm::for_each(state.held, visit);
  for (Flying &f : state.flying)
    llvm::for_each(f.reads, visit);
  for (auto *set : {&state.filled, &state.open, &state.byLanes})
    llvm::for_each(*set, visit);
  for (auto *set : {&state.read, &state.storing, &state.stored})
    llvm::for_each(*set, visit);
  for (Sending &s : state.sending) {
    visit(s);
    visit(s.into);
  }
}

void Flow::replaceCounter(State &state, scf::ForOp op, const Linear &to,
                          llvm::function_ref<Linear(unsigned)> carried) {
  Value counter = op.getInductionVar();
  bool inside = symbols.involves(
      to, [&](Value v) { return v == counter; }); // else we leave the loop
  auto number = [&](Linear &n) {
    for (auto [i, arg] : llvm::enumerate(op.getRegionIterArgs()))
      if (arg.getType().isIndex())
        n = symbols.substitute(n, arg, carried(i));
    n = symbols.substitute(n, counter, to);
    return !symbols.involves(n, [&](Value v) {
      bool ofIteration =
          isa<BlockArgument>(v) && v.getParentBlock() == op.getBody();
      return op.getRegion().isAncestor(v.getParentRegion()) &&
             !(inside && ofIteration);
    });
  };
  for (auto &next : state.next)
    for (auto &entry : next)
      number(entry.second);
  forEachUse(state, [&](Use &use) {
    if (use.n && !number(*use.n))
      use.n = std::nullopt; // a value of an iteration that is over
  });
  llvm::erase_if(state.filled, [](const Filled &f) { return !f.n; });
}

/// Equal for states that say the same.
static std::vector<int64_t> fingerprint(const State &s) {
  std::vector<int64_t> print;
  auto add = [&](const Use &use) {
    print.push_back(int64_t(use.ring.getAsOpaquePointer()));
    print.push_back(use.ownRows + 2 * use.groupsMet);
    print.push_back(use.n ? use.n->constant : INT64_MAX);
    if (use.n)
      for (auto [symbol, factor] : use.n->terms)
        print.insert(print.end(), {int64_t(symbol), factor});
  };
  for (const auto *set : {&s.filled, &s.open, &s.byLanes})
    for (const Filled &f : *set) {
      add(f);
      print.insert(print.end(), {f.level, f.younger, f.fenced, -1});
    }
  for (const auto *set : {&s.read, &s.storing, &s.stored}) {
    llvm::for_each(*set, add);
    print.push_back(-2);
  }
  for (const Sending &sending : s.sending) {
    add(sending);
    add(sending.into);
  }
  print.push_back(-3);
  for (const Held &h : s.held) {
    add(h);
    print.insert(print.end(),
                 {h.level, h.younger, h.generic, h.fenced, h.written, h.met});
  }
  for (const Flying &f : s.flying)
    print.push_back(int64_t(f.dot.getAsOpaquePointer()));
  return print;
}

/// Whether uses of the ring in `loop` are numbered from `arg` on.
bool Flow::counts(scf::ForOp loop, Value ring, Value arg) {
  Linear number = symbols.of(arg);
  WalkResult found = loop.walk([&](Operation *op) {
    bool takes = isa<RingWaitOp, RingAcquireOp, RingSlotOp>(op);
    return takes && op->getOperand(0) == ring &&
                   llvm::is_contained(symbols.of(op->getOperand(1)).terms,
                                      number.terms[0])
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return found.wasInterrupted();
}

void Flow::loop(scf::ForOp op) {
  if (!matchPattern(op.getStep(), m_One()))
    return fail(op, "expected a step of 1");
  Linear lower = symbols.of(op.getLowerBound());
  Linear upper = symbols.of(op.getUpperBound());
  Linear counter = symbols.of(op.getInductionVar());
  Linear exit = symbols.max(lower, upper);
  if (symbols.equal(exit, upper))
    exit = upper;
  bool round = isRound(op);
  if (!round && !op.getBody()->getOps<TurnWaitOp>().empty() && quiet == 0)
    beginTurns(op, rounds.back().turns + (counter - lower), exit - lower);
  auto rename = [](State &state, ValueRange from, ValueRange to) {
    for (Flying &f : state.flying)
      for (auto [x, y] : llvm::zip(from, to))
        if (f.dot == x)
          f.dot = y;
  };
  auto atLower = [&](State state) {
    replaceCounter(state, op, lower,
                   [&](unsigned i) { return symbols.of(op.getInitArgs()[i]); });
    return state;
  };
  // What is carried goes on by what is yielded more.
  auto before = [&](unsigned i) {
    Linear arg = symbols.of(op.getRegionIterArg(i));
    return arg - (symbols.of(op.getYieldedValues()[i]) - arg);
  };
  auto iteration = [&](const State &begin) {
    now = begin;
    symbols.assume(counter - lower);
    symbols.assume(upper - counter - 1);
    block(*op.getBody());
    symbols.forget(2);
    State end = now;
    rename(end, op.getYieldedValues(), op.getRegionIterArgs());
    replaceCounter(end, op, counter - 1, before);
    return end;
  };
  State entry = now;
  rename(entry, op.getInitArgs(), op.getRegionIterArgs());
  // Uses of rings that the loop takes go on with its counter. Of what holds on
  // all paths, what an iteration does not keep is dropped.
  llvm::SmallPtrSet<Value, 8> moving;
  op.walk([&](Operation *inner) {
    if (isa<RingWaitOp, RingAcquireOp, RingSlotOp>(inner))
      moving.insert(inner->getOperand(0));
  });
  // By the counter, or by what the loop carries where the numbers say that.
  auto progress = [&](Value ring) {
    for (auto [arg, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs()))
      if (arg.getType().isIndex() && counts(op, ring, arg))
        return symbols.of(arg) - symbols.of(init);
    return counter - lower;
  };
  auto move = [&](Use &use) {
    if (use.n && moving.contains(use.ring))
      use.n = *use.n + progress(use.ring);
  };
  State begin = entry;
  forEachUse(begin, move);
  begin.filled.append(entry.filled);
  bool stable = false;
  ++quiet;
  for (int round = 0; round < kMaxRounds && !stable; ++round) {
    State end = iteration(begin), next = begin;
    merge(next, end);
    if (round == 0)
      for (int side : {0, 1})
        next.next[side] = end.next[side];
    stable = fingerprint(next) == fingerprint(begin) && round > 0;
    begin = next;
  }
  --quiet;
  if (!stable)
    fail(op, "expected copies and reads of an iteration to settle");
  expectSame(entry, atLower(begin), op, "at this loop's first iteration");
  now = begin;
  if (round)
    beginRound(op);
  expectSame(begin, iteration(begin), op,
             "from one iteration of this loop to the next");
  if (round)
    endRound();
  now = begin;
  rename(now, op.getRegionIterArgs(), op.getResults());
  replaceCounter(now, op, exit,
                 [&](unsigned i) { return symbols.of(op.getResult(i)); });
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Whether a use's number is `cursor` and what was added since.
static bool countsFrom(Value number, Value cursor) {
  if (number == cursor)
    return true;
  auto arg = dyn_cast<BlockArgument>(number);
  Operation *op = arg ? arg.getOwner()->getParentOp() : number.getDefiningOp();
  if (auto loop = dyn_cast_or_null<scf::ForOp>(op)) {
    OpOperand *init = arg ? loop.getTiedLoopInit(arg)
                          : loop.getTiedLoopInit(cast<OpResult>(number));
    return init && countsFrom(init->get(), cursor);
  }
  return !arg && op && op->getNumRegions() == 0 &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return operand.getType().isIndex() && countsFrom(operand, cursor);
         });
}

void Flow::program(Operation *op) {
  tiles = op;
  auto persistent = dyn_cast<TileLoopOp>(op);
  // The number that a ring's first use in a tile must have.
  op->walk([&](Operation *inner) {
    if (!isa<RingWaitOp, RingAcquireOp>(inner))
      return;
    Value ring = inner->getOperand(0), number = inner->getOperand(1);
    if (!shared.contains(ring))
      return;
    bool fills = isa<RingAcquireOp>(inner);
    Cursor cursor;
    if (persistent) {
      // What the block carries from tile to tile, or the number of the tile.
      Value visit = persistent.getVisit();
      if (countsFrom(number, visit))
        cursor = {symbols.of(visit), symbols.of(visit) + 1, Linear()};
      for (auto [arg, init, next] : llvm::zip(
               persistent.getCarried(), persistent.getInits(),
               persistent.getBody().front().getTerminator()->getOperands()))
        if (countsFrom(number, arg))
          cursor = {symbols.of(arg), symbols.of(next), symbols.of(init)};
    }
    now.next[fills].insert({ring, cursor.here});
    cursors[fills].insert({ring, cursor});
  });
  State begin = now;
  block(op->getRegion(0).front());
  endTile(op);
  if (!persistent || failed)
    return;
  // The tile before may have left stores behind, and tiles that it has sent,
  // whose uses are counted from where this one goes on.
  auto fromHere = [&](Use &use) {
    for (int side : {1, 0}) {
      auto found = cursors[side].find(use.ring);
      if (!use.n || found == cursors[side].end())
        continue;
      Linear behind = *use.n - found->second.next;
      if (behind.isConstant())
        use.n = found->second.here + behind;
      return;
    }
  };
  for (Sending &s : now.sending) {
    fromHere(s);
    fromHere(s.into);
  }
  merge(begin, now);
  now = begin;
  block(op->getRegion(0).front());
}

void Flow::endTile(Operation *op) {
  if (!now.held.empty()) {
    const Held &h = now.held.front();
    fail(h.at,
         "expected this use of ring '" + nameOf(h.ring) + "' to be " +
             (h.toWrite ? "committed" : "released") + " before the tile ends",
         op, "the tile ends here");
  }
  if (!now.flying.empty())
    fail(now.flying.front().at,
         "expected this matmul to be waited for before the tile ends", op,
         "the tile ends here");
  if (now.turn)
    fail(op, "expected fa2gpu.turn_pass before the tile ends");
  if (now.adding)
    fail(op, "expected additions in a turn to end it before the tile ends");
  if (now.owes)
    fail(op, "expected fa2gpu.change_turn to pass on what the last additions "
             "leave before the tile ends");
  expectEqualTurns();
  expectFreeSlots();
  for (int side : {0, 1})
    for (auto &[ring, n] : now.next[side]) {
      const Cursor &cursor = cursors[side][ring];
      taken[side][ring] = {cursor.begin, n - cursor.here};
      if (isa<TileLoopOp>(op) && !symbols.equal(n, cursor.next))
        fail(op->getRegion(0).front().getTerminator(),
             "expected the next tile to go on where this one ends in ring '" +
                 nameOf(ring) + "'");
    }
}
