//===- Terms.cpp - what the model sees of what was measured ---------------===//

#include "Terms.h"
#include "Features.h"
#include "Fit.h"

#include "fa2/Compiler/OutputFile.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace fa2;
using namespace fa2tune;

/// A line for each of a cell's rows; before the first, names of the columns.
static void writeCell(llvm::raw_ostream &os, const MeasuredCell &cell,
                      bool isFirst) {
  const Problem &p = cell.problem;
  for (size_t i = 0; i < cell.schedules.size(); ++i) {
    Estimate e =
        estimate(*cell.target, cell.rates, p, cell.schedules[i], cell.shape);
    RankedCandidate candidate{*cell.target, p, cell.schedules[i], cell.shape,
                              e};
    if (isFirst && i == 0) {
      os << "pass,arch,head_dim,masked,batch,seqlen_q,ms,estimate_ms";
      forEachFeature(candidate, [&](llvm::StringRef name, double) {
        os << ",x." << name;
      });
      os << "\n";
    }
    os << llvm::formatv("{0},{1},{2},{3},{4},{5},{6:f6},{7:f6}",
                        p.backward ? "backward" : "forward",
                        cell.target->name(), p.headDim, int(p.masked),
                        cell.shape.batch, cell.shape.seqlenQ,
                        cell.milliseconds[i], e.milliseconds);
    forEachFeature(candidate, [&](llvm::StringRef, double value) {
      os << llvm::format(",%.9g", value);
    });
    os << "\n";
  }
}

std::string fa2tune::writeTerms(const std::string &rows,
                                const std::string &output) {
  std::vector<MeasuredCell> cells;
  if (std::string wrong = readMeasured(rows, cells); !wrong.empty())
    return wrong;
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const MeasuredCell &cell : cells)
    writeCell(os, cell, &cell == &cells.front());
  std::string why = writeFile(output, text);
  return why.empty() ? "" : "cannot write '" + output + "': " + why;
}
