"""Kernels as files, for programs that have no compiler: C's (docs/manifest.md) and Python's."""

import os
import tempfile
from typing import Callable, Optional, Sequence, Union

from .compiler import compile_ptx
from .library import Error, error_of
from .runtime import Device, Program
from .shapes import mask_of
from .specification import Specification
from .tracing import ScoreProgram, trace

_DTYPES = {"bf16": "bf16", "bfloat16": "bf16", "f16": "f16", "float16": "f16", "half": "f16"}


def export(
    path: Union[str, os.PathLike],
    *,
    dtype: Union[str, object],
    head_dim: int,
    head_dim_v: Optional[int] = None,
    causal: Union[bool, str] = False,
    score_mod: Union[Callable, ScoreProgram, None] = None,
    mask_mod: Optional[Callable] = None,
    backward: bool = False,
    deterministic: bool = False,
    grads: Sequence[str] = (),
    arch: str = "sm_80",
) -> str:
    """Compiles and writes PTX, whose first lines are its manifest; returns the compiler's explanation of the schedule.

    dtype is "bf16" or "f16", or a dtype of PyTorch's or NumPy's. arch "sm_80" runs on every later GPU, "sm_90a" on H100 and
    H200 alone. Captured tensors of a program are arguments x0, x1, ... in the order in which it reads them; with `backward`, those that
    `grads` names have gradients, dx0, ..., in float32; "x0:whole" asks for one in x0's type, of a tensor with a value for each score that is
    added to it, "x0:batch", "x0:heads" and "x0:batch:heads" for one that is summed over those (docs/guide/programs.md). A file appears whole or not at all.
    """
    name = str(getattr(dtype, "name", dtype)).replace("torch.", "")
    if name not in _DTYPES:
        raise TypeError(f"dtype is {dtype!r}; expected 'bf16' or 'f16'")
    program = None
    if isinstance(score_mod, ScoreProgram):
        causal, program, _ = score_mod.under(mask_mod, causal)
    elif score_mod or mask_mod:
        causal, program, _ = trace(score_mod, mask_mod, causal)
    specification = Specification(
        _DTYPES[name], head_dim, head_dim if head_dim_v is None else head_dim_v, mask_of(causal), program, backward=backward,
        deterministic=backward and deterministic, grads=tuple(grads),
    )
    compiled = compile_ptx(specification.text(arch), specification.module())
    _write(os.fspath(path), compiled.ptx)
    return compiled.explanation


def load(path: Union[str, os.PathLike], device: str = "cuda", heads_first: bool = False) -> Program:
    """The kernels of a file, on a device such as "cuda:1" or "sim"; see Device.load."""
    with open(path, "rb") as file:
        text = file.read()
    try:
        return Device(device).load(text, heads_first=heads_first)
    except Error as error:
        raise error_of(error.status, f"{os.fspath(path)}: {error}") from None


def _write(path, data):
    folder = os.path.dirname(path) or "."
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())  # as open() would have made it
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
