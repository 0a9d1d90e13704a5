//===- Interpreter.cpp - a kernel's blocks, one after the other -----------===//

#include "fa2/Interpreter/Interpreter.h"

#include "Evaluate.h"
#include "fa2/Dialect/FA2GPU/Roles.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

namespace {
/// What a kernel's arguments are for as long as it runs.
struct Inputs {
  std::vector<std::unique_ptr<Memory>> memories;
  llvm::DenseMap<Value, Datum> values;
};
} // namespace

static Datum numberOf(Type type, const Argument &given) {
  auto number = makeTile(type);
  if (number->real.empty())
    number->whole = {wrapTo(type, given.whole)};
  else
    number->real = {roundTo(type, float(given.real))};
  return TileRef(number);
}

static std::unique_ptr<Memory> memoryOf(ArgumentAttr described,
                                        const Argument &given) {
  auto memory = std::make_unique<Memory>();
  memory->name = given.name;
  memory->data = static_cast<char *>(given.data);
  memory->element = described.getDtype();
  memory->shape = given.shape;
  memory->strides = given.strides;
  memory->writable = described.getDirection() != "in";
  return memory;
}

/// Arguments are found by the names of their descriptions.
static LogicalResult bind(KernelOp kernel, ArrayRef<Argument> arguments,
                          Inputs &inputs) {
  auto described = kernel.getArguments().getAsRange<ArgumentAttr>();
  for (auto [attr, value] :
       llvm::zip(described, kernel.getBody().getArguments())) {
    StringRef name = attr.getName();
    const Argument *given = llvm::find_if(
        arguments, [&](const Argument &a) { return a.name == name; });
    if (given == arguments.end())
      return kernel.emitError()
             << "expected to be given the argument '" << name << "'";
    auto type = dyn_cast<MemRefType>(value.getType());
    if (!type) {
      inputs.values[value] = numberOf(value.getType(), *given);
      continue;
    }
    if (int64_t(given->shape.size()) != type.getRank())
      return kernel.emitError()
             << "expected '" << name << "' of rank " << type.getRank()
             << ", got " << given->shape.size();
    inputs.memories.push_back(memoryOf(attr, *given));
    inputs.values[value] = inputs.memories.back().get();
  }
  return success();
}

/// Runs the blocks that take the tile of a number; how many such there are, or
/// nothing where one has failed.
static std::optional<int64_t> runTile(KernelState &program, int64_t number,
                                      const Inputs &inputs) {
  ThreadBlock first(program, number);
  std::optional<ThreadBlock> second;
  if (fa2::gpu::hasClusters(program.kernel))
    second.emplace(&first);
  auto runBlock = [&](ThreadBlock &block) {
    Frame frame(block, Strand());
    for (const auto &[value, datum] : inputs.values)
      frame.set(value, datum);
    frame.run(program.kernel.getBody().front());
  };
  std::vector<std::function<void()>> programs{[&] { runBlock(first); }};
  if (second)
    programs.push_back([&] { runBlock(*second); });
  first.cluster->strands.run(programs);
  if (first.cluster->failed)
    return std::nullopt;
  return first.cluster->count;
}

LogicalResult interpreter::interpret(KernelOp kernel,
                                     ArrayRef<Argument> arguments,
                                     Observer observer) {
  KernelState program(kernel, std::move(observer));
  Inputs inputs;
  if (failed(bind(kernel, arguments, inputs)))
    return failure();
  expandRanges(program);
  std::optional<int64_t> count = 1;
  for (int64_t number = 0; count && number < *count; ++number)
    count = runTile(program, number, inputs);
  return success(count.has_value());
}
