//===- FA2Ops.cpp - verifiers and assembly of the fa2 ops -----------------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fa2;

#define GET_OP_CLASSES
#include "fa2/Dialect/FA2/FA2Ops.cpp.inc"

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

static LogicalResult verifyHeadDim(Operation *op, StringRef name, int64_t dim) {
  if (dim >= 8 && dim <= 256 && dim % 8 == 0)
    return success();
  auto diag = op->emitOpError()
              << "expected " << name
              << " to be a multiple of 8 from 8 to 256, got " << dim;
  int64_t below = std::min<int64_t>(dim / 8 * 8, 256);
  if (dim <= 8)
    diag << "; the nearest supported is 8";
  else if (dim >= 256)
    diag << "; the nearest supported is 256";
  else
    diag << "; the nearest supported are " << below << " and " << below + 8;
  return diag;
}

using NamedType = std::pair<StringRef, RankedTensorType>;

/// Constraints 1 to 4 of attention and its gradient. `qk` are q and k, `vs` is
/// v and what has its head dim, `vectors` have a value a row.
static LogicalResult verifyTensors(Operation *op, ArrayRef<NamedType> qk,
                                   ArrayRef<NamedType> vs,
                                   ArrayRef<NamedType> vectors) {
  auto all = llvm::concat<const NamedType>(qk, vs);
  // 1. one 16-bit float type
  Type dtype = qk.front().second.getElementType();
  if (!dtype.isBF16() && !dtype.isF16())
    return op->emitOpError() << "expected q of bf16 or f16, got " << dtype;
  for (auto [name, t] : all)
    if (t.getElementType() != dtype)
      return op->emitOpError()
             << "expected " << name << " to have q's element type " << dtype
             << ", got " << t.getElementType();
  // 2. ranks and head dims
  for (auto [name, t] : all) {
    if (t.getRank() != 4)
      return op->emitOpError() << "expected " << name
                               << " to have rank 4, got rank " << t.getRank();
    if (t.isDynamicDim(3))
      return op->emitOpError() << "expected the head dim of " << name
                               << " to be static because it is compiled in";
  }
  // 2 and 3: what a launch gives
  auto dynamic = [&](StringRef name, RankedTensorType t,
                     int64_t dims) -> LogicalResult {
    for (int64_t dim = 0; dim < dims; ++dim)
      if (!t.isDynamicDim(dim))
        return op->emitOpError()
               << "expected dimension " << dim << " of " << name
               << " to be ? because a launch gives it, got "
               << t.getDimSize(dim);
    return success();
  };
  for (auto [name, t] : all)
    if (failed(dynamic(name, t, 3)))
      return failure();
  for (ArrayRef<NamedType> same : {qk, vs})
    for (auto [name, t] : same)
      if (int64_t d = same.front().second.getDimSize(3); t.getDimSize(3) != d)
        return op->emitOpError() << "expected " << name << "'s head dim to be "
                                 << same.front().first << "'s, " << d
                                 << ", got " << t.getDimSize(3);
  // 3. lse
  for (auto [name, t] : vectors) {
    if (t.getRank() != 3 || !t.getElementType().isF32())
      return op->emitOpError()
             << "expected " << name << " to be f32 of rank 3, got " << t;
    if (failed(dynamic(name, t, 3)))
      return failure();
  }
  // 4. head dims
  return success(
      succeeded(verifyHeadDim(op, "d", qk.front().second.getDimSize(3))) &&
      succeeded(verifyHeadDim(op, "d_v", vs.front().second.getDimSize(3))));
}

static RankedTensorType tensorType(Value v) {
  return cast<RankedTensorType>(v.getType());
}

