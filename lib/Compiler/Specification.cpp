//===- Specification.cpp - parsing and checking of specifications ---------===//

#include "ScoreForms.h"
#include "fa2/Target/Target.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <array>
#include <variant>

using namespace fa2;
using llvm::formatv;
using llvm::StringRef;

namespace {

using Key = Specification::Key;
using Text = std::string Specification::*;
using Number = int64_t Specification::*;
using Member = std::variant<Text, Number>;

struct Field {
  Key key;
  Member member;
};

// clang-format off
const std::array kFields = {
    Field{{"pass", "what to compute: forward or backward (fa2-compile: forward,backward writes both, name.forward.ptx and name.backward.ptx)", Key::Kernel}, &Specification::pass},
    Field{{"arch", "architecture: sm_80 (the default; it and everything later), sm_90a (H100 and H200 alone, and the faster there), or another that an error lists", Key::Kernel}, &Specification::arch},
    Field{{"dtype", "type of q, k, v and out: bf16 or f16", Key::Operation}, &Specification::dtype},
    Field{{"head_dim", "head dim of q and k: a multiple of 8 from 8 to 256", Key::Operation}, &Specification::headDim},
    Field{{"head_dim_v", "head dim of v and out (0: that of q)", Key::Operation}, &Specification::headDimV},
    Field{{"mask", "none, causal (bottom right), causal_top_left or strictly_causal (bottom right, without the diagonal)", Key::Operation}, &Specification::mask},
    Field{{"softcap", "cap scores, c tanh(score / c): c, or argument to give it at the launch (softcap)", Key::Operation}, &Specification::softcap},
    Field{{"alibi", "add slope (key - query): head (slopes [heads], f32)", Key::Operation}, &Specification::alibi},
    Field{{"bias", "add a tensor (bias) of q's type: key [batch, seqlen_k], query [batch, seqlen_q], head [heads], head_key [batch, heads, seqlen_k] or full [batch, heads, seqlen_q, seqlen_k]; extents may be 1", Key::Operation}, &Specification::bias},
    Field{{"sink", "one more score of each row, which has no value: head (sink [heads], f32)", Key::Operation}, &Specification::sink},
    Field{{"dropout", "drop elements of the softmax: argument (dropout, the probability, and rng, i32 [4]: seed and offset)", Key::Operation}, &Specification::dropout},
    Field{{"grads", "backward: what scores read that has a gradient too: bias, slopes, softcap, sink (name,...), or names of a file's extra_names; bias:whole is of bias's type, without sums, where a full bias is added to the scores; bias:batch and bias:heads are too, summed over entries of the batch or heads", Key::Kernel}, &Specification::grads},
    Field{{"grad_lse", "backward: argument where lse has a gradient too, which a launch gives (dlse, as lse)", Key::Kernel}, &Specification::gradLse},
    Field{{"schedule", "fields of the schedule, each as below: block_q=128,overlap=0,...", Key::Schedule}, &Specification::schedule},
    Field{{"variants", "other schedules where a guard holds, such as 'seqlen_k <= 1024: block_q=128,warps=8; ...', or none (empty: choose)", Key::Schedule}, &Specification::variants},
    Field{{"database", "a file of measured schedules (fa2-tune choose) in place of the shipped ones, or none", Key::Schedule}, &Specification::database},
    Field{{"cache", "the folder where compiled kernels are kept, or none (by default FA2_CACHE_DIR, else ~/.cache/fa2c; FA2_CACHE=0 keeps none)", Key::Output}, &Specification::cache},
};
// clang-format on

std::string checkHeadDim(StringRef name, int64_t dim) {
  if (dim >= 8 && dim <= 256 && dim % 8 == 0)
    return "";
  std::string nearest;
  if (dim < 8)
    nearest = "the nearest supported is 8";
  else if (dim > 256)
    nearest = "the nearest supported is 256";
  else
    nearest = formatv("the nearest supported are {0} and {1}", dim / 8 * 8,
                      dim / 8 * 8 + 8);
  return formatv("expected {0} to be a multiple of 8 from 8 to 256, got {1}; "
                 "{2}",
                 name, dim, nearest);
}

/// What people ask for by name that there is not, or not under that name.
struct Wish {
  StringRef field;
  std::initializer_list<StringRef> values;
  StringRef answer;
};
// clang-format off
const Wish kWishes[] = {
    {"arch", {"a100", "ampere"}, "that of an A100 is sm_80"},
    {"arch", {"h100", "h200", "gh200", "hopper"}, "that of an H100 or H200 is sm_90a"},
    {"dtype", {"float32", "fp32", "f32", "float", "tf32", "float64", "f64"}, "q, k and v of 32 or 64 bits are not supported"},
    {"dtype", {"fp8", "f8", "float8", "e4m3", "e5m2", "f8e4m3", "f8e5m2", "f8e4m3fn", "int8", "i8"}, "types of 8 bits are not supported yet"},
    {"dtype", {"float16", "half"}, "IEEE half precision is f16"},
    {"dtype", {"bfloat16", "bfloat"}, "bfloat16 is bf16"},
    {"mask", {"sliding_window", "window", "local", "causal_sliding_window"}, "sliding windows are not supported yet"},
    {"mask", {"alibi", "bias"}, "that is a score program, not a mask: --alibi head, --bias key"},
    {"mask", {"relative"}, "that is a score program, not a mask: the region of fa2.attention"},
    {"mask", {"varlen", "padding", "key_padding", "document", "block", "block_sparse", "prefix", "prefix_lm"}, "masks by data are not supported yet"},
    {"mask", {"causal_bottom_right", "bottom_right", "lower_right"}, "that mask is causal"},
    {"mask", {"full", "dense", "no", "false"}, "without a mask it is none"},
    {"mask", {"true"}, "the usual one is causal"},
};
// clang-format on

/// The answer, or an empty string.
StringRef answerTo(StringRef field, StringRef value) {
  std::string asked = value.lower();
  for (const Wish &wish : kWishes)
    if (wish.field == field && llvm::is_contained(wish.values, asked))
      return wish.answer;
  return "";
}

std::string checkChoice(StringRef name, StringRef value,
                        llvm::ArrayRef<StringRef> choices) {
  if (llvm::is_contained(choices, value))
    return "";
  std::string list = llvm::join(choices.drop_back(), ", ");
  list += (list.empty() ? "" : " or ") + choices.back().str();
  std::string text =
      formatv("expected {0} to be {1}, got '{2}'", name, list, value);
  if (StringRef answer = answerTo(name, value); !answer.empty())
    text += "; " + answer.str();
  else if (choices.size() > 1)
    text += formatv("; the nearest is {0}", nearestName(value, choices)).str();
  return text;
}

} // namespace

