#!/usr/bin/env python3
"""Measures fa2's backward kernels against PyTorch's gradients. See --help and bench/README.md."""

import argparse
import math
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fa2bench import ends, options as command_line  # noqa: E402
from fa2bench.cases import LAYOUTS, MASKS, Refused, paper_grid  # noqa: E402
from fa2bench.kernels import find_kernels  # noqa: E402
from fa2bench.peers import BACKENDS, ModulePeer  # noqa: E402
from fa2bench.results import geometric_mean  # noqa: E402
from fa2bench.runtime import Library, RuntimeFailure  # noqa: E402
from fa2bench.values import VALUES  # noqa: E402

EPILOG = """\
examples:
  fa2-compile --pass backward --head-dim 128 --mask causal -o kernels/b128c.ptx      # and so on
  backward.py kernels --runtime build/release/runtime/lib/libfa2rt.so
  backward.py a=tiles/64x128 b=tiles/128x128 --head-dims 64     two schedules side by side

A module of --peer has make_backward(case), which gives f(q, k, v, out, lse, dout, dq, dk, dv);
its gradients are held to the same rule.

All kernels of a program count: statistics, keys, dQ. TFLOP/s count 10 N^2 d heads batch, half
of that when causal; with --head-dim-v (6 d + 4 d_v) N^2 heads batch. Each set's gradients are
held to the accuracy rule against float64 first, on the first and the last head. exit status: 0;
1 when a kernel of ours was wrong; 2 for bad input.
"""


