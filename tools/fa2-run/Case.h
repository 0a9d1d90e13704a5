//===- Case.h - one case, as the command line says it -----------*- C++ -*-===//
#ifndef FA2RUN_CASE_H
#define FA2RUN_CASE_H

#include "Options.h"
#include "RunCase.h"

namespace fa2run {

/// Reads the arrays that the options name.
RunOptions readInputs(const Options &options);

/// Extents of .npy inputs, shapes of the command line, or a default case.
Configuration completeConfiguration(const Options &options,
                                    const RunOptions &run, const Kernel &kernel,
                                    bool simulated);

/// Writes the arrays that the options name.
void saveArrays(const Options &options, const Kernel &kernel,
                const Configuration &configuration, const Tensors &tensors);

} // namespace fa2run

#endif // FA2RUN_CASE_H
