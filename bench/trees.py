"""How far trees beside the model's estimate are right, on what they were not fitted to.

  (cd docs/measurements/data/tuning && xz -dc 2026-11-26-h100.csv.xz 2026-11-26-h100-others.csv.xz 2026-11-26-h200-odd-head-dims.csv.xz) |
    awk 'NR == 1 || !/^pass,/' > rows.csv
  fa2-tune fit rows.csv --terms terms.csv
  pip install lightgbm pandas
  python3 bench/trees.py terms.csv --leave-out head_dim

A cell is a problem on a shape; shapes of one sequence are others than those of 16384 tokens. Of each cell it says the speed of the
candidate that comes first, and of the best of the first eight, over the best that was measured: the median and the 5th percentile
over all cells, and over those with `--many` candidates. Gradient-boosted regression trees (LightGBM) are fitted to what a candidate loses against its cell's best, or to what
the estimate is off by; fast candidates weigh most.
"""
import argparse

import lightgbm
import numpy
import pandas

CELL = ["pass", "arch", "head_dim", "masked", "batch", "seqlen_q"]
CLOCKS = ["tensor", "exponential", "arithmetic", "shared", "global", "step", "step_alone", "ends"]
NAMES = ["partition", "order", "dq", "preload", "loop_order"]


def read(path):
    rows = pandas.read_csv(path)
    # Of a candidate that was measured on two days the later times.
    rows = rows.drop_duplicates(CELL + list(rows.columns[rows.columns.get_loc("block_q"):]), keep="last")
    rows = rows[rows.groupby(CELL).ms.transform("size") > 20].reset_index(drop=True)
    rows["cell"] = rows.groupby(CELL).ngroup()
    rows["shape"] = rows.groupby([rows.batch == 1, "seqlen_q"]).ngroup()
    rows["loss"] = numpy.log(rows.ms / rows.groupby("cell").ms.transform("min"))
    rows["estimated"] = numpy.log(rows.estimate_ms / rows.groupby("cell").estimate_ms.transform("min"))
    return rows


def features(rows):
    """The terms, the fields, and what follows from them: of tiles, of a warp, of a multiprocessor. None of them asks what other candidates a
    cell has."""
    f = pandas.DataFrame(index=rows.index)
    f["backward"], f["roles"] = (rows["pass"] == "backward").astype(int), (rows.arch == "sm_90a").astype(int)
    for name in ("head_dim", "masked", "registers", "accumulators", "score_registers", "shared_bytes", "blocks_held", "imbalance", "pads"):
        f[name] = rows[name]
    f["rows_in_all"], f["length"] = numpy.log2(rows.batch * rows.heads), numpy.log2(rows.seqlen_q)
    for name in CLOCKS:
        f["log_" + name] = numpy.log(rows[name] + 1)
    for name in ("tensor", "shared", "global"):
        f["part_" + name] = rows[name] / rows.step
        f["all_" + name] = numpy.log(rows[name] * rows.steps * rows.blocks + 1) - 2 * numpy.log(rows.seqlen_q) - numpy.log(rows.batch * rows.heads)
    f["part_softmax"] = (rows.exponential + rows.arithmetic) / rows.step
    work = numpy.log(rows.batch * rows.heads * rows.head_dim) + numpy.log(rows.seqlen_q) + numpy.log(rows.seqlen_k)
    f["estimate_over_work"] = numpy.log(rows.estimate_ms) - work
    f["steps"], f["longest"], f["waves"] = numpy.log(rows.steps), numpy.log(rows.longest), rows.blocks / 132 / rows.blocks_held
    for name in rows.columns[rows.columns.get_loc("block_q"):rows.columns.get_loc("chained")]:
        if name in NAMES:
            for value in sorted(rows[name].unique()):
                f[name + "_" + value] = (rows[name] == value).astype(int)
        else:
            f["field_" + name] = rows[name].astype(int)
    f["scores_a_lane"] = rows.block_q * rows.block_kv / rows.warps / 32
    f["warps_held"], f["rows_a_warp"] = rows.blocks_held * rows.warps, rows.block_q / rows.warps
    f["q_a_lane"], f["k_a_lane"] = f.rows_a_warp * rows.head_dim / 32, rows.block_kv * rows.head_dim / rows.warps / 32
    f["pieces"] = numpy.where(rows.dq_columns > 0, numpy.ceil(rows.head_dim / rows.dq_columns.clip(lower=1)), 1)
    f["piece"] = rows.dq_columns / rows.head_dim
    f["q_padding"] = numpy.ceil(rows.seqlen_q / rows.block_q) * rows.block_q / rows.seqlen_q
    f["k_padding"] = numpy.ceil(rows.seqlen_k / rows.block_kv) * rows.block_kv / rows.seqlen_k
    f["intensity"] = rows.block_q * rows.block_kv / (rows.block_q + rows.block_kv)
    f["registers_held"] = rows.registers * f.warps_held / 2048
    f["clocks_a_score"] = rows.step / (rows.block_q * rows.block_kv)
    return f.rename(columns=lambda name: name.replace(".", "_"))


