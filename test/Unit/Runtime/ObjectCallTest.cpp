//===- ObjectCallTest.cpp - launches on Python's tensors ------------------===//
//
// Without Python: a dict is a list of pairs, and an object is the DLTensor that
// is read of it.
//
//===----------------------------------------------------------------------===//

#include "Prepared.h"
#include "SampleCall.h"

#include <functional>
#include <tuple>

using namespace fa2rt;
using namespace fa2rt::test;

namespace {

/// As dlpack.h has it.
struct DLTensor {
  void *data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
enum { kCpu = 1, kCuda = 2, kCudaHost = 3, kFloat = 2, kBfloat = 4 };

void *at(uintptr_t address) { return reinterpret_cast<void *>(address); }

std::vector<std::string> events;

using Dict = std::vector<std::pair<void *, void *>>;

int next(void *dict, ptrdiff_t *position, void **key, void **value) {
  const Dict &pairs = *static_cast<Dict *>(dict);
  size_t i = size_t(*position);
  if (i == pairs.size())
    return 0;
  std::tie(*key, *value) = pairs[i];
  ++*position;
  return 1;
}
int read(void *object, void *tensor) {
  events.push_back("read");
  std::memcpy(tensor, object, sizeof(DLTensor));
  return static_cast<DLTensor *>(object)->lanes == 99 ? -1 : 0;
}
void *release() {
  events.push_back("release");
  return at(5);
}
void acquire(void *state) {
  EXPECT_EQ(state, at(5));
  events.push_back("acquire");
}

class ObjectCall : public ::testing::Test {
protected:
  ObjectCall() { device.info.ordinal = 3; }

  FakeDevice device;
  Program program{device, samplePtx(), {}};
  SampleCall call;
  fa2rtPrepared prepared{program, program.prepare(call.arguments)};
  std::vector<const fa2rtPrepared *> choice = {&prepared};
  int32_t headsFirst = 0;
  DLTensor q = tensor(0x10000, call.qShape, call.qStrides);
  DLTensor k = tensor(0x20000, call.kShape, call.kStrides);
  DLTensor out = tensor(0x30000, call.qShape, call.qStrides);
  std::vector<void *> names = {at(11), at(12), at(13), at(14)};
  // The last is no tensor.
  Dict dict = {
      {names[0], &q}, {names[1], &k}, {names[2], &out}, {names[3], at(1)}};

  static DLTensor tensor(uintptr_t address, std::array<int64_t, 4> &shape,
                         std::array<int64_t, 4> &strides) {
    return {at(address),  kCuda,          3, 4, kBfloat, 16, 1,
            shape.data(), strides.data(), 0};
  }

  fa2rtObjectCall made(size_t bytes) {
    fa2rtObjectCall made = {};
    made.next = next;
    made.read = read;
    made.release = release;
    made.acquire = acquire;
    made.names = names.data();
    made.count = names.size();
    made.prepared = choice.data();
    made.prepared_count = choice.size();
    made.workspace_bytes = bytes;
    made.heads_first = headsFirst;
    return made;
  }
  fa2rtStatus launch(size_t bytes = 4096) {
    events.clear();
    fa2rtObjectCall given = made(bytes);
    fa2rtStatus status =
        fa2rtPreparedLaunchObjects(&given, &dict, at(0x40000), at(7));
    EXPECT_EQ(device.scopes, 0);
    return status;
  }
  /// The seqlen_q that the kernel was launched with.
  int32_t launched() {
    EXPECT_EQ(launch(), FA2RT_OK) << fa2rtLastError();
    auto launches = device.takeLaunches();
    return launches.empty() ? -1 : launches[0].parameter<int32_t>(2);
  }
  void expectOtherLayout() {
    EXPECT_EQ(launch(), FA2RT_ERROR_LAYOUT);
    EXPECT_STREQ(fa2rtLastError(),
                 "no launch was prepared of these objects' layout");
    EXPECT_TRUE(device.takeLaunches().empty());
  }
};

} // namespace

TEST_F(ObjectCall, LaunchesWhatAPreparedLaunchDoes) {
  void *addresses[] = {at(0x10000), at(0x20000), at(0x30000), nullptr};
  program.launch(prepared.plan, addresses, {at(0x40000), 4096}, at(7));
  auto wanted = device.takeLaunches().at(0);
  q.data = at(0xff00);
  q.byte_offset = 0x100;
  ASSERT_EQ(launch(), FA2RT_OK) << fa2rtLastError();
  auto got = device.takeLaunches();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].parameters, wanted.parameters);
  EXPECT_EQ(got[0].grid, wanted.grid);
  EXPECT_EQ(got[0].stream, at(7));
  // The scalar is not read, and Python runs on during the launch alone.
  EXPECT_EQ(events, (std::vector<std::string>{"read", "read", "read", "release",
                                              "acquire"}));
}

TEST_F(ObjectCall, RefusesEveryOtherLayout) {
  std::array<int64_t, 4> shape = call.kShape, strides = call.kStrides;
  ++shape[1];
  ++strides[1];
  const std::function<void()> changes[] = {
      [&] { k.shape = shape.data(); },
      [&] { k.strides = strides.data(); },
      [&] { k.shape = nullptr; },
      [&] { k.strides = nullptr; },
      [&] { k.ndim = 3; },
      [&] { k.ndim = -1; },
      [&] { k.code = kFloat; },
      [&] { k.bits = 8; },
      [&] { k.lanes = 2; },
      [&] { k.device_id = 0; },
      [&] { k.device_type = kCpu; },
      [&] { k.device_type = kCudaHost; },
      [&] { std::swap(q, k); },
  };
  DLTensor before = k, beforeQ = q;
  for (const auto &change : changes) {
    change();
    expectOtherLayout();
    k = before;
    q = beforeQ;
    EXPECT_EQ(launched(), 300);
  }
}

