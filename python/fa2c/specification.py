"""What a kernel is compiled from."""

import re
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Dict, NamedTuple, Optional, Tuple



class Beside(NamedTuple):
    """What an attention may have beside its program."""

    key: str  # its value where the compiler is asked by keys
    operands: Dict[str, str]  # types by names
    clause: str  # of the operation


# In the operation's order.
BESIDE = {
    "sink": Beside("head", {"sink": "tensor<?xf32>"}, "sink(%given_sink : tensor<?xf32>)"),
    "dropout": Beside("argument", {"dropout": "f32", "rng": "tensor<4xi32>"}, "dropout(%given_dropout, %given_rng : tensor<4xi32>)"),
}
MASKS = ("none", "causal", "causal_top_left", "strictly_causal")


@dataclass(frozen=True)
class Specification:
    """An attention, as the compiler is asked for it; `program` is a score region, or None."""

    dtype: str
    head_dim: int
    head_dim_v: int
    mask: str = "none"
    program: Optional[str] = None
    beside: Tuple[str, ...] = ()  # names of BESIDE, in its order
    backward: bool = False
    deterministic: bool = False
    schedule: Optional[str] = None  # all fields of it, and a line for rows behind its own; by default the compiler chooses, and variants
    grads: Tuple[str, ...] = ()  # operands that have gradients too
    grad_lse: bool = False  # and lse has one

    @cached_property
    def operands(self) -> Dict[str, str]:
        """Types of what a launch gives besides tensors and scale, by their names."""
        own = {sys.intern(name): type for each in self.beside for name, type in BESIDE[each].operands.items()}
        return {**own, **self._read}

    @cached_property
    def _read(self) -> Dict[str, str]:
        """The same of what the program reads: the region's arguments behind its five."""
        block = (self.program or "").partition("):")[0].partition("%kv_idx: index")[2]
        return {sys.intern(name): type for name, type in re.findall(r"%(\w+): (tensor<[^>]*>|\w+)", block)}

    def gradient(self, deterministic: bool, grads: Tuple[str, ...] = (), grad_lse: bool = False) -> "Specification":
        return replace(self, backward=True, deterministic=deterministic, grads=grads, grad_lse=grad_lse)

    def text(self, arch: str) -> str:
        """As fa2_compile takes it; as fa2_compile_module does where there is a program."""
        keys = {"arch": arch, "pass": "backward" if self.backward else "forward"}
        if self.program is None:
            keys.update(dtype=self.dtype, head_dim=self.head_dim, head_dim_v=self.head_dim_v, mask=self.mask)
            keys.update({name: BESIDE[name].key for name in self.beside})
        if self.schedule is not None:
            schedule, *behind = self.schedule.splitlines()
            keys.update(variants=f"'{behind[0]}'" if behind else "none", schedule=f"'{schedule}'")
        elif self.deterministic:
            keys["dq"] = "deterministic"
        if self.grads:
            keys["grads"] = f"'{','.join(self.grads)}'"
        if self.grad_lse:
            keys["grad_lse"] = "argument"
        return " ".join(f"{key}={value}" for key, value in keys.items())

    def module(self) -> Optional[str]:
        """The module's text where there is a program, else None."""
        if self.program is None:
            return None
        q, v = (f"tensor<?x?x?x{d}x{self.dtype}>" for d in (self.head_dim, self.head_dim_v))
        names, types = list(self._read), list(self._read.values())
        given = "".join(f", %given_{name}: {type}" for name, type in self.operands.items())
        beside = "".join(f" {BESIDE[each].clause}" for each in self.beside)
        extras, attributes = "", [] if self.mask == "none" else [f"mask = #fa2.mask<{self.mask}>"]
        if names:
            extras = f" extras({', '.join(f'%given_{name}' for name in names)} : {', '.join(types)})"
            attributes.append("extra_names = [" + ", ".join(f'"{name}"' for name in names) + "]")
        attributes = f" {{{', '.join(attributes)}}}" if attributes else ""
        return f"""\
func.func @fa2_forward_program(%q: {q}, %k: {q}, %v: {v}, %scale: f32{given}) -> ({v}, tensor<?x?x?xf32>) {{
  %out, %lse = fa2.attention ins(%q, %k, %v) scale(%scale){beside}{extras}{attributes} : {q}, {q}, {v} -> {v}, tensor<?x?x?xf32> score {{
{self.program}
  }}
  return %out, %lse : {v}, tensor<?x?x?xf32>
}}
"""
