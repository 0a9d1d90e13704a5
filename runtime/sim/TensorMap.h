//===- TensorMap.h - Boxes of tensor maps ----------------------*- C++ -*-===//
#ifndef FA2_RUNTIME_SIM_TENSORMAP_H
#define FA2_RUNTIME_SIM_TENSORMAP_H

#include "Isa.h"

#include <algorithm>

namespace fa2::sim {

/// More than any block's: a larger box fits nowhere.
constexpr u64 kMostSharedBytes = 228 << 10;

inline u64 boxBytes(const TensorMap &m) {
  u64 bytes = m.elementBytes;
  for (unsigned k = 0; k < m.rank; ++k)
    bytes *= m.box[k];
  return bytes;
}

/// Why no copy may go through the map: what cuTensorMapEncodeTiled would
/// refuse, and maps of tensors without elements, which a launch may pass but no
/// kernel may use, be the box in range or not.
inline std::string validate(const TensorMap &m) {
  auto n = [](u64 v) { return std::to_string(v); };
  if (m.magic != TensorMap::kMagic)
    return "these 128 bytes are no tensor map";
  if (m.rank < 1 || m.rank > 5)
    return "tensor map: rank " + n(m.rank) + " is not 1 to 5";
  for (unsigned k = 0; k < m.rank; ++k)
    if (m.dims[k] == 0)
      return "a copy through the map of an empty tensor: extent " + n(k) +
             ", counted from the innermost, is 0";
  if (m.base == 0)
    return "a copy through a tensor map whose base address is null";
  if (m.elementBytes != 1 && m.elementBytes != 2 && m.elementBytes != 4 &&
      m.elementBytes != 8)
    return "tensor map: element size " + n(m.elementBytes) +
           " is not 1, 2, 4 or 8";
  if (m.base % 16)
    return "tensor map: base address is not a multiple of 16";
  if (m.swizzle != 0 && m.swizzle != 32 && m.swizzle != 64 && m.swizzle != 128)
    return "tensor map: swizzle " + n(m.swizzle) + " is not 0, 32, 64 or 128";
  for (unsigned k = 0; k < m.rank; ++k) {
    if (m.dims[k] > u64(1) << 32)
      return "tensor map: extent " + n(m.dims[k]) + " is not 1 to 2^32";
    if (m.box[k] == 0 || m.box[k] > 256)
      return "tensor map: box extent " + n(m.box[k]) + " is not 1 to 256";
    if (k > 0 && (m.strides[k - 1] % 16 || m.strides[k - 1] >= u64(1) << 40))
      return "tensor map: stride " + n(m.strides[k - 1]) +
             " is not a multiple of 16 below 2^40";
  }
  u64 inner = u64(m.box[0]) * m.elementBytes;
  if (inner % 16)
    return "tensor map: inner box of " + n(inner) +
           " bytes is not a multiple of 16";
  if (m.swizzle && inner > m.swizzle)
    return "tensor map: inner box of " + n(inner) +
           " bytes is wider than the swizzle of " + n(m.swizzle);
  if (boxBytes(m) > kMostSharedBytes)
    return "tensor map: a box of " + n(boxBytes(m)) +
           " bytes is larger than the " + n(kMostSharedBytes) +
           " of shared memory";
  return {};
}

/// Bits 7 to 9 of a shared address are added to bits 4 to 6, as many as the
/// span has (PTX ISA 5.5.6, swizzling modes).
inline u32 swizzled(u32 address, u32 span) {
  u32 bits = span == 128 ? 7 : span == 64 ? 3 : span == 32 ? 1 : 0;
  return address ^ ((address >> 7 & bits) << 4);
}

/// Where the first `bytes` bytes of a box at `address`, a multiple of 128,
/// come to lie: the swizzle permutes the chunks of 16 bytes within each span,
/// so whole spans lie as one piece, and of a last span that is not whole each
/// chunk lies somewhere in it, also behind the box's end.
template <class Body>
void forEachRun(u32 address, u32 bytes, u32 span, Body body) {
  u32 whole = span ? bytes / span * span : bytes;
  if (whole)
    body(address, whole);
  for (u32 at = whole; at < bytes; at += 16)
    body(swizzled(address + at, span), std::min(16u, bytes - at));
}

/// One innermost row of a box.
struct BoxRow {
  u32 offset = 0; ///< in the box, before the swizzle
  u32 bytes = 0;
  u32 skip = 0;   ///< bytes of the row before the tensor begins
  u32 inside = 0; ///< bytes inside the tensor; 0: the row is out of range
  u64 global = 0; ///< address of the first byte inside
};

/// A load reads what lies in the tensor. A store clips a row's end to whole
/// chunks of 16 bytes: measured on an H200, and reported of an H100
/// (triton-lang/triton, issue 11583).
template <class Body>
void forEachRow(const TensorMap &m, const s32 *coords, bool load, Body body) {
  u32 extent[5] = {1, 1, 1, 1, 1};
  for (unsigned k = 1; k < m.rank; ++k)
    extent[k] = m.box[k];
  BoxRow row;
  row.bytes = m.box[0] * m.elementBytes;
  s64 first = std::max<s64>(coords[0], 0);
  s64 last = std::min<s64>(s64(coords[0]) + m.box[0], s64(m.dims[0]));
  u32 skip = u32(first - coords[0]) * m.elementBytes;
  u32 inside = last > first ? u32(last - first) * m.elementBytes : 0;
  if (!load && inside)
    inside = std::min((skip + inside + 15) / 16 * 16, row.bytes) - skip;
  u32 at[5] = {};
  for (at[4] = 0; at[4] < extent[4]; ++at[4])
    for (at[3] = 0; at[3] < extent[3]; ++at[3])
      for (at[2] = 0; at[2] < extent[2]; ++at[2])
        for (at[1] = 0; at[1] < extent[1]; ++at[1]) {
          bool in = inside > 0;
          u64 global = m.base + u64(first) * m.elementBytes;
          for (unsigned k = 1; k < m.rank; ++k) {
            s64 c = s64(coords[k]) + at[k];
            in &= c >= 0 && c < s64(m.dims[k]);
            global += u64(c) * m.strides[k - 1];
          }
          row.skip = in ? skip : 0;
          row.inside = in ? inside : 0;
          row.global = in ? global : 0;
          body(static_cast<const BoxRow &>(row));
          row.offset += row.bytes;
        }
}

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_TENSORMAP_H
