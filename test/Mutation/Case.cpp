//===- Case.cpp - A launch list with data and a reference -----------------===//

#include "Case.h"

#include "Numerics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

namespace fa2::sim::mutation {

// "$S" becomes its value, "ceil(a,b)" and "a*b" of integers theirs.
static std::string
expand(std::string text, const std::vector<std::pair<std::string, long>> &set) {
  for (const auto &[variable, value] : set)
    for (size_t at; (at = text.find("$" + variable)) != text.npos;)
      text.replace(at, variable.size() + 1, std::to_string(value));
  std::istringstream words(text);
  std::string out, word;
  while (words >> word) {
    long a, b;
    char end;
    if (std::sscanf(word.c_str(), "ceil(%ld,%ld%c", &a, &b, &end) == 3 &&
        end == ')' && b > 0) {
      word = std::to_string((a + b - 1) / b);
    } else if (word.find('*') != word.npos) {
      long product = 1;
      std::istringstream factors(word);
      for (std::string f; std::getline(factors, f, '*');)
        product *= std::stol(f);
      word = std::to_string(product);
    }
    out += word + " ";
  }
  return out;
}

Case::Case(const std::string &spec) : name(spec) {
  // FILE@S=77,H=2
  std::string path = spec.substr(0, spec.find('@'));
  std::vector<std::pair<std::string, long>> set;
  if (path.size() < spec.size()) {
    std::istringstream list(spec.substr(path.size() + 1));
    for (std::string item; std::getline(list, item, ',');)
      if (size_t is = item.find('='); is != item.npos)
        set.push_back({item.substr(0, is), std::stol(item.substr(is + 1))});
  }
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error("cannot read " + path);
  std::string text;
  for (unsigned number = 1; std::getline(file, text); ++number) {
    std::istringstream line(expand(text.substr(0, text.find('#')), set));
    std::string word;
    if (!(line >> word))
      continue;
    auto fail = [&](const std::string &what) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": " +
                               what);
    };
    auto step = [&]() -> Step & {
      if (steps.empty())
        fail("a parameter before any launch");
      return steps.back();
    };
    if (word == "tensor") {
      Tensor t;
      line >> t.name >> t.type >> t.fill;
      t.inOrder = t.fill == "ordered";
      if (t.inOrder)
        t.fill = "workspace";
      t.count = 1;
      for (int64_t extent; line >> extent;) {
        t.shape.push_back(extent);
        t.count *= size_t(extent);
      }
      t.elementBytes = t.type == "bf16" || t.type == "f16" ? 2 : 4;
      tensors.push_back(std::move(t));
    } else if (word == "launch") {
      Step s;
      Launch &l = s.launch;
      line >> l.kernel >> l.grid[0] >> l.grid[1] >> l.grid[2] >> l.block[0] >>
          l.block[1] >> l.block[2] >> l.dynamicSharedBytes;
      if (!line)
        fail("malformed launch");
      for (; line >> word;) {
        if (word == "cluster")
          line >> l.cluster[0] >> l.cluster[1] >> l.cluster[2];
        if (!line || (word != "cluster" && word != "programmatic"))
          fail("malformed launch");
        l.programmatic |= word == "programmatic";
      }
      steps.push_back(std::move(s));
    } else if (word == "pointer" || word == "map") {
      Parameter p;
      p.kind = word;
      line >> p.tensor;
      if (word == "pointer" && !(line >> p.integer))
        p.integer = 0;
      if (word == "map") {
        unsigned rank, size, swizzle;
        line >> rank >> size >> swizzle;
        if (!line || rank < 1 || rank > 5)
          fail("malformed map");
        p.map.rank = uint8_t(rank);
        p.map.elementBytes = uint8_t(size);
        p.map.swizzle = uint16_t(swizzle);
        for (unsigned k = 0; k < rank; ++k)
          line >> p.map.dims[k];
        for (unsigned k = 0; k + 1 < rank; ++k)
          line >> p.map.strides[k];
        for (unsigned k = 0; k < rank; ++k)
          line >> p.map.box[k];
        if (!line)
          fail("malformed map");
      }
      step().parameters.push_back(p);
    } else if (word == "i32" || word == "i64" || word == "f32") {
      Parameter p;
      p.kind = word;
      if (!(word == "f32" ? bool(line >> p.real) : bool(line >> p.integer)))
        fail("malformed number");
      step().parameters.push_back(p);
    } else if (word == "forward" || word == "backward") {
      check = {word};
      while (line >> word)
        check.push_back(word);
      if (check.size() != (check[0] == "forward" ? 8u : 12u))
        fail("malformed check");
    } else {
      fail("unknown directive '" + word + "'");
    }
  }
  if (check.empty() || steps.empty())
    throw std::runtime_error(path + ": no launch or no check");
  for (Tensor &t : tensors) {
    t.storage.resize(t.count * t.elementBytes + 128);
    auto at = reinterpret_cast<uintptr_t>(t.storage.data());
    t.bytes = t.storage.data() + (128 - at % 128) % 128;
  }
  for (Data data : {Data::Normal, Data::OneSided, Data::Large}) {
    fill(data);
    reference(data);
  }
}

