//===- ScoreProgram.cpp - a region of a score program ---------------------===//

#include "ScoreProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;

static bool is16Bit(Type t) {
  return t.isIntOrFloat() && t.getIntOrFloatBitWidth() == 16;
}

/// Operations that are elementwise and that the targets have no code for.
static bool hasNoCode(Operation &op) {
  if (isa_and_nonnull<math::MathDialect>(op.getDialect()))
    return !isa<math::ExpOp, math::Exp2Op, math::TanhOp, math::AbsFOp>(op);
  return isa<arith::RemFOp, arith::MaxNumFOp, arith::MinNumFOp>(op);
}

llvm::SetVector<Operation *> ScoreProgram::neededBy(Value v) {
  llvm::SetVector<Operation *> needed;
  SmallVector<Value> work{v};
  while (!work.empty())
    if (Operation *def = work.pop_back_val().getDefiningOp();
        def && needed.insert(def))
      llvm::append_range(work, def->getOperands());
  return needed;
}

bool ScoreProgram::onlyAdds() const {
  return matchPattern(result(1), m_OneFloat());
}

/// Sums, differences, products and choices of finite numbers are finite. What
/// does not depend on the row is as it is for all rows: -inf, say, which a
/// product with 0 makes a NaN of.
bool ScoreProgram::allowsRowsPastEnd() const {
  auto byRow = [&](Value v) {
    return dependsOn(v, Row) || dependsOn(v, Score);
  };
  auto reads = [&](Value v, bool ofRows) {
    return llvm::any_of(neededBy(v), [&](Operation *step) {
      auto read = dyn_cast<tensor::ExtractOp>(step);
      return read && isa<FloatType>(read.getType()) &&
             (!ofRows || dependsOn(read, Row));
    });
  };
  return llvm::all_of(neededBy(result()), [&](Operation *step) {
    Value value = step->getResult(0);
    if (!byRow(value) || !isa<FloatType>(value.getType()))
      return true;
    if (auto product = dyn_cast<arith::MulFOp>(step)) {
      Value x = product.getLhs(), y = product.getRhs();
      return !(reads(x, /*ofRows=*/true) && reads(y, /*ofRows=*/false)) &&
             !(reads(y, /*ofRows=*/true) && reads(x, /*ofRows=*/false));
    }
    return isa<arith::AddFOp, arith::SubFOp, arith::NegFOp, arith::SelectOp,
               arith::ExtFOp, arith::SIToFPOp, arith::UIToFPOp,
               tensor::ExtractOp, math::TanhOp, math::AbsFOp>(step);
  });
}

bool ScoreProgram::dependsOn(Value v, Argument argument) const {
  Value a = block().getArgument(argument);
  return v == a || llvm::any_of(neededBy(v), [&](Operation *step) {
           return llvm::is_contained(step->getOperands(), a);
         });
}

unsigned ScoreProgram::rowDimension(size_t i) const {
  unsigned dim = 0;
  while (coordinateOf(i, dim) != Row)
    ++dim;
  return dim;
}

/// Of 32 bits forward's, whose threads read the tiles as they lie.
bool ScoreProgram::readsTile(tensor::ExtractOp read) const {
  bool forward = isa<AttentionOp>(op);
  if (read.use_empty() || !(is16Bit(read.getType()) || forward))
    return false;
  auto varies = [&](Value index) {
    return llvm::any_of(ArrayRef{Score, Row, Column}, [&](Argument argument) {
      return dependsOn(index, argument);
    });
  };
  unsigned rows = 0, last = read.getIndices().size() - 1;
  for (unsigned dim = 0; dim <= last; ++dim) {
    Argument coordinate = coordinateOf(extraOf(read), dim);
    rows += coordinate == Row;
    if ((dim == last) != (coordinate == Column) ||
        (dim != last && coordinate != Row && varies(read.getIndices()[dim])))
      return false;
  }
  return rows == 1;
}

SmallVector<tensor::ExtractOp> ScoreProgram::tileReads() const {
  return llvm::filter_to_vector(
      block().getOps<tensor::ExtractOp>(),
      [&](tensor::ExtractOp read) { return readsTile(read); });
}

