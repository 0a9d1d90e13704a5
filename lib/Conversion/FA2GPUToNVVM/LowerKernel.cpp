//===- LowerKernel.cpp - kernels, their parameters and their grid ---------===//

#include "Lowering.h"

#include "fa2/Target/Target.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

std::string dimName(ArgumentAttr arg, unsigned dim) {
  Attribute attr = arg.getDims()[dim];
  if (auto name = dyn_cast<StringAttr>(attr))
    return name.str();
  return std::to_string(cast<IntegerAttr>(attr).getInt());
}

/// The stride of a packed workspace: its rows of one head are neighbours,
/// [batch, heads, rows] as [batch, rows, heads, columns]; so are rows alone.
std::string packedStride(ArgumentAttr arg, int64_t dim) {
  auto extent = [&](unsigned d) { return "(" + dimName(arg, d) + ")"; };
  if (arg.getDims().size() == 2)
    return dimName(arg, 1);
  if (arg.getDims().size() == 3)
    return dim == 0 ? extent(1) + " * " + extent(2) : extent(2);
  std::string cols = dimName(arg, 3);
  if (dim == 1)
    return cols;
  std::string head = extent(1) + " * " + cols;
  return dim == 2 ? head : extent(2) + " * " + head;
}

/// What hands out a kernel's tiles, in whatever it stands: the same extents in
/// every role.
struct TileSource {
  Operation *at;
  SmallVector<Value, 3> extents; // rows, heads, batches
  int64_t block;                 // rows of a tile
  TileOrder order;
  bool persistent;
  int64_t cluster; // blocks that take a tile together
};

std::optional<TileSource> tileSource(KernelOp kernel) {
  std::optional<TileSource> found;
  kernel.walk([&](Operation *op) {
    if (found)
      return WalkResult::interrupt();
    auto take = [&](auto tiles, bool persistent, int64_t cluster) {
      found = {tiles,
               {tiles.getRows(), tiles.getHeads(), tiles.getBatches()},
               int64_t(tiles.getBlock()),
               tiles.getOrder(),
               persistent,
               cluster};
    };
    if (auto each = dyn_cast<ForEachTileOp>(op))
      take(each, false, int64_t(each.getCluster()));
    else if (auto loop = dyn_cast<TileLoopOp>(op))
      take(loop, true, 1);
    return WalkResult::advance();
  });
  return found;
}

/// The names of a launch's rows, heads and batches. None unless the extents are
/// those of arguments.
SmallVector<std::string> extentNames(const TileSource &tiles,
                                     ArrayAttr arguments) {
  SmallVector<std::string> names;
  for (Value extent : tiles.extents) {
    if (auto scalar = dyn_cast<BlockArgument>(extent)) {
      names.push_back(
          cast<ArgumentAttr>(arguments[scalar.getArgNumber()]).getName().str());
      continue;
    }
    llvm::APInt count;
    if (matchPattern(extent, m_ConstantInt(&count))) {
      names.push_back(std::to_string(count.getSExtValue()));
      continue;
    }
    // Packed heads go together.
    std::string per;
    if (auto groups = extent.getDefiningOp<arith::DivUIOp>();
        groups && matchPattern(groups.getRhs(), m_ConstantInt(&count))) {
      per = " / " + std::to_string(count.getSExtValue());
      extent = groups.getLhs();
    }
    auto dim = extent.getDefiningOp<memref::DimOp>();
    auto source = dim ? dyn_cast<BlockArgument>(dim.getSource()) : nullptr;
    if (!source || !dim.getConstantIndex())
      return {};
    std::string name =
        dimName(cast<ArgumentAttr>(arguments[source.getArgNumber()]),
                *dim.getConstantIndex());
    if (!per.empty())
      name = llvm::formatv("({0}{1})", name, per);
    names.push_back(name);
  }
  return names;
}

