"""Attention in float64 whose scores pass through a program, and what a kernel's rounding may change in each row."""
from dataclasses import dataclass

import numpy as np

from .bounded import Bounded, Context, Rejected, rounded
from .cases import inputs, visible_elements

UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11}  # round to nearest, relative
SUBNORMAL = {"bf16": 2.0**-134, "f16": 2.0**-25}


def by_head(x):
    return x.astype(np.float64).transpose(0, 2, 1, 3)


class Attention:
    """One case's inputs and scores."""

    def __init__(self, case):
        self.case = case
        self.arrays = inputs(case)
        q, k, v = (by_head(x) for x in self.arrays)
        group = case["heads"] // case["heads_kv"]
        self.k, self.v = (np.repeat(x, group, axis=1) for x in (k, v))
        self.q = q
        self.visible = visible_elements(case)
        self.coordinates = tuple(
            np.arange(n, dtype=np.int64).reshape([n if d == at else 1 for d in range(4)])
            for at, n in enumerate((case["batch"], case["heads"], case["seqlen_q"], case["seqlen_k"])))
        self.arguments = (self.scores(), *self.coordinates)

    def scores(self):
        """scale q.k. Tensor cores align products to the largest and truncate to 24 bits, 8 products at a time."""
        case = self.case
        scale = float(np.float32(case["scale"] or 1 / np.sqrt(case["head_dim"])))
        dot = self.q @ self.k.transpose(0, 1, 3, 2)
        error = 11 * 2.0**-24 * (case["head_dim"] / 8) * (np.abs(self.q) @ np.abs(self.k).transpose(0, 1, 3, 2))
        return rounded(dot * scale, (dot - error) * scale, (dot + error) * scale, Context(self.visible))

    def last(self):
        """Arguments and values of the last head alone."""
        s = self.arguments[0]
        batch, head, rows, cols = self.coordinates
        last = Bounded(*(x[-1:, -1:] for x in (s.value, s.low, s.high)))
        return (last, batch[-1:], head[:, -1:], rows, cols), self.v[-1:, -1:]

    def evaluate(self, program):
        """The new scores, -inf where the mask hides, and the context."""
        context = Context(self.visible)
        return self.check(program.evaluate(context, self.arguments), context), context

    def check(self, s, context):
        """`s` as a score: rejected where it is NaN, +inf or beyond what is promised, or known too badly."""
        shape = np.broadcast_shapes(s.value.shape, self.arguments[0].value.shape)
        s = Bounded(*(np.where(self.visible, np.broadcast_to(x, shape), -np.inf) for x in (s.value, s.low, s.high)))
        finite = np.isfinite(s.value)
        if np.isnan(s.value).any() or (np.abs(s.value[finite]) > 2e9).any() or (s.value == np.inf).any():
            raise Rejected("a score that is not asked for")
        # -1e9 stands for -inf beside others, and 1e4 is the most that a row's largest may be.
        most = s.value.max(-1, initial=-np.inf)
        if (np.abs(most[np.isfinite(most)]) > 1e4).any():
            raise Rejected("rows of large scores")
        return s


@dataclass
class Expected:
    out: np.ndarray
    lse: np.ndarray
    out_allowed: np.ndarray
    subnormal: np.ndarray  # of out_allowed, what P's subnormal numbers are where a row's largest is 1
    lse_allowed: np.ndarray
    decided: np.ndarray  # the rows of which something is claimed


def softmax(s):
    """p, the largest score (0 for rows without any) and lse."""
    most = s.max(-1, keepdims=True, initial=-np.inf)
    most = np.where(np.isfinite(most), most, 0.0)
    p = np.exp(s - most)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = most + np.log(total)
    return p / np.where(total == 0, 1, total), most, total, lse[..., 0]


def plain(s, v):
    p, _, _, lse = softmax(s)
    return p @ v, lse


def expect(attention, program):
    """Scores, p and sums are f32; p and out are rounded to the dtype. A row whose scores are all -inf gives zeros and
    -inf exactly."""
    s, context = attention.evaluate(program)
    dtype = attention.case["dtype"]
    p, most, total, lse = softmax(s.value)
    out = p @ attention.v
    keys = s.value.shape[-1]
    undecided = np.broadcast_to(context.undecided & attention.visible, s.value.shape).any(-1)

    # The exponent k s - rounded(k m): by the score's width, the roundings of k m and of the sum, k's own, ex2's 2 ulp.
    with np.errstate(invalid="ignore"):
        distance = np.where(np.isfinite(s.value), most - s.value, 0.0)
        width = np.where(np.isfinite(s.value), s.width(), 0.0)
        undecided |= (np.isfinite(s.value) & ~np.isfinite(s.width())).any(-1)
    error = np.where(p > 0, width + np.abs(most) * 2.0**-22 + distance * 2.0**-23 + 2.0**-21, 0.0)
    with np.errstate(over="ignore"):
        growth = np.where(p > 0, np.expm1(np.minimum(error, 80)), 0.0)
    drift = (p * growth).sum(-1)  # of the sum, relative
    sums = keys * 2.0**-26 + 2.0**-20
    lse_allowed = drift + sums + 2.0**-21 * np.abs(np.where(np.isfinite(lse), lse, 0.0)) + 2.0**-22 * np.abs(most[..., 0])
    magnitude = np.abs(attention.v)
    weight = p * (UNIT[dtype] + growth + drift[..., None] + keys * 2.0**-25 + sums)
    subnormal = SUBNORMAL[dtype] * ((p > 0) / np.where(total == 0, 1, total)) @ magnitude
    out_allowed = weight @ magnitude + UNIT[dtype] * np.abs(out) * 1.01 + SUBNORMAL[dtype] + subnormal
    out_allowed, subnormal = (np.where(total == 0, 0.0, x) for x in (out_allowed, subnormal))
    lse_allowed = np.where(np.isfinite(lse), lse_allowed, 0.0)
    return Expected(out, lse, out_allowed, subnormal, lse_allowed, ~undecided)


def excess(expected, out, lse, least=1.0):
    """By how many times what is allowed each row is off, at worst: out and lse, [batch, heads, rows]. A row's largest P may
    be as small as `least`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        off = np.abs(out - expected.out) / (expected.out_allowed + (1 / least - 1) * expected.subnormal)
        off = np.where(out == expected.out, 0.0, off)
        lse_off = np.where(lse == expected.lse, 0.0, np.abs(lse - expected.lse) / expected.lse_allowed)
    off, lse_off = (np.where(np.isnan(x), np.inf, x) for x in (off, lse_off))
    return np.where(expected.decided, off.max(-1, initial=0), 0), np.where(expected.decided, lse_off, 0)
