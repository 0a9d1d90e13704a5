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
