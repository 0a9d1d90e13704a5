//===- Parser.cpp - PTX modules, kernels and statements -------------------===//
//
// PTX ISA 4 (syntax), 5 (state spaces, variables), 11 (directives).
//
//===----------------------------------------------------------------------===//

#include "Parser.h"

namespace fa2::sim {
namespace {

std::string quoted(std::string_view name) {
  return "'" + std::string(name.substr(0, 80)) + "'";
}

class Parser {
public:
  explicit Parser(Module &program) : program(program), lex(program.text) {}
  void parseModule();

private:
  const Token &peek() const { return lex.peek(); }
  Token expect(char c);
  Token expectIdentifier();
  u64 expectInteger();
  bool accept(char c);
  [[noreturn]] void fail(const std::string &text) const {
    throw SyntaxError{peek().line, text};
  }
  void skipStatement();
  void skipLine(unsigned line);
  void parseTarget();
  void parseFile(unsigned line);
  void parseEntry();
  void parseParameters(KernelBuilder &builder);
  void parsePerformance(Kernel &kernel);
  void parseBody(KernelBuilder &builder);
  void parseRegisters(KernelBuilder &builder);
  void parseLocation(KernelBuilder &builder, unsigned line);
  void parseInstruction(KernelBuilder &builder);
  void parseOperands(RawInst &raw);
  RawOperand parseOperand(unsigned depth);
  RawOperand parseAddress(unsigned depth);
  struct Variable {
    std::string_view name;
    u64 bytes = 0, alignment = 0;
    bool unsized = false;
    unsigned line = 0;
  };
  Variable parseVariable();
  void placeShared(KernelBuilder &builder, const Variable &v, bool external);

