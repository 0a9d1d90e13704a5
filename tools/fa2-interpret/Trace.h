//===- Trace.h - the tiles that a run gave, in order ------------*- C++ -*-===//
#ifndef FA2INTERPRET_TRACE_H
#define FA2INTERPRET_TRACE_H

#include "fa2/Interpreter/Values.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fa2interpret {

/// Whether two numbers are as one: the same, or no further apart than
/// `tolerance` of the larger of both and 1.
bool areClose(float a, float b, double tolerance);

/// Where two runs first part: an element of the same tile.
struct Parting {
  fa2::interpreter::Event first, second;
  size_t number = 0, count = 0; // of so many such tiles, from 1
  int64_t row = 0, column = 0;
  float a = 0, b = 0;
};

/// Tiles by what gave them and by place. Stages leave operations out,
/// split and move them; those of one name and place that are as many in both
/// runs are taken for the same.
class Trace {
public:
  void note(const fa2::interpreter::Event &event);

  /// The first, in the order of this run, whose tile has other elements in the
  /// other one.
  std::optional<Parting> partsFrom(const Trace &other, double tolerance) const;
  /// How many tiles have one to be compared with.
  size_t comparedWith(const Trace &other) const;

private:
  struct Key {
    std::string what;
    fa2::interpreter::Place place;
    int64_t group;
    auto operator<=>(const Key &) const = default;
  };
  using Numbers = std::vector<size_t>; // of events

  /// The same of the other run; null where they cannot be compared.
  const Numbers *matchOf(const Key &key, const Trace &other) const;
  std::optional<Parting> compare(const Key &key, size_t nth, const Trace &other,
                                 const Numbers &match, double tolerance) const;

  std::vector<fa2::interpreter::Event> events;
  std::vector<std::pair<Key, size_t>> order; // which of its key each is
  std::map<Key, Numbers> byKey;
};

} // namespace fa2interpret

#endif // FA2INTERPRET_TRACE_H
