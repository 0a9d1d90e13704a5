//===- Shapes.cpp - what candidates are chosen and measured for -----------===//

#include "Shapes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <set>

using namespace fa2;
using namespace fa2tune;
using llvm::formatv;
using llvm::StringRef;
namespace json = llvm::json;

static constexpr int64_t kLargest = 1 << 24;

static constexpr StringRef kNames[] = {"batch", "heads", "heads_kv", "seqlen_q",
                                       "seqlen_k"};
static int64_t Shape::*const kMembers[] = {&Shape::batch, &Shape::heads,
                                           &Shape::headsKv, &Shape::seqlenQ,
                                           &Shape::seqlenK};

static bool isShape(const Shape &shape) {
  return llvm::all_of(kMembers,
                      [&](auto member) {
                        return shape.*member >= 1 && shape.*member <= kLargest;
                      }) &&
         shape.heads % shape.headsKv == 0;
}

std::optional<Shape> fa2tune::parseShape(StringRef text) {
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  Shape shape;
  if (parts.size() != std::size(kMembers))
    return std::nullopt;
  for (auto [part, member] : llvm::zip(parts, kMembers))
    if (part.getAsInteger(10, shape.*member))
      return std::nullopt;
  return isShape(shape) ? std::optional(shape) : std::nullopt;
}

std::vector<Shape> fa2tune::defaultShapes(const Specification &spec) {
  std::vector<Shape> shapes;
  int64_t heads = std::max<int64_t>(1, 2048 / spec.headDim);
  for (int64_t length : {512, 2048, 8192})
    shapes.push_back({16384 / length, heads, heads, length, length});
  for (int64_t length : {1024, 2048})
    shapes.push_back({1, heads, heads, length, length});
  return shapes;
}

/// Nothing where a member is missing or the whole is no shape. Without heads_kv
/// there are as many as heads.
static std::optional<Shape> shapeOf(const json::Object *object) {
  if (!object)
    return std::nullopt;
  Shape shape;
  for (auto [name, member] : llvm::zip(kNames, kMembers)) {
    auto value = object->getInteger(name);
    if (!value && name == "heads_kv")
      value = object->getInteger("heads");
    if (!value)
      return std::nullopt;
    shape.*member = *value;
  }
  return isShape(shape) ? std::optional(shape) : std::nullopt;
}

/// What a schedule is for; one type of 16 bits stands for the other, and of
/// programs, of which a record does not say what they are, one for all.
static std::string nameOf(StringRef pass, int64_t headDim, int64_t headDimV,
                          StringRef mask, bool isPlain) {
  return formatv("pass={0} head_dim={1} head_dim_v={2} mask={3}{4}", pass,
                 headDim, headDimV, mask,
                 isPlain ? "" : " with a program or dropout");
}

/// "" where the specification is not one.
static std::string problemOf(const json::Object *spec) {
  if (!spec)
    return "";
  bool isPlain = llvm::none_of(
      std::initializer_list<StringRef>{"program", "score_program", "dropout"},
      [&](StringRef name) { return spec->get(name); });
  auto pass = spec->getString("pass"), mask = spec->getString("mask");
  auto d = spec->getInteger("head_dim"), dv = spec->getInteger("head_dim_v");
  return pass && mask && d && dv ? nameOf(*pass, *d, *dv, *mask, isPlain) : "";
}

std::string ShapeFile::readList(StringRef text) {
  auto document = json::parse(text);
  if (!document)
    return path + " is no JSON: " + llvm::toString(document.takeError());
  const json::Array *list = document->getAsArray();
  for (const json::Value &value : *list) {
    auto shape = shapeOf(value.getAsObject());
    if (!shape)
      return formatv("{0}, shape {1}: expected batch, heads, seqlen_q and "
                     "seqlen_k from 1 to {2}, and heads_kv that divides heads, "
                     "got {3}",
                     path, listed.size() + 1, kLargest, value);
    listed.push_back(*shape);
  }
  return listed.empty() ? path + " has no shapes" : "";
}

std::string ShapeFile::readLines(StringRef text) {
  for (size_t number = 1; !text.empty(); ++number) {
    StringRef line;
    std::tie(line, text) = text.split('\n');
    auto document = json::parse(line);
    if (!document) {
      llvm::consumeError(document.takeError());
      ++cut;
      continue;
    }
    const json::Object *object = document->getAsObject();
    auto version = object ? object->getInteger("fa2rt_record") : std::nullopt;
    if (!version || *version != 1)
      return formatv("{0}, line {1}: expected a launch that FA2RT_RECORD "
                     "recorded, of version 1, or a JSON list of shapes in all "
                     "of the file",
                     path, number);
    auto launches = object->getInteger("launches");
    auto shape = shapeOf(object->getObject("shape"));
    std::string problem = problemOf(object->getObject("specification"));
    // Launches without work say nothing of schedules.
    if (launches && shape && !problem.empty())
      recorded.push_back({problem, *shape, *launches});
  }
  return recorded.empty() ? path + " has no launches of attention" : "";
}

std::string ShapeFile::read(StringRef name) {
  path = name.str();
  auto file = llvm::MemoryBuffer::getFile(name, /*IsText=*/true);
  if (!file)
    return formatv("cannot read '{0}': {1}", path, file.getError().message());
  StringRef text = (*file)->getBuffer();
  return text.ltrim().starts_with("[") ? readList(text) : readLines(text);
}

std::string ShapeFile::shapesOf(const Specification &spec, bool isPlain,
                                size_t most, std::vector<Shape> &shapes) const {
  if (!listed.empty()) {
    shapes = listed;
    return "";
  }
  std::string wanted =
      nameOf(spec.pass, spec.headDim,
             spec.headDimV ? spec.headDimV : spec.headDim, spec.mask, isPlain);
  auto key = [](const Shape &s) {
    return std::tuple(s.batch, s.heads, s.headsKv, s.seqlenQ, s.seqlenK);
  };
  std::map<decltype(key(Shape())), std::pair<Shape, double>> work;
  std::set<std::string> others;
  for (const Recorded &r : recorded) {
    others.insert(r.problem);
    if (r.problem != wanted)
      continue;
    auto &entry = work.try_emplace(key(r.shape), r.shape, 0).first->second;
    entry.second += double(r.launches) * double(r.shape.batch) *
                    double(r.shape.heads) * double(r.shape.seqlenQ) *
                    double(r.shape.seqlenK);
  }
  if (work.empty())
    return formatv("{0} has no launches of '{1}'; it has '{2}'", path, wanted,
                   llvm::join(others, "', '"));
  std::vector<std::pair<Shape, double>> order;
  for (const auto &[name, entry] : work)
    order.push_back(entry);
  llvm::stable_sort(
      order, [](const auto &a, const auto &b) { return a.second > b.second; });
  order.resize(std::min(order.size(), most));
  for (const auto &entry : order)
    shapes.push_back(entry.first);
  return "";
}
