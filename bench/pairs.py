#!/usr/bin/env python3
"""Measures pairs of forward cases in one run: f16 beside bf16, grouped heads beside plain ones, and head
dims of q and v that differ beside cuDNN. See --help and bench/README.md."""

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fa2bench import ends, options as command_line  # noqa: E402
from fa2bench.cases import MASKS, Refused  # noqa: E402
from fa2bench.kernels import KernelFile  # noqa: E402
from fa2bench.peers import PyTorchPeer  # noqa: E402
from fa2bench.results import geometric_mean  # noqa: E402
from fa2bench.runtime import Library, RuntimeFailure, manifest_of  # noqa: E402

HEADS, GROUPED_HEADS = 32, 8  # of queries; of keys where heads are grouped

EPILOG = """\
example: pairs.py kernels/*.ptx --runtime build/release/runtime/lib/libfa2rt.so

Every file is one forward kernel. A head dim and mask with kernels of both dtypes gives a ratio of f16 to
bf16, and cuDNN's own beside it, and one of f16 on values rounded to bf16's 8 bits ("f16 rounded"), which shows
what the multipliers' power makes of it; each bf16 kernel, a ratio of 32 query heads on 8 key heads to 32 on
32; a kernel whose head dims differ, a ratio to cuDNN. Ratios are of speed. exit status: 0; 1 when a kernel was wrong; 2 for bad input.
"""


