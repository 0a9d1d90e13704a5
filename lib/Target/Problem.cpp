//===- Problem.cpp - what a schedule is chosen for, by name ---------------===//

#include "fa2/Target/Problem.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace fa2;
using llvm::formatv;
using llvm::StringRef;

namespace {
struct Need {
  StringRef name;
  bool Problem::*flag;
  int64_t Problem::*count;
};

constexpr Need kNeeds[] = {
    {"program", &Problem::program, nullptr},
    {"slope", &Problem::slope, nullptr},
    {"transcendental", &Problem::transcendental, nullptr},
    {"sums", &Problem::sums, nullptr},
    {"row_sums", &Problem::rowSums, nullptr},
    {"key_sums", &Problem::keySums, nullptr},
    {"batch_sums", &Problem::batchSums, nullptr},
    {"stores_scores", &Problem::storesScores, nullptr},
    {"dropout", &Problem::dropout, nullptr},
    {"column_vectors", nullptr, &Problem::columnVectors},
    {"head_columns", &Problem::headColumns, nullptr},
    {"key_terms", &Problem::termsOfKeys, nullptr},
    {"distance_terms", &Problem::termsOfDistances, nullptr},
    {"entry_terms", &Problem::termsOfEntries, nullptr},
    {"tile_reads", nullptr, &Problem::tileReads},
    {"wide_reads", nullptr, &Problem::wideReads},
    {"element_reads", &Problem::elementReads, nullptr},
    {"distance_reads", &Problem::distanceReads, nullptr},
    {"distance", &Problem::distance, nullptr},
};

const Need *needOf(StringRef name) {
  auto found = std::find_if(std::begin(kNeeds), std::end(kNeeds),
                            [&](const Need &n) { return n.name == name; });
  return found == std::end(kNeeds) ? nullptr : found;
}
} // namespace

std::string Problem::needs() const {
  std::string text;
  for (const Need &need : kNeeds) {
    int64_t n = need.flag ? this->*need.flag : this->*need.count;
    if (n == 0)
      continue;
    text += (text.empty() ? "" : ",") + need.name.str();
    if (need.count)
      text += formatv("={0}", n);
  }
  return text;
}

std::string Problem::setNeeds(StringRef text) {
  for (const Need &need : kNeeds)
    need.flag ? void(this->*need.flag = false) : void(this->*need.count = 0);
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    auto [name, value] = part.split('=');
    const Need *need = needOf(name);
    if (!need)
      return formatv("unknown need '{0}'", name);
    if (need->flag && value.empty() && part == name)
      this->*need->flag = true;
    else if (int64_t n; need->count && !value.getAsInteger(10, n) && n > 0)
      this->*need->count = n;
    else
      return formatv(
          "expected the need {0} {1}, got '{2}'", name,
          need->flag ? "to have no value" : "to have a positive number", part);
  }
  return "";
}

std::optional<int64_t> Problem::number(StringRef name) const {
  if (name == "head_dim")
    return headDim;
  if (name == "head_dim_v")
    return headDimV;
  if (name == "dim")
    return std::max(headDim, headDimV);
  if (name == "masked")
    return masked;
  if (const Need *need = needOf(name))
    return need->flag ? this->*need->flag : this->*need->count;
  return std::nullopt;
}
