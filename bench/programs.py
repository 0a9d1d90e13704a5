#!/usr/bin/env python3
"""Measures and checks FlexAttention's published programs by fa2c.attention beside compiled FlexAttention. See --help."""

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent / "python")]

from fa2bench import options as command_line  # noqa: E402
from python_call import reference, use_build, worst  # noqa: E402

EPILOG = """\
example: programs.py --build build/release

Each program is checked on a small case against float64, forward and backward, and on the timed case against FlexAttention's out and
gradients. Times are the device's, in one run, medians of bursts that take turns (bench/README.md); a ratio above 1 says that fa2c is faster.
First calls are seconds until the result is there, with empty caches of both (set CUDA_CACHE_DISABLE=1 for the driver's). --device cpu checks
against float64 alone, on the simulator. exit status: 0; 1 when something was wrong. What fa2c refuses is named, and not wrong.
"""


DENSE = "dense bias"


def programs(torch, heads, n, device, dense=True):
    """{name: (score_mod, mask_mod)}, for sequences of n tokens; behind them the captured tensors that are trained. A dense bias is large."""
    draw = torch.Generator().manual_seed(5)
    slopes = torch.exp2(-8.0 * torch.arange(1, heads + 1) / heads).to(device)
    table = torch.randn(heads, 2 * n - 1, generator=draw).to(device)
    # T5's buckets of the distance to an earlier key: 16 of one each, 16 that grow by their logarithm up to 128.
    far = 16 + (torch.log(torch.arange(n).clamp(16) / 16) / math.log(128 / 16) * 16).long()
    buckets = torch.where(torch.arange(n) < 16, torch.arange(n), far.clamp(max=31)).to(device, torch.int32)
    learned, weights = (torch.randn(heads, size, generator=draw).to(device).requires_grad_() for size in (2 * n - 1, 32))
    documents = torch.sort(torch.randint(8, (n,), generator=draw))[0].to(device, torch.int32)
    bias = torch.randn(heads, n, n, device=device, dtype=torch.bfloat16) if dense else None
    keys = torch.randn(n, generator=draw).to(device)
    # Places of a table of 64 numbers a head that any two tokens may have.
    places = torch.randint(64, (n, n), device=device, dtype=torch.int32)
    near, prefix = max(n // 8, 4), max(n // 8, 4)

    def causal(b, h, q, kv):
        return q >= kv

    def window(b, h, q, kv):
        return (q >= kv) & (q - kv <= near)

    def prefix_lm(b, h, q, kv):
        return (kv < prefix) | (q >= kv)

    def document(b, h, q, kv):
        return (q >= kv) & (documents[q] == documents[kv])

    def neighbourhood(b, h, q, kv):
        return torch.abs(q - kv) <= near // 2

    return {
        "none": (None, None),
        "causal": (None, causal),
        "relative bias": (lambda score, b, h, q, kv: score + (q - kv), None),
        "ALiBi": (lambda score, b, h, q, kv: score + torch.exp2(-8.0 * (h + 1) / heads) * (kv - q), causal),
        "ALiBi, slopes captured": (lambda score, b, h, q, kv: score + slopes[h] * (kv - q), causal),
        "softcap": (lambda score, b, h, q, kv: 20 * torch.tanh(score / 20), causal),
        "sliding window": (None, window),
        "prefix LM": (None, prefix_lm),
        "document": (None, document),
        "neighbourhood": (None, neighbourhood),
        "relative table": (lambda score, b, h, q, kv: score + table[h, q - kv + (n - 1)], causal),
        "relative table, trained": (lambda score, b, h, q, kv: score + learned[h, q - kv + (n - 1)], causal, learned),
        DENSE: (lambda score, b, h, q, kv: score + bias[h, q, kv], None),
        "bias of keys": (lambda score, b, h, q, kv: score + keys[kv], None),
        "table of places": (lambda score, b, h, q, kv: score + table[h, places[q, kv]], None),
        "T5 buckets, trained": (lambda score, b, h, q, kv: score + weights[h, buckets[torch.abs(q - kv)]], causal, weights),
    }


def parse(arguments):
    p = argparse.ArgumentParser(prog="programs.py", description=__doc__, epilog=EPILOG,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=Path, metavar="FOLDER", help="of the libraries; an installed fa2c has its own")
    p.add_argument("--device", default="cuda")
    p.add_argument("--head-dim", type=command_line.positive, default=128)
    p.add_argument("--heads", type=command_line.positive, default=16)
    p.add_argument("--seqlen", type=command_line.positive, default=8192)
    p.add_argument("--seconds", type=command_line.seconds, default=2.0, help="of measurement a program and pass")
    p.add_argument("--only", nargs="+", metavar="PROGRAM")
    return p.parse_args(arguments)


def inputs(torch, heads, n, d, device):
    """(q, k, v, dout)"""
    torch.manual_seed(7)
    q, k, v, dout = (torch.randn(1, heads, n, d, device=device).to(torch.bfloat16) for _ in range(4))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), dout