Case::Tensor &Case::tensor(const std::string &wanted) {
  for (Tensor &t : tensors)
    if (t.name == wanted)
      return t;
  throw std::runtime_error(name + ": no tensor '" + wanted + "'");
}

double Case::get(const Tensor &t, size_t i) const {
  if (t.type == "f32")
    return reinterpret_cast<const float *>(t.bytes)[i];
  if (t.type == "i32")
    return reinterpret_cast<const int32_t *>(t.bytes)[i];
  uint16_t bits = reinterpret_cast<const uint16_t *>(t.bytes)[i];
  return t.type == "bf16" ? bfloatToFloat(bits) : halfToFloat(bits);
}

void Case::put(Tensor &t, size_t i, double x) {
  if (t.type == "f32")
    reinterpret_cast<float *>(t.bytes)[i] = float(x);
  else if (t.type == "i32")
    reinterpret_cast<int32_t *>(t.bytes)[i] = int32_t(x);
  else
    reinterpret_cast<uint16_t *>(t.bytes)[i] =
        t.type == "bf16" ? floatToBfloat(float(x)) : floatToHalf(float(x));
}

void Case::fill(Data data) {
  std::mt19937 g(29);
  std::normal_distribution<float> normal;
  for (Tensor &t : tensors)
    for (size_t i = 0; i < t.count; ++i) {
      double x = 0;
      if (t.fill == "normal") {
        x = normal(g);
        if (data == Data::OneSided && t.name == check[1])
          x = std::fabs(x);
        if (data == Data::Large && t.name == check[1])
          x *= 60;
        if (data == Data::OneSided && t.name == check[2])
          x = -std::fabs(x);
      } else if (t.fill == "output" || t.fill == "workspace" ||
                 t.fill == "poison") {
        x = NAN;
      }
      put(t, i, t.type == "i32" && x != x ? 0 : x);
    }
}

