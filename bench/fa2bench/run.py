"""A run on a GPU: loads, checks, measures, checks again."""

import math
import time

import torch

from .bits import alone_differs, differs, same_bits
from .check import WrongResult, check_odd_shapes, current_stream
from .group import Sample
from .inputs import TORCH_DTYPES, Inputs
from .kernels import KernelFile
from .measure import Budget, Contestant, MeasurementFailed, interleave
from .peers import mask_for
from .results import record_for
from .runtime import RuntimeFailure

DEVICE = "cuda"
PEER_TOLERANCE = 0.02  # ||out - ref|| / ||ref||: a peer must compute the same thing
MEMORY_SHARE = 0.5  # of the device's that unused blocks may hold before they are given back


class DeviceLost(Exception):
    """A launch broke the CUDA context; nothing more can be measured."""


class Failures:
    """What went wrong, named: with our own kernels, or with a measurement."""

    def __init__(self, say):
        self.say, self.texts, self.kernels = say, [], set()

    def add(self, kernel, error):
        """The kernel is not measured at all."""
        self.kernels.add(id(kernel))
        self.tell(kernel, error)

    def tell(self, kernel, error):
        self.tell_all(f"{kernel.name}: {error}")

    def tell_all(self, text):
        self.texts.append(text)
        self.say(f"FAILED {text}")

    def failed(self, kernel):
        return id(kernel) in self.kernels


def allocate(count):
    return torch.zeros(count, dtype=torch.uint8, device=DEVICE)


def synchronize(what):
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise DeviceLost(f"{what}: {str(error).splitlines()[0]}") from None


def load_and_check(kernels, library, device, failures, seed):
    """Loads each KernelFile and runs it on odd shapes; the driver's figures by kernel."""
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    facts = {}
    for kernel in kernels:
        dtype = TORCH_DTYPES[kernel.key[-1]]
        try:
            infos = kernel.load(library, device)
            facts[id(kernel)] = {"registers": max(i["registers"] for i in infos),
                                 "local_bytes": max(i["local_bytes"] for i in infos),
                                 "shared_bytes": max(i["shared_bytes"] for i in infos),
                                 "threads": max(i["threads"] for i in infos),
                                 "file": str(kernel.path)}
            check_odd_shapes(kernel, dtype, DEVICE, allocate, generator)
        except WrongResult as error:
            failures.add(kernel, error)
        except Exception as error:
            failures.add(kernel, error)
            synchronize(kernel.name)
    return facts


class KernelRun:
    """One of our kernels on a case: its calls, its outputs, and their check."""

    def __init__(self, kernel, inputs):
        self.kernel, self.inputs = kernel, inputs
        self.has_lse = any(a["name"] == "lse" for a in kernel.manifest["arguments"])
        self.outs = [inputs.empty(*inputs.out_shape).fill_(math.nan) for _ in inputs.sets]
        self.lses = [torch.full(inputs.out_shape[:3], math.nan, device=DEVICE) for _ in inputs.sets]
        self.calls = [kernel.bind(*tensors, out, lse, allocate)
                      for tensors, out, lse in zip(inputs.sets, self.outs, self.lses)]
        self.first_bits = None

    def launch(self, index):
        self.calls[index](current_stream(DEVICE))

    def check(self):
        """Runs every set once; the worst row's share of its allowance."""
        for index in range(self.inputs.count):
            self.launch(index)
        synchronize(self.kernel.name)
        for index, out in enumerate(self.outs):
            if not bool(torch.isfinite(out).all()):
                raise WrongResult(f"{self.inputs.case}: set {index}: elements were not written, "
                                  "or are not finite")
        worst = 0.0
        for b, h, reference in self.inputs.references():
            lse = self.lses[0][b, h] if self.has_lse else None
            worst = max(worst, reference.judge(self.outs[0][b, h], lse,
                                               f"{self.inputs.case}: batch entry {b}, head {h}, "))
        self.first_bits = [out.clone() for out in self.outs]
        return worst

    def check_again(self):
        for index, (out, first) in enumerate(zip(self.outs, self.first_bits)):
            if not same_bits(out, first):
                raise WrongResult(f"{self.inputs.case}: set {index}: a later launch gave other bits")

    def entry_alone(self, b):
        """(out, lse) of one batch entry of the first set, launched as a batch of its own."""
        out, lse = (torch.full_like(x[0][b:b + 1], math.nan) for x in (self.outs, self.lses))
        tensors = [x[b:b + 1] for x in self.inputs.sets[0]]
        self.kernel.bind(*tensors, out, lse, allocate)(current_stream(DEVICE))
        synchronize(self.kernel.name)
        return out, lse