/// What a launcher passes for each part of an argument, in the order of the
/// type conversion.
void describeParameters(MLIRContext *ctx, ArgumentAttr arg, Type type,
                        SmallVectorImpl<Attribute> &params) {
  auto push = [&](StringRef kind, StringRef of, int64_t dim = 0) {
    params.push_back(ParamAttr::get(ctx, kind, of, dim, 1));
  };
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref)
    return push("scalar", arg.getName());
  bool workspace = arg.getDirection() == "workspace";
  push(workspace ? "workspace" : "pointer", arg.getName());
  for (int64_t d = 0; d < memref.getRank(); ++d)
    if (memref.isDynamicDim(d))
      push("i32", dimName(arg, d));
  for (int64_t d = 0; d < numStrides(memref); ++d)
    if (workspace)
      push("i64", packedStride(arg, d));
    else
      push("stride", arg.getName(), d);
}

/// Heads of which tiles may start side by side, in a section: as many as have
/// at once in the level-2 cache what all tiles of a head read, the other
/// sequence: in 32 MB keys and values, a power of two, or, where it is that of
/// the first argument, in 34 queries, dO and the sum of dQ. Blocks that add in
/// turns wait for those of their head: without a mask all would do so at the
/// start, so that there should be four heads, if 48 MB have them; and what they
/// wait for is slow where the cache is full of tiles of scores that a program
/// reads, or reads and stores, which leaves half of it or a quarter. With few
/// tiles a head, of roles, which leave no room for a second block, a section is
/// instead one tile a multiprocessor at most: where the longest tiles of many
/// heads run at once they wait for memory, and later the short ones for the
/// tensor cores (docs/decisions/2026-11-26-sections-of-short-sequences.md).
std::string mostHeads(KernelOp op, const TileSource &source,
                      ArrayRef<std::string> extents) {
  bool turns = op.getSchedule().getDq() == GradQ::Ordered;
  auto rowsOf = [](ArgumentAttr arg) {
    return arg.getDims().size() > 1 ? dimName(arg, 1) : std::string();
  };
  ArrayAttr arguments = op.getArguments();
  std::string first = rowsOf(cast<ArgumentAttr>(arguments[0])), other = first;
  for (auto arg : arguments.getAsRange<ArgumentAttr>())
    if (other == extents[0])
      other = rowsOf(arg);
  auto hasScores = [&](ArgumentAttr arg) {
    auto names = llvm::map_range(llvm::seq<int64_t>(arg.getDims().size()),
                                 [&](int64_t d) { return dimName(arg, d); });
    return llvm::is_contained(names, extents[0]) &&
           llvm::is_contained(names, other);
  };
  int64_t ofScores =
      llvm::count_if(arguments.getAsRange<ArgumentAttr>(), hasScores);
  SpecAttr spec = op.getSpec();
  bool sums = other == first;
  int64_t rowBytes = (spec.getHeadDim() + spec.getHeadDimV()) * 2 +
                     (sums ? spec.getHeadDim() * 4 : 0);
  auto headsIn = [&](int64_t megabytes) -> std::string {
    return llvm::formatv("{0} / max(1, {1} * {2})", megabytes << 20, other,
                         rowBytes);
  };
  int64_t megabytes = !sums                     ? 32
                      : !turns || ofScores == 0 ? 34
                      : ofScores == 1           ? 16
                                                : 8;
  std::string fits = "max(1, " + headsIn(megabytes) + ")";
  if (!sums)
    fits = "pow2floor(" + fits + ")";
  else if (turns && !spec.getMask() && ofScores == 0)
    fits = llvm::formatv("max({0}, min(4, {1}))", fits, headsIn(48));
  constexpr int64_t mostRowBytes = 512; // of keys and values: as measured
  if (op.getOps<RolesOp>().empty() || (!sums && rowBytes > mostRowBytes))
    return fits;
  std::string tiles =
      llvm::formatv("ceildiv({0}, {1})", extents[0], source.block);
  std::string heads = llvm::formatv("{0} * {1}", extents[2], extents[1]);
  std::string blocks = "device.multiprocessors";
  std::string taken = tiles; // multiprocessors, by a head
  if (source.cluster > 1)
    taken = llvm::formatv("{0} * {1}", source.cluster, tiles);
  std::string narrow =
      llvm::formatv("pow2floor(max(1, {0} / max(1, {1})))", blocks, taken);
  std::string few =
      turns ? "{0} <= 4" : "{0} <= 4 || {0} <= 8 && {1} * {0} > 5 * {2}";
  return llvm::formatv(("if(" + few + ", min({3}, {4}), {4})").c_str(), tiles,
                       heads, blocks, narrow, fits);
}

