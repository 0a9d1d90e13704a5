//===- LayoutAssignment.cpp - a layout for each tile in registers ---------===//

#include "fa2/Analysis/LayoutAssignment.h"

#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

static RankedTensorType tileType(Value v) {
  return dyn_cast<RankedTensorType>(v.getType());
}

/// Whether a vector lies in shared memory: what is loaded, or another role's.
static bool isShared(Value v) {
  return isa_and_nonnull<fa2::LoadOp, RelayOp>(v.getDefiningOp());
}

LayoutAssignment::LayoutAssignment(KernelOp kernel, MatmulFamilyAttr family)
    : kernel(kernel), family(family) {
  int64_t groups =
      kernel.getSchedule().getWarps() / family.warpsPerInstruction();
  byRows = AccAttr::get(kernel.getContext(), family,
                        {std::max<int64_t>(groups, 1), 1}, 1);
}

/// Whether the block, or one of its roles, has so many warps: those of a plan
/// that is written down, or that the schedule asks for.
static bool hasWarps(KernelOp kernel, int64_t warps) {
  auto plan = kernel->getAttrOfType<PlanAttr>(kPlanName);
  return warps == int64_t(kernel.getSchedule().getWarps()) ||
         warps == kernel.getSchedule().warpsOfGradQ() ||
         (plan && llvm::any_of(plan.getRoles(), [&](RoleAttr role) {
            return role.getWarps() == warps;
          }));
}

AccAttr LayoutAssignment::accOf(Operation *op, WarpGridAttr warps) {
  int64_t together = family.warpsPerInstruction();
  if (!hasWarps(kernel,
                warps.getDown() * warps.getAcross() * warps.getSums())) {
    op->emitOpError() << "expected the schedule's "
                      << kernel.getSchedule().getWarps()
                      << " warps, or those of a role, to have parts of the "
                         "tile, got "
                      << warps;
    failed = true;
    return {};
  }
  if (warps.getDown() % together != 0) {
    op->emitOpError() << "expected a multiple of " << together
                      << " warps down because " << family
                      << " multiplies with so many, got " << warps;
    failed = true;
    return {};
  }
  auto emit = [&] { return op->emitOpError(); };
  int64_t groups[] = {warps.getDown() / together, warps.getAcross()};
  auto acc = AccAttr::getChecked(emit, kernel.getContext(), family,
                                 ArrayRef<int64_t>(groups), warps.getSums());
  failed |= !acc;
  return acc;
}

/// Where warps share the columns, each has a value a row of its own part, as
/// of a private sum.
RowAttr LayoutAssignment::rowsOf(Operation *op, Attribute tile,
                                 Partial partial) {
  auto acc = dyn_cast<AccAttr>(tile);
  if (auto operand = dyn_cast<OperandAttr>(tile))
    acc = operand.getAcc();
  int64_t across = acc.getGroups()[1];
  if (across > 1) {
    if (acc.getGroups()[0] > 1 || family.warpsPerInstruction() > 1) {
      op->emitOpError() << "expected rows of one warp each, or all in every "
                           "warp, got "
                        << tile;
      failed = true;
      return {};
    }
    acc = AccAttr::get(kernel.getContext(), acc.getFamily(), {1, 1}, across);
  }
  return RowAttr::get(kernel.getContext(), acc, partial);
}

void LayoutAssignment::set(Value value, Attribute layout, Operation *by) {
  RankedTensorType type = tileType(value);
  if (!type || type.getEncoding() || !layout || failed)
    return;
  auto [it, isNew] = layouts.insert({value, {layout, by}});
  if (isNew)
    return changed.push_back(value);
  const Choice &known = it->second;
  if (known.layout == layout)
    return;
  failed = true;
  InFlightDiagnostic error = by->emitOpError()
                             << "expected one layout of a tile, got " << layout
                             << " for what has " << known.layout;
  error.attachNote(known.by->getLoc()) << "from here";
}

void LayoutAssignment::same(Operation *op, ValueRange values) {
  for (Value known : values)
    if (Attribute layout = of(known))
      for (Value v : values)
        if (tileType(v) && tileType(v).getRank() == tileType(known).getRank())
          set(v, layout, op);
}

void LayoutAssignment::rows(Operation *op, Value tile, ValueRange vectors,
                            Partial partial) {
  Attribute layout = of(tile);
  RowAttr row = layout ? rowsOf(op, layout, partial) : RowAttr();
  for (Value v : vectors)
    set(v, row, op);
}

