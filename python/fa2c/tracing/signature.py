"""What a traced function's program follows from, so that it is traced once."""

import functools
import sys
import types
import weakref

# Modules whose attributes nobody changes.
_CONSTANT_MODULES = ("torch", "math", "operator", "numpy", "functools", "builtins")
_PLAIN = (int, float, bool, str, bytes, type(None))


class NoSignature(Exception):
    """Of something whose change could not be seen."""


class Signature:
    """Of several values: `key`, a hashable that is another one where they compute something else, and `tensors`, those that they capture.

    Raises NoSignature. `unchanged()` says without looking at values again that the key is still theirs.
    """

    def __init__(self, *values):
        self.tensors = []  # the key has their types, and which of them are one
        self._cells, self._globals, self._functions = [], [], []
        self._is_fixed = True  # whether all that may change is in these lists
        self.key = tuple(map(self._of, values))

    def unchanged(self) -> bool:
        if not self._is_fixed:
            return False
        try:
            for cell, value in self._cells:
                if cell.cell_contents is not value:
                    return False
        except ValueError:  # emptied
            return False
        for names, name, value in self._globals:
            if names.get(name) is not value:
                return False
        for weak, code, defaults, keyword_defaults in self._functions:
            function = weak()
            if (function is None or function.__code__ is not code or function.__defaults__ is not defaults
                    or function.__kwdefaults__ is not keyword_defaults):
                return False
        return True

    def _of(self, value):
        if isinstance(value, _PLAIN):
            # 1, 1.0 and True are equal, and make other programs.
            return type(value), value.hex() if isinstance(value, float) else value
        if isinstance(value, types.FunctionType):
            return self._of_function(value)
        if _is_tensor(value):
            return self._of_tensor(value)
        if isinstance(value, functools.partial):
            self._is_fixed = self._is_fixed and not value.keywords
            return self._of(value.func), self._of(value.args), self._of(tuple(sorted(value.keywords.items())))
        if isinstance(value, (tuple, list)):
            self._is_fixed = self._is_fixed and isinstance(value, tuple)
            return type(value), tuple(map(self._of, value))
        if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] in _CONSTANT_MODULES:
            return id(value)
        if isinstance(value, (types.BuiltinFunctionType, type)) or type(value).__name__ == "dtype":
            return id(value), type(value)
        raise NoSignature(type(value).__name__)

    def _of_tensor(self, tensor):
        self.tensors.append(tensor)
        first = next(i for i, other in enumerate(self.tensors) if other is tensor)
        return "tensor", first, str(tensor.dtype), tensor.dim()

    def _of_function(self, function):
        if any(function is known() for known, *_ in self._functions):
            return "seen", id(function)
        given = function.__code__, function.__defaults__, function.__kwdefaults__
        self._functions.append((weakref.ref(function), *given))  # which keeps this, or is kept by what keeps this
        self._is_fixed = self._is_fixed and not function.__kwdefaults__
        cells, globals_used = [], []
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                raise NoSignature("an empty cell") from None
            self._cells.append((cell, value))
            cells.append(self._of(value))
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                value = function.__globals__[name]
                self._globals.append((function.__globals__, name, value))
                globals_used.append((name, self._of(value)))
        defaults = self._of(function.__defaults__ or ()), self._of(tuple(sorted((function.__kwdefaults__ or {}).items())))
        return function.__code__, tuple(cells), tuple(globals_used), defaults


def _is_tensor(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _names(code):
    """Of globals and attributes, in functions within too."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
