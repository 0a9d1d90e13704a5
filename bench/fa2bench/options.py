"""The command line of bench/forward.py."""

import argparse
from pathlib import Path

from .cases import DTYPES, LAYOUTS, MASKS, Refused
from .values import VALUES

EPILOG = """\
examples:
  forward.py kernels                            the paper's grid against PyTorch's backends
  forward.py --variants tiles/64x64 tiles/128x64 --head-dims 128 --seqlens 2048,8192
                                                two schedules and the peers in one run
  forward.py kernels --dims 32,40,72,96         other head dims against the tuned ones
  forward.py kernels --peer mine=mine.py --peer trial='cubins/*.cubin'
  forward.py --render results/forward.csv       tables and plot of an earlier run, no GPU
  forward.py kernels --list                     what the files' manifests say, no GPU

A kernel set is a directory (its *.ptx), a file or a glob; [LABEL=] names it, else the
directory does. A .cubin is loaded with the manifest of the .ptx beside it or, when there is
none, of the .json beside it. --peer NAME=module.py: the module's
make(head_dim, causal, dtype) gives a callable (q, k, v) -> out on [batch, heads, seqlen,
head_dim] tensors, or None for what it does not do; dtype is torch's.

exit status: 0; 1 when a kernel of ours failed to load, launch or give right results
(its figures are left out and the failure is named); 2 for bad input.
"""


def positive(text):
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def seconds(text):
    value = float(text)
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from 0 to 86400")
    return value


def milliseconds(text):
    value = float(text)
    if not 0 <= value <= 10000:
        raise argparse.ArgumentTypeError(f"{text} is not 0 to 10000 milliseconds")
    return value


def integers(text):
    values = [positive(part) for part in text.split(",")]
    if len(set(values)) != len(values):
        raise argparse.ArgumentTypeError(f"{text} names a value twice")
    return values


def head_dims(text):
    values = integers(text)
    for value in values:
        if value % 8 or value > 256:
            raise argparse.ArgumentTypeError(
                f"head dim {value} is not a multiple of 8 up to 256; "
                f"the nearest is {min(256, max(8, (value + 4) // 8 * 8))}")
    return values


def named_file(text):
    """NAME=FILE: (NAME, FILE)"""
    name, _, file = text.partition("=")
    if not name or not file:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=FILE")
    return name, file


def one_of(allowed):
    def parse(text):
        values = text.split(",")
        for value in values:
            if value not in allowed:
                raise argparse.ArgumentTypeError(f"{value} is none of {', '.join(allowed)}")
        return values
    return parse


def add_kernels(p):
    p.add_argument("kernels", nargs="*", metavar="[LABEL=]KERNELS", help="kernel sets to measure")
    p.add_argument("--variants", nargs="+", action="extend", default=[], metavar="[LABEL=]KERNELS",
                   help="more kernel sets, measured side by side")
    p.add_argument("--runtime", metavar="LIBRARY",
                   help="libfa2rt.so (default: $FA2RT_LIBRARY, then build*/ of this tree, "
                        "then the system's)")


def add_peers(p):
    peers = p.add_argument_group("peers")
    peers.add_argument("--peers", type=one_of(("flash2", "cudnn", "none")), default=["flash2", "cudnn"],
                       metavar="PEER,...", help="PyTorch's backends: flash2, cudnn; or none")
    peers.add_argument("--peer", action="append", default=[], metavar="NAME=PATH",
                       help="a further peer: a Python module, or a kernel set with manifests")


def add_how(p):
    how = p.add_argument_group("how to measure")
    how.add_argument("--seconds", type=seconds, default=200.0,
                     help="time for the measurements; repetitions are chosen by it (default: 200)")
    how.add_argument("--pause", type=milliseconds, default=60.0, metavar="MS",
                     help="idle time before each burst of launches (default: 60)")
    how.add_argument("--seed", type=int, default=0)
    return how


def add_output(p, files):
    out = p.add_argument_group("output")
    out.add_argument("--out", type=Path, default=Path("bench-results"), metavar="DIRECTORY",
                     help=f"for {files} (default: bench-results)")
    out.add_argument("--title", default="", help="a line above the tables")
    out.add_argument("--list", action="store_true", help="list the kernels found and stop")
    out.add_argument("--render", type=Path, metavar="CSV",
                     help="write the tables of an earlier run's CSV and stop")


def parser():
    p = argparse.ArgumentParser(
        prog="forward.py", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
        description="Measures fa2's forward kernels against PyTorch's attention on this GPU.")
    add_kernels(p)
    what = p.add_argument_group("what to measure")
    what.add_argument("--head-dims", type=head_dims, default=[64, 128, 256], metavar="D,...")
    what.add_argument("--seqlens", type=integers, metavar="N,...",
                      help="default: 512 to 16384; with --dims: 2048,8192")
    what.add_argument("--masks", type=one_of(MASKS), default=["none", "causal"], metavar="MASK,...",
                      help="none, causal, causal_top_left, strictly_causal (default: none,causal)")
    what.add_argument("--dtype", choices=DTYPES, default="bf16")
    what.add_argument("--hidden", type=positive, default=2048, help="heads * head dim (default: 2048)")
    what.add_argument("--tokens", type=positive, default=16384,
                      help="batch * seqlen (default: 16384)")
    what.add_argument("--layout", choices=LAYOUTS, default="bhsd",
                      help="the tensors' order in memory, innermost last (default: bhsd)")
    what.add_argument("--values", choices=tuple(VALUES), default="normal",
                      help="what the scores look like: of standard deviation 1, 3 or 6; a first key 20 nats above "
                           "the rest; later keys 0.05 nats higher each; or 8 powers of two every 64 keys, falling or "
                           "rising in the order in which kernels take them (default: normal)")
    what.add_argument("--dims", type=head_dims, metavar="D,...",
                      help="time these head dims, and print each time's ratio to the linear "
                           "interpolation, at d rounded up to 16, between --head-dims' times")
    what.add_argument("--dims-heads", type=positive, default=16, metavar="H",
                      help="heads at every head dim of --dims (default: 16)")
    add_peers(p)
    add_how(p)
    add_output(p, "forward.csv, .md and .png")
    p.set_defaults(bits=False, untimed=False)
    return p


def parse(arguments):
    """Parses and checks a command line; exits with status 2 where it is bad."""
    p = parser()
    options = p.parse_args(arguments)
    finish(p, options)
    if options.seqlens is None:
        options.seqlens = [2048, 8192] if options.dims else [512 << i for i in range(6)]
    if options.dims and not options.variants:
        p.error("--dims needs a kernel set")
    return options


def finish(p, options):
    """What the groups of arguments above mean together."""
    options.variants = options.kernels + options.variants
    options.pytorch_peers = [peer for peer in options.peers if peer != "none"]
    if "none" in options.peers and options.pytorch_peers:
        p.error("--peers none stands alone")
    if options.render and options.variants:
        p.error("--render takes no kernels: it reads an earlier run's figures")
    if not options.render and not options.variants and not (options.pytorch_peers or options.peer):
        p.error("nothing to measure: name a kernel set or a peer")
    options.peer = [split_peer(p, text) for text in options.peer]


def split_peer(p, text):
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        p.error(f"--peer is '{text}'; it must be NAME=PATH")
    return name, path


def prepare_output(directory):
    """Fails before anything is measured if the results could not be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise Refused(f"--out {directory}: {error.strerror}") from None
