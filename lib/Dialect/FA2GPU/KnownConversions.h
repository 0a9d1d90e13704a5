//===- KnownConversions.h - conversions that are known to be right -*- C++ -*-//
#ifndef FA2_LIB_DIALECT_FA2GPU_KNOWNCONVERSIONS_H
#define FA2_LIB_DIALECT_FA2GPU_KNOWNCONVERSIONS_H

#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/Types.h"
#include "llvm/ADT/DenseSet.h"

#include <mutex>
#include <shared_mutex>

namespace fa2::gpu {

/// The pairs of types that fa2gpu.convert_layout has been verified for. Kernels
/// are verified after each pass, and to ask each time for all registers of
/// their tiles took a twentieth of a compilation.
class KnownConversions : public mlir::DialectInterface::Base<KnownConversions> {
public:
  explicit KnownConversions(mlir::Dialect *dialect) : Base(dialect) {}

  bool contains(mlir::Type from, mlir::Type to) const {
    std::shared_lock lock(mutex);
    return known.contains({from, to});
  }
  void add(mlir::Type from, mlir::Type to) const {
    std::unique_lock lock(mutex);
    known.insert({from, to});
  }

private:
  mutable std::shared_mutex mutex; // kernels are verified side by side
  mutable llvm::DenseSet<std::pair<mlir::Type, mlir::Type>> known;
};

} // namespace fa2::gpu

#endif // FA2_LIB_DIALECT_FA2GPU_KNOWNCONVERSIONS_H
