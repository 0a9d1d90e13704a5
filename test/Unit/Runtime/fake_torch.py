"""As much of PyTorch as python/fa2 asks, on memory of the fake driver or of the host.

install() puts it where `import torch` looks; streams are plain numbers.
"""

import contextlib
import ctypes
import math
import sys
from types import ModuleType, SimpleNamespace

ELEMENT = {"torch.bfloat16": 2, "torch.float16": 2, "torch.float32": 4, "torch.float64": 8, "torch.uint8": 1}


class dtype:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


class device:
    def __init__(self, type, index=None):
        self.type, self.index = type, index

    def __repr__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))


DTYPES = {name: dtype(name) for name in ELEMENT}
CPU = device("cpu")


class Tensor:
    """A view of host memory that says it is on `device`."""

    def __init__(self, shape, dtype="torch.bfloat16", device=CPU, strides=None, memory=None):
        self.shape, self.device = tuple(shape), device
        self.dtype = DTYPES[dtype] if isinstance(dtype, str) else dtype
        packed = tuple(math.prod(self.shape[d + 1:]) for d in range(len(self.shape)))
        self.strides = packed if strides is None else tuple(strides)
        size = math.prod(self.shape) * ELEMENT[self.dtype.name]
        self.memory = memory if memory is not None else ctypes.create_string_buffer(max(size, 1) + 16)
        self.address = -(-ctypes.addressof(self.memory) // 16) * 16 if size else 0

    def stride(self):
        return self.strides

    def data_ptr(self):
        return self.address

    def numel(self):
        return math.prod(self.shape)

    def get_device(self):
        return self.device.index if self.device.type == "cuda" else -1

    def item(self):
        return ctypes.c_float.from_address(self.address).value

    def bytes(self):
        return (ctypes.c_char * (self.numel() * ELEMENT[self.dtype.name])).from_address(self.address)


def install():
    """The module, as sys.modules["torch"]; `torch.state` is what a test changes."""
    torch = ModuleType("torch")
    # `stream`: each device's current one; `capturing`: the device where it captures.
    state = SimpleNamespace(stream={}, capturing=None, current=0, zeros=0, empties=0)

    @contextlib.contextmanager
    def guard(place):
        before, state.current = state.current, place.index
        yield
        state.current = before

    def make(shape, dtype, device, fill, count):
        setattr(state, count, getattr(state, count) + 1)
        made = Tensor((shape,), dtype, device)
        ctypes.memset(made.address, fill, shape)
        return made

    torch.state, torch.Tensor, torch.device = state, Tensor, device
    torch.uint8 = DTYPES["torch.uint8"]
    torch.empty = lambda shape, dtype, device: make(shape, dtype, device, 0xCD, "empties")
    torch.zeros = lambda shape, dtype, device: make(shape, dtype, device, 0, "zeros")
    torch.cuda = SimpleNamespace(
        device=guard,
        current_device=lambda: state.current,
        # PyTorch's is of the current device's stream.
        is_current_stream_capturing=lambda: state.current == state.capturing,
    )
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: state.stream.get(ordinal, 0))
    sys.modules["torch"] = torch
    return torch


def remove():
    sys.modules.pop("torch", None)
