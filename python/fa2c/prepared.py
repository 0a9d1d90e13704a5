"""What a program keeps of the calls that it has seen."""

import ctypes
import functools
import operator
from ctypes import byref, c_void_p
from struct import Struct
from typing import Any, Mapping, Optional, Sequence

from .arguments import torch_tensor_type
from .exchange import tensor_reader
from .library import ObjectCall, library


class Prepared:
    """fa2rtPrepared, of arguments in their order."""

    def __init__(self, program, reader, arguments: Mapping[str, Any]):
        self.handle = None
        self._free = library().fa2rtPreparedFree
        array, count = reader.marshal(arguments)
        handle = c_void_p()
        status = library().fa2rtPrepare(program, array, count, byref(handle))
        reader.check(status, arguments)
        self.handle = handle.value
        self.pack = Struct(f"{count}P").pack
        self.workspace_bytes = library().fa2rtPreparedWorkspaceSize(handle)
        self.heads_first = reader.heads_first
        self.has_torch = any(isinstance(value, torch_tensor_type()) for value in arguments.values())

    def __del__(self):
        if self.handle:
            self._free(self.handle)


class DirectCalls:
    """Calls whose tensors the runtime reads itself, which differ in nothing but these tensors' layouts.

    Names and their order, numbers and the bytes of workspace are the same. Nothing
    here changes, so that threads may launch by one of these while others replace it.
    """

    MOST = 32  # layouts, each of which is compared where none before it was the tensors'

    def __init__(self, read: int, names: Sequence[str], numbers: Mapping[str, Any], members: Sequence[Prepared]):
        self.read, self.names, self.numbers = read, names, numbers
        self.members = members  # the latest first
        self.workspace_bytes = members[0].workspace_bytes
        self._arrays = _addresses(map(id, names)), _addresses(member.handle for member in members)
        self._call = ObjectCall(
            next=_function("PyDict_Next"),
            read=read,
            release=_function("PyEval_SaveThread"),
            acquire=_function("PyEval_RestoreThread"),
            names=self._arrays[0],
            count=len(names),
            prepared=self._arrays[1],
            prepared_count=len(members),
            workspace_bytes=self.workspace_bytes,
            heads_first=members[0].heads_first,
        )
        self.call = c_void_p(ctypes.addressof(self._call))

    @classmethod
    def of(cls, arguments: Mapping[str, Any], prepared: Prepared) -> Optional["DirectCalls"]:
        """Those of one call; None where something is neither PyTorch's tensor nor a number, or PyTorch is too old."""
        tensor_type = torch_tensor_type()
        read = tensor_reader(tensor_type)
        numbers = {name: value for name, value in arguments.items() if type(value) in (int, float)}
        others = [value for name, value in arguments.items() if name not in numbers]
        if read is None or not all(isinstance(value, tensor_type) and value.shape for value in others):
            return None
        return cls(read, [*arguments], numbers, [prepared])

    def including(self, prepared: Prepared) -> "DirectCalls":
        return DirectCalls(self.read, self.names, self.numbers, [prepared, *self.members[: self.MOST - 1]])

    def has_names(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call's names are these objects, as names in a program's text are: the runtime compares no texts."""
        return len(arguments) == len(self.names) and all(map(operator.is_, arguments, self.names))

    def has_numbers(self, arguments: Mapping[str, Any]) -> bool:
        for name, number in self.numbers.items():
            value = arguments.get(name)
            # 1 and 1.0, 0.0 and -0.0 are equal, but not the same argument.
            if value is not number and (type(value) is not type(number) or value != number or not value):
                return False
        return True


def _addresses(values):
    values = [*values]
    return (c_void_p * len(values))(*values)


@functools.lru_cache(maxsize=None)
def _function(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p).value
