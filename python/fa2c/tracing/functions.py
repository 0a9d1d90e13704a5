"""What traced values may meet: Python's operators, and PyTorch's functions and methods by their names."""

import math
import operator

from .captured import elements
from .place import cannot
from .values import Traced, as_kind, builder_of, common_kind, is_number, kind_of

FUNCTIONS = {}


def named(*names):
    def add(function):
        FUNCTIONS.update((name, function) for name in names)
        return function

    return add


def _emit(operation, kind, values, result=None):
    """An operation on values of one kind; `result` is the kind of what it gives, if another."""
    builder = builder_of(*values)
    names = ", ".join(as_kind(builder, v, kind) for v in values)
    separator = ", " if operation.startswith("arith.cmp") else " "
    return Traced(builder, result or kind, builder.emit(f"{operation}{separator}{names}", kind))


def _all_numbers(*values):
    return all(is_number(v) for v in values)


def _arithmetic(names, on_numbers, of_floats, of_integers):
    def function(a, b):
        if _all_numbers(a, b):
            return on_numbers(a, b)
        kind = common_kind(a, b)
        if kind == "f32":
            return _emit(of_floats, kind, (a, b))
        return _emit(of_integers, "i32", (a, b))

    return named(*names)(function)


_plus = _arithmetic(("+",), operator.add, "arith.addf", "arith.addi")
_minus = _arithmetic(("-",), operator.sub, "arith.subf", "arith.subi")
multiply = _arithmetic(("*", "mul", "multiply"), operator.mul, "arith.mulf", "arith.muli")
maximum = _arithmetic(("maximum", "max", "fmax"), max, "arith.maximumf", "arith.maxsi")
minimum = _arithmetic(("minimum", "min", "fmin"), min, "arith.minimumf", "arith.minsi")


@named("add")
def add(a, b, *, alpha=1):
    return _plus(a, b if alpha == 1 else multiply(b, alpha))


@named("sub", "subtract")
def subtract(a, b, *, alpha=1):
    return _minus(a, b if alpha == 1 else multiply(b, alpha))


@named("rsub")
def subtract_from(a, b, *, alpha=1):
    return subtract(b, a, alpha=alpha)


def _refuse_zero(b):
    if is_number(b) and b == 0:
        raise cannot("division by zero", ZeroDivisionError)


