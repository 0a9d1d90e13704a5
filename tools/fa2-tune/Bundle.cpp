//===- Bundle.cpp - compiled candidates, as they are read -----------------===//

#include "Bundle.h"

#include "Failure.h"
#include "Files.h"

#include <cstdio>
#include <filesystem>

using namespace fa2run;
using nlohmann::json;

namespace fa2tune {

constexpr int64_t kVersion = 1;

std::string Problem::text() const {
  if (!group.empty())
    return group;
  std::string dims = std::to_string(headDim);
  if (headDimV != headDim)
    dims += "/" + std::to_string(headDimV);
  return fmt::format("{} {} {} {} {}{}", pass, arch, dtype, dims, mask,
                     needs.empty() ? "" : " " + needs);
}

OrderedJson Problem::toJson() const {
  OrderedJson json = {{"pass", pass},           {"arch", arch},
                      {"dtype", dtype},         {"head_dim", headDim},
                      {"head_dim_v", headDimV}, {"mask", mask}};
  if (!needs.empty())
    json["needs"] = needs;
  if (!group.empty())
    json["group"] = group;
  return json;
}

Problem Problem::fromJson(const json &j) {
  Problem p;
  p.pass = j.at("pass");
  p.arch = j.at("arch");
  p.dtype = j.at("dtype");
  p.mask = j.at("mask");
  p.headDim = j.at("head_dim");
  p.headDimV = j.at("head_dim_v");
  p.needs = j.value("needs", "");
  p.group = j.value("group", "");
  return p;
}

std::string shapeText(const Configuration &c) {
  return fmt::format("{}x{}/{}x{}x{}", c.batch, c.heads, c.headsKv, c.seqlenQ,
                     c.seqlenK);
}

Configuration parseShape(const std::string &text) {
  Configuration c;
  long long n[5];
  int end = 0;
  if (std::sscanf(text.c_str(), "%lldx%lld/%lldx%lldx%lld%n", n, n + 1, n + 2,
                  n + 3, n + 4, &end) != 5 ||
      size_t(end) != text.size())
    refuse("expected a shape to be BATCHxHEADS/HEADS_KVxQUERIESxKEYS, such as "
           "4x16/16x4096x4096, got '{}'",
           text);
  c.batch = n[0];
  c.heads = n[1];
  c.headsKv = n[2];
  c.seqlenQ = n[3];
  c.seqlenK = n[4];
  validate(c);
  return c;
}

std::string hashOf(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3u;
  return fmt::format("{:016x}", hash);
}

std::string archError(const std::string &arch, int computeCapability) {
  int number = 0;
  char suffix = 0;
  int fields = std::sscanf(arch.c_str(), "sm_%d%c", &number, &suffix);
  bool runs = fields == 2 ? number == computeCapability
                          : fields == 1 && number <= computeCapability;
  if (runs)
    return "";
  return fmt::format("the bundle's kernels are for {}, the device is of "
                     "compute capability {}.{}",
                     arch, computeCapability / 10, computeCapability % 10);
}

namespace {

Candidate readCandidate(const json &line, const std::string &folder,
                        size_t lists) {
  Candidate c;
  c.problem = Problem::fromJson(line.at("problem"));
  c.schedule = line.at("schedule");
  c.source = line.at("source");
  c.bits = line.value("bits", "");
  std::string file = line.at("file");
  if (file.find('/') != std::string::npos)
    refuse("the kernel's file '{}' is not in the bundle's folder", file);
  c.path = folder + "/" + file;
  c.hash = line.at("hash");
  c.modelMilliseconds = line.at("model_ms").get<std::vector<double>>();
  c.shapes = line.at("shapes");
  if (c.shapes >= lists)
    refuse("shapes is {} of {} lists", c.shapes, lists);
  if (!std::filesystem::exists(c.path))
    refuse("the kernel's file {} is missing", c.path);
  return c;
}

Bundle readList(const json &j, const std::string &folder) {
  if (!j.is_object() || !j.contains("fa2_tune_bundle"))
    refuse("it is not the list of a bundle");
  if (int64_t version = j.at("fa2_tune_bundle"); version != kVersion)
    refuse("its version is {}, this fa2-tune reads {}; build the bundle and "
           "measure it with one version",
           version, kVersion);
  Bundle bundle;
  bundle.compiler = j.at("compiler");
  for (const json &list : j.at("shapes")) {
    auto &shapes = bundle.shapes.emplace_back();
    for (const json &shape : list) {
      shapes.push_back(fromJson(shape));
      validate(shapes.back());
    }
  }
  for (const json &line : j.at("kernels"))
    bundle.candidates.push_back(
        readCandidate(line, folder, bundle.shapes.size()));
  if (bundle.candidates.empty())
    refuse("it lists no kernels");
  return bundle;
}

} // namespace

Bundle readBundle(const std::string &folder) {
  std::string path = folder + "/bundle.json";
  std::string text = readFile(path);
  try {
    return readList(json::parse(text), folder);
  } catch (const json::exception &error) {
    refuse("{} is damaged: {}", path,
           std::string_view(error.what()).substr(0, 200));
  } catch (const Failure &failure) {
    refuse("{}: {}", path, failure.what());
  }
}

} // namespace fa2tune