/// Of backward, which reads a tile of what its batch shares for each step, one
/// head of all entries at a time measures best, and of one entry as above.
std::string mostInSection(KernelOp op, const TileSource &source,
                          ArrayRef<std::string> extents) {
  std::string most = mostHeads(op, source, extents);
  if (source.order != TileOrder::InterleavedBatchesAbreast)
    return most;
  return llvm::formatv("if({0} > 1, {0}, {1})", extents[2], most);
}

/// What a launch passes of each kernel's sections: of all heads or of each part
/// of them, the two numbers that are `Sections`.
SmallVector<std::string> sectionExpressions(TileOrder order,
                                            ArrayRef<std::string> extents,
                                            std::string most) {
  auto allOf = [&](const std::string &heads) -> std::string {
    return llvm::formatv("({0} * {1})", extents[2], heads);
  };
  auto sectionsOf = [&](const std::string &all) -> std::string {
    return llvm::formatv("max(1, ceildiv({0}, {1}))", all, most);
  };
  SmallVector<std::string> parts{extents[1]};
  if (order == TileOrder::ShortestThenLongest) {
    // No section is larger than an equal share of all heads.
    std::string all = allOf(extents[1]);
    most = llvm::formatv("max(1, ceildiv({0}, {1}))", all, sectionsOf(all));
    std::string others = headsFromStart(extents[1]);
    parts = {llvm::formatv("({0} - {1})", extents[1], others), others};
  }
  SmallVector<std::string> values;
  for (const std::string &heads : parts) {
    std::string all = allOf(heads), sections = sectionsOf(all);
    values.push_back(llvm::formatv("{0} / {1}", all, sections));
    values.push_back(llvm::formatv("{0} % {1}", all, sections));
  }
  assert(values.size() == numSectionArguments(order) && "one number each");
  return values;
}

/// Of the order `balanced`, how many of the longest of `tiles` start before any
/// other: all, but where blocks have between two and three each, a sequence has
/// eight at least and all heads start side by side. With Z tiles more than two
/// for each of W blocks they are W - Z^2 / 2 W, and the shortest follow them
/// until W + Z have started (docs/decisions/2026-11-26-balanced-tiles.md).
std::string longestExpression(const TileSource &source,
                              const std::string &tiles, const std::string &most,
                              ArrayRef<std::string> extents) {
  std::string blocks = "device.multiprocessors";
  std::string more = llvm::formatv("({0} - 2 * {1})", tiles, blocks);
  return llvm::formatv(
      "{0} - ({0} > 2 * {1} && {0} < 3 * {1} && ceildiv({2}, {3}) >= 8 && "
      "{4} * {5} <= {6}) * ({0} - {1} + {7} * {7} / (2 * {1}))",
      tiles, blocks, extents[0], source.block, extents[2], extents[1], most,
      more);
}

struct KernelLowering : public OpConversionPattern<KernelOp> {
  using OpConversionPattern::OpConversionPattern;

  /// The module of all of a program's kernels, named after the first.
  static mlir::gpu::GPUModuleOp moduleOf(KernelOp op,
                                         ConversionPatternRewriter &rewriter) {
    for (auto module : op->getBlock()->getOps<mlir::gpu::GPUModuleOp>())
      return module;
    OpBuilder::InsertionGuard guard(rewriter);
    auto module = mlir::gpu::GPUModuleOp::create(
        rewriter, op.getLoc(), (op.getSymName() + "_module").str());
    rewriter.setInsertionPointToStart(module.getBody());
    // The block's dynamic shared memory; its size comes with the launch.
    LLVM::GlobalOp::create(rewriter, op.getLoc(),
                           LLVM::LLVMArrayType::get(rewriter.getI8Type(), 0),
                           /*isConstant=*/false, LLVM::Linkage::External,
                           "shared_memory", Attribute(),
                           SharedLayout::kAlignment, kShared);
    return module;
  }

