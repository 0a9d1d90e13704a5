//===- Options.cpp - fa2-run's command line -------------------------------===//

#include "Options.h"

#include "Failure.h"
#include "fa2rt/fa2rt.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

namespace fa2run {

namespace {

const char *const kDescription =
    R"(Runs a forward or backward attention kernel that fa2-compile wrote, and checks it.

The inputs are drawn (--seed) or read from .npy files. The outputs are compared
with a float64 reference under the project's accuracy rule: for each row, the
largest error is at most twice that of standard attention done in the input
dtype, plus 2 ulp; the log-sum-exp is within 1e-5 (1 + |lse|) and what tensor
cores do to such scores. Memory that the kernel must not read holds NaN; memory
that it must not write is checked.

  fa2-compile --head-dim 128 -o attn.ptx && fa2-run attn.ptx
  fa2-compile --head-dim 64 --mask causal -o - | fa2-run - --seqlen 1024)";

const char *const kFooter = R"(
Devices: cuda, cuda:N, sim (the oldest device that runs the kernel), sim:sm_80,
sim:sm_90. The simulator takes options, as in 'sim:sm_80?seed=3&resident=2&strict':
seed=N (order of blocks and warps), resident=N (blocks in flight), sms=N
(multiprocessors), completion=early|late|random (of asynchronous copies), budget=N
(warp instructions; default 2e10), perturb=N (approximations within their bounds),
strict (warnings are errors), nochecks, profile. Default: cuda when there is a
driver and a device, else sim.

Exit status: 0 the check held; 1 it did not, or the launch failed, or the simulator
reported something; 2 bad input, which is not run, or not enough memory, or an
output that cannot be written; 3 no device that runs the kernel. With --json an
error is JSON too: {"error": ..., "status": ...}.)";

} // namespace

void addCaseOptions(CLI::App &app, Options &o) {
  static const std::map<std::string, Layout> layouts{{"bshd", Layout::BSHD},
                                                     {"bhsd", Layout::BHSD}};
  Configuration &c = o.configuration;
  c.tailRows = 64;
  auto shapes = "Shapes";
  app.add_option("--batch", o.batch, "batch entries")->group(shapes);
  app.add_option("--heads", o.heads, "query heads")->group(shapes);
  app.add_option("--heads-kv", o.headsKv,
                 "key and value heads; divides --heads (default: --heads, or "
                 "as few as a kernel of packed heads takes)")
      ->group(shapes);
  app.add_option("--seqlen", o.seqlen, "both sequence lengths")->group(shapes);
  app.add_option("--seqlen-q", o.seqlenQ, "queries a sequence")->group(shapes);
  app.add_option("--seqlen-k", o.seqlenK, "keys a sequence")->group(shapes);
  app.add_option("--layout", c.layout,
                 "memory order: bshd [batch, seqlen, heads, dim] or bhsd")
      ->transform(CLI::CheckedTransformer(layouts).description(""))
      ->group(shapes);
  app.add_option("--row-padding", c.rowPadding,
                 "poisoned elements after each row, in units of the kernel's "
                 "stride_multiple")
      ->group(shapes);
  app.add_option("--tail-rows", c.tailRows,
                 "poisoned rows after each sequence (default: 64)")
      ->group(shapes);

  auto data = "Data";
  app.add_option("--seed", c.seed, "seed of the drawn inputs (default: 0)")
      ->group(data);
  app.add_option(
         "--random-scale", c.randomScale,
         "multiplies the drawn q, and so every score (default: 1; up to "
         "4096)")
      ->group(data);
  app.add_flag("--sign", c.sign,
               "draw q >= 0 and k <= 0: a mask off by one shows")
      ->group(data);
  app.add_option("--q", o.q, "queries from a .npy file, in --layout's order")
      ->group(data);
  app.add_option("--k", o.k, "keys from a .npy file")->group(data);
  app.add_option("--v", o.v, "values from a .npy file")->group(data);
  app.add_option("--dout", o.dout,
                 "backward: the gradient of the output from a .npy file")
      ->group(data);
  app.add_option("--extra", o.extras,
                 "NAME=VALUE or NAME=FILE.npy: what the score program reads "
                 "under that name, or sink, dropout, rng (default: drawn)")
      ->group(data);
  app.add_option("--scale", c.scale,
                 "scale of the scores (default: the "
                 "kernel's, 1/sqrt(head dim))")
      ->group(data);
  app.add_option("--save-out", o.saveOut,
                 "write the output as .npy (f16, or bf16 as f32)")
      ->group(data);
  app.add_option("--save-lse", o.saveLse, "write the log-sum-exp as .npy")
      ->group(data);
  app.add_option("--save-dq", o.saveDq, "backward: write dq as .npy")
      ->group(data);
  app.add_option("--save-dk", o.saveDk, "backward: write dk as .npy")
      ->group(data);
  app.add_option("--save-dv", o.saveDv, "backward: write dv as .npy")
      ->group(data);
  app.add_option("--save-q", o.saveQ, "write the queries used as .npy")
      ->group(data);
  app.add_option("--save-k", o.saveK, "write the keys used as .npy")
      ->group(data);
  app.add_option("--save-v", o.saveV, "write the values used as .npy")
      ->group(data);
}