def dense(torch, score_mod, mask_mod, heads, n, device):
    """What the functions make of all scores at once."""
    places = [torch.zeros(1, 1, 1, 1, dtype=torch.int32), torch.arange(heads, dtype=torch.int32)[None, :, None, None],
              torch.arange(n, dtype=torch.int32)[:, None], torch.arange(n, dtype=torch.int32)]
    places = [x.to(device) for x in places]

    def change(scores):
        if score_mod is not None:
            scores = score_mod(scores, *places)
        return scores if mask_mod is None else scores.masked_fill(~mask_mod(*places), float("-inf"))

    return change


def check(torch, fa2c, name, args):
    """(whether it is right, what to say) of a small case against float64."""
    heads, n = (2, 40) if args.device == "cpu" else (4, 333)
    score_mod, mask_mod, *_ = programs(torch, heads, n, args.device)[name]
    q, k, v, dout = inputs(torch, heads, n, args.head_dim, args.device)
    out = fa2c.attention(q, k, v, score_mod=score_mod, mask_mod=mask_mod)
    wanted = reference(torch, q, k, v, False, dout, dense(torch, score_mod, mask_mod, heads, n, args.device))
    errors = [worst(torch, out, wanted[0])]
    try:
        errors += [worst(torch, g, w) for g, w in zip(torch.autograd.grad(out, (q, k, v), dout), wanted[1:])]
    except NotImplementedError as error:
        return errors[0] < 1, f"out {errors[0]:.2f} of what is allowed; gradients refused: {error}"
    return max(errors) < 1, "out, dq, dk, dv: " + " ".join(f"{e:.2f}" for e in errors) + " of what is allowed"


def timed(torch, call):
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = call()
    torch.cuda.synchronize()
    return result, time.perf_counter() - start


def cudnn_with(torch, bias):
    """A function of q, k, v: cuDNN's attention with a bias that all entries share."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def call(q, k, v):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])

    return call


def compiled_flex(torch, score_mod, mask_mod, args):
    """A function of q, k, v."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()  # which else stops compiling after some programs
    block_mask = mask_mod and create_block_mask(mask_mod, None, None, args.seqlen, args.seqlen, device=args.device)
    flex = torch.compile(flex_attention, dynamic=False)
    return lambda q, k, v: flex(q, k, v, score_mod=score_mod, block_mask=block_mask)