/// A name for each extra, which no other argument of a kernel has.
static LogicalResult verifyExtraNames(Operation *op, ValueRange extras,
                                      ArrayAttr names,
                                      ArrayRef<int64_t> grads) {
  if (!names)
    return success();
  if (names.size() != extras.size())
    return op->emitOpError() << "expected extra_names for " << extras.size()
                             << " extras, got " << names.size();
  llvm::StringSet<> taken;
  for (StringRef name :
       {"q",         "k",     "v",     "out",      "lse",       "scale",
        "dout",      "dlse",  "sink",  "dsink",    "sink_sums", "dropout",
        "rng",       "dq",    "dk",    "dv",       "dq_sum",    "neg_lse",
        "neg_delta", "batch", "heads", "heads_kv", "seqlen_q",  "seqlen_k",
        "device",    "min",   "max",   "ceildiv",  "pow2floor", "if",
        "score",     "head",  "row",   "column"})
    taken.insert(name);
  for (auto [i, name] : llvm::enumerate(names.getAsValueRange<StringAttr>())) {
    bool identifier =
        !name.empty() && !llvm::isDigit(name[0]) &&
        llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (!identifier)
      return op->emitOpError() << "expected extra_names of letters, digits and "
                                  "_, not beginning with a digit, got '"
                               << name << "'";
    if (!taken.insert(name).second ||
        (llvm::is_contained(grads, i) &&
         !taken.insert(("d" + name).str()).second))
      return op->emitOpError()
             << "expected extra_names that nothing else has, got '" << name
             << "'";
  }
  return success();
}

/// Constraint 5 of attention, or 6 of its gradient.
static LogicalResult verifyProgram(Operation *op, Region &region,
                                   ValueRange extras, ArrayAttr names,
                                   size_t results,
                                   ArrayRef<int64_t> grads = {}) {
  if (failed(verifyExtraNames(op, extras, names, grads)))
    return failure();
  if (region.empty()) {
    if (!extras.empty())
      return op->emitOpError() << "expected a score region to read the "
                               << extras.size() << " extras";
    return success();
  }
  Builder b(op->getContext());
  SmallVector<Type> expected{b.getF32Type()};
  expected.append(4, b.getIndexType());
  llvm::append_range(expected, extras.getTypes());
  Block &program = region.front();
  if (!llvm::equal(program.getArgumentTypes(), expected))
    return op->emitOpError() << "expected the score region's arguments to be "
                                "(score, batch, head, row, column, extras...)";
  auto yield = program.empty() ? YieldOp() : dyn_cast<YieldOp>(program.back());
  auto isF32 = [](Type type) { return type.isF32(); };
  if (!yield || yield.getValues().size() != results ||
      !llvm::all_of(yield.getValues().getTypes(), isF32))
    return op->emitOpError() << "expected the score region to yield "
                             << (results == 1 ? "one f32" : "two f32");
  return success();
}

/// Constraint 7 of attention, or 8 of its gradient.
static LogicalResult verifySink(Operation *op, Value sink) {
  auto type = sink ? tensorType(sink) : RankedTensorType();
  if (!type || (type.getRank() == 1 && type.isDynamicDim(0) &&
                type.getElementType().isF32()))
    return success();
  return op->emitOpError() << "expected sink to be tensor<?xf32>, [heads], got "
                           << type;
}

/// Constraint 8 of attention and its gradient.
static LogicalResult verifyDropout(Operation *op, Value dropout, Value rng) {
  if (!dropout && !rng)
    return success();
  if (!dropout || !rng)
    return op->emitOpError() << "expected dropout and rng, or neither of them";
  RankedTensorType type = tensorType(rng);
  if (type.getRank() == 1 && type.getDimSize(0) == 4 &&
      type.getElementType().isInteger(32))
    return success();
  return op->emitOpError()
         << "expected rng to be tensor<4xi32>, seed and offset, got " << type;
}

/// Constraint 7 of attention's gradient.
static LogicalResult verifyExtraGradients(AttentionGradOp op) {
  ArrayRef<int64_t> grads = op.getGrads().value_or(ArrayRef<int64_t>());
  if (grads.size() != op.getDextras().size())
    return op.emitOpError()
           << "expected a result for each of the " << grads.size()
           << " grads, got " << op.getDextras().size();
  int64_t next = 0;
  for (auto [extra, result] : llvm::zip(grads, op.getDextras())) {
    if (extra < next || extra >= int64_t(op.getExtras().size()))
      return op.emitOpError()
             << "expected grads to be numbers of the " << op.getExtras().size()
             << " extras, in order, each once, got " << extra;
    next = extra + 1;
    Type type = op.getExtras()[extra].getType();
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!isa<FloatType>(getElementTypeOrSelf(type)))
      return op.emitOpError()
             << "expected extra " << extra
             << ", which is in grads, to be of floats, got " << type;
    Type f32 = Float32Type::get(op.getContext());
    Type expected = tensor ? tensor.clone(f32) : RankedTensorType::get(1, f32);
    if (result.getType() != expected)
      return op.emitOpError()
             << "expected the gradient of extra " << extra << " to be "
             << expected << ", got " << result.getType();
  }
  for (ContributeOp part : op.getScore().getOps<ContributeOp>()) {
    auto argument = dyn_cast<BlockArgument>(part.getExtra());
    bool known =
        argument && llvm::is_contained(grads, argument.getArgNumber() - 5);
    auto tensor = dyn_cast<RankedTensorType>(part.getExtra().getType());
    if (!known ||
        int64_t(part.getIndices().size()) != (tensor ? tensor.getRank() : 0))
      return part.emitOpError() << "expected an extra in grads with an index a "
                                   "dimension";
  }
  return success();
}

