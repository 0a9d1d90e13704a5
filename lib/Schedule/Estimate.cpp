//===- Estimate.cpp - estimates for people and for choices ----------------===//

#include "fa2/Schedule/Model.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace fa2;
using llvm::formatv;

ModelNumbers ModelNumbers::guesses() {
  ModelNumbers numbers;
#define FA2_MODEL_NUMBER(NAME, VALUE, GUESS) numbers.NAME = GUESS;
#include "fa2/Schedule/ModelNumbers.def"
  return numbers;
}

const char *Estimate::bound() const {
  double softmax = exponential + arithmetic;
  double most = std::max({tensor, softmax, shared, global});
  return most == tensor    ? "the tensor cores"
         : most == softmax ? "exponentials and other arithmetic"
         : most == shared  ? "shared memory"
                           : "L2";
}

std::vector<Decision> Estimate::explain() const {
  auto round = [](double value) { return formatv("{0:f0}", value).str(); };
  std::string tiles = std::to_string(blocks);
  Decision step{Decision::Kind::Analysis,
                "model-step",
                formatv("estimate of a step in clocks: tensor cores {0:f0}, "
                        "exponentials {1:f0}, other arithmetic {2:f0}, shared "
                        "memory {3:f0}, L2 {4:f0}; about {5:f0} together, "
                        "bound by {6}",
                        tensor, exponential, arithmetic, shared, global,
                        this->step, bound()),
                {{"TensorCores", round(tensor)},
                 {"Exponentials", round(exponential)},
                 {"Arithmetic", round(arithmetic)},
                 {"SharedMemory", round(shared)},
                 {"L2", round(global)},
                 {"Clocks", round(this->step)},
                 {"Bound", bound()}},
                ""};
  Decision time{
      Decision::Kind::Analysis,
      "model-time",
      formatv("estimate for batch {0}, {1} heads, {2} queries and {3} "
              "keys: {4:f3} ms on {5}; {6} tiles of {7:f1} steps and {8:f0} "
              "clocks around them, the busiest multiprocessor takes {9:f2} "
              "times the average",
              shape.batch, shape.heads, shape.seqlenQ, shape.seqlenK,
              milliseconds, device, blocks, steps, ends, imbalance),
      {{"Milliseconds", formatv("{0:f3}", milliseconds)},
       {"Device", device},
       {"Tiles", tiles},
       {"Imbalance", formatv("{0:f2}", imbalance)}},
      ""};
  return {step, time};
}
