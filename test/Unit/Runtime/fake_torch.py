"""As much of PyTorch as python/fa2c asks, on memory of the fake driver or of the host.

install() puts it where `import torch` looks; streams are plain numbers.
exchange() gives its tensors DLPack's C exchange functions, as PyTorch's have
them since 2.11.
"""

import contextlib
import ctypes
import math
import sys
from types import ModuleType, SimpleNamespace

_CODES = {"torch.bfloat16": (4, 16), "torch.float16": (2, 16), "torch.float32": (2, 32), "torch.float64": (2, 64)}
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
    """A view of host memory that says it is on `device`; counts how its layouts are read."""

    strides_asked = reads = 0

    def __init__(self, shape, dtype="torch.bfloat16", device=CPU, strides=None, memory=None):
        self.shape, self.device = tuple(shape), device
        self.dtype = DTYPES[dtype] if isinstance(dtype, str) else dtype
        packed = tuple(math.prod(self.shape[d + 1:]) for d in range(len(self.shape)))
        self.strides = packed if strides is None else tuple(strides)
        size = math.prod(self.shape) * ELEMENT[self.dtype.name]
        self.memory = memory if memory is not None else ctypes.create_string_buffer(max(size, 1) + 16)
        self.address = -(-ctypes.addressof(self.memory) // 16) * 16 if size else 0

    def stride(self):
        Tensor.strides_asked += 1
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


class DLTensor(ctypes.Structure):
    """Of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class ExchangeApi(ctypes.Structure):
    """DLPackExchangeAPI of dlpack.h, whose functions but one nobody here calls."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                ("others", ctypes.c_void_p * 3), ("dltensor_from_py_object_no_sync", ctypes.c_void_p),
                ("current_work_stream", ctypes.c_void_p)]


def _read(tensor, out):
    """dltensor_from_py_object_no_sync: counts in Tensor.reads."""
    if not isinstance(tensor, Tensor):
        return -1
    Tensor.reads += 1
    rank = len(tensor.shape)
    tensor.exchanged = (ctypes.c_int64 * rank)(*tensor.shape), (ctypes.c_int64 * rank)(*tensor.strides)
    on_cuda = tensor.device.type == "cuda"
    out[0] = DLTensor(tensor.address, 2 if on_cuda else 1, tensor.device.index if on_cuda else 0, rank,
                      *_CODES[tensor.dtype.name], 1, *tensor.exchanged, 0)
    return 0


READ = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))(_read)


def exchange(major=1, previous=None, read=READ, name=b"dlpack_exchange_api"):
    """Gives tensors the table of functions, until the next install(); returns it."""
    pointer = ctypes.cast(read, ctypes.c_void_p) if read else None
    table = ExchangeApi(major, 3, ctypes.addressof(previous) if previous else None,
                        dltensor_from_py_object_no_sync=pointer)
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(table), name, None)
    Tensor.kept, Tensor.reads = (table, previous, name), 0
    Tensor.__dlpack_c_exchange_api__ = capsule
    return table


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
    Tensor.__dlpack_c_exchange_api__ = None
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