def parse(arguments):
    p = argparse.ArgumentParser(prog="pairs.py", epilog=EPILOG, description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kernels", nargs="+", type=Path, metavar="PTX")
    p.add_argument("--runtime", metavar="LIBRARY", help="libfa2rt.so")
    p.add_argument("--seqlens", type=command_line.integers, metavar="N,...", default=[2048, 8192])
    p.add_argument("--tokens", type=command_line.positive, default=16384, help="batch * seqlen")
    p.add_argument("--seconds", type=command_line.seconds, default=3.0, help="for each case")
    p.add_argument("--pause", type=command_line.milliseconds, default=60.0, metavar="MS")
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args(arguments)


@dataclass(frozen=True, order=True)
class Problem:
    head_dim: int
    head_dim_v: int
    mask: str


def read(paths, library):
    """{problem: {dtype: KernelFile}}"""
    kernels = {}
    for path in paths:
        try:
            ptx = path.read_bytes()
            library.check_manifest(ptx)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from None
        except RuntimeFailure as error:
            raise Refused(f"{path}: {error}") from None
        s = manifest_of(ptx)["specification"]
        if s["pass"] != "forward" or s["mask"] not in MASKS:
            raise Refused(f"{path}: pass {s['pass']}, mask {s['mask']}; expected a forward kernel")
        problem = Problem(s["head_dim"], s["head_dim_v"], s["mask"])
        same = kernels.setdefault(problem, {})
        if s["dtype"] in same:
            raise Refused(f"{path}: {same[s['dtype']].path} is for the same head dims, mask and dtype")
        same[s["dtype"]] = KernelFile("fa2", path, ptx, None, manifest_of(ptx))
    return kernels


class Run:
    """A kernel, or a peer, on sets of random tensors that together exceed the L2 cache."""

    def __init__(self, problem, dtype, heads_kv, seqlen, tokens, generator, rounded=False):
        import torch
        from fa2bench.measure import set_count
        from fa2bench.inputs import TORCH_DTYPES

        def draw(heads, dim):
            values = torch.randn(tokens // seqlen, heads, seqlen, dim, device="cuda", generator=generator)
            return (values.bfloat16() if rounded else values).to(TORCH_DTYPES[dtype])
        size = 2 * tokens * (HEADS * problem.head_dim + heads_kv * (problem.head_dim + problem.head_dim_v))
        self.problem, self.heads_kv = problem, heads_kv
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self.sets = [(draw(HEADS, problem.head_dim), draw(heads_kv, problem.head_dim),
                      draw(heads_kv, problem.head_dim_v)) for _ in range(set_count(size, l2_bytes))]

    def launch_of(self, kernel):
        """The launch, after the first and the last head of one were found right."""
        import torch
        from fa2bench.check import HeadReference, current_stream
        from fa2bench.run import allocate, synchronize
        calls, outs = [], []
        for q, k, v in self.sets:
            out = torch.full((*q.shape[:3], v.shape[3]), math.nan, device="cuda", dtype=q.dtype)
            lse = torch.full(q.shape[:3], math.nan, device="cuda")
            calls.append(kernel.bind(q, k, v, out, lse, allocate))
            outs.append((out, lse))
        calls[0](current_stream("cuda"))
        synchronize(kernel.name)
        (q, k, v), (out, lse) = self.sets[0], outs[0]
        for b, h in ((0, 0), (q.shape[0] - 1, HEADS - 1)):
            kv = h // (HEADS // self.heads_kv)
            HeadReference(q[b, h], k[b, kv], v[b, kv], self.problem.mask,
                          1 / math.sqrt(self.problem.head_dim)).judge(
                out[b, h], lse[b, h], f"{kernel.name}: batch entry {b}, head {h}, ")
        return lambda index: calls[index](current_stream("cuda"))


def measure(options):
    library = Library(options.runtime)
    kernels = read(options.kernels, library)
    torch = ends.with_gpu()
    from fa2bench.check import WrongResult
    from fa2bench.measure import Contestant, interleave
    device = library.open_device("cuda")
    generator = torch.Generator(device="cuda").manual_seed(options.seed)
    ratios, failures = {}, []
    for problem, by_dtype in sorted(kernels.items()):
        for kernel in by_dtype.values():
            kernel.load(library, device)
        for seqlen in options.seqlens:
            torch.cuda.empty_cache()
            contestants = {}
            cases = [(dtype, dtype, HEADS) for dtype in sorted(by_dtype)]
            if len(by_dtype) > 1:
                cases.append(("f16 rounded", "f16", HEADS))
            if "bf16" in by_dtype and problem.head_dim == problem.head_dim_v:
                cases.append(("grouped", "bf16", GROUPED_HEADS))
            for name, dtype, heads_kv in cases:
                run = Run(problem, dtype, heads_kv, seqlen, options.tokens, generator, name == "f16 rounded")
                try:
                    contestants[name] = Contestant(name, run.launch_of(by_dtype[dtype]), len(run.sets))
                except (WrongResult, RuntimeFailure) as error:
                    failures.append(str(error))
                if name == dtype and (len(by_dtype) > 1 or problem.head_dim != problem.head_dim_v):
                    peer = PyTorchPeer("cudnn").make(problem.head_dim, problem.mask != "none", None)
                    try:
                        peer(*run.sets[0])
                        contestants[f"cuDNN {dtype}"] = Contestant(
                            f"cuDNN {dtype}", lambda i, r=run, p=peer: p(*r.sets[i]), len(run.sets))
                    except RuntimeError as error:
                        print(f"cuDNN: {str(error).splitlines()[0]}", file=sys.stderr)
            interleave(list(contestants.values()), options.seconds, options.pause)
            text = f"d {problem.head_dim:3} d_v {problem.head_dim_v:3} {problem.mask:6} {seqlen:6}"
            for over, under in (("f16", "bf16"), ("f16 rounded", "bf16"), ("cuDNN f16", "cuDNN bf16"),
                                ("grouped", "bf16"), ("bf16", "cuDNN bf16"), ("f16", "cuDNN f16")):
                if over in contestants and under in contestants:
                    ratio = contestants[under].median / contestants[over].median
                    ratios.setdefault(f"{over} / {under}", []).append(ratio)
                    text += f"  {over}/{under} {ratio:.3f}"
            print(text, flush=True)
    for name, values in ratios.items():
        print(f"{name}: {geometric_mean(values):.3f} in geometric mean, {min(values):.3f} at least")
    return ends.status_of(failures)


def main(arguments):
    options = parse(arguments)
    return ends.said("pairs.py", lambda: measure(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
