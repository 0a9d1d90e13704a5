//===- ProgramTest.cpp - score programs on the host -----------------------===//

#include "Reference/Program.h"
#include "Failure.h"
#include "Random.h"
#include "Reference/Gradient.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace fa2run;
using Json = nlohmann::json;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A program of these steps; the last one is the result.
Json program(std::vector<Json> steps, Json reads = Json::array()) {
  for (size_t i = 0; i < steps.size(); ++i)
    steps[i]["name"] = "%" + std::to_string(i);
  return {{"reads", reads},
          {"steps", steps},
          {"result", "%" + std::to_string(steps.size() - 1)}};
}

Json step(const char *op, Json of, const char *type = "f32") {
  return {{"op", op}, {"of", of}, {"type", type}};
}
Json constant(Json value, const char *type = "f32") {
  return {{"op", "arith.constant"}, {"value", value}, {"type", type}};
}
Json comparison(const char *op, const char *predicate, Json of) {
  return {{"op", op}, {"predicate", predicate}, {"of", of}, {"type", "i1"}};
}

Number at(const Json &json, double score, ProgramLine line = {}) {
  std::vector<Number> scores{{score, 0, 0, 0}};
  ScoreProgram::parse(json).apply(line, scores);
  return scores[0];
}

std::string refusal(const Json &json) {
  try {
    ScoreProgram::parse(json);
  } catch (const Failure &failure) {
    return failure.what();
  }
  return "";
}

/// 5 tanh(score / 5)
Json softcap() {
  return program({constant(5.0), step("arith.divf", {"score", "%0"}),
                  step("math.tanh", {"%1"}), step("arith.mulf", {"%2", "%0"})});
}

/// Each operation on floats, at places where it is smooth.
std::vector<Json> smoothPrograms() {
  std::vector<Json> all{softcap()};
  for (const char *op : {"arith.addf", "arith.subf", "arith.mulf", "arith.divf",
                         "arith.maximumf", "arith.minimumf"}) {
    all.push_back(program({constant(0.75), step(op, {"score", "%0"})}));
    all.push_back(program({constant(0.75), step(op, {"%0", "score"})}));
    all.push_back(program({constant(0.5), step("arith.mulf", {"score", "%0"}),
                           step(op, {"score", "%1"})}));
  }
  for (const char *op :
       {"arith.negf", "math.absf", "math.exp", "math.exp2", "math.tanh"})
    all.push_back(program({step(op, {"score"})}));
  all.push_back(program({constant(1.0), constant(0.1),
                         step("arith.mulf", {"score", "%1"}),
                         comparison("arith.cmpf", "ogt", {"score", "%0"}),
                         step("arith.select", {"%3", "score", "%2"})}));
  return all;
}

} // namespace

TEST(Program, ComputesWhatItSays) {
  EXPECT_EQ(at(softcap(), 3).value, 5 * std::tanh(3.0 / 5));
  ProgramLine place{1, 2, 30, 7};
  Json alibi = program({step("arith.subi", {"column", "row"}, "index"),
                        step("arith.index_cast", {"%0"}, "i32"),
                        step("arith.sitofp", {"%1"}),
                        step("arith.addf", {"score", "%2"})});
  EXPECT_EQ(at(alibi, 0.5, place).value, 0.5 - 23);
  Json hidden = program({constant("-inf"),
                         comparison("arith.cmpi", "sle", {"column", "row"}),
                         step("arith.select", {"%1", "score", "%0"})});
  EXPECT_EQ(at(hidden, 2, place).value, 2);
  EXPECT_EQ(at(hidden, 2, {0, 0, 3, 7}).value, -kInfinity);
}

