//===- KernelBuilder.cpp - Scopes, registers, labels ----------------------===//

#include "Parser.h"

namespace fa2::sim {

static std::string quoted(std::string_view name) {
  return "'" + std::string(name.substr(0, 80)) + "'";
}

void KernelBuilder::pushScope() {
  scopes.push_back({});
  scopes.back().parent = current;
  current = u32(scopes.size()) - 1;
}

void KernelBuilder::popScope() { current = scopes[current].parent; }

void KernelBuilder::declareRegisters(unsigned line, Type type,
                                     std::string_view name, u64 count,
                                     bool counted) {
  if (scopes[current].registers.count(name))
    throw SyntaxError{line, "register " + quoted(name) + " is declared twice"};
  scopes[current].registers[name] = {type, count, counted};
}

void KernelBuilder::declareSymbol(unsigned line, std::string_view name,
                                  Symbol symbol) {
  if (!scopes[current].symbols.emplace(name, symbol).second)
    throw SyntaxError{line, "variable " + quoted(name) + " is declared twice"};
}

void KernelBuilder::defineLabel(unsigned line, std::string_view name) {
  if (!scopes[current].labels.emplace(name, u32(kernel.code.size())).second)
    throw SyntaxError{line, "label " + quoted(name) + " is defined twice"};
}

void KernelBuilder::branchTo(unsigned line, std::string_view label) {
  branches.push_back({u32(kernel.code.size()), current, line, label});
}

// "%r12" is register 12 of "%r<64>", or a register declared by that name.
const KernelBuilder::Declared *KernelBuilder::lookUp(std::string_view name,
                                                     u32 &scope) const {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
    --digits;
  u64 number = 0;
  bool numbered = digits < name.size() && name.size() - digits <= 9 &&
                  (name[digits] != '0' || name.size() - digits == 1);
  if (numbered)
    for (char c : name.substr(digits))
      number = number * 10 + u64(c - '0');
  for (scope = current; scope != kNone; scope = scopes[scope].parent) {
    const auto &table = scopes[scope].registers;
    if (auto it = table.find(name); it != table.end() && !it->second.counted)
      return &it->second;
    if (!numbered)
      continue;
    if (auto it = table.find(name.substr(0, digits));
        it != table.end() && it->second.counted && number < it->second.count)
      return &it->second;
  }
  return nullptr;
}

bool KernelBuilder::isRegister(std::string_view name) const {
  u32 scope;
  return lookUp(name, scope) != nullptr;
}

KernelBuilder::RegisterRef KernelBuilder::registerNamed(unsigned line,
                                                        std::string_view name) {
  u32 scope;
  const Declared *declared = lookUp(name, scope);
  if (!declared)
    throw SyntaxError{line, "unknown register " + quoted(name)};
  auto [it, fresh] = scopes[scope].used.try_emplace(name);
  if (fresh) {
    RegisterRef &ref = it->second;
    ref.type = declared->type;
    ref.reg = kernel.numRegisters++;
    kernel.registerNames.emplace_back(name);
    if (ref.type == Type::Pred) {
      ref.slot = kernel.numPredicates++;
    } else {
      ref.slot = kernel.fileWords;
      kernel.fileWords += kWarpSize * (bytesOf(ref.type) == 8 ? 2 : 1);
    }
  }
  return it->second;
}

const Symbol &KernelBuilder::symbolNamed(unsigned line,
                                         std::string_view name) const {
  for (u32 scope = current; scope != kNone; scope = scopes[scope].parent)
    if (auto it = scopes[scope].symbols.find(name);
        it != scopes[scope].symbols.end())
      return it->second;
  throw SyntaxError{line, "unknown name " + quoted(name)};
}

Operand KernelBuilder::constant(u64 bits, unsigned bytes, bool sharedAddress) {
  Operand operand;
  operand.constant = true;
  operand.sharedAddress = sharedAddress;
  operand.bytes = u8(bytes == 8 ? 8 : 4);
  if (bytes != 8)
    bits &= 0xffffffffu;
  operand.value = bytes == 8 ? s64(bits) : s64(s32(bits));
  auto [it, fresh] = constantSlots.try_emplace(
      std::tuple(bits, unsigned(operand.bytes), sharedAddress), 0);
  if (fresh) {
    it->second = u32(kernel.constants.size());
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      kernel.constants.push_back(u32(bits));
      if (operand.bytes == 8)
        kernel.constants.push_back(u32(bits >> 32));
    }
    if (sharedAddress)
      kernel.sharedConstants.emplace_back(it->second, operand.bytes);
  }
  operand.slot = it->second;
  return operand;
}

void KernelBuilder::finish() {
  auto &code = kernel.code;
  for (const Branch &branch : branches) {
    u32 target = kNone;
    for (u32 scope = branch.scope; scope != kNone && target == kNone;
         scope = scopes[scope].parent)
      if (auto it = scopes[scope].labels.find(branch.label);
          it != scopes[scope].labels.end())
        target = it->second;
    if (target == kNone)
      throw SyntaxError{branch.line, "unknown label " + quoted(branch.label)};
    code[branch.inst].target = target;
  }
  // The dynamic shared array stands behind everything static.
  u64 dynamic = kSharedBase + kernel.staticShared;
  dynamic = (dynamic + kernel.dynamicAlign - 1) / kernel.dynamicAlign *
            kernel.dynamicAlign;
  for (size_t i = 0; i < kernel.operands.size(); ++i)
    if (Operand old = kernel.operands[i]; old.dynamicShared) {
      Operand fixed = constant(dynamic + u64(old.value), old.bytes, true);
      fixed.role = old.role;
      kernel.operands[i] = fixed;
    }
  for (Inst &inst : code)
    inst.ops = kernel.operands.data() + inst.firstOp;
  computeReconvergence(kernel);
}

} // namespace fa2::sim
