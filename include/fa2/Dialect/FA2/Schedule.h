//===- Schedule.h - schedules as plain values -------------------*- C++ -*-===//
//
// What #fa2.schedule holds, what somebody asked for of it, and how to visit
// its fields: ScheduleFields.def says what they are. FA2.h includes this.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_DIALECT_FA2_SCHEDULE_H
#define FA2_DIALECT_FA2_SCHEDULE_H

#include "fa2/Dialect/FA2/Enums.h"

#include "mlir/IR/MLIRContext.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {

class ScheduleAttr;

/// Rows of a tile that a warpgroup takes, and that packed heads share out among
/// them (!fa2.view).
constexpr int64_t kGroupRows = 64;
/// Powers of two that a probability may reach in any element type.
constexpr int64_t kMaxSlack = 60;
/// The warps of `warps` that the rows of dQ can be shared among, where nobody
/// says how many; the others split its columns.
int64_t warpsAlongGradQ(int64_t warps, int64_t blockQ);

/// Warps of a producer role: a warpgroup.
constexpr int64_t kProducerWarps = 4;

struct Schedule {
#define FA2_SCHEDULE_FIELD(TYPE, MEMBER, GETTER, NAME, DEFAULT, ...)           \
  TYPE MEMBER = DEFAULT;
#include "fa2/Dialect/FA2/ScheduleFields.def"

  /// With what the zeros of derived fields stand for.
  Schedule derived() const;
  /// Whether blocks count who has added to a tile of dQ's sum: in the order of
  /// the key tiles, or so that the first stores and the last finishes it.
  bool takesTurns() const {
    return dq == GradQ::Ordered || (turnsFinish && dq != GradQ::Recompute);
  }
  /// How many tiles of queries share a turn at a gradient's sum over the batch:
  /// what sum_turns says, or 4 where dQ is summed in an order (0: entries add
  /// in any order).
  int64_t tilesOfSumTurn() const;
  /// Slots of the rings of keys and values where nobody says how many: where
  /// they stay while queries go by, as in backward, one.
  int64_t slotsOfKeys() const {
    return partition == Partition::Keys ? 1 : stages;
  }
  /// Slots of the ring of a tensor, in the loop over tiles or around it.
  int64_t slotsOf(llvm::StringRef tensor, bool inLoop) const;
  /// Whether one warpgroup computes P and another dS.
  bool hasTwoPrograms() const { return roleColumns || roleProducts; }
  /// All warps that multiply dS with the keys: the block's, or a role's.
  int64_t warpsOfGradQ() const {
    return dqByProducer || hasTwoPrograms() ? kProducerWarps : warps;
  }
  /// Warps beside those that `warps` counts, on a target with roles.
  int64_t otherWarps() const {
    return kProducerWarps + (dqRole ? warpsOfGradQ() : 0);
  }
  /// What is wrong with the fields on any target, or an empty string.
  std::string check() const;
  /// Fails with that in `error`.
  mlir::FailureOr<ScheduleAttr> toAttr(mlir::MLIRContext *context,
                                       llvm::StringRef target,
                                       std::string &error) const;

  bool operator==(const Schedule &) const = default;
};
llvm::hash_code hash_value(const Schedule &schedule);

/// The fields that somebody asked for.
struct ScheduleOverrides {
#define FA2_SCHEDULE_FIELD(TYPE, MEMBER, ...) std::optional<TYPE> MEMBER;
#include "fa2/Dialect/FA2/ScheduleFields.def"

  /// Sets a field by its name. Returns what is wrong with the name or the
  /// value's form, or an empty string.
  std::string setField(llvm::StringRef name, llvm::StringRef value);
  /// Sets fields from "name=value,name=value", which messages call `what`.
  std::string setFields(llvm::StringRef what, llvm::StringRef text);
  /// The first field out of its range, or an empty string.
  std::string check() const;
  /// `schedule` with these fields in place.
  Schedule applyTo(Schedule schedule) const;

  bool operator==(const ScheduleOverrides &) const = default;
};

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// The integers that a field may have.
struct FieldRange {
  int64_t from = 0, to = 0, multipleOf = 1;
  bool powerOfTwo = false;

  bool contains(int64_t n) const;
  /// "a multiple of 16 from 16 to 256"
  std::string text() const;
};

enum class FieldGroup { Every, AnyRoles, Roles, Gradient, GradientRoles };
enum class FieldShown { Always, Manifest, WhereSet };
enum class FieldBits { Same, Own, OfKeys, Ordered };
enum class FieldSeen { Around, Inside };

/// A line of ScheduleFields.def, which says what each column means.
template <typename T> struct ScheduleField {
  llvm::StringLiteral name;
  FieldRange range;
  FieldGroup group;
  FieldShown shown;
  FieldBits bits;
  FieldSeen seen;
  llvm::StringLiteral help;
  T Schedule::*member;
  std::optional<T> ScheduleOverrides::*asked;

  /// "0 or 1", "ascending or longest_first"
  std::string choices() const;
  static std::string text(T value);
  static std::optional<T> parse(llvm::StringRef text);
  bool isDefault(const Schedule &schedule) const {
    return schedule.*member == Schedule().*member;
  }
};

/// Calls `visit` with each field, a ScheduleField<T>.
template <typename Visit> void forEachScheduleField(Visit visit) {
  [[maybe_unused]] auto any = [] { return FieldRange(); };
  [[maybe_unused]] auto range = [](int64_t from, int64_t to) {
    return FieldRange{from, to};
  };
  [[maybe_unused]] auto multiplesOf = [](int64_t n, int64_t from, int64_t to) {
    return FieldRange{from, to, n};
  };
  [[maybe_unused]] auto powersOfTwo = [](int64_t from, int64_t to) {
    return FieldRange{from, to, 1, /*powerOfTwo=*/true};
  };
#define FA2_SCHEDULE_FIELD(TYPE, MEMBER, GETTER, NAME, DEFAULT, RANGE, GROUP,  \
                           SHOWN, BITS, SEEN, HELP)                            \
  visit(ScheduleField<TYPE>{NAME, RANGE, FieldGroup::GROUP, FieldShown::SHOWN, \
                            FieldBits::BITS, FieldSeen::SEEN, HELP,            \
                            &Schedule::MEMBER, &ScheduleOverrides::MEMBER});
#include "fa2/Dialect/FA2/ScheduleFields.def"
}

/// Whether dQ has the same bits in each run.
bool sumsInOrder(GradQ dq);

/// Names and texts of what a row's bits follow from: on one target schedules in
/// which they are the same give it the same bits. Of backward dK's and dV's
/// rows, and dQ's where it is summed in order.
std::vector<std::pair<llvm::StringRef, std::string>>
fieldsOfBits(const Schedule &schedule);

/// The field's name, what it says and its values, for --help.
struct FieldHelp {
  std::string name, text;
};
llvm::ArrayRef<FieldHelp> scheduleFieldHelp();

/// The name that `name` was probably meant to be.
llvm::StringRef nearestName(llvm::StringRef name,
                            llvm::ArrayRef<llvm::StringRef> names);

} // namespace fa2

#endif
