//===- Support.h - what the runtime's unit tests share ----------*- C++ -*-===//
#ifndef FA2_TEST_UNIT_RUNTIME_SUPPORT_H
#define FA2_TEST_UNIT_RUNTIME_SUPPORT_H

#include "Device.h"
#include "Error.h"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace fa2rt::test {

/// The text of the Error that `body` throws; fails the test when it throws
/// none or one of another status.
template <typename Body> std::string errorOf(fa2rtStatus status, Body body) {
  try {
    body();
  } catch (const Error &error) {
    EXPECT_EQ(error.status, status) << error.what();
    return error.what();
  } catch (const std::exception &error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

inline void expectContains(const std::string &text, const std::string &part,
                           const char *file, int line) {
  if (text.find(part) == std::string::npos)
    ADD_FAILURE_AT(file, line) << "no '" << part << "' in: " << text;
}
#define EXPECT_CONTAINS(text, part)                                            \
  ::fa2rt::test::expectContains(text, part, __FILE__, __LINE__)

/// A copy of `text` with the first `from` replaced by `to`; fails the test
/// when there is none.
inline std::string replaced(std::string text, const std::string &from,
                            const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "no '" << from << "'";
  if (at != std::string::npos)
    text.replace(at, from.size(), to);
  return text;
}

/// Puts the JSON into comment lines and adds the entries.
inline std::string wrapManifest(const std::string &json,
                                const std::string &entries) {
  std::string text = "// fa2-manifest-begin\n";
  size_t begin = 0;
  while (begin < json.size()) {
    size_t end = std::min(json.find('\n', begin), json.size());
    text += "// " + json.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text + "// fa2-manifest-end\n.version 7.0\n.target sm_80\n" + entries;
}

/// A manifest with everything in it: two kernels, a tensor map, strides, a
/// workspace, optional arguments, scalars of each dtype.
std::string sampleJson();
std::string sampleEntries();
inline std::string samplePtx() {
  return wrapManifest(sampleJson(), sampleEntries());
}

/// What a fake device was asked to launch.
struct RecordedLaunch {
  size_t kernel = 0;
  std::array<uint32_t, 3> grid{}, block{}, cluster{};
  uint32_t sharedBytes = 0;
  bool programmatic = false;
  std::vector<std::vector<std::byte>> parameters; // one a parameter
  void *stream = nullptr;
  uint64_t context = 0;

  template <typename T> T parameter(size_t index) const {
    T value;
    EXPECT_GE(parameters.at(index).size(), sizeof value);
    std::memcpy(&value, parameters.at(index).data(), sizeof value);
    return value;
  }
};

/// A device that records launches and encodes tensor maps as a counter.
class FakeDevice : public Device {
public:
  FakeDevice();
  DeviceProperties info;
  std::vector<TensorMapRequest> maps;
  int loads = 0, scopes = 0, allocations = 0, synchronisations = 0;
  uint64_t currentContext = 1;

  std::vector<RecordedLaunch> takeLaunches() {
    std::lock_guard lock(mutex);
    return std::move(launches);
  }

  const DeviceProperties &properties() const override { return info; }
  Entry enter() override;
  void leave(Entry entry) noexcept override;
  std::unique_ptr<Module> load(const LoadRequest &request) override;
  TensorMapImage encodeTensorMap(const TensorMapRequest &request) override;
  void *allocate(size_t bytes) override;
  void release(void *memory) override;
  void copyIn(void *, const void *, size_t) override {}
  void copyOut(void *, const void *, size_t) override {}
  void set(void *, int, size_t) override {}
  void synchronize() override { ++synchronisations; }
  std::unique_ptr<Event> createEvent() override;
  std::shared_ptr<void> hold(void *) override { return nullptr; }

private:
  friend class FakeModule;
  std::mutex mutex;
  std::vector<RecordedLaunch> launches;
};

} // namespace fa2rt::test

#endif // FA2_TEST_UNIT_RUNTIME_SUPPORT_H
