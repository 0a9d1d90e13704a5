//===- RangeOps.cpp - ranges of tiles and loops over them ----------------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fa2;

static LogicalResult verifyRanges(Operation *op) {
  for (Value operand : op->getOperands())
    if (isa<TileRangeType>(operand.getType()) &&
        !operand.getDefiningOp<RangeOfTiles>())
      return op->emitOpError() << "expected a range that an operation gives, "
                                  "because passes ask it for its tiles";
  return success();
}

LogicalResult TakeTilesOp::verify() { return verifyRanges(*this); }
LogicalResult DropTilesOp::verify() { return verifyRanges(*this); }
LogicalResult TileCountOp::verify() { return verifyRanges(*this); }
LogicalResult TileAtOp::verify() { return verifyRanges(*this); }
LogicalResult FullPlacesOp::verify() { return verifyRanges(*this); }

LogicalResult QRangeOp::verify() {
  if (getRotation() < 0)
    return emitOpError() << "expected a rotation of at least 0, got "
                         << getRotation();
  if (getRotation() != 0 && (getMask() || getFalling()))
    return emitOpError() << "expected no mask and no falling tiles in a range "
                            "with a rotation, got a rotation of "
                         << getRotation();
  return success();
}

static LogicalResult verifyAlike(Operation *op, Value own, Value range) {
  if (failed(verifyRanges(op)))
    return failure();
  auto isTurned = [](QRangeOp queries) {
    return queries && queries.getRotation() != 0;
  };
  auto mine = own.getDefiningOp<QRangeOp>(),
       all = range.getDefiningOp<QRangeOp>();
  if (own.getDefiningOp<RangeOfTiles>().falls() !=
          range.getDefiningOp<RangeOfTiles>().falls() ||
      isTurned(mine) || isTurned(all) ||
      (mine ? mine.getFalling() : Value()) !=
          (all ? all.getFalling() : Value()))
    return op->emitOpError() << "expected two ranges that both fall or both "
                                "rise, without a rotation";
  return success();
}

LogicalResult TilesUntilOp::verify() {
  return verifyAlike(*this, getOwn(), getRange());
}

LogicalResult TilesThroughOp::verify() {
  return verifyAlike(*this, getOwn(), getRange());
}

void ForTilesOp::build(OpBuilder &b, OperationState &state, Value range,
                       ValueRange inits, int64_t from) {
  state.addOperands(range);
  state.addOperands(inits);
  state.addTypes(inits.getTypes());
  if (from != 0)
    state.addAttribute(getFromAttrName(state.name), b.getI64IntegerAttr(from));
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types{b.getIndexType()};
  llvm::append_range(types, inits.getTypes());
  SmallVector<Location> locs(types.size(), state.location);
  b.createBlock(state.addRegion(), {}, types, locs);
  if (inits.empty())
    YieldOp::create(b, state.location);
}

SmallVector<Region *> ForTilesOp::getLoopRegions() { return {&getBody()}; }
MutableArrayRef<OpOperand> ForTilesOp::getInitsMutable() {
  return (*this)->getOpOperands().drop_front();
}
Block::BlockArgListType ForTilesOp::getRegionIterArgs() {
  return getBody().getArguments().drop_front();
}
std::optional<MutableArrayRef<OpOperand>>
ForTilesOp::getYieldedValuesMutable() {
  return getBody().front().getTerminator()->getOpOperands();
}
std::optional<ResultRange> ForTilesOp::getLoopResults() { return getResults(); }

ParseResult ForTilesOp::parse(OpAsmParser &p, OperationState &result) {
  OpAsmParser::UnresolvedOperand range;
  SmallVector<OpAsmParser::Argument> args(1);
  SmallVector<OpAsmParser::UnresolvedOperand> inits;
  SmallVector<Type> types;
  Builder &b = p.getBuilder();
  Type index = b.getIndexType();
  int64_t from = 0;
  if (p.parseArgument(args[0]) || p.parseKeyword("in") || p.parseOperand(range))
    return failure();
  args[0].type = index;
  if (succeeded(p.parseOptionalKeyword("from"))) {
    if (p.parseInteger(from))
      return failure();
    result.addAttribute("from", b.getI64IntegerAttr(from));
  }
  SmallVector<OpAsmParser::Argument> carried;
  if (succeeded(p.parseOptionalKeyword("iter_args")) &&
      (p.parseAssignmentList(carried, inits) || p.parseArrowTypeList(types)))
    return failure();
  llvm::SMLoc where = p.getCurrentLocation();
  if (carried.size() != types.size())
    return p.emitError(where) << "expected as many types as iter_args, "
                              << carried.size() << ", got " << types.size();
  for (auto [arg, type] : llvm::zip(carried, types))
    arg.type = type;
  args.append(carried);
  Region *body = result.addRegion();
  if (p.resolveOperand(range, TileRangeType::get(p.getContext()),
                       result.operands) ||
      p.resolveOperands(inits, types, where, result.operands) ||
      p.parseRegion(*body, args) || p.parseOptionalAttrDict(result.attributes))
    return failure();
  result.addTypes(types);
  if (body->front().empty() ||
      !body->front().back().hasTrait<OpTrait::IsTerminator>()) {
    OpBuilder end(p.getContext());
    end.setInsertionPointToEnd(&body->front());
    YieldOp::create(end, result.location);
  }
  return success();
}

