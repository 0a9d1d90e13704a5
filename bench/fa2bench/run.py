"""A run on a GPU: loads, checks, measures, checks again."""

import math
import random

import torch

from .check import HeadReference, WrongResult, check_odd_shapes, current_stream
from .kernels import KernelFile
from .measure import Budget, Contestant, interleave, set_count
from .results import record_for
from .runtime import RuntimeFailure
from .values import VALUES

DEVICE = "cuda"
TORCH_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
PEER_TOLERANCE = 0.02  # ||out - ref|| / ||ref||: a peer must compute the same thing
CHECKED_HEADS = 3


class DeviceLost(Exception):
    """A launch broke the CUDA context; nothing more can be measured."""


class Failures:
    """What went wrong with our own kernels, named."""

    def __init__(self, say):
        self.say, self.texts, self.kernels = say, [], set()

    def add(self, kernel, error):
        text = f"{kernel.name}: {error}"
        self.texts.append(text)
        self.kernels.add(id(kernel))
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
        dtype = TORCH_DTYPES[kernel.key[2]]
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


class Inputs:
    """Sets of q, k, v of a case, and what a few heads of the first set should give."""

    def __init__(self, case, layout, generator, l2_bytes, values="normal"):
        self.case, dtype = case, TORCH_DTYPES[case.dtype]
        self.shape = (case.batch, case.heads, case.seqlen, case.head_dim)
        elements = math.prod(self.shape)
        self.count = set_count(3 * 2 * elements, l2_bytes)
        self.layout, self.dtype = layout, dtype
        self.sets = []
        for _ in range(self.count):
            tensors = [self.empty() for _ in range(3)]
            for tensor in tensors:
                tensor.normal_(generator=generator)
            VALUES[values](tensors[0], tensors[1])
            self.sets.append(tensors)
        self._references = None

    def empty(self):
        """[batch, heads, seqlen, head_dim], in memory as --layout says."""
        b, h, n, d = self.shape
        if self.layout == "bhsd":
            return torch.empty(b, h, n, d, dtype=self.dtype, device=DEVICE)
        return torch.empty(b, n, h, d, dtype=self.dtype, device=DEVICE).transpose(1, 2)

    def references(self):
        """[(batch entry, head, HeadReference)]: the first, the last, and random ones."""
        if self._references is None:
            case, chosen = self.case, {(0, 0), (self.case.batch - 1, self.case.heads - 1)}
            draw = random.Random(str(case))
            while len(chosen) < min(CHECKED_HEADS, case.batch * case.heads):
                chosen.add((draw.randrange(case.batch), draw.randrange(case.heads)))
            q, k, v = self.sets[0]
            self._references = [
                (b, h, HeadReference(q[b, h], k[b, h], v[b, h], case.mask,
                                     1 / math.sqrt(case.head_dim))) for b, h in sorted(chosen)]
        return self._references


class KernelRun:
    """One of our kernels on a case: its calls, its outputs, and their check."""

    def __init__(self, kernel, inputs):
        self.kernel, self.inputs = kernel, inputs
        self.has_lse = any(a["name"] == "lse" for a in kernel.manifest["arguments"])
        b, h, n, _ = inputs.shape
        self.outs = [inputs.empty().fill_(math.nan) for _ in inputs.sets]
        self.lses = [torch.full((b, h, n), math.nan, device=DEVICE) for _ in inputs.sets]
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
            if not torch.equal(out, first):
                raise WrongResult(f"{self.inputs.case}: set {index}: a later launch gave other bits")


def peer_run(peer, inputs):
    """(launch, note): note says why there is no launch."""
    case = inputs.case
    try:
        call = peer.make(case.head_dim, case.mask != "none", inputs.dtype)
        if call is None:
            return None, "it does not do this case"
        out = call(*inputs.sets[0])
        torch.cuda.synchronize()
        if tuple(out.shape) != inputs.shape:
            return None, f"it gave the shape {tuple(out.shape)}, not {inputs.shape}"
        worst = max(reference.difference(out[b, h]) for b, h, reference in inputs.references())
        if not worst <= PEER_TOLERANCE:
            return None, f"it computes something else (relative error {worst:.3g})"
    except Exception as error:
        synchronize(f"{peer.label}, {case}")
        return None, (str(error).splitlines() or [repr(error)])[0][:160]
    return (lambda index: call(*inputs.sets[index])), ""


def run_group(entries, inputs_of, facts, results, failures, seconds, pause_ms):
    """Measures (label, role, contestant, case) entries interleaved; adds their records."""
    contestants, kernel_runs = [], []
    for label, role, who, case in entries:
        inputs = inputs_of(case)
        record = results.add(record_for(label, role, case))
        if isinstance(who, KernelFile):
            for name, value in facts.get(id(who), {}).items():
                setattr(record, name, value)
            if failures.failed(who):
                record.note = "failed, see above"
                continue
            try:
                run = KernelRun(who, inputs)
                record.accuracy = run.check()
            except (WrongResult, RuntimeFailure) as error:
                failures.add(who, error)
                record.note = f"failed: {error}"
                continue
            kernel_runs.append((run, record))
            launch = run.launch
        else:
            launch, record.note = peer_run(who, inputs)
            if launch is None:
                continue
        contestants.append((Contestant(label, launch, inputs.count), record))
    interleave([c for c, _ in contestants], seconds, pause_ms)
    for contestant, record in contestants:
        record.fill(contestant.times)
    for run, record in kernel_runs:
        try:
            run.check_again()
        except WrongResult as error:
            failures.add(run.kernel, error)
            record.median_ms = record.best_ms = record.tflops = math.nan
            record.note = f"failed: {error}"


def run_groups(groups, options, facts, results, failures, say):
    """groups: lists of (label, role, contestant, case), each measured interleaved."""
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    generator = torch.Generator(device=DEVICE).manual_seed(options.seed)
    budget = Budget(options.seconds, [len(group) for group in groups])
    inputs, last_cases = {}, None
    for group in groups:
        cases = {case for *_, case in group}
        if cases != last_cases:
            inputs.clear()
            torch.cuda.empty_cache()
            last_cases = cases

        def inputs_of(case):
            if case not in inputs:
                inputs[case] = Inputs(case, options.layout, generator, l2_bytes, options.values)
            return inputs[case]
        first = len(results.records)
        run_group(group, inputs_of, facts, results, failures, budget.next(), options.pause)
        figures = ", ".join(f"{r.label} {r.head_dim}: {r.tflops:.0f}" for r in results.records[first:]
                            if r.measured)
        case = group[0][3]
        say(f"{case.mask} seqlen {case.seqlen}: {figures}")
