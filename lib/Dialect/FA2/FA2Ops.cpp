//===- FA2Ops.cpp - kernels, their tiles, and what is generated ----------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace fa2;

#define GET_OP_CLASSES
#include "fa2/Dialect/FA2/FA2Ops.cpp.inc"

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
                          TileOrder order, int64_t cluster) {
  state.addOperands({rows, heads, batches});
  state.addAttribute(getBlockAttrName(state.name), b.getI64IntegerAttr(block));
  state.addAttribute(getOrderAttrName(state.name),
                     TileOrderAttr::get(b.getContext(), order));
  if (cluster != 1)
    state.addAttribute(getClusterAttrName(state.name),
                       b.getI64IntegerAttr(cluster));
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
             << "expected order ascending, longest_first or another of "
                "schedules, got "
             << keyword;
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
  SmallVector<StringRef, 3> said = {"order", "block"};
  if (getCluster() == 1)
    said.push_back("cluster");
  p.printOptionalAttrDict((*this)->getAttrs(), said);
}

/// Blocks of a cluster know each other: those of fa2.for_each_tile, or of what
/// became of it.
static LogicalResult verifyInCluster(Operation *op) {
  for (Operation *at = op->getParentOp(); at; at = at->getParentOp())
    if (auto blocks = at->getAttrOfType<IntegerAttr>("cluster");
        blocks && blocks.getInt() > 1)
      return success();
  return op->emitOpError() << "expected fa2.for_each_tile with a cluster of "
                              "blocks around it";
}

LogicalResult ClusterRankOp::verify() { return verifyInCluster(*this); }

LogicalResult ExchangeOp::verify() { return verifyInCluster(*this); }