  LogicalResult
  matchAndRewrite(KernelOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getSharedBytes())
      return rewriter.notifyMatchFailure(
          op, "expected fa2gpu-allocate to have set shared_bytes");
    Location loc = op.getLoc();
    MLIRContext *ctx = getContext();
    ScheduleAttr schedule = op.getSchedule();
    std::optional<TileSource> tiles = tileSource(op);
    if (!tiles)
      return op.emitOpError() << "expected fa2.for_each_tile or "
                                 "fa2gpu.tile_loop, whose tiles are the grid";
    auto extents = extentNames(*tiles, op.getArguments());
    if (extents.empty())
      return tiles->at->emitOpError() << "expected tiles over arguments' "
                                         "extents, which a launcher knows";
    // One block a tile.
    std::string grid =
        llvm::formatv("ceildiv({0}, {1}) * {2} * {3}", extents[0], tiles->block,
                      extents[1], extents[2]);
    if (tiles->cluster > 1)
      grid = llvm::formatv("{0} * {1}", tiles->cluster, grid);
    TypeConverter::SignatureConversion signature(op.getNumArguments());
    SmallVector<Attribute> params;
    for (auto [i, type] : llvm::enumerate(op.getArgumentTypes())) {
      SmallVector<Type> types;
      if (failed(getTypeConverter()->convertType(type, types)))
        return rewriter.notifyMatchFailure(op, "an argument type");
      signature.addInputs(i, types);
      describeParameters(ctx, cast<ArgumentAttr>(op.getArguments()[i]), type,
                         params);
    }
    op.walk([&](TensorMapOp map) {
      auto arg = cast<BlockArgument>(map.getSource());
      auto described =
          cast<ArgumentAttr>(op.getArguments()[arg.getArgNumber()]);
      map.setParameter(signature.getConvertedTypes().size());
      signature.addInputs(LLVM::LLVMPointerType::get(ctx));
      params.push_back(ParamAttr::get(ctx, "tensor_map", described.getName(),
                                      map.getRows(), map.getHeads(),
                                      map.getDimsAttr()));
    });
    if (tiles->persistent) {
      signature.addInputs(LLVM::LLVMPointerType::get(ctx, kGlobal));
      // One that may run beside another draws from counters of its own.
      params.push_back(ParamAttr::get(ctx, "workspace", kTileCounters,
                                      op.followsOthersRows(), 1));
    }
    if (numSectionArguments(tiles->order) > 0) {
      auto add = [&](StringRef value) {
        signature.addInputs(rewriter.getIndexType());
        params.push_back(ParamAttr::get(ctx, "i32", value, 0, 1));
      };
      std::string most = mostInSection(op, *tiles, extents);
      if (tiles->persistent && tiles->order == TileOrder::Balanced)
        add(longestExpression(*tiles, grid, most, extents));
      for (const std::string &each :
           sectionExpressions(tiles->order, extents, most))
        add(each);
    }

    bool waits = op.walk([](ChainWaitOp) {
                     return WalkResult::interrupt();
                   }).wasInterrupted();
    mlir::gpu::GPUModuleOp module = moduleOf(op, rewriter);
    rewriter.setInsertionPointToEnd(module.getBody());
    auto func = mlir::gpu::GPUFuncOp::create(
        rewriter, loc, op.getSymName(),
        rewriter.getFunctionType(signature.getConvertedTypes(), {}));
    int32_t warps = schedule.getWarps();
    for (auto role : op.getOps<RolesOp>())
      warps = role.getTotalWarps();
    int32_t threads = warps * kWarpLanes;
    func->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(),
                  rewriter.getUnitAttr());
    func.setKnownBlockSizeAttr(rewriter.getDenseI32ArrayAttr({threads, 1, 1}));
    func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                  rewriter.getI32IntegerAttr(schedule.getMinBlocks()));
    if (tiles->cluster > 1)
      func->setAttr(
          NVVM::NVVMDialect::getClusterDimAttrName(),
          rewriter.getDenseI32ArrayAttr({int32_t(tiles->cluster), 1, 1}));
    rewriter.eraseBlock(&func.getBody().front());
    rewriter.inlineRegionBefore(op.getBody(), func.getBody(),
                                func.getBody().end());
    if (failed(rewriter.convertRegionTypes(&func.getBody(), *getTypeConverter(),
                                           &signature)))
      return rewriter.notifyMatchFailure(op, "the signature");

    const Target *target = targetOf(op);
    if (target && target->matmulFamily(ctx).warpsPerInstruction() > 1) {
      // The warp's number, said to be one value of the warp
      // (Emit::uniformWarp).
      rewriter.setInsertionPointToStart(&func.getBody().front());
      Emit e(rewriter, loc);
      e.sameInWarp(e.warp());
    }

    rewriter.setInsertionPoint(op); // launches keep the kernels' order
    if (tiles->persistent)
      grid = "min(" + grid + ", device.multiprocessors)";
    auto launch = [&](GuardAttr when, RowsAttr rows) {
      LaunchOp::create(
          rewriter, loc,
          SymbolRefAttr::get(ctx, module.getSymName(),
                             {FlatSymbolRefAttr::get(ctx, op.getSymName())}),
          rewriter.getStrArrayAttr({grid, "1", "1"}),
          rewriter.getI64IntegerAttr(threads), op.getSharedBytesAttr(),
          op.getSpec(), schedule, op.getArguments(),
          rewriter.getArrayAttr(params), when,
          waits ? rewriter.getUnitAttr() : UnitAttr(),
          rewriter.getI64IntegerAttr(tiles->cluster),
          op.getMain() ? rewriter.getUnitAttr() : UnitAttr(), rows);
    };
    GuardAttr when = op.getWhenAttr();
    if (!when || when.getExpression() != "0")
      launch(when, RowsAttr());
    if (ArrayAttr parts = op.getPartsAttr())
      for (auto rows : parts.getAsRange<RowsAttr>())
        launch(rows.getWhen(), rows);
    rewriter.eraseOp(op);
    return success();
  }
};

