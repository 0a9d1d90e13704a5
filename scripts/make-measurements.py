"""Writes the tables of speed that pages hold, and their plots, from the figures in docs/measurements/data.

usage: make-measurements.py [--check]

A file of figures is what bench/forward.py and bench/backward.py write (forward.csv); of its columns these are needed:
label, head_dim, mask, seqlen, tflops. A page says where a table goes, and keeps what stands around it:

    <!-- table 2026-11-22-forward-sm90a summary -->
    <!-- end -->

`full` is a table for each head dim and mask, with ratios; `summary` has two sequence lengths a row, and ratios to the peers.
`ratios PEER` has a row for each head dim and mask, ours over that peer: the mean, the least and the most of all lengths. `means
PEER,PEER` has a row for each of several files, whose names are given with commas between them. Each file also becomes
docs/images/FILE.svg. --check writes nothing and fails when something is not what would be written.
"""
import argparse
import collections
import csv
import glob
import math
import os
import re
import sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
data = os.path.join(root, "docs", "measurements", "data")

MASKS = {"none": "full", "causal": "causal"}
OURS = ("fa2", "fa2, deterministic")
# Ours in red, peers in colours that differ in brightness too.
COLORS = {"fa2": "#d1495b", "fa2, deterministic": "#edae49", "FlashAttention-2": "#5b9bd5", "cuDNN": "#b8a1cf",
          "FlashAttention-3": "#2f4b7c", "reference kernels": "#9a9a9a"}


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


class Figures:
    def __init__(self, name):
        self.name = name
        self.of = collections.OrderedDict()
        with open(os.path.join(data, name + ".csv"), newline="", encoding="utf-8") as f:
            for row in csv.DictReader(f):
                self.of[row["label"], int(row["head_dim"]), row["mask"], int(row["seqlen"])] = float(row["tflops"])

    def values(self, which):
        return list(dict.fromkeys(key[which] for key in self.of))

    @property
    def labels(self):
        """Ours first."""
        return sorted(self.values(0), key=lambda label: label not in OURS)

    @property
    def peers(self):
        return [label for label in self.labels if label not in OURS]

    @property
    def blocks(self):
        return [(dim, mask) for dim in self.values(1) for mask in self.values(2)]

    def row(self, label, dim, mask):
        return [self.of[label, dim, mask, n] for n in self.values(3)]


def table(rows):
    head = rows[0]
    return ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|",
            *("| " + " | ".join(row) + " |" for row in rows[1:]), ""]


def full(figures):
    """Every figure, and the ratios of ours to each peer."""
    lines = []
    for dim, mask in figures.blocks:
        rows = [[f"head dim {dim}, {MASKS[mask]}", *map(str, figures.values(3)), "geomean"]]
        for label in figures.labels:
            values = figures.row(label, dim, mask)
            rows.append([label, *(f"{v:.0f}" for v in values), f"{mean(values):.0f}"])
        for peer in figures.peers:
            ratios = [a / b for a, b in zip(figures.row("fa2", dim, mask), figures.row(peer, dim, mask))]
            rows.append([f"fa2 / {peer}", *(f"{r:.2f}" for r in ratios), f"{mean(ratios):.2f}"])
        lines += table(rows)
    rows = [["ratio", "geomean", "least", "geomean from 2048", "least from 2048"]]
    for peer in figures.peers:
        ratio = {key[1:]: v / figures.of[(peer, *key[1:])] for key, v in figures.of.items() if key[0] == "fa2"}
        long = [r for (_, _, n), r in ratio.items() if n >= 2048]
        rows.append([f"fa2 / {peer}", *(f"{r:.2f}" for r in (mean(ratio.values()), min(ratio.values()), mean(long), min(long)))])
    return lines + table(rows)[:-1]


def summary(figures):
    """Two sequence lengths: the speeds of all, and ours over each peer."""
    peers = [p for p in figures.peers if p != "reference kernels"]
    rows = [["TFLOP/s", "fa2", *peers, *(f"fa2 / {p}" for p in peers)]]
    for dim, mask in figures.blocks:
        for n in (2048, 16384):
            ours, theirs = figures.of["fa2", dim, mask, n], [figures.of[p, dim, mask, n] for p in peers]
            rows.append([f"head dim {dim}, {MASKS[mask]}, {n}", f"**{ours:.0f}**", *(f"{t:.0f}" for t in theirs),
                         *(f"{ours / t:.2f}" for t in theirs)])
    return table(rows)[:-1]


def ratios(figures, peer):
    """Ours over one peer, over all lengths. Three places: two would make 1.00 of a lead of four thousandths."""
    rows = [[f"over {peer}, all lengths", "geometric mean", "least", "most"]]
    parts = {f"head dim {dim}, {MASKS[mask]}": [a / b for a, b in zip(figures.row("fa2", dim, mask), figures.row(peer, dim, mask))]
             for dim, mask in figures.blocks}
    parts["all"] = sum(parts.values(), [])
    for name, values in parts.items():
        rows.append([name, *(f"{v:.3f}" for v in (mean(values), min(values), max(values)))])
    return table(rows)[:-1]