  Module &program;
  Lexer lex;
  struct ModuleShared {
    Variable variable;
    bool external;
  };
  std::vector<ModuleShared> moduleShared;
  std::map<u64, std::string> files;
  u32 location = kNone;
};

Token Parser::expect(char c) {
  if (!peek().is(c))
    fail(std::string("expected '") + c + "', got " + quoted(peek().text));
  return lex.take();
}
Token Parser::expectIdentifier() {
  if (peek().kind != Token::Identifier)
    fail("expected a name, got " + quoted(peek().text));
  return lex.take();
}
u64 Parser::expectInteger() {
  if (peek().kind != Token::Integer)
    fail("expected an integer, got " + quoted(peek().text));
  return lex.take().bits;
}
bool Parser::accept(char c) {
  if (!peek().is(c))
    return false;
  lex.take();
  return true;
}
void Parser::skipStatement() {
  while (peek().kind != Token::End && !peek().is(';'))
    lex.take();
  expect(';');
}
void Parser::skipLine(unsigned line) {
  while (peek().kind != Token::End && peek().line == line)
    lex.take();
}

// .target sm_90a (PTX ISA 11.1.2)
void Parser::parseTarget() {
  Token token = expectIdentifier();
  std::string_view name = token.text;
  unsigned value = 0;
  size_t k = 3;
  if (name.substr(0, 3) != "sm_")
    throw SyntaxError{token.line, "unknown target " + quoted(name)};
  for (; k < name.size() && k < 6 && name[k] >= '0' && name[k] <= '9'; ++k)
    value = value * 10 + unsigned(name[k] - '0');
  program.capability = value;
  if (value < 70 || value > 90)
    throw SyntaxError{token.line, "target " + quoted(name) +
                                      " is not simulated; the simulator "
                                      "knows sm_70 to sm_90a"};
  while (accept(','))
    expectIdentifier();
}

void Parser::parseFile(unsigned line) {
  u64 number = expectInteger();
  if (peek().kind != Token::String)
    fail("expected a file name");
  files[number] = std::string(lex.take().text);
  skipLine(line);
}

// .align N .type name[N], without initialisers (PTX ISA 5.4)
Parser::Variable Parser::parseVariable() {
  Variable v;
  v.line = peek().line;
  Type type = Type::None;
  u64 count = 1, vector = 1;
  while (peek().kind == Token::Identifier && peek().text[0] == '.') {
    std::string_view word = lex.take().text;
    if (word == ".align") {
      v.alignment = expectInteger();
      if (!std::has_single_bit(v.alignment) || v.alignment > 65536)
        fail("alignment must be a power of two up to 65536");
    } else if (word == ".v2" || word == ".v4") {
      vector = u64(word[2] - '0');
    } else if (word == ".ptr") {
      // .ptr .space .align N: an attribute of a parameter (PTX ISA 5.1.6.2)
      if (peek().is(".global") || peek().is(".shared") || peek().is(".const") ||
          peek().is(".local"))
        lex.take();
      if (peek().is(".align")) {
        lex.take();
        expectInteger();
      }
    } else if (Type t = typeNamed(word.substr(1)); t != Type::None) {
      type = t;
    } else {
      fail("unknown attribute " + quoted(word) + " of a variable");
    }
  }
  if (type == Type::None || type == Type::Pred)
    fail("expected a variable's type");
  v.name = expectIdentifier().text;
  while (accept('[')) {
    if (accept(']')) {
      v.unsized = true;
      continue;
    }
    u64 extent = expectInteger();
    expect(']');
    if (extent > (1u << 28) || count * extent > (1u << 28))
      fail("variable " + quoted(v.name) + " is larger than 2^28 bytes");
    count *= extent;
  }
  if (peek().is('='))
    fail("initialised variables are not supported");
  v.bytes = v.unsized ? 0 : count * vector * bytesOf(type);
  if (v.alignment == 0)
    v.alignment = std::max<u64>(1, vector * bytesOf(type));
  return v;
}

void Parser::placeShared(KernelBuilder &builder, const Variable &v,
                         bool external) {
  Kernel &kernel = builder.kernel;
  Symbol symbol;
  symbol.space = Space::Shared;
  if (external || v.unsized) {
    symbol.isDynamicShared = true;
    kernel.dynamicAlign = std::max<u32>(kernel.dynamicAlign, u32(v.alignment));
  } else {
    u64 at = kSharedBase + kernel.staticShared;
    at = (at + v.alignment - 1) / v.alignment * v.alignment;
    symbol.offset = at;
    if (at + v.bytes - kSharedBase > (1u << 28))
      throw SyntaxError{v.line, "more than 2^28 bytes of shared memory"};
    kernel.staticShared = u32(at + v.bytes - kSharedBase);
  }
  builder.declareSymbol(v.line, v.name, symbol);
}

void Parser::parseParameters(KernelBuilder &builder) {
  Kernel &kernel = builder.kernel;
  if (accept(')'))
    return;
  do {
    if (!peek().is(".param"))
      fail("expected .param, got " + quoted(peek().text));
    lex.take();
    Variable v = parseVariable();
    ParameterInfo info;
    info.name = std::string(v.name);
    info.alignment = u32(v.alignment);
    info.bytes = u32(v.bytes);
    u64 at = (kernel.info.parameterBytes + v.alignment - 1) / v.alignment *
             v.alignment;
    if (at + v.bytes > 32764)
      fail("more than 32764 bytes of parameters");
    info.offset = u32(at);
    kernel.info.parameterBytes = u32(at + v.bytes);
    kernel.info.parameters.push_back(info);
    builder.declareSymbol(v.line, v.name, {Space::Param, at, false});
  } while (accept(','));
  expect(')');
}

// .maxntid, .reqntid, .minnctapersm, .maxnreg (PTX ISA 11.4),
// .reqnctapercluster, .explicitcluster, .maxclusterrank (11.7)
void Parser::parsePerformance(Kernel &kernel) {
  while (peek().kind == Token::Identifier) {
    Token word = lex.take();
    std::array<u64, 3> n{1, 1, 1};
    if (word.is(".noreturn"))
      continue;
    if (word.is(".explicitcluster")) {
      kernel.explicitCluster = true;
      continue;
    }
    if (word.is(".pragma")) {
      skipStatement();
      continue;
    }
    unsigned k = 0;
    do {
      u64 value = expectInteger();
      if (k < 3)
        n[k++] = value;
    } while (accept(','));
    if (n[0] > 65536 || n[1] > 65536 || n[2] > 65536)
      throw SyntaxError{word.line, "value of " + quoted(word.text) +
                                       " is larger than 65536"};
    if (word.is(".maxntid"))
      kernel.info.maxThreads = u32(std::min<u64>(n[0] * n[1] * n[2], 65536));
    else if (word.is(".reqntid"))
      kernel.info.requiredBlock = {u32(n[0]), u32(n[1]), u32(n[2])};
    else if (word.is(".reqnctapercluster"))
      kernel.info.requiredCluster = {u32(n[0]), u32(n[1]), u32(n[2])};
    else if (word.is(".maxclusterrank"))
      kernel.maxCluster = u32(n[0]);
    else if (word.is(".minnctapersm"))
      kernel.minBlocks = u32(n[0]);
    else if (word.is(".maxnreg"))
      kernel.maxRegisters = u32(n[0]);
    else
      throw SyntaxError{word.line, "unknown directive " + quoted(word.text) +
                                       " of a kernel"};
  }
}

void Parser::parseRegisters(KernelBuilder &builder) {
  Token type = expectIdentifier();
  Type t = type.text[0] == '.' ? typeNamed(type.text.substr(1)) : Type::None;
  if (t == Type::None || t == Type::B8 || t == Type::U8 || t == Type::S8 ||
      t == Type::B128)
    throw SyntaxError{type.line, "registers of type " + quoted(type.text) +
                                     " are not supported"};
  do {
    Token name = expectIdentifier();
    bool counted = false;
    u64 count = 0;
    if (accept('<')) {
      count = expectInteger();
      counted = true;
      expect('>');
    }
    builder.declareRegisters(name.line, t, name.text, count, counted);
  } while (accept(','));
  expect(';');
}

// .loc file line column[, function_name ..., inlined_at ...] (PTX ISA 11.5.3)
void Parser::parseLocation(KernelBuilder &builder, unsigned line) {
  Location place;
  u64 file = expectInteger();
  if (auto it = files.find(file); it != files.end())
    place.file = it->second;
  else
    place.file = "#" + std::to_string(file);
  place.line = unsigned(expectInteger());
  if (peek().kind == Token::Integer)
    place.column = unsigned(expectInteger());
  skipLine(line);
  location = u32(builder.kernel.locations.size());
  builder.kernel.locations.push_back(std::move(place));
}

RawOperand Parser::parseAddress(unsigned depth) {
  RawOperand address;
  address.kind = RawOperand::Address;
  if (peek().kind == Token::Identifier) {
    address.name = lex.take().text;
  } else {
    bool negative = accept('-');
    u64 value = expectInteger();
    address.offset = negative ? s64(~value + 1) : s64(value);
  }
  while (peek().is('+') || peek().is('-')) {
    bool negative = lex.take().is('-');
    if (accept('-'))
      negative = !negative;
    u64 value = expectInteger();
    address.offset = s64(u64(address.offset) + (negative ? ~value + 1 : value));
  }
  if (accept(',')) {
    if (!peek().is('{'))
      fail("expected tensor coordinates in braces");
    address.elements = parseOperand(depth + 1).elements;
  }
  expect(']');
  return address;
}

RawOperand Parser::parseOperand(unsigned depth) {
  RawOperand operand;
  if (depth > 2)
    fail("operands are nested too deeply");
  if (accept('{')) {
    operand.kind = RawOperand::Vector;
    if (accept('}'))
      return operand;
    do
      operand.elements.push_back(parseOperand(depth + 1));
    while (accept(','));
    expect('}');
    return operand;
  }
  if (accept('['))
    return parseAddress(depth);
  if (accept('!')) {
    operand = parseOperand(depth + 1);
    operand.negated = !operand.negated;
    return operand;
  }
  bool negative = accept('-');
  const Token &token = peek();
  if (token.kind == Token::Integer) {
    operand.kind = RawOperand::Integer;
    operand.bits = negative ? ~token.bits + 1 : token.bits;
    lex.take();
  } else if (token.kind == Token::Float) {
    operand.kind = RawOperand::Float;
    operand.floatBytes = token.floatBytes;
    operand.bits = token.bits;
    if (negative)
      operand.bits ^= token.floatBytes == 4 ? u64(1) << 31 : u64(1) << 63;
    lex.take();
  } else if (token.kind == Token::Identifier && !negative) {
    operand.name = lex.take().text;
    operand.kind = operand.name == "_" ? RawOperand::Sink : RawOperand::Symbol;
    if (operand.kind == RawOperand::Symbol && peek().is('+')) {
      lex.take();
      operand.offset = s64(expectInteger());
    }
  } else {
    fail("expected an operand, got " + quoted(token.text));
  }
  return operand;
}

void Parser::parseOperands(RawInst &raw) {
  if (!peek().is(';')) {
    for (bool piped = false;;) {
      RawOperand operand = parseOperand(0);
      operand.piped = piped;
      raw.operands.push_back(std::move(operand));
      if (raw.operands.size() > 64)
        fail("more than 64 operands");
      if (accept('|'))
        piped = true;
      else if (accept(','))
        piped = false;
      else
        break;
    }
  }
  if (!peek().is(';'))
    fail("expected ';' behind " + quoted(raw.opcode) + ", got " +
         quoted(peek().text));
  lex.take();
}

void Parser::parseInstruction(KernelBuilder &builder) {
  Inst inst;
  inst.location = location;
  RawInst raw;
  if (accept('@')) {
    inst.guardNegated = accept('!');
    Token name = expectIdentifier();
    auto ref = builder.registerNamed(name.line, name.text);
    if (ref.type != Type::Pred)
      throw SyntaxError{name.line,
                        "guard " + quoted(name.text) + " is no predicate"};
    inst.guard = ref.slot;
    inst.guardReg = ref.reg;
  }
  Token opcode = expectIdentifier();
  raw.opcode = opcode.text;
  raw.line = opcode.line;
  inst.line = opcode.line;
  parseOperands(raw);
  decode(builder, raw, inst);
}

void Parser::parseBody(KernelBuilder &builder) {
  unsigned depth = 1;
  Kernel &kernel = builder.kernel;
  kernel.info.firstLine = expect('{').line;
  location = kNone;
  for (;;) {
    const Token token = peek();
    if (token.kind == Token::End)
      fail("body of " + quoted(kernel.info.name) + " is never closed");
    if (token.is('{')) {
      lex.take();
      builder.pushScope();
      ++depth;
    } else if (token.is('}')) {
      kernel.info.lastLine = token.line;
      if (--depth == 0) {
        // Falling off the end is a return.
        Inst inst;
        inst.line = token.line;
        decode(builder, {token.line, "ret", {}}, inst);
        lex.take();
        return;
      }
      lex.take();
      builder.popScope();
    } else if (accept(';')) {
      continue;
    } else if (token.kind == Token::Identifier && token.text[0] == '.') {
      lex.take();
      if (token.is(".reg")) {
        parseRegisters(builder);
      } else if (token.is(".shared")) {
        placeShared(builder, parseVariable(), false);
        expect(';');
      } else if (token.is(".local")) {
        Variable v = parseVariable();
        u64 at =
            (kernel.localBytes + v.alignment - 1) / v.alignment * v.alignment;
        if (at + v.bytes > (1u << 19))
          fail("more than 512 KB of local memory a thread");
        builder.declareSymbol(v.line, v.name, {Space::Local, at, false});
        kernel.localBytes = u32(at + v.bytes);
        expect(';');
      } else if (token.is(".loc")) {
        parseLocation(builder, token.line);
      } else if (token.is(".pragma")) {
        skipStatement();
      } else {
        throw SyntaxError{token.line, "directive " + quoted(token.text) +
                                          " is not supported in a body"};
      }
    } else if (token.kind == Token::Identifier || token.is('@')) {
      if (token.kind == Token::Identifier) {
        Token name = lex.take();
        if (accept(':')) {
          builder.defineLabel(name.line, name.text);
          continue;
        }
        Inst inst;
        inst.location = location;
        inst.line = name.line;
        RawInst raw;
        raw.opcode = name.text;
        raw.line = name.line;
        parseOperands(raw);
        decode(builder, raw, inst);
      } else {
        parseInstruction(builder);
      }
    } else {
      fail("expected a statement, got " + quoted(token.text));
    }
  }
}

void Parser::parseEntry() {
  Token name = expectIdentifier();
  for (const auto &other : program.kernels)
    if (other->info.name == name.text)
      throw SyntaxError{name.line,
                        "kernel " + quoted(name.text) + " is defined twice"};
  program.kernels.push_back(std::make_unique<Kernel>());
  Kernel &kernel = *program.kernels.back();
  kernel.info.name = std::string(name.text);
  KernelBuilder builder(kernel, program);
  for (const ModuleShared &shared : moduleShared)
    placeShared(builder, shared.variable, shared.external);
  if (accept('('))
    parseParameters(builder);
  parsePerformance(kernel);
  parseBody(builder);
  builder.finish();
  kernel.info.staticSharedBytes = kernel.staticShared;
}

void Parser::parseModule() {
  bool external = false;
  while (peek().kind != Token::End) {
    Token word = lex.take();
    if (word.is(".version")) {
      if (peek().kind != Token::Float && peek().kind != Token::Integer)
        fail("expected a version");
      lex.take();
    } else if (word.is(".target")) {
      parseTarget();
    } else if (word.is(".address_size")) {
      if (expectInteger() != 64)
        throw SyntaxError{word.line, "address size must be 64"};
    } else if (word.is(".extern") || word.is(".visible") || word.is(".weak") ||
               word.is(".common")) {
      external = word.is(".extern");
      continue;
    } else if (word.is(".entry")) {
      if (program.capability == 0)
        throw SyntaxError{word.line, "expected .target before a kernel"};
      parseEntry();
    } else if (word.is(".shared")) {
      moduleShared.push_back({parseVariable(), external});
      expect(';');
    } else if (word.is(".func") && external) {
      skipStatement(); // a declaration; calls are refused where they stand
    } else if (word.is(".file")) {
      parseFile(word.line);
    } else if (word.is(".section")) {
      expectIdentifier();
      if (!peek().is('{'))
        fail("expected '{' behind .section");
      lex.skipBraces();
    } else if (word.is(".pragma")) {
      skipStatement();
    } else if (!word.is(';')) {
      throw SyntaxError{word.line, "directive or name " + quoted(word.text) +
                                       " is not supported here"};
    }
    external = false;
  }
}

} // namespace

ParseResult parse(std::string_view ptx) {
  ParseResult result;
  auto program = std::make_shared<Module>();
  program->text = std::string(ptx);
  std::string_view text = program->text;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    program->lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  try {
    Parser(*program).parseModule();
  } catch (const SyntaxError &error) {
    result.error = {error.line, error.text};
    return result;
  }
  if (program->kernels.empty()) {
    result.error = {unsigned(program->lines.size()), "no kernel in this text"};
    return result;
  }
  result.program = program;
  return result;
}

} // namespace fa2::sim
