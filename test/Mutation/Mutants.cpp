//===- Mutants.cpp - One thing removed or weakened at a time --------------===//

#include "Mutants.h"

#include <regex>
#include <sstream>

namespace fa2::sim::mutation {

namespace {
/// A line that matches becomes `replacement` (regex format; $` and $' keep the
/// rest of the line).
struct Rule {
  const char *kind;
  bool synchronisation;
  std::regex pattern;
  const char *replacement;
};

const std::vector<Rule> &rules() {
  auto re = [](const char *text) {
    return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  };
  static const std::vector<Rule> list = {
      // Barriers of the block and of the warp.
      {"barrier removed", true,
       re(R"((@!?%?\w+\s+)?\b(bar|barrier)\.(cta\.)?(sync|arrive)[^;]*;)"), ""},
      {"bar.warp.sync removed", true, re(R"(bar\.warp\.sync[^;]*;)"), ""},
      {"barrier count", true, re(R"((bar\.(sync|arrive)\s+[^,;]+,\s*)(\d+);)"),
       "$1 32;"},
      {"barrier number", true,
       re(R"((bar\.(?:sync|arrive)\s+)([^,;]+)(,[^;]+);)"), "$1 15$3;"},
      {"cluster barrier weakened", true,
       re(R"(barrier\.cluster\.arrive(\.release)?(\.aligned)?;)"),
       "barrier.cluster.arrive.relaxed$2;"},
      {"arrival scope", true, re(R"((mbarrier\.arrive\.release)\.cluster)"),
       "$1.cta"},
      // Waits.
      {"wait removed", true,
       re(R"((cp\.async(\.bulk)?\.wait_(group(\.read)?|all)|wgmma\.wait_group\.sync\.aligned)[^;]*;)"),
       ""},
      {"mbarrier wait removed", true,
       re(R"((mbarrier\.try_wait\.parity[^\s]*\s+)([%\w]+)\s*,[^;]*;)"),
       "setp.eq.u32 $2, 0, 0;"},
      {"wait count", true,
       re(R"((wait_group(?:\.read|\.sync\.aligned)?\s+)0;)"), "$1 1;"},
      {"wait count", true,
       re(R"((wait_group(?:\.read|\.sync\.aligned)?\s+)1;)"), "$1 2;"},
      {"wait count", true,
       re(R"((wait_group(?:\.read|\.sync\.aligned)?\s+)2;)"), "$1 3;"},
      {"wait count", true,
       re(R"((wait_group(?:\.read|\.sync\.aligned)?\s+)([3-8]);)"), "$1 9;"},
      {"parity", true,
       re(R"((mbarrier\.try_wait\.parity[^\s]*\s+[%\w]+\s*,\s*\[[^\]]*\]\s*,\s*)([%\w]+)([^;]*);)"),
       "{ .reg .b32 %mutant; xor.b32 %mutant, $2, 1; $1 %mutant$3; }"},
      // Commits and fences.
      {"commit removed", true, re(R"([\w.]+\.commit_group[^;]*;)"), ""},
      {"fence removed", true,
       re(R"((fence\.(proxy|acq_rel|sc)|wgmma\.fence)[^;]*;)"), ""},
      // mbarriers.
      {"arrive removed", true,
       re(R"((@!?%?\w+\s+)?mbarrier\.arrive\.(shared|release)[^;]*;)"), ""},
      {"arrive doubled", true,
       re(R"((@!?%?\w+\s+)?mbarrier\.arrive\.(shared|release)[^;]*;)"),
       "$& $&"},
      {"arrival count", true,
       re(R"((mbarrier\.init[^\s]*\s+\[[^\]]*\]\s*,\s*)([%\w]+);)"),
       "{ .reg .b32 %mutant; add.u32 %mutant, $2, 1; $1 %mutant; }"},
      {"expect_tx removed", true,
       re(R"(mbarrier\.arrive\.expect_tx(\.[^\s]*\s+_,\s*\[[^\]]*\])[^;]*;)"),
       "mbarrier.arrive$1;"},
      {"expect_tx bytes", true,
       re(R"((mbarrier\.arrive\.expect_tx[^\s]*\s+_,\s*\[[^\]]*\]\s*,\s*)([%\w]+);)"),
       "{ .reg .b32 %mutant; add.u32 %mutant, $2, 16; $1 %mutant; }"},
      {"order weakened", true, re(R"(\b(ld)\.acquire\.)"), "$1.relaxed."},
      {"order weakened", true, re(R"(\b(red|st)\.release\.)"), "$1.relaxed."},
      {"signal removed", true,
       re(R"((@!?%?\w+\s+)?((red|st)\.release\.|red\.relaxed\.gpu\.global\.add\.u32)[^;]*;)"),
       ""},
      {"polling removed", true, re(R"(@!?%?\w+\s+bra\s+WAIT;)"), ""},
      {"grid wait removed", true, re(R"(griddepcontrol\.wait;)"), ""},
      // Predicates, masks, bounds, swizzles.
      {"predicate dropped", false,
       re(R"(@!?%?\w+\s+((?:st|red|cp|ld|mbarrier)\.[^;]*;))"), "$1"},
      {"predicate negated", false, re(R"(@(%?\w+)(\s+(?:st|ld|red|cp)\.))"),
       "@!$1$2"},
      {"mask compare", false, re(R"(setp\.lt\.(s32|u32))"), "setp.le.$1"},
      {"mask compare", false, re(R"(setp\.le\.(s32|u32))"), "setp.lt.$1"},
      {"mask compare", false, re(R"(setp\.gt\.(s32|u32))"), "setp.ge.$1"},
      {"mask compare", false, re(R"(setp\.ge\.(s32|u32))"), "setp.gt.$1"},
      {"bound of a copy", false,
       re(R"((cp\.async\.c[ag]\.shared[^\s]*\s+\[[^\]]*\]\s*,\s*\[[^\]]*\]\s*,\s*16)\s*,\s*%\w+;)"),
       "$1;"},
      {"swizzle", false, re(R"(xor\.b32(\s+%\w+,\s*%\w+,\s*)(%?\w+);)"),
       "or.b32$1$2;"},
      {"selection", false,
       re(R"(selp\.(f32|b32)(\s+%\w+,\s*)([^,]+),\s*([^,]+),)"),
       "selp.$1$2$4, $3,"},
  };
  return list;
}
} // namespace

/// "{ mutant into %mutant; original; differ -> trap }" for a mutant that
/// computes its one destination otherwise, or copies another number of bytes.
static std::string probeOf(const std::string &code, const std::string &mutant) {
  static const std::regex computes(
      R"(^\s*(setp|selp|xor|or)(\.[^\s]*)\s+(%\w+)\s*,([^;]*);\s*$)"),
      copies(
          R"(^\s*(?:@!?%?\w+\s+)?cp\.async\.c[ag][^,]*,[^,]*,\s*16\s*,\s*(%\w+);\s*$)");
  std::smatch was, is;
  if (std::regex_match(code, was, computes) &&
      std::regex_match(mutant, is, computes)) {
    bool predicate = was[1] == "setp";
    std::string differ = predicate
                             ? "xor.pred %differ, %mutant, " + was[3].str()
                             : "setp.ne.b32 %differ, %mutant, " + was[3].str();
    return "{ .reg .pred %differ; .reg ." +
           std::string(predicate ? "pred" : "b32") + " %mutant; " +
           is[1].str() + is[2].str() + " %mutant, " + is[4].str() + "; " +
           code + " " + differ + "; @%differ trap; }";
  }
  if (std::regex_match(code, was, copies))
    return "{ .reg .pred %differ; setp.ne.u32 %differ, " + was[1].str() +
           ", 16; @%differ trap; " + code + " }";
  return "";
}

std::vector<Mutant> mutantsOf(const std::string &ptx) {
  std::vector<Mutant> mutants;
  std::istringstream text(ptx);
  std::string line;
  for (unsigned number = 1; std::getline(text, line); ++number) {
    std::string code = line.substr(0, line.find("//"));
    if (code.empty() || code.find(';') == code.npos)
      continue;
    for (const Rule &rule : rules()) {
      if (!std::regex_search(code, rule.pattern))
        continue;
      Mutant m{rule.kind, rule.synchronisation, number,
               std::regex_replace(code, rule.pattern, rule.replacement,
                                  std::regex_constants::format_first_only),
               ""};
      if (m.text == code)
        continue;
      m.probe = probeOf(code, m.text);
      mutants.push_back(m);
    }
  }
  return mutants;
}

std::string replaceLine(const std::string &ptx, unsigned number,
                        const std::string &text) {
  size_t begin = 0;
  for (unsigned line = 1; line < number; ++line)
    begin = ptx.find('\n', begin) + 1;
  size_t end = ptx.find('\n', begin);
  return ptx.substr(0, begin) + text + ptx.substr(end);
}

} // namespace fa2::sim::mutation
