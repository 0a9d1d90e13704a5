//===- Frame.cpp - what a program knows while it runs ---------------------===//

#include "Frame.h"

#include "Evaluate.h"

#include "mlir/IR/OpImplementation.h"

#include <limits>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using namespace fa2::interpreter;

void Frame::run(Block &code) {
  for (Operation &next : code) {
    if (halted())
      return;
    op = &next;
    evaluate(*this, op);
    op = &next; // a region's operations came after it
    if (block.program.observer && !halted())
      observe();
  }
}

SmallVector<Datum> Frame::run(Block &code, ArrayRef<Datum> given) {
  set(code.getArguments(), given);
  run(code);
  if (halted() || code.empty())
    return {};
  return get(ValueRange(code.back().getOperands()));
}

InFlightDiagnostic Frame::fail() {
  block.cluster->failed = true;
  return op->emitError();
}

void Frame::set(Value value, Datum datum) { values[value] = std::move(datum); }

void Frame::set(ValueRange to, ArrayRef<Datum> data) {
  if (halted())
    return;
  for (auto [value, datum] : llvm::zip_equal(to, data))
    set(value, datum);
}

const Datum &Frame::get(Value value) { return values[value]; }

SmallVector<Datum> Frame::get(ValueRange of) {
  return llvm::map_to_vector(of, [&](Value v) { return get(v); });
}

TileRef Frame::tile(Value value) {
  const Datum &datum = get(value);
  if (const TileRef *found = std::get_if<TileRef>(&datum))
    return *found;
  const Use *use = std::get_if<Use>(&datum);
  if (!use) {
    fail() << "expected tiles that operations before have given";
    return makeTile(value.getType());
  }
  Ring &ring = *use->ring;
  Ring::Slot &slot = ring.slots[use->number % ring.slots.size()];
  if (slot.use != use->number) {
    auto error = fail() << "reads use " << use->number << " of ring '"
                        << ring.op.getName() << "', but its slot holds ";
    slot.use < 0 ? error << "nothing yet" : error << "use " << slot.use;
  }
  return std::make_shared<Tile>(slot.tile);
}

Tile *Frame::written(const Use &use) {
  Ring::Slot &slot = use.ring->slots[use.number % use.ring->slots.size()];
  slot.use = use.number;
  return &slot.tile;
}

int64_t Frame::whole(Value value) {
  TileRef number = tile(value);
  return number->whole.empty() ? 0 : number->whole.front();
}

float Frame::real(Value value) {
  TileRef number = tile(value);
  return number->real.empty() ? 0 : number->real.front();
}

void Frame::set(Value value, int64_t whole) {
  auto number = std::make_shared<Tile>();
  number->whole = {whole};
  set(value, Datum(TileRef(number)));
}

void Frame::set(Value value, float real) {
  auto number = std::make_shared<Tile>();
  number->real = {real};
  set(value, Datum(TileRef(number)));
}

//===----------------------------------------------------------------------===//
// Parts of tiles
//===----------------------------------------------------------------------===//

/// The accumulator of whose layout a tile's, or a vector's, is a part.
static AccAttr accumulatorOf(Attribute encoding) {
  if (auto operand = dyn_cast_or_null<OperandAttr>(encoding))
    return operand.getAcc();
  if (auto row = dyn_cast_or_null<RowAttr>(encoding))
    return row.getAcc();
  return dyn_cast_or_null<AccAttr>(encoding);
}

/// The smallest part that has all elements of these warps.
static Part partOf(const TileLayout &layout, int64_t warps, int64_t group) {
  Part part{INT64_MAX, 0, INT64_MAX, 0};
  for (int64_t w = group * warps; w < (group + 1) * warps; ++w)
    for (int64_t lane = 0; lane < kWarpLanes; ++lane)
      for (int64_t reg = 0; reg < layout.numRegs(); ++reg) {
        Coord at = layout.at(w, lane, reg);
        part.rowBegin = std::min(part.rowBegin, at.row);
        part.rowEnd = std::max(part.rowEnd, at.row + 1);
        part.colBegin = std::min(part.colBegin, at.col);
        part.colEnd = std::max(part.colEnd, at.col + 1);
      }
  return part;
}

Part Frame::part(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  AccAttr acc = tensor ? accumulatorOf(tensor.getEncoding()) : AccAttr();
  if (strand.groups == 1 || !acc)
    return Part();
  auto [known, isNew] = block.program.parts.try_emplace(
      {type, strand.groups, strand.group}, Part());
  if (!isNew)
    return known->second;
  constexpr int64_t anyColumns = 64;
  bool vector = tensor.getRank() == 1;
  SmallVector<int64_t> shape{tensor.getDimSize(0),
                             vector ? anyColumns : tensor.getDimSize(1)};
  Part part = partOf(acc.tileLayout(shape), strand.warps(), strand.group);
  // A vector is a row of elements here, one a row of the accumulator.
  if (vector)
    part = {0, 1, part.rowBegin, part.rowEnd};
  return known->second = part;
}

//===----------------------------------------------------------------------===//
// Waiting, observing
//===----------------------------------------------------------------------===//

ThreadBlock *Frame::peer() {
  if (!block.peer)
    fail() << "expected fa2.for_each_tile with a cluster of two blocks";
  return block.peer;
}

void Frame::wait(const std::string &what, llvm::function_ref<bool()> ready) {
  Cluster &cluster = *block.cluster;
  std::string whose =
      block.peer ? " in block " + std::to_string(block.rank) : "";
  StrandKey self{block.rank, strand.role, strand.group};
  cluster.waiting.insert_or_assign(self, std::pair(op->getLoc(), what + whose));
  bool goesOn = cluster.strands.waitUntil([&] { return halted() || ready(); });
  cluster.waiting.erase(self);
  if (goesOn)
    return;
  InFlightDiagnostic error = fail() << "waits for ever for " << what << whose;
  for (const auto &[strand, other] : cluster.waiting)
    error.attachNote(other.first) << "so does this, for " << other.second;
}

/// "dot_start "s"" and "dot "s"" are one thing: so is what waits for it.
static std::string nameOf(Operation *op) {
  if (isa<DotOp, DotStartOp>(op)) {
    auto name = op->getAttrOfType<StringAttr>("name");
    return name ? "dot \"" + name.str() + "\"" : "dot";
  }
  if (isa<ApplyMaskOp, SoftmaxStepOp, SoftmaxRecomputeOp, SoftmaxFinishOp,
          SumRowsOp, AddRowsOp, ReadOp, DistanceOp>(op))
    return op->getName().stripDialect().str();
  return "";
}

static std::string whereIs(Location loc) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto file = loc->findInstanceOf<FileLineColLoc>())
    os << file.getFilename().getValue() << ":" << file.getLine() << ":"
       << file.getColumn();
  return text;
}

void Frame::observe() {
  std::string name = nameOf(op);
  if (name.empty())
    return;
  llvm::DenseMap<Value, std::string> names;
  if (auto named = dyn_cast<OpAsmOpInterface>(op))
    named.getAsmResultNames(
        [&](Value v, StringRef text) { names[v] = text.str(); });
  for (Value result : op->getResults()) {
    const TileRef *tile = std::get_if<TileRef>(&get(result));
    if (!tile || (*tile)->shape.empty() || (*tile)->real.empty())
      continue;
    std::string own = op->getNumResults() > 1 ? " " + names[result] : "";
    Type type = result.getType();
    if (auto flight = dyn_cast<InFlightType>(type))
      type = flight.getTile();
    block.program.observer({name + own, whereIs(op->getLoc()), place,
                            strand.group, part(type), *tile});
  }
}