KERNELS = {"forward-sm90a": "forward, `--arch sm_90a`", "forward-sm80": "forward, `--arch sm_80`",
           "backward-sm90a": "backward, `--arch sm_90a`", "backward-sm80": "backward, the sm_80 family"}


def means(files, peers):
    """Ours over each peer, over all lengths, head dims and masks of each file."""
    rows = [["geometric mean over all lengths, head dims and masks", *(f"over {peer}" for peer in peers)]]
    for figures in files:
        of_all = [mean(v / figures.of[(peer, *key[1:])] for key, v in figures.of.items() if key[0] == "fa2") for peer in peers]
        words = figures.name[11:].split("-")  # between pass and family stands what the run was about
        rows.append([KERNELS[f"{words[0]}-{words[-1]}"], *(f"{v:.2f}" for v in of_all)])
    return table(rows)[:-1]


def title(name):
    date, which = name[:10], name[11:].replace("-", ", ").replace("sm", "sm_")
    return f"{which} kernels on one NVIDIA H200, bf16, measured on {date}"


def plot(figures):
    """Bars over the sequence length, a panel a head dim and mask, as SVG that needs no font but the reader's."""
    labels = [p for p in reversed(figures.labels) if p != "reference kernels"]
    dims, masks, lengths = (figures.values(i) for i in (1, 2, 3))
    width, height, left, top = 300, 190, 46, 34
    group = (width - 30) / len(lengths)
    bar = group * 0.84 / len(labels)
    most = max(figures.of.values())
    scale = (height - 58) / most
    total_width, total_height = left + width * len(dims), top + height * len(masks) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width} {total_height}" font-family="sans-serif" font-size="10">',
           f'<rect width="{total_width}" height="{total_height}" fill="white"/>',
           f'<text x="8" y="18" font-size="12">TFLOP/s by sequence length: {title(figures.name)}</text>']
    for i, dim in enumerate(dims):
        for j, mask in enumerate(masks):
            x, floor = left + i * width, top + (j + 1) * height - 28
            out.append(f'<text x="{x + width / 2 - 15:.1f}" y="{floor - height + 46:.1f}" text-anchor="middle">head dim {dim}, {MASKS[mask]}</text>')
            for grid in range(0, int(most), 200):
                y = floor - grid * scale
                out.append(f'<path d="M{x} {y:.1f}h{width - 30}" stroke="#ddd"/>')
                if i == 0:
                    out.append(f'<text x="{x - 6}" y="{y + 3:.1f}" text-anchor="end">{grid}</text>')
            for k, n in enumerate(lengths):
                for m, label in enumerate(labels):
                    value = figures.of[label, dim, mask, n]
                    out.append(f'<rect x="{x + k * group + group * 0.08 + m * bar:.1f}" y="{floor - value * scale:.1f}" width="{bar:.1f}" '
                               f'height="{value * scale:.1f}" fill="{COLORS[label]}"><title>{label}: {value:.0f}</title></rect>')
                text = f"{n // 1024}k" if n >= 1024 else str(n)
                out.append(f'<text x="{x + (k + 0.5) * group:.1f}" y="{floor + 13}" text-anchor="middle">{text}</text>')
    for m, label in enumerate(labels):
        x, y = left + m * 150, total_height - 12
        out.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{COLORS[label]}"/><text x="{x + 15}" y="{y}">{label}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def fill(text):
    def replaced(match):
        files, peers = [Figures(name) for name in match.group(1).split(",")], (match.group(3) or "").split(",")
        lines = {"full": lambda: full(files[0]), "summary": lambda: summary(files[0]), "ratios": lambda: ratios(files[0], peers[0]),
                 "means": lambda: means(files, peers)}[match.group(2)]()
        return "\n".join([match.group(0).splitlines()[0], "", *lines, "", "<!-- end -->"])

    return re.sub(r"^<!-- table (\S+) (\w+)(?: (\S+))? -->.*?<!-- end -->", replaced, text, flags=re.DOTALL | re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    wanted = {}
    for path in sorted(glob.glob(os.path.join(data, "*.csv"))):
        name = os.path.splitext(os.path.basename(path))[0]
        wanted[os.path.join(root, "docs", "images", name + ".svg")] = plot(Figures(name))
    for path in sorted(glob.glob(os.path.join(root, "README.md")) + glob.glob(os.path.join(root, "docs", "*", "*.md"))):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if "<!-- table " in text:
            wanted[path] = fill(text)
    stale = []
    for path, text in wanted.items():
        if not args.check:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            stale.append(os.path.relpath(path, root))
    if stale:
        print(f"{', '.join(stale)}: not what the figures give; run scripts/make-measurements.py")
    return 1 if stale else 0


sys.exit(main())