// Attention and its gradient in float64, from the definitions.
void Case::reference(Data data) {
  bool backward = check[0] == "backward";
  Tensor &q = tensor(check[1]), &k = tensor(check[2]), &v = tensor(check[3]);
  const size_t heads = size_t(q.shape[0]), n = size_t(q.shape[1]),
               m = size_t(k.shape[1]), d = size_t(q.shape[2]),
               dv = size_t(v.shape[2]);
  const double scale = std::stod(check[check.size() - 2]);
  const std::string mask = check.back();
  std::vector<double> o(heads * n * dv), lse(heads * n), dq(q.count),
      dk(k.count), dvs(v.count), s(m);
  Tensor &out = tensor(check[4]);
  Tensor *gradient = backward ? &tensor(check[6]) : nullptr;
  for (size_t h = 0; h < heads; ++h)
    for (size_t i = 0; i < n; ++i) {
      size_t limit = mask == "1"   ? i + 1 + m > n ? i + 1 + m - n : 0
                     : mask == "2" ? std::min(m, i + 1)
                     : mask == "3" ? i + m > n ? i + m - n : 0
                                   : m;
      double most = -INFINITY, sum = 0, delta = 0;
      const size_t row = (h * n + i) * d, rowV = (h * n + i) * dv;
      for (size_t j = 0; j < limit; ++j) {
        double x = 0;
        for (size_t e = 0; e < d; ++e)
          x += get(q, row + e) * get(k, (h * m + j) * d + e);
        s[j] = x * scale;
        most = std::max(most, s[j]);
      }
      for (size_t j = 0; j < limit; ++j)
        sum += s[j] = std::exp(s[j] - most);
      if (limit == 0) { // sees no key: zeros, and an lse of minus infinity
        lse[h * n + i] = -INFINITY;
        continue;
      }
      lse[h * n + i] = most + std::log(sum);
      for (size_t e = 0; e < dv; ++e) {
        double x = 0;
        for (size_t j = 0; j < limit; ++j)
          x += s[j] * get(v, (h * m + j) * dv + e);
        o[rowV + e] = x / sum;
        if (!backward)
          continue;
        // The kernel's input is rounded.
        put(out, rowV + e, o[rowV + e]);
        delta += get(out, rowV + e) * get(*gradient, rowV + e);
      }
      for (size_t j = 0; backward && j < limit; ++j) {
        const size_t key = (h * m + j) * d, keyV = (h * m + j) * dv;
        double p = s[j] / sum, dp = 0;
        for (size_t e = 0; e < dv; ++e)
          dp += get(*gradient, rowV + e) * get(v, keyV + e);
        double ds = p * (dp - delta) * scale;
        for (size_t e = 0; e < dv; ++e)
          dvs[keyV + e] += p * get(*gradient, rowV + e);
        for (size_t e = 0; e < d; ++e) {
          dq[row + e] += ds * get(k, key + e);
          dk[key + e] += ds * get(q, row + e);
        }
      }
    }
  auto &list = judged[int(data)];
  list.clear();
  if (!backward) {
    list.push_back({check[4], o, dv, {}});
    list.push_back({check[5], lse, 1, {}});
    return;
  }
  // Backward reads o and lse: keep them for run().
  list.push_back({check[7], dq, d, {}});
  list.push_back({check[8], dk, d, {}});
  list.push_back({check[9], dvs, dv, {}});
  list.push_back({check[4], o, 0, {}});
  list.push_back({check[5], lse, 0, {}});
}

std::vector<double> Case::rowErrors(const Judged &j) {
  std::vector<double> errors;
  const Tensor &t = tensor(j.tensor);
  for (size_t i = 0; j.rowLength && i < t.count; i += j.rowLength) {
    double worst = 0;
    for (size_t e = i; e < i + j.rowLength; ++e) {
      double value = get(t, e);
      double x =
          value == j.reference[e] ? 0 : std::fabs(value - j.reference[e]);
      worst = x <= worst ? worst : x == x ? x : INFINITY;
    }
    errors.push_back(worst);
  }
  return errors;
}

// A row's bound: three times the larger of its own and the median row's error
// without mutation, and 2 ulp of its largest value; LSE as the contract has it.
void Case::calibrate(const Programs &programs, const Options &options) {
  for (Data data : {Data::Normal, Data::OneSided, Data::Large}) {
    Outcome plain = run(programs, options, data);
    if (!plain.result.error.empty())
      throw std::runtime_error(
          name + ": the unmutated kernel fails: " + plain.result.error);
    for (Judged &j : judged[int(data)]) {
      std::vector<double> errors = rowErrors(j), sorted = errors;
      if (errors.empty())
        continue;
      std::sort(sorted.begin(), sorted.end());
      double median = sorted[sorted.size() / 2];
      auto &bounds = j.bounds[int(data)];
      bounds.clear();
      for (size_t r = 0; r < errors.size(); ++r) {
        double largest = 0;
        for (size_t e = 0; e < j.rowLength; ++e)
          largest =
              std::max(largest, std::fabs(j.reference[r * j.rowLength + e]));
        bounds.push_back(std::isinf(largest) ? 0
                         : j.rowLength == 1
                             ? (data == Data::Large ? 3 * errors[r] : 0) +
                                   1e-5 * (1 + largest)
                             : 3 * std::max(errors[r], median) +
                                   largest * 0x1p-7);
        if (!(errors[r] <= largest * 0.05 + 0.02))
          throw std::runtime_error(name + ": the unmutated kernel is wrong");
      }
    }
  }
}

