"""Launches the kernels that fa2 emits, from Python.

A binding of the runtime's C interface (fa2rt.h) by ctypes; it needs libfa2rt
and nothing else. With PyTorch, tensors are passed as they are:

    import fa2, torch
    program = fa2.Device("cuda").load(open("attn.ptx").read())
    program(q=q, k=k, v=v, out=out, lse=lse)      # on the current stream

Arguments go by name; what does not match the kernel raises fa2.Error with the
field, its value and the limit, and nothing is launched then.
"""

from .runtime import Argument, Device, Error, Program, integer, real, tensor, version

__all__ = ["Argument", "Device", "Error", "Program", "integer", "real", "tensor", "version"]
