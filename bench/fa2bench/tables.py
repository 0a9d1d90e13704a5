"""Results as text for a terminal and as Markdown."""

import math

from . import shape_tables
from .dims import dim_rows
from .results import geometric_mean
from .text import MASK_TEXT, aligned, markdown_rows, number

LONG = 2048  # "long" sequences in the summary start here


def grid_block(results, head_dim, mask):
    """The rows of one head dim and mask: TFLOP/s of everyone, then ratios of ours."""
    seqlens = results.values("seqlen")
    rows = [[f"head dim {head_dim}, {MASK_TEXT[mask]}"] + [str(n) for n in seqlens] + ["geomean"]]
    for label in results.labels("kernel") + results.labels("peer"):
        figures = [results.tflops(label, head_dim, mask, n) for n in seqlens]
        if any(map(math.isfinite, figures)):
            rows.append([label] + [number(f) for f in figures] + [number(geometric_mean(figures))])
    for label in results.labels("kernel"):
        for peer, name in compared(results):
            ratios = [results.ratio(label, peer, head_dim, mask, n) for n in seqlens]
            if any(map(math.isfinite, ratios)):
                rows.append([f"{label} / {name}"] + [number(r, 2) for r in ratios]
                            + [number(geometric_mean(ratios), 2)])
    return rows


def compared(results):
    """[(peer, name)]; None stands for the best peer."""
    peers = results.labels("peer")
    return [(p, p) for p in peers] + ([(None, "best peer")] if len(peers) > 1 else [])


def summary_rows(results):
    """Geometric mean and worst point of ours over each peer."""
    rows = [["ratio", "head dim", "geomean", "worst", "at", f"geomean {LONG}+", f"worst {LONG}+"]]
    dims = results.values("head_dim")
    for label in results.labels("kernel"):
        for peer, name in compared(results):
            for which in [[d] for d in dims] + ([dims] if len(dims) > 1 else []):
                points = results.ratios(label, peer, which)
                if not points:
                    continue
                long = results.ratios(label, peer, which, least_seqlen=LONG)
                worst = min(points)
                rows.append([f"{label} / {name}", str(which[0]) if len(which) == 1 else "all",
                             number(geometric_mean(p[0] for p in points), 3), number(worst[0], 2),
                             f"{worst[1]} {MASK_TEXT[worst[2]]} {worst[3]}",
                             number(geometric_mean(p[0] for p in long), 3),
                             number(min(long)[0] if long else math.nan, 2)])
    return rows if len(rows) > 1 else []


def variant_rows(results):
    """Several kernel sets in brief: geometric means over the seqlens, a column a head dim and mask."""
    labels = results.labels("kernel")
    blocks = [(d, m) for d in results.values("head_dim") for m in results.masks()]
    if len(labels) < 2:
        return []
    rows = [["TFLOP/s, geometric mean"] + [f"{d} {MASK_TEXT[m]}" for d, m in blocks]]
    seqlens = results.values("seqlen")
    means = {(label, block): geometric_mean(results.tflops(label, *block, n) for n in seqlens)
             for label in labels for block in blocks}
    for label in labels:
        row = [label]
        for block in blocks:
            best = max((means[other, block] for other in labels
                        if math.isfinite(means[other, block])), default=math.nan)
            mark = "*" if means[label, block] == best else " "
            row.append(number(means[label, block]) + mark)
        rows.append(row)
    return rows


def dims_block(results, label, mask, seqlen, tuned_dims):
    rows = [[f"{label}, {MASK_TEXT[mask]}, seqlen {seqlen}", "us", "interpolated", "ratio", "limit",
             "", *(f"{p} TFLOP/s" for p in [label] + results.labels("peer"))]]
    for row in dim_rows(results, label, mask, seqlen, tuned_dims):
        rows.append([f"head dim {row.head_dim}", number(row.ms * 1e3, 1),
                     number(row.reference_ms * 1e3, 1), number(row.ratio, 3), number(row.limit, 3),
                     row.verdict, *(number(results.tflops(p, row.head_dim, mask, seqlen))
                                    for p in [label] + results.labels("peer"))])
    return rows


def blocks_of(results, tuned_dims):
    """Every table of a run and their captions, in order."""
    if results.mode == "shapes":
        return shape_tables.blocks_of(results)
    blocks = []
    if results.mode == "dims":
        for label in results.labels("kernel"):
            for mask in results.masks():
                for seqlen in results.values("seqlen"):
                    blocks.append(dims_block(results, label, mask, seqlen, tuned_dims))
    else:
        for head_dim in results.values("head_dim"):
            for mask in results.masks():
                blocks.append(grid_block(results, head_dim, mask))
        blocks += [variant_rows(results), summary_rows(results)]
    return [block for block in blocks if len(block) > 1]


def notes_of(results):
    """Why figures are missing, once each."""
    if results.mode == "shapes":
        return shape_tables.notes_of(results)
    notes = {}
    for record in results.records:
        if record.note:
            where = f"head dim {record.head_dim}, {MASK_TEXT[record.mask]}"
            notes.setdefault((record.label, record.note), where)
    return [f"{label}, {where}: {note}" for (label, note), where in notes.items()]


def spills_of(results):
    found = {}
    for record in results.records:
        if record.local_bytes > 0:
            found[record.label, record.file] = record.local_bytes
    return [f"{label}: {file} uses {count} bytes of local memory a thread (spills)"
            for (label, file), count in found.items()]


def terminal(results, tuned_dims=()):
    lines = []
    for block in blocks_of(results, tuned_dims):
        lines += [block] if isinstance(block, str) else aligned(block) + [""]
    return "\n".join(lines + notes_of(results) + spills_of(results)).rstrip() + "\n"


def markdown(results, tuned_dims=()):
    lines = [results.title + "\n"] if results.title else []
    what = {"dims": "times", "shapes": "times and speeds"}.get(results.mode, "TFLOP/s")
    lines.append(f"{results.machine}\n\nMedians of {what}, all contestants interleaved in one run.\n")
    for block in blocks_of(results, tuned_dims):
        lines += [block] if isinstance(block, str) else markdown_rows(block)
        lines.append("")
    lines += [f"- {note}" for note in notes_of(results) + spills_of(results)]
    return "\n".join(lines).rstrip() + "\n"
