"""What a kernel is compiled from."""

from dataclasses import dataclass, replace
from typing import Optional

MASKS = ("none", "causal", "causal_top_left")


@dataclass(frozen=True)
class Specification:
    """An attention, as the compiler is asked for it; `program` is the body of a score region, or None."""

    dtype: str
    head_dim: int
    head_dim_v: int
    mask: str = "none"
    program: Optional[str] = None
    backward: bool = False
    deterministic: bool = False
    schedule: Optional[str] = None  # all fields of it; by default the compiler chooses, and variants too

    def gradient(self, deterministic: bool) -> "Specification":
        return replace(self, backward=True, deterministic=deterministic)

    def text(self, arch: str) -> str:
        """As fa2_compile takes it; as fa2_compile_module does where there is a program."""
        keys = {"arch": arch, "pass": "backward" if self.backward else "forward"}
        if self.program is None:
            keys.update(dtype=self.dtype, head_dim=self.head_dim, head_dim_v=self.head_dim_v, mask=self.mask)
        if self.schedule is not None:
            keys.update(variants="none", schedule=f"'{self.schedule}'")
        elif self.deterministic:
            keys["dq"] = "recompute"
        return " ".join(f"{key}={value}" for key, value in keys.items())

    def module(self) -> Optional[str]:
        """The module's text where there is a program, else None."""
        if self.program is None:
            return None
        q, v = (f"tensor<?x?x?x{d}x{self.dtype}>" for d in (self.head_dim, self.head_dim_v))
        mask = "" if self.mask == "none" else f" {{mask = #fa2.mask<{self.mask}>}}"
        return f"""\
func.func @fa2_forward_program(%q: {q}, %k: {q}, %v: {v}, %scale: f32) -> ({v}, tensor<?x?x?xf32>) {{
  %out, %lse = fa2.attention ins(%q, %k, %v) scale(%scale){mask} : {q}, {q}, {v} -> {v}, tensor<?x?x?xf32> score {{
  ^bb0(%score: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index):
{self.program}
  }}
  return %out, %lse : {v}, tensor<?x?x?xf32>
}}
"""
