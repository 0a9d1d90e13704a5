//===- FA2.h - the fa2 dialect ----------------------------------*- C++ -*-===//
//
// Attention on tensors and one thread block's program over tiles. The .td files
// say what each op means.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_DIALECT_FA2_FA2_H
#define FA2_DIALECT_FA2_FA2_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fa2/Dialect/FA2/Schedule.h"

namespace fa2 {
/// Whether so many heads can share them.
constexpr bool isPackedHeads(int64_t n) {
  return n >= 1 && kGroupRows % n == 0;
}

/// Whether tiles start section by section of a launch's heads, so that keys and
/// values of those that run stay in the L2.
bool hasSections(TileOrder order);

/// Under TileOrder::ShortestThenLongest how many heads, the last ones, start
/// behind all others and with their first tile; as a number, in the program, or
/// as an expression of a launch.
int64_t headsFromStart(int64_t heads);
mlir::Value headsFromStart(mlir::OpBuilder &b, mlir::Location loc,
                           mlir::Value heads);
std::string headsFromStart(const std::string &heads);

/// A range of tiles as numbers. Place p has tile first - p where tiles fall,
/// else first + p.
struct TilePlaces {
  mlir::Value first, end; // one past the last tile of the sequence's order
  mlir::Value count;      // null where it has not been asked for
  mlir::Value fullBegin, fullEnd; // the full part
  bool falls = false;
  mlir::Value fallsWhere; // whether they fall, where the program alone knows
  /// Of rising tiles: place p has tile first + (p + rotation) mod count, and
  /// either all are full or none.
  mlir::Value rotation;
  /// Of falling tiles only the first can be one that is not full.
  bool onlyFirstRagged = false;
};
} // namespace fa2

#include "fa2/Dialect/FA2/FA2Dialect.h.inc"
#include "fa2/Dialect/FA2/FA2Interfaces.h.inc"
#include "fa2/Dialect/FA2/FA2OpInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "fa2/Dialect/FA2/FA2Attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "fa2/Dialect/FA2/FA2Types.h.inc"
#define GET_OP_CLASSES
#include "fa2/Dialect/FA2/FA2Ops.h.inc"

namespace fa2 {
/// Which guard of `variants`, beside the schedule `otherwise`, lets the batch
/// choose between other bits; empty where none does.
std::string batchGuardFault(llvm::ArrayRef<VariantAttr> variants,
                            ScheduleAttr otherwise);
/// A load says the column that it begins with where its view has `?` columns.
mlir::LogicalResult verifyColumn(mlir::Operation *load, ViewType view,
                                 mlir::Value column);
} // namespace fa2

#endif
