"""Values of a function that is traced: a scalar on the GPU, of which only its kind is known.

Kinds are f32, i32 (signed) and i1. Python's numbers are values too, which operations among themselves leave as they are.
"""

import numbers

from .place import cannot

_ORDER = ("i1", "i32", "f32")


class Traced:
    """Stands for a score, an index, or what was computed of them."""

    __slots__ = ("builder", "kind", "name", "parts", "known")
    __array_ufunc__ = None  # NumPy's numbers leave operators to it

    def __init__(self, builder, kind, name, parts=(), known=None):
        self.builder, self.kind, self.name = builder, kind, name
        self.parts = parts  # of a conjunction: its terms
        self.known = known  # of a constant: its value

    def _needs_value(self, what):
        raise cannot(
            f"{what} needs a value that exists on the GPU only; use torch.where(condition, a, b), torch.maximum, "
            "torch.minimum, and & | ~ in place of if, max, min, and, or, not and chained comparisons", TypeError,
        )

    def __bool__(self):
        self._needs_value("a condition")

    def __float__(self):
        self._needs_value("float()")

    def __int__(self):
        self._needs_value("int()")

    def __index__(self):
        self._needs_value("an index, or range(),")

    def __iter__(self):
        self._needs_value("a loop")

    def __len__(self):
        self._needs_value("len()")

    def __setitem__(self, index, value):
        raise cannot("a traced value cannot be written in place")

    def __getitem__(self, index):
        raise cannot("a traced value is a scalar, which has no elements", TypeError)

    def __getattr__(self, name):
        from .functions import method

        return method(self, name)

    def __hash__(self):
        return id(self)

    def __format__(self, form):
        return repr(self)

    def __repr__(self):
        return f"<traced {self.kind}>"

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        from .functions import of_torch

        return of_torch(function, arguments, options or {})


def is_number(value) -> bool:
    return isinstance(value, numbers.Number) and not isinstance(value, complex)


def kind_of(value) -> str:
    if isinstance(value, Traced):
        return value.kind
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return "i1"
    if isinstance(value, numbers.Integral):
        return "i32"
    if isinstance(value, numbers.Real):
        return "f32"
    raise cannot(_unsupported(value), NotImplementedError if hasattr(value, "shape") else TypeError)


def _unsupported(value):
    if hasattr(value, "shape"):
        return (f"a captured {type(value).__name__} of shape {tuple(value.shape)} is not supported here; a program reads single "
                "elements of PyTorch's tensors, tensor[b, h, ...], and Python's numbers are its constants")
    return f"expected a traced value or a number, got {type(value).__name__}"


def common_kind(*values) -> str:
    return max((kind_of(v) for v in values), key=_ORDER.index)


def as_kind(builder, value, kind) -> str:
    """The name of the value, converted to a kind."""
    have = kind_of(value)
    if not isinstance(value, Traced):
        if kind == "i32" and not -(2 ** 31) <= value < 2 ** 31:
            raise cannot(f"the integer {value} does not fit 32 bits", ValueError)
        return builder.constant(kind, value != 0 if kind == "i1" else float(value) if kind == "f32" else int(value))
    if have == kind:
        return value.name
    if kind == "i1":
        zero = builder.constant(have, 0)
        compare = "arith.cmpf une" if have == "f32" else "arith.cmpi ne"
        return builder.emit(f"{compare}, {value.name}, {zero}", have)
    if have == "i1":
        value = Traced(builder, "i32", builder.emit(f"arith.extui {value.name}", "i1 to i32"))
        return as_kind(builder, value, kind)
    if kind == "f32":
        return builder.emit(f"arith.sitofp {value.name}", "i32 to f32")
    return builder.emit(f"arith.fptosi {value.name}", "f32 to i32")


def builder_of(*values):
    return next(v.builder for v in values if isinstance(v, Traced))
