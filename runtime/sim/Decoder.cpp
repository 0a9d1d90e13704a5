//===- Decoder.cpp - From a statement to an instruction -------------------===//

#include "Decoder.h"

#include <algorithm>

namespace fa2::sim {

static std::string quoted(std::string_view name) {
  return "'" + std::string(name.substr(0, 120)) + "'";
}

Decoder::Decoder(KernelBuilder &builder, const RawInst &raw, Inst inst)
    : builder(builder), raw(raw), inst(inst) {
  std::string_view text = raw.opcode;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find('.', begin), text.size());
    modifiers.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  root = modifiers.front();
  modifiers.erase(modifiers.begin());
  this->inst.firstOp = u32(builder.kernel.operands.size());
}

void Decoder::fail(const std::string &text) const {
  throw SyntaxError{raw.line, quoted(raw.opcode) + ": " + text};
}

bool Decoder::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) !=
         modifiers.end();
}
bool Decoder::eat(std::string_view modifier) {
  auto it = std::find(modifiers.begin(), modifiers.end(), modifier);
  if (it == modifiers.end())
    return false;
  modifiers.erase(it);
  return true;
}
int Decoder::eatAny(std::initializer_list<std::string_view> names) {
  int k = 0;
  for (std::string_view name : names) {
    if (eat(name))
      return k;
    ++k;
  }
  return -1;
}
void Decoder::need(std::string_view modifier) {
  if (!eat(modifier))
    fail("expected modifier '." + std::string(modifier) + "'");
}
Type Decoder::typeOr(Type otherwise) {
  for (size_t k = 0; k < modifiers.size(); ++k)
    if (Type t = typeNamed(modifiers[k]); t != Type::None) {
      modifiers.erase(modifiers.begin() + s64(k));
      return t;
    }
  return otherwise;
}
Type Decoder::type() {
  Type t = typeOr(Type::None);
  if (t == Type::None)
    fail("expected a type");
  return t;
}
void Decoder::noModifiersLeft() const {
  if (!modifiers.empty())
    fail("unknown modifier '." + std::string(modifiers.front()) + "'");
}

void Decoder::operands(size_t count) const { operands(count, count); }
void Decoder::operands(size_t least, size_t most) const {
  size_t n = raw.operands.size();
  if (n < least || n > most)
    fail("expected " + std::to_string(least) +
         (least == most ? "" : " to " + std::to_string(most)) +
         " operands, got " + std::to_string(n));
}

Operand Decoder::constantOf(const RawOperand &operand, Type t) {
  unsigned bytes = bytesOf(t) == 8 ? 8 : 4;
  if (operand.kind == RawOperand::Float) {
    u64 bits = operand.bits;
    if (bytes == 4 && operand.floatBytes == 8)
      bits = std::bit_cast<u32>(float(std::bit_cast<double>(bits)));
    else if (bytes == 8 && operand.floatBytes == 4)
      bits = std::bit_cast<u64>(double(std::bit_cast<float>(u32(bits))));
    if (bytesOf(t) == 2)
      fail("a float literal of 16 bits is not supported");
    return constant(bits, bytes);
  }
  if (operand.kind != RawOperand::Integer)
    fail("expected a number");
  u64 bits = operand.bits;
  if (bytesOf(t) == 2)
    bits &= 0xffff;
  return constant(bits, bytes);
}

void Decoder::add(const RawOperand &operand, Type t, Role role) {
  unsigned bytes = bytesOf(t);
  Operand result;
  if (operand.kind == RawOperand::Sink) {
    if (role == Role::Source)
      fail("'_' cannot be read");
    result.sink = true;
  } else if (operand.kind == RawOperand::Symbol &&
             builder.isRegister(operand.name)) {
    auto ref = builder.registerNamed(raw.line, operand.name);
    if ((t == Type::Pred) != (ref.type == Type::Pred) ||
        (t != Type::Pred && bytesOf(ref.type) != bytes))
      fail("register " + quoted(operand.name) + " is ." +
           std::string(nameOf(ref.type)) + ", expected ." +
           std::string(nameOf(t)));
    if (operand.negated && t != Type::Pred)
      fail("'!' needs a predicate");
    result.slot = ref.slot;
    result.reg = ref.reg;
    result.bytes = t == Type::Pred ? 0 : bytes == 8 ? 8 : 4;
    result.negated = operand.negated;
  } else if (operand.kind == RawOperand::Symbol) {
    const Symbol &symbol = builder.symbolNamed(raw.line, operand.name);
    if (bytes != 4 && bytes != 8)
      fail("an address needs 32 or 64 bits");
    result = builder.constant(symbol.offset + u64(operand.offset), bytes,
                              symbol.space == Space::Shared);
    result.dynamicShared = symbol.isDynamicShared;
  } else if (t == Type::Pred) {
    if (operand.kind != RawOperand::Integer)
      fail("expected a predicate");
    result.constant = true;
    result.bytes = 0;
    result.value = operand.bits != 0;
    result.negated = operand.negated;
  } else {
    result = constantOf(operand, t);
  }
  if (role == Role::Destination && result.constant)
    fail("expected a register as the destination");
  result.role = role;
  builder.push(result);
}