def parse(arguments):
    p = argparse.ArgumentParser(prog="backward.py", epilog=EPILOG, description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kernels", nargs="+", metavar="[LABEL=]KERNELS", help="kernel sets to measure")
    p.add_argument("--runtime", metavar="LIBRARY", help="libfa2rt.so")
    p.add_argument("--head-dims", type=command_line.head_dims, default=[64, 128, 256], metavar="D,...")
    p.add_argument("--head-dim-v", type=command_line.positive, default=0, metavar="D",
                   help="of v, out and dv where it differs; at most the head dim")
    p.add_argument("--seqlens", type=command_line.integers, metavar="N,...",
                   default=[512, 1024, 2048, 4096, 8192, 16384])
    p.add_argument("--masks", type=command_line.one_of(MASKS), default=["none", "causal"])
    p.add_argument("--dtype", choices=("bf16", "f16"), default="bf16")
    p.add_argument("--hidden", type=command_line.positive, default=2048)
    p.add_argument("--tokens", type=command_line.positive, default=16384)
    p.add_argument("--peers", type=command_line.one_of(("flash2", "cudnn", "none")),
                   default=["flash2", "cudnn"], metavar="PEER,...")
    p.add_argument("--peer", action="append", default=[], metavar="NAME=FILE.py",
                   help="a further peer, a Python module")
    p.add_argument("--values", type=command_line.one_of(tuple(VALUES)), default=["normal"], metavar="V,...",
                   help="what q and k look like: " + ", ".join(VALUES))
    p.add_argument("--layouts", type=command_line.one_of(LAYOUTS), default=["bshd"], metavar="L,...",
                   help="the tensors' order in memory: " + ", ".join(LAYOUTS))
    p.add_argument("--seconds", type=command_line.seconds, default=8.0, help="for each case")
    p.add_argument("--pause", type=command_line.milliseconds, default=60.0, metavar="MS")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--csv", type=Path, help="write the figures to this file too")
    return p.parse_args(arguments)


def gradients(q, k, v, dout, mask, scale, exact, given=None):
    """dq, dk, dv of one head: in float64, or as standard attention does in the input dtype. `given`
    (out and lse, as rounded by a forward pass) makes them functions of what a backward kernel gets."""
    import torch
    from fa2bench.check import visible
    n, m = q.shape[0], k.shape[0]
    rows = torch.arange(n, device=q.device)
    hidden = torch.arange(m, device=q.device)[None, :] >= visible(mask, rows, n, m)[:, None]
    if exact:
        q, k, v, dout = (x.double() for x in (q, k, v, dout))
    scores = (q @ k.T).to(torch.float64 if exact else torch.float32) * scale
    scores.masked_fill_(hidden, -math.inf)
    if given:
        p = torch.exp(scores.sub_(given[1].double()[:, None]))
    else:
        p = torch.softmax(scores, 1).nan_to_num_(0).to(q.dtype)
    del scores
    dv = p.T @ dout
    dp = dout @ v.T
    wide = torch.float64 if exact else torch.float32
    if given:
        delta = (dout * given[0].double()).sum(1, keepdim=True)
    else:
        delta = (p.to(wide) * dp.to(wide)).sum(1, keepdim=True)
    ds = (p.to(wide) * (dp.to(wide) - delta)).to(q.dtype)
    return (ds @ k) * scale, (ds.T @ q) * scale, dv


def judge(name, got, wanted, exact, standard):
    """Raises WrongResult unless each row keeps the rule of fa2bench/check.py: `wanted` follows from what
    the kernel is given; `standard` is held against the exact gradient."""
    import torch
    from fa2bench.check import WrongResult, ulp
    error = (got.double() - wanted).abs().amax(1)
    base = (standard.double() - exact).abs().amax(1)
    allowed = (2 * torch.maximum(base, base.median())
               + 2 * ulp(got.dtype, exact.abs().amax(1)))
    share = torch.where(error == 0, torch.zeros_like(error), error / allowed)
    share = share.nan_to_num(math.inf, posinf=math.inf)
    worst = int(share.argmax())
    if not share[worst] <= 1:
        raise WrongResult(f"{name} row {worst}: error {float(error[worst]):.3g} exceeds the allowed "
                          f"{float(allowed[worst]):.3g}")
    return float(share[worst])


class Inputs:
    """Tensors of a case, [batch, heads, seqlen, head dim], in memory as its layout says."""

    def __init__(self, case, generator):
        import torch
        from fa2bench.inputs import TORCH_DTYPES
        inner = (case.seqlen, case.heads) if case.layout == "bshd" else (case.heads, case.seqlen)
        dtype = TORCH_DTYPES[case.dtype]

        def draw(head_dim):
            x = torch.randn((case.batch, *inner, head_dim), device="cuda", generator=generator).to(dtype)
            return x.transpose(1, 2) if case.layout == "bshd" else x
        self.case, self.scale = case, 1 / math.sqrt(case.head_dim)
        self.q, self.k = draw(case.head_dim), draw(case.head_dim)
        self.v, self.dout = draw(case.head_dim_v), draw(case.head_dim_v)
        VALUES[case.values](self.q, self.k)
        self.out, self.lse = self.forward()

    def forward(self):
        """out and lse of PyTorch's FlashAttention-2, whose v is as wide as q."""
        import torch
        from torch.nn.functional import pad
        case = self.case
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention(
            self.q, self.k, pad(self.v, (0, case.head_dim - case.head_dim_v)), 0.0, case.mask != "none", False,
            scale=self.scale)[:2]
        if case.head_dim_v < case.head_dim:
            out = torch.empty_like(self.v).copy_(out[..., :case.head_dim_v])
        return out, lse


def checked_launch(name, inputs, bind):
    """(launch, the worst row's share of its allowance); bind(tensors) gives what a stream is passed to."""
    import torch
    from fa2bench.check import current_stream
    from fa2bench.run import synchronize
    grads = [torch.full_like(x, math.nan) for x in (inputs.q, inputs.k, inputs.v)]
    call = bind({"q": inputs.q, "k": inputs.k, "v": inputs.v, "out": inputs.out, "lse": inputs.lse,
                 "dout": inputs.dout, "dq": grads[0], "dk": grads[1], "dv": grads[2]})
    call(current_stream("cuda"))
    synchronize(name)
    worst, case = 0.0, inputs.case
    for b, h in {(0, 0), (case.batch - 1, case.heads - 1)}:
        head = [x[b, h] for x in (inputs.q, inputs.k, inputs.v, inputs.dout)]
        wanted = gradients(*head, case.mask, inputs.scale, True, (inputs.out[b, h], inputs.lse[b, h]))
        exact = gradients(*head, case.mask, inputs.scale, True)
        standard = gradients(*head, case.mask, inputs.scale, False)
        for name, got, *rows in zip(("dq", "dk", "dv"), grads, wanted, exact, standard):
            worst = max(worst, judge(f"batch entry {b}, head {h}, {name}", got[b, h], *rows))
    return (lambda _: call(current_stream("cuda"))), worst


def module_launch(peer, inputs):
    """As checked_launch, of a module's gradients."""
    call = peer.make_backward(inputs.case)
    return checked_launch(peer.label, inputs, lambda tensors: lambda _: call(*tensors.values()))


def peer_launch(name, inputs):
    """autograd's backward through one of PyTorch's backends."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    leaves = [x.detach().requires_grad_() for x in (inputs.q, inputs.k, inputs.v)]
    with sdpa_kernel(getattr(SDPBackend, BACKENDS[name][1])), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = scaled_dot_product_attention(*leaves, is_causal=inputs.case.mask != "none",
                                           scale=inputs.scale)
    return lambda _: torch.autograd.grad(out, leaves, inputs.dout, retain_graph=True)


def refuse_peer(text):
    raise Refused(f"--peer is {text}; expected NAME=FILE.py")


def measure(options):
    library = Library(options.runtime)
    sets = {}
    for text in options.kernels:
        label, kernels = find_kernels(library, text, pass_="backward")
        if label in sets:
            raise Refused(f"{text}: another kernel set is called '{label}'; name one: LABEL={text}")
        if not kernels:
            raise Refused(f"{text}: no backward kernels there (fa2-compile --pass backward)")
        sets[label] = kernels
    modules = [ModulePeer(*text.split("=", 1), "make_backward") if "=" in text else refuse_peer(text)
               for text in options.peer]
    if options.head_dim_v > min(options.head_dims):
        raise Refused(f"--head-dim-v is {options.head_dim_v}; expected at most the head dim, "
                      f"{min(options.head_dims)}")
    cases = [case for layout in options.layouts for values in options.values
             for case in paper_grid(options.head_dims, options.masks, options.seqlens, options.hidden,
                                    options.tokens, options.dtype, layout=layout, values=values,
                                    head_dim_v=options.head_dim_v)]
    torch = ends.with_gpu()
    from fa2bench.check import WrongResult
    from fa2bench.measure import Contestant, interleave
    from fa2bench.run import allocate
    device = library.open_device("cuda")
    loaded, failures, rows, ratios = set(), [], [], {}
    generator = torch.Generator(device="cuda").manual_seed(options.seed)
    for case in cases:
        torch.cuda.empty_cache()
        inputs, contestants, notes = Inputs(case, generator), [], {}
        for label, kernels in sets.items():
            kernel = kernels.get(case.key)
            if kernel is None:
                continue
            try:
                if id(kernel) not in loaded:
                    kernel.load(library, device)
                    loaded.add(id(kernel))
                launch, notes[label] = checked_launch(kernel.name, inputs,
                                                      lambda tensors: kernel.bind_named(tensors, allocate))
            except (WrongResult, RuntimeFailure) as error:
                failures.append(f"{kernel.name}, {case}: {error}")
                continue
            contestants.append(Contestant(label, launch, 1))
        for peer in modules:
            try:
                launch, notes[peer.label] = module_launch(peer, inputs)
                contestants.append(Contestant(peer.label, launch, 1))
            except (WrongResult, RuntimeError) as error:
                print(f"{peer.label}, {case}: {error}", file=sys.stderr)
        for name in options.peers:
            if name != "none":
                try:
                    peer = Contestant(BACKENDS[name][0], peer_launch(name, inputs), 1)
                    peer.launch(0)
                    torch.cuda.synchronize()
                    contestants.append(peer)
                except RuntimeError as error:
                    print(f"{BACKENDS[name][0]}: {str(error).splitlines()[0]}", file=sys.stderr)
        interleave(contestants, options.seconds, options.pause)
        figures = {c.label: case.backward_flops / c.median / 1e9 for c in contestants}
        base = figures.get(BACKENDS["flash2"][0])
        text = "  ".join(f"{label} {value:6.1f}" for label, value in figures.items())
        for label in sets:
            if base and label in figures:
                ratios.setdefault((label, case.head_dim, case.mask), []).append(figures[label] / base)
                text += f"  {label}/FA2 {figures[label] / base:.3f}"
        kind = f" {case.layout} {case.values}" if len(options.layouts) * len(options.values) > 1 else ""
        print(f"d {case.head_dim:3} {case.mask:6} {case.seqlen:6}{kind}  {text}", flush=True)
        rows += [f"{label},{case.head_dim},{case.mask},{case.seqlen},{value:.2f},{notes.get(label, '')},"
                 f"{case.batch},{case.layout},{case.values}" for label, value in figures.items()]
    for (label, head_dim, mask), values in ratios.items():
        print(f"{label}, head dim {head_dim}, {mask}: {geometric_mean(values):.3f} times FlashAttention-2 "
              f"in geometric mean, {min(values):.3f} at least")
    if options.csv:
        options.csv.write_text("\n".join(["label,head_dim,mask,seqlen,tflops,worst_row,batch,layout,values", *rows,
                                          ""]))
    return ends.status_of(failures)


def main(arguments):
    options = parse(arguments)
    return ends.said("backward.py", lambda: measure(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