LogicalResult AttentionGradOp::verify() {
  SmallVector<NamedType> vectors{{"lse", tensorType(getLse())}};
  if (getDlse())
    vectors.emplace_back("dlse", tensorType(getDlse()));
  if (failed(verifyTensors(
          *this, {{"q", tensorType(getQ())}, {"k", tensorType(getK())}},
          {{"v", tensorType(getV())},
           {"out", tensorType(getOut())},
           {"dout", tensorType(getDout())}},
          vectors)))
    return failure();
  // 5. the gradients' types
  auto gradient = [&](StringRef name, Value d, StringRef of,
                      Value x) -> LogicalResult {
    if (d.getType() == x.getType())
      return success();
    return emitOpError() << "expected " << name << " to have the type of " << of
                         << ", " << x.getType() << ", got " << d.getType();
  };
  if (failed(gradient("dq", getDq(), "q", getQ())) ||
      failed(gradient("dk", getDk(), "k", getK())) ||
      failed(gradient("dv", getDv(), "v", getV())))
    return failure();
  // 6. the program and its derivative
  if (failed(verifyProgram(*this, getScore(), getExtras(), getExtraNamesAttr(),
                           /*results=*/2,
                           getGrads().value_or(ArrayRef<int64_t>()))))
    return failure();
  // 8. the sink
  if (failed(verifySink(*this, getSink())) ||
      failed(verifyDropout(*this, getDropout(), getRng())))
    return failure();
  if (getDsink() && !getSink())
    return emitOpError() << "expected a sink because there is dsink, its "
                            "gradient";
  if (getDsink() && getDsink().getType() != getSink().getType())
    return emitOpError() << "expected dsink to have the type of sink, "
                         << getSink().getType() << ", got "
                         << getDsink().getType();
  return verifyExtraGradients(*this);
}

/// Constraint 6 of attention.
static LogicalResult verifyVariants(AttentionOp op) {
  ArrayAttr variants = op.getVariantsAttr();
  if (!variants)
    return success();
  ScheduleAttr schedule = op.getScheduleAttr();
  if (!schedule)
    return op.emitOpError() << "expected a schedule because there are variants";
  constexpr size_t most = 8;
  if (variants.size() > most)
    return op.emitOpError() << "expected at most " << most << " variants, got "
                            << variants.size();
  for (auto variant : variants.getAsRange<VariantAttr>())
    if (StringRef target = variant.getSchedule().getTarget();
        target != schedule.getTarget())
      return op.emitOpError()
             << "expected variants for the schedule's target "
             << schedule.getTarget() << ", got one for " << target;
  if (std::string fault = batchGuardFault(
          llvm::to_vector(variants.getAsRange<VariantAttr>()), schedule);
      !fault.empty())
    return op.emitOpError() << fault;
  return success();
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyTensors(
          *this, {{"q", tensorType(getQ())}, {"k", tensorType(getK())}},
          {{"v", tensorType(getV())}, {"out", tensorType(getOut())}},
          NamedType("lse", tensorType(getLse())))))
    return failure();
  // 6. variants, 7. the sink
  if (failed(verifyVariants(*this)) || failed(verifySink(*this, getSink())) ||
      failed(verifyDropout(*this, getDropout(), getRng())))
    return failure();
  // 5. the score region
  return verifyProgram(*this, getScore(), getExtras(), getExtraNamesAttr(),
                       /*results=*/1);
}

