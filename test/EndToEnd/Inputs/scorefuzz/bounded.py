"""Values of f32 with what rounding may do to them.

A `Bounded` holds arrays of float64: `value`, what exact arithmetic gives, and `low` and `high`, between which any
kernel's f32 result lies, whatever it contracts into fused operations. Integers and booleans are plain arrays, since
a kernel computes them exactly. Where a decision (a comparison, a conversion to an integer) could fall either way
within the bounds, the element is noted as undecided and nothing is claimed of its row.
"""
import numpy as np

LARGEST = float(np.finfo(np.float32).max)
# Round to nearest is 2^-24; the other half is for contractions and for float64's own rounding.
ROUNDING = 2.0**-23
# Below it results may be flushed to zero.
SMALLEST = 2.0**-125


class Rejected(Exception):
    """The program has no defined result here, or one that is not to be asked for."""


class Bounded:
    def __init__(self, value, low=None, high=None):
        self.value = np.asarray(value, np.float64)
        self.low = self.value if low is None else low
        self.high = self.value if high is None else high

    @property
    def exact(self):
        return self.low is self.value and self.high is self.value

    def width(self):
        """How far a kernel's value may be from `value`: 0 where both are the same infinity."""
        with np.errstate(invalid="ignore"):
            width = np.maximum(self.high - self.value, self.value - self.low)
        return np.where((self.low == self.high) & (self.low == self.value), 0.0, width)


class Context:
    """What evaluation notes beside the values. Only `visible` elements count."""

    def __init__(self, visible):
        self.visible = visible
        self.undecided = np.zeros((), bool)

    def note(self, where):
        """These elements depend on a decision that rounding may turn."""
        self.undecided = self.undecided | where

    def require(self, where, what):
        if not (where | ~self.visible).all():
            raise Rejected(what)


def to_f32_range(x):
    return np.where(np.abs(x) > LARGEST, np.copysign(np.inf, x), x)


def rounded(value, low, high, context, relative=ROUNDING, absolute=SMALLEST):
    """The result of one f32 operation whose exact results lie in [low, high]."""
    with np.errstate(all="ignore"):
        value = to_f32_range(value)
        wide_low = to_f32_range(low - np.abs(low) * relative - absolute)
        wide_high = to_f32_range(high + np.abs(high) * relative + absolute)
        # What f32 holds is not rounded, and infinities stay.
        kept = (low == high) & (np.float32(low) == low)
        low, high = np.where(kept, low, wide_low), np.where(kept, high, wide_high)
        context.note((np.isnan(low) | np.isnan(high)) != np.isnan(value))
        context.note((np.isinf(low) | np.isinf(high)) & (low != high))
    if kept.all():
        return Bounded(value)
    return Bounded(value, low, high)


def corners(function, a, b):
    """Least and largest result of a function that is monotone in each operand."""
    with np.errstate(all="ignore"):
        results = [function(x, y) for x in {id(a.low): a.low, id(a.high): a.high}.values()
                   for y in {id(b.low): b.low, id(b.high): b.high}.values()]
        low, high = results[0], results[0]
        for r in results[1:]:
            low, high = np.minimum(low, r), np.maximum(high, r)
    return low, high


def monotone(function, relative=ROUNDING):
    """add, sub, mul, maximum, ...: by the corners of the operands' bounds."""
    def evaluate(context, a, b):
        with np.errstate(all="ignore"):
            return rounded(function(a.value, b.value), *corners(function, a, b), context, relative)
    return evaluate


def selection(function):
    """maximum, minimum: no rounding."""
    def evaluate(context, a, b):
        value = function(a.value, b.value)
        if a.exact and b.exact:
            return Bounded(value)
        return Bounded(value, function(a.low, b.low), function(a.high, b.high))
    return evaluate


def divide(context, a, b):
    with np.errstate(all="ignore"):
        context.note((b.low <= 0) & (b.high >= 0) & (b.low != b.high))
        return rounded(a.value / b.value, *corners(np.divide, a, b), context)


