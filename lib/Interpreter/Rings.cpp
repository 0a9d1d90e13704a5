//===- Rings.cpp - rings in shared memory, and copies to them -------------===//

#include "Evaluate.h"

#include <limits>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using namespace fa2::interpreter;

/// Nobody has written its slots: they hold NaNs.
void interpreter::run(Frame &f, RingCreateOp op) {
  std::unique_ptr<Ring> &ring = f.block.rings[op];
  ring = std::make_unique<Ring>();
  ring->op = op;
  RingType type = op.getRing().getType();
  auto poison = makeTile(type.getTile());
  std::fill(poison->real.begin(), poison->real.end(),
            std::numeric_limits<float>::quiet_NaN());
  ring->slots.assign(type.getSlots(), {*poison});
  f.set(op.getRing(), Datum(ring.get()));
}

static std::string describe(const char *what, const Ring &ring, int64_t use) {
  RingCreateOp op = ring.op;
  return (llvm::Twine(what) + " of use " + llvm::Twine(use) + " of ring '" +
          op.getName() + "'")
      .str();
}

/// The same ring of the cluster's other block, once that block has it.
static Ring *peerOf(Frame &f, Ring *ring) {
  ThreadBlock *peer = f.peer();
  if (!peer)
    return nullptr;
  std::unique_ptr<Ring> &other = peer->rings[ring->op];
  f.wait("the other block's ring '" + ring->op.getName().str() + "'",
         [&] { return other != nullptr; });
  return other.get();
}

/// Arrivals that end a phase of all parts of a tile, which are waited for
/// together. A program without roles arrives once; one thread starts copies,
/// whatever warps its role has.
static RingArrivals arrivals(Frame &f, Value ring) {
  if (f.strand.roles) {
    RingArrivals warps = arrivalsOf(ring, f.strand.roles);
    int64_t parts = cast<RingType>(ring.getType()).getParts();
    return {warps.consumers * parts,
            isCopied(ring) ? 1 : warps.fillers * parts};
  }
  auto any = [&](auto... ops) {
    return int64_t(llvm::any_of(ring.getUsers(), ops...));
  };
  return {any(llvm::IsaPred<RingWaitOp, RingReleaseOp>),
          isPeer(ring) ? 1 : any(llvm::IsaPred<RingCommitOp>)};
}

template <typename Op> static Use useOf(Frame &f, Op op) {
  Use use{f.as<Ring *>(op.getRing()), f.whole(op.getUse())};
  if (use.number < 0)
    f.fail() << "expected a use of at least 0, got " << use.number;
  return use;
}

void interpreter::run(Frame &f, RingAcquireOp op) {
  Use use = useOf(f, op);
  if (f.halted())
    return;
  int64_t before = use.number - int64_t(use.ring->slots.size());
  int64_t all = arrivals(f, op.getRing()).consumers;
  f.wait(describe("the release", *use.ring, before),
         [&] { return before < 0 || use.ring->released[before] >= all; });
  f.set(op.getSlot(), Datum(use));
  f.set(op.getNext(), use.number + 1);
}

/// What is copied to the other block commits there, by its arrival.
void interpreter::run(Frame &f, RingCommitOp op) {
  Use use = useOf(f, op);
  if (!f.halted() && !use.ring->op.getPeer())
    use.ring->filled[use.number] += f.strand.warps();
}

void interpreter::run(Frame &f, RingWaitOp op) {
  Use use = useOf(f, op);
  if (f.halted())
    return;
  int64_t all = arrivals(f, op.getRing()).fillers;
  f.wait(describe("the arrival", *use.ring, use.number),
         [&] { return use.ring->filled[use.number] >= all; });
  f.set(op.getTile(), Datum(use));
  f.set(op.getNext(), use.number + 1);
}

/// Who fills the slot again is told: of a peer ring, the other block.
void interpreter::run(Frame &f, RingReleaseOp op) {
  Use use = useOf(f, op);
  if (!f.halted() && use.ring->op.getPeer())
    use.ring = peerOf(f, use.ring);
  if (!f.halted())
    use.ring->released[use.number] += f.strand.warps();
}

