//===- Flow.h - what holds at each point of a kernel ------------*- C++ -*-===//
//
// The verifier's walk over a role's program, or a block's where there are no
// roles. It carries what is true on all paths to a point: uses of rings held,
// matmuls in flight, copies open. Around a loop it looks for a state that, with
// the counter one on, is that of the next iteration too: such a state holds for
// any number of iterations.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_ANALYSIS_FLOW_H
#define FA2_ANALYSIS_FLOW_H

#include "fa2/Analysis/Symbols.h"

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"

#include <optional>

namespace fa2::gpu {

/// Use number `n` of a ring. Without a number it may be any use.
struct Use {
  mlir::Value ring;
  std::optional<Linear> n;
  mlir::Operation *at = nullptr; // for notes
  bool ownRows = false;   // each warpgroup reads or writes rows of its own
  bool groupsMet = false; // and each has met since
};

/// What threads or their copies put into a slot, and who sees it.
struct Filled : Use {
  enum Level { Issued, Grouped, Complete, SeenByGroup, Seen };
  Level level = Issued;
  int64_t younger = 0;                  // groups committed since its own
  bool generic = false, fenced = false; // by threads, and seen by the engines
};

/// A use between acquire and commit, or between wait and release.
struct Held : Filled {
  bool toWrite = false, written = false;
  bool met = false; // lanes have met since they wrote
};

/// A tile that is being copied to another block, which says that it has come by
/// giving the slot after `into`.
struct Sending : Use {
  Use into;
};

/// A matmul that may still read its operands.
struct Flying {
  mlir::Value dot;
  mlir::Operation *at = nullptr;
  llvm::SmallVector<Use, 2> reads;
};

struct State {
  // The same on all paths to a point.
  llvm::SmallVector<Held> held;
  llvm::SmallVector<Flying, 2> flying;          // oldest first
  llvm::MapVector<mlir::Value, Linear> next[2]; // uses to wait for, to acquire
  bool turn = false, given = false; // a turn taken; the first one given
  bool adding = false;              // in a block's turn at a sum
  // On all paths at least this.
  llvm::SmallVector<Filled, 4> filled;
  // On some path.
  llvm::SmallVector<Filled, 4> open;     // writes that not every thread sees
  llvm::SmallVector<Use> read;           // since the last barrier
  llvm::SmallVector<Filled, 4> byLanes;  // read, since the warp's last barrier
  llvm::SmallVector<Use> storing;        // tensor_store may read it
  llvm::SmallVector<Use> stored;         // it has, but not all have met since
  llvm::SmallVector<Sending, 2> sending; // peer_copy may read it
  bool owes = false; // a turn at a sum that is past is to be passed on later
};

class Flow {
public:
  Flow(Symbols &symbols, const llvm::SmallPtrSetImpl<mlir::Value> &shared)
      : symbols(symbols), shared(shared) {}

  /// Walks a role's region, or the block's program; false after an error.
  bool run(mlir::Block &block);

  /// The first use of each shared ring, and how many a tile takes, on the side
  /// that waits for them and on the side that fills them.
  struct Taken {
    Linear first, uses;
  };
  llvm::MapVector<mlir::Value, Taken> taken[2];
  /// What runs the tiles: fa2gpu.tile_loop or fa2.for_each_tile.
  mlir::Operation *tiles = nullptr;

private:
  // Flow.cpp: paths
  void block(mlir::Block &block);
  void loop(mlir::scf::ForOp op);
  void branch(mlir::scf::IfOp op);
  void program(mlir::Operation *op);
  void endTile(mlir::Operation *op);
  /// `state` one iteration on, or behind the loop, where its counter is `to`
  /// and what it carries is `carried`.
  void replaceCounter(State &state, mlir::scf::ForOp op, const Linear &to,
                      llvm::function_ref<Linear(unsigned)> carried);
  bool counts(mlir::scf::ForOp loop, mlir::Value ring, mlir::Value arg);
  /// Whether what must be the same is; complains at `op`.
  void expectSame(const State &a, const State &b, mlir::Operation *op,
                  llvm::StringRef where);
  /// What holds on each path stays; what does on some path is added.
  void merge(State &state, const State &other);
  bool contains(llvm::ArrayRef<Filled> set, const Filled &f, Filled *found);

