//===- Simulator.h - The PTX simulator's public interface ------*- C++ -*-===//
//
// A PTX interpreter that executes what the compiler emitted and checks what
// hardware hides. It depends on the C++ standard library only.
//
// Use: parse() a PTX text once; fill a Launch for each kernel of the launch
// list; run() them in order, as one stream would. Nothing here keeps global
// state: different threads may run different launches of one Module at once.
//
// docs/contributing/simulator-rules.md describes the checks by their rule
// numbers, and the numerics.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_RUNTIME_SIM_SIMULATOR_H
#define FA2_RUNTIME_SIM_SIMULATOR_H

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::sim {

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// A parsed and decoded PTX module. Immutable; shared between runs.
class Module;

/// A malformed text, or an instruction, modifier or directive that the
/// simulator does not know. `line` counts from 1 in the PTX text.
struct ParseError {
  unsigned line = 0;
  std::string text;
};

struct ParseResult {
  std::shared_ptr<const Module> program; ///< null exactly when parsing failed
  ParseError error;
  explicit operator bool() const { return program != nullptr; }
};

/// Parses and decodes every kernel of a PTX text. Never throws, never crashes.
ParseResult parse(std::string_view ptx);

/// One `.param` of a kernel: where its bytes lie in Launch::parameters.
struct ParameterInfo {
  std::string name;
  uint32_t offset = 0;    ///< bytes from the start of the parameter block
  uint32_t bytes = 0;     ///< size in bytes (128 for a tensor map)
  uint32_t alignment = 0; ///< bytes
};

struct KernelInfo {
  std::string name;
  std::vector<ParameterInfo> parameters;
  uint32_t parameterBytes = 0;    ///< size of the whole parameter block
  uint32_t staticSharedBytes = 0; ///< without the dynamic part
  uint32_t maxThreads = 0;        ///< product of .maxntid, 0 when absent
  std::array<uint32_t, 3> requiredBlock{};   ///< .reqntid, 0 when absent
  std::array<uint32_t, 3> requiredCluster{}; ///< .reqnctapercluster, likewise
  unsigned firstLine = 0, lastLine = 0;      ///< PTX lines of the body
};

/// The kernels of a program in the order of the text.
std::vector<KernelInfo> kernels(const Module &program);

/// `.target` as compute capability times ten (80 for sm_80, 90 for sm_90a).
unsigned targetCapability(const Module &program);

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// A simulated tensor map: exactly what stands in the 128 bytes of a tensor
/// map parameter (the driver's encoding is opaque). Fields as the arguments of
/// cuTensorMapEncodeTiled, which refuses what the simulator refuses.
/// Out-of-range elements read as zero and are not written; element strides are
/// 1 and there is no interleave.
struct alignas(8) TensorMap {
  static constexpr uint64_t kMagic = 0x70616d726f736e74; // "tnsormap"
  uint64_t magic = kMagic;
  uint64_t base = 0;        ///< host address, a multiple of 16
  uint8_t rank = 0;         ///< 1 to 5
  uint8_t elementBytes = 0; ///< 1, 2, 4 or 8
  uint16_t swizzle = 0;     ///< span in bytes: 0, 32, 64 or 128
  uint32_t box[5] = {};     ///< elements, innermost first, each 1 to 256
  uint64_t dims[5] = {};    ///< extents in elements, innermost first, nonzero
  uint64_t strides[4] = {}; ///< bytes, of dimensions 1 and up
  uint8_t reserved[16] = {};
};
static_assert(sizeof(TensorMap) == 128);

/// A tensor in global memory: the exact set of addresses a kernel may touch.
/// Element [i0, i1, ...] lies at base + elementBytes * sum(i * stride). The
/// memory between elements is out of bounds, and may be unmapped. Global
/// addresses of the simulated kernel are host addresses. A tensor with a zero
/// extent has no legal address.
struct Region {
  std::string name;
  uint64_t base = 0; ///< host address of element [0, ..., 0]
  uint32_t elementBytes = 1;
  std::vector<int64_t> shape;   ///< extents in elements; empty: one element
  std::vector<int64_t> strides; ///< in elements, one a dimension, any sign
  bool readable = true;
  bool writable = false;
  /// The manifest's promise: two f32 read-modify-writes of one word must be
  /// ordered (rule 8).
  bool deterministic = false;
  /// An output: every element is to be stored exactly once by the launches of
  /// one run() (rule 11). Leave false for a workspace, or memory that kernels
  /// accumulate into.
  bool storedOnce = false;
  /// Of an output: the last elements of each innermost row, which is
  /// contiguous, that may be stored and need not be.
  int64_t paddedBy = 0;
  /// False: reading an element that no kernel has stored is reported
  /// (rule 11). Inputs, and anything the host has filled, are initialised.
  bool initialised = true;
};

/// One kernel of a launch list.
struct Launch {
  std::shared_ptr<const Module> program;
  std::string kernel; ///< the `.entry`
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  std::array<uint32_t, 3> cluster{1, 1, 1}; ///< at most 8 blocks
  uint32_t dynamicSharedBytes = 0;
  /// The parameter block, KernelInfo::parameterBytes long, each parameter at
  /// its offset, tensor maps as TensorMap.
  std::vector<uint8_t> parameters;
  /// Programmatic stream serialisation: blocks may start once all blocks of
  /// the launch before have launched dependents or exited (rule 9).
  bool programmatic = false;
};

/// When an asynchronous copy or matrix product takes effect.
enum class Completion {
  Early, ///< when it is issued
  Late,  ///< when something waits for it and nothing else can run
  Random ///< some time between, by the seed
};

struct Options {
  /// The device that is simulated: 80 or 90. It decides the numerics of the
  /// tensor cores, whatever `.target` says, and must not be below `.target`.
  unsigned capability = 80;
  uint64_t seed = 0; ///< orders of blocks and warps, random completion
  /// Blocks resident at once, rounded to whole clusters, at least one; 0: as
  /// many as a device of 132 (capability 90) or 108 multiprocessors would hold
  /// by shared memory and threads, at most 64 (the shadow of a block may take 9
  /// MB).
  unsigned residentBlocks = 0;
  Completion completion = Completion::Random;
  /// False turns off rules 1 to 9 and 11 to 13, not the bounds of global and
  /// shared memory and not deadlock: those always end in an error.
  bool checks = true;
  bool strict = false;     ///< warnings become errors
  bool profile = false;    ///< fill Result::profile
  bool traceWaits = false; ///< fill Result::waits
  /// Warp instructions until a run is stopped; 0: no limit.
  uint64_t instructionBudget = 20'000'000'000ull;
  unsigned maxReports = 50; ///< different ones; more are counted only
  /// Not 0: ex2, lg2, rcp and the other approximations are moved by a
  /// pseudo-random amount inside the manual's error bounds.
  uint64_t perturbApproximations = 0;
};

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

enum class Severity {
  Error,    ///< the kernel is wrong
  Warning,  ///< an error with Options::strict
  Deviation ///< a named reading of the manual that hardware is known to take
};

/// What was found, where. The same fault at the same line is reported once and
/// counted.
struct Report {
  Severity severity = Severity::Error;
  unsigned rule = 0; ///< 1 to 13, as in simulator-rules.md
  std::string kernel;
  unsigned line = 0;       ///< PTX line, from 1
  std::string instruction; ///< the PTX text of that line
  std::array<uint32_t, 3> block{};
  int warp = -1;          ///< -1: none
  int lane = -1;          ///< -1: the whole warp
  std::string space;      ///< "shared", "global", "register", "mbarrier", ...
  uint64_t address = 0;   ///< in that space; offset from its start if shared
  std::string text;       ///< what happened, and between whom
  unsigned otherLine = 0; ///< PTX line of the other party, 0 when unknown
  std::string file;       ///< from .loc/.file, empty when absent
  unsigned sourceLine = 0, sourceColumn = 0;
  uint64_t count = 1;
};

/// One line: "error: rule 1: kernel:line: ... [block (0,0,0) warp 3 lane 0]".
std::string toString(const Report &report);

/// What one PTX instruction (a line) did, summed over the run.
struct LineProfile {
  std::string kernel;
  unsigned line = 0;
  std::string opcode;
  std::string category; ///< the class, as in Profile::instructions
  std::string file;     ///< from .loc/.file, empty when absent
  unsigned sourceLine = 0, sourceColumn = 0;
  uint64_t executions = 0; ///< warp instructions
  uint64_t threads = 0;    ///< active lanes, summed
  uint64_t globalBytes = 0;
  uint64_t globalSectors = 0; ///< 32-byte sectors touched
  uint64_t sharedBytes = 0;
  /// Cycles the access takes beyond the fewest its bytes need (32 banks of 4
  /// bytes, one 128-byte wavefront a cycle).
  uint64_t bankConflicts = 0;
  uint64_t tensorOperations = 0; ///< multiplications plus additions
};

struct Profile {
  std::map<std::string, uint64_t> instructions; ///< warp instructions by class
  uint64_t warpInstructions = 0;
  uint64_t threadInstructions = 0;
  uint64_t globalLoadBytes = 0, globalStoreBytes = 0;
  uint64_t sharedLoadBytes = 0, sharedStoreBytes = 0;
  uint64_t bankConflicts = 0;
  uint64_t tensorOperations = 0;
  uint64_t blocks = 0;
  /// Every instruction of the launched kernels; executions is 0 for lines that
  /// were never executed (coverage).
  std::vector<LineProfile> lines;
};

/// What the executions of one cp.async.wait_group or wait_all completed.
struct WaitTrace {
  uint64_t executions = 0; ///< warp instructions
  uint64_t completed = 0;  ///< copies that no wait before had completed
  /// Of (block, warp, the warp's waits so far, copies complete after it), in
  /// any order: equal for two runs exactly when all waits complete the same.
  uint64_t digest = 0;
};

struct Result {
  /// Not empty when the run was refused or stopped: a bad launch, an address
  /// out of bounds, a deadlock, the instruction budget.
  std::string error;
  bool outOfMemory = false;    ///< of the host, and `error` says so
  std::vector<Report> reports; ///< in order of appearance
  uint64_t suppressedReports = 0;
  uint64_t warpInstructions = 0;
  Profile profile;                     ///< with Options::profile
  std::map<unsigned, WaitTrace> waits; ///< by PTX line, with traceWaits

  /// Ran to the end and nothing but warnings and deviations was found.
  bool ok() const;
};

/// Runs launches one after the other, as one stream would.
Result run(const std::vector<Launch> &launches,
           const std::vector<Region> &memory, const Options &options);

/// The result as one JSON object: error, reports, profile.
std::string toJson(const Result &result);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_SIMULATOR_H