llvm::ArrayRef<Specification::Key> Specification::keys() {
  static const auto keys = [] {
    auto keys = llvm::map_to_vector(kFields, [](auto &f) { return f.key; });
    for (const FieldHelp &field : scheduleFieldHelp())
      keys.push_back({field.name, field.text, Key::ScheduleField});
    return keys;
  }();
  return keys;
}

StringRef Specification::saidOfOperation() const {
  Specification none;
  auto differs = [&](auto member) { return this->*member != none.*member; };
  for (const Field &field : kFields)
    if (field.key.of == Key::Operation && std::visit(differs, field.member))
      return field.key.name;
  return "";
}

/// Adds "name=value,..." to what is asked of the schedule.
std::string Specification::askFor(StringRef fields) {
  std::string all = schedule + (schedule.empty() ? "" : ",") + fields.str();
  std::string wrong = ScheduleOverrides().setFields("schedule", all);
  if (wrong.empty())
    schedule = all;
  return wrong;
}

std::string Specification::set(StringRef key, StringRef value) {
  auto known =
      llvm::find_if(keys(), [&](const Key &k) { return k.name == key; });
  if (known == keys().end()) {
    auto names =
        llvm::map_to_vector(keys(), [](const Key &k) { return k.name; });
    return formatv("unknown key '{0}'; the nearest is {1} (known: {2})", key,
                   nearestName(key, names), llvm::join(names, ", "));
  }
  if (known->of == Key::ScheduleField)
    return askFor((key + "=" + value).str());
  const Member &member = kFields[known - keys().begin()].member;
  if (const Text *text = std::get_if<Text>(&member)) {
    if (*text == &Specification::schedule)
      return askFor(value);
    this->*(*text) = value.str();
    // Names may be written with dashes, as flags are; not so expressions and
    // numbers.
    if (*text != &Specification::variants && *text != &Specification::softcap &&
        *text != &Specification::database && *text != &Specification::cache)
      llvm::replace(this->*(*text), '-', '_');
    return "";
  }
  int64_t number;
  if (value.getAsInteger(10, number))
    return formatv("expected {0} to be an integer, got '{1}'", key, value);
  this->*std::get<Number>(member) = number;
  return "";
}