//===----------------------------------------------------------------------===//
// kernel
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildFuncType = [](Builder &b, ArrayRef<Type> args, ArrayRef<Type> res,
                          function_interface_impl::VariadicFlag,
                          std::string &) {
    return b.getFunctionType(args, res);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), buildFuncType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &p) {
  function_interface_impl::printFunctionOp(
      p, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

LogicalResult KernelOp::verify() {
  if (getArguments().size() != getFunctionType().getNumInputs())
    return emitOpError() << "expected one description an argument, "
                         << getFunctionType().getNumInputs() << ", got "
                         << getArguments().size();
  for (auto [attr, type] : llvm::zip(getArguments().getAsRange<ArgumentAttr>(),
                                     getFunctionType().getInputs()))
    if (auto memref = dyn_cast<MemRefType>(type)) {
      if (memref.getRank() != int64_t(attr.getDims().size()))
        return emitOpError() << "expected " << attr.getName() << " to have "
                             << memref.getRank() << " named dims, got "
                             << attr.getDims().size();
      if (memref.getElementType() != attr.getDtype())
        return emitOpError()
               << "expected " << attr.getName() << " to be of "
               << memref.getElementType() << ", got " << attr.getDtype();
    }
  return success();
}

void KernelOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn name) {
  for (auto [attr, arg] : llvm::zip(getArguments().getAsRange<ArgumentAttr>(),
                                    region.getArguments()))
    name(arg, attr.getName());
}

//===----------------------------------------------------------------------===//
// for_each_tile
//===----------------------------------------------------------------------===//

void ForEachTileOp::build(OpBuilder &b, OperationState &state, Value rows,
                          Value heads, Value batches, int64_t block,
                          TileOrder order) {
  state.addOperands({rows, heads, batches});
  state.addAttribute(getBlockAttrName(state.name), b.getI64IntegerAttr(block));
  state.addAttribute(getOrderAttrName(state.name),
                     TileOrderAttr::get(b.getContext(), order));
  OpBuilder::InsertionGuard guard(b);
  Region *region = state.addRegion();
  Type index = b.getIndexType();
  b.createBlock(region, {}, {index, index, index},
                {state.location, state.location, state.location});
  ensureTerminator(*region, b, state.location);
}

ParseResult ForEachTileOp::parse(OpAsmParser &p, OperationState &result) {
  SmallVector<OpAsmParser::Argument, 3> args(3);
  SmallVector<OpAsmParser::UnresolvedOperand, 3> operands(3);
  Type index = p.getBuilder().getIndexType();
  int64_t block;
  for (int i = 0; i < 3; ++i) {
    if ((i > 0 && p.parseComma()) || p.parseArgument(args[i]))
      return failure();
    args[i].type = index;
  }
  if (p.parseKeyword("in") || p.parseLParen() || p.parseOperand(operands[0]) ||
      p.parseKeyword("by") || p.parseInteger(block) || p.parseComma() ||
      p.parseOperand(operands[1]) || p.parseComma() ||
      p.parseOperand(operands[2]) || p.parseRParen())
    return failure();
  if (succeeded(p.parseOptionalKeyword("order"))) {
    StringRef keyword;
    if (p.parseKeyword(&keyword))
      return failure();
    auto order = symbolizeTileOrder(keyword);
    if (!order)
      return p.emitError(p.getCurrentLocation())
             << "expected order ascending or longest_first, got " << keyword;
    result.addAttribute("order", TileOrderAttr::get(p.getContext(), *order));
  }
  result.addAttribute("block", p.getBuilder().getI64IntegerAttr(block));
  Region *body = result.addRegion();
  if (p.resolveOperands(operands, index, result.operands) ||
      p.parseRegion(*body, args) || p.parseOptionalAttrDict(result.attributes))
    return failure();
  ensureTerminator(*body, p.getBuilder(), result.location);
  return success();
}

void ForEachTileOp::print(OpAsmPrinter &p) {
  Block &block = getBody().front();
  p << ' ' << block.getArgument(0) << ", " << block.getArgument(1) << ", "
    << block.getArgument(2) << " in (" << getRows() << " by " << getBlock()
    << ", " << getHeads() << ", " << getBatches() << ")";
  if (getOrder() != TileOrder::Ascending)
    p << " order " << stringifyTileOrder(getOrder());
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                /*printBlockTerminators=*/false);
  p.printOptionalAttrDict((*this)->getAttrs(), {"order", "block"});
}

//===----------------------------------------------------------------------===//
// ranges of tiles, for_tiles
//===----------------------------------------------------------------------===//

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

