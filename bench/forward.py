#!/usr/bin/env python3
"""Measures fa2's forward kernels against PyTorch's attention. See --help and bench/README.md."""

import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fa2bench import options as command_line  # noqa: E402
from fa2bench.cases import Refused, make_case, paper_grid  # noqa: E402
from fa2bench.kernels import find_kernels  # noqa: E402
from fa2bench.peers import ModulePeer, PyTorchPeer  # noqa: E402
from fa2bench.plot import write_plot  # noqa: E402
from fa2bench.results import Results, read_csv, write_csv  # noqa: E402
from fa2bench.runtime import Library, RuntimeFailure  # noqa: E402
from fa2bench.tables import markdown, terminal  # noqa: E402


def say(text):
    print(text, file=sys.stderr, flush=True)


def write_all(results, options):
    """The files, then the tables on standard output."""
    command_line.prepare_output(options.out)
    written = [options.out / "forward.csv", options.out / "forward.md", options.out / "forward.png"]
    if not (options.render and options.render.resolve() == written[0].resolve()):
        write_csv(results, written[0])
    written[1].write_text(markdown(results, options.head_dims), encoding="utf-8")
    if not write_plot(results, written[2]):
        say("no plot: matplotlib is not installed")
        written.pop()
    print(terminal(results, options.head_dims))
    print("wrote " + ", ".join(map(str, written)))


def find_sets(options, library):
    """({label: kernels} of ours, {label: kernels or a peer object})"""
    ours, peers = {}, {}
    for text in options.variants:
        label, kernels = find_kernels(library, text)
        if label in ours:
            raise Refused(f"{text}: another kernel set is called '{label}'; name one: LABEL={text}")
        ours[label] = kernels
    for name, path in options.peer:
        if name in ours or name in peers:
            raise Refused(f"--peer {name}: that name is taken")
        if path.endswith(".py"):
            peers[name] = ModulePeer(name, path)
        else:
            peers[name] = find_kernels(library, path, name)[1]
    for peer in map(PyTorchPeer, options.pytorch_peers):
        if peer.label in ours or peer.label in peers:
            raise Refused(f"a kernel set or peer is called '{peer.label}', like PyTorch's backend")
        peers[peer.label] = peer
    return ours, peers


def list_kernels(ours, peers):
    sets = list(ours.items()) + [(n, k) for n, k in peers.items() if isinstance(k, dict)]
    for label, kernels in sets:
        for (head_dim, mask, dtype), kernel in sorted(kernels.items()):
            print(f"{label:16} head dim {head_dim:3} {mask:15} {dtype:4} {kernel.schedule_text()}  "
                  f"{kernel.path}")


def make_groups(options, ours, peers):
    """Lists of (label, role, contestant, case); each list is measured interleaved."""
    if options.dims:
        dims = sorted(set(options.dims) | set(options.head_dims))
        grids = [[make_case(d, mask, seqlen, options.dims_heads, options.tokens, options.dtype)
                  for d in dims] for mask in options.masks for seqlen in options.seqlens]
    else:
        grids = [[case] for case in paper_grid(options.head_dims, options.masks, options.seqlens,
                                               options.hidden, options.tokens, options.dtype)]
    for label, kernels in {**ours, **peers}.items():
        if isinstance(kernels, dict):
            check_coverage(label, kernels, {(c.head_dim, c.mask, c.dtype) for g in grids for c in g})
    groups = []
    for cases in grids:
        group = []
        for case in cases:
            key = (case.head_dim, case.mask, case.dtype)
            for role, contestants in (("kernel", ours), ("peer", peers)):
                for label, who in contestants.items():
                    if not isinstance(who, dict):
                        group.append((label, role, who, case))
                    elif key in who:
                        group.append((label, role, who[key], case))
        if group:
            groups.append(group)
    return groups


def check_coverage(label, kernels, wanted):
    """A set that has nothing to measure is refused, what it lacks is told."""
    lacking = sorted(wanted - set(kernels))
    texts = [f"head dim {d} {mask} {dtype}" for d, mask, dtype in lacking]
    if len(lacking) == len(wanted):
        raise Refused(f"{label}: it has no kernel for any of the cases ({', '.join(texts)}); "
                      "--list shows what it has")
    if lacking:
        say(f"{label}: no kernel for {', '.join(texts)}")


def machine_line(torch, library):
    cudnn = torch.backends.cudnn.version() or 0
    text = (f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
            f"cuDNN {cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}")
    if library:
        text += f", fa2 runtime {library.version}"
    x, y = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    from fa2bench.measure import Contestant, interleave
    gemm = Contestant("matrix product", lambda _: x @ y, 1)
    interleave([gemm], 1.0, 60.0)
    return text + f"; a bf16 product of 8192^3 ran at {2 * 8192**3 / gemm.median / 1e9:.0f} TFLOP/s"


def measure(options):
    needs_runtime = bool(options.variants) or any(not p.endswith(".py") for _, p in options.peer)
    library = Library(options.runtime) if needs_runtime else None
    ours, peers = find_sets(options, library)
    if options.list:
        list_kernels(ours, peers)
        return 0
    groups = make_groups(options, ours, peers)  # refuses before a GPU is touched
    command_line.prepare_output(options.out)
    try:
        import torch
    except ImportError:
        raise Refused("PyTorch is not installed; --list and --render work without it") from None
    if not torch.cuda.is_available():
        raise Refused("PyTorch sees no CUDA device; --list and --render work without one")
    from fa2bench.run import Failures, load_and_check, run_groups

    failures = Failures(say)
    results = Results("dims" if options.dims else "grid", "", options.title)
    with torch.inference_mode():
        torch.zeros(1, device="cuda")  # makes the context that the runtime then works in
        results.machine = machine_line(torch, library)
        if options.values != "normal":
            results.machine += f"; values: {options.values}"
        say(results.machine)
        try:
            wanted = {id(who): who for group in groups for _, _, who, _ in group
                      if hasattr(who, "manifest")}
            device = library.open_device("cuda") if library else None
            facts = load_and_check(wanted.values(), library, device, failures, options.seed)
            run_groups(groups, options, facts, results, failures, say)
        except Exception as error:  # what was measured so far is still written
            traceback.print_exc()
            failures.texts.append(f"the run ended early: {error}")
    if results.records:
        write_all(results, options)
    for text in failures.texts:
        print(f"FAILED {text}")
    return 1 if failures.texts else 0


def main(arguments):
    options = command_line.parse(arguments)
    try:
        if options.render:
            write_all(read_csv(options.render), options)
            return 0
        return measure(options)
    except (Refused, RuntimeFailure) as error:
        print(f"forward.py: error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
