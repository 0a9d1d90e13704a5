//===- Compile.cpp - from a specification to PTX --------------------------===//

#include "Explanation.h"
#include "fa2/Compiler/Compiler.h"
#include "fa2/Pipelines/Pipelines.h"
#include "fa2/Pipelines/Registration.h"
#include "fa2/Schedule/Space.h"
#include "fa2/Target/OtherTarget.h"
#include "fa2/Target/Ptx/Ptx.h"
#include "fa2/Transforms/ProblemOf.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FormatVariadic.h"

#include <ctime>

using namespace mlir;
using namespace fa2;

namespace {

double threadMilliseconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e3 + double(t.tv_nsec) * 1e-6;
}

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os, OpPrintingFlags().printNameLocAsPrefix());
  os << "\n";
  return text;
}

/// The stage after which `emit` has what it wants.
llvm::StringRef lastStage(OutputKind emit) {
  switch (emit) {
  case OutputKind::FA2:
    return "fa2-select-schedule";
  case OutputKind::Tiles:
    return "fa2-tile";
  case OutputKind::GPU:
    return "fa2gpu-verify";
  default:
    return pipelineStages().back();
  }
}

void setOptions(PipelineOptions &o, const Specification &spec,
                const CompileOptions &options) {
  o.target = spec.arch;
  o.pass = spec.pass;
  o.lineInfo = options.lineInfo;
  o.schedule = spec.schedule;
  o.variants = spec.variants;
  o.database = spec.database;
  o.grads = spec.grads;
  o.gradLse = !spec.gradLse.empty();
}

std::string scheduleText(ModuleOp module) {
  std::string text;
  module.walk([&](Operation *op) {
    ScheduleAttr schedule;
    if (auto attention = dyn_cast<AttentionOp>(op))
      schedule = attention.getScheduleAttr();
    else if (auto gradient = dyn_cast<AttentionGradOp>(op))
      schedule = gradient.getScheduleAttr();
    if (schedule)
      llvm::raw_string_ostream(text) << schedule;
  });
  return text;
}

std::vector<std::string> choicesOf(ModuleOp module) {
  std::vector<std::string> choices;
  module.walk([&](Operation *op) {
    ScheduleAttr schedule;
    ArrayAttr variants;
    if (auto gradient = dyn_cast<AttentionGradOp>(op))
      schedule = gradient.getScheduleAttr(),
      variants = gradient.getVariantsAttr();
    else if (auto attention = dyn_cast<AttentionOp>(op))
      schedule = attention.getScheduleAttr(),
      variants = attention.getVariantsAttr();
    if (!schedule)
      return;
    choices = {fieldsText(schedule.getFields())};
    if (variants)
      for (auto variant : variants.getAsRange<VariantAttr>())
        choices.push_back(
            variant.getWhen().getExpression().str() + ": " +
            (variant.getAfter()
                 ? "after " + variant.getAfter().getExpression().str() + ": "
                 : "") +
            fieldsText(variant.getSchedule().getFields()));
  });
  return choices;
}

/// What keeps a module from being one attention in one function, or an empty
/// string.
std::string checkSource(ModuleOp module) {
  auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  int64_t others = llvm::range_size(*module.getBody()) - functions.size();
  if (functions.size() != 1 || others != 0)
    return llvm::formatv("expected a module with one func.func, got {0} and "
                         "{1} other operations",
                         functions.size(), others);
  int64_t attentions = 0;
  functions.front().walk([&](AttentionOp) { ++attentions; });
  if (attentions != 1)
    return llvm::formatv("expected one fa2.attention in '{0}', got {1}",
                         functions.front().getName(), attentions);
  return "";
}

FailureOr<Problem> problemIn(ModuleOp module) {
  FailureOr<Problem> problem = failure();
  module.walk([&](Operation *op) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      problem = problemOf(attention);
    else if (auto gradient = dyn_cast<AttentionGradOp>(op))
      problem = problemOf(gradient);
  });
  return problem;
}

class Run {
public:
  /// `source` is a module's text; without it one is built from `spec`.
  Run(const Specification &spec, std::optional<llvm::StringRef> source,
      const CompileOptions &options, Compilation &result, std::string &error)
      : spec(spec), source(source), options(options), result(result),
        error(error) {}

