"""Cells, and tables of them, for a terminal and in Markdown."""

import math

MASK_TEXT = {"none": "full", "causal": "causal", "causal_top_left": "causal top-left", "strictly_causal": "strictly causal"}


def number(value, digits=0):
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"


def aligned(rows):
    """Rows of strings; the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows if len(row) > i) for i in range(max(map(len, rows)))]
    return ["  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                      for i, (cell, w) in enumerate(zip(row, widths))) for row in rows]


def markdown_rows(rows):
    return ["| " + " | ".join(rows[0]) + " |", "|---|" + "---:|" * (len(rows[0]) - 1),
            *("| " + " | ".join(row) + " |" for row in rows[1:])]