LogicalResult TilesUntilOp::verify() {
  if (failed(verifyRanges(*this)))
    return failure();
  for (Value range : {getOwn(), getRange()})
    if (!range.getDefiningOp<RangeOfTiles>().falls())
      return emitOpError() << "expected two ranges of falling tiles";
  return success();
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

//===----------------------------------------------------------------------===//
// views and tiles
//===----------------------------------------------------------------------===//

/// A matrix that a source has in dimensions of its own: the columns are the
/// last, the rows are another, and so are batch entry and head, if it has any.
static LogicalResult verifyMatrix(ViewOp op, MemRefType source) {
  ViewType view = op.getView().getType();
  std::optional<ArrayRef<int64_t>> dims = op.getDims();
  if (!dims || !view.hasAnyColumns() ||
      view.getElementType() != source.getElementType() || op.getFirstColumn())
    return op.emitOpError()
           << "expected dims beside a view of ? columns of "
           << source.getElementType() << ", from the first on, got " << view;
  SmallVector<int64_t> all;
  for (int64_t dim : *dims)
    if (dim != -1)
      all.push_back(dim);
  bool rows = dims->size() == 4 && (*dims)[1] >= 0 &&
              ((*dims)[0] < 0 || (*dims)[2] >= 0) &&
              (*dims)[3] == source.getRank() - 1;
  llvm::sort(all);
  if (!rows || !llvm::equal(all, llvm::seq<int64_t>(0, source.getRank())))
    return op.emitOpError()
           << "expected dims to be the numbers of the source's batch, row, "
              "head and column dimensions, the last, or -1 for batch, or head "
              "too, which it has not; got ["
           << *dims << "] of " << source;
  return success();
}

LogicalResult ViewOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  ViewType view = getView().getType();
  if (getDims() || view.hasAnyColumns())
    return verifyMatrix(*this, source);
  int64_t cols = source.getRank() == 4 ? source.getDimSize(3) : 0;
  if (source.getRank() != 4 && source.getRank() != 3)
    return emitOpError() << "expected a source of rank 4 or 3, got rank "
                         << source.getRank();
  int64_t firstColumn = getFirstColumn();
  if (firstColumn < 0 || (cols > 0 && firstColumn >= cols) ||
      (cols == 0 && firstColumn != 0))
    return emitOpError() << "expected first_column to be one of " << cols
                         << " columns, got " << firstColumn;
  if ((firstColumn || (cols && view.getCols())
           ? view.getCols() > cols - firstColumn
           : view.getCols() != cols) ||
      view.getElementType() != source.getElementType())
    return emitOpError() << "expected a view of " << cols << " columns of "
                         << source.getElementType() << " because its source is "
                         << source << ", got " << view;
  return success();
}

static LogicalResult verifyTileOfView(Operation *op, Type tileType,
                                      ViewType view) {
  auto tile = cast<RankedTensorType>(tileType);
  if (!tile.hasStaticShape() || tile.getElementType() != view.getElementType())
    return op->emitOpError() << "expected a static tile of "
                             << view.getElementType() << ", got " << tile;
  int64_t cols = tile.getRank() == 2 ? tile.getDimSize(1) : 0;
  // A sum has the padding of the accumulator whose order it is in.
  if (tile.getRank() != 2 && view.hasAnyColumns())
    return op->emitOpError() << "expected a tile of rank 2, got " << tile;
  if (view.hasAnyColumns())
    return success();
  if (tile.getRank() > 2 ||
      (view.getOrder() ? cols > view.getCols() : cols != view.getCols()))
    return op->emitOpError() << "expected a tile of the view's "
                             << view.getCols() << " columns, got " << tile;
  return success();
}

LogicalResult fa2::verifyColumn(Operation *op, ViewType view, Value column) {
  if (view.hasAnyColumns() == bool(column))
    return success();
  return op->emitOpError() << "expected "
                           << (column ? "no column" : "a column to begin with")
                           << " because the view is " << view;
}

LogicalResult LoadOp::verify() {
  if (failed(verifyColumn(*this, getView().getType(), getColumn())))
    return failure();
  return verifyTileOfView(*this, getTile().getType(), getView().getType());
}

LogicalResult StoreOp::verify() {
  if (getView().getType().hasAnyColumns())
    return emitOpError() << "expected a view of as many columns as the tile, "
                            "got "
                         << getView().getType();
  return verifyTileOfView(*this, getTile().getType(), getView().getType());
}

