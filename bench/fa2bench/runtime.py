"""libfa2rt.so by ctypes: as much of runtime/include/fa2rt/fa2rt.h as a benchmark needs."""

import ctypes as c
import json
import os
from pathlib import Path

from .cases import Refused

DTYPE_CODES = {"bf16": 1, "f16": 2, "f32": 3, "i32": 4, "i64": 5}


class RuntimeFailure(Exception):
    """A call of the runtime failed; the text is fa2rtLastError()'s."""


class Argument(c.Structure):  # fa2rtArgument
    _fields_ = [("name", c.c_char_p), ("is_tensor", c.c_int32), ("dtype", c.c_int),
                ("rank", c.c_int32), ("is_integer", c.c_int32), ("data", c.c_void_p),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
                ("real", c.c_double), ("integer", c.c_int64)]


class KernelInfo(c.Structure):  # fa2rtKernelInfo
    _fields_ = [("name", c.c_char_p), ("threads", c.c_int32), ("dynamic_shared_bytes", c.c_int64),
                ("registers", c.c_int32), ("local_bytes", c.c_int64),
                ("static_shared_bytes", c.c_int64)]


PROTOTYPES = {
    "fa2rtLastError": (c.c_char_p, []),
    "fa2rtVersion": (c.c_char_p, []),
    "fa2rtManifestCheck": (c.c_int, [c.c_char_p, c.c_size_t]),
    "fa2rtDeviceOpen": (c.c_int, [c.c_char_p, c.POINTER(c.c_void_p)]),
    "fa2rtProgramLoad": (c.c_int, [c.c_void_p, c.c_char_p, c.c_size_t, c.c_char_p, c.c_size_t,
                                   c.POINTER(c.c_void_p)]),
    "fa2rtProgramUnload": (None, [c.c_void_p]),
    "fa2rtProgramKernelCount": (c.c_int32, [c.c_void_p]),
    "fa2rtProgramGetKernel": (c.c_int, [c.c_void_p, c.c_int32, c.POINTER(KernelInfo)]),
    "fa2rtWorkspaceSize": (c.c_int, [c.c_void_p, c.POINTER(Argument), c.c_size_t,
                                     c.POINTER(c.c_size_t), c.POINTER(c.c_size_t)]),
    "fa2rtLaunch": (c.c_int, [c.c_void_p, c.POINTER(Argument), c.c_size_t, c.c_void_p,
                              c.c_size_t, c.c_void_p]),
}


def find_library(given):
    if given:
        return given
    if os.environ.get("FA2RT_LIBRARY"):
        return os.environ["FA2RT_LIBRARY"]
    tree = Path(__file__).resolve().parents[2]
    found = sorted(tree.glob("build*/**/libfa2rt.so"), key=lambda p: p.stat().st_mtime)
    return str(found[-1]) if found else "libfa2rt.so"


class Library:
    def __init__(self, path):
        self.path = find_library(path)
        try:
            self.calls = c.CDLL(self.path)
            for name, (result, arguments) in PROTOTYPES.items():
                function = getattr(self.calls, name)
                function.restype, function.argtypes = result, arguments
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
