//===- Compare.cpp - two runs of one case ---------------------------------===//

#include "Compare.h"

#include <array>

using namespace fa2run;

namespace fa2interpret {

void checkSameProgram(const Run &a, const Run &b) {
  auto differ = [&](const char *what, const std::string &x,
                    const std::string &y) {
    if (x != y)
      refuse("--compare: {} is of {} {}, {} of {}", a.path, what, x, b.path, y);
  };
  differ("pass", a.kernel.pass, b.kernel.pass);
  differ("dtype", a.kernel.dtypeName, b.kernel.dtypeName);
  differ("mask", a.kernel.maskName, b.kernel.maskName);
  differ("head dim", std::to_string(a.kernel.headDim),
         std::to_string(b.kernel.headDim));
  differ("head dim of v", std::to_string(a.kernel.headDimV),
         std::to_string(b.kernel.headDimV));
}

namespace {

/// An output's elements in the order of its extents.
struct Output {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

Output outputOf(const Kernel &kernel, const Tensor &tensor) {
  Array array = tensor.nameOf() == "lse"
                    ? getVectors(tensor)
                    : getElements(tensor, kernel.precision, Layout::BSHD);
  return {tensor.nameOf(), array.shape, array.values};
}

Output outputOf(const Extra &extra) {
  const Operand &of = extra.operand();
  return {extra.nameOf(), of.shape,
          std::vector<float>(of.elements.begin(), of.elements.end())};
}

std::vector<Output> outputsOf(Run &run) {
  std::vector<Output> outputs;
  for (Tensor *tensor : fa2run::outputsOf(run.kernel, run.tensors))
    outputs.push_back(outputOf(run.kernel, *tensor));
  for (Extra &gradient : run.tensors.dextras)
    outputs.push_back(outputOf(gradient));
  return outputs;
}

/// The indices of an element, as the argument has them.
std::vector<int64_t> indicesOf(const Output &output, size_t element) {
  std::vector<int64_t> indices(output.shape.size());
  for (size_t d = indices.size(); d-- > 0;) {
    indices[d] = int64_t(element) % output.shape[d];
    element /= size_t(output.shape[d]);
  }
  return indices;
}

} // namespace

bool compareOutputs(Run &a, Run &b, double tolerance, std::string &text) {
  bool same = true;
  std::vector<Output> ours = outputsOf(a), theirs = outputsOf(b);
  for (size_t i = 0; i < ours.size(); ++i) {
    const Output &x = ours[i], &y = theirs[i];
    size_t parted = 0, first = 0;
    for (size_t e = x.values.size(); e-- > 0;)
      if (!areClose(x.values[e], y.values[e], tolerance)) {
        ++parted;
        first = e;
      }
    same &= parted == 0;
    text += fmt::format("{:<10} ", x.name);
    text += parted ? fmt::format("parts: {} of {} elements, first [{}]: {} "
                                 "and {}\n",
                                 parted, x.values.size(),
                                 fmt::join(indicesOf(x, first), ", "),
                                 x.values[first], y.values[first])
                   : fmt::format("the same, {} elements\n", x.values.size());
  }
  return same;
}

std::string describeParting(const Parting &p) {
  const auto &a = p.first, &b = p.second;
  std::string element = a.tile->shape.size() > 1
                            ? fmt::format("({}, {})", p.row, p.column)
                            : fmt::format("{}", p.column);
  std::string block =
      a.place.rank ? fmt::format(", block {} of its cluster", *a.place.rank)
                   : "";
  return fmt::format("first      {}, number {} of {} in tile {} of head {}, "
                     "batch entry {}{}: element {} is {} and {}\n"
                     "           at {}\n"
                     "           and {}\n",
                     a.what, p.number, p.count, a.place.tile, a.place.head,
                     a.place.batch, block, element, p.a, p.b, a.where, b.where);
}

} // namespace fa2interpret