  // FlowTurns.cpp: warpgroups that take turns
  /// Turns that are counted together, and uses of rings with them: a tile's, or
  /// those of an iteration of a loop around loops whose iterations are turns.
  struct Round {
    mlir::Operation *loop = nullptr; // null: the tile's
    Linear turns;                    // so far
    Linear turn;                     // the number of the one that is taken
    mlir::Operation *turnLoop = nullptr;
    llvm::DenseMap<mlir::Value, Linear> first; // a ring's first use
    /// What is known of a ring at turn t of a round, for all t: every warpgroup
    /// has released t + `released` uses before it takes the turn, and none has
    /// waited for use t + `waited` or more before it passes the turn.
    struct Window {
      int64_t released, waited;
      mlir::Operation *at; // that passes the turn
    };
    llvm::MapVector<mlir::Value, Window> windows;
  };
  /// Whether turns are counted from the beginning of an iteration of `op`.
  static bool isRound(mlir::scf::ForOp op);
  void beginRound(mlir::scf::ForOp op);
  Linear firstUse(mlir::Value ring);
  void endRound();
  /// The loop's iterations are turns; in them the turn is `turn`.
  void beginTurns(mlir::scf::ForOp op, const Linear &turn,
                  const Linear &iterations);
  /// Whether the turns counted so far are as many in every warpgroup.
  void expectEqualTurns();
  void waitTurn(TurnWaitOp op);
  void passTurn(TurnPassOp op);
  void addInTurn(AccumulateOp op);
  /// Whether no turn waits for a slot that a later turn releases.
  void expectFreeSlots();

  // FlowRules.cpp: what each operation asks for and does
  void step(mlir::Operation &op);
  void take(mlir::Operation *op, mlir::Value ring, mlir::Value use,
            bool toWrite);
  void give(mlir::Operation *op, mlir::Value ring, mlir::Value use,
            bool written);
  void reads(mlir::Operation *op, mlir::Value slot, bool byLanes);
  bool isHeld(mlir::Operation *source);
  /// What was written into a slot has come to those who read it now.
  void expectArrived(mlir::Operation *op, const Use &use, const Filled &filled,
                     bool byLanes);
  void writes(mlir::Operation *op, mlir::Value slot, bool generic);
  /// `acquired`: the ring's own uses have been waited for.
  void overwrites(mlir::Operation *op, const Use &use, bool acquired);
  void expectAligned(mlir::Operation *op);
  void startDot(DotStartOp op);
  void waitDot(DotWaitOp op);
  void storeTensor(TensorStoreOp op);
  void copyToPeer(PeerCopyOp op);
  void expectCopied(const Use &acquired);
  void fence();
  /// What was written: to slots that all may see, and to those that are held.
  void forEachFilled(llvm::function_ref<void(Filled &)> visit);
  /// All warps of the program have come here, or those of each warpgroup.
  void meet(bool together);

  Use useOf(mlir::Operation *at, mlir::Value ring, mlir::Value use);
  bool same(const Use &a, const Use &b);
  bool mayMeet(const Use &a, const Use &b);
  void fail(mlir::Operation *op, const llvm::Twine &text,
            mlir::Operation *note = nullptr, const llvm::Twine &why = "");

  Symbols &symbols;
  const llvm::SmallPtrSetImpl<mlir::Value> &shared; // rings between roles
  State now;
  llvm::SmallVector<Round, 2> rounds{Round()};
  /// The number of a ring's first use in this tile, in the next one, and in the
  /// block's first.
  struct Cursor {
    Linear here, next, begin;
  };
  llvm::MapVector<mlir::Value, Cursor> cursors[2];
  int quiet = 0; // > 0 while a loop's state is being found
  bool failed = false;
};

/// The name of a ring for messages.
llvm::StringRef nameOf(mlir::Value ring);

} // namespace fa2::gpu

#endif