LogicalResult AccumulateOp::verify() {
  auto tile = cast<RankedTensorType>(getTile().getType());
  if (tile.getRank() != 2 || !tile.getElementType().isF32())
    return emitOpError() << "expected a tile of f32, got " << tile;
  if (!getView().getType().getOrder())
    return emitOpError() << "expected a view with an order, in which it adds, "
                            "got "
                         << getView().getType();
  if (bool(getTurn()) != bool(getTurns()) ||
      (!getTurn() && (getBegins() || getEnds())))
    return emitOpError() << "expected a turn where it begins or ends (1)";
  if (ViewType turns = getTurns() ? getTurns().getType() : ViewType();
      turns && (!turns.getElementType().isInteger(32) || turns.getCols()))
    return emitOpError() << "expected turns of i32, a vector of them (1), got "
                         << turns;
  return verifyTileOfView(*this, tile, getView().getType());
}

/// A vector of one value a row, or a column, of a tile.
static LogicalResult verifyVector(Operation *op, Type vector, Type tile,
                                  bool columns) {
  auto v = cast<RankedTensorType>(vector), t = cast<RankedTensorType>(tile);
  if (t.getRank() != 2)
    return op->emitOpError() << "expected a tile of rank 2, got " << t;
  int64_t n = t.getDimSize(columns ? 1 : 0);
  if (v.getRank() != 1 || v.getDimSize(0) != n ||
      v.getElementType() != t.getElementType())
    return op->emitOpError() << "expected a value for each of the " << n << " "
                             << (columns ? "columns" : "rows") << ", got " << v;
  return success();
}

LogicalResult SoftmaxRecomputeOp::verify() {
  if (!getN())
    return success();
  return verifyVector(*this, getN().getType(), getS().getType(), getColumns());
}

LogicalResult BroadcastOp::verify() {
  return verifyVector(*this, getVector().getType(), getResult().getType(),
                      getColumns());
}

LogicalResult ReadOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  if (int64_t(getIndices().size()) != source.getRank())
    return emitOpError() << "expected " << source.getRank()
                         << " indices, one a dimension, got "
                         << getIndices().size();
  Type element = source.getElementType();
  if (element.isF16() || element.isBF16())
    element = Float32Type::get(getContext());
  if (getElementTypeOrSelf(getResult()) != element)
    return emitOpError() << "expected a result of " << element << ", got "
                         << getResult().getType();
  auto shaped = dyn_cast<RankedTensorType>(getResult().getType());
  for (Value index : getIndices()) {
    auto t = dyn_cast<RankedTensorType>(index.getType());
    if (!getElementTypeOrSelf(index).isIndex() ||
        (t && (!shaped || t.getShape() != shaped.getShape())))
      return emitOpError() << "expected each index to be an index or a tensor "
                              "of them with the result's shape, got "
                           << index.getType();
  }
  return success();
}

LogicalResult ScatterOp::verify() {
  auto sum = cast<MemRefType>(getSum().getType());
  auto values = cast<RankedTensorType>(getValues().getType());
  if (int64_t(getIndices().size()) != sum.getRank())
    return emitOpError() << "expected " << sum.getRank()
                         << " indices, one a dimension, got "
                         << getIndices().size();
  if (!sum.getElementType().isF32() || !values.getElementType().isF32())
    return emitOpError() << "expected values and a sum of f32, got " << values
                         << " and " << sum;
  ArrayRef<int64_t> shape;
  for (Value index : getIndices()) {
    auto t = dyn_cast<RankedTensorType>(index.getType());
    if (!getElementTypeOrSelf(index).isIndex() ||
        (t && !shape.empty() && t.getShape() != shape))
      return emitOpError() << "expected indices, or tensors of them with one "
                              "shape, got "
                           << index.getType();
    if (t)
      shape = t.getShape();
  }
  int64_t along = getColumns() ? values.getRank() - 1 : 0;
  if (shape.empty() || shape == values.getShape() ||
      (shape.size() == 1 && shape[0] == values.getDimSize(along)))
    return success();
  return emitOpError() << "expected indices of the values' shape, or of their "
                       << (getColumns() ? "columns" : "rows") << ", got "
                       << shape.size() << " dimensions, the first of "
                       << shape[0];
}

