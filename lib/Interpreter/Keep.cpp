//===- Keep.cpp - which elements dropout keeps ----------------------------===//

#include "Evaluate.h"

#include <array>

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

/// Philox4x32-7.
static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> x, uint32_t k0,
                                      uint32_t k1) {
  for (int round = 0; round < 7; ++round) {
    uint64_t a = uint64_t(x[0]) * 0xD2511F53, b = uint64_t(x[2]) * 0xCD9E8D57;
    x = {uint32_t(b >> 32) ^ x[1] ^ k0, uint32_t(b),
         uint32_t(a >> 32) ^ x[3] ^ k1, uint32_t(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

static uint32_t unitOf(int64_t x) { return uint32_t(x / 32 * 8 + x % 8); }

void interpreter::run(Frame &f, KeepOp op) {
  auto tile = makeTile(op.getResult().getType());
  int64_t rows = tile->rows(), cols = tile->cols(), heads = op.getHeads(),
          each = kGroupRows / heads;
  int64_t q = f.whole(op.getQBlock()), kv = f.whole(op.getKvBlock()),
          first = f.whole(op.getHead()), threshold = f.whole(op.getThreshold());
  int64_t kept =
      op.getResult().getType().getElementType().isInteger(16) ? -1 : 1;
  std::array<uint32_t, 4> words;
  for (auto [word, value] : llvm::zip(words, op.getWords()))
    word = uint32_t(f.whole(value));
  for (int64_t r = 0; r < rows && !f.halted(); ++r)
    for (int64_t c = 0; c < cols; ++c) {
      int64_t i = op.getTransposed() ? q * cols + c : q * rows + r,
              j = op.getTransposed() ? kv * rows + r : kv * cols + c,
              head = first;
      if (heads > 1) {
        int64_t in = r % kGroupRows;
        i = q * (rows / heads) + r / kGroupRows * each + in % each;
        head += in / each;
      }
      auto numbers = philox({unitOf(i), unitOf(j), uint32_t(head), words[2]},
                            words[0], words[1] ^ words[3]);
      uint32_t byte = numbers[i % 32 / 8] >> (j % 32 / 8 * 8) & 255;
      // Of i16 all bits, which are those of -1.
      tile->whole[r * cols + c] = byte >= uint32_t(threshold) ? kept : 0;
    }
  f.set(op.getResult(), Datum(TileRef(tile)));
}
