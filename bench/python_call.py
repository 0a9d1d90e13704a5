#!/usr/bin/env python3
"""Measures and checks fa2c.attention as a user calls it. See --help and bench/README.md."""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent / "python")]

from fa2bench import options as command_line  # noqa: E402

EPILOG = """\
example: python_call.py --build build/release

What is checked, against attention in float64 whose bounds are those of two roundings: forward and backward, both masks,
grouped heads, head dims that differ, both orders in memory, copies, deterministic gradients, lengths that change, CUDA graphs,
streams, torch.compile, SDPA's registry, programs. What is measured, microseconds of the host, medians over --calls calls on
tensors so small that the device is sooner done: a cached call, with and without autograd, beside scaled_dot_product_attention;
seconds of first calls, each in a process of its own, with an empty cache and with a full one (the driver's own cache of machine code
is off in the first: CUDA_CACHE_DISABLE=1). exit status: 0; 1 when something was wrong or above a limit.
"""


def parse(arguments):
    p = argparse.ArgumentParser(prog="python_call.py", description=__doc__, epilog=EPILOG,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=Path, metavar="FOLDER", help="of the libraries; an installed fa2c has its own")
    p.add_argument("--device", default="cuda", help="cuda, cuda:N; cpu tries the script out on the simulator")
    p.add_argument("--calls", type=command_line.positive, default=1000, metavar="N")
    p.add_argument("--forward-limit", type=float, default=14.0, metavar="US")
    p.add_argument("--autograd-limit", type=float, default=22.0, metavar="US")
    p.add_argument("--first", help=argparse.SUPPRESS)
    return p.parse_args(arguments)


def use_build(folder):
    if folder is not None:
        os.environ["FA2_LIBRARY"] = str(folder / "lib/Compiler/libfa2.so.0")
        os.environ["FA2RT_LIBRARY"] = str(folder / "runtime/lib/libfa2rt.so.0")


class Report:
    def __init__(self):
        self.failed = 0

    def say(self, good, text):
        self.failed += not good
        print(("ok    " if good else "WRONG ") + text, flush=True)


def reference(torch, q, k, v, causal, dout, change=None):
    """(out, dq, dk, dv) in float64 on the device."""
    tensors = [x.detach().double().requires_grad_() for x in (q, k, v)]
    qd, kd, vd = tensors
    group = q.shape[1] // k.shape[1]
    scores = qd @ kd.repeat_interleave(group, 1).transpose(2, 3) * q.shape[-1] ** -0.5
    if change is not None:
        scores = change(scores)
    if causal:
        rows, cols = (torch.arange(n, device=q.device) for n in scores.shape[2:])
        offset = 0 if causal == "top_left" else k.shape[2] - q.shape[2]
        scores = scores.masked_fill(cols[None] > rows[:, None] + offset, float("-inf"))
    out = torch.softmax(scores, -1).nan_to_num(0) @ vd.repeat_interleave(group, 1)
    if dout is None:
        return (out.detach(),)
    return (out.detach(), *torch.autograd.grad(out, tensors, dout.double()))


def worst(torch, got, wanted):
    """The largest error over what two roundings of the largest value give."""
    got = got.detach()
    unit = 2.0 ** -8 if got.dtype == torch.bfloat16 else 2.0 ** -11
    if not bool(torch.isfinite(got).all()):
        return float("inf")
    return float((got.double() - wanted).abs().max() / (4 * unit * wanted.abs().max() + 1e-7))


def check_numbers(torch, fa2c, report, device):
    torch.manual_seed(0)
    small = device == "cpu"
    n = 48 if small else 333

    def draw(b, h, s, d, dtype, order):
        x = torch.randn(b, s, h, d, device=device).to(dtype).transpose(1, 2)
        return (x if order == "bshd" else x.contiguous()).requires_grad_()

    cases = [(torch.bfloat16, 64, 64, False, "bshd", False), (torch.bfloat16, 128, 128, True, "bhsd", False),
             (torch.float16, 128, 64, True, "bshd", True), (torch.float16, 256, 256, "top_left", "bhsd", False),
             (torch.bfloat16, 72, 40, False, "bhsd", True)]
    for dtype, d, dv, causal, order, deterministic in cases:
        q, k, v = draw(2, 4, n, d, dtype, order), draw(2, 2, n + 20, d, dtype, order), draw(2, 2, n + 20, dv, dtype, order)
        dout = torch.randn(2, 4, n, dv, device=device).to(dtype)
        out = fa2c.attention(q, k, v, causal=causal, deterministic=deterministic)
        got = (out, *torch.autograd.grad(out, (q, k, v), dout))
        errors = [worst(torch, g, w) for g, w in zip(got, reference(torch, q, k, v, causal, dout))]
        report.say(max(errors) < 1, f"{dtype} d {d}, {dv} causal={causal} {order} in memory: out, dq, dk, dv of what is allowed: "
                   + " ".join(f"{e:.2f}" for e in errors))
        if deterministic:
            again = fa2c.attention(q, k, v, causal=causal, deterministic=True)
            report.say(all(map(torch.equal, got[1:], torch.autograd.grad(again, (q, k, v), dout))), "the same bits again")
    check_programs(torch, fa2c, report, draw, n)


