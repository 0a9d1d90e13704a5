"""Trees that say what the model's estimate does not: how far they are right, and those that fa2-tune ships.

  (cd docs/measurements/data/tuning && xz -dc 2026-11-26-h100.csv.xz 2026-11-26-h100-others.csv.xz 2026-11-26-h200-odd-head-dims.csv.xz) |
    awk 'NR == 1 || !/^pass,/' > rows.csv
  fa2-tune fit rows.csv --terms terms.csv
  pip install lightgbm pandas
  python3 bench/trees.py terms.csv --leave-out head_dim
  python3 bench/trees.py terms.csv --write tools/fa2-tune-build/forest.txt

A cell is a problem on a shape; shapes of one sequence are others than those of 16384 tokens. With --leave-out, trees are fitted
without each head dim or shape and asked for what was left out. Of each cell it says the speed of the candidate that comes first,
and of the best of the first eight, over the best that was measured: the median and the 5th percentile over all cells, and over
those with `--many` candidates. Gradient-boosted regression trees (LightGBM) are fitted to what a candidate loses against its
cell's best ("alone"), or to what the estimate is off by ("beside"); fast candidates weigh most. --write fits to all rows.
"""
import argparse

import lightgbm
import numpy
import pandas

CELL = ["pass", "arch", "head_dim", "masked", "batch", "seqlen_q"]
PARTS = [(of_estimate, least) for of_estimate in (False, True) for least in (20, 100)]  # what they are fitted to, rows a leaf


def read(path):
    """The rows, and the features: what a tree may ask."""
    rows = pandas.read_csv(path)
    features = [name for name in rows.columns if name.startswith("x.")]
    # Of a candidate that was measured on two days the later times.
    rows = rows.drop_duplicates(CELL + features, keep="last")
    rows = rows[rows.groupby(CELL).ms.transform("size") > 20].reset_index(drop=True)
    rows["cell"] = rows.groupby(CELL).ngroup()
    rows["shape"] = rows.groupby([rows.batch == 1, "seqlen_q"]).ngroup()
    rows["loss"] = numpy.log(rows.ms / rows.groupby("cell").ms.transform("min"))
    rows["estimated"] = numpy.log(rows.estimate_ms / rows.groupby("cell").estimate_ms.transform("min"))
    return rows, rows[features].rename(columns=lambda name: name[2:].replace(".", "_"))


def fit(x, rows, of_estimate, least, arguments):
    target = rows.loss - rows.estimated if of_estimate else rows.loss
    trees = lightgbm.LGBMRegressor(n_estimators=arguments.trees, num_leaves=arguments.leaves, learning_rate=18 / arguments.trees,
                                   min_child_samples=least, subsample=0.8, subsample_freq=1, colsample_bytree=0.6,
                                   random_state=least, verbose=-1, n_jobs=2)
    return trees.fit(x, target, sample_weight=numpy.exp(-rows.loss / 0.15) + 0.05)


def left_out(x, rows, by, of_estimate, least, arguments):
    score = numpy.zeros(len(rows))
    for value in rows[by].unique():
        out = (rows[by] == value).to_numpy()
        score[out] = fit(x[~out], rows[~out], of_estimate, least, arguments).predict(x[out])
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


def judge(x, rows, by, arguments):
    print(f"{'':44s} cells   first,       5% best of 8        5%")
    show("the estimate", rows, rows.estimate_ms, arguments.many)
    total = 0
    for of_estimate, least in PARTS:
        score = left_out(x, rows, by, of_estimate, least, arguments)
        show(f"trees {'beside the estimate' if of_estimate else 'alone'}, {least} rows a leaf", rows, score, arguments.many)
        total = total + score
    show("the mean of the four", rows, total, arguments.many)


def words(node):
    """A tree as tools/fa2-tune-build/Forest.cpp reads it: a node, then those where the feature is at most its number, then the others."""
    if "leaf_value" in node:
        return [f"={node['leaf_value']:.5g}"]
    assert node["decision_type"] == "<="
    here = f"{node['split_feature']}:{node['threshold']:.9g}"
    return [here, *words(node["left_child"]), *words(node["right_child"])]


def write(path, x, rows, arguments):
    header = pandas.read_csv(arguments.terms, nrows=0).columns
    lines = ["fa2_forest 1 " + arguments.device, "features " + " ".join(name[2:] for name in header if name.startswith("x."))]
    for of_estimate, least in PARTS:
        lines.append("part " + ("estimate" if of_estimate else "loss"))
        model = fit(x, rows, of_estimate, least, arguments).booster_.dump_model()
        lines += [" ".join(words(tree["tree_structure"])) for tree in model["tree_info"]]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("terms", help="what fa2-tune fit --terms wrote")
    parser.add_argument("--leave-out", choices=("head_dim", "shape"), help="judge trees that are fitted without each")
    parser.add_argument("--write", metavar="FILE", help="write trees that are fitted to all rows")
    parser.add_argument("--device", default="H200", help="of the rows, as lib/Target/Rates.cpp names it (default: H200)")
    parser.add_argument("--trees", type=int, default=150, help="of each of the four forests (default: 150)")
    parser.add_argument("--leaves", type=int, default=31, help="of a tree (default: 31)")
    parser.add_argument("--many", type=int, default=200, help="candidates of a cell that is judged by itself too (default: 200)")
    arguments = parser.parse_args()
    rows, x = read(arguments.terms)
    if arguments.leave_out:
        judge(x, rows, arguments.leave_out, arguments)
    if arguments.write:
        write(arguments.write, x, rows, arguments)


if __name__ == "__main__":
    main()
