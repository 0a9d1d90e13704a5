"""What a call's arguments may be, and how each becomes a fa2rtArgument.

A *layout* is what a prepared launch depends on: the dtype, shape, strides and
place of a tensor, the value of a scalar. Equal layouts need one preparation.
"""

import numbers
import sys
from ctypes import c_int64
from dataclasses import dataclass, replace
from typing import Any, Optional, Sequence, Tuple

from .library import Argument, Error, error_of, last_error

DTYPES = {"bf16": 1, "f16": 2, "f32": 3, "i32": 4, "i64": 5}
_F32, _I64 = DTYPES["f32"], DTYPES["i64"]
# PyTorch's and NumPy's names; ml_dtypes gives NumPy the first.
_ARRAY_DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "int32": "i32"}
_ARGUMENT_ERROR = 1


@dataclass(frozen=True)
class Tensor:
    """A tensor by its address. Make it with fa2c.tensor()."""

    name: str
    data: int
    dtype: str
    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]]


def tensor(name: str, data: int, dtype: str, shape: Sequence[int], strides: Optional[Sequence[int]] = None) -> Tensor:
    """An argument from the address of its first element, a dtype such as "bf16", and extents.

    The address is the device's; on a simulated device, the host's. `strides`
    are in elements; without them the tensor is packed.
    """
    if dtype not in DTYPES:
        raise ValueError(f"{name}: dtype is {dtype!r}; known: {', '.join(DTYPES)}")
    shape = tuple(shape)
    if strides is not None:
        strides = tuple(strides)
        if len(strides) != len(shape):
            raise ValueError(f"{name}: {len(strides)} strides are given for {len(shape)} extents")
    return Tensor(name, data, dtype, shape, strides)


def array_dtype(array) -> Optional[str]:
    """The name of a NumPy array's dtype, such as "bf16"; None where kernels have none such."""
    return _ARRAY_DTYPES.get(array.dtype.name) if array.dtype.isnative else None


def torch_tensor_type():
    """torch.Tensor where the process has loaded PyTorch, else a type that nothing is of."""
    torch = sys.modules.get("torch")
    return getattr(torch, "Tensor", _Nothing)


class _Nothing:
    pass


def _refuse(text):
    raise Error(_ARGUMENT_ERROR, text)


