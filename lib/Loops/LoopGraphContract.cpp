//===- LoopGraphContract.cpp - a graph of what takes time alone -----------===//

#include "fa2/Loops/LoopGraph.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using modulo::Edge;
using modulo::Resource;

static bool isFree(const LoopGraph &loop, int step) {
  return loop.graph.steps[step].resource == Resource::Nothing;
}

/// Who waits for a step that takes no time waits for what it waits for.
static void bridge(LoopGraph &loop) {
  std::vector<Edge> &edges = loop.graph.edges;
  for (int n = 0; n < int(loop.operations.size()); ++n) {
    if (!isFree(loop, n))
      continue;
    std::vector<Edge> in, out, rest;
    for (const Edge &e : edges)
      (e.to == n ? in : e.from == n ? out : rest).push_back(e);
    for (const Edge &a : in)
      for (const Edge &b : out) {
        Edge both{a.from,
                  b.to,
                  a.latency + b.latency,
                  a.distance + b.distance,
                  a.oneStage && b.oneStage,
                  a.waits || b.waits};
        bool known = llvm::any_of(rest, [&](const Edge &e) {
          return e.from == both.from && e.to == both.to &&
                 e.distance <= both.distance && e.latency >= both.latency &&
                 e.oneStage >= both.oneStage && e.waits >= both.waits;
        });
        if (!known && (both.from != both.to || both.distance > 0) &&
            a.from != n && b.to != n)
          rest.push_back(both);
      }
    edges = std::move(rest);
  }
}

static void dropFree(LoopGraph &loop) {
  modulo::Graph &g = loop.graph;
  std::vector<int> number(g.steps.size(), -1);
  std::vector<modulo::Step> kept;
  std::vector<Operation *> operations;
  for (int i = 0; i < int(g.steps.size()); ++i)
    if (!isFree(loop, i)) {
      number[i] = int(kept.size());
      kept.push_back(g.steps[i]);
      operations.push_back(loop.operations[i]);
    }
  for (Edge &e : g.edges) {
    e.from = number[e.from];
    e.to = number[e.to];
  }
  llvm::erase_if(g.values,
                 [&](const modulo::Value &v) { return number[v.from] < 0; });
  for (modulo::Value &v : g.values) {
    v.from = number[v.from];
    llvm::erase_if(v.uses,
                   [&](const modulo::Use &u) { return number[u.step] < 0; });
    for (modulo::Use &u : v.uses)
      u.step = number[u.step];
  }
  g.steps = std::move(kept);
  loop.operations = std::move(operations);
}

/// What hangs on no product is not behind.
static void keepFirst(LoopGraph &loop) {
  modulo::Graph &g = loop.graph;
  std::vector<bool> free(g.steps.size());
  for (auto [step, is] : llvm::zip(g.steps, free))
    is = step.resource == Resource::Tensor;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge &e : g.edges)
      if (e.oneStage && free[e.from] != free[e.to])
        changed = free[e.from] = free[e.to] = true;
  }
  for (auto [step, is] : llvm::zip(g.steps, free))
    step.stage = is ? -1 : 0;
}

void fa2::gpu::contract(LoopGraph &loop) {
  bridge(loop);
  dropFree(loop);
  keepFirst(loop);
}