TEST(Program, GoesAlongRowsAndColumns) {
  Json columns = program({step("arith.index_cast", {"column"}, "i32"),
                          step("arith.sitofp", {"%0"}),
                          step("arith.addf", {"score", "%1"})});
  std::vector<double> scores{0.5, 0.5, 0.5};
  ScoreProgram parsed = ScoreProgram::parse(columns);
  parsed.apply({0, 0, 9, 4}, scores.data(), 3);
  EXPECT_EQ(scores, (std::vector<double>{4.5, 5.5, 6.5}));
  scores.assign(3, 0.5);
  parsed.apply({0, 0, 9, 4, true}, scores.data(), 3);
  EXPECT_EQ(scores, (std::vector<double>{4.5, 4.5, 4.5}));
}

TEST(Program, ReadsOperands) {
  Operands operands;
  operands["slopes"] = {{1, 3}, {1, 2, 3}};
  operands["cap"] = {{}, {8}};
  ProgramLine place{5, 1, 0, 0, false, &operands};
  // The one batch entry stands for all; an index beyond the extent is the last.
  Json reads = program({{{"op", "tensor.extract"},
                         {"of", {"slopes", "batch", "head"}},
                         {"type", "bf16"}},
                        step("arith.extf", {"%0"}),
                        step("arith.mulf", {"%1", "cap"}),
                        step("arith.addf", {"score", "%2"})},
                       {"slopes", "cap"});
  EXPECT_EQ(at(reads, 0, place).value, 16);
  place.head = 9;
  EXPECT_EQ(at(reads, 0, place).value, 24);
}

TEST(Program, SlopesByWhatIsReadAreThoseOfCentralDifferences) {
  Operands operands;
  operands["slopes"] = {{1, 3}, {1.5, 2, 3}};
  operands["cap"] = {{}, {8}};
  ProgramLine place{5, 0, 0, 0, false, &operands};
  // tanh(score slopes[0, head] / cap) cap + slopes[0, column]
  Json reads = program({{{"op", "tensor.extract"},
                         {"of", {"slopes", "batch", "head"}},
                         {"type", "f32"}},
                        step("arith.mulf", {"score", "%0"}),
                        step("arith.divf", {"%1", "cap"}),
                        step("math.tanh", {"%2"}),
                        step("arith.mulf", {"%3", "cap"}),
                        {{"op", "tensor.extract"},
                         {"of", {"slopes", "batch", "column"}},
                         {"type", "f32"}},
                        step("arith.addf", {"%4", "%5"})},
                       {"slopes", "cap"});
  ScoreProgram parsed = ScoreProgram::parse(reads);
  EXPECT_EQ(parsed.placesOf("cap").size(), 1u);
  EXPECT_EQ(parsed.placesOf("slopes").size(), 2u);
  EXPECT_TRUE(parsed.placesOf("nothing").empty());
  // The slopes by slopes[0, 0] and [0, 1], and by cap, at columns 0 and 1.
  double byElement[2][2] = {}, byCap[2] = {};
  std::vector<size_t> elements;
  auto scores = [] { return std::vector<Number>{{0.7}, {-2.1}}; };
  for (size_t at : parsed.placesOf("slopes")) {
    std::vector<Number> by = scores();
    parsed.applyBy(at, place, by, elements);
    for (size_t j : {0, 1})
      if (elements[j] < 2)
        byElement[j][elements[j]] += by[j].slope;
  }
  std::vector<Number> by = scores();
  parsed.applyBy(parsed.placesOf("cap")[0], place, by, elements);
  for (size_t j : {0, 1})
    byCap[j] = by[j].slope;
  auto difference = [&](double &x, size_t j) {
    const double h = 1e-5, kept = x;
    double values[2];
    for (int side : {0, 1}) {
      x = kept + (side ? h : -h);
      std::vector<Number> at = scores();
      parsed.apply(place, at);
      values[side] = at[j].value;
    }
    x = kept;
    return (values[1] - values[0]) / (2 * h);
  };
  for (size_t j : {0, 1}) {
    EXPECT_NEAR(byCap[j], difference(operands["cap"].elements[0], j), 1e-6);
    for (size_t e : {0, 1})
      EXPECT_NEAR(byElement[j][e],
                  difference(operands["slopes"].elements[e], j), 1e-6);
  }
}

