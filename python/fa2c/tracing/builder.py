"""The text of a score program: operations in order, equal ones once, and the operands that they read."""

import re
import struct
from typing import Any, Dict, List, Sequence, Tuple

# The region's arguments, and what they are as values of a traced function.
ARGUMENTS = {"score": "f32", "b": "i32", "h": "i32", "q_idx": "i32", "kv_idx": "i32"}
_TYPES = {"score": "f32"}  # in the region; the others are index


class Builder:
    def __init__(self):
        self._lines: List[str] = []
        self._known: Dict[Tuple[str, str], str] = {}
        self._operands: Dict[str, str] = {}  # types by names, in order
        self._captured: Dict[int, Tuple[str, Any]] = {}  # names and tensors, by the tensors' identity
        self._index_of: Dict[str, str] = {}  # of an i32, the index that it is

    def emit(self, operation: str, types: str) -> str:
        """The name of an operation's result, such as emit("arith.addf %0, %1", "f32")."""
        key = operation, types
        if key not in self._known:
            self._known[key] = f"%{len(self._lines)}"
            self._lines.append(f"    {self._known[key]} = {operation} : {types}")
        return self._known[key]

    def argument(self, name: str) -> str:
        if ARGUMENTS[name] == "f32":
            return f"%{name}"
        result = self.emit(f"arith.index_cast %{name}", "index to i32")
        self._index_of[result] = f"%{name}"
        return result

    def constant(self, kind: str, value) -> str:
        if kind == "f32":
            # Bits, which say infinities and signs of zeros as well.
            return self.emit(f"arith.constant 0x{_bits(value):08X}", "f32")
        return self.emit(f"arith.constant {int(value)}", kind)

    def operand(self, name: str, type: str) -> str:
        """An operand, which each launch is given by its name: f32, i32, or a tensor."""
        self._operands[name] = type
        return f"%{name}"

    def capture(self, tensor, element: str) -> str:
        """The operand that a captured tensor is; `element` is the type of its elements in the kernel."""
        if id(tensor) not in self._captured:
            name = f"x{len(self._captured)}"
            # An element of a 0-d tensor is that of an extent of 1.
            self.operand(name, f"tensor<{'?x' * max(tensor.dim(), 1)}{element}>")
            self._captured[id(tensor)] = name, tensor
        return self._captured[id(tensor)][0]

    def read(self, operand: str, indices: Sequence[str]) -> str:
        """The element of a tensor at indices, which are names of i32; of none, its only one."""
        type = self._operands[operand]
        places = [self._index_of.get(i) or self.emit(f"arith.index_cast {i}", "i32 to index") for i in indices]
        places = places or [self.emit("arith.constant 0", "index")]
        result = self.emit(f"tensor.extract %{operand}[{', '.join(places)}]", type)
        element = type.rstrip(">").rsplit("x", 1)[-1]
        return self.emit(f"arith.extf {result}", f"{element} to f32") if element in ("f16", "bf16") else result

    def region(self, result: str) -> Tuple[str, Tuple[Any, ...]]:
        """(the region's text, the captured tensors that it reads in the order of its operands): what the result needs, and its yield."""
        needed, lines = {result}, []
        for line in reversed(self._lines):
            name, operation = line.split(" = ", 1)
            if name.strip() in needed:
                needed.update(re.findall(r"%\w+", operation))
                lines.append(line)
        read = {name for name, _ in self._captured.values() if f"%{name}" in needed}
        unread = {name for name, _ in self._captured.values()} - read
        operands = {name: type for name, type in self._operands.items() if name not in unread}
        block = [f"%{name}: {_TYPES.get(name, 'index')}" for name in ARGUMENTS] + [f"%{name}: {type}" for name, type in operands.items()]
        text = "\n".join([f"  ^bb0({', '.join(block)}):", *reversed(lines), f"    fa2.yield {result} : f32"])
        return text, tuple(tensor for name, tensor in self._captured.values() if name in read)


def _bits(value):
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:  # beyond f32's largest: as it rounds
        return 0x7F800000 if value > 0 else 0xFF800000
