//===- Targets.h - what is given any bytes ----------------------*- C++ -*-===//
//
// A target takes any bytes and aborts where something is broken that no error
// may break: a crash, another exception than its own, a result that does not
// go through its own text. libFuzzer calls it (FuzzMain.cpp), and a test that
// mutates the seeds in an order that is always the same (FuzzTest.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef FA2_TEST_FUZZ_TARGETS_H
#define FA2_TEST_FUZZ_TARGETS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::fuzz {

struct Target {
  const char *name;
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();
  int mutations; ///< that the test makes: some seconds
};

const std::vector<Target> &targets();

/// An input of some targets is a text, a zero byte, and bytes that choose what
/// the text does not say. They run out as zeros.
class Choices {
public:
  explicit Choices(std::string_view input);
  std::string_view text;
  uint8_t byte();
  uint16_t word() { return uint16_t(byte() | byte() << 8); }
  bool flag() { return byte() & 1; }
  template <class T, size_t N> const T &pick(const T (&from)[N]) {
    return from[byte() % N];
  }
  /// All that is left.
  std::string_view rest() const { return bytes; }

private:
  std::string_view bytes;
};

// The targets, a file each.
void runManifest(std::string_view input);
void runExpression(std::string_view input);
void runProgram(std::string_view input);
void runPtx(std::string_view input);
void runNpy(std::string_view input);
void runSweep(std::string_view input);

std::vector<std::string> manifestSeeds();
std::vector<std::string> expressionSeeds();
std::vector<std::string> programSeeds();
std::vector<std::string> ptxSeeds();
std::vector<std::string> npySeeds();
std::vector<std::string> sweepSeeds();

/// In the parameters of the target "ptx", eight bytes with this value in the
/// upper 48 bits become an address: of the kernel's input (bit 15 is 0) or
/// output, plus the lower 15 bits.
constexpr uint64_t kAddressMark = 0xfa2fa2fa2fa20000;

} // namespace fa2::fuzz

#endif // FA2_TEST_FUZZ_TARGETS_H
