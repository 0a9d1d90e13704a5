//===- Decoder.h - From a statement to an instruction ----------*- C++ -*-===//
//
// A family's decoder takes the modifiers it knows; whatever is left over is an
// error that names it. Nothing is skipped.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_RUNTIME_SIM_DECODER_H
#define FA2_RUNTIME_SIM_DECODER_H

#include "Parser.h"

#include <initializer_list>

namespace fa2::sim {

class Decoder {
public:
  Decoder(KernelBuilder &builder, const RawInst &raw, Inst inst);
  KernelBuilder &builder;
  const RawInst &raw;
  Inst inst;
  std::string_view root;

  [[noreturn]] void fail(const std::string &text) const;

  // Modifiers.
  bool has(std::string_view modifier) const;
  bool eat(std::string_view modifier);
  /// Index of the first of `names` present (taken), or -1.
  int eatAny(std::initializer_list<std::string_view> names);
  void need(std::string_view modifier);
  /// The next modifier that is a type; fails when there is none.
  Type type();
  Type typeOr(Type otherwise);
  void noModifiersLeft() const;

  // Operands. `index` counts those of the statement.
  void operands(size_t count) const;
  void operands(size_t least, size_t most) const;
  const RawOperand &at(size_t index) const { return raw.operands[index]; }
  void dst(size_t index, Type type, Role role = Role::Destination);
  void src(size_t index, Type type, Role role = Role::Source);
  void add(const RawOperand &operand, Type type, Role role);
  /// A register at least as wide as `type`: ld, st and cvt (PTX ISA 9.4.1).
  void addRelaxed(const RawOperand &operand, Type type, Role role);
  /// `[base + offset]`: the base becomes an operand, Inst::offset the rest.
  void address(size_t index);
  /// A literal integer.
  s64 literal(size_t index) const;
  bool isLiteral(size_t index) const;
  Operand constant(u64 bits, unsigned bytes) {
    return builder.constant(bits, bytes);
  }
  Operand constantOf(const RawOperand &operand, Type type);

  void emit(Handler fn, Category category);

private:
  std::vector<std::string_view> modifiers;
};

using FamilyDecoder = bool (*)(Decoder &);
bool decodeInteger(Decoder &d);
bool decodeFloat(Decoder &d);
bool decodeConvert(Decoder &d);
bool decodeMove(Decoder &d);
bool decodeCompare(Decoder &d);
bool decodeControl(Decoder &d);
bool decodeMemory(Decoder &d);
bool decodeAtomic(Decoder &d);
bool decodeCopy(Decoder &d);
bool decodeBulk(Decoder &d);
bool decodeBarrier(Decoder &d);
bool decodeMbarrier(Decoder &d);
bool decodeShuffle(Decoder &d);
bool decodeMatrix(Decoder &d);
bool decodeWgmma(Decoder &d);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_DECODER_H