def check_programs(torch, fa2c, report, draw, n):
    q, k, v = (draw(1, 4, n, 64, torch.bfloat16, "bhsd").detach() for _ in range(3))
    i, j = torch.arange(n, device=q.device)[:, None], torch.arange(n, device=q.device)[None]
    for name, mods, change in (
        ("softcap", dict(score_mod=lambda s, b, h, q, kv: 20 * torch.tanh(s / 20)), lambda s: 20 * torch.tanh(s / 20)),
        ("relative", dict(score_mod=lambda s, b, h, q, kv: s + 0.01 * (q - kv)), lambda s: s + 0.01 * (i - j)),
        ("window", dict(mask_mod=lambda b, h, q, kv: (q >= kv) & (q - kv < 30)),
         lambda s: s.masked_fill((i < j) | (i - j >= 30), float("-inf"))),
        ("prefix", dict(mask_mod=lambda b, h, q, kv: (kv < 20) | (q >= kv)),
         lambda s: s.masked_fill((j >= 20) & (i < j), float("-inf"))),
    ):
        error = worst(torch, fa2c.attention(q, k, v, **mods), reference(torch, q, k, v, False, None, change)[0])
        report.say(error < 1, f"program {name}: {error:.2f} of what is allowed")


def check_cuda(torch, fa2c, report, device):
    """Graphs, streams, torch.compile, SDPA's registry, memory."""
    from fa2c.integrations import sdpa

    q, k, v = (torch.randn(2, 8, 512, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
    expected = fa2c.attention(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = fa2c.attention(q, k, v, causal=True)
    captured.zero_()
    graph.replay()
    report.say(torch.equal(captured, expected), "a captured graph, replayed")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        other = fa2c.attention(q, k, v, causal=True)
    torch.cuda.synchronize()
    report.say(torch.equal(other, expected), "another stream")
    leaf = q.clone().requires_grad_()
    compiled = torch.compile(lambda q: fa2c.attention(q * 1.0, k, v, causal=True) * 2, fullgraph=True)
    (got,) = torch.autograd.grad(compiled(leaf).sum(), leaf)
    (wanted,) = torch.autograd.grad((fa2c.attention(leaf * 1.0, k, v, causal=True) * 2).sum(), leaf)
    # dQ is a sum in no fixed order.
    report.say(torch.allclose(got, wanted, rtol=0.02, atol=1e-3), "torch.compile(fullgraph=True), forward and backward")
    sdpa.activate()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    sdpa.restore()
    report.say(torch.equal(out, expected), "SDPA through its registry")
    check_memory(torch, fa2c, report, leaf, k, v)


def check_memory(torch, fa2c, report, q, k, v, calls=10000):
    def often(count):
        for _ in range(count):
            fa2c.attention(q, k, v).sum().backward()
        torch.cuda.synchronize()
        gc.collect()
        return torch.cuda.memory_allocated(), len(gc.get_objects())

    before, after = often(100), often(calls)
    report.say(after[0] <= before[0] and after[1] < before[1] + 100,
               f"after {calls} calls: {after[0] - before[0]} bytes and {after[1] - before[1]} objects more")


def check_lengths(torch, fa2c, report, device):
    from fa2c import kernels

    compile_ptx, compiled = kernels.compile_ptx, []

    def counted(*given):
        compiled.append(given)
        return compile_ptx(*given)

    def tensors(n, least):
        b, h, s = 1 + n % 3, 1 + n % 4, least + (n if device == "cpu" else 37 * n)
        return (torch.randn(b, h, s, 24, device=device, dtype=torch.bfloat16) for _ in range(3))

    kernels.compile_ptx = counted
    for n in range(50):
        fa2c.attention(*tensors(n, 8), causal=True, scale=0.1 + n / 100)
    # A kernel is compiled when a launch first takes it.
    most = max(len(choice.schedules) for choice in kernels.kernels._choices.values())
    report.say(len(compiled) <= most, f"50 lengths, batches, head counts and scales: {len(compiled)} compiled of {most} kernels")
    compiled.clear()
    for n in range(50):
        fa2c.attention(*tensors(n, 60), causal=True, window=(1 + n, -1), softcap=1 + n / 10)
    kernels.compile_ptx = compile_ptx
    report.say(len(compiled) <= most, f"50 windows and softcaps besides: {len(compiled)} compiled")


def host_costs(torch, fa2c, args):
    """{label: median microseconds}"""
    wait = torch.cuda.synchronize if args.device != "cpu" else lambda: None
    q, k, v = (torch.randn(1, 8, 128, 64, device=args.device, dtype=torch.bfloat16) for _ in range(3))
    qg, kg, vg = (x.clone().requires_grad_() for x in (q, k, v))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    contestants = {
        "forward": lambda: fa2c.attention(q, k, v, causal=True),
        "forward, autograd": lambda: fa2c.attention(qg, kg, vg, causal=True),
        "forward, scale": lambda: fa2c.attention(q, k, v, causal=True, scale=0.1),
        "forward, program": lambda: fa2c.attention(q, k, v, score_mod=_relative),
        "SDPA": lambda: sdpa(q, k, v, is_causal=True),
        "SDPA, autograd": lambda: sdpa(qg, kg, vg, is_causal=True),
        "allocations": lambda: (torch.empty_like(q), torch.empty(1, 8, 128, device=args.device)),
    }
    times = {label: [] for label in contestants}
    for call in contestants.values():
        call()
    gc.disable()
    while len(times["SDPA"]) < args.calls:
        for label, call in contestants.items():
            wait()
            for _ in range(min(50, args.calls)):
                start = time.perf_counter_ns()
                call()
                times[label].append((time.perf_counter_ns() - start) / 1e3)
    gc.enable()
    return {label: statistics.median(values) for label, values in times.items()}


def _relative(score, b, h, q_idx, kv_idx):
    return score + (q_idx - kv_idx)


FIRST = {"forward": 0.6, "backward": 1.2, "program": 1.0}


def measure_first(kind, args):
    """In a process of its own: seconds of the first call of a specification."""
    use_build(args.build)
    import torch

    import fa2c

    x = torch.zeros(1, device=args.device)  # the context
    q, k, v = (torch.randn(1, 2, 64, 128, device=args.device, dtype=torch.bfloat16) for _ in range(3))
    wait = torch.cuda.synchronize if x.is_cuda else lambda: None
    wait()
    if kind == "backward":
        q.requires_grad_()
        out = fa2c.attention(q, k, v, causal=True)
        wait()
        start = time.perf_counter()
        out.sum().backward()
    else:
        start = time.perf_counter()
        fa2c.attention(q, k, v, causal=True, score_mod=_relative if kind == "program" else None)
    wait()
    print(time.perf_counter() - start)


def first_calls(report, args):
    with tempfile.TemporaryDirectory() as folder:
        for kind, limit in FIRST.items():
            for what in ("empty cache", "full cache"):
                environment = dict(os.environ, FA2_CACHE_DIR=folder)
                if what == "empty cache":
                    environment["CUDA_CACHE_DISABLE"] = "1"
                else:  # the driver keeps machine code at the second of these
                    subprocess.run(_again(kind, args), env=environment, check=True, capture_output=True)
                done = subprocess.run(_again(kind, args), env=environment, capture_output=True, text=True)
                if done.returncode:
                    report.say(False, f"first {kind}: {done.stderr.strip().splitlines()[-1]}")
                    continue
                seconds = float(done.stdout.split()[-1])
                bound = limit if what == "empty cache" else 0.1
                report.say(seconds < bound or args.device == "cpu", f"first {kind}, {what}: {seconds:.3f} s (limit {bound:g})")


def _again(kind, args):
    build = ["--build", str(args.build)] if args.build else []
    return [sys.executable, __file__, "--first", kind, "--device", args.device, *build]


def main(arguments):
    args = parse(arguments)
    if args.first:
        measure_first(args.first, args)
        return 0
    use_build(args.build)
    import torch

    import fa2c

    report = Report()
    first_calls(report, args)  # before this process has a context too, which would share the device
    name = torch.cuda.get_device_name() if args.device != "cpu" else "the simulator"
    print(f"{name}, PyTorch {torch.__version__}, Python {sys.version.split()[0]}, fa2c {fa2c.compiler_version()}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FA2_CACHE_DIR"] = folder
        check_numbers(torch, fa2c, report, args.device)
        check_lengths(torch, fa2c, report, args.device)
        if args.device != "cpu":
            check_cuda(torch, fa2c, report, args.device)
        costs = host_costs(torch, fa2c, args)
    for label, cost in costs.items():
        print(f"{label:20} {cost:6.1f} us")
    for label, limit in (("forward", args.forward_limit), ("forward, autograd", args.autograd_limit)):
        peer = costs[label.replace("forward", "SDPA")]
        report.say(args.device == "cpu" or costs[label] <= min(limit, peer), f"{label}: at most {limit:g} us and SDPA's {peer:.1f}")
    print(f"{report.failed} wrong" if report.failed else "all right")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
