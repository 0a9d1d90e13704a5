"""The operations that a score program may hold: their text, and what they compute.

An `Operation` has a name, operand types, a result type and `evaluate(context, *operands)`; the text is
`%r = NAME [PREDICATE,] OPERANDS : TYPES` as upstream prints it. Values are those of bounded.py.
"""
from dataclasses import dataclass

import numpy as np

from . import bounded
from .bounded import Bounded, Rejected

BITS = {"i1": 1, "i8": 8, "i32": 32, "i64": 64, "index": 32}  # index as the kernels have it
INTEGERS = ("i32", "i64", "index", "i8")


@dataclass(frozen=True)
class Operation:
    name: str
    operands: tuple
    result: str
    evaluate: object
    predicate: str = ""
    cast: bool = False

    def text(self, names):
        arguments = ", ".join(([self.predicate] if self.predicate else []) + list(names))
        if self.cast:
            types = f"{self.operands[0]} to {self.result}"
        else:
            types = self.operands[-1]
        return f"{self.name} {arguments} : {types}"


def wrap(context, x, kind):
    """Two's complement; what an index holds is the same in 32 and in 64 bits, or the program is not taken."""
    if kind == "i64":
        return x
    bits = BITS[kind]
    half = 1 << (bits - 1)
    wrapped = ((x + half) & ((1 << bits) - 1)) - half
    if kind == "index" and (wrapped != x).any():
        raise Rejected("an index beyond 32 bits")
    return wrapped


def unsigned(context, x, kind):
    if kind in ("index", "i64"):
        # A negative index depends on its width; one of 64 bits is beyond NumPy's int64.
        if (x < 0).any():
            raise Rejected("a negative index as unsigned")
        return x
    return x & ((1 << BITS[kind]) - 1)


def floor_divide(a, b):
    return np.floor_divide(a, np.where(b == 0, 1, b))


def truncated_divide(a, b):
    b = np.where(b == 0, 1, b)
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def ceil_divide(a, b):
    return -np.floor_divide(-a, np.where(b == 0, 1, b))


def truncated_remainder(a, b):
    return a - truncated_divide(a, b) * b


def integer(function, kind, *, by_unsigned=False, divides=False, shifts=False):
    def evaluate(context, a, b):
        if by_unsigned:
            a, b = unsigned(context, a, kind), unsigned(context, b, kind)
        if divides:
            context.require(b != 0, "a division by zero")
        if shifts:
            context.require((b >= 0) & (b < BITS[kind]), "a shift beyond the width")
        if kind == "i1":
            return function(a, b)
        return wrap(context, function(a, b), kind)
    return evaluate


def comparison(predicate, kind):
    function = {"eq": np.equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less,
                "le": np.less_equal}[predicate[-2:]]

    def evaluate(context, a, b):
        if predicate[0] == "u" and kind != "i64":
            # 32 and 64 bits order sign-extended numbers alike.
            mask = (1 << BITS[kind]) - 1
            a, b = a & mask, b & mask
        elif predicate[0] == "u":
            a, b = a.astype(np.uint64), b.astype(np.uint64)
        return function(a, b)
    return evaluate


