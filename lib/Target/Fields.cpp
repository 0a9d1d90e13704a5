//===- Fields.cpp - fields of a schedule by name --------------------------===//

#include "fa2/Target/Schedule.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using llvm::formatv;

using Number = std::optional<int64_t> ScheduleOverrides::*;
using Flag = std::optional<bool> ScheduleOverrides::*;

static constexpr std::pair<const char *, Number> kNumbers[] = {
    {"block_q", &ScheduleOverrides::blockQ},
    {"block_kv", &ScheduleOverrides::blockKV},
    {"warps", &ScheduleOverrides::warps},
    {"stages", &ScheduleOverrides::stages},
    {"lazy_rescale", &ScheduleOverrides::lazyRescale},
    {"min_blocks", &ScheduleOverrides::minBlocks},
    {"speculate_max", &ScheduleOverrides::speculateMax},
    {"query_slots", &ScheduleOverrides::querySlots},
    {"packed_heads", &ScheduleOverrides::packedHeads}};
static constexpr std::pair<const char *, Flag> kFlags[] = {
    {"q_in_registers", &ScheduleOverrides::qInRegisters},
    {"overlap", &ScheduleOverrides::overlap},
    {"ping_pong", &ScheduleOverrides::pingPong},
    {"persistent", &ScheduleOverrides::persistent},
    {"separate_output", &ScheduleOverrides::separateOutput},
    {"group_limits", &ScheduleOverrides::groupLimits}};

std::string ScheduleOverrides::setFields(StringRef what, StringRef text) {
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    auto [left, right] = part.split('=');
    // Names may be written with dashes, as flags are.
    std::string name = left.trim().str(), value = right.trim().str();
    llvm::replace(name, '-', '_');
    auto named = [&](auto &field) { return name == field.first; };
    if (name == "order") {
      llvm::replace(value, '-', '_');
      order = symbolizeTileOrder(StringRef(value));
      if (!order)
        return formatv("expected order ascending or longest_first, got {0}",
                       value);
      continue;
    }
    int64_t n;
    if (StringRef(value).getAsInteger(10, n))
      return formatv("expected {0} to be name=value,..., got '{1}'", what,
                     part);
    if (auto number = llvm::find_if(kNumbers, named);
        number != std::end(kNumbers)) {
      this->*number->second = n;
      continue;
    }
    auto flag = llvm::find_if(kFlags, named);
    if (flag == std::end(kFlags)) {
      std::string known;
      for (auto &field : kNumbers)
        known += formatv("{0}, ", field.first);
      for (auto &field : kFlags)
        known += formatv("{0}, ", field.first);
      return formatv("unknown {0} field '{1}' (known: {2}order)", what, name,
                     known);
    }
    if (n != 0 && n != 1)
      return formatv("expected {0} to be 0 or 1, got {1}", name, n);
    this->*flag->second = n == 1;
  }
  return "";
}
