//===- ScheduleFields.cpp - fields of a schedule as text ------------------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace fa2;
using llvm::formatv;
using llvm::StringRef;

bool FieldRange::contains(int64_t n) const {
  return n >= from && n <= to && n % multipleOf == 0 &&
         (!powerOfTwo || (n & (n - 1)) == 0);
}

std::string FieldRange::text() const {
  if (powerOfTwo)
    return formatv("a power of two from {0} to {1}", from, to);
  if (multipleOf != 1)
    return formatv("a multiple of {0} from {1} to {2}", multipleOf, from, to);
  return formatv("{0} {1} {2}", from, from + 1 == to ? "or" : "to", to);
}

StringRef fa2::nearestName(StringRef name, llvm::ArrayRef<StringRef> names) {
  return *llvm::min_element(names, [&](StringRef a, StringRef b) {
    return name.edit_distance(a) < name.edit_distance(b);
  });
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

namespace {
/// The largest value of an enumeration.
template <typename T> unsigned maxOf();
template <> unsigned maxOf<Partition>() { return getMaxEnumValForPartition(); }
template <> unsigned maxOf<TileOrder>() { return getMaxEnumValForTileOrder(); }
template <> unsigned maxOf<GradQ>() { return getMaxEnumValForGradQ(); }
template <> unsigned maxOf<Preload>() { return getMaxEnumValForPreload(); }
template <> unsigned maxOf<TurnChange>() {
  return getMaxEnumValForTurnChange();
}
template <> unsigned maxOf<LoopOrder>() { return getMaxEnumValForLoopOrder(); }
template <> unsigned maxOf<Chain>() { return getMaxEnumValForChain(); }
template <> unsigned maxOf<CacheHint>() { return getMaxEnumValForCacheHint(); }

template <typename T> llvm::SmallVector<StringRef> namesOf() {
  llvm::SmallVector<StringRef> names;
  for (unsigned i = 0; i <= maxOf<T>(); ++i)
    names.push_back(stringifyEnum(T(i)));
  return names;
}

/// "a, b or c"
std::string listOf(llvm::ArrayRef<StringRef> names) {
  return llvm::join(names.drop_back(), ", ") + " or " + names.back().str();
}
} // namespace

namespace fa2 {
template <> std::string ScheduleField<int64_t>::choices() const {
  return range.text();
}
template <> std::string ScheduleField<int64_t>::text(int64_t value) {
  return std::to_string(value);
}
template <>
std::optional<int64_t> ScheduleField<int64_t>::parse(StringRef text) {
  int64_t n;
  return text.getAsInteger(10, n) ? std::nullopt : std::optional(n);
}

template <> std::string ScheduleField<bool>::choices() const {
  return "0 or 1";
}
template <> std::string ScheduleField<bool>::text(bool value) {
  return value ? "true" : "false";
}
template <> std::optional<bool> ScheduleField<bool>::parse(StringRef text) {
  if (text == "1" || text == "true")
    return true;
  return text == "0" || text == "false" ? std::optional(false) : std::nullopt;
}

template <typename T> std::string ScheduleField<T>::choices() const {
  return listOf(namesOf<T>());
}
template <typename T> std::string ScheduleField<T>::text(T value) {
  return stringifyEnum(value).str();
}
template <typename T> std::optional<T> ScheduleField<T>::parse(StringRef text) {
  std::string name = text.str(); // with dashes or underscores
  llvm::replace(name, '-', '_');
  return symbolizeEnum<T>(name);
}
template struct ScheduleField<Partition>;
template struct ScheduleField<TileOrder>;
template struct ScheduleField<GradQ>;
template struct ScheduleField<Preload>;
template struct ScheduleField<TurnChange>;
template struct ScheduleField<LoopOrder>;
template struct ScheduleField<Chain>;
template struct ScheduleField<CacheHint>;
} // namespace fa2

//===----------------------------------------------------------------------===//
// What is asked for
//===----------------------------------------------------------------------===//

Schedule ScheduleOverrides::applyTo(Schedule s) const {
  forEachScheduleField([&](auto field) {
    s.*field.member = (this->*field.asked).value_or(s.*field.member);
  });
  return s;
}

std::string ScheduleOverrides::check() const {
  std::string wrong;
  forEachScheduleField([&]<typename T>(const ScheduleField<T> &field) {
    if constexpr (std::is_same_v<T, int64_t>)
      if (auto n = this->*field.asked;
          wrong.empty() && n && !field.range.contains(*n))
        wrong = formatv("expected {0} to be {1}, got {2}", field.name,
                        field.choices(), *n);
  });
  return wrong;
}

static std::string unknownField(StringRef name) {
  llvm::SmallVector<StringRef> names;
  forEachScheduleField([&](auto field) { names.push_back(field.name); });
  return formatv("unknown schedule field '{0}'; the nearest is {1} (known: "
                 "{2})",
                 name, nearestName(name, names), llvm::join(names, ", "));
}

std::string ScheduleOverrides::setField(StringRef asked, StringRef value) {
  // Names may be written with dashes, as flags are.
  std::string name = asked.str(), wrong = "unknown";
  llvm::replace(name, '-', '_');
  forEachScheduleField([&](auto field) {
    if (field.name != name)
      return;
    wrong.clear();
    auto parsed = field.parse(value);
    auto &standing = this->*field.asked;
    if (!parsed)
      wrong = formatv("expected {0} to be {1}, got '{2}'", name,
                      field.choices(), value);
    else if (standing && *standing != *parsed)
      wrong = formatv("expected one value of {0}, got {1} and {2}", name,
                      field.text(*standing), field.text(*parsed));
    else
      standing = parsed;
  });
  return wrong == "unknown" ? unknownField(name) : wrong;
}

std::string ScheduleOverrides::setFields(StringRef what, StringRef text) {
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    auto [name, value] = part.split('=');
    if (name.size() == part.size())
      return formatv("expected {0} to be name=value,..., got '{1}'", what,
                     part.trim());
    if (std::string wrong = setField(name.trim(), value.trim()); !wrong.empty())
      return wrong;
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Help
//===----------------------------------------------------------------------===//

static StringRef kernelsOf(FieldGroup group) {
  switch (group) {
  case FieldGroup::Every:
    return "";
  case FieldGroup::AnyRoles:
  case FieldGroup::Roles:
    return "sm_90a: ";
  case FieldGroup::Gradient:
    return "backward: ";
  case FieldGroup::GradientRoles:
    return "sm_90a, backward: ";
  }
  return "";
}

llvm::ArrayRef<FieldHelp> fa2::scheduleFieldHelp() {
  static const auto list = [] {
    std::vector<FieldHelp> list;
    forEachScheduleField([&](auto field) {
      list.push_back(
          {field.name.str(), formatv("{0}{1}: {2}", kernelsOf(field.group),
                                     field.help, field.choices())});
    });
    return list;
  }();
  return list;
}