TEST(Program, ComputesIntegersInTheirWidth) {
  auto integer = [&](const char *op, int64_t a, int64_t b, const char *type) {
    Json json =
        program({constant(a, type), constant(b, type),
                 step(op, {"%0", "%1"}, type), step("arith.sitofp", {"%2"})});
    return at(json, 0).value;
  };
  EXPECT_EQ(integer("arith.addi", 127, 1, "i8"), -128);
  EXPECT_EQ(integer("arith.divsi", -7, 2, "i32"), -3);
  EXPECT_EQ(integer("arith.floordivsi", -7, 2, "i32"), -4);
  EXPECT_EQ(integer("arith.ceildivsi", 7, 2, "i32"), 4);
  EXPECT_EQ(integer("arith.remsi", -7, 2, "i32"), -1);
  EXPECT_EQ(integer("arith.divui", -1, 16, "i8"), 15);
  EXPECT_EQ(integer("arith.shrui", -1, 4, "i8"), 15);
  EXPECT_EQ(integer("arith.shrsi", -16, 2, "i64"), -4);
  EXPECT_EQ(integer("arith.maxui", -1, 5, "i32"), -1);
  EXPECT_EQ(integer("arith.minsi", -1, 5, "i32"), -1);
}

TEST(Program, SlopesAreThoseOfCentralDifferences) {
  for (const Json &json : smoothPrograms())
    for (double s : {-2.3, -0.4, 0.3, 1.9}) {
      double h = 1e-5;
      double difference =
          (at(json, s + h).value - at(json, s - h).value) / (2 * h);
      EXPECT_NEAR(at(json, s).slope, difference,
                  1e-6 * (1 + std::abs(difference)))
          << json.dump() << " at " << s;
    }
}

TEST(Program, ArmsThatAreNotTakenAddNothing) {
  // select(score > 0, 1 / score, 0): the derivative of 1 / score is infinite.
  Json guarded = program({constant(0.0), constant(1.0),
                          step("arith.divf", {"%1", "score"}),
                          comparison("arith.cmpf", "ogt", {"score", "%0"}),
                          step("arith.select", {"%3", "%2", "%0"})});
  EXPECT_EQ(at(guarded, 0).slope, 0);
  EXPECT_EQ(at(guarded, 0).value, 0);
  EXPECT_EQ(at(guarded, 2).slope, -0.25);
}

TEST(Program, BoundsHoldWhatF32MakesOfIt) {
  // Each program in f32 by hand stays within its bound, and the bound is tight.
  Sequence random(1);
  for (int i = 0; i < 1000; ++i) {
    double s = double(random.between(-4000, 4000)) / 1000;
    Number x = at(softcap(), double(float(s)));
    float by32 = 5.0f * std::tanh(float(s) / 5.0f);
    EXPECT_LE(std::abs(by32 - x.value), x.error);
    EXPECT_LT(x.error, 1e-5);
  }
}

TEST(Program, KnowsWhatRoundingMayTurn) {
  auto choice = [&](double other) {
    return program({constant(other), constant(1.0),
                    step("arith.divf", {"score", "score"}),
                    comparison("arith.cmpf", "olt", {"%2", "%1"}),
                    step("arith.select", {"%3", "%0", "score"})});
  };
  std::vector<Number> scores{{3, 1e-6, 0, 0}};
  ScoreProgram::parse(choice(7)).apply({}, scores);
  EXPECT_GE(scores[0].error, 4);
  scores = {{3, 1e-6, 0, 0}};
  ScoreProgram::parse(choice(3)).apply({}, scores);
  EXPECT_LT(scores[0].error, 1e-5); // both arms are the same
}

