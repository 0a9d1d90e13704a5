#!/usr/bin/env python3
"""Measures fa2's forward kernels against PyTorch's attention. See --help and bench/README.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fa2bench import ends, options as command_line, session  # noqa: E402
from fa2bench.cases import make_case, paper_grid  # noqa: E402
from fa2bench.group import Group  # noqa: E402
from fa2bench.plot import write_plot  # noqa: E402
from fa2bench.results import Results, read_csv, write_csv  # noqa: E402
from fa2bench.tables import markdown, terminal  # noqa: E402


def write_all(results, options):
    """The files, then the tables on standard output."""
    command_line.prepare_output(options.out)
    written = [options.out / "forward.csv", options.out / "forward.md", options.out / "forward.png"]
    if not (options.render and options.render.resolve() == written[0].resolve()):
        write_csv(results, written[0])
    written[1].write_text(markdown(results, options.head_dims), encoding="utf-8")
    if not write_plot(results, written[2]):
        session.say("no plot: matplotlib is not installed")
        written.pop()
    print(terminal(results, options.head_dims))
    print("wrote " + ", ".join(map(str, written)))


def make_groups(options, ours, peers):
    how = {"layout": options.layout, "values": options.values}
    if options.dims:
        dims = sorted(set(options.dims) | set(options.head_dims))
        grids = [[make_case(d, mask, seqlen, options.dims_heads, options.tokens, options.dtype, **how)
                  for d in dims] for mask in options.masks for seqlen in options.seqlens]
    else:
        grids = [[case] for case in paper_grid(options.head_dims, options.masks, options.seqlens,
                                               options.hidden, options.tokens, options.dtype, **how)]
    for label, kernels in {**ours, **peers}.items():
        if isinstance(kernels, dict):
            session.check_coverage(label, kernels, {c.key for g in grids for c in g})
    groups = [Group(session.entries_of(cases, ours, peers)) for cases in grids]
    return [group for group in groups if group.entries]


def render(options):
    write_all(read_csv(options.render), options)
    return 0


def measure(options):
    library = session.open_library(options)
    ours, peers = session.find_sets(options, library)
    if options.list:
        session.list_kernels(ours, peers)
        return 0
    groups = make_groups(options, ours, peers)  # refuses before a GPU is touched
    machine = "" if options.values == "normal" else f"; values: {options.values}"
    results = Results("dims" if options.dims else "grid", machine, options.title)
    return session.run(groups, options, library, results, write_all)


def main(arguments):
    options = command_line.parse(arguments)
    return ends.said("forward.py", lambda: render(options) if options.render else measure(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
