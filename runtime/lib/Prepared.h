//===- Prepared.h - the handle of a prepared launch -------------*- C++ -*-===//
#ifndef FA2RT_LIB_PREPARED_H
#define FA2RT_LIB_PREPARED_H

#include "Program.h"

struct fa2rtPrepared {
  const fa2rt::Program &program;
  fa2rt::LaunchPlan plan;
};

#endif // FA2RT_LIB_PREPARED_H
