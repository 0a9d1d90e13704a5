"""A list of cases as tables: a row a case, then what it comes to."""

import math
from dataclasses import replace

from .results import geometric_mean
from .text import MASK_TEXT, number


def figure(value):
    """Three digits at least."""
    return number(value, 0 if value >= 100 else 1 if value >= 10 else 2)


def microseconds(ms):
    return number(ms * 1e3, 1 if ms >= 0.1 else 2)


def two(a, b):
    return str(a) if a == b else f"{a}/{b}"


# What tells cases apart: a column each where it varies, else said once.
PARTS = {
    "head dim": lambda c: two(c.head_dim, c.head_dim_v),
    "mask": lambda c: MASK_TEXT[c.mask],
    "batch": lambda c: str(c.batch),
    "heads": lambda c: two(c.heads, c.heads_kv),
    "seqlen": lambda c: two(c.seqlen, c.seqlen_k),
    "dtype": lambda c: c.dtype,
    "layout": lambda c: c.layout,
    "values": lambda c: c.values,
}
SUMMED_BY = ("head dim", "mask", "dtype", "layout", "values")  # the summary has a row for each value of these


class ListResults:
    """The records of one list of cases."""

    def __init__(self, results, name):
        self.name, self.records = name, [r for r in results.records if r.list == name]
        self.by_key = {(r.label, r.case): r for r in self.records}
        self.cases = list(dict.fromkeys(r.case for r in self.records))
        self.kernels, self.peers = (list(dict.fromkeys(r.label for r in self.records if r.role == role))
                                    for role in ("kernel", "peer"))
        self.varying = [part for part, text in PARTS.items() if len(set(map(text, self.cases))) > 1]

    def record(self, label, case):
        found = self.by_key.get((label, case))
        return found if found and found.measured else None

    def ms(self, label, case):
        record = self.record(label, case)
        return record.median_ms if record else math.nan

    def speed(self, label, case):
        record = self.record(label, case)
        return getattr(record, "gbs" if case.bound_by_bytes else "tflops") if record else math.nan

    def best_peer_ms(self, case):
        times = [self.ms(peer, case) for peer in self.peers]
        return min(filter(math.isfinite, times), default=math.nan)

    def ratios(self):
        """{name: function of a case} of what has a column: speed over the best peer's, the first set's, one's own."""
        found = {}
        if self.peers:
            best = self.peers[0] if len(self.peers) == 1 else "best peer"
            for label in self.kernels:
                found[f"{label} / {best}"] = lambda c, k=label: self.best_peer_ms(c) / self.ms(k, c)
        for label in self.kernels[1:]:
            first = self.kernels[0]
            found[f"{label} / {first}"] = lambda c, k=label: self.ms(first, c) / self.ms(k, c)
        if any(case.values != "normal" and normal(case) in self.cases for case in self.cases):
            for label in self.kernels:
                found[f"{label} / its normal"] = lambda c, k=label: self.over_normal(k, c)
        return found

    def over_normal(self, label, case):
        if case.values == "normal":
            return math.nan
        return self.ms(label, normal(case)) / self.ms(label, case)

    def each_peer(self):
        """The same over each of several peers."""
        if len(self.peers) < 2:
            return {}
        return {f"{k} / {p}": lambda c, k=k, p=p: self.ms(p, c) / self.ms(k, c)
                for k in self.kernels for p in self.peers}


def normal(case):
    return replace(case, values="normal")


def caption(found, cases, unit):
    same = [f"{part} {text(cases[0])}" for part, text in PARTS.items() if part not in found.varying]
    return f"{found.name}, {unit}" + (f"; {', '.join(same)}" if same else "")


def case_rows(found, cases, unit):
    """Times of ours, everyone's speeds, ratios."""
    parts, ratios = found.varying or ["seqlen"], found.ratios()
    everyone = found.kernels + found.peers
    rows = [parts + [f"{label} us" for label in found.kernels] + [f"{label} {unit}" for label in everyone]
            + list(ratios)]
    for case in cases:
        row = [PARTS[part](case) for part in parts]
        row += [microseconds(found.ms(label, case)) for label in found.kernels]
        row += [figure(found.speed(label, case)) for label in everyone]
        rows.append(row + [number(ratio(case), 3) for ratio in ratios.values()])
    return rows


def subsets(found):
    """{name: cases} that a summary speaks of."""
    sets = {"all": found.cases}
    for part in SUMMED_BY:
        if part in found.varying:
            for case in found.cases:
                text = PARTS[part](case)
                name = f"head dim {text}" if part == "head dim" else text
                sets.setdefault(name, []).append(case)
    return sets


def where(found, case):
    return ", ".join(f"{part} {PARTS[part](case)}" for part in found.varying) or str(case)


def summary_row(found, name, ratio, subset, cases):
    points = [(value, case) for value, case in ((ratio(case), case) for case in cases) if math.isfinite(value)]
    if not points:
        return []
    worst = min(points, key=lambda point: point[0])
    return [[name, subset, str(len(points)), number(geometric_mean(value for value, _ in points), 3),
             number(worst[0], 3), where(found, worst[1])]]


def summary_rows(found):
    rows = [["ratio of speeds", "of", "cases", "geomean", "worst", "at"]]
    for name, ratio in found.ratios().items():
        for subset, cases in subsets(found).items():
            rows += summary_row(found, name, ratio, subset, cases)
    for name, ratio in found.each_peer().items():
        rows += summary_row(found, name, ratio, "all", found.cases)
    return rows


def accuracy_lines(found):
    lines = []
    for label in found.kernels:
        checked = [r for r in found.records if r.label == label and math.isfinite(r.accuracy)]
        if checked:
            worst = max(checked, key=lambda r: r.accuracy)
            lines.append(f"{found.name}, {label}: right in {len(checked)} cases, the worst row at "
                         f"{worst.accuracy:.2f} of the error that it is allowed ({where(found, worst.case)})")
    return lines


def bits_lines(found):
    lines = []
    for label in found.kernels:
        compared = [r for r in found.records if r.label == label and r.bits]
        other = [r for r in compared if r.bits != "same"]
        if compared:
            lines.append(f"{found.name}, {label}: bits other in {len(other)} of {len(compared)} cases"
                         if other else f"{found.name}, {label}: bits equal in all of {len(compared)} cases")
        lines += [f"{label}, {r.case}: {r.bits}" for r in other]
    return lines


def note_lines(found):
    notes = {}
    for record in found.records:
        if record.note:
            notes.setdefault((record.label, record.note), []).append(record.case)
    return [f"{found.name}, {label}, {cases[0]}{f' and {len(cases) - 1} more' if cases[1:] else ''}: {note}"
            for (label, note), cases in notes.items()]


def lists_of(results):
    return [ListResults(results, name) for name in dict.fromkeys(r.list for r in results.records)]


def blocks_of(results):
    """Captions (texts) and tables (rows), in order."""
    blocks = []
    for found in lists_of(results):
        for unit, by_bytes in (("TFLOP/s", False), ("GB/s", True)):
            cases = [case for case in found.cases if case.bound_by_bytes == by_bytes]
            if cases and any(record.measured for record in found.records):
                blocks += [caption(found, cases, unit), case_rows(found, cases, unit)]
        blocks.append(summary_rows(found))
    return [block for block in blocks if isinstance(block, str) or len(block) > 1]


def notes_of(results):
    return [line for found in lists_of(results)
            for line in accuracy_lines(found) + bits_lines(found) + note_lines(found)]
