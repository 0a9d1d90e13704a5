//===- ArithmeticTest.cpp - arith as upstream folds it --------------------===//
//
// Every operation of the tables, on numbers at the edges of its type and on
// random ones: what the interpreter gives is what upstream's folder gives,
// wherever that gives something.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace fa2::interpreter;

namespace {

class Arithmetic : public ::testing::Test {
protected:
  Arithmetic() : b(&context) {
    context.loadDialect<arith::ArithDialect, math::MathDialect>();
  }

  /// Compares one operation on these constants with its fold.
  void compare(StringRef name, ArrayRef<TypedAttr> inputs, Type result,
               IntegerAttr predicate = nullptr) {
    Block block;
    b.setInsertionPointToStart(&block);
    OperationState state(b.getUnknownLoc(), name);
    SmallVector<Attribute> attributes;
    for (TypedAttr input : inputs) {
      attributes.push_back(input);
      state.operands.push_back(
          arith::ConstantOp::create(b, b.getUnknownLoc(), input));
    }
    state.addTypes(result);
    if (predicate)
      state.addAttribute("predicate", predicate);
    Operation *op = b.create(state);
    SmallVector<OpFoldResult> folded;
    if (failed(op->fold(attributes, folded)) || folded.size() != 1)
      return; // has no value
    Attribute expected = dyn_cast<Attribute>(folded.front());
    if (!expected)
      expected =
          attributes[cast<Value>(folded.front()) == op->getOperand(0) ? 0 : 1];
    ++compared;
    KernelState program(nullptr, nullptr);
    ThreadBlock thread(program, 0);
    Frame frame(thread, Strand());
    frame.run(block);
    check(frame, op, expected);
  }

  void check(Frame &frame, Operation *op, Attribute expected) {
    std::string text;
    llvm::raw_string_ostream(text) << *op << " of " << op->getOperand(0);
    Value result = op->getResult(0);
    if (auto whole = dyn_cast<IntegerAttr>(expected)) {
      EXPECT_EQ(frame.whole(result),
                wrapTo(result.getType(), whole.getValue().getSExtValue()))
          << text;
      return;
    }
    auto real = dyn_cast<FloatAttr>(expected);
    if (!real) // poison
      return;
    float wanted = float(real.getValueAsDouble()), given = frame.real(result);
    EXPECT_TRUE(::testing::internal::Float(wanted).AlmostEquals(
                    ::testing::internal::Float(given)) ||
                (std::isnan(wanted) && std::isnan(given)))
        << text << ": " << given << ", not " << wanted;
  }

  std::vector<TypedAttr> integers(Type type) {
    std::vector<int64_t> values{0,  1,  2,  3,         7,        31,
                                -1, -2, -5, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 8; ++i)
      values.push_back(int32_t(random()));
    std::vector<TypedAttr> attributes;
    for (int64_t value : values)
      attributes.push_back(b.getIntegerAttr(type, value));
    return attributes;
  }

  std::vector<TypedAttr> reals() {
    std::vector<TypedAttr> attributes;
    for (float value : {0.0f, -0.0f, 1.0f, -1.5f, 3e38f, 1e-40f, INFINITY,
                        -INFINITY, NAN, 0.1f, 12345.678f})
      attributes.push_back(b.getF32FloatAttr(value));
    return attributes;
  }

  MLIRContext context;
  OpBuilder b;
  std::mt19937 random;
  int compared = 0;
};

TEST_F(Arithmetic, integersFoldAlike) {
  for (Type type : {Type(b.getI32Type()), Type(b.getIndexType())})
    for (StringRef name :
         {"addi",  "subi",  "muli",      "divsi",     "divui",
          "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi",
          "andi",  "ori",   "xori",      "shli",      "shrsi",
          "shrui", "maxsi", "minsi",     "maxui",     "minui"})
      for (TypedAttr x : integers(type))
        for (TypedAttr y : integers(type))
          compare(("arith." + name).str(), {x, y}, type);
  EXPECT_GT(compared, 10000);
}

TEST_F(Arithmetic, comparisonsFoldAlike) {
  for (int64_t predicate = 0; predicate < 10; ++predicate)
    for (TypedAttr x : integers(b.getI32Type()))
      for (TypedAttr y : integers(b.getI32Type()))
        compare("arith.cmpi", {x, y}, b.getI1Type(),
                b.getI64IntegerAttr(predicate));
  for (int64_t predicate = 0; predicate < 16; ++predicate)
    for (TypedAttr x : reals())
      for (TypedAttr y : reals())
        compare("arith.cmpf", {x, y}, b.getI1Type(),
                b.getI64IntegerAttr(predicate));
  EXPECT_GT(compared, 4000);
}

TEST_F(Arithmetic, realsFoldAlike) {
  for (StringRef name : {"addf", "subf", "mulf", "divf", "maximumf", "minimumf",
                         "maxnumf", "minnumf"})
    for (TypedAttr x : reals())
      for (TypedAttr y : reals())
        compare(("arith." + name).str(), {x, y}, b.getF32Type());
  EXPECT_GT(compared, 700);
}

TEST_F(Arithmetic, castsFoldAlike) {
  for (TypedAttr x : integers(b.getI32Type())) {
    compare("arith.sitofp", {x}, b.getF32Type());
    compare("arith.uitofp", {x}, b.getF32Type());
    compare("arith.trunci", {x}, b.getI8Type());
    compare("arith.extsi", {x}, b.getI64Type());
    compare("arith.extui", {x}, b.getI64Type());
    compare("arith.index_cast", {x}, b.getIndexType());
    compare("arith.index_castui", {x}, b.getIndexType());
    compare("arith.bitcast", {x}, b.getF32Type());
  }
  for (TypedAttr x : reals()) {
    compare("arith.negf", {x}, b.getF32Type());
    compare("arith.fptosi", {x}, b.getI32Type());
    compare("arith.fptoui", {x}, b.getI32Type());
    compare("arith.bitcast", {x}, b.getI32Type());
    for (StringRef name : {"absf", "exp2", "exp", "tanh"})
      compare(("math." + name).str(), {x}, b.getF32Type());
  }
  EXPECT_GT(compared, 200);
}

} // namespace