TEST_F(ObjectCall, LaunchesTheFirstThatMatches) {
  call.qShape[1] = 200; // q and out
  fa2rtPrepared other{program, program.prepare(call.arguments)};
  expectOtherLayout();
  choice = {&prepared, &other, &prepared};
  EXPECT_EQ(launched(), 200);
  call.qShape[1] = 300;
  EXPECT_EQ(launched(), 300);
  call.qShape[1] = 400;
  expectOtherLayout();
  EXPECT_EQ(events.size(), 3u) << "tensors are read once";
  choice = {};
  expectOtherLayout();
}

TEST_F(ObjectCall, ExchangesDimensionsWhereHeadsComeFirst) {
  headsFirst = 1;
  expectOtherLayout();
  for (auto *of : {&call.qShape, &call.qStrides, &call.kShape, &call.kStrides})
    std::swap((*of)[1], (*of)[2]);
  EXPECT_EQ(launched(), 300);
  for (size_t dim : {0, 1, 2, 3}) {
    ++call.kStrides[dim];
    expectOtherLayout();
    --call.kStrides[dim];
  }
  headsFirst = 0;
  expectOtherLayout();
}

TEST_F(ObjectCall, RefusesObjectsThatCannotBeRead) {
  k.lanes = 99;
  expectOtherLayout();
  EXPECT_EQ(events, (std::vector<std::string>{"read", "read"}));
}

TEST_F(ObjectCall, OtherNamesAreOtherCalls) {
  const Dict all = dict;
  std::swap(dict[0].first, dict[2].first);
  expectOtherLayout();
  EXPECT_TRUE(events.empty());
  dict = all;
  dict.pop_back();
  expectOtherLayout();
  dict = all;
  dict.push_back({at(15), at(1)});
  expectOtherLayout();
  names.push_back(at(15)); // of more arguments than were prepared
  expectOtherLayout();
  dict = all;
  EXPECT_EQ(launched(), 300);
}

TEST_F(ObjectCall, OfOtherArgumentsNothingMatches) {
  call.arguments.pop_back(); // offset
  call.arguments.push_back(fa2rtReal("scale", 0.5));
  call.arguments.push_back(fa2rtInteger("offset", 1));
  fa2rtPrepared more{program, program.prepare(call.arguments)};
  std::swap(call.arguments[0], call.arguments[4]); // offset for q
  fa2rtPrepared otherOrder{program, program.prepare(call.arguments)};
  choice = {&prepared, &more, &otherOrder};
  EXPECT_EQ(launched(), 300);
  choice = {&otherOrder, &prepared};
  names.push_back(at(15));
  dict = {{names[0], at(1)},
          {names[1], &k},
          {names[2], &out},
          {names[3], at(1)},
          {names[4], &q}};
  EXPECT_EQ(launched(), 300);
}

TEST_F(ObjectCall, ChecksWhatEveryLaunchChecks) {
  q.byte_offset = 8;
  EXPECT_EQ(launch(), FA2RT_ERROR_ARGUMENT);
  EXPECT_STREQ(fa2rtLastError(),
               "q: the address 0x10008 is not a multiple of 16 bytes");
  EXPECT_EQ(events.back(), "acquire");
  q.byte_offset = 0;
  EXPECT_EQ(launch(1199), FA2RT_ERROR_ARGUMENT);
  EXPECT_CONTAINS(std::string(fa2rtLastError()),
                  "has 1199 bytes; this launch needs 1200");
  EXPECT_TRUE(device.takeLaunches().empty());
}

TEST_F(ObjectCall, ASimulatedDeviceTakesTheHostsTensors) {
  device.info.simulated = true;
  expectOtherLayout();
  for (DLTensor *tensor : {&q, &k, &out}) {
    tensor->device_type = kCpu;
    tensor->device_id = 0;
  }
  EXPECT_EQ(launched(), 300);
}

TEST_F(ObjectCall, NullIsRefused) {
  fa2rtObjectCall given = made(4096);
  given.release = nullptr;
  given.acquire = nullptr;
  auto launch = [&] {
    return fa2rtPreparedLaunchObjects(&given, &dict, at(0x40000), nullptr);
  };
  EXPECT_EQ(launch(), FA2RT_OK) << "nothing need be released";
  choice[0] = nullptr;
  EXPECT_EQ(launch(), FA2RT_ERROR_ARGUMENT);
  EXPECT_STREQ(fa2rtLastError(), "'prepared[0]' is null");
  given.prepared = nullptr;
  EXPECT_EQ(launch(), FA2RT_ERROR_ARGUMENT);
  given.names = nullptr;
  EXPECT_EQ(launch(), FA2RT_ERROR_ARGUMENT);
  given.read = nullptr;
  EXPECT_EQ(launch(), FA2RT_ERROR_ARGUMENT);
  EXPECT_STREQ(fa2rtLastError(), "'read' is null");
  EXPECT_EQ(fa2rtPreparedLaunchObjects(nullptr, &dict, nullptr, nullptr),
            FA2RT_ERROR_ARGUMENT);
}