Outcome Case::run(const Programs &programs, const Options &options, Data data) {
  Outcome outcome;
  fill(data);
  for (const Judged &j : judged[int(data)])
    if (j.rowLength == 0) // inputs of backward
      for (size_t i = 0; i < j.reference.size(); ++i)
        put(tensor(j.tensor), i, j.reference[i]);
  std::vector<Launch> launches;
  for (Step &step : steps) {
    Launch l = step.launch;
    KernelInfo info;
    for (const auto &program : programs)
      for (const KernelInfo &k : kernels(*program))
        if (k.name == l.kernel && !l.program) {
          l.program = program;
          info = k;
        }
    if (!l.program || info.parameters.size() != step.parameters.size())
      throw std::runtime_error(name + ": no kernel '" + l.kernel +
                               "' with these parameters");
    l.parameters.resize(info.parameterBytes);
    for (size_t k = 0; k < step.parameters.size(); ++k) {
      Parameter &p = step.parameters[k];
      uint8_t bytes[128] = {};
      if (p.kind == "pointer" || p.kind == "map") {
        uint64_t base =
            p.tensor == "null"
                ? 0
                : reinterpret_cast<uint64_t>(tensor(p.tensor).bytes) +
                      uint64_t(p.integer);
        p.map.base = base;
        if (p.kind == "map")
          std::memcpy(bytes, &p.map, 128);
        else
          std::memcpy(bytes, &base, 8);
      } else if (p.kind == "f32") {
        float x = float(p.real);
        std::memcpy(bytes, &x, 4);
      } else {
        std::memcpy(bytes, &p.integer, 8);
      }
      std::memcpy(l.parameters.data() + info.parameters[k].offset, bytes,
                  std::min<size_t>(info.parameters[k].bytes, 128));
    }
    launches.push_back(std::move(l));
  }
  std::vector<Region> memory;
  for (Tensor &t : tensors) {
    Region r;
    r.name = t.name;
    r.base = reinterpret_cast<uint64_t>(t.bytes);
    r.elementBytes = t.elementBytes;
    r.shape = {int64_t(t.count)};
    r.strides = {1};
    r.storedOnce = t.fill == "output";
    r.writable = r.storedOnce || t.fill == "workspace" || t.fill == "zero";
    r.initialised = !(t.fill == "output" || t.fill == "workspace");
    r.deterministic = t.inOrder;
    memory.push_back(r);
  }
  outcome.result = fa2::sim::run(launches, memory, options);
  outcome.numbersGood = outcome.result.error.empty();
  for (const Judged &j : judged[int(data)]) {
    const Tensor &t = tensor(j.tensor);
    for (size_t i = 0; j.rowLength && i < t.count * t.elementBytes; ++i)
      outcome.digest = (outcome.digest ^ t.bytes[i]) * 0x100000001b3ull;
    std::vector<double> errors = rowErrors(j);
    const auto &bounds = j.bounds[int(data)];
    for (size_t r = 0; r < errors.size() && r < bounds.size(); ++r) {
      outcome.worst = std::max(outcome.worst, errors[r] / bounds[r]);
      outcome.numbersGood &= errors[r] <= bounds[r];
    }
  }
  return outcome;
}

} // namespace fa2::sim::mutation