def fit(x, rows, of_estimate, arguments, seed):
    target = rows.loss - rows.estimated if of_estimate else rows.loss
    trees = lightgbm.LGBMRegressor(n_estimators=arguments.trees, num_leaves=arguments.leaves, learning_rate=18 / arguments.trees,
                                   min_child_samples=(20, 100)[seed % 2], subsample=0.8, subsample_freq=1, colsample_bytree=0.6,
                                   random_state=seed, verbose=-1, n_jobs=2)
    return trees.fit(x, target, sample_weight=numpy.exp(-rows.loss / 0.15) + 0.05)


def left_out(x, rows, by, of_estimate, arguments, seed):
    score = numpy.zeros(len(rows))
    for value in rows[by].unique():
        out = (rows[by] == value).to_numpy()
        score[out] = fit(x[~out], rows[~out], of_estimate, arguments, seed).predict(x[out])
    return score + rows.estimated if of_estimate else pandas.Series(score, rows.index)


def show(name, rows, score, many):
    first, eight, size = [], [], []
    for _, cell in rows.assign(score=score).groupby("cell"):
        ordered = cell.ms.to_numpy()[numpy.argsort(cell.score.to_numpy(), kind="stable")]
        first.append(ordered.min() / ordered[0])
        eight.append(ordered.min() / ordered[:8].min())
        size.append(len(cell))
    first, eight, size = map(numpy.array, (first, eight, size))
    for label, those in (("", size > 0), (f", {many} candidates", size >= many)):
        if those.any():
            numbers = [quantile for of in (first, eight) for quantile in (numpy.median(of[those]), numpy.quantile(of[those], 0.05))]
            print(f"{name + label:44s} {those.sum():5d} " + " ".join(f"{n:8.3f}" for n in numbers), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("terms", help="what fa2-tune fit --terms wrote")
    parser.add_argument("--leave-out", choices=("head_dim", "shape"), default="head_dim", help="fit without each (default: head_dim)")
    parser.add_argument("--trees", type=int, default=300, help="of a forest (default: 300)")
    parser.add_argument("--leaves", type=int, default=31, help="of a tree (default: 31)")
    parser.add_argument("--many", type=int, default=200, help="candidates of a cell that is judged by itself too (default: 200)")
    arguments = parser.parse_args()
    rows = read(arguments.terms)
    x = features(rows)
    by = arguments.leave_out
    print(f"{'':44s} cells   first,       5% best of 8        5%")
    show("the estimate", rows, rows.estimate_ms, arguments.many)
    total = 0
    for of_estimate in (False, True):
        for seed in (0, 1):
            score = left_out(x, rows, by, of_estimate, arguments, seed)
            show(f"trees {'beside the estimate' if of_estimate else 'alone'}, {(20, 100)[seed]} rows a leaf", rows, score, arguments.many)
            total = total + score - score.groupby(rows.cell).transform("min")
    show("the mean of the four", rows, total, arguments.many)


if __name__ == "__main__":
    main()