void ForTilesOp::print(OpAsmPrinter &p) {
  p << ' ' << getTile() << " in " << getRange();
  if (getFrom() != 0)
    p << " from " << getFrom();
  if (!getInitArgs().empty()) {
    llvm::interleaveComma(llvm::zip(getRegionIterArgs(), getInitArgs()),
                          p << " iter_args(", [&](auto pair) {
                            p << std::get<0>(pair) << " = "
                              << std::get<1>(pair);
                          });
    p << ") -> (" << getResultTypes() << ')';
  }
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                /*printBlockTerminators=*/!getInitArgs().empty());
  p.printOptionalAttrDict((*this)->getAttrs(), {"from"});
}

LogicalResult ForTilesOp::verify() {
  if (failed(verifyRanges(*this)))
    return failure();
  if (int64_t(getFrom()) < 0)
    return emitOpError() << "expected from to be at least 0, got "
                         << int64_t(getFrom());
  auto yield = dyn_cast<YieldOp>(getBody().front().getTerminator());
  if (!yield || !llvm::equal(yield.getOperandTypes(), getResultTypes()))
    return emitOpError() << "expected fa2.yield of what the loop carries";
  SmallVector<Type> types{IndexType::get(getContext())};
  llvm::append_range(types, getResultTypes());
  if (!llvm::equal(getBody().getArgumentTypes(), types))
    return emitOpError() << "expected a tile and what the loop carries as "
                            "arguments of the body";
  return success();
}

FailureOr<LoopLikeOpInterface>
ForTilesOp::replaceWithAdditionalYields(RewriterBase &rewriter, ValueRange more,
                                        bool replaceInitUses,
                                        const NewYieldValuesFn &newYields) {
  assert(!replaceInitUses && "expected new values alone to be carried");
  SmallVector<Value> inits(getInitArgs());
  llvm::append_range(inits, more);
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(*this);
  auto loop = create(rewriter, getLoc(), getRange(), inits, getFrom());
  Block &body = loop.getBody().front(), &old = getBody().front();
  if (!body.empty())
    rewriter.eraseOp(body.getTerminator());
  auto yield = cast<YieldOp>(old.getTerminator());
  rewriter.setInsertionPoint(yield);
  ArrayRef<BlockArgument> added = body.getArguments();
  SmallVector<Value> yields =
      newYields(rewriter, getLoc(), added.take_back(more.size()));
  rewriter.modifyOpInPlace(yield,
                           [&] { yield.getValuesMutable().append(yields); });
  rewriter.mergeBlocks(&old, &body, body.getArguments().drop_back(more.size()));
  rewriter.replaceOp(*this, loop.getResults().drop_back(more.size()));
  return cast<LoopLikeOpInterface>(loop.getOperation());
}

/// What is yielded as it came is what the loop began with, and need not be
/// carried.
LogicalResult ForTilesOp::canonicalize(ForTilesOp op,
                                       PatternRewriter &rewriter) {
  Operation *yield = op.getBody().front().getTerminator();
  llvm::BitVector same(op.getNumResults());
  for (auto [i, arg] : llvm::enumerate(op.getRegionIterArgs()))
    same[i] = yield->getOperand(i) == arg;
  if (same.none())
    return failure();
  SmallVector<Value> inits, yields;
  for (unsigned i = 0; i < same.size(); ++i)
    if (!same[i]) {
      inits.push_back(op.getInitArgs()[i]);
      yields.push_back(yield->getOperand(i));
    }
  auto loop = create(rewriter, op.getLoc(), op.getRange(), inits, op.getFrom());
  Block &body = loop.getBody().front();
  if (inits.empty())
    rewriter.eraseOp(body.getTerminator());
  SmallVector<Value> args{loop.getTile()}, results;
  for (unsigned i = 0, next = 0; i < same.size(); ++i) {
    bool constant = same[i];
    args.push_back(constant ? Value(op.getInitArgs()[i])
                            : Value(loop.getRegionIterArgs()[next]));
    results.push_back(constant ? Value(op.getInitArgs()[i])
                               : Value(loop.getResult(next)));
    next += !constant;
  }
  rewriter.modifyOpInPlace(yield, [&] { yield->setOperands(yields); });
  rewriter.mergeBlocks(&op.getBody().front(), &body, args);
  rewriter.replaceOp(op, results);
  return success();
}
