//===- Isa.h - Decoded PTX programs ----------------------------*- C++ -*-===//
//
// What the parser produces and the interpreter runs: instructions with a
// handler each, operands as offsets into a warp's register file.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_RUNTIME_SIM_ISA_H
#define FA2_RUNTIME_SIM_ISA_H

#include "Simulator.h"

#include <bit>
#include <cstring>

namespace fa2::sim {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

constexpr unsigned kWarpSize = 32;
constexpr u32 kFullMask = 0xffffffffu;
constexpr u32 kNone = 0xffffffffu;

/// Generic addresses outside the host's range (PTX ISA 5.1.5, generic
/// addressing: windows of the generic space).
constexpr u64 kSharedWindow = u64(1) << 56;
constexpr u64 kLocalWindow = u64(2) << 56;
constexpr u64 kParamWindow = u64(3) << 56;
constexpr u64 kWindowMask = ~((u64(1) << 56) - 1);
/// In a cluster, bits 24 and up of a shared address are the block's rank, in
/// shared::cta too: so it was measured on an H200.
constexpr u32 kRankShift = 24;
constexpr u32 kOffsetMask = (1u << kRankShift) - 1;
/// A generic address of shared memory as one of shared::cluster; others as they
/// are.
constexpr u64 withoutWindow(u64 address) {
  return (address & kWindowMask) == kSharedWindow ? address & ~kWindowMask
                                                  : address;
}
/// Shared memory starts here; the first bytes belong to the system, and a null
/// pointer is never a legal shared address.
constexpr u32 kSharedBase = 1024;

enum class Type : u8 {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16x2,
  BF16,
  BF16x2,
  TF32,
  F32,
  F64,
};

unsigned bytesOf(Type type);
bool isFloat(Type type);
bool isSigned(Type type);
/// "u32" -> U32; None when it is no type.
Type typeNamed(std::string_view name);
std::string_view nameOf(Type type);

enum class Space : u8 {
  Generic,
  Global,
  Shared,  ///< shared::cta
  Cluster, ///< shared::cluster
  Local,
  Param,
  Const
};
enum class Sem : u8 { Weak, Volatile, Relaxed, Acquire, Release, AcqRel };

/// Instruction classes of the profile.
enum class Category : u8 {
  Integer,
  Float,
  Special,
  Convert,
  Move,
  Predicate,
  Control,
  GlobalMemory,
  SharedMemory,
  OtherMemory,
  AsyncCopy,
  Synchronize,
  Shuffle,
  MatrixLoad,
  TensorCore,
  Count
};
std::string_view nameOf(Category category);

struct Warp;
struct Inst;

/// What the warp does next.
enum class Flow : u8 {
  Next,  ///< the following instruction
  Stay,  ///< blocked: execute this instruction again once woken
  Jumped ///< the handler has set the program counter
};
using Handler = Flow (*)(Warp &, const Inst &, u32 mask);

enum class Role : u8 {
  Source,      ///< must be written in every active lane
  Destination, ///< becomes written in every active lane
  Quiet        ///< the handler checks and marks it itself
};

/// A register, or a constant in all lanes.
struct Operand {
  u32 slot = 0;    ///< word offset in the register file or constant pool;
                   ///< for predicates the index of the mask
  u32 reg = kNone; ///< register number, kNone for constants
  u8 bytes = 4;    ///< of one lane's slot: 4 or 8; 0 for a predicate
  Role role = Role::Source;
  bool constant = false;
  bool sink = false;          ///< `_`
  bool negated = false;       ///< `!%p`
  bool sharedAddress = false; ///< of a variable in shared memory
  bool dynamicShared = false; ///< the dynamic array's address is to be added
  s64 value = 0;              ///< of a constant
};

struct Inst {
  Handler fn = nullptr;
  const Operand *ops = nullptr;
  u32 firstOp = 0; ///< index of ops[0] in the kernel's pool
  u16 numOps = 0;
  u32 line = 0;
  u32 location = kNone; ///< index into Kernel::locations
  u32 guard = kNone;    ///< predicate slot
  u32 guardReg = kNone;
  bool guardNegated = false;
  bool isBranch = false; ///< a bra, ret or exit
  bool sync = false;     ///< let other warps run first: interleavings differ
  Category category = Category::Integer;
  Type type = Type::None, type2 = Type::None;
  Space space = Space::Generic;
  Sem sem = Sem::Weak;
  u8 vec = 1;
  bool hasCta = false;     ///< .cta scope
  bool hasCluster = false; ///< .cluster scope
  bool multicast = false;  ///< .multicast::cluster
  u32 target = kNone;      ///< of a branch
  u32 reconverge = kNone;  ///< immediate post-dominator of a branch
  s64 offset = 0;          ///< of the address operand
  /// Small numbers whose meaning the decoder and the handler share.
  s32 a = 0, b = 0, c = 0, d = 0;
};

/// A place in the source, from .loc and .file.
struct Location {
  std::string file;
  unsigned line = 0, column = 0;
};

struct Kernel {
  KernelInfo info;
  std::vector<Inst> code;
  std::vector<Operand> operands;
  std::vector<u32> constants; ///< 32 lanes each, as in the register file
  /// Those that are addresses of shared memory: (slot, bytes of a lane).
  std::vector<std::pair<u32, u32>> sharedConstants;
  std::vector<Location> locations;
  u32 fileWords = 0;
  u32 numRegisters = 0; ///< of all classes, for the written bits
  u32 numPredicates = 0;
  u32 staticShared = 0;         ///< bytes after kSharedBase
  u32 dynamicAlign = 16;        ///< of the .extern .shared array
  u32 localBytes = 0;           ///< a thread
  u32 minBlocks = 0;            ///< .minnctapersm
  u32 maxCluster = 0;           ///< .maxclusterrank, blocks
  bool explicitCluster = false; ///< .explicitcluster
  u32 maxRegisters = 0;         ///< .maxnreg
  bool usesWgmma = false;
  bool listens = false; ///< strong loads of global memory: to other blocks
  std::vector<std::string> registerNames;
};

/// What was parsed of one PTX text.
class Module {
public:
  std::string text;
  std::vector<std::string_view> lines;
  std::vector<std::unique_ptr<Kernel>> kernels;
  unsigned capability = 0;
  std::string opcodeOf(const Inst &inst) const;
  std::string lineText(unsigned line) const;
};

/// Fills Inst::reconverge of every branch (immediate post-dominators).
void computeReconvergence(Kernel &kernel);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_ISA_H
