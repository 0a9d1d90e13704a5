//===- Terms.cpp - what the model sees of what was measured ---------------===//

#include "Terms.h"
#include "Fit.h"

#include "fa2/Compiler/OutputFile.h"
#include "fa2/Schedule/Footprint.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace fa2;
using namespace fa2tune;

namespace {

/// A name and a value of each column, in one order.
template <typename Visit>
void forEachTerm(const Estimate &e, const Footprint &f, bool pads,
                 Visit visit) {
  visit("estimate_ms", e.milliseconds);
  visit("tensor", e.tensor);
  visit("exponential", e.exponential);
  visit("arithmetic", e.arithmetic);
  visit("shared", e.shared);
  visit("global", e.global);
  visit("step", e.step);
  visit("step_alone", e.stepAlone);
  visit("ends", e.ends);
  visit("steps", e.steps);
  visit("longest", e.longest);
  visit("blocks", double(e.blocks));
  visit("blocks_held", double(e.blocksPerMultiprocessor));
  visit("imbalance", e.imbalance);
  visit("registers", double(f.registers()));
  visit("accumulators", double(f.accumulatorRegisters));
  visit("score_registers", double(f.scoreRegisters));
  visit("shared_bytes", double(f.sharedBytes));
  visit("pads", double(pads));
}

void writeHeader(llvm::raw_ostream &os) {
  os << "pass,arch,head_dim,masked,batch,heads,seqlen_q,seqlen_k,ms";
  forEachTerm({}, {}, false,
              [&](const char *name, double) { os << "," << name; });
  forEachScheduleField([&](auto field) { os << "," << field.name; });
  os << "\n";
}

void writeCell(llvm::raw_ostream &os, const MeasuredCell &cell) {
  const Problem &p = cell.problem;
  for (size_t i = 0; i < cell.schedules.size(); ++i) {
    const Schedule &s = cell.schedules[i];
    os << llvm::formatv("{0},{1},{2},{3},{4},{5},{6},{7},{8:f6}",
                        p.backward ? "backward" : "forward",
                        cell.target->name(), p.headDim, int(p.masked),
                        cell.shape.batch, cell.shape.heads, cell.shape.seqlenQ,
                        cell.shape.seqlenK, cell.milliseconds[i]);
    forEachTerm(estimate(*cell.target, cell.rates, p, s, cell.shape),
                footprint(*cell.target, p, s), padsColumns(*cell.target, p, s),
                [&](const char *, double value) {
                  os << llvm::formatv(",{0:f4}", value);
                });
    Schedule derived = s.derived();
    forEachScheduleField(
        [&](auto field) { os << "," << field.text(derived.*field.member); });
    os << "\n";
  }
}

} // namespace

std::string fa2tune::writeTerms(const std::string &rows,
                                const std::string &output) {
  std::vector<MeasuredCell> cells;
  if (std::string wrong = readMeasured(rows, cells); !wrong.empty())
    return wrong;
  std::string text;
  llvm::raw_string_ostream os(text);
  writeHeader(os);
  for (const MeasuredCell &cell : cells)
    writeCell(os, cell);
  std::string why = writeFile(output, text);
  return why.empty() ? "" : "cannot write '" + output + "': " + why;
}