def peer_run(peer, inputs):
    """(launch, note): where there is no launch, note says why."""
    case = inputs.case
    mask, note = mask_for(peer, case)
    if mask is None:
        return None, note
    try:
        call = peer.make(case.head_dim, mask != "none", inputs.dtype)
        if call is None:
            return None, "it does not do this case"
        out = call(*inputs.sets[0])
        torch.cuda.synchronize()
        if tuple(out.shape) != inputs.out_shape:
            return None, f"it gave the shape {tuple(out.shape)}, not {inputs.out_shape}"
        worst = max(reference.difference(out[b, h]) for b, h, reference in inputs.references(mask))
        if not worst <= PEER_TOLERANCE:
            return None, f"it computes something else (relative error {worst:.3g})"
    except Exception as error:
        synchronize(f"{peer.label}, {case}")
        return None, (str(error).splitlines() or [repr(error)])[0][:160]
    return (lambda index: call(*inputs.sets[index])), note


def checked_run(kernel, inputs, record, facts, failures):
    """A KernelRun whose results are right, or None; the record says which."""
    for name, value in facts.get(id(kernel), {}).items():
        setattr(record, name, value)
    if failures.failed(kernel):
        record.note = "failed, see above"
        return None
    try:
        run = KernelRun(kernel, inputs)
        record.accuracy = run.check()
        return run
    except (WrongResult, RuntimeFailure) as error:
        failures.tell(kernel, error)
        record.note = f"failed: {error}"
        return None


def compare_bits(kernel_runs, failures):
    """Each case's outputs over our kernel sets, and each batch entry's alone and in its batch."""
    first_of = {}
    for run, record in kernel_runs:
        if record.role != "kernel":
            continue
        case = run.inputs.case
        first, label = first_of.setdefault(case, (run, record.label))
        texts = [f"{text} than those of {label}" for text in [differs(run, first)] if text]
        texts += [f"{text} alone" for text in [alone_differs(run)] if text]
        record.bits = "; ".join(texts) or "same"
        for text in texts:
            failures.tell(run.kernel, f"{case}: {text}")


def prepare_group(group, inputs_of, facts, results, failures, options):
    """([(Contestant, record)], [(KernelRun, record)]) of what is right"""
    contestants, kernel_runs = [], []
    for label, role, who, case in group.entries:
        inputs = inputs_of(case)
        record = results.add(record_for(label, role, case, list=group.list))
        if isinstance(who, KernelFile):
            run = checked_run(who, inputs, record, facts, failures)
            if run:
                kernel_runs.append((run, record))
            launch = run and run.launch
        else:
            launch, record.note = peer_run(who, inputs)
        if launch:
            contestants.append((Contestant(label, launch, inputs.count), record))
    if options.bits:
        compare_bits(kernel_runs, failures)
    return contestants, kernel_runs


def time_group(contestants, kernel_runs, failures, seconds, pause_ms):
    try:
        interleave([c for c, _ in contestants], seconds, pause_ms)
    except MeasurementFailed as error:  # other groups may do without the contestant
        synchronize(str(error))
        failures.tell_all(f"{contestants[0][1].case}: {error}")
        for _, record in contestants:
            record.note = f"not measured: {error}"
        return
    for contestant, record in contestants:
        record.fill(contestant.times)
    for run, record in kernel_runs:
        try:
            run.check_again()
        except WrongResult as error:
            failures.tell(run.kernel, error)
            record.clear(f"failed: {error}")


def free_memory():
    """Gives unused blocks back where they are much of the device's memory; it takes long."""
    total = torch.cuda.get_device_properties(0).total_memory
    if torch.cuda.memory_reserved() > MEMORY_SHARE * total:
        torch.cuda.empty_cache()


def say_figures(records, say):
    lines = {}
    for record in records:
        if record.measured:
            lines.setdefault(record.case, []).append(f"{record.label} {record.median_ms * 1e3:.1f}")
    for case, figures in lines.items():
        say(f"{case}: {', '.join(figures)} us")


def run_groups(groups, options, facts, results, failures, say, sample=Sample()):
    """Checks and measures each Group, within options.seconds where that leaves a few rounds."""
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    generator = torch.Generator(device=DEVICE).manual_seed(options.seed)
    budget = Budget(options.seconds, [len(group.entries) for group in groups])
    inputs, last_cases, began, preparing = {}, None, time.monotonic(), 0.0
    for group in groups:
        cases = {case for *_, case in group.entries}
        if cases != last_cases:
            inputs.clear()
            free_memory()
            last_cases = cases

        def inputs_of(case):
            if case not in inputs:
                inputs[case] = Inputs(case, generator, l2_bytes, sample, DEVICE)
            return inputs[case]
        first, start = len(results.records), time.monotonic()
        ready = prepare_group(group, inputs_of, facts, results, failures, options)
        preparing += time.monotonic() - start
        seconds = budget.next()
        if not options.untimed:
            time_group(*ready, failures, seconds, options.pause)
        del ready  # its tensors, before the next group's are drawn
        say_figures(results.records[first:], say)
    say(f"{len(groups)} groups in {time.monotonic() - began:.0f} s, {preparing:.0f} s of them to prepare and check")