class Reader:
    """Reads the arguments of calls on one device.

    `ordinal` is CUDA's number of the device, None for a simulated one, whose
    memory is the host's. `written` names the tensors that the kernels write.
    `heads_first`: tensors of rank 4 are given as [batch, heads, seqlen, d], where
    the kernels' are [batch, seqlen, heads, d].
    """

    def __init__(self, ordinal: Optional[int], written: Sequence[str], heads_first: bool = False):
        self.ordinal, self.heads_first = ordinal, heads_first
        self._written = frozenset(written)

    @property
    def place(self) -> str:
        return "a simulated device" if self.ordinal is None else f"cuda:{self.ordinal}"

    @property
    def expected(self) -> str:
        dtypes = ", ".join(_ARRAY_DTYPES)
        if self.ordinal is None:
            return f"a CPU tensor of PyTorch's or a NumPy array ({dtypes}), fa2c.tensor(...) or a number"
        return f"a PyTorch tensor on {self.place} ({dtypes}), fa2c.tensor(...) or a number"

    def layout(self, name: str, value: Any):
        """(the layout, the address) of a scalar, or a tensor that is none of PyTorch's; a scalar's address is 0."""
        value = self._number(name, value)
        # 1 and 1.0, 0.0 and -0.0 are equal, but not the same argument.
        if isinstance(value, int):
            return (name, int, int(value)), 0
        if isinstance(value, float):
            return (name, float, value.hex()), 0
        given = self._tensor(name, value)
        # The driver is asked of an address when it is first prepared.
        place = given.data if self.ordinal is not None else None
        return (name, given.dtype, given.shape, given.strides, place), given.data

    def argument(self, name: str, value: Any) -> Argument:
        """The fa2rtArgument; raises TypeError or Error, by the argument's name."""
        value = self._number(name, value)
        if isinstance(value, int):
            return Argument(name=name.encode(), dtype=_I64, is_integer=1, integer=value)
        if isinstance(value, float):
            return Argument(name=name.encode(), dtype=_F32, real=value)
        given = self._tensor(name, value)
        rank = len(given.shape)
        shape = (c_int64 * max(rank, 1))(*given.shape)
        strides = None if given.strides is None else (c_int64 * max(rank, 1))(*given.strides)
        argument = Argument(
            name=name.encode(), is_tensor=1, dtype=DTYPES[given.dtype], rank=rank, data=given.data, shape=shape,
            strides=strides,
        )
        argument._kept = (shape, strides, value)  # alive as long as the argument
        return argument

    def marshal(self, values):
        """(an array of fa2rtArgument, its length)"""
        arguments = [self.argument(name, value) for name, value in values.items()]
        array = (Argument * max(len(arguments), 1))(*arguments)
        array._kept = arguments
        return array, len(arguments)

    def check(self, status: int, values) -> None:
        """Raises Error unless `status` is 0, with what to call where strides were refused."""
        if status:
            text = last_error()
            raise error_of(status, text + self._advice(text, values))

    def _advice(self, text, values):
        for name, value in values.items():
            if text.startswith(f"{name}: stride ") and name not in self._written:
                if isinstance(value, torch_tensor_type()):
                    return f" ({name}.contiguous())"
                if not isinstance(value, Tensor):
                    return f" (numpy.ascontiguousarray({name}))"
        return ""

    def _number(self, name, value):
        """int or float for a number of any kind, else the value itself."""
        if type(value) is float or type(value) is int:
            return value
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            if isinstance(value, torch_tensor_type()) and value.device.type != "cpu":
                raise TypeError(
                    f"{name}: a 0-d tensor on {value.device}; a scalar is read by the host, which would have to wait "
                    f"for the device: pass a Python number ({name}.item() gives it, best once, before any loop)"
                )
            value = value.item()
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real):
            return float(value)
        return value

    def _tensor(self, name, value):
        """A Tensor for a tensor of any kind that the device takes, in the kernels' order of dimensions."""
        given = self._as_given(name, value)
        if not self.heads_first or len(given.shape) != 4:
            return given
        strides = _packed(given.shape) if given.strides is None else given.strides
        exchange = [0, 2, 1, 3]
        return replace(given, shape=tuple(given.shape[d] for d in exchange), strides=tuple(strides[d] for d in exchange))

    def _as_given(self, name, value):
        numpy = sys.modules.get("numpy")
        if isinstance(value, Tensor):
            if value.name != name:
                raise TypeError(f"{name}: got the fa2c.tensor(...) named {value.name!r}")
            return value
        if isinstance(value, torch_tensor_type()):
            return self._of_torch(name, value)
        if numpy is not None and isinstance(value, numpy.ndarray):
            return self._of_numpy(name, value)
        raise TypeError(f"{name}: got {type(value).__name__}; expected {self.expected}")

    def _of_torch(self, name, value):
        device = value.device
        if self.ordinal is None and device.type != "cpu":
            _refuse(f"{name}: the tensor is on {device}; a simulated device takes host memory: pass {name}.cpu()")
        if self.ordinal is not None and (device.type != "cuda" or device.index != self.ordinal):
            _refuse(f"{name}: the tensor is on {device}; the program is loaded on {self.place}, which takes tensors "
                    f"there: pass {name}.to('{self.place}')")
        dtype = _ARRAY_DTYPES.get(str(value.dtype).removeprefix("torch."))
        if dtype is None:
            raise TypeError(f"{name}: dtype is {value.dtype}; expected {self.expected}")
        return Tensor(name, value.data_ptr(), dtype, tuple(value.shape), tuple(value.stride()))

    def _of_numpy(self, name, value):
        if self.ordinal is not None:
            raise TypeError(f"{name}: got a NumPy array, which is host memory; expected {self.expected}")
        dtype = array_dtype(value)
        if dtype is None:
            raise TypeError(
                f"{name}: dtype is {value.dtype!r}; expected {self.expected} (bfloat16: of the package ml_dtypes)"
            )
        if name in self._written and not value.flags.writeable:
            _refuse(f"{name}: the array is read-only, and the kernels write it")
        size = value.itemsize
        if any(stride % size for stride in value.strides):
            _refuse(f"{name}: strides are {value.strides} bytes; they must be multiples of an element's {size}")
        # Of an array without elements NumPy's strides may be anything.
        strides = (stride // size for stride in value.strides) if value.size else _packed(value.shape)
        return Tensor(name, value.ctypes.data, dtype, value.shape, tuple(strides))


def _packed(shape):
    """Strides of packed memory, an extent of 0 counted as 1."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(extent, 1))
    return strides
