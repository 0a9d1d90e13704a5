#!/usr/bin/env python3
"""Measures fa2's forward kernels on lists of cases. See --help and bench/README.md."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fa2bench import ends, options as command_line, session, shape_lists  # noqa: E402
from fa2bench.cases import DTYPES, Refused  # noqa: E402
from fa2bench.group import Group, Sample  # noqa: E402
from fa2bench.results import Results, read_csv, write_csv  # noqa: E402
from fa2bench.tables import markdown, terminal  # noqa: E402

SAMPLE = Sample(heads=2, rows=256)

EPILOG = f"""\
examples:
  shapes.py kernels --shapes few-tiles few-queries
  shapes.py --variants base=before new=after --shapes values --only head_dim=128 mask=causal
                                                the second's speed over the first's, case by case
  shapes.py --variants a=rows64 b=rows128 --shapes few-tiles --bits --untimed
                                                whether their outputs are equal bit for bit
  shapes.py --render results/shapes.csv         tables of an earlier run, no GPU

Lists: {', '.join(shape_lists.names())} (bench/shapes), or a file such as:
  head_dim=128 heads=32 heads_kv=4,8 batch=1,4 seqlen=1 seqlen_k=8192 layout=bhsd,bshd
A line is a case, or all combinations where keys have several values, the last changing fastest; keys are
head_dim, heads, seqlen (of queries), and where wanted batch, mask, heads_kv, seqlen_k, head_dim_v, dtype, layout,
values, and tokens=N, which leaves out cases of more than N queries in a batch. Cases that differ in
their values alone are measured interleaved. The best peer is that of each case.

exit status: 0; 1 when a kernel of ours failed to load, launch or give right results, or --bits found other
bits; 2 for bad input.
"""


def parser():
    p = argparse.ArgumentParser(
        prog="shapes.py", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
        description="Measures fa2's forward kernels on lists of cases against PyTorch's attention on this GPU.")
    command_line.add_kernels(p)
    what = p.add_argument_group("what to measure")
    what.add_argument("--shapes", nargs="+", action="extend", default=[], metavar="FILE|NAME",
                      help="lists of cases, measured one after the other")
    what.add_argument("--only", nargs="+", action="extend", default=[], metavar="KEY=VALUE[,VALUE...]",
                      help="only the lists' cases with these values")
    what.add_argument("--dtype", choices=DTYPES, default="bf16", help="where a case says none (default: bf16)")
    command_line.add_peers(p)
    how = command_line.add_how(p)
    how.add_argument("--bits", action="store_true",
                     help="check that all kernel sets give the same bits, and each batch entry alone those that it "
                          "has in its batch")
    how.add_argument("--untimed", action="store_true", help="check results, measure nothing")
    command_line.add_output(p, "shapes.csv and .md")
    return p


def parse(arguments):
    p = parser()
    options = p.parse_args(arguments)
    command_line.finish(p, options)
    if not (options.render or options.list or options.shapes):
        p.error(f"--shapes is not given; name a file or one of {', '.join(shape_lists.names())}")
    if options.untimed and not options.variants:
        p.error("--untimed needs a kernel set")
    return options


def read_lists(options):
    """{name: cases}"""
    lists = {}
    for text in options.shapes:
        name, cases = shape_lists.find_list(text, options.dtype)
        if name in lists:
            raise Refused(f"--shapes {text}: another list is called '{name}'")
        lists[name] = shape_lists.keep_only(cases, " ".join(options.only))
        if not lists[name]:
            raise Refused(f"--shapes {text}: no case has {' '.join(options.only)}")
    return lists


def make_groups(lists, ours, peers):
    wanted = {case.key for cases in lists.values() for case in cases}
    for label, kernels in {**ours, **peers}.items():
        if isinstance(kernels, dict):
            session.check_coverage(label, kernels, wanted)
    groups = []
    for name, cases in lists.items():
        alike = {}
        for case in cases:
            if not ours or any(case.key in kernels for kernels in ours.values()):
                alike.setdefault(replace(case, values="normal"), []).append(case)
        groups += [Group(session.entries_of(same, ours, peers), name) for same in alike.values()]
    return groups


def write_all(results, options):
    """The files, then the tables on standard output."""
    command_line.prepare_output(options.out)
    table, page = options.out / "shapes.csv", options.out / "shapes.md"
    if not (options.render and options.render.resolve() == table.resolve()):
        write_csv(results, table)
        results = read_csv(table)  # so that the page is what --render makes of it
    page.write_text(markdown(results), encoding="utf-8")
    print(terminal(results))
    print(f"wrote {table}, {page}")


def render(options):
    results = read_csv(options.render)
    if results.mode != "shapes":
        raise Refused(f"--render {options.render}: it is of mode {results.mode}, which forward.py renders")
    write_all(results, options)
    return 0


def measure(options):
    library = session.open_library(options)
    ours, peers = session.find_sets(options, library)
    if options.list:
        session.list_kernels(ours, peers)
        return 0
    groups = make_groups(read_lists(options), ours, {} if options.untimed else peers)
    return session.run(groups, options, library, Results("shapes", "", options.title), write_all, sample=SAMPLE)


def main(arguments):
    options = parse(arguments)
    return ends.said("shapes.py", lambda: render(options) if options.render else measure(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