std::optional<int> parseOptions(int argc, char **argv, Options &o) {
  CLI::App app(kDescription, "fa2-run");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("fa2-run ") + fa2rtVersion());
  app.option_defaults()->take_last(); // of an option given twice
  app.get_formatter()->column_width(34);
  std::map<std::string, CheckMode> modes{{"auto", CheckMode::Auto},
                                         {"full", CheckMode::Full},
                                         {"sample", CheckMode::Sample},
                                         {"none", CheckMode::None}};
  app.add_option("ptx", o.ptx,
                 "PTX file from fa2-compile, or - for standard "
                 "input");
  addCaseOptions(app, o);

  auto running = "Running";
  app.add_option("--device", o.device, "where to run (see below)")
      ->group(running);
  app.add_option("--image", o.image,
                 "a cubin of the same PTX (ptxas -o), loaded instead of the "
                 "driver's compilation")
      ->group(running);
  app.add_option("--pass", o.pass,
                 "refuse a program of another pass: forward or backward "
                 "(default: whatever the file holds)")
      ->check(CLI::IsMember({"forward", "backward"}))
      ->group(running);
  app.add_flag("--deterministic", o.deterministic,
               "refuse a program whose bits may differ from run to run, and "
               "compare those of repeated launches")
      ->group(running);
  app.add_option("--check", o.check,
                 "auto: every row, or a seeded sample of a large case; full; "
                 "sample; none")
      ->transform(CLI::CheckedTransformer(modes).description(""))
      ->group(running);
  app.add_option("--repeats", o.repeats,
                 "timed launches (default: 30 on cuda, 0 on sim)")
      ->check(CLI::Range(0, 100000))
      ->group(running);
  app.add_option("--same-bits", o.sameBits,
                 "launch this many times more; each must give the bits of the "
                 "first (for programs whose bits do not differ by intention)")
      ->check(CLI::Range(0, 100000))
      ->group(running);
  app.add_flag(
         "--profile", o.profile,
         "on sim: print what the kernels did, by instruction class and by "
         "operation (fa2-compile --line-info) or opcode")
      ->group(running);

  auto sweeps = "Many cases";
  app.add_option("--cases", o.cases, "run this many random cases (--seed)")
      ->check(CLI::Range(int64_t(1), int64_t(10000000)))
      ->group(sweeps);
  app.add_option("--max-seqlen", o.maxSeqlen,
                 "their longest sequence (default: 2100 on cuda, 160 on sim)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->group(sweeps);
  app.add_option("--sweep", o.sweep,
                 "run the cases in a file, one JSON object a line: batch, "
                 "heads, heads_kv, seqlen_q, seqlen_k, layout, row_padding, "
                 "tail_rows, random_scale, sign, scale, seed")
      ->group(sweeps);

  auto output = "Output";
  app.add_flag("--json", o.json, "print one JSON object")->group(output);
  app.add_flag("--verbose,-v", o.verbose, "print more")->group(output);
  app.add_flag("--doctor", o.doctor,
               "say what driver, device and ptxas are here and what they allow")
      ->group(output);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    o.json |=
        std::find(argv, argv + argc, std::string("--json")) != argv + argc;
    if (error.get_exit_code() != 0)
      refuse("{}", error.what());
    app.exit(error); // --help and --version
    return kPassed;
  }
  return std::nullopt;
}

} // namespace fa2run
