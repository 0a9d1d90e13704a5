//===- Isa.cpp - Types and post-dominators --------------------------------===//

#include "Isa.h"

namespace fa2::sim {

namespace {
struct TypeRow {
  std::string_view name;
  Type type;
  unsigned bytes;
  bool isFloat, isSigned;
};
constexpr TypeRow kTypes[] = {
    {"pred", Type::Pred, 0, false, false},
    {"b8", Type::B8, 1, false, false},
    {"b16", Type::B16, 2, false, false},
    {"b32", Type::B32, 4, false, false},
    {"b64", Type::B64, 8, false, false},
    {"b128", Type::B128, 16, false, false},
    {"u8", Type::U8, 1, false, false},
    {"u16", Type::U16, 2, false, false},
    {"u32", Type::U32, 4, false, false},
    {"u64", Type::U64, 8, false, false},
    {"s8", Type::S8, 1, false, true},
    {"s16", Type::S16, 2, false, true},
    {"s32", Type::S32, 4, false, true},
    {"s64", Type::S64, 8, false, true},
    {"f16", Type::F16, 2, true, true},
    {"f16x2", Type::F16x2, 4, true, true},
    {"bf16", Type::BF16, 2, true, true},
    {"bf16x2", Type::BF16x2, 4, true, true},
    {"tf32", Type::TF32, 4, true, true},
    {"f32", Type::F32, 4, true, true},
    {"f64", Type::F64, 8, true, true},
};
const TypeRow *rowOf(Type type) {
  for (const TypeRow &row : kTypes)
    if (row.type == type)
      return &row;
  return nullptr;
}
} // namespace

unsigned bytesOf(Type type) {
  const TypeRow *row = rowOf(type);
  return row ? row->bytes : 0;
}
bool isFloat(Type type) {
  const TypeRow *row = rowOf(type);
  return row && row->isFloat;
}
bool isSigned(Type type) {
  const TypeRow *row = rowOf(type);
  return row && row->isSigned;
}
Type typeNamed(std::string_view name) {
  for (const TypeRow &row : kTypes)
    if (row.name == name)
      return row.type;
  return Type::None;
}
std::string_view nameOf(Type type) {
  const TypeRow *row = rowOf(type);
  return row ? row->name : "none";
}

std::string_view nameOf(Category category) {
  constexpr std::string_view names[] = {
      "integer",       "float",        "special",    "convert",
      "move",          "predicate",    "control",    "global_memory",
      "shared_memory", "other_memory", "async_copy", "synchronize",
      "shuffle",       "matrix_load",  "tensor_core"};
  return names[unsigned(category)];
}

std::string Module::lineText(unsigned line) const {
  if (line == 0 || line > lines.size())
    return {};
  std::string_view text = lines[line - 1];
  if (size_t comment = text.find("//"); comment != text.npos)
    text = text.substr(0, comment);
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() &&
         (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return std::string(text);
}

std::string Module::opcodeOf(const Inst &inst) const {
  std::string text = lineText(inst.line);
  size_t start = 0;
  if (!text.empty() && text[0] == '@') {
    start = text.find_first_of(" \t");
    start = start == text.npos ? 0 : text.find_first_not_of(" \t", start);
  }
  return text.substr(start, text.find_first_of(" \t;", start) - start);
}

unsigned targetCapability(const Module &program) { return program.capability; }

std::vector<KernelInfo> kernels(const Module &program) {
  std::vector<KernelInfo> infos;
  for (const auto &kernel : program.kernels)
    infos.push_back(kernel->info);
  return infos;
}

// Immediate post-dominators by the iteration of Cooper, Harvey and Kennedy on
// the reversed graph of basic blocks. The virtual exit has number `exit`;
// blocks that cannot reach it reconverge nowhere.
void computeReconvergence(Kernel &kernel) {
  auto &code = kernel.code;
  const u32 n = u32(code.size());
  std::vector<bool> leader(n + 1, false);
  leader[0] = leader[n] = true;
  for (u32 i = 0; i < n; ++i)
    if (code[i].isBranch) {
      leader[i + 1] = true;
      if (code[i].target != kNone)
        leader[code[i].target] = true;
    }
  std::vector<u32> start, blockOf(n);
  for (u32 i = 0; i < n; ++i) {
    if (leader[i])
      start.push_back(i);
    blockOf[i] = u32(start.size()) - 1;
  }
  const u32 exit = u32(start.size());
  std::vector<std::vector<u32>> successors(exit), predecessors(exit + 1);
  auto edge = [&](u32 from, u32 to) {
    successors[from].push_back(to);
    predecessors[to].push_back(from);
  };
  for (u32 b = 0; b < exit; ++b) {
    u32 last = (b + 1 < exit ? start[b + 1] : n) - 1;
    const Inst &inst = code[last];
    bool falls = !inst.isBranch || inst.guard != kNone;
    if (inst.isBranch)
      edge(b, inst.target == kNone || inst.target >= n ? exit
                                                       : blockOf[inst.target]);
    if (falls)
      edge(b, last + 1 < n ? blockOf[last + 1] : exit);
  }
  // Reverse post-order of the reversed graph, from the exit.
  std::vector<u32> order, number(exit + 1, kNone);
  std::vector<std::pair<u32, u32>> stack{{exit, 0}};
  std::vector<bool> seen(exit + 1, false);
  seen[exit] = true;
  while (!stack.empty()) {
    auto &[node, next] = stack.back();
    if (next < predecessors[node].size()) {
      u32 child = predecessors[node][next++];
      if (!seen[child]) {
        seen[child] = true;
        stack.push_back({child, 0});
      }
    } else {
      number[node] = u32(order.size());
      order.push_back(node);
      stack.pop_back();
    }
  }
  std::vector<u32> idom(exit + 1, kNone);
  idom[exit] = exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = order.size(); k-- > 0;) {
      u32 node = order[k];
      if (node == exit)
        continue;
      u32 best = kNone;
      for (u32 s : successors[node]) {
        if (number[s] == kNone || idom[s] == kNone)
          continue;
        if (best == kNone) {
          best = s;
          continue;
        }
        u32 x = best, y = s;
        while (x != y) {
          while (number[x] < number[y])
            x = idom[x];
          while (number[y] < number[x])
            y = idom[y];
        }
        best = x;
      }
      if (best != idom[node]) {
        idom[node] = best;
        changed = true;
      }
    }
  }
  for (u32 i = 0; i < n; ++i)
    if (code[i].isBranch) {
      u32 d = idom[blockOf[i]];
      code[i].reconverge = d == kNone || d == exit ? kNone : start[d];
    }
}

} // namespace fa2::sim
