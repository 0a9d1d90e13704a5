"""Other head dims against the tuned ones.

The time at head dim d is compared with the linear interpolation, at d rounded up to 16, between
the tuned head dims' times of the same run and shape; below the least tuned dim, with that dim's
time. The aim: at most 1/0.85 of it; below the least tuned dim no slower than it.
"""

import math
from dataclasses import dataclass

LIMIT = 1 / 0.85


def interpolate(head_dim, tuned):
    """tuned: {head dim: ms or NaN}. NaN above the largest, and where a neighbour is NaN."""
    rounded = -(-head_dim // 16) * 16
    dims = sorted(tuned)
    if not dims or rounded > dims[-1]:
        return math.nan
    if rounded <= dims[0]:
        return tuned[dims[0]]
    for low, high in zip(dims, dims[1:]):
        if low <= rounded <= high:
            share = (rounded - low) / (high - low)
            if share == 1:
                return tuned[high]
            return tuned[low] + share * (tuned[high] - tuned[low])
    return math.nan


@dataclass
class DimRow:
    head_dim: int
    ms: float
    reference_ms: float
    limit: float  # the most that the ratio may be

    @property
    def ratio(self):
        return self.ms / self.reference_ms

    @property
    def verdict(self):
        if not math.isfinite(self.ratio):
            return "-"
        return "ok" if self.ratio <= self.limit else "slow"


def dim_rows(results, label, mask, seqlen, tuned_dims):
    def time(head_dim):
        record = results.find(label, head_dim, mask, seqlen)
        return record.median_ms if record else math.nan

    tuned = {d: time(d) for d in tuned_dims}
    return [DimRow(d, time(d), interpolate(d, tuned), 1.0 if d < min(tuned) else LIMIT)
            for d in results.values("head_dim") if d not in tuned]