struct ReturnLowering : public OpConversionPattern<ReturnOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ReturnOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<mlir::gpu::ReturnOp>(op);
    return success();
  }
};

/// griddepcontrol, by every thread that comes here.
template <typename Op, NVVM::GridDepActionKind kind>
struct ChainLowering : public OpConversionPattern<Op> {
  using OpConversionPattern<Op>::OpConversionPattern;
  LogicalResult
  matchAndRewrite(Op op, typename OpConversionPattern<Op>::OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    NVVM::GriddepcontrolOp::create(rewriter, op.getLoc(), kind);
    rewriter.eraseOp(op);
    return success();
  }
};
using ChainWaitLowering =
    ChainLowering<ChainWaitOp, NVVM::GridDepActionKind::wait>;
using ChainPassLowering =
    ChainLowering<ChainPassOp, NVVM::GridDepActionKind::launch_dependents>;

/// One block a tile.
struct ForEachTileLowering : public OpConversionPattern<ForEachTileOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ForEachTileOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    Value rows = adaptor.getRows()[0], heads = adaptor.getHeads()[0];
    Value tiles =
        e.divU(e.add(rows, op.getBlock() - 1), e.index(op.getBlock()));
    Value id = mlir::gpu::BlockIdOp::create(rewriter, op.getLoc(),
                                            mlir::gpu::Dimension::x);
    if (int64_t cluster = op.getCluster(); cluster > 1)
      id = e.divU(id, e.index(cluster));
    auto func = op->getParentOfType<mlir::gpu::GPUFuncOp>();
    TileCoords at = decodeTile(e, id, tiles, heads, adaptor.getBatches()[0],
                               op.getOrder(), func);
    Block &body = op.getBody().front();
    rewriter.eraseOp(body.getTerminator());
    rewriter.inlineBlockBefore(&body, op, {at.tile, at.head, at.batch});
    rewriter.eraseOp(op);
    return success();
  }
};

struct ClusterRankLowering : public OpConversionPattern<ClusterRankOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ClusterRankOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<mlir::gpu::ClusterBlockIdOp>(
        op, mlir::gpu::Dimension::x);
    return success();
  }
};

} // namespace

bool fa2::gpu::inCluster(Operation *op) {
  auto func = dyn_cast<mlir::gpu::GPUFuncOp>(op);
  if (!func)
    func = op->getParentOfType<mlir::gpu::GPUFuncOp>();
  return func && func->hasAttr(NVVM::NVVMDialect::getClusterDimAttrName());
}