void Decoder::addRelaxed(const RawOperand &operand, Type t, Role role) {
  if (operand.kind == RawOperand::Symbol && builder.isRegister(operand.name)) {
    auto ref = builder.registerNamed(raw.line, operand.name);
    if (ref.type == Type::Pred || bytesOf(ref.type) < bytesOf(t))
      fail("register " + quoted(operand.name) + " is narrower than ." +
           std::string(nameOf(t)));
    t = ref.type;
  }
  add(operand, t, role);
}

void Decoder::dst(size_t index, Type t, Role role) { add(at(index), t, role); }
void Decoder::src(size_t index, Type t, Role role) { add(at(index), t, role); }

void Decoder::address(size_t index) {
  const RawOperand &operand = at(index);
  if (operand.kind != RawOperand::Address)
    fail("expected an address in brackets");
  Operand base;
  if (operand.name.empty()) {
    base = constant(0, 8);
  } else if (builder.isRegister(operand.name)) {
    auto ref = builder.registerNamed(raw.line, operand.name);
    if (bytesOf(ref.type) != 4 && bytesOf(ref.type) != 8)
      fail("address register " + quoted(operand.name) +
           " has neither 32 nor 64 bits");
    base.slot = ref.slot;
    base.reg = ref.reg;
    base.bytes = u8(bytesOf(ref.type));
  } else {
    const Symbol &symbol = builder.symbolNamed(raw.line, operand.name);
    base = builder.constant(symbol.offset, 8, symbol.space == Space::Shared);
    base.dynamicShared = symbol.isDynamicShared;
  }
  inst.offset = operand.offset;
  builder.push(base);
}

bool Decoder::isLiteral(size_t index) const {
  return index < raw.operands.size() && at(index).kind == RawOperand::Integer;
}
s64 Decoder::literal(size_t index) const {
  if (!isLiteral(index))
    fail("operand " + std::to_string(index) + " must be a literal integer");
  return s64(at(index).bits);
}

void Decoder::emit(Handler fn, Category category) {
  noModifiersLeft();
  inst.fn = fn;
  inst.category = category;
  inst.numOps = u16(builder.kernel.operands.size() - inst.firstOp);
  builder.kernel.code.push_back(inst);
}

void decode(KernelBuilder &builder, const RawInst &raw, Inst inst) {
  static const std::map<std::string_view, FamilyDecoder> families = [] {
    std::map<std::string_view, FamilyDecoder> table;
    auto put = [&](FamilyDecoder fn,
                   std::initializer_list<std::string_view> roots) {
      for (std::string_view root : roots)
        table[root] = fn;
    };
    put(decodeInteger, {"add",  "sub", "mul",  "mad",  "div",  "rem", "abs",
                        "neg",  "min", "max",  "and",  "or",   "xor", "not",
                        "cnot", "shl", "shr",  "shf",  "bfe",  "bfi", "bfind",
                        "brev", "clz", "popc", "lop3", "prmt", "sad", "mul24"});
    put(decodeFloat, {"fma", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos",
                      "tanh", "copysign", "testp"});
    put(decodeConvert, {"cvt", "cvta", "mapa", "getctarank"});
    put(decodeMove, {"mov", "selp"});
    put(decodeCompare, {"setp", "set"});
    put(decodeControl, {"bra", "ret", "exit", "trap", "nanosleep", "setmaxnreg",
                        "griddepcontrol"});
    put(decodeMemory, {"ld", "st", "prefetch", "prefetchu", "fence", "membar",
                       "createpolicy"});
    put(decodeAtomic, {"atom", "red"});
    put(decodeCopy, {"cp"});
    put(decodeBarrier, {"bar", "barrier"});
    put(decodeMbarrier, {"mbarrier"});
    put(decodeShuffle,
        {"shfl", "vote", "elect", "redux", "activemask", "match"});
    put(decodeMatrix, {"ldmatrix", "stmatrix", "movmatrix", "mma"});
    put(decodeWgmma, {"wgmma"});
    return table;
  }();
  Decoder decoder(builder, raw, inst);
  auto it = families.find(decoder.root);
  if (it == families.end())
    decoder.fail("unknown instruction");
  if (!it->second(decoder))
    decoder.fail("this form of the instruction is not known");
}

} // namespace fa2::sim