def all_operations():
    f, table = "f32", []

    def add(name, operands, result, evaluate, **more):
        table.append(Operation(name, tuple(operands), result, evaluate, **more))

    for name, evaluate in (
            ("arith.addf", bounded.monotone(np.add)), ("arith.subf", subtract),
            ("arith.mulf", bounded.monotone(np.multiply)), ("arith.divf", bounded.divide),
            ("arith.maximumf", bounded.selection(np.maximum)), ("arith.minimumf", bounded.selection(np.minimum))):
        add(name, (f, f), f, evaluate)
    for name, evaluate in (
            ("arith.negf", bounded.negate), ("math.absf", bounded.absolute),
            ("math.exp", bounded.exponential(np.log2(np.e))), ("math.exp2", bounded.exponential(1.0)),
            ("math.tanh", bounded.hyperbolic_tangent)):
        add(name, (f,), f, evaluate)
    relations = ("eq", "gt", "ge", "lt", "le", "ne")
    for predicate in [o + r for o in "ou" for r in relations] + ["ord", "uno", "true", "false"]:
        add("arith.cmpf", (f, f), "i1", bounded.float_comparison(predicate), predicate=predicate)
    for kind in (f, "i1") + INTEGERS:
        add("arith.select", ("i1", kind, kind), kind, bounded.choose)
    for kind in INTEGERS:
        for predicate in ("eq", "ne") + tuple(s + r for s in "su" for r in ("lt", "le", "gt", "ge")):
            add("arith.cmpi", (kind, kind), "i1", comparison(predicate, kind), predicate=predicate)
        for name, function, how in (
                ("addi", np.add, {}), ("subi", np.subtract, {}), ("muli", np.multiply, {}),
                ("divsi", truncated_divide, {"divides": True}), ("floordivsi", floor_divide, {"divides": True}),
                ("ceildivsi", ceil_divide, {"divides": True}), ("remsi", truncated_remainder, {"divides": True}),
                ("divui", floor_divide, {"divides": True, "by_unsigned": True}),
                ("ceildivui", ceil_divide, {"divides": True, "by_unsigned": True}),
                ("remui", truncated_remainder, {"divides": True, "by_unsigned": True}),
                ("andi", np.bitwise_and, {}), ("ori", np.bitwise_or, {}), ("xori", np.bitwise_xor, {}),
                ("shli", np.left_shift, {"shifts": True}), ("shrsi", np.right_shift, {"shifts": True}),
                ("shrui", np.right_shift, {"shifts": True, "by_unsigned": True}),
                ("maxsi", np.maximum, {}), ("minsi", np.minimum, {}),
                ("maxui", np.maximum, {"by_unsigned": True}), ("minui", np.minimum, {"by_unsigned": True})):
            add("arith." + name, (kind, kind), kind, integer(function, kind, **how))
    for name, function in (("andi", np.logical_and), ("ori", np.logical_or), ("xori", np.logical_xor)):
        add("arith." + name, ("i1", "i1"), "i1", integer(function, "i1"))
    for name, source, result, evaluate in casts():
        add("arith." + name, (source,), result, evaluate, cast=True)
    return table


def subtract(context, a, b):
    return bounded.monotone(np.add)(context, a, bounded.negate(context, b))


def casts():
    def to_float(kind, is_unsigned):
        def evaluate(context, a):
            x = (unsigned(context, a, kind) if is_unsigned or kind == "i1" else a).astype(np.float64)
            if kind == "i1" and not is_unsigned:
                x = -x
            return bounded.rounded(x, x, x, context)
        return evaluate

    def resize(kind, result, is_unsigned):
        def evaluate(context, a):
            if kind == "i1":
                a = a.astype(np.int64) * (1 if is_unsigned else -1)
            elif is_unsigned:
                a = unsigned(context, a, kind)
            return wrap(context, a, result)
        return evaluate

    def to_bit(context, a):
        return (a & 1).astype(bool)

    for kind in ("i32", "i64", "i8", "i1"):
        yield "sitofp", kind, "f32", to_float(kind, False)
        yield "uitofp", kind, "f32", to_float(kind, True)
    yield "fptosi", "f32", "i32", bounded.to_integer(-(2**31), 2**31 - 1)
    yield "fptoui", "f32", "i32", lambda context, a: wrap(context, bounded.to_integer(0, 2**32 - 1)(context, a), "i32")
    yield "fptosi", "f32", "i64", bounded.to_integer(-(2**40), 2**40)
    for kind in ("i32", "i64"):
        yield "index_cast", "index", kind, resize("index", kind, False)
        yield "index_cast", kind, "index", resize(kind, "index", False)
        yield "index_castui", "index", kind, resize("index", kind, True)
    for source, result in (("i8", "i32"), ("i32", "i64"), ("i1", "i32"), ("i8", "i64")):
        yield "extsi", source, result, resize(source, result, False)
        yield "extui", source, result, resize(source, result, True)
    for source, result in (("i64", "i32"), ("i32", "i8")):
        yield "trunci", source, result, resize(source, result, False)
    yield "trunci", "i32", "i1", to_bit
    # Of values that are known to the bit.
    yield "bitcast", "f32", "i32", bits_of
    yield "bitcast", "i32", "f32", float_of


def bits_of(context, a):
    with np.errstate(invalid="ignore", over="ignore"):
        context.note(a.low != a.high)
        return np.float32(a.value).view(np.int32).astype(np.int64)


def float_of(context, a):
    x = (a & 0xFFFFFFFF).astype(np.uint32).view(np.float32).astype(np.float64)
    return Bounded(x)


OPERATIONS = all_operations()
BY_KEY = {(o.name, o.predicate, o.operands, o.result): o for o in OPERATIONS}
