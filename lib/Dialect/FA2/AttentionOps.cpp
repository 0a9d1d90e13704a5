//===- AttentionOps.cpp - attention and its gradients on tensors ---------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fa2;

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
    bool other = taken.insert(name).second;
    // Of a gradient, its sum in the workspace, and the kernel that zeroes it.
    if (llvm::is_contained(grads, i))
      for (StringRef of : {"", "_sum", "_zero"})
        other &= taken.insert(("d" + name + of).str()).second;
    if (!other)
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

/// Whether a gradient of that type may be of its extra's: an extent of 1 is
/// that of a dimension which it is summed over.
static bool isOfExtrasType(Type gradient, RankedTensorType extra) {
  auto type = dyn_cast<RankedTensorType>(gradient);
  if (!type || !extra || extra.getElementTypeBitWidth() != 16 ||
      type.getElementType() != extra.getElementType() ||
      type.getRank() != extra.getRank())
    return false;
  return llvm::all_of(llvm::zip(type.getShape(), extra.getShape()),
                      [](auto extents) {
                        auto [own, of] = extents;
                        return own == of || own == 1;
                      });
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
    if (result.getType() != expected &&
        !isOfExtrasType(result.getType(), tensor))
      return op.emitOpError()
             << "expected the gradient of extra " << extra << " to be "
             << expected
             << ", or of the extra's own type of 16 bits, with extents of 1 "
                "where it is summed; got "
             << result.getType();
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

/// Constraint 6 of attention.
template <typename Op> static LogicalResult verifyVariants(Op op) {
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
  for (auto variant : variants.template getAsRange<VariantAttr>())
    if (StringRef target = variant.getSchedule().getTarget();
        target != schedule.getTarget())
      return op.emitOpError()
             << "expected variants for the schedule's target "
             << schedule.getTarget() << ", got one for " << target;
  if (std::string fault = batchGuardFault(
          llvm::to_vector(variants.template getAsRange<VariantAttr>()),
          schedule);
      !fault.empty())
    return op.emitOpError() << fault;
  return success();
}

/// A variant that takes some of the rows beside the schedule.
static LogicalResult verifyShares(AttentionOp op) {
  if (ArrayAttr variants = op.getVariantsAttr())
    for (auto variant : variants.getAsRange<VariantAttr>()) {
      if (!variant.getAfter())
        continue;
      StringRef other = op.getMaskAttr()         ? "a mask"
                        : !op.getScore().empty() ? "a score program"
                        : op.getDropout()        ? "dropout"
                                                 : "";
      if (!other.empty())
        return op.emitOpError()
               << "expected rows that are all alike because a variant takes "
                  "those after "
               << variant.getAfter().getExpression() << ", got " << other;
      ScheduleAttr own = op.getScheduleAttr(), rest = variant.getSchedule();
      if (StringRef field = own.differsInBits(rest); !field.empty())
        return op.emitOpError()
               << "expected the schedule of the rows after "
               << variant.getAfter().getExpression()
               << " to be of one class of bits with that of those before, got "
                  "another "
               << field;
    }
  return success();
}

/// Constraint 9 of attention_grad.
static LogicalResult verifyGradVariants(AttentionGradOp op) {
  ArrayAttr variants = op.getVariantsAttr();
  if (!variants)
    return success();
  ScheduleAttr own = op.getScheduleAttr();
  for (auto variant : variants.getAsRange<VariantAttr>()) {
    if (variant.getAfter())
      return op.emitOpError() << "expected variants for all rows, got one for "
                                 "those after "
                              << variant.getAfter().getExpression();
    ScheduleAttr other = variant.getSchedule();
    if (sumsInOrder(own.getDq()) && !sumsInOrder(other.getDq()))
      return op.emitOpError()
             << "expected variants with dq = ordered or recompute beside the "
                "schedule's dq = "
             << stringifyGradQ(own.getDq())
             << ", which promises the same bits in each run, got "
             << stringifyGradQ(other.getDq()) << " where "
             << variant.getWhen().getExpression();
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
  // 9. variants
  if (failed(verifyVariants(*this)) || failed(verifyGradVariants(*this)))
    return failure();
  return verifyExtraGradients(*this);
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyTensors(
          *this, {{"q", tensorType(getQ())}, {"k", tensorType(getK())}},
          {{"v", tensorType(getV())}, {"out", tensorType(getOut())}},
          NamedType("lse", tensorType(getLse())))))
    return failure();
  // 6. variants, 7. the sink
  if (failed(verifyVariants(*this)) || failed(verifyShares(*this)) ||
      failed(verifySink(*this, getSink())) ||
      failed(verifyDropout(*this, getDropout(), getRng())))
    return failure();
  // 5. the score region
  return verifyProgram(*this, getScore(), getExtras(), getExtraNamesAttr(),
                       /*results=*/1);
}
