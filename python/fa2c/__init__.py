"""Launches the kernels that fa2 emits, from Python.

A binding of the runtime's C interface (fa2rt.h) by ctypes; it needs libfa2rt
and nothing else. With PyTorch, tensors are passed as they are:

    import fa2c, torch
    program = fa2c.Device("cuda").load(open("attn.ptx").read())
    program(q=q, k=k, v=v, out=out, lse=lse)      # on the current stream

The simulator takes arrays of the host, of NumPy or of PyTorch's:

    program = fa2c.Device("sim").load(open("attn.ptx").read())
    program(q=q, k=k, v=v, out=out, lse=lse)      # done when it returns

Arguments go by name. What does not match the kernel raises fa2c.Error with the
field, its value and the limit; what is no argument at all raises TypeError.
Nothing is launched then. docs/python.md says what each argument may be.
"""

from .arguments import Tensor, tensor
from .library import Error
from .runtime import Device, Program, version

__all__ = ["Device", "Error", "Program", "Tensor", "tensor", "version"]
