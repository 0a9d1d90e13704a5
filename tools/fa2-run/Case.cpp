//===- Case.cpp - one case, as the command line says it -------------------===//

#include "Case.h"

#include "Files.h"

#include <algorithm>

namespace fa2run {

RunOptions readInputs(const Options &o) {
  RunOptions run;
  run.check = o.check;
  auto read = [](const std::string &path, std::optional<Array> &into) {
    if (!path.empty())
      into = readNpy(path);
  };
  read(o.q, run.q);
  read(o.k, run.k);
  read(o.v, run.v);
  read(o.dout, run.dout);
  for (const std::string &text : o.extras) {
    size_t equals = text.find('=');
    if (equals == std::string::npos)
      refuse("--extra: expected NAME=VALUE or NAME=FILE.npy, got '{}'", text);
    run.extras[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return run;
}

Configuration completeConfiguration(const Options &o, const RunOptions &run,
                                    const Kernel &kernel, bool simulated) {
  Configuration c = o.configuration;
  auto queries = o.seqlenQ ? o.seqlenQ : o.seqlen,
       keys = o.seqlenK ? o.seqlenK : o.seqlen;
  int64_t packed = kernel.packedHeads;
  bool given = o.batch || o.heads || o.headsKv || queries || keys;
  if (run.q || run.k || run.v) {
    auto take = [&](const Array &array, const char *name, int64_t &batch,
                    int64_t &length, int64_t &heads, int64_t dim) {
      if (array.shape.size() != 4)
        refuse("{}: the array has {} dimensions; expected 4, in the order of "
               "--layout",
               name, array.shape.size());
      batch = array.shape[0];
      length = array.shape[c.layout == Layout::BSHD ? 1 : 2];
      heads = array.shape[c.layout == Layout::BSHD ? 2 : 1];
      if (array.shape[3] != dim)
        refuse("{}: the last extent is {}, the kernel was compiled for {}",
               name, array.shape[3], dim);
    };
    // Without q: one query a key, one head a key head.
    int64_t batch = 1, length = 128, heads = 1;
    if (run.k)
      take(*run.k, "--k", batch, length, heads, kernel.headDim);
    else if (run.v)
      take(*run.v, "--v", batch, length, heads, kernel.headDimV);
    c.batch = batch;
    c.seqlenQ = c.seqlenK = length;
    c.heads = c.headsKv = heads;
    if (run.q) {
      take(*run.q, "--q", c.batch, c.seqlenQ, c.heads, kernel.headDim);
      if (!run.k && !run.v) {
        c.seqlenK = c.seqlenQ;
        c.headsKv = c.heads;
      }
    }
  } else if (given) {
    c.batch = 1;
    c.headsKv = o.headsKv.value_or(1);
    c.heads = c.headsKv * packed;
    c.seqlenQ = c.seqlenK = 512;
  } else if (simulated) {
    c.batch = 1;
    c.heads = std::max<int64_t>(2, packed);
    c.headsKv = 1;
    c.seqlenQ = 113;
    c.seqlenK = 200;
  } else {
    c.batch = 2;
    c.headsKv = 2;
    c.heads = std::max<int64_t>(8, c.headsKv * packed);
    c.seqlenQ = 1023;
    c.seqlenK = 1025;
  }
  auto replace = [](std::optional<int64_t> from, int64_t &to) {
    to = from.value_or(to);
  };
  replace(o.batch, c.batch);
  replace(o.heads, c.heads);
  if (o.heads && !run.k && !run.v)
    c.headsKv = c.heads % packed ? c.heads : c.heads / packed;
  replace(o.headsKv, c.headsKv);
  replace(queries, c.seqlenQ);
  replace(keys, c.seqlenK);
  if (given && !keys && queries && !run.k && !run.v)
    c.seqlenK = c.seqlenQ;
  if (given && !queries && keys && !run.q)
    c.seqlenQ = c.seqlenK;
  validate(c);
  return c;
}

void saveArrays(const Options &o, const Kernel &kernel,
                const Configuration &configuration, const Tensors &tensors) {
  bool f16 = kernel.precision == Precision::F16;
  auto save = [&](const std::string &path, const Tensor &tensor) {
    if (!path.empty())
      writeFile(path, formatNpy(getElements(tensor, kernel.precision,
                                            configuration.layout),
                                f16));
  };
  save(o.saveOut, tensors.out);
  save(o.saveQ, tensors.q);
  save(o.saveK, tensors.k);
  save(o.saveV, tensors.v);
  if (kernel.pass == "backward") {
    save(o.saveDq, tensors.dq);
    save(o.saveDk, tensors.dk);
    save(o.saveDv, tensors.dv);
  } else if (!(o.saveDq + o.saveDk + o.saveDv).empty()) {
    refuse("--save-dq, --save-dk and --save-dv need a backward program");
  }
  if (!o.saveLse.empty())
    writeFile(o.saveLse, formatNpy(getVectors(tensors.lse), false));
}

} // namespace fa2run
