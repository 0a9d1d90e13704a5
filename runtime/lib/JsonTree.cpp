//===- JsonTree.cpp - JSON that remembers its lines -----------------------===//

#include "JsonTree.h"

#include "Error.h"

#include <nlohmann/json.hpp>

#include <limits>

namespace fa2rt {

namespace {

constexpr size_t kMaxDepth = 32;

using Json = nlohmann::json;

/// An input iterator over the text that leaves its position where the handler
/// can see it.
class TrackedIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  TrackedIterator(const char *at, const char **furthest)
      : at(at), furthest(furthest) {}
  reference operator*() const { return *at; }
  TrackedIterator &operator++() {
    ++at;
    if (furthest)
      *furthest = at;
    return *this;
  }
  TrackedIterator operator++(int) {
    TrackedIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const TrackedIterator &other) const { return at == other.at; }
  bool operator!=(const TrackedIterator &other) const { return at != other.at; }

private:
  const char *at;
  const char **furthest;
};

/// Builds the tree. The lexer has read exactly a token when its event comes,
/// and one character more after a number.
class TreeBuilder : public nlohmann::json_sax<Json> {
public:
  TreeBuilder(const char *begin, const char *const *furthest, int firstLine)
      : counted(begin), furthest(furthest), line(firstLine) {}

  JsonNode root;

  bool null() override { return scalar(JsonNode::Kind::Null, 0); }
  bool boolean(bool value) override {
    return scalar(JsonNode::Kind::Boolean, 0,
                  [&](JsonNode &node) { node.boolean = value; });
  }
  bool number_integer(number_integer_t value) override {
    return scalar(JsonNode::Kind::Integer, 1, [&](JsonNode &node) {
      node.integer = value;
      node.real = double(value);
    });
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > uint64_t(std::numeric_limits<int64_t>::max()))
      fail(FA2RT_ERROR_MANIFEST, "line {}: the integer {} is beyond 2^63 - 1",
           lineBefore(1), value);
    return number_integer(int64_t(value));
  }
  bool number_float(number_float_t value, const string_t &) override {
    return scalar(JsonNode::Kind::Real, 1,
                  [&](JsonNode &node) { node.real = value; });
  }
  bool string(string_t &value) override {
    return scalar(JsonNode::Kind::String, 0,
                  [&](JsonNode &node) { node.string = std::move(value); });
  }
  bool binary(binary_t &) override { return false; } // not in JSON text
  bool start_object(size_t) override { return open(JsonNode::Kind::Object); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(JsonNode::Kind::Array); }
  bool end_array() override { return close(); }

  bool key(string_t &value) override {
    JsonNode &object = *stack.back();
    if (object.find(value))
      fail(FA2RT_ERROR_MANIFEST, "line {}: field '{}' is given twice",
           lineBefore(0), value);
    object.members.push_back({std::move(value), JsonNode()});
    return true;
  }

  bool parse_error(size_t, const std::string &,
                   const nlohmann::detail::exception &exception) override {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: …";
    // its line counts from the text's start, so say ours and keep the reason.
    std::string reason = exception.what();
    if (size_t at = reason.find("column"); at != std::string::npos)
      if (size_t colon = reason.find(": ", at); colon != std::string::npos)
        reason = reason.substr(colon + 2);
    fail(FA2RT_ERROR_MANIFEST, "line {}: not valid JSON: {}", lineBefore(1),
         reason);
  }

private:
  /// The line of the last character read but `back`.
  int lineBefore(int back) {
    for (; *furthest - counted > back; ++counted)
      line += *counted == '\n';
    return line;
  }

  JsonNode &place() {
    if (stack.empty())
      return root;
    JsonNode &parent = *stack.back();
    if (parent.kind == JsonNode::Kind::Object)
      return parent.members.back().value;
    return parent.elements.emplace_back();
  }

  template <typename Fill>
  bool scalar(JsonNode::Kind kind, int readAhead, Fill fill) {
    JsonNode &node = place();
    node.kind = kind;
    node.line = lineBefore(readAhead);
    fill(node);
    return true;
  }
  bool scalar(JsonNode::Kind kind, int readAhead) {
    return scalar(kind, readAhead, [](JsonNode &) {});
  }

  bool open(JsonNode::Kind kind) {
    scalar(kind, 0);
    if (stack.size() >= kMaxDepth)
      fail(FA2RT_ERROR_MANIFEST, "line {}: nested deeper than {} levels", line,
           kMaxDepth);
    JsonNode *node = &root;
    if (!stack.empty()) {
      JsonNode &parent = *stack.back();
      node = parent.kind == JsonNode::Kind::Object
                 ? &parent.members.back().value
                 : &parent.elements.back();
    }
    stack.push_back(node);
    return true;
  }
  bool close() {
    stack.pop_back();
    return true;
  }

  const char *counted;
  const char *const *furthest;
  int line;
  /// The open containers. A container's siblings are only added after it has
  /// closed, so the pointers stay good.
  std::vector<JsonNode *> stack;
};

} // namespace

const JsonNode *JsonNode::find(std::string_view name) const {
  for (const JsonMember &member : members)
    if (member.name == name)
      return &member.value;
  return nullptr;
}

const char *JsonNode::kindName() const {
  switch (kind) {
  case Kind::Null:
    return "null";
  case Kind::Boolean:
    return "a boolean";
  case Kind::Integer:
    return "an integer";
  case Kind::Real:
    return "a real number";
  case Kind::String:
    return "a string";
  case Kind::Array:
    return "an array";
  case Kind::Object:
    return "an object";
  }
  return "?";
}

JsonNode parseJson(std::string_view text, int firstLine) {
  const char *furthest = text.data();
  const char *end = text.data() + text.size();
  TreeBuilder builder(text.data(), &furthest, firstLine);
  bool good = Json::sax_parse(TrackedIterator(text.data(), &furthest),
                              TrackedIterator(end, nullptr), &builder);
  if (!good)
    fail(FA2RT_ERROR_MANIFEST, "line {}: not valid JSON", firstLine);
  return std::move(builder.root);
}

} // namespace fa2rt