  LogicalResult run() {
    double start = threadMilliseconds();
    DialectRegistry registry;
    registerDialects(registry);
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    if (failed(collectRemarks(context, result)))
      return failure();
    ScopedDiagnosticHandler handler(&context,
                                    [&](Diagnostic &d) { return collect(d); });
    OwningOpRef<ModuleOp> module =
        source ? parse(&context) : buildModule(&context, spec);
    if (!module || failed(verify(*module)))
      return failure();
    noteOtherTarget(*module);
    result.times.push_back({"set-up", threadMilliseconds() - start});
    if (options.onStage)
      options.onStage("input", print(*module));

    PipelineOptions pipeline;
    setOptions(pipeline, spec, options);
    for (llvm::StringRef stage : pipelineStages()) {
      start = threadMilliseconds();
      PassManager pm(&context, ModuleOp::getOperationName());
      addStage(pm, stage, pipeline);
      // Each stage's result is verified once: verifying after each pass takes
      // twice as long. A reproducer is to name the pass. On the way to PTX
      // LLVM's verifier sees the last scalars again, tens of thousands.
      bool reproduces = !options.reproducer.empty();
      pm.enableVerifier(reproduces);
      if (reproduces)
        pm.enableCrashReproducerGeneration(options.reproducer);
      if (failed(pm.run(*module)))
        return failure();
      bool seenByLLVM = options.emit == OutputKind::PTX && leavesScalars(stage);
      if (!reproduces && !seenByLLVM && failed(verify(*module)))
        return failure();
      result.times.push_back({stage.str(), threadMilliseconds() - start});
      if (stage == "fa2-select-schedule") {
        result.schedule = scheduleText(*module);
        result.choices = choicesOf(*module);
        if (problem)
          *problem = problemIn(*module);
      }
      if (options.onStage)
        options.onStage(stage, print(*module));
      if (stage == lastStage(options.emit))
        break;
    }
    return emit(*module);
  }

  /// Where somebody wants to know it.
  FailureOr<Problem> *problem = nullptr;

private:
  /// The module of `source`, or null where it is not one attention.
  OwningOpRef<ModuleOp> parse(MLIRContext *context) {
    auto module = parseSourceString<ModuleOp>(*source, context, "module");
    if (module)
      error = checkSource(*module);
    return error.empty() ? std::move(module) : nullptr;
  }

  void noteOtherTarget(ModuleOp module) {
    module.walk([&](AttentionOp op) {
      result.kernel = source
                          ? op->getParentOfType<func::FuncOp>().getName().str()
                          : spec.kernelName();
      if (std::string note = otherTargetNote(spec.arch); !note.empty())
        result.notes.push_back(note);
    });
  }

  LogicalResult emit(ModuleOp module) {
    double start = threadMilliseconds();
    auto launches = llvm::to_vector(module.getOps<fa2::gpu::LaunchOp>());
    if (!launches.empty()) {
      fa2::gpu::LaunchOp launch = mainLaunch(launches);
      result.sharedBytes = launch.getSharedBytes();
      result.threads = launch.getBlock();
      for (fa2::gpu::LaunchOp each : launches)
        if (GuardAttr when = each.getWhenAttr(); when && each != launch)
          result.variants.push_back({when.getExpression().str(),
                                     int64_t(each.getSharedBytes()),
                                     int64_t(each.getBlock())});
    }
    if (options.emit == OutputKind::PTX) {
      auto ptx = translateToPtx(module);
      if (failed(ptx))
        return failure();
      result.text = std::move(*ptx);
      result.times.push_back({"ptx", threadMilliseconds() - start});
    } else if (options.emit == OutputKind::LLVMIR) {
      llvm::LLVMContext context;
      auto llvmModule = translateToLLVMIR(module, context);
      if (!llvmModule)
        return failure();
      llvm::raw_string_ostream(result.text) << *llvmModule;
      result.times.push_back({"llvm", threadMilliseconds() - start});
    } else {
      result.text = print(module);
    }
    return success();
  }

  LogicalResult collect(Diagnostic &d) {
    std::string text = d.str();
    switch (d.getSeverity()) {
    case DiagnosticSeverity::Error:
      if (error.empty()) { // one error a fault; the first is the cause
        StringRef message = text;
        if (!message.consume_front("'fa2.attention' op "))
          message.consume_front("'fa2.attention_grad' op ");
        error = place(d.getLocation()) + message.str();
      }
      break;
    case DiagnosticSeverity::Warning:
      result.warnings.push_back(text);
      break;
    default:
      break;
    }
    return success();
  }

  /// Where in `source` something stands, as the beginning of an error.
  std::string place(Location loc) {
    auto at = loc->findInstanceOf<FileLineColLoc>();
    return source && at ? llvm::formatv("line {0}: ", at.getLine()).str() : "";
  }

  const Specification &spec;
  std::optional<llvm::StringRef> source;
  const CompileOptions &options;
  Compilation &result;
  std::string &error;
};

} // namespace

FailureOr<Compilation> fa2::compile(const Specification &spec,
                                    const CompileOptions &options,
                                    std::string &error,
                                    std::optional<StringRef> source) {
  error = spec.check();
  if (!error.empty())
    return failure();
  Compilation result;
  if (failed(Run(spec, source, options, result, error).run())) {
    if (error.empty())
      error = "the pipeline failed without saying why";
    return failure();
  }
  return result;
}

FailureOr<Problem> fa2::problemOf(const Specification &spec, std::string &error,
                                  std::optional<StringRef> source) {
  error = spec.check();
  if (!error.empty())
    return failure();
  CompileOptions options;
  options.emit = OutputKind::FA2;
  Compilation result;
  FailureOr<Problem> problem = failure();
  Run run(spec, source, options, result, error);
  run.problem = &problem;
  if (failed(run.run()))
    return failure();
  return problem;
}

std::string fa2::shortened(StringRef error) {
  constexpr size_t first = 1200, last = 600;
  if (error.size() <= first + last)
    return error.str();
  return llvm::formatv("{0} ... ({1} characters) ... {2}",
                       error.take_front(first), error.size() - first - last,
                       error.take_back(last));
}