std::string Specification::setAll(StringRef text) {
  constexpr StringRef blanks = " \t\r\n,";
  while (!(text = text.ltrim(blanks)).empty()) {
    StringRef part = text.take_front(text.find_first_of(blanks));
    auto [key, value] = part.split('=');
    if (key.size() == part.size())
      return formatv("expected key=value, got '{0}'", part);
    text = text.drop_front(part.size());
    if (value.starts_with("'")) {
      text = StringRef(value.data() + 1, text.end() - value.data() - 1);
      if (!text.contains('\''))
        return formatv("expected ' at the end of {0}'s value, got '{1}'", key,
                       text);
      std::tie(value, text) = text.split('\'');
    }
    if (std::string wrong = set(key, value); !wrong.empty())
      return wrong;
  }
  return "";
}

std::string Specification::check() const {
  std::string error;
  if (error = checkChoice("pass", pass, {"forward", "backward"});
      !error.empty())
    return error;
  if (!lookupTarget(arch, error)) {
    StringRef answer = answerTo("arch", arch);
    return answer.empty() ? error : error + "; " + answer.str();
  }
  if (error = checkChoice("dtype", dtype, {"bf16", "f16"}); !error.empty())
    return error;
  if (error = checkHeadDim("head_dim", headDim); !error.empty())
    return error;
  if (headDimV != 0)
    if (error = checkHeadDim("head_dim_v", headDimV); !error.empty())
      return error;
  if (error =
          checkChoice("mask", mask,
                      {"none", "causal", "causal_top_left", "strictly_causal"});
      !error.empty())
    return error;
  if (!sink.empty() && sink != "head")
    return formatv("expected sink to be head (sink [heads]), got '{0}'", sink);
  if (!dropout.empty())
    if (error = checkChoice("dropout", dropout, {"argument"}); !error.empty())
      return error;
  if (!gradLse.empty())
    if (error = checkChoice("grad_lse", gradLse, {"argument"}); !error.empty())
      return error;
  return checkScore(*this);
}

std::string Specification::identity() const {
  Specification whole = *this;
  if (whole.headDimV == 0)
    whole.headDimV = whole.headDim;
  std::string all;
  for (const Field &field : kFields) {
    if (field.key.of == Key::Output)
      continue;
    const Text *text = std::get_if<Text>(&field.member);
    std::string value =
        text ? whole.*(*text)
             : std::to_string(whole.*std::get<Number>(field.member));
    all += formatv("{0} {1} {2}\n", field.key.name, value.size(), value);
  }
  return all;
}

std::string Specification::nameOf(const std::string &pass) const {
  std::string name =
      "fa2_" + pass + "_" + dtype + "_d" + std::to_string(headDim);
  if (headDimV != 0 && headDimV != headDim)
    name += "_v" + std::to_string(headDimV);
  if (mask != "none")
    name += "_" + mask;
  if (!softcap.empty())
    name += "_softcap";
  if (!alibi.empty())
    name += "_alibi";
  if (!bias.empty())
    name += "_bias_" + bias;
  if (!sink.empty())
    name += "_sink";
  if (!dropout.empty())
    name += "_dropout";
  return name;
}
