"""Measured figures: records, ratios, geometric means, CSV."""

import csv
import math
from dataclasses import asdict, dataclass, fields

from .cases import CASE_FIELDS, Case, Refused, case_of


@dataclass
class Record:
    """One contestant at one case."""

    label: str
    role: str  # "kernel" (ours) or "peer"
    head_dim: int
    mask: str
    seqlen: int
    batch: int
    heads: int
    dtype: str
    heads_kv: int
    seqlen_k: int
    head_dim_v: int
    layout: str
    values: str
    median_ms: float = math.nan
    best_ms: float = math.nan
    launches: int = 0
    tflops: float = math.nan
    gbs: float = math.nan
    accuracy: float = math.nan  # ours: the worst row's error over what it is allowed
    registers: int = -1
    local_bytes: int = -1
    shared_bytes: int = -1
    threads: int = -1
    file: str = ""
    note: str = ""  # why there are no figures, or what they are of
    list: str = ""  # the list of cases that it is from
    bits: str = ""  # where they are compared: same, or where they are not

    @property
    def case(self):
        return case_of(self)

    @property
    def measured(self):
        return math.isfinite(self.median_ms) and self.median_ms > 0

    def fill(self, times):
        times = sorted(times)
        middle = len(times) // 2
        self.median_ms = times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2
        self.best_ms, self.launches = times[0], len(times)
        self.tflops = self.case.flops / self.median_ms / 1e9
        self.gbs = self.case.bytes / self.median_ms / 1e6

    def clear(self, note):
        self.median_ms = self.best_ms = self.tflops = self.gbs = math.nan
        self.note = note


def record_for(label, role, case, **more):
    return Record(label, role, **asdict(case), **more)


def geometric_mean(values):
    values = [v for v in values if math.isfinite(v) and v > 0]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


class Results:
    """Records and what the run was: `machine` is a line for people, `mode` grid, dims or shapes."""

    def __init__(self, mode="grid", machine="", title=""):
        self.mode, self.machine, self.title = mode, machine, title
        self.records = []

    def add(self, record):
        self.records.append(record)
        return record

    def labels(self, role=None):
        seen = {}
        for record in self.records:
            if role is None or record.role == role:
                seen.setdefault(record.label)
        return list(seen)

    def values(self, field):
        return sorted({getattr(record, field) for record in self.records})

    def masks(self):
        order = ("none", "causal", "causal_top_left", "strictly_causal")
        return sorted({record.mask for record in self.records}, key=order.index)

    def find(self, label, head_dim, mask, seqlen):
        for record in self.records:
            if (record.label, record.head_dim, record.mask, record.seqlen) == (
                    label, head_dim, mask, seqlen):
                return record if record.measured else None
        return None

    def tflops(self, label, head_dim, mask, seqlen):
        record = self.find(label, head_dim, mask, seqlen)
        return record.tflops if record else math.nan

    def best_peer(self, head_dim, mask, seqlen):
        figures = [self.tflops(p, head_dim, mask, seqlen) for p in self.labels("peer")]
        return max((f for f in figures if math.isfinite(f)), default=math.nan)

    def ratio(self, label, peer, head_dim, mask, seqlen):
        """TFLOP/s over the peer's; peer None: over the best of them."""
        other = (self.best_peer(head_dim, mask, seqlen) if peer is None
                 else self.tflops(peer, head_dim, mask, seqlen))
        return self.tflops(label, head_dim, mask, seqlen) / other

    def ratios(self, label, peer, head_dims=None, masks=None, least_seqlen=0):
        """[(ratio, head_dim, mask, seqlen)] of the points where both were measured."""
        found = []
        for head_dim in head_dims or self.values("head_dim"):
            for mask in masks or self.masks():
                for seqlen in self.values("seqlen"):
                    value = self.ratio(label, peer, head_dim, mask, seqlen)
                    if seqlen >= least_seqlen and math.isfinite(value):
                        found.append((value, head_dim, mask, seqlen))
        return found


NUMBERS = {"int": int, "float": float, "str": str}


def write_csv(results, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        file.write(f"# mode: {results.mode}\n# machine: {results.machine}\n# title: {results.title}\n")
        writer = csv.DictWriter(file, [f.name for f in fields(Record)])
        writer.writeheader()
        for record in results.records:
            writer.writerow({k: f"{v:.9g}" if isinstance(v, float) else v
                             for k, v in asdict(record).items()})


def read_csv(path):
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    heads = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
    results = Results(heads.get("mode", "grid"), heads.get("machine", ""), heads.get("title", ""))
    types = {f.name: f.type if isinstance(f.type, str) else f.type.__name__ for f in fields(Record)}
    try:
        for row in csv.DictReader(line for line in lines if not line.startswith("# ")):
            values = {k: NUMBERS[types[k]](v) for k, v in row.items()}
            case = Case(**{k: values[k] for k in CASE_FIELDS if k in values})  # older files say less
            results.add(Record(**{**values, **asdict(case)}))
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{path}: not a CSV of this benchmark: {error!r}") from None
    if not results.records:
        raise Refused(f"{path}: it holds no records")
    return results
