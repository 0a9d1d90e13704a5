"""Launches through libfa2rt for a benchmark: arguments fixed once, and nothing between a launch and the driver.

The library is declared by fa2c (python/fa2c/library.py), the project's one binding of it.
"""

import ctypes as c
import json
import os
import sys
from pathlib import Path

from .cases import Refused

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "python"))
from fa2c.library import Argument, KernelInfo, runtime_of  # noqa: E402

DTYPE_CODES = {"bf16": 1, "f16": 2, "f32": 3, "i32": 4, "i64": 5}


class RuntimeFailure(Exception):
    """A call of the runtime failed; the text is fa2rtLastError()'s."""


def find_library(given):
    if given:
        return given
    if os.environ.get("FA2RT_LIBRARY"):
        return os.environ["FA2RT_LIBRARY"]
    found = sorted(TREE.glob("build*/**/libfa2rt.so"), key=lambda p: p.stat().st_mtime)
    return str(found[-1]) if found else "libfa2rt.so"


class Library:
    def __init__(self, path):
        self.path = find_library(path)
        try:
            self.calls = runtime_of(c.CDLL(self.path))
        except (OSError, AttributeError) as error:
            raise Refused(f"the runtime's library cannot be used: {error} "
                          "(name it with --runtime)") from None

    @property
    def version(self):
        return self.calls.fa2rtVersion().decode()

    def check(self, status):
        if status:
            raise RuntimeFailure(self.calls.fa2rtLastError().decode(errors="replace"))

    def check_manifest(self, ptx):
        self.check(self.calls.fa2rtManifestCheck(ptx, len(ptx)))

    def open_device(self, name):
        device = c.c_void_p()
        self.check(self.calls.fa2rtDeviceOpen(name.encode(), c.byref(device)))
        return device


class Program:
    """The loaded kernels of one PTX text. `image`: a cubin to load in its place."""

    def __init__(self, library, device, ptx, image=None):
        self.library = library
        self.handle = c.c_void_p()
        library.check(library.calls.fa2rtProgramLoad(
            device, ptx, len(ptx), image, len(image or b""), c.byref(self.handle)))

    def unload(self):
        self.library.calls.fa2rtProgramUnload(self.handle)
        self.handle = c.c_void_p()

    def kernels(self):
        """[{name, threads, registers, local_bytes, shared_bytes}]"""
        found = []
        for i in range(self.library.calls.fa2rtProgramKernelCount(self.handle)):
            info = KernelInfo()
            self.library.check(self.library.calls.fa2rtProgramGetKernel(
                self.handle, i, c.byref(info)))
            found.append({"name": info.name.decode(), "threads": info.threads,
                          "registers": info.registers, "local_bytes": info.local_bytes,
                          "shared_bytes": info.dynamic_shared_bytes})
        return found


class Call:
    """A launch with its arguments fixed, so that repeating it costs one foreign call.

    tensors: name -> object with data_ptr(), shape and stride() (PyTorch's), and its dtype's
    name in the manifest. The tensors are kept alive. allocate(bytes) gives the workspace, zeroed
    (the manifest's "zeroed"): launch one Call on one stream at a time.
    """

    def __init__(self, program, tensors, reals, allocate):
        self.program, self.keep = program, []
        self.arguments = (Argument * (len(tensors) + len(reals)))()
        for i, (name, (tensor, dtype)) in enumerate(tensors.items()):
            slot = self.arguments[i]
            shape = (c.c_int64 * len(tensor.shape))(*tensor.shape)
            strides = (c.c_int64 * len(tensor.shape))(*tensor.stride())
            slot.name, slot.is_tensor, slot.dtype = name.encode(), 1, DTYPE_CODES[dtype]
            slot.rank, slot.data = len(tensor.shape), tensor.data_ptr()
            slot.shape = c.cast(shape, c.POINTER(c.c_int64))
            slot.strides = c.cast(strides, c.POINTER(c.c_int64))
            self.keep += [tensor, shape, strides]
        for i, (name, value) in enumerate(reals.items()):
            slot = self.arguments[len(tensors) + i]
            slot.name, slot.dtype, slot.real = name.encode(), DTYPE_CODES["f32"], value
        size, alignment = c.c_size_t(), c.c_size_t()
        program.library.check(program.library.calls.fa2rtWorkspaceSize(
            program.handle, self.arguments, len(self.arguments), c.byref(size), c.byref(alignment)))
        self.workspace_bytes, self.workspace = size.value, None
        if size.value:
            memory = allocate(size.value + alignment.value)
            address = -(-memory.data_ptr() // alignment.value) * alignment.value
            self.keep.append(memory)
            self.workspace = address
        self.launch_call = program.library.calls.fa2rtLaunch

    def __call__(self, stream):
        """Launches on `stream` (a CUstream's integer value)."""
        status = self.launch_call(self.program.handle, self.arguments, len(self.arguments),
                                  self.workspace, self.workspace_bytes, stream)
        if status:
            self.program.library.check(status)


def manifest_of(ptx):
    """The manifest in a PTX text's leading comment, as an object. docs/manifest.md"""
    lines = ptx.decode(errors="replace").splitlines()
    if not lines or lines[0] != "// fa2-manifest-begin":
        raise Refused("it has no manifest (its first line is not '// fa2-manifest-begin')")
    if "// fa2-manifest-end" not in lines:
        raise Refused("its manifest has no end")
    body = lines[1:lines.index("// fa2-manifest-end")]
    try:
        return json.loads("\n".join(line[3:] for line in body))
    except ValueError as error:
        raise Refused(f"its manifest is broken: {error}") from None