@named("/", "div", "divide", "true_divide")
def divide(a, b, *, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode == "trunc":
        return _truncated_divide(a, b)
    if _all_numbers(a, b):
        return a / b
    return _emit("arith.divf", "f32", (a, b))


@named("//", "floor_divide")
def floor_divide(a, b):
    """Rounds down, as Python and PyTorch do."""
    _refuse_zero(b)
    if _all_numbers(a, b):
        return a // b
    if common_kind(a, b) == "f32":
        return floor(divide(a, b))
    return _emit("arith.floordivsi", "i32", (a, b))


def _truncated_divide(a, b):
    _refuse_zero(b)
    if common_kind(a, b) == "f32":
        return truncate(divide(a, b))
    return _emit("arith.divsi", "i32", (a, b))


@named("%", "remainder")
def remainder(a, b):
    """Of the divisor's sign, as Python's and PyTorch's."""
    if _all_numbers(a, b):
        return a % b
    return subtract(a, multiply(floor_divide(a, b), b))


@named("fmod")
def truncated_remainder(a, b):
    return subtract(a, multiply(_truncated_divide(a, b), b))


@named("**", "pow", "float_power")
def power(a, b):
    if _all_numbers(a, b):
        return a ** b
    if is_number(a) and a > 0:
        return exp2(multiply(b, math.log2(a)))
    if not is_number(b) or b != int(b) or not 0 <= abs(b) <= 64:
        raise cannot("a power is supported of a positive number, or with a whole number up to 64 as exponent")
    if b < 0:
        return divide(1.0, power(a, -b))
    result, square, exponent = None, a, int(b)
    while exponent:
        if exponent & 1:
            result = square if result is None else multiply(result, square)
        square, exponent = multiply(square, square) if exponent > 1 else square, exponent >> 1
    return add(multiply(a, 0), 1) if result is None else result


@named("square")
def square(a):
    return multiply(a, a)


def _comparison(names, on_numbers, predicate):
    def function(a, b):
        if _all_numbers(a, b):
            return on_numbers(a, b)
        kind = common_kind(a, b)
        if kind == "f32":
            ordered = "u" if predicate == "ne" else "o"
            return _emit(f"arith.cmpf {ordered}{predicate}", "f32", (a, b), "i1")
        signed = "" if predicate in ("eq", "ne") else "s"
        return _emit(f"arith.cmpi {signed}{predicate}", "i32", (a, b), "i1")

    return named(*names)(function)


_comparison(("<", "lt", "less"), operator.lt, "lt")
_comparison(("<=", "le", "less_equal"), operator.le, "le")
_comparison((">", "gt", "greater"), operator.gt, "gt")
_comparison((">=", "ge", "greater_equal"), operator.ge, "ge")
_comparison(("==", "eq"), operator.eq, "eq")
not_equal = _comparison(("!=", "ne", "not_equal"), operator.ne, "ne")


def _bitwise(names, on_numbers, operation):
    def function(a, b):
        if _all_numbers(a, b):
            return on_numbers(a, b)
        kind = common_kind(a, b)
        if kind == "f32":
            raise cannot(f"{names[0]} takes integers and booleans, got a float", TypeError)
        if kind == "i1" and operation == "arith.andi":
            return _conjunction(a, b)
        return _emit(operation, kind, (a, b))

    return named(*names)(function)


def _conjunction(a, b):
    """a & b of booleans, whose terms are kept."""
    for value, other in ((a, b), (b, a)):
        if value is True or getattr(value, "known", None) is True:
            return other
    result = _emit("arith.andi", "i1", (a, b))
    result.parts = tuple(part for v in (a, b) for part in (getattr(v, "parts", ()) or (v,)))
    return result


_bitwise(("&", "bitwise_and"), operator.and_, "arith.andi")
_bitwise(("|", "bitwise_or"), operator.or_, "arith.ori")
exclusive_or = _bitwise(("^", "bitwise_xor"), operator.xor, "arith.xori")
_bitwise(("<<", "bitwise_left_shift"), operator.lshift, "arith.shli")
_bitwise((">>", "bitwise_right_shift"), operator.rshift, "arith.shrsi")


@named("logical_and")
def logical_and(a, b):
    return FUNCTIONS["&"](to_bool(a), to_bool(b))


@named("logical_or")
def logical_or(a, b):
    return FUNCTIONS["|"](to_bool(a), to_bool(b))


@named("logical_xor")
def logical_xor(a, b):
    return exclusive_or(to_bool(a), to_bool(b))


@named("logical_not")
def logical_not(a):
    return exclusive_or(to_bool(a), True)


@named("~", "bitwise_not")
def invert(a):
    return logical_not(a) if kind_of(a) == "i1" else exclusive_or(a, -1)


@named("neg", "negative")
def negate(a):
    if kind_of(a) == "f32":
        return _emit("arith.negf", "f32", (a,))
    return subtract(0, a)


@named("pos", "positive", "clone", "contiguous", "detach")
def itself(a, **options):
    return a


@named("abs", "absolute")
def absolute(a):
    if kind_of(a) == "f32":
        return _emit("math.absf", "f32", (a,))
    return maximum(a, negate(a))


@named("exp")
def exp(a):
    return _emit("math.exp", "f32", (a,))


@named("exp2", "special_exp2")
def exp2(a):
    return _emit("math.exp2", "f32", (a,))


@named("tanh")
def tanh(a):
    return _emit("math.tanh", "f32", (a,))


@named("sigmoid", "special_expit")
def sigmoid(a):
    return add(multiply(tanh(multiply(a, 0.5)), 0.5), 0.5)


@named("relu")
def relu(a, inplace=False):
    return maximum(a, 0)


@named("reciprocal")
def reciprocal(a):
    return divide(1.0, a)


@named("sign", "sgn")
def sign(a):
    smaller = where(FUNCTIONS["<"](a, 0), -1, 0)
    result = where(FUNCTIONS[">"](a, 0), 1, smaller)
    return to_float(result) if kind_of(a) == "f32" else result


def _rounded(a, change):
    """`change` of a and its whole part, where a has a fraction at all: from 2^23 on, floats are whole."""
    if kind_of(a) != "f32":
        return a
    near = FUNCTIONS["<"](absolute(a), 2.0 ** 23)
    whole = to_float(to_int(where(near, a, 0.0)))
    return where(near, change(a, whole), a)


@named("floor")
def floor(a):
    return _rounded(a, lambda a, whole: where(FUNCTIONS[">"](whole, a), subtract(whole, 1.0), whole))


@named("ceil")
def ceil(a):
    return _rounded(a, lambda a, whole: where(FUNCTIONS["<"](whole, a), add(whole, 1.0), whole))


@named("trunc", "fix")
def truncate(a):
    return _rounded(a, lambda a, whole: whole)


@named("clamp", "clip")
def clamp(a, min=None, max=None):
    a = a if min is None else maximum(a, min)
    return a if max is None else minimum(a, max)


@named("clamp_min")
def clamp_min(a, min):
    return maximum(a, min)


@named("clamp_max")
def clamp_max(a, max):
    return minimum(a, max)


@named("where")
def where(condition, a=None, b=None):
    if a is None or b is None:
        raise cannot("torch.where is supported with three arguments")
    if is_number(condition):
        return a if condition else b
    if kind_of(condition) != "i1":
        raise cannot("torch.where takes a boolean condition", TypeError)
    kind = common_kind(a, b)
    builder = condition.builder
    names = ", ".join((condition.name, as_kind(builder, a, kind), as_kind(builder, b, kind)))
    return Traced(builder, kind, builder.emit(f"arith.select {names}", kind))


@named("masked_fill")
def masked_fill(a, mask, value):
    return where(mask, value, a)


@named("isinf")
def is_infinite(a):
    return FUNCTIONS["=="](absolute(to_float(a)), math.inf)


@named("isnan")
def is_nan(a):
    return not_equal(to_float(a), to_float(a))


@named("float")
def to_float(a):
    return a if kind_of(a) == "f32" else Traced(a.builder, "f32", as_kind(a.builder, a, "f32"))


@named("int", "long")
def to_int(a):
    """Towards zero; integers have 32 bits."""
    return a if kind_of(a) == "i32" else Traced(a.builder, "i32", as_kind(a.builder, a, "i32"))


@named("bool")
def to_bool(a):
    if is_number(a):
        return bool(a)
    return a if a.kind == "i1" else Traced(a.builder, "i1", as_kind(a.builder, a, "i1"))


_CONVERSIONS = {"torch.float32": to_float, "torch.int32": to_int, "torch.int64": to_int, "torch.bool": to_bool}


@named("to", "type", "type_as")
def convert(a, dtype=None, **options):
    dtype = options.get("dtype", dtype)
    if isinstance(dtype, Traced):
        dtype = {"f32": "torch.float32", "i32": "torch.int32", "i1": "torch.bool"}[dtype.kind]
    if str(dtype) in _CONVERSIONS:
        return _CONVERSIONS[str(dtype)](a)
    if "float" in str(dtype) or "int" in str(dtype):
        raise cannot(f"a program computes in float32, int32 and bool, not in {dtype}")
    return a  # a device, or nothing


def _filled(value):
    def function(a, *size, dtype=None, **options):
        if any(s for s in size if s not in ((), [])):
            raise cannot("a program computes scalars; tensors of a shape are not supported")
        fitting = {"f32": float(value), "i32": int(value), "i1": bool(value)}[kind_of(a)]
        return fitting if dtype is None else convert(_constant(a, fitting), dtype)

    return function


def _constant(a, value):
    kind = kind_of(value)
    return Traced(a.builder, kind, a.builder.constant(kind, value), known=value)


FUNCTIONS.update(zeros_like=_filled(0), ones_like=_filled(1))


@named("new_ones")
def new_ones(a, size=(), dtype=None, **options):
    if str(dtype) == "torch.bool" and tuple(size) == ():
        return _constant(a, True)  # what and_masks begins with
    return _filled(1)(a, size, dtype=dtype)


@named("new_zeros")
def new_zeros(a, size=(), dtype=None, **options):
    if str(dtype) == "torch.bool" and tuple(size) == ():
        return _constant(a, False)  # what or_masks begins with
    return _filled(0)(a, size, dtype=dtype)


@named("full_like", "new_full")
def full_like(a, *arguments, **options):
    value = options.get("fill_value", arguments[-1] if arguments else None)
    return to_float(_constant(a, value)) if kind_of(a) == "f32" else _constant(a, value)


@named("item", "tolist")
def item(a):
    a._needs_value(".item()")


_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&", "or": "|",
    "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}
_UNARY = {"neg": "neg", "pos": "pos", "abs": "abs", "invert": "~"}


def _set_operators():
    for name, symbol in _OPERATORS.items():
        function = FUNCTIONS[symbol]
        setattr(Traced, f"__{name}__", lambda a, b, f=function: f(a, elements(a.builder, b)))
        setattr(Traced, f"__r{name}__", lambda a, b, f=function: f(elements(a.builder, b), a))
    for name, known in _UNARY.items():
        setattr(Traced, f"__{name}__", lambda a, f=FUNCTIONS[known]: f(a))


_set_operators()


def method(value, name):
    """A method of a traced value, or what it has of a tensor's attributes."""
    if name in FUNCTIONS and name.isidentifier():
        return lambda *arguments, **options: _call(name, (value, *elements(value.builder, arguments)), elements(value.builder, options))
    if name.startswith("__") or name.endswith("__"):
        raise AttributeError(name)
    if name in ("shape", "ndim", "dtype", "device", "size", "dim", "is_cuda", "requires_grad"):
        return _attribute(name)
    raise cannot(_unknown(name))


def _attribute(name):
    import torch

    fixed = {"shape": torch.Size(()), "ndim": 0, "size": torch.Size, "dim": lambda: 0, "requires_grad": False,
             "device": torch.device("cpu")}  # where a value is traced, not where it is computed
    if name in fixed:
        return fixed[name]
    raise cannot(f".{name} of a traced value is not known")


def of_torch(function, arguments, options):
    """A function of PyTorch's that was given a traced value."""
    name = getattr(function, "__name__", str(function))
    if name.startswith("__") and name.endswith("__") and name not in FUNCTIONS:
        return _of_operator(name[2:-2], arguments)
    if name not in FUNCTIONS:
        if name.endswith("_") and name[:-1] in FUNCTIONS:
            raise cannot(f"torch.{name} writes in place; use torch.{name[:-1]}")
        raise cannot(_unknown("torch." + name))
    return _call(name, arguments, options)


def _of_operator(name, arguments):
    """An operator of a real tensor, the other side being traced."""
    if name in _OPERATORS:
        return FUNCTIONS[_OPERATORS[name]](*arguments)
    if name[0] == "r" and name[1:] in _OPERATORS:
        return FUNCTIONS[_OPERATORS[name[1:]]](*reversed(arguments))
    raise cannot(_unknown(f"the operator {name}"))


def _call(name, arguments, options):
    try:
        return FUNCTIONS[name](*arguments, **options)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise cannot(f"{name} is not supported with these arguments ({error})") from None


def _unknown(name):
    known = sorted(n for n in FUNCTIONS if n.isidentifier())
    return f"{name} is not supported in a program; supported: {', '.join(known)}"