def negate(context, a):
    return Bounded(-a.value) if a.exact else Bounded(-a.value, -a.high, -a.low)


def absolute(context, a):
    value = np.abs(a.value)
    if a.exact:
        return Bounded(value)
    ends = np.abs(a.low), np.abs(a.high)
    low = np.where((a.low < 0) & (a.high > 0), 0.0, np.minimum(*ends))
    return Bounded(value, low, np.maximum(*ends))


def exponential(per_unit):
    """ex2.approx of the rounded product x per_unit: 2 ulp (PTX ISA), and the product's rounding."""
    def evaluate(context, a):
        with np.errstate(all="ignore"):
            ends = [np.exp2(x * per_unit) for x in (a.low, a.high)]
            error = [e * (np.nan_to_num(np.abs(x * per_unit), posinf=0.0) * ROUNDING + 2.0**-21)
                     for e, x in zip(ends, (a.low, a.high))]
            value = np.exp2(a.value * per_unit)
            # exp2 of an integer is exact, but no promise of ex2's.
            low, high = ends[0] - error[0] - SMALLEST, ends[1] + error[1] + SMALLEST
            same = (a.low == a.high) & np.isinf(a.low)
            return rounded(value, np.where(same, value, np.maximum(low, 0)), np.where(same, value, high), context)
    return evaluate


def hyperbolic_tangent(context, a):
    """1 - 2 / (2^(2 x log2 e) + 1): the power's error counts most at 0, by sech^2 / 2; then one rcp, one fma."""
    with np.errstate(all="ignore"):
        def error(x):
            power = np.nan_to_num(2.9 * np.abs(x), posinf=0.0) * ROUNDING + 2.0**-21
            return 0.5 / np.cosh(np.minimum(np.abs(x), 300))**2 * power + 2.0**-21
        value = np.tanh(a.value)
        return Bounded(value, np.tanh(a.low) - error(a.low), np.tanh(a.high) + error(a.high))


def float_comparison(predicate):
    """`predicate` as in arith.cmpf: o or u, then eq, gt, ge, lt, le, ne; or ord, uno, true, false."""
    def evaluate(context, a, b):
        unordered = np.isnan(a.value) | np.isnan(b.value)
        if predicate in ("true", "false"):
            return np.broadcast_to(predicate == "true", unordered.shape)
        if predicate in ("ord", "uno"):
            return unordered if predicate == "uno" else ~unordered
        with np.errstate(invalid="ignore"):
            relation = {"eq": np.equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less,
                        "le": np.less_equal}[predicate[1:]]
            result = relation(a.value, b.value)
            if not (a.exact and b.exact):
                kind = predicate[1:]
                if kind in ("lt", "ge"):
                    sure = (a.high < b.low) | (a.low >= b.high)
                elif kind in ("gt", "le"):
                    sure = (a.low > b.high) | (a.high <= b.low)
                else:
                    same = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
                    sure = (a.high < b.low) | (a.low > b.high) | same
                context.note(~sure & ~unordered)
        return np.where(unordered, predicate[0] == "u", result)
    return evaluate


def choose(context, condition, a, b):
    if not isinstance(a, Bounded):
        return np.where(condition, a, b)
    value = np.where(condition, a.value, b.value)
    if a.exact and b.exact:
        return Bounded(value)
    return Bounded(value, np.where(condition, a.low, b.low), np.where(condition, a.high, b.high))


def to_integer(least, largest):
    """Truncation of what is in range for certain: beyond it arith gives no result."""
    def evaluate(context, a):
        with np.errstate(invalid="ignore"):
            defined = (a.low > least - 1) & (a.high < largest + 1)
        context.require(defined, "a conversion that is out of range")
        low, high, value = (np.trunc(np.where(defined, x, 0)) for x in (a.low, a.high, a.value))
        context.note(low != high)
        return value.astype(np.int64)
    return evaluate
