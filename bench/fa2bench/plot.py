"""The plot: grouped bars over the sequence length, a panel a mask and head dim."""

import math

from .text import MASK_TEXT

# Distinguishable without colour vision; peers in the first ones, ours in the last.
PEER_COLORS = ["#9a9a9a", "#5b9bd5", "#b8a1cf", "#c9b458"]
KERNEL_COLORS = ["#d1495b", "#edae49", "#30638e", "#66a182", "#8d5a97", "#2e4057"]


def grid_figure(results, plt):
    head_dims, masks = results.values("head_dim"), results.masks()
    seqlens, labels = results.values("seqlen"), results.labels("peer") + results.labels("kernel")
    peers = results.labels("peer")
    colors = {p: PEER_COLORS[i % len(PEER_COLORS)] for i, p in enumerate(peers)}
    colors |= {k: KERNEL_COLORS[i % len(KERNEL_COLORS)]
               for i, k in enumerate(results.labels("kernel"))}
    bars = len(seqlens) * (len(labels) + 1)
    figure, panels = plt.subplots(
        len(masks), len(head_dims), squeeze=False, sharey="row",
        figsize=(len(head_dims) * max(4.0, 0.24 * bars), 3.6 * len(masks)))
    width = 0.82 / len(labels)
    for row, mask in enumerate(masks):
        for column, head_dim in enumerate(head_dims):
            panel = panels[row][column]
            for i, label in enumerate(labels):
                places = [x + (i - (len(labels) - 1) / 2) * width for x in range(len(seqlens))]
                figures = [results.tflops(label, head_dim, mask, n) for n in seqlens]
                heights = [f if math.isfinite(f) else 0 for f in figures]
                panel.bar(places, heights, width, label=label, color=colors[label],
                          edgecolor="white", linewidth=0.4)
                for place, height in zip(places, heights):
                    if height:
                        panel.text(place, height, f"{height:.0f}", ha="center", va="bottom",
                                   fontsize=6, rotation=90 if len(labels) > 3 else 0)
            panel.set_title(f"forward, head dim {head_dim}, {MASK_TEXT[mask]}", fontsize=10)
            panel.set_xticks(range(len(seqlens)), [thousands(n) for n in seqlens])
            panel.set_xlabel("sequence length")
            panel.margins(y=0.12)
            panel.spines[["top", "right"]].set_visible(False)
        panels[row][0].set_ylabel("speed (TFLOP/s)")
    handles, names = panels[0][0].get_legend_handles_labels()
    return figure, handles, names


def dims_figure(results, plt):
    """Time over head dim, a panel a mask and sequence length."""
    masks, seqlens, labels = results.masks(), results.values("seqlen"), results.labels()
    figure, panels = plt.subplots(len(masks), len(seqlens), squeeze=False,
                                  figsize=(5 * len(seqlens), 3.6 * len(masks)))
    for row, mask in enumerate(masks):
        for column, seqlen in enumerate(seqlens):
            panel = panels[row][column]
            for label in labels:
                points = [(d, results.find(label, d, mask, seqlen)) for d in results.values("head_dim")]
                points = [(d, r.median_ms) for d, r in points if r]
                panel.plot(*zip(*points), "o-" if label in results.labels("kernel") else "o:",
                           label=label, markersize=4) if points else None
            panel.set_title(f"forward, {MASK_TEXT[mask]}, seqlen {seqlen}", fontsize=10)
            panel.set_xlabel("head dim")
            panel.set_ylim(bottom=0)
            panel.spines[["top", "right"]].set_visible(False)
        panels[row][0].set_ylabel("time (ms)")
    return (figure, *panels[0][0].get_legend_handles_labels())


def thousands(n):
    return f"{n // 1024}k" if n >= 1024 and n % 1024 == 0 else str(n)


def write_plot(results, path):
    """False when matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    draw = dims_figure if results.mode == "dims" else grid_figure
    figure, handles, names = draw(results, plt)
    figure.legend(handles, names, loc="lower center", ncols=max(1, min(6, len(names))), frameon=False)
    if results.title or results.machine:
        figure.suptitle("\n".join(filter(None, (results.title, results.machine))), fontsize=8)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=160)
    plt.close(figure)
    return True
