//===- Parser.h - PTX text to kernels --------------------------*- C++ -*-===//
//
// One pass: statements become RawInst, which Decode turns into Inst at once.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_RUNTIME_SIM_PARSER_H
#define FA2_RUNTIME_SIM_PARSER_H

#include "Lexer.h"

#include <map>
#include <tuple>
#include <unordered_map>

namespace fa2::sim {

/// An operand as written.
struct RawOperand {
  enum Kind : u8 { Register, Integer, Float, Symbol, Address, Vector, Sink };
  Kind kind = Integer;
  std::string_view name; ///< Register, Symbol; Address: its base
  u64 bits = 0;          ///< Integer, Float
  u8 floatBytes = 0;
  bool negated = false; ///< `!%p`
  bool piped = false;   ///< follows a `|`
  bool baseIsRegister = false;
  s64 offset = 0;                   ///< Address, Symbol
  std::vector<RawOperand> elements; ///< Vector; Address: tensor coordinates
};

struct RawInst {
  unsigned line = 0;
  std::string_view opcode;
  std::vector<RawOperand> operands;
};

/// Where a name in the text lives.
struct Symbol {
  Space space = Space::Shared;
  u64 offset = 0;
  bool isDynamicShared = false; ///< offset is added when the body is read
};

/// The kernel under construction: scopes, registers, constants, labels.
class KernelBuilder {
public:
  KernelBuilder(Kernel &kernel, const Module &program)
      : kernel(kernel), program(program) {
    pushScope();
  }

  Kernel &kernel;
  const Module &program;

  void pushScope();
  void popScope();
  void declareRegisters(unsigned line, Type type, std::string_view name,
                        u64 count, bool counted);
  void declareSymbol(unsigned line, std::string_view name, Symbol symbol);
  void defineLabel(unsigned line, std::string_view name);
  void branchTo(unsigned line, std::string_view label);
  void finish();

  struct RegisterRef {
    u32 slot, reg;
    Type type;
  };
  bool isRegister(std::string_view name) const;
  RegisterRef registerNamed(unsigned line, std::string_view name);
  const Symbol &symbolNamed(unsigned line, std::string_view name) const;
  /// A constant in all lanes; `bytes` 4 or 8. The address of shared memory is
  /// one of each rank of a cluster.
  Operand constant(u64 bits, unsigned bytes, bool sharedAddress = false);
  /// Appends to the operand pool; Inst::firstOp counts from there.
  void push(const Operand &operand) { kernel.operands.push_back(operand); }

private:
  struct Declared {
    Type type;
    u64 count;
    bool counted;
  };
  struct Scope {
    u32 parent;
    std::map<std::string_view, Declared, std::less<>> registers;
    std::map<std::string_view, Symbol, std::less<>> symbols;
    std::map<std::string_view, u32, std::less<>> labels;
    std::unordered_map<std::string_view, RegisterRef> used;
  };
  struct Branch {
    u32 inst, scope;
    unsigned line;
    std::string_view label;
  };
  const Declared *lookUp(std::string_view name, u32 &scope) const;
  std::vector<Scope> scopes;
  u32 current = kNone;
  std::vector<Branch> branches;
  std::map<std::tuple<u64, unsigned, bool>, u32> constantSlots;
};

/// Decodes one statement and appends it to the kernel. Throws SyntaxError.
void decode(KernelBuilder &builder, const RawInst &raw, Inst inst);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_PARSER_H
