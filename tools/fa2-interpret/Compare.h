//===- Compare.h - two runs of one case -------------------------*- C++ -*-===//
#ifndef FA2INTERPRET_COMPARE_H
#define FA2INTERPRET_COMPARE_H

#include "Interpret.h"
#include "Trace.h"

namespace fa2interpret {

/// Refuses two files of different programs.
void checkSameProgram(const Run &a, const Run &b);

/// Says, a line an output, whether they are the same; false where one is not.
bool compareOutputs(Run &a, Run &b, double tolerance, std::string &text);

/// Where they first part, for people.
std::string describeParting(const Parting &parting);

} // namespace fa2interpret

#endif // FA2INTERPRET_COMPARE_H
