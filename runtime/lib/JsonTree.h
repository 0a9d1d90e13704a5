//===- JsonTree.h - JSON that remembers its lines ---------------*- C++ -*-===//
//
// A tree over nlohmann-json's SAX parser: each value knows its line, members
// keep their order, and a member given twice is an error.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RT_LIB_JSONTREE_H
#define FA2RT_LIB_JSONTREE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa2rt {

struct JsonMember;

struct JsonNode {
  enum class Kind { Null, Boolean, Integer, Real, String, Array, Object };
  Kind kind = Kind::Null;
  int line = 0; // where the value begins, from 1
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string string;
  std::vector<JsonNode> elements;
  std::vector<JsonMember> members;

  /// The member of that name, or null.
  const JsonNode *find(std::string_view name) const;
  /// "an object", "an integer", …
  const char *kindName() const;
};

struct JsonMember {
  std::string name;
  JsonNode value;
};

/// Parses one JSON value; `firstLine` is the number of the text's first line.
/// Throws Error(FA2RT_ERROR_MANIFEST) with the line of the fault.
JsonNode parseJson(std::string_view text, int firstLine);

} // namespace fa2rt

#endif // FA2RT_LIB_JSONTREE_H