unsigned fa2::gpu::numSectionArguments(TileOrder order) {
  switch (order) {
  case TileOrder::Ascending:
  case TileOrder::Descending:
  case TileOrder::BatchesAbreast:
    return 0;
  case TileOrder::ShortestThenLongest:
    return 4;
  default:
    return 2;
  }
}

namespace {
/// A tile of a head, of all heads of a launch or of a part of them.
struct HeadsTile {
  Value tile, head;
};

/// Section after section; in each, the first tiles of all its heads, then the
/// second, and so on.
HeadsTile decodeInSections(Emit &e, Value number, Value tiles, Sections of) {
  Value wide = e.add(of.heads, 1), heads = e.mul(of.wider, wide);
  Value before = e.mul(heads, tiles);
  Value isWider = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult,
                                        number, before);
  Value zero = e.index(0), width = e.select(isWider, wide, of.heads);
  number = e.sub(number, e.select(isWider, zero, before));
  Value perSection = e.mul(width, tiles);
  Value first = e.add(e.select(isWider, zero, heads),
                      e.mul(e.divU(number, perSection), width));
  Value rest = e.remU(number, perSection);
  return {e.divU(rest, width), e.add(first, e.remU(rest, width))};
}
} // namespace

/// Ascending: the tiles of a head are neighbours. Descending: the same from the
/// last tile of all to the first. Interleaved, shortest first: in sections.
/// Longest first: the same from the last to the first. In each, a head's tiles
/// have rising numbers from one end to the other. Abreast: ascending,
/// interleaved or longest first, but a tile of one head in all entries of the
/// batch before the next, so that blocks which run at once share what is the
/// same in all of them. Shortest then longest: the first heads from the last
/// tile to the first, then the others from the first to the last.
TileCoords fa2::gpu::decodeTile(Emit &e, Value number, Value tiles, Value heads,
                                Value batches, TileOrder order,
                                mlir::gpu::GPUFuncOp func) {
  if (order == TileOrder::BatchesAbreast) {
    Value rest = e.divU(number, batches);
    return {e.remU(rest, tiles), e.divU(rest, tiles), e.remU(number, batches)};
  }
  auto fromLast = [&](Value tile) { return e.sub(e.add(tiles, -1), tile); };
  auto sections = func.getArguments().take_back(numSectionArguments(order));
  HeadsTile at;
  Value firstHead, someHeads = heads;
  switch (order) {
  case TileOrder::Ascending:
  case TileOrder::Descending:
    if (order == TileOrder::Descending) {
      Value total = e.mul(e.mul(tiles, heads), batches);
      number = e.sub(e.add(total, -1), number);
    }
    at = {e.remU(number, tiles), e.divU(number, tiles)};
    break;
  case TileOrder::ShortestThenLongest: {
    Value others = headsFromStart(e.b, e.loc, heads);
    Value first = e.sub(heads, others);
    Value before = e.mul(e.mul(first, tiles), batches);
    Value isOther = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::uge,
                                          number, before);
    auto choose = [&](Value x, Value y) { return e.select(isOther, x, y); };
    at = decodeInSections(
        e, choose(e.sub(number, before), number), tiles,
        {choose(sections[2], sections[0]), choose(sections[3], sections[1])});
    at.tile = choose(at.tile, fromLast(at.tile));
    firstHead = choose(first, e.index(0));
    someHeads = choose(others, first);
    break;
  }
  default:
    at = decodeInSections(e, number, tiles, {sections[0], sections[1]});
    if (order == TileOrder::LongestFirst || order == TileOrder::Balanced ||
        order == TileOrder::LongestBatchesAbreast)
      at.tile = fromLast(at.tile);
  }
  if (order == TileOrder::LongestBatchesAbreast ||
      order == TileOrder::InterleavedBatchesAbreast)
    return {at.tile, e.divU(at.head, batches), e.remU(at.head, batches)};
  Value head = e.remU(at.head, someHeads);
  if (firstHead)
    head = e.add(head, firstHead);
  return {at.tile, head, e.divU(at.head, someHeads)};
}

void fa2::gpu::populateKernelPatterns(TypeConverter &converter,
                                      RewritePatternSet &patterns) {
  patterns.add<KernelLowering, ReturnLowering, ForEachTileLowering,
               ClusterRankLowering, ChainWaitLowering, ChainPassLowering>(
      converter, patterns.getContext());
}
