//===- ManifestReader.h - typed access to the manifest's JSON ---*- C++ -*-===//
//
// Each accessor checks the type and range and fails with the field's path and
// line: "manifest, line 12: arguments[0].alignment: expected …, got …".
//
//===----------------------------------------------------------------------===//
#ifndef FA2RT_LIB_MANIFESTREADER_H
#define FA2RT_LIB_MANIFESTREADER_H

#include "Error.h"
#include "JsonTree.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa2rt {

/// A value of the manifest and where it stands.
class Field {
public:
  Field(const JsonNode &node, std::string path)
      : node(&node), path(std::move(path)) {}

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format,
                           Args &&...args) const {
    throw Error(FA2RT_ERROR_MANIFEST,
                fmt::format("manifest, line {}: {}: {}", node->line,
                            clipped(path),
                            formatError(format, std::forward<Args>(args)...)));
  }

  bool isInteger() const { return node->kind == JsonNode::Kind::Integer; }
  bool isString() const { return node->kind == JsonNode::Kind::String; }
  bool isNumber() const {
    return isInteger() || node->kind == JsonNode::Kind::Real;
  }

  int64_t integer(int64_t least, int64_t most) const;
  double number() const;
  bool boolean() const;
  const std::string &string() const;
  /// A string of letters, digits and '_' that begins with no digit.
  const std::string &identifier() const;
  /// The elements of an array of `least` to `most` elements.
  std::vector<Field> elements(size_t least, size_t most) const;

  const JsonNode &json() const { return *node; }
  const std::string &where() const { return path; }

private:
  friend class Object;
  void expect(JsonNode::Kind kind, const char *what) const;

  const JsonNode *node;
  std::string path;
};

/// An object whose fields are all known: what nobody asked for is refused.
class Object {
public:
  explicit Object(Field field);
  Field required(std::string_view name);
  /// Has the object that field? Then required() gives it.
  bool has(std::string_view name);
  /// Refuses fields that were never asked for.
  void finish() const;
  const Field &field() const { return self; }

private:
  Field self;
  std::vector<std::string_view> known;
};

} // namespace fa2rt

#endif // FA2RT_LIB_MANIFESTREADER_H
