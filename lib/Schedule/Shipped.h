//===- Shipped.h - what comes with the compiler -----------------*- C++ -*-===//
#ifndef FA2_LIB_SCHEDULE_SHIPPED_H
#define FA2_LIB_SCHEDULE_SHIPPED_H

namespace fa2 {

/// The texts of schedules.json and tables.json, which the build makes a source
/// of.
extern const char kShippedSchedules[], kShippedTables[];

} // namespace fa2

#endif