void interpreter::run(Frame &f, RingSlotOp op) {
  f.set(op.getTile(), Datum(useOf(f, op)));
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Puts a tile into a use's slot, which may be padded.
static void put(Frame &f, const Use &use, const Tile &tile,
                Part part = Part()) {
  if (f.halted())
    return;
  Tile &to = *f.written(use);
  for (int64_t r = 0; r < tile.rows(); ++r)
    for (int64_t c = 0; c < tile.cols(); ++c)
      if (!part.holds(r, c))
        continue;
      else if (tile.real.empty())
        to.whole[r * to.cols() + c] = tile.whole[r * tile.cols() + c];
      else
        to.real[r * to.cols() + c] = tile.real[r * tile.cols() + c];
}

void interpreter::run(Frame &f, LocalStoreOp op) {
  TileRef tile = f.tile(op.getValue());
  Part part = f.part(op.getValue().getType());
  if (op.getTransposed()) {
    tile = transposed(*tile);
    part = {part.colBegin, part.colEnd, part.rowBegin, part.rowEnd};
  }
  put(f, f.as<Use>(op.getSlot()), *tile, part);
}

void interpreter::run(Frame &f, CopyOp op) {
  bool copies = !op.getPredicate() || f.whole(op.getPredicate());
  Type type = op.getSlot().getType();
  View view = f.as<View>(op.getView());
  if (op.getColumn())
    view.firstColumn = f.whole(op.getColumn());
  put(f, f.as<Use>(op.getSlot()),
      copies ? *loadTile(f, view, f.whole(op.getRow()), type)
             : *makeTile(type));
}

void interpreter::run(Frame &f, CopyOutOp op) {
  View view = f.as<View>(op.getView());
  if (op.getColumn())
    view.firstColumn = f.whole(op.getColumn());
  storeTile(f, view, f.whole(op.getRow()), *f.tile(op.getSlot()), Part());
}

void interpreter::run(Frame &f, TensorMapOp op) {
  f.set(op.getMap(), f.get(op.getSource()));
}

/// All rows of a batch entry and head, as the copy engine sees them.
template <typename Op> static View boxes(Frame &f, Op op) {
  View view{f.as<const Memory *>(op.getMap()), f.whole(op.getBatch()),
            f.whole(op.getHead())};
  int64_t rows = 1;
  if (auto map = op.getMap().template getDefiningOp<TensorMapOp>();
      map && map.getDims()) {
    view.dims = *map.getDims();
    rows = view.dims[1];
  }
  view.length = view.memory ? view.memory->shape[rows] : 0;
  view.heads = op.getHeads();
  if (op.getColumn())
    view.firstColumn = f.whole(op.getColumn());
  return view;
}

void interpreter::run(Frame &f, TensorCopyOp op) {
  put(f, f.as<Use>(op.getSlot()),
      *loadTile(f, boxes(f, op), f.whole(op.getRow()), op.getSlot().getType()));
}

void interpreter::run(Frame &f, BulkCopyOp op) {
  put(f, f.as<Use>(op.getSlot()),
      *loadTile(f, f.as<View>(op.getView()), f.whole(op.getRow()),
                op.getSlot().getType()));
}

/// One thread copies, of the role's first warpgroup.
void interpreter::run(Frame &f, PeerCopyOp op) {
  Use to = f.as<Use>(op.getSlot()), use = useOf(f, op);
  if (f.halted() || f.strand.group > 0)
    return;
  to.ring = peerOf(f, to.ring);
  put(f, to, *f.tile(op.getTile()));
  if (Ring *told = f.halted() ? nullptr : peerOf(f, use.ring))
    ++told->filled[use.number];
}

/// A warpgroup's part is 64 rows; those that share rows store them all.
void interpreter::run(Frame &f, TensorStoreOp op) {
  TileRef tile = f.tile(op.getSlot());
  Part part;
  if (f.strand.groups > 1) {
    part.rowBegin = f.strand.group / int64_t(op.getAcross()) * kGroupRows;
    part.rowEnd = part.rowBegin + kGroupRows;
  }
  storeTile(f, boxes(f, op), f.whole(op.getRow()), *tile, part);
}
