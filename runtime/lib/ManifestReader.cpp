//===- ManifestReader.cpp - typed access to the manifest's JSON -----------===//

#include "ManifestReader.h"

#include <algorithm>

namespace fa2rt {

void Field::expect(JsonNode::Kind kind, const char *what) const {
  if (node->kind != kind)
    refuse("expected {}, got {}", what, node->kindName());
}

int64_t Field::integer(int64_t least, int64_t most) const {
  expect(JsonNode::Kind::Integer, "an integer");
  if (node->integer < least || node->integer > most)
    refuse("expected an integer from {} to {}, got {}", least, most,
           node->integer);
  return node->integer;
}

double Field::number() const {
  if (!isNumber())
    refuse("expected a number, got {}", node->kindName());
  return node->real;
}

bool Field::boolean() const {
  expect(JsonNode::Kind::Boolean, "true or false");
  return node->boolean;
}

const std::string &Field::string() const {
  expect(JsonNode::Kind::String, "a string");
  return node->string;
}

const std::string &Field::identifier() const {
  const std::string &text = string();
  bool good = !text.empty() && !(text[0] >= '0' && text[0] <= '9');
  for (char c : text)
    good &= (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
            (c >= 'A' && c <= 'Z') || c == '_';
  if (!good)
    refuse("expected a name of letters, digits and '_', got '{}'", text);
  return text;
}

std::vector<Field> Field::elements(size_t least, size_t most) const {
  expect(JsonNode::Kind::Array, "an array");
  size_t count = node->elements.size();
  if (count < least || count > most) {
    if (least == most)
      refuse("expected {} elements, got {}", least, count);
    refuse("expected {} to {} elements, got {}", least, most, count);
  }
  std::vector<Field> fields;
  for (size_t i = 0; i < count; ++i)
    fields.emplace_back(node->elements[i], fmt::format("{}[{}]", path, i));
  return fields;
}

Object::Object(Field field) : self(std::move(field)) {
  self.expect(JsonNode::Kind::Object, "an object");
}

bool Object::has(std::string_view name) {
  known.push_back(name);
  return self.json().find(name) != nullptr;
}

Field Object::required(std::string_view name) {
  if (!has(name))
    self.refuse("the field '{}' is missing", name);
  const std::string &path = self.where();
  return Field(*self.json().find(name), path == "manifest"
                                            ? std::string(name)
                                            : fmt::format("{}.{}", path, name));
}

void Object::finish() const {
  for (const auto &[name, value] : self.json().members) {
    if (std::find(known.begin(), known.end(), name) != known.end())
      continue;
    fail(FA2RT_ERROR_MANIFEST,
         "manifest, line {}: {}: the field '{}' is unknown", value.line,
         self.where(), name);
  }
}

} // namespace fa2rt