def compare(torch, fa2c, name, args):
    """A row of the table, and whether both results agree."""
    from fa2bench.measure import Contestant, interleave

    score_mod, mask_mod, *learned = programs(torch, args.heads, args.seqlen, args.device, name == DENSE)[name]
    q, k, v, dout = inputs(torch, args.heads, args.seqlen, args.head_dim, args.device)
    calls = {"fa2c": lambda *x: fa2c.attention(*x, score_mod=score_mod, mask_mod=mask_mod),
             "FlexAttention": compiled_flex(torch, score_mod, mask_mod, args)}
    results, first, milliseconds = {}, {}, {}
    for label, call in calls.items():
        with torch.no_grad():
            _, first[label, "forward"] = timed(torch, lambda: call(q, k, v))
        out, _ = timed(torch, lambda: call(q, k, v))
        gradients, first[label, "backward"] = timed(
            torch, lambda: torch.autograd.grad(out, (q, k, v, *learned), dout, retain_graph=True))
        results[label] = out, *gradients

    def forward(call):
        with torch.no_grad():
            call(q, k, v)

    passes = {"forward": lambda label: lambda _: forward(calls[label]),
              "backward": lambda label: lambda _: torch.autograd.grad(results[label][0], (q, k, v, *learned), dout,
                                                                        retain_graph=True)}
    beside = ""
    for what, make in passes.items():
        contestants = [Contestant(label, make(label), 1) for label in calls]
        if name == DENSE and what == "forward":
            bias = next(cell.cell_contents for cell in score_mod.__closure__)
            cudnn = cudnn_with(torch, bias)
            contestants.append(Contestant("cuDNN", lambda _: forward(cudnn), 1))
        interleave(contestants, args.seconds, 30)
        milliseconds.update({(c.label, what): c.median for c in contestants})
    if ("cuDNN", "forward") in milliseconds:
        theirs = milliseconds["cuDNN", "forward"]
        beside = f"; cuDNN's forward takes {theirs:.2f} ms, {theirs / milliseconds['fa2c', 'forward']:.2f} of fa2c's"
    pairs = list(zip(results["fa2c"], results["FlexAttention"]))
    errors = [worst(torch, mine, theirs.detach().double()) for mine, theirs in pairs[:4]]
    # A sum of thousands of numbers that bf16 has rounded: within 2 percent of the largest.
    errors += [float((mine - theirs).abs().max() / theirs.abs().max()) / 0.02 for mine, theirs in pairs[4:]]
    cells = []
    for what in passes:
        ours, theirs = milliseconds["fa2c", what], milliseconds["FlexAttention", what]
        cells += [f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.2f}", f"{first['fa2c', what]:.2f}", f"{first['FlexAttention', what]:.2f}"]
    return f"| {name} | {' | '.join(cells)} |", max(errors) < 2, "beside FlexAttention's: " + " ".join(f"{e:.2f}" for e in errors) + beside


def main(arguments):
    args = parse(arguments)
    use_build(args.build)
    import torch
    import torch._functorch.config

    import fa2c

    torch._functorch.config.donated_buffer = False  # backward passes are repeated
    names = args.only or [*programs(torch, 1, 8, "cpu")]
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FA2_CACHE_DIR"] = folder
        for name in names:
            try:
                # The timed case first: its first calls are the first of all.
                row, good, text = compare(torch, fa2c, name, args) if args.device != "cpu" else (None, True, "")
                right, more = check(torch, fa2c, name, args)
            except NotImplementedError as error:
                print(f"refused {name}: {error}", flush=True)
                continue
            except Exception as error:  # of FlexAttention as well: the other programs are measured all the same
                row, good, text, right, more = None, False, f"{type(error).__name__}: {str(error).splitlines()[0]}", True, ""
            rows.append(row)
            wrong += not (good and right)
            print(("ok    " if good and right else "WRONG ") + f"{name}: {more} {text}", flush=True)
            print(row or "", flush=True)
    print("\n| program | forward, ms | FlexAttention | ratio | first, s | FlexAttention | backward, ms | FlexAttention | ratio | first, s | FlexAttention |\n"
          + "|---" * 11 + "|\n" + "\n".join(row for row in rows if row))
    print(f"{wrong} wrong" if wrong else "all right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