SmallVector<tensor::ExtractOp> ScoreProgram::elementReads() const {
  return llvm::filter_to_vector(
      block().getOps<tensor::ExtractOp>(), [&](tensor::ExtractOp read) {
        return !read.use_empty() && !readsTile(read) &&
               (dependsOn(read, Score) ||
                (dependsOn(read, Row) && dependsOn(read, Column)));
      });
}

SmallVector<tensor::ExtractOp> ScoreProgram::wideReads() const {
  return llvm::filter_to_vector(tileReads(), [](tensor::ExtractOp read) {
    return !is16Bit(read.getType());
  });
}

bool ScoreProgram::readsElements() const { return !elementReads().empty(); }

bool ScoreProgram::readsByDistance() const {
  SmallVector<tensor::ExtractOp> reads = elementReads();
  return !reads.empty() && llvm::all_of(reads, [&](tensor::ExtractOp read) {
    return byDistance(read.getIndices());
  });
}

Value ScoreProgram::withoutCasts(Value x) {
  while (auto cast = x.getDefiningOp<arith::IndexCastOp>())
    x = cast.getIn();
  return x;
}

std::optional<bool> ScoreProgram::distance(Operation *step) const {
  auto difference = dyn_cast_or_null<arith::SubIOp>(step);
  if (!difference)
    return std::nullopt;
  Value row = block().getArgument(Row), column = block().getArgument(Column),
        from = withoutCasts(difference.getRhs()),
        to = withoutCasts(difference.getLhs());
  if (from == row && to == column)
    return true;
  if (from == column && to == row)
    return false;
  return std::nullopt;
}

bool ScoreProgram::addsToScore() const {
  Value x = result();
  while (x != block().getArgument(Score)) {
    Operation *sum = x.getDefiningOp();
    if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp>(sum))
      return false;
    Value lhs = sum->getOperand(0), rhs = sum->getOperand(1);
    bool first = dependsOn(lhs, Score);
    if (first == dependsOn(rhs, Score) || (!first && isa<arith::SubFOp>(sum)))
      return false;
    x = first ? lhs : rhs;
  }
  return true;
}

bool ScoreProgram::isTranscendental() const {
  return llvm::any_of(block().without_terminator(), [&](Operation &step) {
    return isa<math::TanhOp, math::ExpOp, math::Exp2Op, arith::DivFOp>(step) &&
           dependsOn(step.getResult(0), Score);
  });
}

bool ScoreProgram::usesDistance() const {
  return llvm::any_of(block().without_terminator(), [&](Operation &step) {
    return distance(&step).has_value();
  });
}

bool ScoreProgram::byDistance(ValueRange values) const {
  llvm::SetVector<Value> work(values.begin(), values.end());
  for (size_t i = 0; i < work.size(); ++i) {
    if (llvm::any_of(ArrayRef{Score, Row, Column}, [&](Argument varies) {
          return work[i] == block().getArgument(varies);
        }))
      return false;
    Operation *step = work[i].getDefiningOp();
    if (step && !distance(step))
      work.insert(step->operand_begin(), step->operand_end());
  }
  return true;
}

bool ScoreProgram::isWhole(size_t i) const {
  auto type = dyn_cast<RankedTensorType>(extraType(i));
  if (!type || type.getRank() != 4 || coordinateOf(i, 3) != Column)
    return false;
  unsigned seen = 0;
  for (unsigned dim = 0; dim < 4; ++dim)
    seen |= 1u << coordinateOf(i, dim);
  return seen == (1u << Batch | 1u << Head | 1u << Row | 1u << Column);
}

/// Columns are neighbours, and the address is a multiple of 16 bytes; so are
/// other strides where the copy engine brings boxes, which begin at such
/// multiples. Threads copy whole chunks of 16 bytes, in which a row begins, and
/// so they do elements of 32 bits everywhere.
std::string ScoreProgram::loadsTiles(bool unaligned) const {
  llvm::SetVector<size_t> extrasOfTiles;
  for (tensor::ExtractOp read : tileReads())
    extrasOfTiles.insert(extraOf(read));
  SmallVector<std::string> all;
  for (size_t i : extrasOfTiles) {
    auto type = cast<RankedTensorType>(extraType(i));
    int64_t last = type.getRank() - 1,
            multiple = 128 / type.getElementTypeBitWidth();
    all.push_back(llvm::formatv("{0}.misalignment == 0", extraName(i)));
    auto stride = [&](int64_t dim) {
      return llvm::formatv("{0}.stride[{1}]", extraName(i), dim).str();
    };
    for (int64_t dim = 0; dim < last; ++dim) {
      all.push_back(stride(dim) + " >= 0");
      if (!unaligned)
        all.push_back(llvm::formatv("{0} % {1} == 0", stride(dim), multiple));
    }
    all.push_back(stride(last) + " == 1");
  }
  return llvm::join(all, " && ");
}

