//===- ShippedForest.h - forest.txt as a string ----------------*- C++ -*-===//
#ifndef FA2_TOOLS_TUNEBUILD_SHIPPEDFOREST_H
#define FA2_TOOLS_TUNEBUILD_SHIPPEDFOREST_H

namespace fa2tune {

extern const char kShippedForest[];

} // namespace fa2tune

#endif
