"""What a traced function's program follows from, so that it is traced once."""

import functools
import types

# Modules whose attributes nobody changes.
_CONSTANT_MODULES = ("torch", "math", "operator", "numpy", "functools", "builtins")
_PLAIN = (int, float, bool, str, bytes, type(None))


class NoSignature(Exception):
    """Of something whose change could not be seen."""


def signature(value):
    """A hashable that is another one where the function computes something else; raises NoSignature."""
    if isinstance(value, _PLAIN):
        # 1, 1.0 and True are equal, and make other programs.
        return type(value), value.hex() if isinstance(value, float) else value
    if isinstance(value, types.FunctionType):
        return _of_function(value)
    if isinstance(value, functools.partial):
        return signature(value.func), signature(value.args), signature(tuple(sorted(value.keywords.items())))
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(signature, value))
    if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] in _CONSTANT_MODULES:
        return id(value)
    if isinstance(value, (types.BuiltinFunctionType, type)) or type(value).__name__ == "dtype":
        return id(value), type(value)
    raise NoSignature(type(value).__name__)


def _of_function(function, seen=()):
    if function in seen or len(seen) > 8:
        raise NoSignature("recursion")
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(signature(cell.cell_contents))
        except ValueError:  # empty
            raise NoSignature("an empty cell") from None
    names = sorted(_names(function.__code__))
    globals_used = tuple((name, signature(function.__globals__[name])) for name in names if name in function.__globals__)
    defaults = signature(function.__defaults__ or ()), signature(tuple(sorted((function.__kwdefaults__ or {}).items())))
    return function.__code__, tuple(cells), globals_used, defaults


def _names(code):
    """Of globals and attributes, in functions within too."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
