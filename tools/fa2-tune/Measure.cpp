//===- Measure.cpp - checks and times a bundle's candidates ---------------===//
//
// Checkers compile candidates by the driver and hold them to the reference; a
// clock a device times cells whose candidates are checked: all of them briefly,
// the better ones longer, the finalists in turns with pauses.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"

#include "Child.h"
#include "Failure.h"
#include "Files.h"
#include "Gate.h"
#include "Journal.h"
#include "Progress.h"
#include "Results.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <shared_mutex>
#include <thread>

using namespace fa2run;
using nlohmann::json;

namespace fa2tune {

namespace {

using Clock = std::chrono::steady_clock;

std::string today() {
  char text[32];
  time_t now = time(nullptr);
  tm parts;
  gmtime_r(&now, &parts);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// A problem on a shape, and the candidates that are for it.
struct Task {
  Problem problem;
  std::string shape;
  size_t shapeIndex; // in the bundle's list, for the model's estimate
  std::vector<const Candidate *> candidates;
  bool taken = false;
};

struct Device {
  explicit Device(const std::string &name) : name(name) {}
  std::string name;
  Gate gate;
};

class Session {
public:
  explicit Session(const MeasureOptions &options)
      : options(options), begin(Clock::now()),
        bundle(readBundle(options.bundle)), journal(options.results),
        results(Results::of(journal.lines(), options.results)) {}

  int run();

private:
  void greet();
  void plan();
  void checkAll(Device &device);
  void checkOne(Device &device, Child &child, const Candidate &candidate);
  void timeAll(Device &device);
  Task *nextTask();
  void timeTask(Device &device, Child &child, Task &task);
  void visitAll(Device &device, Child &child, const Task &task, int round,
                const std::vector<const Candidate *> &who, double milliseconds,
                double pause);
  bool visit(Device &device, Child &child, const Task &task,
             const Candidate &candidate, int round, double milliseconds);
  std::vector<const Candidate *>
  better(const Task &task, const std::vector<const Candidate *> &who, int round,
         double within, size_t most) const;
  std::vector<const Candidate *> missing(const Task &task,
                                         std::vector<const Candidate *> who,
                                         int round, int least) const;
  void visitInTurn(Device &device, Child &child, const Task &task,
                   std::vector<const Candidate *> who);
  void lose(const Candidate &candidate, const std::string &why);
  void add(const OrderedJson &line);
  void sayBest(const Task &task);

  std::vector<std::string> arguments(const std::string &device) const {
    std::vector<std::string> words = {"--device", device};
    if (!options.cubins.empty())
      words.insert(words.end(), {"--cubins", options.cubins});
    return words;
  }
  double left() const {
    double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    return options.seconds > 0 ? options.seconds - spent : 1e9;
  }
  bool over() const { return stopped || left() <= 0; }
  bool passed(const Candidate &c) const {
    std::lock_guard lock(mutex);
    auto found = results.contestants.find(c.id());
    return found != results.contestants.end() && found->second.passed;
  }
  /// It was checked, and it failed then or later.
  bool dropped(const Candidate &c) const {
    std::lock_guard lock(mutex);
    auto found = results.contestants.find(c.id());
    return found != results.contestants.end() && !found->second.passed;
  }
  bool ready(const Task &task) const {
    return std::all_of(
        task.candidates.begin(), task.candidates.end(),
        [&](const Candidate *c) { return loaded.count(c->id()); });
  }
  bool isComplete(const Task &task) const;
  void beginGroup(const Task &task);
  int visits(const Task &task, const Candidate &c, int round) const;
  double timeOf(const Task &task, const Candidate &c, int round) const;
  /// Runs `body`; an error of it ends the session.
  template <typename Body> void guarded(Body body) {
    try {
      body();
    } catch (const std::exception &error) {
      std::lock_guard lock(mutex);
      if (failure.empty())
        failure = error.what();
      stopped = true;
    }
    changed.notify_all();
  }

  const MeasureOptions &options;
  Clock::time_point begin;
  Bundle bundle;
  Journal journal;
  /// Guards what follows; `changed` says that results or tasks did.
  mutable std::mutex mutex;
  std::condition_variable changed;
  Results results;
  std::vector<Task> tasks;
  std::vector<const Candidate *> toCheck;
  std::set<std::string> loaded; // and checked
  std::string failure;
  std::atomic<bool> stopped = false;
  std::atomic<size_t> nextCheck = 0;
  std::atomic<int> checkersLeft = 0, clocksLeft = 0;
  bool simulated = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Progress> progress;
};

/// Asks each device who it is: all must be of one model, that of the results.
void Session::greet() {
  if (!options.cubins.empty())
    std::filesystem::create_directories(options.cubins);
  for (const std::string &name : options.devices) {
    Child child(arguments(name));
    Reply reply = child.request({{"do", "hello"}}, options.patience);
    if (!reply.why.empty())
      throw Failure(kNotRun, fmt::format("device {}: {}", name, reply.why));
    if (reply.json.contains("error"))
      throw Failure(kNotRun,
                    fmt::format("device {}: {}", name,
                                reply.json["error"].get<std::string>()));
    std::string model = reply.json["device"];
    for (const Candidate &c : bundle.candidates)
      if (std::string wrong =
              archError(c.problem.arch, reply.json["compute_capability"]);
          !wrong.empty())
        throw Failure(kNotRun, wrong);
    if (results.device.empty()) {
      add({{"fa2_tune_results", kResultsVersion},
           {"device", model},
           {"multiprocessors", reply.json["multiprocessors"]},
           {"driver", reply.json["driver"]},
           {"date", today()}});
    } else if (results.device != model) {
      refuse("{} holds results of {}, device {} is {}; name another file",
             options.results, results.device, name, model);
    }
    simulated = reply.json["simulated"];
    devices.push_back(std::make_unique<Device>(name));
  }
}

void Session::plan() {
  std::vector<Configuration> asked;
  for (const std::string &text : options.shapes)
    asked.push_back(parseShape(text));
  if (!options.shapeList.empty()) {
    json list = json::parse(readFile(options.shapeList), nullptr, false);
    if (!list.is_array())
      refuse("{}: expected a JSON list of shapes", options.shapeList);
    for (const json &shape : list) {
      asked.push_back(fromJson(shape));
      validate(asked.back());
    }
  }
  std::map<std::string, std::vector<const Candidate *>> byProblem;
  std::vector<std::string> order;
  for (const Candidate &c : bundle.candidates) {
    auto &list = byProblem[c.problem.text()];
    if (list.empty())
      order.push_back(c.problem.text());
    list.push_back(&c);
  }
  std::set<std::string> seen;
  for (const std::string &problem : order) {
    const auto &list = byProblem[problem];
    const auto &shapes =
        asked.empty() ? bundle.shapes[list.front()->shapes] : asked;
    for (size_t i = 0; i < shapes.size(); ++i) {
      Task task{list.front()->problem, shapeText(shapes[i]),
                asked.empty() ? i : SIZE_MAX, list};
      if (isComplete(task))
        continue;
      tasks.push_back(task);
      for (const Candidate *c : list)
        if (seen.insert(c->id()).second)
          toCheck.push_back(c);
    }
  }
}

void Session::add(const OrderedJson &line) {
  std::lock_guard lock(mutex);
  journal.append(line);
  results.add(json::parse(line.dump()));
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

void Session::checkOne(Device &device, Child &child, const Candidate &c) {
  bool known = false;
  {
    std::lock_guard lock(mutex);
    known = results.contestants.count(c.id()) > 0;
  }
  if (known && simulated)
    return;
  OrderedJson request = {{"do", "load"}, {"file", c.path}, {"hash", c.hash}};
  Reply reply = child.request(request, options.patience);
  if (known)
    return;
  if (reply.why.empty() && !reply.json.contains("error")) {
    request["do"] = "check";
    std::shared_lock lock(device.gate);
    reply = child.request(request, options.patience);
  }
  OrderedJson check = {{"kernel", c.id()},
                       {"problem", c.problem.toJson()},
                       {"schedule", c.schedule},
                       {"source", c.source},
                       {"compiler", bundle.compiler},
                       {"bits", c.bits},
                       {"passed", reply.json.value("passed", false)}};
  if (reply.json.value("device_lost", false))
    throw Failure(kNotRun, fmt::format("device {}: {}", device.name,
                                       reply.json["error"].get<std::string>()));
  std::string why = !reply.why.empty() ? reply.why
                    : reply.json.contains("error")
                        ? reply.json["error"].get<std::string>()
                        : reply.json.value("why", "");
  if (!why.empty()) {
    check["why"] = why;
    progress->say(
        fmt::format("dropped {}: {}: {}", c.problem.text(), c.schedule, why));
  }
  if (reply.json.contains("worst_ratio"))
    check["worst_ratio"] = reply.json["worst_ratio"];
  add({{"check", check}});
}

void Session::checkAll(Device &device) {
  Child child(arguments(device.name));
  while (!over()) {
    size_t i = nextCheck++;
    if (i >= toCheck.size())
      break;
    checkOne(device, child, *toCheck[i]);
    {
      std::lock_guard lock(mutex);
      loaded.insert(toCheck[i]->id());
    }
    progress->advance();
    changed.notify_all();
  }
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

int Session::visits(const Task &task, const Candidate &c, int round) const {
  std::lock_guard lock(mutex);
  auto cell = results.cells.find({task.problem.text(), task.shape});
  if (cell == results.cells.end())
    return 0;
  auto timing = cell->second.timings.find(c.id());
  if (timing == cell->second.timings.end())
    return 0;
  return int(std::count_if(timing->second.visits.begin(),
                           timing->second.visits.end(),
                           [&](const Visit &v) { return v.round == round; }));
}

/// Whether all finalists, which all of a group are, had all their visits.
bool Session::isComplete(const Task &task) const {
  bool any = false;
  for (const Candidate *c : task.candidates) {
    if (dropped(*c))
      continue;
    int n = visits(task, *c, 2);
    bool finalist = n > 0 || !task.problem.group.empty();
    if (finalist && n < options.rounds)
      return false;
    any |= n > 0;
  }
  return any;
}

/// A group's candidates are compared in one session: of a cell that another one
/// left half done, nothing counts.
void Session::beginGroup(const Task &task) {
  bool begun = false;
  {
    std::lock_guard lock(mutex);
    begun = results.cells.count({task.problem.text(), task.shape}) > 0;
  }
  if (begun)
    add({{"again", {{"group", task.problem.group}, {"shape", task.shape}}}});
}

/// The least of a round's visits, or infinity.
double Session::timeOf(const Task &task, const Candidate &c, int round) const {
  std::lock_guard lock(mutex);
  double best = INFINITY;
  auto cell = results.cells.find({task.problem.text(), task.shape});
  if (cell == results.cells.end() || !cell->second.timings.count(c.id()))
    return best;
  for (const Visit &v : cell->second.timings.at(c.id()).visits)
    if (v.round == round)
      best = std::min(best, v.milliseconds);
  return best;
}

void Session::lose(const Candidate &c, const std::string &why) {
  progress->say(
      fmt::format("dropped {}: {}: {}", c.problem.text(), c.schedule, why));
  add({{"lost", {{"kernel", c.id()}, {"why", why}}}});
}

bool Session::visit(Device &device, Child &child, const Task &task,
                    const Candidate &c, int round, double milliseconds) {
  Reply reply;
  {
    std::unique_lock lock(device.gate);
    reply = child.request({{"do", "time"},
                           {"file", c.path},
                           {"hash", c.hash},
                           {"shape", task.shape},
                           {"milliseconds", milliseconds}},
                          options.patience);
  }
  if (reply.json.value("device_lost", false))
    throw Failure(kNotRun, fmt::format("device {}: {}", device.name,
                                       reply.json["error"].get<std::string>()));
  if (!reply.why.empty() || reply.json.contains("error")) {
    lose(c, reply.why.empty() ? reply.json["error"].get<std::string>()
                              : reply.why);
    return false;
  }
  OrderedJson time = {{"kernel", c.id()},
                      {"shape", task.shape},
                      {"round", round},
                      {"ms", reply.json["ms"]},
                      {"min", reply.json["min"]},
                      {"max", reply.json["max"]},
                      {"launches", reply.json["launches"]},
                      {"clock_mhz", reply.json["clock_mhz"]},
                      {"flops", reply.json["flops"]}};
  if (task.shapeIndex < c.modelMilliseconds.size())
    time["model_ms"] = c.modelMilliseconds[task.shapeIndex];
  add({{"time", time}});
  return true;
}

void Session::visitAll(Device &device, Child &child, const Task &task,
                       int round, const std::vector<const Candidate *> &who,
                       double milliseconds, double pause) {
  for (const Candidate *c : who) {
    if (over())
      return;
    if (simulated)
      pause = 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    visit(device, child, task, *c, round, milliseconds);
  }
}

/// Those within a factor of the best of a round, the best first.
std::vector<const Candidate *>
Session::better(const Task &task, const std::vector<const Candidate *> &who,
                int round, double within, size_t most) const {
  std::vector<std::pair<double, const Candidate *>> times;
  for (const Candidate *c : who)
    if (double t = timeOf(task, *c, round); passed(*c) && std::isfinite(t))
      times.push_back({t, c});
  std::sort(times.begin(), times.end());
  std::vector<const Candidate *> kept;
  for (auto [time, c] : times)
    if (kept.size() < most && time <= times.front().first * within)
      kept.push_back(c);
  return kept;
}

/// Those that passed and had fewer than so many visits in a round.
std::vector<const Candidate *>
Session::missing(const Task &task, std::vector<const Candidate *> who,
                 int round, int least) const {
  std::erase_if(who, [&](const Candidate *c) {
    return !passed(*c) || visits(task, *c, round) >= least;
  });
  return who;
}

void Session::timeTask(Device &device, Child &child, Task &task) {
  if (!task.problem.group.empty()) {
    beginGroup(task);
    visitInTurn(device, child, task, task.candidates);
    return;
  }
  std::vector<const Candidate *> all = missing(task, task.candidates, 0, 1);
  std::mt19937 random(unsigned(task.candidates.size()));
  std::shuffle(all.begin(), all.end(), random);
  visitAll(device, child, task, 0, all, 2, 0);
  if (over())
    return;
  size_t most = std::max<size_t>(2 * size_t(options.finalists),
                                 task.candidates.size() / 4);
  auto second = better(task, task.candidates, 0, 1.25, most);
  // The schedule of today is compared with whatever wins.
  for (const Candidate *c : task.candidates)
    if (c->source == "today" && passed(*c) &&
        std::find(second.begin(), second.end(), c) == second.end() &&
        std::isfinite(timeOf(task, *c, 0)))
      second.push_back(c);
  visitAll(device, child, task, 1, missing(task, second, 1, 1), 6,
           options.pause / 3);
  if (over())
    return;
  auto finalists =
      better(task, second, 1, 1.06, size_t(std::max(1, options.finalists)));
  for (const Candidate *c : better(task, second, 1, INFINITY, SIZE_MAX))
    if (c->source == "today") {
      if (std::find(finalists.begin(), finalists.end(), c) == finalists.end())
        finalists.push_back(c);
      break;
    }
  visitInTurn(device, child, task, finalists);
}

/// The last round, whose figures count.
void Session::visitInTurn(Device &device, Child &child, const Task &task,
                          std::vector<const Candidate *> who) {
  for (int r = 1; r <= options.rounds && !over(); ++r) {
    visitAll(device, child, task, 2, missing(task, who, 2, r), 10,
             options.pause);
    // Each comes first in some turn; in the first one what others are ratios
    // to, so that there are ratios wherever time ends.
    std::rotate(who.begin(), who.begin() + (who.size() > 1), who.end());
  }
  sayBest(task);
}

void Session::sayBest(const Task &task) {
  std::string line;
  {
    std::lock_guard lock(mutex);
    auto found = results.cells.find({task.problem.text(), task.shape});
    if (found == results.cells.end())
      return;
    const Cell &cell = found->second;
    auto order = results.ranking(cell);
    if (order.empty())
      return;
    const Timing &best = cell.timings.at(order.front());
    line = fmt::format("{} {}: {:.4f} ms ({:.0f} TFLOP/s)", task.problem.text(),
                       task.shape, best.milliseconds(),
                       best.flops / best.milliseconds() / 1e9);
    for (const std::string &kernel : order)
      if (results.contestants.at(kernel).source == "today") {
        line += fmt::format(", {:.3f} times today's speed",
                            cell.timings.at(kernel).milliseconds() /
                                best.milliseconds());
        break;
      }
    line += ", " + results.contestants.at(order.front()).schedule;
  }
  progress->say(line);
}

/// The next task whose candidates are checked; waits for one. Null at the end.
Task *Session::nextTask() {
  std::unique_lock lock(mutex);
  for (;;) {
    bool any = false;
    for (Task &task : tasks) {
      if (task.taken)
        continue;
      any = true;
      if (ready(task)) {
        task.taken = true;
        return &task;
      }
    }
    if (!any || over() || checkersLeft == 0)
      return nullptr;
    changed.wait_for(lock, std::chrono::milliseconds(200));
  }
}

void Session::timeAll(Device &device) {
  Child child(arguments(device.name));
  while (!over()) {
    Task *task = nextTask();
    if (!task)
      return;
    timeTask(device, child, *task);
    progress->advance();
  }
}

int Session::run() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  greet();
  plan();
  progress = std::make_unique<Progress>(toCheck.size() + tasks.size(),
                                        options.seconds, options.quiet);
  int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  int checkers = options.checkers > 0 ? options.checkers
                 : simulated
                     ? std::min(cores, 4)
                     : std::clamp(cores * 3 / 4 / int(devices.size()), 1, 12);
  std::vector<std::thread> threads;
  checkersLeft = int(devices.size()) * checkers;
  for (auto &device : devices) {
    for (int i = 0; i < checkers; ++i)
      threads.emplace_back([&] {
        guarded([&] { checkAll(*device); });
        --checkersLeft;
        changed.notify_all();
      });
    threads.emplace_back([&] { guarded([&] { timeAll(*device); }); });
  }
  for (std::thread &thread : threads)
    thread.join();
  if (!failure.empty())
    throw Failure(kNotRun, failure + "; what was measured is in " +
                               options.results +
                               ", the same command goes on from there");
  auto open = std::count_if(tasks.begin(), tasks.end(),
                            [&](const Task &t) { return !isComplete(t); });
  if (over())
    progress->say(fmt::format("the time is over; {} of {} cells are left, the "
                              "same command goes on from there",
                              open, tasks.size()));
  return kPassed;
}

} // namespace

int measure(const MeasureOptions &options) { return Session(options).run(); }

} // namespace fa2tune
