//===- Control.cpp - loops, branches, blocks and roles --------------------===//

#include "Evaluate.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using namespace fa2::interpreter;

static Datum number(int64_t value) {
  auto tile = std::make_shared<Tile>();
  tile->whole = {value};
  return TileRef(tile);
}

/// The tiles of a launch, counted along the sequence, heads, batch.
static int64_t countPlaces(Frame &f, int64_t rows, int64_t block, int64_t heads,
                           int64_t batches) {
  if (block < 1) {
    f.fail() << "expected tiles of at least one row, got " << block;
    return 0;
  }
  return (rows + block - 1) / block * heads * batches;
}

/// Sets which one is computed, and gives a loop's three arguments. Of a head,
/// blocks of lower numbers have the tiles that the order starts with.
static SmallVector<Datum> enter(Frame &f, int64_t index, int64_t rows,
                                int64_t block, int64_t heads, TileOrder order) {
  int64_t tiles = (rows + block - 1) / block, tile = index % tiles;
  int64_t head = index / tiles % heads;
  if (order == TileOrder::LongestFirst || order == TileOrder::Balanced ||
      order == TileOrder::LongestBatchesAbreast ||
      (order == TileOrder::ShortestThenLongest &&
       head < heads - headsFromStart(heads)))
    tile = tiles - 1 - tile;
  f.place = {tile, head, index / tiles / heads, {}};
  if (f.block.peer)
    f.place.rank = f.block.rank;
  return {number(f.place.tile), number(f.place.head), number(f.place.batch)};
}

/// One block a tile, or one cluster: it takes the tile of its number.
void interpreter::run(Frame &f, ForEachTileOp op) {
  int64_t rows = f.whole(op.getRows()), heads = f.whole(op.getHeads()),
          block = op.getBlock();
  Cluster &cluster = *f.block.cluster;
  cluster.count = countPlaces(f, rows, block, heads, f.whole(op.getBatches()));
  if (op.getCluster() != (f.block.peer ? 2 : 1))
    f.fail() << "expected the cluster of the other roles, of two blocks";
  if (cluster.number < cluster.count && !f.halted())
    f.run(op.getBody().front(),
          enter(f, cluster.number, rows, block, heads, op.getOrder()));
}

/// One block takes them all, in any order that its roles agree on; so nobody
/// draws, and the queue is not needed.
void interpreter::run(Frame &f, TileLoopOp op) {
  int64_t rows = f.whole(op.getRows()), heads = f.whole(op.getHeads()),
          block = op.getBlock();
  int64_t count = countPlaces(f, rows, block, heads, f.whole(op.getBatches()));
  SmallVector<Datum> carried = f.get(op.getInits());
  for (int64_t visit = 0; visit < count && !f.halted(); ++visit) {
    SmallVector<Datum> given =
        enter(f, visit, rows, block, heads, op.getOrder());
    given.push_back(number(visit));
    given.append(carried);
    carried = f.run(op.getBody().front(), given);
  }
}

void interpreter::run(Frame &f, ForTilesOp op) {
  int64_t count = countTiles(f, op.getRange());
  SmallVector<Datum> carried = f.get(op.getInitArgs());
  for (int64_t place = op.getFrom(); place < count && !f.halted(); ++place) {
    SmallVector<Datum> given{number(tileAt(f, op.getRange(), place))};
    given.append(carried);
    carried = f.run(op.getBody().front(), given);
  }
  f.set(op.getResults(), carried);
}

void interpreter::run(Frame &f, scf::ForOp op) {
  int64_t upper = f.whole(op.getUpperBound()), step = f.whole(op.getStep());
  if (step < 1) {
    f.fail() << "expected a step of at least 1, got " << step;
    return;
  }
  SmallVector<Datum> carried = f.get(op.getInitArgs());
  for (int64_t i = f.whole(op.getLowerBound()); i < upper && !f.halted();
       i += step) {
    SmallVector<Datum> given{number(i)};
    given.append(carried);
    carried = f.run(*op.getBody(), given);
  }
  f.set(op.getResults(), carried);
}

void interpreter::run(Frame &f, scf::IfOp op) {
  Region &taken =
      f.whole(op.getCondition()) ? op.getThenRegion() : op.getElseRegion();
  if (!taken.empty())
    f.set(op.getResults(), f.run(taken.front(), {}));
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// Programs of a role: one of each warpgroup where they part, else one for all.
static int64_t programsOf(RolesOp roles, unsigned role) {
  bool part = roles.getPrograms()[role]
                  .walk([](WarpgroupOp) { return WalkResult::interrupt(); })
                  .wasInterrupted();
  return part ? roles.getWarps()[role] / kGroupWarps : 1;
}

void interpreter::run(Frame &f, RolesOp op) {
  std::vector<std::function<void()>> programs;
  for (auto [role, region] : llvm::enumerate(op.getPrograms())) {
    int64_t groups = programsOf(op, role);
    for (int64_t group = 0; group < groups; ++group)
      programs.push_back([&f, op, role = unsigned(role), group, groups] {
        Frame own(f, Strand{op, role, group, groups});
        RolesOp roles = op;
        own.run(roles.getPrograms()[role].front());
      });
  }
  f.block.cluster->strands.run(programs);
}

void interpreter::run(Frame &f, WarpgroupOp op) {
  f.set(op.getNumber(), f.strand.group);
}

void interpreter::run(Frame &f, RoleBarrierOp op) {
  int64_t &arrived = f.block.arrivals[op];
  int64_t all = arrived++ / f.strand.groups * f.strand.groups + f.strand.groups;
  f.wait("the role's other warpgroups", [&] { return arrived >= all; });
}
