//===- LoopGraphOrder.cpp - a graph's schedules as orders of products -----===//

#include "fa2/Loops/LoopGraph.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using modulo::Resource;

modulo::Times fa2::gpu::timesOf(const LoopGraph &loop,
                                const LoopStages &order) {
  const std::vector<modulo::Step> &steps = loop.graph.steps;
  llvm::DenseMap<Operation *, int> stepOf;
  for (auto [i, op] : llvm::enumerate(loop.operations))
    stepOf[op] = int(i);
  std::vector<int64_t> stages(steps.size(), 0);
  for (auto [op, behind] : order)
    if (auto found = stepOf.find(op); found != stepOf.end())
      stages[found->second] = behind;
  modulo::Times times;
  times.starts.resize(steps.size());
  // Threads do one thing after the other and wait for products, which the
  // tensor cores multiply in the order of their starts.
  int64_t threads = 0, tensor = 0;
  for (auto [op, behind] : order) {
    if (auto wait = dyn_cast<DotWaitOp>(op))
      if (auto found = stepOf.find(wait.getSource().getDefiningOp());
          found != stepOf.end())
        threads = std::max(threads, times.starts[found->second] +
                                        steps[found->second].clocks +
                                        loop.matmulLatency);
    auto found = stepOf.find(op);
    if (found == stepOf.end())
      continue;
    for (const modulo::Edge &e : loop.graph.edges)
      if (e.to == found->second && e.waits &&
          e.distance + stages[e.to] == stages[e.from])
        threads = std::max(threads, times.starts[e.from] +
                                        steps[e.from].clocks + e.latency);
    bool product = steps[found->second].resource == Resource::Tensor;
    int64_t start = product ? std::max(threads, tensor) : threads;
    times.starts[found->second] = start;
    (product ? tensor : threads) = start + steps[found->second].clocks;
  }
  times.interval = std::max<int64_t>({threads, tensor, 1});
  // Nor does an iteration begin before the tiles that it waits for come.
  for (const modulo::Edge &e : loop.graph.edges)
    if (int64_t apart = e.distance + stages[e.to] - stages[e.from]; apart > 0)
      times.interval = std::max(times.interval,
                                (times.starts[e.from] + steps[e.from].clocks +
                                 e.latency - times.starts[e.to] + apart - 1) /
                                    apart);
  for (auto [start, stage] : llvm::zip(times.starts, stages))
    start += stage * times.interval;
  return times;
}

void fa2::gpu::keepUnspillable(LoopGraph &loop) {
  auto isProduct = [&](int step) {
    return loop.graph.steps[step].resource == Resource::Tensor;
  };
  std::vector<modulo::Value> kept;
  for (modulo::Value v : loop.graph.values) {
    bool ofProduct = isProduct(v.from);
    std::vector<modulo::Use> uses;
    for (const modulo::Use &u : v.uses)
      if (isProduct(u.step) || (ofProduct && u.distance == 0))
        uses.push_back(u);
    // Who reads a result first may put it elsewhere.
    llvm::stable_sort(uses, [](auto &a, auto &b) { return a.step < b.step; });
    auto first = llvm::find_if(
        uses, [&](const modulo::Use &u) { return !isProduct(u.step); });
    if (first != uses.end())
      uses.erase(std::next(first), uses.end());
    v.uses = std::move(uses);
    if (!v.uses.empty())
      kept.push_back(std::move(v));
  }
  loop.graph.values = std::move(kept);
}

/// When the threads start a product: where they have time before it runs.
static int64_t issued(const LoopGraph &loop, const modulo::Times &times,
                      int product) {
  int64_t runs = times.offset(product), at = runs;
  for (int i = 0; i < int(loop.graph.steps.size()); ++i)
    if (const modulo::Step &step = loop.graph.steps[i];
        step.resource != Resource::Tensor && times.offset(i) < runs &&
        runs < times.offset(i) + step.clocks)
      at = times.offset(i);
  return at;
}

Order fa2::gpu::orderOf(const LoopGraph &loop, const modulo::Times &times) {
  llvm::SmallVector<int> products;
  for (int i = 0; i < int(loop.graph.steps.size()); ++i)
    if (loop.graph.steps[i].resource == Resource::Tensor)
      products.push_back(i);
  llvm::stable_sort(products, [&](int a, int b) {
    return times.offset(a) < times.offset(b);
  });
  Order order;
  for (auto [i, step] : llvm::enumerate(products)) {
    const std::string &name = loop.graph.steps[step].name;
    if (llvm::none_of(order.products,
                      [&](const Product &p) { return p.name == name; })) {
      order.products.push_back({name, times.stage(step) > 0});
      // What goes on with another product's result begins when that has it.
      Operation *begin = beginningOf(cast<DotStartOp>(loop.operations[step]));
      if (times.stage(step) == 0 && begin && !isa<DotWaitOp>(begin))
        order.begunEarly.push_back(name);
    }
    // One that ends when the next begins was in flight when that started.
    size_t inFlight = 1;
    for (int other : llvm::ArrayRef(products).take_front(i))
      inFlight += times.offset(other) + loop.graph.steps[other].clocks >=
                  issued(loop, times, step);
    order.inFlight = std::max(order.inFlight, inFlight);
  }
  return order;
}
