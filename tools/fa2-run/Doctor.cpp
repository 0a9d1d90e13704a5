//===- Doctor.cpp - what this machine allows ------------------------------===//

#include "Doctor.h"

#include "Runtime.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

namespace fa2run {

namespace {

struct Ran {
  int status = -1; // exit status; -1: it did not run
  std::string output;
};

/// Runs a program without a shell; standard output and error come back.
Ran runProgram(const std::vector<std::string> &words) {
  Ran result;
  int ends[2];
  if (pipe(ends) != 0)
    return result;
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(ends[1]);
  if (child > 0) {
    char buffer[4096];
    for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0 ||
                          (got < 0 && errno == EINTR);)
      if (got > 0)
        result.output.append(buffer, size_t(got));
    int status = 0;
    if (waitpid(child, &status, 0) == child && WIFEXITED(status))
      result.status = WEXITSTATUS(status);
  }
  close(ends[0]);
  return result;
}

/// "13.0" of ptxas's "Cuda compilation tools, release 13.0, V13.0.88".
std::string ptxasRelease(const std::string &ptxas) {
  std::string text = runProgram({ptxas, "--version"}).output;
  size_t at = text.find("release ");
  if (at == std::string::npos)
    return "unknown";
  at += 8;
  return text.substr(at, text.find_first_of(",\n", at) - at);
}

std::string versionText(int32_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

const char *allowance(int32_t capability) {
  if (capability < 80)
    return "too old: fa2's kernels need compute capability 8.0 or later";
  if (capability == 90)
    return "runs kernels for sm_80 and sm_90a";
  return "runs kernels for sm_80";
}

} // namespace

std::string findPtxas() {
  std::vector<std::string> candidates;
  if (const char *given = std::getenv("FA2_PTXAS"))
    candidates.push_back(given);
  if (const char *path = std::getenv("PATH")) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
      if (!folder.empty())
        candidates.push_back(folder + "/ptxas");
  }
  candidates.push_back("/usr/local/cuda/bin/ptxas");
  for (const std::string &candidate : candidates)
    if (access(candidate.c_str(), X_OK) == 0)
      return candidate;
  return "";
}

Assembled assemble(const std::string &ptxas, const std::string &ptx,
                   const std::string &arch, const std::string &output) {
  std::string path = "/tmp/fa2-run-XXXXXX";
  int file = mkstemp(path.data());
  if (file < 0)
    return {false, fmt::format("cannot make a temporary file: {}",
                               std::strerror(errno))};
  size_t written = 0;
  while (written < ptx.size()) {
    ssize_t count = write(file, ptx.data() + written, ptx.size() - written);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      break;
    written += size_t(count);
  }
  close(file);
  Assembled result;
  if (written == ptx.size()) {
    Ran ran = runProgram({ptxas, "-arch=" + arch, "-v", path, "-o", output});
    result.good = ran.status == 0;
    result.text = ran.output;
  } else {
    result.text = fmt::format("cannot write {}", path);
  }
  unlink(path.c_str());
  return result;
}

nlohmann::ordered_json examine() {
  nlohmann::ordered_json findings;
  findings["runtime"] = fa2rtVersion();
  findings["manifest_version"] = fa2rtManifestVersion();
  auto &driver = findings["driver"];
  auto devices = nlohmann::ordered_json::array();
  int32_t version = 0, count = 0;
  if (fa2rtCudaDriverVersion(&version) != FA2RT_OK) {
    driver = {{"found", false}, {"why", fa2rtLastError()}};
  } else {
    driver = {{"found", true}, {"cuda", versionText(version)}};
    if (fa2rtCudaDeviceCount(&count) != FA2RT_OK)
      driver["why"] = fa2rtLastError();
    for (int32_t i = 0; i < count; ++i) {
      std::string name = fmt::format("cuda:{}", i);
      try {
        DeviceHandle device = openDevice(name);
        fa2rtDeviceProperties info;
        check(fa2rtDeviceGetProperties(device.get(), &info));
        devices.push_back(
            {{"device", name},
             {"name", info.name},
             {"compute_capability",
              fmt::format("{}.{}", info.compute_capability / 10,
                          info.compute_capability % 10)},
             {"multiprocessors", info.multiprocessors},
             {"memory_gib", double(info.memory_bytes) / double(1 << 30)},
             {"allows", allowance(info.compute_capability)}});
      } catch (const Failure &failure) {
        devices.push_back({{"device", name}, {"allows", failure.what()}});
      }
    }
  }
  findings["devices"] = devices;
  std::string ptxas = findPtxas();
  if (ptxas.empty())
    findings["ptxas"] = {{"found", false}};
  else
    findings["ptxas"] = {
        {"found", true}, {"path", ptxas}, {"release", ptxasRelease(ptxas)}};
  findings["simulator"] = fa2rtHasSimulator() != 0;
  return findings;
}

std::string describeExamination(const nlohmann::ordered_json &findings) {
  std::string text =
      fmt::format("runtime    fa2rt {}, reads manifest version {}\n",
                  findings["runtime"].get<std::string>(),
                  findings["manifest_version"].get<int>());
  const auto &driver = findings["driver"];
  if (driver["found"])
    text += fmt::format("driver     for CUDA {}: loads PTX up to that "
                        "release's version\n",
                        driver["cuda"].get<std::string>());
  else
    text += fmt::format("driver     none ({}): nothing runs on a GPU here\n",
                        driver["why"].get<std::string>());
  for (const auto &device : findings["devices"])
    text += fmt::format(
        "device     {} {}: {}\n", device["device"].get<std::string>(),
        device.value("name", ""), device["allows"].get<std::string>());
  if (driver["found"] && findings["devices"].empty())
    text += "device     none that the driver sees\n";
  const auto &ptxas = findings["ptxas"];
  if (ptxas["found"])
    text += fmt::format("ptxas      {} (release {}): checks that PTX "
                        "assembles; makes cubins for --image\n",
                        ptxas["path"].get<std::string>(),
                        ptxas["release"].get<std::string>());
  else
    text += "ptxas      none on PATH: no check without a device (FA2_PTXAS "
            "names one)\n";
  text += findings["simulator"].get<bool>()
              ? "simulator  built in: runs and checks kernels without a GPU "
                "(--device sim)\n"
              : "simulator  not in this build\n";
  return text;
}

} // namespace fa2run
