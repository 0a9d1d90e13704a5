//===- Mutator.cpp - edits in an order that is always the same ------------===//

#include "Mutator.h"

#include <cctype>

namespace fa2::fuzz {

const std::vector<std::string_view> &words() {
  static const std::vector<std::string_view> all = {
      // PTX: directives
      ".entry", ".visible", ".extern", ".func", ".param", ".reg", ".shared",
      ".local", ".align", ".maxntid", ".reqntid", ".minnctapersm", ".maxnreg",
      ".section", ".debug_x", ".file", ".loc", ".pragma", ".target", ".version",
      ".v2", ".v4", ".ptr", ".b8", ".b16", ".b32", ".u32", ".s32", ".u64",
      ".b64", ".f32", ".f64", ".b128", ".f16x2", ".bf16x2", ".pred", "sm_80",
      "sm_90a",
      // Instructions and their modifiers
      "add", "sub", "mul", "mad", "div", "rem", "min", "max", "and", "or",
      "xor", "not", "shl", "shr", "shf.l.wrap", "bfe", "bfi", "bfind", "clz",
      "popc", "lop3", "prmt", "fma.rn", "rcp.approx", "sqrt.rn", "rsqrt.approx",
      "ex2.approx.ftz", "lg2.approx", "tanh.approx", "cvt.rn.bf16x2", "cvta",
      "mov", "selp", "setp.lt", "bra", "ret", "exit", "trap", "nanosleep",
      "setmaxnreg.dec.sync.aligned", "griddepcontrol.wait",
      "createpolicy.fractional.L2::evict_last.b64", "L2::cache_hint",
      "ld.global", "st.global", "ld.shared", "st.shared", "ld.param",
      "ld.acquire.gpu", "st.release.gpu", "fence.acq_rel.gpu",
      "fence.proxy.async", "membar.gl", "atom.global", "red.shared",
      "cp.async.cg.shared.global", "cp.async.commit_group",
      "cp.async.wait_group", "cp.async.wait_all", "cp.async.bulk.tensor.2d",
      "cp.async.bulk.tensor.5d",
      "shared::cluster.global.tile.mbarrier::complete_tx::bytes",
      "global.shared::cta.tile.bulk_group", "cp.async.bulk.commit_group",
      "cp.async.bulk.wait_group.read", "bar.sync", "bar.arrive",
      "bar.warp.sync", "barrier.sync.aligned", "mbarrier.init.shared::cta.b64",
      "mbarrier.inval.shared.b64", "mbarrier.arrive.shared::cta.b64",
      "mbarrier.arrive.expect_tx.shared::cta.b64",
      "mbarrier.try_wait.parity.shared::cta.b64",
      "mbarrier.arrive.release.cluster.shared::cluster.b64",
      "mapa.shared::cluster.u32", "barrier.cluster.arrive.relaxed",
      "barrier.cluster.wait", "st.shared::cluster", "ld.shared::cluster",
      ".multicast::cluster", "%cluster_ctarank", ".reqnctapercluster 2",
      "shfl.sync.bfly.b32", "vote.sync.ballot.b32", "elect.sync",
      "redux.sync.add.s32", "activemask", "match.any.sync.b32",
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
      "stmatrix.sync.aligned.m8n8.x4.shared.b16",
      "movmatrix.sync.aligned.m8n8.trans.b16",
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
      "wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned",
      "wgmma.wait_group.sync.aligned", "wgmma.mma_async.sync.aligned", "%tid.x",
      "%ntid.x", "%ctaid.x", "%nctaid.x", "%laneid", "%clock64", "dyn", "[%r0]",
      "[%rd0]", "%p0", "@%p0", "@!%p0", "_", "0f7F800000", "0fFF800000",
      "0d7FF8000000000000", "L:", "//", "/*", "*/", "\\\"", "\"", "{", "}",
      // Manifests
      "fa2_manifest", "arguments", "launches", "parameters", "kernel", "when",
      "grid", "block", "cluster", "shared_bytes", "programmatic", "tensor_map",
      "box_rows", "box_cols", "box_heads", "swizzle", "pointer", "stride",
      "scalar", "workspace", "offset", "optional", "zeroed", "requires", "that",
      "positive_finite", "invertible", "device.multiprocessors", "ceildiv(",
      "pow2floor(", "if(", "min(", "max(", "&&", "||", "==", "<=", "null",
      "true", "false",
      // Files
      "'descr'", "'<f4'", "'<f2'", "'|V2'", "'fortran_order'", "'shape'",
      "random_scale", "seqlen_k", "heads_kv", "1e999", "\\u0000"};
  return all;
}

namespace {

class Editor {
public:
  Editor(const std::vector<std::string> &seeds, std::mt19937_64 &random)
      : seeds(seeds), random(random), text(seeds[below(seeds.size())]) {}

  std::string edited() {
    for (size_t edits = 1 + below(4); edits > 0; --edits)
      edit();
    return std::move(text);
  }

private:
  size_t below(size_t n) { return n ? size_t(random() % n) : 0; }
  size_t place() { return below(text.size() + 1); }

  void edit() {
    switch (below(8)) {
    case 0: // any byte
      if (!text.empty())
        text[below(text.size())] = char(random());
      return;
    case 1:
      if (!text.empty())
        text[below(text.size())] ^= char(1 << below(8));
      return;
    case 2: {
      size_t at = place();
      text.erase(at, below(40));
      return;
    }
    case 3: { // a span once more
      std::string span = text.substr(place(), below(60));
      text.insert(place(), span);
      return;
    }
    case 4: {
      std::string word(1, ' ');
      word += words()[below(words().size())];
      text.insert(place(), word += ' ');
      return;
    }
    case 5:
      replaceWord();
      return;
    case 6:
      replaceNumber();
      return;
    default: {
      const std::string &other = seeds[below(seeds.size())];
      size_t from = below(other.size() + 1);
      text.insert(place(), other.substr(from, below(120)));
    }
    }
  }

  /// The first run at or after `at` of characters that `is` holds for.
  template <typename Is> bool findRun(size_t &at, size_t &length, Is is) {
    while (at < text.size() && !is(text[at]))
      ++at;
    for (length = 0; at + length < text.size() && is(text[at + length]);)
      ++length;
    return length > 0;
  }

  void replaceWord() {
    size_t at = place(), length = 0;
    auto isWord = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '.' ||
             c == '_' || c == ':' || c == '%';
    };
    if (findRun(at, length, isWord))
      text.replace(at, length, words()[below(words().size())]);
  }

  void replaceNumber() {
    static const char *const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "2",
                                          "7",
                                          "15",
                                          "16",
                                          "31",
                                          "32",
                                          "33",
                                          "64",
                                          "112",
                                          "127",
                                          "128",
                                          "255",
                                          "256",
                                          "896",
                                          "912",
                                          "1024",
                                          "4095",
                                          "4096",
                                          "65535",
                                          "65536",
                                          "268435456",
                                          "2147483647",
                                          "-2147483648",
                                          "4294967295",
                                          "4294967296",
                                          "9223372036854775807",
                                          "18446744073709551615",
                                          "1e40",
                                          "0.5"};
    size_t at = place(), length = 0;
    auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
    if (findRun(at, length, isDigit))
      text.replace(at, length, numbers[below(std::size(numbers))]);
  }

  const std::vector<std::string> &seeds;
  std::mt19937_64 &random;
  std::string text;
};

} // namespace

std::string mutate(const std::vector<std::string> &seeds,
                   std::mt19937_64 &random) {
  return Editor(seeds, random).edited();
}

} // namespace fa2::fuzz
