//===- Shipped.h - the database that comes with the compiler ----*- C++ -*-===//
#ifndef FA2_LIB_SCHEDULE_SHIPPED_H
#define FA2_LIB_SCHEDULE_SHIPPED_H

namespace fa2 {

/// The text of schedules.json, which the build makes a source of.
extern const char kShippedSchedules[];

} // namespace fa2

#endif
