//===- Placement.cpp - places in shared memory ----------------------------===//

#include "fa2/Schedule/Placement.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

using namespace fa2;

static void place(Piece &piece, llvm::ArrayRef<Piece *> placed) {
  for (bool moved = true; moved;) {
    moved = false;
    for (const Piece *o : placed)
      if (piece.meets(*o) && piece.sharesBytes(*o)) {
        piece.offset = llvm::alignTo(o->offset + o->bytes, piece.alignment);
        moved = true;
      }
  }
}

int64_t fa2::placeByLife(std::vector<Piece> &pieces) {
  auto order = llvm::to_vector(llvm::make_pointer_range(pieces));
  llvm::stable_sort(order, [](const Piece *a, const Piece *b) {
    return a->bytes > b->bytes;
  });
  int64_t total = 0;
  for (auto [i, piece] : llvm::enumerate(order)) {
    place(*piece, llvm::ArrayRef(order).take_front(i));
    total = std::max(total, piece->offset + piece->bytes);
  }
  return total;
}

int64_t fa2::placeSideBySide(std::vector<Piece> &pieces) {
  int64_t total = 0;
  for (Piece &piece : pieces)
    if (!piece.isQueue) {
      piece.offset = llvm::alignTo(total, piece.alignment);
      total = piece.offset + piece.bytes;
    }
  for (Piece &piece : pieces) {
    piece.barriersOffset = total;
    total += piece.barriers;
    if (piece.isQueue) {
      piece.offset = llvm::alignTo(total, piece.alignment);
      total = piece.offset + piece.bytes;
    }
  }
  return total;
}