/// Groups side by side: warps that multiply together have 16 rows each, those
/// that multiply alone have all of them.
void LayoutAssignment::sharedRows(Operation *op, Value tile, ValueRange vectors,
                                  Partial partial) {
  auto acc = dyn_cast_or_null<AccAttr>(of(tile));
  bool ownRows =
      acc && (acc.getGroups()[0] > 1 || family.warpsPerInstruction() > 1);
  if (!ownRows || acc.getGroups()[1] == 1)
    return rows(op, tile, vectors, partial);
  for (Value v : vectors)
    set(v, RowAttr::get(op->getContext(), acc, partial), op);
}

/// Indices lie as the values do that they are for.
void LayoutAssignment::scatter(ScatterOp op) {
  Value values = op.getValues();
  auto row = dyn_cast_or_null<RowAttr>(of(values));
  auto acc = dyn_cast_or_null<AccAttr>(of(values));
  for (Value index : op.getIndices()) {
    if (!tileType(index))
      continue;
    if (row)
      set(index, RowAttr::get(op.getContext(), row.getAcc(), Partial::None),
          op);
    else if (tileType(index).getRank() == 2)
      set(index, acc, op);
    else if (acc && op.getColumns())
      set(index, ColumnAttr::get(op.getContext(), acc), op);
    else
      sharedRows(op, values, index);
  }
}

void LayoutAssignment::visit(Operation *op) {
  if (auto dot = dyn_cast<DotOp>(op)) {
    if (dot.getAcc())
      same(op, {dot.getAcc(), dot.getD()});
  } else if (auto step = dyn_cast<SoftmaxStepOp>(op)) {
    same(op, {step.getS(), step.getP()});
    rows(op, step.getS(), {step.getM(), step.getNewM(), step.getAlpha()});
    rows(op, step.getS(), {step.getL(), step.getNewL()}, Partial::Lanes);
  } else if (auto finish = dyn_cast<SoftmaxFinishOp>(op)) {
    same(op, {finish.getO(), finish.getOut()});
    rows(op, finish.getO(), {finish.getM(), finish.getLse()});
    rows(op, finish.getO(), finish.getL(), Partial::Lanes);
  } else if (auto p = dyn_cast<SoftmaxRecomputeOp>(op)) {
    same(op, {p.getS(), p.getP()});
    if (p.getN() && !p.getColumns())
      rows(op, p.getS(), p.getN());
  } else if (auto tile = dyn_cast<BroadcastOp>(op)) {
    auto acc = dyn_cast_or_null<AccAttr>(of(tile.getResult()));
    if (tile.getDiagonals()) {
      int64_t rows = cast<RankedTensorType>(tile.getType()).getDimSize(0);
      if (acc && !isShared(tile.getVector()))
        set(tile.getVector(), DiagonalAttr::get(op->getContext(), acc, rows),
            op);
    } else if (!tile.getColumns())
      sharedRows(op, tile.getResult(), tile.getVector());
    else if (acc && !isShared(tile.getVector()))
      set(tile.getVector(), ColumnAttr::get(op->getContext(), acc), op);
  } else if (auto tile = dyn_cast<GatherOp>(op)) {
    same(op, {tile.getPlaces(), tile.getResult()});
  } else if (auto sum = dyn_cast<AddRowsOp>(op)) {
    sharedRows(op, sum.getTile(), {sum.getSums(), sum.getResult()},
               Partial::Lanes);
  } else if (auto add = dyn_cast<ScatterOp>(op)) {
    scatter(add);
  } else if (auto sum = dyn_cast<SumRowsOp>(op)) {
    rows(op, sum.getTile(), sum.getSums());
  } else if (auto scaled = dyn_cast<ScaleRowsOp>(op)) {
    same(op, {scaled.getTile(), scaled.getResult()});
    rows(op, scaled.getTile(), scaled.getFactors());
  } else if (auto mask = dyn_cast<ApplyMaskOp>(op)) {
    same(op, {mask.getScores(), mask.getResult()});
  } else if (auto swap = dyn_cast<fa2::ExchangeOp>(op)) {
    same(op, {swap.getTile(), swap.getResult()});
  } else if (op->hasTrait<OpTrait::Elementwise>() || isa<ReadOp>(op)) {
    SmallVector<Value> values(op->getOperands());
    llvm::append_range(values, op->getResults());
    llvm::erase_if(values, [](Value v) { return !tileType(v); });
    same(op, values);
  } else if (auto loop = dyn_cast<LoopLikeOpInterface>(op)) {
    for (BlockArgument arg : loop.getRegionIterArgs())
      if (tileType(arg))
        same(op, {loop.getTiedLoopInit(arg)->get(), arg,
                  loop.getTiedLoopYieldedValue(arg)->get(),
                  loop.getTiedLoopResult(arg)});
  }
}