LogicalResult ScoreProgram::checkReadsScore() const {
  Value score = block().getArgument(Score);
  auto reads = [&](Operation *step) {
    return llvm::is_contained(step->getOperands(), score);
  };
  if (result() == score || llvm::any_of(neededBy(result()), reads))
    return success();
  return op->emitOpError() << "expected a score program whose result depends "
                              "on its score";
}

LogicalResult ScoreProgram::checkRead(tensor::ExtractOp read) const {
  auto tensor = dyn_cast<BlockArgument>(read.getTensor());
  if (!tensor || tensor.getOwner() != &block())
    return read.emitOpError() << "is not supported in a score program: "
                                 "expected a read of an argument of the region";
  if (!is16Bit(read.getType()))
    return success();
  for (Operation *user : read->getUsers())
    if (!isa<arith::ExtFOp>(user) || !user->getResult(0).getType().isF32())
      return read.emitOpError()
             << "is not supported in a score program: expected reads of "
             << read.getType() << " to be extended to f32 by arith.extf, got "
             << user->getName();
  return success();
}

LogicalResult ScoreProgram::checkStep(Operation &inner) const {
  auto unsupported = [&] {
    return inner.emitOpError() << "is not supported in a score program: ";
  };
  if (auto read = dyn_cast<tensor::ExtractOp>(inner))
    return checkRead(read);
  if (isa<ContributeOp>(inner))
    return success();
  if (!inner.hasTrait<OpTrait::ConstantLike>() &&
      (!inner.hasTrait<OpTrait::Elementwise>() || inner.getNumResults() != 1 ||
       inner.getNumRegions() != 0))
    return unsupported() << "expected elementwise operations with one result, "
                            "or tensor.extract";
  if (hasNoCode(inner))
    return unsupported() << "expected operations of arith but for remf, "
                            "maxnumf and minnumf, or math.exp, exp2, tanh and "
                            "absf";
  for (Type type : inner.getResultTypes())
    if (!type.isIntOrIndexOrFloat() || is16Bit(type) ||
        (isa<FloatType>(type) && !type.isF32()))
      return unsupported() << "expected values of f32, index or integers that "
                              "are not 16 bits wide, got "
                           << type;
  return success();
}

LogicalResult ScoreProgram::checkExtras() const {
  for (size_t i = 0; i < extras.size(); ++i) {
    Type type = extraType(i);
    auto tensor = dyn_cast<RankedTensorType>(type);
    Type element = tensor ? tensor.getElementType() : type;
    bool known = element.isF32() || element.isInteger(32) ||
                 (tensor && (element.isBF16() || element.isF16()));
    if (known && tensor)
      known = tensor.getRank() >= 1 && tensor.getRank() <= 4 &&
              int64_t(tensor.getNumDynamicDims()) == tensor.getRank();
    if (!known)
      return op->emitOpError()
             << "expected extra " << i << " (" << extraName(i)
             << ") to be f32 or i32, or a tensor of bf16, f16, f32 or i32 "
                "with 1 to 4 dimensions, all ?, got "
             << type;
  }
  return success();
}

LogicalResult ScoreProgram::check() const {
  if (failed(checkExtras()))
    return failure();
  for (Operation &inner : block().without_terminator())
    if (failed(checkStep(inner)))
      return failure();
  for (Operation &inner : block())
    for (Value v : inner.getOperands())
      if (v.getParentBlock() != &block())
        return inner.emitOpError() << "is not supported in a score program: "
                                      "expected values of the region only";
  return success();
}

std::string ScoreProgram::extraName(size_t i) const {
  return names ? cast<StringAttr>(names[i]).str() : "extra" + std::to_string(i);
}

