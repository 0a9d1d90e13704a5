"""The text of a score program: operations in order, equal ones once."""

import re
import struct
from typing import Dict, List, Tuple

# The region's arguments, and what they are as values of a traced function.
ARGUMENTS = {"score": "f32", "b": "i32", "h": "i32", "q_idx": "i32", "kv_idx": "i32"}


class Builder:
    def __init__(self):
        self._lines: List[str] = []
        self._known: Dict[Tuple[str, str], str] = {}

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
        return self.emit(f"arith.index_cast %{name}", "index to i32")

    def constant(self, kind: str, value) -> str:
        if kind == "f32":
            # Bits, which say infinities and signs of zeros as well.
            return self.emit(f"arith.constant 0x{_bits(value):08X}", "f32")
        return self.emit(f"arith.constant {int(value)}", kind)

    def text(self, result: str) -> str:
        """The region's body: what the result needs, and its yield."""
        needed, lines = {result}, []
        for line in reversed(self._lines):
            name, operation = line.split(" = ", 1)
            if name.strip() in needed:
                needed.update(re.findall(r"%\d+", operation))
                lines.append(line)
        return "\n".join([*reversed(lines), f"    fa2.yield {result} : f32"])


def _bits(value):
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:  # beyond f32's largest: as it rounds
        return 0x7F800000 if value > 0 else 0xFF800000
