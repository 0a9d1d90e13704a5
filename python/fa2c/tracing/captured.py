"""Captured tensors of PyTorch, whose elements a program reads, and functions on them, whose values would be frozen into the program in
silence."""

import contextlib
import functools
import sys

from .place import cannot
from .values import Traced, as_kind, kind_of

# What only asks how a tensor is made.
_HARMLESS = {"shape", "dtype", "device", "ndim", "size", "dim", "stride", "numel", "is_floating_point", "requires_grad",
             "is_cuda", "__get__"}
# Kinds of elements in a kernel, by dtypes; what has no such kind there is copied to int32 before the launch (fa2c.operands).
ELEMENTS = {"torch.float32": "f32", "torch.bfloat16": "bf16", "torch.float16": "f16", "torch.int32": "i32", "torch.int64": "i32",
            "torch.int16": "i32", "torch.int8": "i32", "torch.uint8": "i32", "torch.bool": "i32"}
_MOST_DIMENSIONS = 4


class Captured:
    """A tensor, or what some leading indices leave of it."""

    def __init__(self, builder, tensor, indices=()):
        self.builder, self.tensor, self.indices = builder, tensor, indices

    @property
    def shape(self):
        return self.tensor.shape[len(self.indices):]

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        indices = self.indices + tuple(self._index(i) for i in index)
        if len(indices) > self.tensor.dim():
            raise cannot(f"{len(indices)} indices into a captured tensor of shape {tuple(self.tensor.shape)}", IndexError)
        found = Captured(self.builder, self.tensor, indices)
        return found.value() if len(indices) == self.tensor.dim() else found

    def _index(self, i):
        if isinstance(i, Captured) and not i.shape:
            i = i.value()
        known = isinstance(i, Traced) or isinstance(i, int) and not isinstance(i, bool)
        if not known or kind_of(i) != "i32":
            raise cannot(f"a captured tensor takes indices of integers, got {type(i).__name__ if not known else kind_of(i)}", TypeError)
        if not isinstance(i, Traced) and i < 0:
            raise cannot(f"the index {i} of a captured tensor: an index from the end is not supported")
        return i

    def value(self):
        """The element."""
        element = element_of(self.tensor)
        places = [as_kind(self.builder, i, "i32") for i in self.indices]
        name = self.builder.read(self.builder.capture(self.tensor, element), places)
        read = Traced(self.builder, "i32" if element == "i32" else "f32", name)
        return read != 0 if str(self.tensor.dtype) == "torch.bool" else read

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        """A function of PyTorch's on a part of a tensor: its next indices, else no element is meant."""
        if getattr(function, "__name__", "") == "__getitem__":
            return arguments[0][arguments[1]]
        raise cannot(not_an_element(next(x for x in arguments if isinstance(x, Captured)).shape))


def element_of(tensor):
    element = ELEMENTS.get(str(tensor.dtype))
    if element is None:
        raise cannot(f"a captured tensor of {tensor.dtype}; supported: {', '.join(ELEMENTS)}")
    if tensor.dim() > _MOST_DIMENSIONS:
        raise cannot(f"a captured tensor of {tensor.dim()} dimensions; supported are up to {_MOST_DIMENSIONS}")
    return element


def not_an_element(shape):
    return f"a captured tensor of shape {tuple(shape)} takes part as a whole; a program reads single elements: index it, tensor[b, h, ...]"


def watched(builder):
    """A context in which captured tensors are read by indices, and any other function of PyTorch's that no traced value takes part in
    raises."""
    return contextlib.nullcontext() if sys.modules.get("torch") is None else _watch()(builder)


@functools.lru_cache(maxsize=None)
def _watch():
    """A class, once: each would be kept by the next garbage collection alone, and its tensors with it."""
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):
        def __init__(self, builder):
            super().__init__()
            self.builder = builder

        def __torch_function__(self, function, types, arguments=(), options=None):
            options = options or {}
            name = getattr(function, "__name__", str(function))
            if name == "__getitem__" and isinstance(arguments[0], Tensor):
                return Captured(self.builder, arguments[0])[arguments[1]]
            if name in _HARMLESS:
                return function(*arguments, **options)
            if takes_traced((arguments, options)):
                return function(*elements(self.builder, arguments), **elements(self.builder, options))
            raise cannot(
                f"torch.{name} of no traced value: a tensor that is made or read while the program is traced would be frozen into it; "
                "a program reads elements of captured tensors, tensor[b, h, ...], and Python's numbers are its constants"
            )

    return Watch


def elements(builder, value):
    """The value, with elements in the places of 0-d tensors."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.dim():
            raise cannot(not_an_element(value.shape))
        return Captured(builder, value).value()
    if isinstance(value, (tuple, list)):
        return type(value)(elements(builder, x) for x in value)
    if isinstance(value, dict):
        return {key: elements(builder, x) for key, x in value.items()}
    return value


def takes_traced(value):
    if isinstance(value, (Traced, Captured)):
        return True
    if isinstance(value, (tuple, list)):
        return any(map(takes_traced, value))
    return isinstance(value, dict) and takes_traced(list(value.values()))