ScoreProgram::Argument ScoreProgram::coordinateOf(size_t i,
                                                  unsigned dim) const {
  std::optional<unsigned> only;
  for (Operation *user : block().getArgument(FirstExtra + i).getUsers()) {
    OperandRange indices = user->getOperands();
    if (auto read = dyn_cast<tensor::ExtractOp>(user))
      indices = read.getIndices();
    else if (auto contribute = dyn_cast<ContributeOp>(user))
      indices = contribute.getIndices();
    else
      return Score;
    auto index = dyn_cast<BlockArgument>(indices[dim]);
    if (!index || (only && *only != index.getArgNumber()))
      return Score;
    only = index.getArgNumber();
  }
  return only && *only < FirstExtra ? Argument(*only) : Score;
}

ArgumentAttr ScoreProgram::describeExtra(size_t i) const {
  MLIRContext *ctx = op->getContext();
  Type type = extraType(i);
  auto tensor = dyn_cast<RankedTensorType>(type);
  SmallVector<Attribute> dims;
  for (int64_t d = 0; tensor && d < tensor.getRank(); ++d) {
    constexpr StringRef extents[] = {"", "batch", "heads", "seqlen_q",
                                     "seqlen_k"};
    Argument coordinate = coordinateOf(i, d);
    std::string name = coordinate == Score
                           ? extraName(i) + "_" + std::to_string(d)
                           : extents[coordinate].str();
    dims.push_back(StringAttr::get(ctx, name));
  }
  return ArgumentAttr::get(ctx, extraName(i), "in", ArrayAttr::get(ctx, dims),
                           tensor ? tensor.getElementType() : type, FloatAttr(),
                           StringAttr(), /*broadcast=*/bool(tensor));
}

/// What an operation has beside operands: a constant's value, a predicate.
static Attribute valueOf(Operation &op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return constant.getValue();
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return StringAttr::get(op.getContext(),
                           stringifyEnum(compare.getPredicate()));
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return StringAttr::get(op.getContext(),
                           stringifyEnum(compare.getPredicate()));
  return {};
}

/// Its name, and whether it is approximated.
static std::string nameOf(Operation &op) {
  auto tanh = dyn_cast<math::TanhOp>(op);
  bool approximate =
      tanh && bitEnumContainsAll(tanh.getFastmath(), arith::FastMathFlags::afn);
  return op.getName().getStringRef().str() +
         (approximate ? " fastmath<afn>" : "");
}

ProgramAttr ScoreProgram::describe() const {
  if (empty())
    return {};
  MLIRContext *ctx = op->getContext();
  llvm::DenseMap<Value, int64_t> numbers;
  for (BlockArgument argument : block().getArguments())
    numbers[argument] = int64_t(argument.getArgNumber());
  SmallVector<StringAttr> reads;
  for (size_t i = 0; i < extras.size(); ++i)
    reads.push_back(StringAttr::get(ctx, extraName(i)));
  SmallVector<StepAttr> steps;
  llvm::SetVector<Operation *> needed = neededBy(result());
  for (Operation &inner : block().without_terminator()) {
    if (!needed.contains(&inner))
      continue; // of the derivative
    SmallVector<int64_t> operands;
    for (Value v : inner.getOperands())
      operands.push_back(numbers.lookup(v));
    steps.push_back(StepAttr::get(ctx, nameOf(inner), operands, valueOf(inner),
                                  inner.getResult(0).getType()));
    int64_t next = int64_t(numbers.size());
    numbers[inner.getResult(0)] = next;
  }
  return ProgramAttr::get(ctx, reads, steps, numbers.lookup(result()));
}

bool fa2::isSummedOver(AttentionGradOp op, size_t i,
                       ScoreProgram::Argument coordinate) {
  auto type = cast<RankedTensorType>(op.getDextras()[i].getType());
  size_t extra = size_t((*op.getGrads())[i]);
  for (auto [dim, extent] : llvm::enumerate(type.getShape()))
    if (!ShapedType::isDynamic(extent) &&
        programOf(op).coordinateOf(extra, unsigned(dim)) == coordinate)
      return true;
  return false;
}

bool fa2::isSummedOverBatchAlone(AttentionGradOp op, size_t i) {
  return isSummedOver(op, i, ScoreProgram::Batch) &&
         !isSummedOver(op, i, ScoreProgram::Head);
}
