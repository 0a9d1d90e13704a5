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
      take(loop, true, int64_t(loop.getCluster()));
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
    for (const std::string &each :
         orderExpressions(op, *tiles, extents, grid)) {
      signature.addInputs(rewriter.getIndexType());
      params.push_back(ParamAttr::get(ctx, "i32", each, 0, 1));
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
    if (tiles->persistent) {
      std::string most = "device.multiprocessors";
      if (tiles->cluster > 1)
        most = llvm::formatv("{0} * max(1, {1} / {0})", tiles->cluster, most);
      grid = "min(" + grid + ", " + most + ")";
    }
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

std::string fa2::gpu::dimName(ArgumentAttr arg, unsigned dim) {
  Attribute attr = arg.getDims()[dim];
  if (auto name = dyn_cast<StringAttr>(attr))
    return name.str();
  return std::to_string(cast<IntegerAttr>(attr).getInt());
}

bool fa2::gpu::inCluster(Operation *op) {
  auto func = dyn_cast<mlir::gpu::GPUFuncOp>(op);
  if (!func)
    func = op->getParentOfType<mlir::gpu::GPUFuncOp>();
  return func && func->hasAttr(NVVM::NVVMDialect::getClusterDimAttrName());
}

void fa2::gpu::populateKernelPatterns(TypeConverter &converter,
                                      RewritePatternSet &patterns) {
  patterns.add<KernelLowering, ReturnLowering, ForEachTileLowering,
               ClusterRankLowering, ChainWaitLowering, ChainPassLowering>(
      converter, patterns.getContext());
}