LogicalResult StoreSumsOp::verify() {
  auto rows = cast<RankedTensorType>(getRows().getType());
  auto sums = cast<MemRefType>(getSums().getType());
  if (rows.getRank() != 1 || !rows.getElementType().isF32() ||
      rows.getDimSize(0) % 16 != 0)
    return emitOpError() << "expected a vector of f32, 16 rows a sum, got "
                         << rows;
  if (!sums.getElementType().isF32() ||
      sums.getRank() != int64_t(getIndices().size()) + 1)
    return emitOpError() << "expected sums of f32 with one dimension more than "
                         << getIndices().size() << " indices, got " << sums;
  return success();
}

LogicalResult AddUpOp::verify() {
  auto parts = cast<MemRefType>(getParts().getType()),
       sums = cast<MemRefType>(getSums().getType());
  if (!parts.getElementType().isF32() || parts.getRank() < 2)
    return emitOpError() << "expected parts of f32 of rank 2 or more, got "
                         << parts;
  if (!sums.getElementType().isF32() || sums.getRank() != 1)
    return emitOpError() << "expected sums of f32 of rank 1, got " << sums;
  return success();
}

LogicalResult KeepOp::verify() {
  auto tile = cast<RankedTensorType>(getResult().getType());
  if (tile.getRank() != 2 || !tile.getElementType().isInteger(1))
    return emitOpError() << "expected a tile of i1, got " << tile;
  if (getWords().size() != 4)
    return emitOpError() << "expected 4 words, of seed and offset, got "
                         << getWords().size();
  return success();
}

LogicalResult AddRowsOp::verify() {
  return verifyVector(*this, getSums().getType(), getTile().getType(),
                      /*columns=*/false);
}

LogicalResult SumRowsOp::verify() {
  return verifyVector(*this, getSums().getType(), getTile().getType(),
                      /*columns=*/false);
}

LogicalResult DotOp::verify() {
  auto a = cast<RankedTensorType>(getA().getType());
  auto b = cast<RankedTensorType>(getB().getType());
  auto d = cast<RankedTensorType>(getD().getType());
  if (a.getRank() != 2 || b.getRank() != 2 || d.getRank() != 2)
    return emitOpError() << "expected tiles of rank 2";
  int64_t k = b.getDimSize(getTransposeB() ? 1 : 0);
  int64_t n = b.getDimSize(getTransposeB() ? 0 : 1);
  int64_t m = a.getDimSize(getTransposeA() ? 1 : 0);
  if (a.getDimSize(getTransposeA() ? 0 : 1) != k)
    return emitOpError() << "expected a to have b's " << k << " inner "
                         << (getTransposeA() ? "rows" : "columns") << ", got "
                         << a.getDimSize(getTransposeA() ? 0 : 1);
  int64_t first = getFirstColumn();
  if (first != 0 && (getTransposeB() || first < 0 || first % 32 != 0 ||
                     first + d.getDimSize(1) > n))
    return emitOpError() << "expected first_column to be a multiple of 32 that "
                            "leaves "
                         << d.getDimSize(1) << " of the " << n
                         << " columns of b, not transposed, got " << first;
  // Of columns that begin later, or stop earlier, there are as many as d has.
  if (d.getDimSize(0) != m ||
      (getTransposeB() ? d.getDimSize(1) != n : d.getDimSize(1) > n))
    return emitOpError() << "expected a result of " << m << "x" << n << ", got "
                         << d;
  if (getAcc() && getAcc().getType() != d)
    return emitOpError() << "expected acc to have the result's type " << d
                         << ", got " << getAcc().getType();
  return success();
}

/// Zeros stay zeros: factors are finite.
OpFoldResult ScaleRowsOp::fold(FoldAdaptor adaptor) {
  auto tile = dyn_cast_or_null<SplatElementsAttr>(adaptor.getTile());
  if (tile && tile.getSplatValue<APFloat>().isZero())
    return getTile();
  return {};
}

LogicalResult SoftmaxStepOp::verify() {
  auto s = cast<RankedTensorType>(getS().getType());
  for (Value v : {getM(), getL()}) {
    auto t = cast<RankedTensorType>(v.getType());
    if (t.getRank() != 1 || t.getDimSize(0) != s.getDimSize(0))
      return emitOpError() << "expected a value for each of the "
                           << s.getDimSize(0) << " rows, got " << t;
  }
  return success();
}
