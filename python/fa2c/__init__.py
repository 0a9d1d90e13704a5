"""Attention by kernels that fa2 generates, from Python.

    import fa2c, torch
    out = fa2c.attention(q, k, v, causal=True)       # PyTorch's tensors; differentiable

Kernels are compiled on first use, by the library libfa2, and kept in memory and on
disk; libfa2rt launches them. Neither needs PyTorch, a compiler or CUDA's toolkit.

Kernels that somebody compiled before are launched by name:

    program = fa2c.Device("cuda").load(open("attn.ptx").read())
    program(q=q, k=k, v=v, out=out, lse=lse)         # on the current stream

Arrays of the host, NumPy's or PyTorch's, run on the simulator. docs/guide/python.md says
what each argument may be and what an error is.
"""

from .arguments import Tensor, tensor
from .attention import attention
from .compiler import CompileError, compiler_version
from .export import export, load
from .library import Error
from .runtime import Device, Program, version
from .tracing import ScoreProgram, program

__all__ = [
    "CompileError", "Device", "Error", "Program", "ScoreProgram", "Tensor", "attention", "compiler_version", "export", "load",
    "program", "tensor", "version",
]

_OF_FLASH_ATTN = {
    "flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func", "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache",
}


def __getattr__(name):
    """flash_attn's functions, which need PyTorch, when they are first asked for: the hub's loaders look for them here."""
    if name not in _OF_FLASH_ATTN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import flash_attn_interface

    return getattr(flash_attn_interface, name)
