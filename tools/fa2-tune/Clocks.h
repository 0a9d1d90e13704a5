//===- Clocks.h - the clock that a GPU runs at ------------------*- C++ -*-===//
#ifndef FA2TUNE_CLOCKS_H
#define FA2TUNE_CLOCKS_H

namespace fa2tune {

/// Megahertz of a CUDA device's multiprocessors now, by NVML where it is; 0
/// where nobody knows.
int multiprocessorClock(int ordinal);

} // namespace fa2tune

#endif // FA2TUNE_CLOCKS_H
