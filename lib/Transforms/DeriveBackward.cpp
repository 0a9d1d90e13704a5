//===- DeriveBackward.cpp - fa2-derive-backward ---------------------------===//

#include "ScoreDerivative.h"
#include "TileBuilder.h"
#include "fa2/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace fa2 {
#define GEN_PASS_DEF_DERIVEBACKWARD
#include "fa2/Transforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;

namespace {

/// The gradient's name: that of the forward function with "forward" replaced,
/// or with a suffix.
std::string gradientName(StringRef forward) {
  size_t at = forward.find("forward");
  if (at == StringRef::npos)
    return (forward + "_backward").str();
  return (forward.take_front(at) + "backward" +
          forward.drop_front(at + strlen("forward")))
      .str();
}

struct DeriveBackwardPass
    : public fa2::impl::DeriveBackwardBase<DeriveBackwardPass> {
  using DeriveBackwardBase::DeriveBackwardBase;

  void runOnOperation() override {
    SmallVector<AttentionOp> ops;
    getOperation().walk([&](AttentionOp op) { ops.push_back(op); });
    for (AttentionOp op : ops)
      if (failed(derive(op)))
        return signalPassFailure();
  }

  /// How a gradient is asked for: a sum in f32, or of its extra's type, with a
  /// place of its own for each score but for the dimensions that it is summed
  /// over.
  struct Form {
    bool whole = false;
    llvm::SmallSet<ScoreProgram::Argument, 2> over;
  };

  /// The name in front of what says the form.
  LogicalResult takeForm(AttentionOp op, StringRef &name, Form &form) {
    static constexpr StringRef forms[] = {":whole", ":batch", ":heads",
                                          ":batch:heads"};
    StringRef suffix = name.drop_until([](char c) { return c == ':'; });
    name = name.drop_back(suffix.size());
    if (suffix.empty())
      return success();
    if (!llvm::is_contained(forms, suffix) || name == "sink")
      return op.emitOpError()
             << "expected "
             << (name == "sink" ? "nothing"
                                : "':whole', ':batch', ':heads' or "
                                  "':batch:heads'")
             << " behind '" << name << "' in grads, got '" << suffix << "'";
    form.whole = true;
    if (suffix.contains(":batch"))
      form.over.insert(ScoreProgram::Batch);
    if (suffix.contains(":heads"))
      form.over.insert(ScoreProgram::Head);
    return success();
  }

  /// The extras that `grads` names, in their own order, and whether it names
  /// the sink.
  LogicalResult findWanted(AttentionOp op, SmallVector<int64_t> &wanted,
                           SmallVector<Type> &types, bool &wantsSink) {
    ScoreProgram program = programOf(op);
    SmallVector<std::string> names;
    for (size_t i = 0; i < program.numExtras(); ++i)
      names.push_back(program.extraName(i));
    if (op.getSink())
      names.push_back("sink");
    SmallVector<StringRef> asked;
    StringRef(grads).split(asked, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    llvm::StringMap<Form> forms;
    for (StringRef &name : asked) {
      Form form;
      if (failed(takeForm(op, name, form)))
        return failure();
      if (!forms.try_emplace(name, form).second)
        return op.emitOpError() << "expected grads to name each once, got '"
                                << name << "' twice";
    }
    for (StringRef name : asked)
      if (!llvm::is_contained(names, name))
        return op.emitOpError()
               << "expected grads to name what its score program reads ("
               << (names.empty() ? "nothing" : llvm::join(names, ", "))
               << "), got '" << name << "'";
    wantsSink = op.getSink() && llvm::is_contained(asked, names.back());
    for (size_t i = 0; i < program.numExtras(); ++i)
      if (llvm::is_contained(asked, names[i])) {
        Type type = gradientType(program, i, forms[names[i]]);
        if (!type)
          return op.emitOpError()
                 << "expected a gradient that is whole, or summed over the "
                    "batch or heads, to be of a tensor of 16 bits, got "
                 << names[i] << " of " << program.extraType(i);
        wanted.push_back(int64_t(i));
        types.push_back(type);
      }
    return success();
  }

  /// A sum in f32; what is whole is of its own type, with extents of 1 where it
  /// is summed. None where it cannot be whole.
  static Type gradientType(const ScoreProgram &program, size_t i,
                           const Form &form) {
    Type extra = program.extraType(i);
    auto tensor = dyn_cast<RankedTensorType>(extra);
    Type f32 = Float32Type::get(extra.getContext());
    if (!form.whole)
      return tensor ? tensor.clone(f32) : RankedTensorType::get({1}, f32);
    if (!tensor || tensor.getElementTypeBitWidth() != 16)
      return {};
    SmallVector<int64_t> shape(tensor.getShape());
    for (auto [dim, extent] : llvm::enumerate(shape))
      if (form.over.contains(program.coordinateOf(i, unsigned(dim))))
        extent = 1;
    return tensor.clone(shape);
  }

  /// f(q, k, v, scale, extras) -> out, lse gives
  /// f'(q, k, v, out, lse, dout, dlse, scale, sink, extras) -> dq, dk, dv,
  /// dextras, dsink beside it.
  LogicalResult derive(AttentionOp op) {
    SmallVector<Value> inputs{op.getQ(), op.getK(), op.getV()};
    if (op.getScale())
      inputs.push_back(op.getScale());
    Type sinkType, rngType;
    if (op.getSink()) {
      inputs.push_back(op.getSink());
      sinkType = op.getSink().getType();
    }
    if (op.getDropout()) {
      inputs.append({op.getDropout(), op.getRng()});
      rngType = op.getRng().getType();
    }
    llvm::append_range(inputs, op.getExtras());
    SmallVector<int64_t> wanted;
    SmallVector<Type> dextras;
    bool wantsSink = false;
    if (failed(findWanted(op, wanted, dextras, wantsSink)))
      return failure();
    auto func = functionOf(op, inputs, "q, k, v");
    if (failed(func))
      return failure();
    OpBuilder b(*func);
    b.setInsertionPointAfter(*func);
    Location loc = op.getLoc();
    Type q = op.getQ().getType(), k = op.getK().getType(),
         v = op.getV().getType(), out = op.getOut().getType(),
         lse = op.getLse().getType();
    SmallVector<Type> types{q, k, v, out, lse, out};
    SmallVector<StringRef> names{"q", "k", "v", "out", "lse", "dout"};
    auto addInput = [&](bool there, StringRef name, Type type) {
      if (!there)
        return size_t(0);
      types.push_back(type);
      names.push_back(name);
      return types.size() - 1;
    };
    size_t dlse = addInput(gradLse, "dlse", lse),
           scale = addInput(bool(op.getScale()), "scale", b.getF32Type()),
           sink = addInput(bool(sinkType), "sink", sinkType),
           dropout = addInput(bool(rngType), "dropout", b.getF32Type()),
           rng = addInput(bool(rngType), "rng", rngType);
    size_t fixed = types.size();
    llvm::append_range(types, op.getExtras().getTypes());
    SmallVector<Type> results{q, k, v};
    llvm::append_range(results, dextras);
    if (wantsSink)
      results.push_back(sinkType);
    auto gradient = func::FuncOp::create(b, loc, gradientName(func->getName()),
                                         b.getFunctionType(types, results));
    Block *entry = gradient.addEntryBlock();
    for (auto [arg, name] :
         llvm::zip(entry->getArguments().take_front(fixed), names))
      arg.setLoc(NameLoc::get(b.getStringAttr(name)));
    b.setInsertionPointToStart(entry);
    auto arg = [&](size_t i) -> Value { return entry->getArgument(i); };
    auto given = [&](size_t i) { return i ? arg(i) : Value(); };
    // A schedule that stands on the forward operation is not backward's.
    auto grad = AttentionGradOp::create(
        b, loc, q, k, v, dextras, wantsSink ? sinkType : Type(), arg(0), arg(1),
        arg(2), arg(3), arg(4), arg(5), given(dlse), given(scale), given(sink),
        given(dropout), given(rng), entry->getArguments().drop_front(fixed),
        op.getExtraNamesAttr(),
        wanted.empty() ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(wanted),
        op.getMaskAttr(),
        /*schedule=*/ScheduleAttr(), /*dq_schedule=*/ScheduleAttr(),
        /*variants=*/ArrayAttr());
    func::ReturnOp::create(b, loc, grad.getResults());
    if (!op.getScore().empty()) {
      IRMapping map;
      op.getScore().cloneInto(&grad.getScore(), map);
      if (failed(addDerivative(grad.getScore(), wanted)))
        return failure();
    }
    if (replace)
      func->erase();
    return success();
  }
};

} // namespace
