//===- ScoreForms.cpp - common score programs by name ---------------------===//

#include "ScoreForms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using llvm::formatv;

namespace {

constexpr llvm::StringLiteral kArgument = "argument";

/// Which coordinates index a bias: numbers of the region's arguments.
struct BiasKind {
  StringRef name;
  std::initializer_list<unsigned> indices;
};
const BiasKind kBiasKinds[] = {{"key", {1, 4}},
                               {"query", {1, 3}},
                               {"head", {2}},
                               {"head_key", {1, 2, 4}},
                               {"full", {1, 2, 3, 4}}};

const BiasKind *biasKind(const Specification &spec) {
  for (const BiasKind &kind : kBiasKinds)
    if (kind.name == spec.bias)
      return &kind;
  return nullptr;
}

bool hasProgram(const Specification &spec) {
  return !spec.softcap.empty() || !spec.alibi.empty() || !spec.bias.empty();
}

/// The cap that is compiled in, 0 where it is no number; none where it is an
/// argument.
std::optional<double> fixedCap(const Specification &spec) {
  if (spec.softcap == kArgument)
    return std::nullopt;
  double cap = 0;
  return StringRef(spec.softcap).getAsDouble(cap) ? 0 : cap;
}

class ScoreBuilder {
public:
  ScoreBuilder(AttentionOp op, const Specification &spec)
      : spec(spec), b(op.getContext()), loc(op.getLoc()) {
    SmallVector<Type> types{b.getF32Type()};
    types.append(4, b.getIndexType());
    llvm::append_range(types, op.getExtras().getTypes());
    block = b.createBlock(&op.getScore(), {}, types,
                          SmallVector<Location>(types.size(), loc));
  }

  void build() {
    Value score = block->getArgument(0);
    if (!spec.softcap.empty())
      score = cap(score);
    if (!spec.alibi.empty())
      score = add(score, alibi());
    if (const BiasKind *kind = biasKind(spec))
      score = add(score, read(nextOperand(), kind->indices));
    YieldOp::create(b, loc, score);
  }

private:
  Value nextOperand() { return block->getArgument(next++); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }

  Value read(Value tensor, ArrayRef<unsigned> indices) {
    SmallVector<Value> at;
    for (unsigned i : indices)
      at.push_back(block->getArgument(i));
    Value x = tensor::ExtractOp::create(b, loc, tensor, at);
    return x.getType().isF32()
               ? x
               : arith::ExtFOp::create(b, loc, b.getF32Type(), x);
  }

  /// c tanh(score / c). Where P is rounded to bf16, its tanh may be
  /// approximated.
  Value cap(Value score) {
    std::optional<double> fixed = fixedCap(spec);
    Value c = fixed ? arith::ConstantOp::create(
                          b, loc, b.getF32FloatAttr(float(*fixed)))
                    : nextOperand();
    Value one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1));
    Value inverse = arith::DivFOp::create(b, loc, one, c);
    Value x = arith::MulFOp::create(b, loc, score, inverse);
    auto tanh = math::TanhOp::create(b, loc, x);
    if (spec.dtype == "bf16")
      tanh.setFastmath(arith::FastMathFlags::afn);
    return arith::MulFOp::create(b, loc, tanh, c);
  }

  /// slope[head] (column - row)
  Value alibi() {
    Value slope = read(nextOperand(), {2});
    Value distance = arith::SubIOp::create(b, loc, block->getArgument(4),
                                           block->getArgument(3));
    distance = arith::IndexCastOp::create(b, loc, b.getI32Type(), distance);
    Value real = arith::SIToFPOp::create(b, loc, b.getF32Type(), distance);
    return arith::MulFOp::create(b, loc, slope, real);
  }

  const Specification &spec;
  OpBuilder b;
  Location loc;
  Block *block;
  unsigned next = 5;
};

} // namespace

std::vector<ScoreOperand> fa2::scoreOperands(MLIRContext *context,
                                             const Specification &spec) {
  Type f32 = Float32Type::get(context);
  auto tensor = [](size_t rank, Type element) {
    return RankedTensorType::get(
        SmallVector<int64_t>(rank, ShapedType::kDynamic), element);
  };
  std::vector<ScoreOperand> operands;
  if (spec.softcap == kArgument)
    operands.push_back({"softcap", f32});
  if (!spec.alibi.empty())
    operands.push_back({"slopes", tensor(1, f32)});
  if (const BiasKind *kind = biasKind(spec)) {
    Type dtype = spec.dtype == "bf16" ? Type(BFloat16Type::get(context))
                                      : Float16Type::get(context);
    operands.push_back({"bias", tensor(kind->indices.size(), dtype)});
  }
  return operands;
}

void fa2::buildScore(AttentionOp op, const Specification &spec) {
  if (hasProgram(spec))
    ScoreBuilder(op, spec).build();
}

std::string fa2::checkScore(const Specification &spec) {
  if (!spec.softcap.empty()) {
    std::optional<double> cap = fixedCap(spec);
    if (cap && !(float(*cap) > 0 && std::isfinite(float(*cap))))
      return formatv("expected softcap to be a positive number, or argument to "
                     "give it at the launch, got '{0}'",
                     spec.softcap);
  }
  if (!spec.alibi.empty() && spec.alibi != "head")
    return formatv("expected alibi to be head (slopes [heads]), got '{0}'",
                   spec.alibi);
  if (spec.bias.empty() || biasKind(spec))
    return "";
  std::string known;
  for (const BiasKind &kind : kBiasKinds)
    known += (known.empty() ? "" : ", ") + kind.name.str();
  return formatv("expected bias to be one of {0}, got '{1}'", known, spec.bias);
}
