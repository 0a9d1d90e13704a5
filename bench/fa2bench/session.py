"""What the forward benchmarks do alike: find the contestants, see that there is a GPU, run, write."""

import sys
import traceback

from . import options as command_line
from .cases import Refused, key_text
from .ends import status_of, with_gpu
from .kernels import find_kernels
from .peers import ModulePeer, PyTorchPeer
from .runtime import Library


def say(text):
    print(text, file=sys.stderr, flush=True)


def open_library(options):
    """None where no contestant needs the runtime."""
    needed = bool(options.variants) or any(not p.endswith(".py") for _, p in options.peer)
    return Library(options.runtime) if needed else None


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
        for (head_dim, head_dim_v, mask, dtype), kernel in sorted(kernels.items()):
            dims = str(head_dim) if head_dim == head_dim_v else f"{head_dim}/{head_dim_v}"
            print(f"{label:16} head dim {dims:>3} {mask:15} {dtype:4} {kernel.schedule_text()}  {kernel.path}")


def check_coverage(label, kernels, wanted):
    """A set that has nothing to measure is refused, what it lacks is told."""
    lacking = sorted(wanted - set(kernels))
    texts = ", ".join(map(key_text, lacking))
    if len(lacking) == len(wanted):
        raise Refused(f"{label}: it has no kernel for any of the cases ({texts}); --list shows what it has")
    if lacking:
        say(f"{label}: no kernel for {texts}")


def entries_of(cases, ours, peers):
    """[(label, role, contestant, case)] of everyone who does them."""
    entries = []
    for case in cases:
        for role, contestants in (("kernel", ours), ("peer", peers)):
            for label, who in contestants.items():
                if not isinstance(who, dict):
                    entries.append((label, role, who, case))
                elif case.key in who:
                    entries.append((label, role, who[case.key], case))
    return entries


def machine_line(torch, library):
    cudnn = torch.backends.cudnn.version() or 0
    text = (f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
            f"cuDNN {cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}")
    if library:
        text += f", fa2 runtime {library.version}"
    x, y = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    from .measure import Contestant, interleave
    gemm = Contestant("matrix product", lambda _: x @ y, 1)
    interleave([gemm], 1.0, 60.0)
    return text + f"; a bf16 product of 8192^3 ran at {2 * 8192**3 / gemm.median / 1e9:.0f} TFLOP/s"


def run(groups, options, library, results, write, **how):
    """Measures the groups that make(...) gave; the exit status. `how`: more for run_groups."""
    command_line.prepare_output(options.out)
    torch = with_gpu(otherwise="; --list and --render work without")
    from .run import Failures, load_and_check, run_groups

    failures = Failures(say)
    with torch.inference_mode():
        results.machine = machine_line(torch, library) + results.machine
        say(results.machine)
        try:
            wanted = {id(who): who for group in groups for _, _, who, _ in group.entries
                      if hasattr(who, "manifest")}
            device = library.open_device("cuda") if library else None
            facts = load_and_check(wanted.values(), library, device, failures, options.seed)
            run_groups(groups, options, facts, results, failures, say, **how)
        except Exception as error:  # what was measured so far is still written
            traceback.print_exc()
            failures.texts.append(f"the run ended early: {error}")
    if results.records:
        write(results, options)
    return status_of(failures.texts)
