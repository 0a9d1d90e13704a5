//===- Elementwise.cpp - operations on each element of tiles --------------===//

#include "Arithmetic.h"
#include "Evaluate.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

/// The value without its sign, in the bits of the type.
static uint64_t natural(Type type, int64_t value) {
  unsigned bits = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  return bits == 64 ? uint64_t(value)
                    : uint64_t(value) & ((uint64_t(1) << bits) - 1);
}

//===----------------------------------------------------------------------===//
// From one kind to another
//===----------------------------------------------------------------------===//

namespace {
/// An element of each operand, as a tile holds it.
struct Elements {
  SmallVector<Element, 3> of;
  Type type; // of the first operand's elements
  float real(size_t i) const { return of[i].real; }
  int64_t whole(size_t i) const { return of[i].whole; }
};
using OnElements = std::function<Element(const Elements &)>;
} // namespace

static Element fromBits(Type to, const Elements &x) {
  int64_t bits = x.whole(0);
  char memory[8] = {};
  if (isa<FloatType>(x.type))
    storeElement(x.type, memory, x.of[0]);
  else
    std::memcpy(memory, &bits, sizeof bits);
  if (isa<FloatType>(to))
    return loadElement(to, memory);
  std::memcpy(&bits, memory, sizeof bits);
  return {0, bits};
}

/// Numbers beyond the type's range have no value; these are in 64 bits.
static int64_t truncated(float x) {
  return std::isnan(x) ? 0 : int64_t(std::clamp(x, -0x1p63f, 0x1.fffffep62f));
}

static OnElements onElements(Operation *op, Type to) {
  return llvm::TypeSwitch<Operation *, OnElements>(op)
      .Case([](arith::CmpIOp cmp) {
        return [cmp](const Elements &x) {
          unsigned bits =
              x.type.isIndex() ? 64 : x.type.getIntOrFloatBitWidth();
          auto of = [&](size_t i) {
            return llvm::APInt(bits, natural(x.type, x.whole(i)));
          };
          return Element{
              0, arith::applyCmpPredicate(arith::CmpIOp(cmp).getPredicate(),
                                          of(0), of(1))};
        };
      })
      .Case([](arith::CmpFOp cmp) {
        return [cmp](const Elements &x) {
          return Element{
              0, arith::applyCmpPredicate(arith::CmpFOp(cmp).getPredicate(),
                                          llvm::APFloat(x.real(0)),
                                          llvm::APFloat(x.real(1)))};
        };
      })
      .Case([](arith::SelectOp) {
        return [](const Elements &x) { return x.of[x.whole(0) ? 1 : 2]; };
      })
      .Case([](arith::SIToFPOp) {
        return [](const Elements &x) { return Element{float(x.whole(0)), 0}; };
      })
      .Case([](arith::UIToFPOp) {
        return [](const Elements &x) {
          return Element{float(natural(x.type, x.whole(0))), 0};
        };
      })
      .Case<arith::FPToSIOp, arith::FPToUIOp>([](auto) {
        return [](const Elements &x) {
          return Element{0, truncated(x.real(0))};
        };
      })
      .Case([to](arith::BitcastOp) {
        return [to](const Elements &x) { return fromBits(to, x); };
      })
      .Default(OnElements());
}

/// The same for all operations: what takes one kind stands for its elements.
static OnElements meaningOf(Operation *op, Type to) {
  if (OnReals reals = onReals(op))
    return [reals](const Elements &x) {
      float in[3] = {};
      for (auto [i, each] : llvm::enumerate(x.of))
        in[i] = each.real;
      return Element{reals(in), 0};
    };
  if (OnWholes wholes = onWholes(op))
    return [wholes](const Elements &x) {
      int64_t in[3] = {};
      for (auto [i, each] : llvm::enumerate(x.of))
        in[i] = each.whole;
      return Element{0, wholes(in)};
    };
  if (OnNaturals naturals = onNaturals(op))
    return [naturals](const Elements &x) {
      uint64_t in[3] = {};
      for (auto [i, each] : llvm::enumerate(x.of))
        in[i] = natural(x.type, each.whole);
      return Element{0, int64_t(naturals(in))};
    };
  return onElements(op, to);
}

/// Element i of a tile; a number stands for all.
static Element elementAt(const Tile &tile, int64_t i) {
  if (tile.size() == 1)
    i = 0;
  return {tile.real.empty() ? 0 : tile.real[i],
          tile.whole.empty() ? 0 : tile.whole[i]};
}

bool interpreter::evaluateElementwise(Frame &f, Operation *op) {
  if (op->getNumResults() != 1 || op->getNumOperands() > 3)
    return false;
  Type type = op->getResult(0).getType(), to = getElementTypeOrSelf(type);
  OnElements meaning = meaningOf(op, to);
  if (!meaning)
    return false;
  SmallVector<TileRef> operands = llvm::map_to_vector(
      op->getOperands(), [&](Value v) { return f.tile(v); });
  auto result = makeTile(type);
  Elements in{{}, getElementTypeOrSelf(op->getOperand(0).getType())};
  in.of.resize(operands.size());
  for (int64_t i = 0; i < result->size() && !f.halted(); ++i) {
    for (auto [n, operand] : llvm::enumerate(operands))
      in.of[n] = elementAt(*operand, i);
    Element out = meaning(in);
    if (result->real.empty())
      result->whole[i] = wrapTo(to, out.whole);
    else
      result->real[i] = roundTo(to, out.real);
  }
  f.set(op->getResult(0), Datum(TileRef(result)));
  return true;
}
