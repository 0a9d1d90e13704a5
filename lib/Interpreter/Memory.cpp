//===- Memory.cpp - elements in memory, and of tiles ----------------------===//

#include "Frame.h"

#include "llvm/ADT/APFloat.h"

#include <cstring>

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

int64_t Memory::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

char *Memory::at(ArrayRef<int64_t> indices) const {
  int64_t offset = 0;
  for (auto [index, extent, stride] :
       llvm::zip_equal(indices, shape, strides)) {
    if (index < 0 || index >= extent)
      return nullptr;
    offset += index * stride;
  }
  return data + offset * (element.getIntOrFloatBitWidth() / 8);
}

std::shared_ptr<Tile> interpreter::makeTile(Type type) {
  auto tile = std::make_shared<Tile>();
  if (auto shaped = dyn_cast<RankedTensorType>(type))
    tile->shape.assign(shaped.getShape().begin(), shaped.getShape().end());
  if (isa<FloatType>(getElementTypeOrSelf(type)))
    tile->real.resize(tile->size());
  else
    tile->whole.resize(tile->size());
  return tile;
}

static llvm::APFloat fromBits(FloatType type, const char *from) {
  uint32_t bits = 0;
  std::memcpy(&bits, from, type.getWidth() / 8);
  return llvm::APFloat(type.getFloatSemantics(),
                       llvm::APInt(type.getWidth(), bits));
}

Element interpreter::loadElement(Type type, const char *from) {
  Element value;
  if (auto real = dyn_cast<FloatType>(type)) {
    value.real = fromBits(real, from).convertToFloat();
  } else {
    int32_t whole;
    std::memcpy(&whole, from, sizeof whole);
    value.whole = whole;
  }
  return value;
}

void interpreter::storeElement(Type type, char *to, Element value) {
  if (type.isF32()) {
    std::memcpy(to, &value.real, sizeof value.real);
  } else if (auto real = dyn_cast<FloatType>(type)) {
    llvm::APFloat rounded(value.real);
    bool lost;
    rounded.convert(real.getFloatSemantics(),
                    llvm::APFloat::rmNearestTiesToEven, &lost);
    uint16_t bits = uint16_t(rounded.bitcastToAPInt().getZExtValue());
    std::memcpy(to, &bits, sizeof bits);
  } else {
    int32_t whole = int32_t(value.whole);
    std::memcpy(to, &whole, sizeof whole);
  }
}

float interpreter::roundTo(Type type, float value) {
  if (type.isF32())
    return value;
  llvm::APFloat rounded(value);
  bool lost;
  rounded.convert(cast<FloatType>(type).getFloatSemantics(),
                  llvm::APFloat::rmNearestTiesToEven, &lost);
  return rounded.convertToFloat();
}

int64_t interpreter::wrapTo(Type type, int64_t value) {
  unsigned bits = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  if (bits == 1)
    return value & 1;
  return int64_t(uint64_t(value) << (64 - bits)) >> (64 - bits);
}