void LayoutAssignment::spread() {
  while (!changed.empty() && !failed) {
    Value v = changed.pop_back_val();
    if (auto arg = dyn_cast<BlockArgument>(v))
      visit(arg.getOwner()->getParentOp());
    else
      visit(v.getDefiningOp());
    for (Operation *user : v.getUsers())
      // What a loop's body ends with is the loop's.
      visit(user->hasTrait<OpTrait::IsTerminator>() ? user->getParentOp()
                                                    : user);
  }
}

/// A vector that one warp computes for others.
RowAttr LayoutAssignment::rowsOfOneWarp() {
  MLIRContext *ctx = kernel.getContext();
  auto acc = AccAttr::get(ctx, LanesAttr::get(ctx), {1, 1}, 1);
  return RowAttr::get(ctx, acc, Partial::None);
}

/// What says a layout by itself.
void LayoutAssignment::anchor(Operation *op) {
  auto sum = [&](Value view, Value tile) {
    if (SumOrderAttr order = cast<ViewType>(view.getType()).getOrder())
      set(tile, accOf(op, order.getWarps()), op);
  };
  // What is loaded, a value a column or a diagonal, is read from shared memory
  // by whoever needs it.
  auto columns = SharedAttr::get(kernel.getContext(), 0);
  if (auto dot = dyn_cast<DotOp>(op); dot && dot.getWarps())
    set(dot.getD(), accOf(op, *dot.getWarps()), op);
  else if (auto load = dyn_cast<fa2::LoadOp>(op))
    sum(load.getView(), load.getTile());
  else if (auto store = dyn_cast<StoreOp>(op))
    sum(store.getView(), store.getTile());
  else if (auto add = dyn_cast<AccumulateOp>(op))
    sum(add.getView(), add.getTile());
  else if (auto resume = dyn_cast<ResumeOp>(op))
    sum(resume.getView(), resume.getTile());
  else if (auto p = dyn_cast<SoftmaxRecomputeOp>(op);
           p && p.getN() && p.getColumns())
    set(p.getN(), columns, op);
  else if (auto tile = dyn_cast<BroadcastOp>(op);
           tile && (tile.getColumns() || tile.getDiagonals()) &&
           isShared(tile.getVector()))
    set(tile.getVector(), columns, op);
  else if (auto tile = dyn_cast<GatherOp>(op))
    set(tile.getVector(), columns, op);
  else if (auto relay = dyn_cast<RelayOp>(op);
           relay && tileType(relay.getTile()).getRank() == 1)
    set(relay.getTile(), rowsOfOneWarp(), op);
}

/// Tiles that arithmetic takes from shared memory come as operands; all else is
/// shared by rows. One at a time, as each may decide others.
void LayoutAssignment::addDefaults() {
  auto give = [&](Operation *op, Value v, Attribute layout) {
    if (!tileType(v) || of(v))
      return;
    set(v, layout, op);
    spread();
  };
  kernel.walk([&](DotOp dot) { give(dot, dot.getD(), byRows); });
  kernel.walk([&](fa2::LoadOp load) {
    RankedTensorType type = tileType(load.getTile());
    if (type.getRank() == 2 && !type.getElementType().isF32())
      for (Operation *user : load.getTile().getUsers())
        if (user->hasTrait<OpTrait::Elementwise>())
          give(load, user->getResult(0), loaded());
  });
  // Vectors follow tiles.
  for (int64_t rank : {2, 1})
    kernel.walk([&](Operation *op) {
      for (Value v : op->getResults())
        if (RankedTensorType type = tileType(v); type && type.getRank() == rank)
          give(op, v,
               rank == 2
                   ? Attribute(byRows)
                   : RowAttr::get(kernel.getContext(), byRows, Partial::None));
    });
}

LogicalResult LayoutAssignment::run() {
  kernel.walk([&](Operation *op) {
    anchor(op);
    spread();
  });
  if (!failed)
    addDefaults();
  return failure(failed);
}
