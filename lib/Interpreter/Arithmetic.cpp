//===- Arithmetic.cpp - what arith and math do to numbers -----------------===//

#include "Arithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

OnReals interpreter::onReals(Operation *op) {
  return llvm::TypeSwitch<Operation *, OnReals>(op)
      .Case([](arith::AddFOp) {
        return [](const float *x) { return x[0] + x[1]; };
      })
      .Case([](arith::SubFOp) {
        return [](const float *x) { return x[0] - x[1]; };
      })
      .Case([](arith::MulFOp) {
        return [](const float *x) { return x[0] * x[1]; };
      })
      .Case([](arith::DivFOp) {
        return [](const float *x) { return x[0] / x[1]; };
      })
      .Case([](arith::NegFOp) { return [](const float *x) { return -x[0]; }; })
      // NaN where one is; the others take the number.
      .Case([](arith::MaximumFOp) {
        return [](const float *x) {
          return std::isnan(x[0]) || std::isnan(x[1]) ? NAN
                                                      : std::fmax(x[0], x[1]);
        };
      })
      .Case([](arith::MinimumFOp) {
        return [](const float *x) {
          return std::isnan(x[0]) || std::isnan(x[1]) ? NAN
                                                      : std::fmin(x[0], x[1]);
        };
      })
      .Case([](arith::MaxNumFOp) {
        return [](const float *x) { return std::fmax(x[0], x[1]); };
      })
      .Case([](arith::MinNumFOp) {
        return [](const float *x) { return std::fmin(x[0], x[1]); };
      })
      .Case([](math::AbsFOp) {
        return [](const float *x) { return std::fabs(x[0]); };
      })
      .Case([](math::FmaOp) {
        return [](const float *x) { return std::fmaf(x[0], x[1], x[2]); };
      })
      .Case([](math::ExpOp) {
        return [](const float *x) { return float(std::exp(double(x[0]))); };
      })
      .Case([](math::Exp2Op) {
        return [](const float *x) { return float(std::exp2(double(x[0]))); };
      })
      .Case([](math::LogOp) {
        return [](const float *x) { return float(std::log(double(x[0]))); };
      })
      .Case([](math::TanhOp) {
        return [](const float *x) { return float(std::tanh(double(x[0]))); };
      })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [](auto) { return [](const float *x) { return x[0]; }; })
      .Default(OnReals(nullptr));
}

/// Where a division has no value, so has the program: any number will do.
static bool divides(int64_t a, int64_t b) {
  return b != 0 && !(a == INT64_MIN && b == -1);
}

OnWholes interpreter::onWholes(Operation *op) {
  return llvm::TypeSwitch<Operation *, OnWholes>(op)
      .Case([](arith::AddIOp) {
        return [](const int64_t *x) {
          return int64_t(uint64_t(x[0]) + uint64_t(x[1]));
        };
      })
      .Case([](arith::SubIOp) {
        return [](const int64_t *x) {
          return int64_t(uint64_t(x[0]) - uint64_t(x[1]));
        };
      })
      .Case([](arith::MulIOp) {
        return [](const int64_t *x) {
          return int64_t(uint64_t(x[0]) * uint64_t(x[1]));
        };
      })
      .Case([](arith::MaxSIOp) {
        return [](const int64_t *x) { return std::max(x[0], x[1]); };
      })
      .Case([](arith::MinSIOp) {
        return [](const int64_t *x) { return std::min(x[0], x[1]); };
      })
      .Case([](arith::DivSIOp) {
        return [](const int64_t *x) {
          return divides(x[0], x[1]) ? x[0] / x[1] : 0;
        };
      })
      .Case([](arith::RemSIOp) {
        return [](const int64_t *x) {
          return divides(x[0], x[1]) ? x[0] % x[1] : 0;
        };
      })
      .Case([](arith::CeilDivSIOp) {
        return [](const int64_t *x) {
          if (!divides(x[0], x[1]))
            return int64_t(0);
          return x[0] / x[1] + (x[0] % x[1] != 0 && (x[0] < 0) == (x[1] < 0));
        };
      })
      .Case([](arith::FloorDivSIOp) {
        return [](const int64_t *x) {
          if (!divides(x[0], x[1]))
            return int64_t(0);
          return x[0] / x[1] - (x[0] % x[1] != 0 && (x[0] < 0) != (x[1] < 0));
        };
      })
      .Case([](arith::ShRSIOp) {
        return [](const int64_t *x) {
          return x[0] >> std::min<uint64_t>(x[1], 63);
        };
      })
      // Widened with their sign already; the result's type wraps them.
      .Case<arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp>(
          [](auto) { return [](const int64_t *x) { return x[0]; }; })
      .Default(OnWholes(nullptr));
}

OnNaturals interpreter::onNaturals(Operation *op) {
  return llvm::TypeSwitch<Operation *, OnNaturals>(op)
      .Case([](arith::AndIOp) {
        return [](const uint64_t *x) { return x[0] & x[1]; };
      })
      .Case([](arith::OrIOp) {
        return [](const uint64_t *x) { return x[0] | x[1]; };
      })
      .Case([](arith::XOrIOp) {
        return [](const uint64_t *x) { return x[0] ^ x[1]; };
      })
      .Case([](arith::MaxUIOp) {
        return [](const uint64_t *x) { return std::max(x[0], x[1]); };
      })
      .Case([](arith::MinUIOp) {
        return [](const uint64_t *x) { return std::min(x[0], x[1]); };
      })
      .Case([](arith::DivUIOp) {
        return [](const uint64_t *x) { return x[1] ? x[0] / x[1] : 0; };
      })
      .Case([](arith::RemUIOp) {
        return [](const uint64_t *x) { return x[1] ? x[0] % x[1] : 0; };
      })
      .Case([](arith::CeilDivUIOp) {
        return [](const uint64_t *x) {
          return x[1] ? x[0] / x[1] + (x[0] % x[1] != 0) : 0;
        };
      })
      .Case([](arith::ShLIOp) {
        return [](const uint64_t *x) { return x[1] < 64 ? x[0] << x[1] : 0; };
      })
      .Case([](arith::ShRUIOp) {
        return [](const uint64_t *x) { return x[1] < 64 ? x[0] >> x[1] : 0; };
      })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp>(
          [](auto) { return [](const uint64_t *x) { return x[0]; }; })
      .Default(OnNaturals(nullptr));
}
