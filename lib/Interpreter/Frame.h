//===- Frame.h - what a program knows while it runs -------------*- C++ -*-===//
#ifndef FA2_LIB_INTERPRETER_FRAME_H
#define FA2_LIB_INTERPRETER_FRAME_H

#include "Strands.h"
#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/Interpreter/Interpreter.h"

#include <deque>
#include <map>
#include <optional>
#include <variant>

namespace fa2::interpreter {

/// A tensor in global memory, as an argument's description has it.
struct Memory {
  std::string name;
  char *data = nullptr;
  mlir::Type element;
  std::vector<int64_t> shape, strides;
  bool writable = false;

  int64_t elements() const;
  /// The address of an element; null beyond an extent.
  char *at(llvm::ArrayRef<int64_t> indices) const;
};

/// What fa2.view shows.
struct View {
  const Memory *memory = nullptr;
  int64_t batch = 0, head = 0, offset = 0, length = 0;
  int64_t heads = 1, firstColumn = 0;
  /// Where a matrix has dimensions of its own: batch, row, head and column.
  llvm::ArrayRef<int64_t> dims = {};
};

/// The slots of a ring, each with the use that was written last.
struct Ring {
  gpu::RingCreateOp op;
  struct Slot {
    Tile tile;
    int64_t use = -1;
  };
  std::vector<Slot> slots;
  // Warps that have filled, or released, each use.
  std::map<int64_t, int64_t> filled, released;
};
/// A use of a ring: where its tile lies.
struct Use {
  Ring *ring = nullptr;
  int64_t number = 0;
};

using Datum =
    std::variant<std::monostate, TileRef, const Memory *, View, Ring *, Use>;
using Environment = llvm::DenseMap<mlir::Value, Datum>;

/// Of a mask, a block that computes lower and upper from a row and lengths.
struct MaskProgram {
  mlir::Block block;
  mlir::Value lower, upper; // null for the trivial ones
};

/// What all blocks of a kernel share.
struct KernelState {
  KernelState(KernelOp kernel, Observer observer)
      : kernel(kernel), observer(std::move(observer)) {}

  KernelOp kernel;
  Observer observer;
  llvm::DenseMap<mlir::Value, TilePlaces> ranges;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<MaskProgram>> masks;
  llvm::DenseMap<std::tuple<mlir::Type, int64_t, int64_t>, Part> parts;
};

/// Of a cluster's block, a role and a group: in which order they are named.
using StrandKey = std::tuple<int64_t, unsigned, int64_t>;

/// What blocks that take a tile together share; most blocks are alone.
struct Cluster {
  int64_t number = 0, count = 1; // as for_each_tile says it
  bool failed = false;
  Strands strands;
  /// Operations at which strands wait, and for what.
  std::map<StrandKey, std::pair<mlir::Location, std::string>> waiting;
};

/// One thread block.
struct ThreadBlock {
  /// The one that takes the tile of this number.
  ThreadBlock(KernelState &program, int64_t number)
      : program(program), cluster(std::make_shared<Cluster>()) {
    cluster->number = number;
  }
  /// The one that takes it together with `first`.
  explicit ThreadBlock(ThreadBlock *first)
      : program(first->program), cluster(first->cluster), peer(first), rank(1) {
    first->peer = this;
  }

  KernelState &program;
  std::shared_ptr<Cluster> cluster;
  ThreadBlock *peer = nullptr; // the cluster's other block
  int64_t rank = 0;
  std::map<mlir::Operation *, std::unique_ptr<Ring>> rings;
  std::map<mlir::Operation *, int64_t> arrivals; // at a role's barrier
  /// Tiles of an exchange that the other block has not taken yet.
  std::map<mlir::Operation *, std::deque<TileRef>> given;
};

/// Whose program this is: of the block, of a role, or of one warpgroup of it.
struct Strand {
  gpu::RolesOp roles;
  unsigned role = 0;
  int64_t group = 0, groups = 1;
  /// Warps that go along with this program.
  int64_t warps() { return roles ? roles.getWarps()[role] / groups : 1; }
};

/// The values of one program.
class Frame {
public:
  Frame(ThreadBlock &block, Strand strand) : block(block), strand(strand) {}
  /// A program that begins where another one stands.
  Frame(const Frame &outer, Strand strand)
      : block(outer.block), strand(strand), place(outer.place),
        values(outer.values), op(outer.op) {}

  void run(mlir::Block &code);
  /// Runs a block whose arguments are given; what its terminator passes on.
  llvm::SmallVector<Datum> run(mlir::Block &code, llvm::ArrayRef<Datum> given);
  bool halted() const { return block.cluster->failed; }
  /// Reports at the current operation; the kernel stops.
  mlir::InFlightDiagnostic fail();

  void set(mlir::Value value, Datum datum);
  void set(mlir::ValueRange values, llvm::ArrayRef<Datum> data);
  const Datum &get(mlir::Value value);
  llvm::SmallVector<Datum> get(mlir::ValueRange values);
  template <typename T> T as(mlir::Value value) {
    if (const T *found = std::get_if<T>(&get(value)))
      return *found;
    fail() << "expected operands that operations before have given";
    return T();
  }
  /// A number, tile or vector; what lies in shared memory is read there.
  TileRef tile(mlir::Value value);
  int64_t whole(mlir::Value value);
  float real(mlir::Value value);
  void set(mlir::Value value, int64_t whole);
  void set(mlir::Value value, float real);

  /// The slot where a use is about to be written.
  Tile *written(const Use &use);
  /// The elements of a tile of this type that this program's warps hold.
  Part part(mlir::Type type);
  /// The cluster's other block; fails, and is null, where there is none.
  ThreadBlock *peer();
  /// Lets others go on until `ready`; what is waited for is for people.
  void wait(const std::string &what, llvm::function_ref<bool()> ready);

  ThreadBlock &block;
  Strand strand;
  Place place;

private:
  void observe();

  Environment values;
  mlir::Operation *op = nullptr;
};

/// A tile of this shape, of zeros; `type` is a tile's, a vector's or a scalar.
std::shared_ptr<Tile> makeTile(mlir::Type type);
/// A value of 16 or 32 bits in memory, as a number.
struct Element {
  float real = 0;
  int64_t whole = 0;
};
Element loadElement(mlir::Type type, const char *from);
void storeElement(mlir::Type type, char *to, Element value);
/// To the nearest value of the type, ties to even.
float roundTo(mlir::Type type, float value);
/// Wraps to so many bits, with their sign; a single bit is 0 or 1.
int64_t wrapTo(mlir::Type type, int64_t value);

} // namespace fa2::interpreter

#endif