TEST(Program, RefusesWhatItDoesNotKnow) {
  auto expect = [](const Json &json, const char *text) {
    std::string got = refusal(json);
    EXPECT_NE(got.find(text), got.npos) << got << "\n  lacks: " << text;
  };
  expect(program({step("math.cbrt", {"score"})}),
         "step 0: the operation 'math.cbrt' is not known");
  expect(program({step("math.tanh", {"score"}, "f64")}),
         "step 0: the type 'f64' is not known");
  expect(program({step("math.tanh", {"%1"})}),
         "step 0: no value before it is named \"%1\"");
  expect(program({step("math.tanh", {"score", "score"})}),
         "'math.tanh' takes 1 operands, got 2");
  expect(program({step("math.tanh", {"row"})}),
         "expected operand 0 of 'math.tanh' to be a float");
  expect(program({comparison("arith.cmpi", "olt", {"row", "row"})}),
         "the predicate 'olt' is not known");
  expect(program({constant("big")}), "expected the value of a constant");
  expect(program({step("tensor.extract", {"score"})}),
         "expected a read of one of 'reads'");
  expect(program({step("arith.index_cast", {"row"}, "i32")}),
         "expected the result to be a float");
  expect({{"reads", 1}, {"steps", Json::array()}, {"result", "score"}},
         "expected 'reads' to be an array");
  expect({{"reads", {"score"}}, {"steps", Json::array()}, {"result", "score"}},
         "expected names in 'reads', each once");
  expect({{"reads", Json::array()}, {"result", "score"}},
         "expected a field 'steps'");
  expect(Json::array(), "expected a field 'reads'");
  Json twice = program({constant(1.0), constant(2.0)});
  twice["steps"][1]["name"] = "%0";
  expect(twice, "the name \"%0\" is taken");
}

TEST(Program, RefusesOperandsOfOtherRanks) {
  ScoreProgram parsed = ScoreProgram::parse(program(
      {{{"op", "tensor.extract"}, {"of", {"x", "head"}}, {"type", "f32"}},
       step("arith.addf", {"%0", "y"})},
      {"x", "y"}));
  auto refused = [&](size_t x, size_t y) {
    try {
      parsed.checkOperands({{"x", x}, {"y", y}});
    } catch (const Failure &failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused(1, 0), "");
  EXPECT_NE(refused(2, 0).find("reads 'x' with 1 indices"), std::string::npos);
  EXPECT_NE(refused(1, 1).find("takes 'y' for a number"), std::string::npos);
}

/// Gradients of attention whose scores pass through a program, by central
/// differences of the float64 forward.
TEST(Program, GradientsAreThoseOfCentralDifferences) {
  constexpr int64_t d = 4, keys = 6;
  std::vector<float> q(d), k(d * keys), v(d * keys), dout(d);
  uint64_t stream = 3;
  for (auto *x : {&q, &k, &v, &dout}) {
    for (size_t i = 0; i < x->size(); ++i)
      (*x)[i] = normalPair(stream, i).first;
    ++stream;
  }
  for (const Json &json : smoothPrograms()) {
    ScoreProgram parsed = ScoreProgram::parse(json);
    Head head{d, d, k.data(), v.data(), 0.5, Precision::BF16, &parsed, {}};
    Scratch scratch;
    std::vector<double> out(d);
    double lse = 0;
    auto forward = [&](const std::vector<float> &query) {
      referenceRow(head, query.data(), keys, scratch, out.data(), lse);
      double sum = 0;
      for (int64_t e = 0; e < d; ++e)
        sum += out[size_t(e)] * dout[size_t(e)];
      return sum;
    };
    forward(q);
    std::vector<float> rounded(out.begin(), out.end());
    GradientRow dq;
    gradientOfRow(head, q.data(), dout.data(), {rounded.data(), lse}, keys,
                  scratch, &dq);
    for (size_t e = 0; e < d; ++e) {
      std::vector<float> above = q, below = q;
      above[e] += 0x1p-12f;
      below[e] -= 0x1p-12f;
      double h = double(above[e]) - double(below[e]);
      double difference = (forward(above) - forward(below)) / h;
      EXPECT_NEAR(dq.exact[e], difference, 1e-4 * (1 + std::abs(difference)))
          << json.dump();
    }
  }
}
