"""ctypes over fa2rt.h. Structures and functions have the header's names."""

import ctypes
import ctypes.util
import json
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p

_DTYPES = {"bf16": 1, "f16": 2, "f32": 3, "i32": 4, "i64": 5}
_TORCH_DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "f16", "torch.float32": "f32", "torch.int32": "i32"}


class Error(RuntimeError):
    """A refusal or failure of the runtime. `status` is its fa2rtStatus."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Argument(ctypes.Structure):
    """fa2rtArgument. Make one with tensor(), real() or integer()."""

    _fields_ = [
        ("name", c_char_p),
        ("is_tensor", c_int32),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("is_integer", c_int32),
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("real", c_double),
        ("integer", c_int64),
    ]


class _DeviceProperties(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 128),
        ("is_simulated", c_int32),
        ("compute_capability", c_int32),
        ("multiprocessors", c_int32),
        ("driver_version", c_int32),
        ("l2_bytes", c_int64),
        ("shared_bytes_per_block", c_int64),
        ("memory_bytes", c_int64),
    ]


class _KernelInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("threads", c_int32),
        ("dynamic_shared_bytes", c_int64),
        ("registers", c_int32),
        ("local_bytes", c_int64),
        ("static_shared_bytes", c_int64),
    ]


def _find_library():
    """FA2RT_LIBRARY, then beside an installed package, then the system's."""
    given = os.environ.get("FA2RT_LIBRARY")
    if given:
        return given
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.join(here, "..", ".."), os.path.join(here, "..", "..", "..")):
        path = os.path.join(folder, "libfa2rt.so.0")
        if os.path.exists(path):
            return path
    return ctypes.util.find_library("fa2rt") or "libfa2rt.so.0"


def _declare(library):
    handle, status = c_void_p, c_int32
    arguments = [handle, POINTER(Argument), c_size_t]
    functions = {
        "fa2rtLastError": (c_char_p, []),
        "fa2rtVersion": (c_char_p, []),
        "fa2rtDeviceOpen": (status, [c_char_p, POINTER(handle)]),
        "fa2rtDeviceClose": (None, [handle]),
        "fa2rtDeviceGetProperties": (status, [handle, POINTER(_DeviceProperties)]),
        "fa2rtProgramLoad": (status, [handle, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(handle)]),
        "fa2rtProgramUnload": (None, [handle]),
        "fa2rtProgramManifest": (c_char_p, [handle]),
        "fa2rtProgramKernelCount": (c_int32, [handle]),
        "fa2rtProgramGetKernel": (status, [handle, c_int32, POINTER(_KernelInfo)]),
        "fa2rtKernelRuns": (status, [handle, c_int32, POINTER(Argument), c_size_t, POINTER(c_int32)]),
        "fa2rtWorkspaceSize": (status, arguments + [POINTER(c_size_t), POINTER(c_size_t)]),
        "fa2rtWorkspaceZeroed": (c_int32, [handle]),
        "fa2rtLaunch": (status, arguments + [c_void_p, c_size_t, c_void_p]),
        "fa2rtMeasure": (status, arguments + [c_void_p, c_size_t, c_void_p, c_int32, POINTER(c_float)]),
        "fa2rtMemoryAllocate": (status, [handle, c_size_t, POINTER(c_void_p)]),
        "fa2rtMemoryFree": (status, [handle, c_void_p]),
        "fa2rtMemoryCopyIn": (status, [handle, c_void_p, c_void_p, c_size_t]),
        "fa2rtMemoryCopyOut": (status, [handle, c_void_p, c_void_p, c_size_t]),
        "fa2rtDeviceSynchronize": (status, [handle]),
    }
    for name, (result, types) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, types
    return library


_library = None


def library():
    """The loaded libfa2rt."""
    global _library
    if _library is None:
        _library = _declare(ctypes.CDLL(_find_library()))
    return _library


def _check(status):
    if status:
        raise Error(status, library().fa2rtLastError().decode())


def version():
    """The runtime's version, such as "0.1.0"."""
    return library().fa2rtVersion().decode()


def tensor(name, data, dtype, shape, strides=None):
    """An argument from a device address, a dtype such as "bf16", and extents.

    `strides` are in elements; without them the tensor is packed.
    """
    if dtype not in _DTYPES:
        raise ValueError(f"{name}: dtype is {dtype!r}; known: {', '.join(_DTYPES)}")
    rank = len(shape)
    extents = (c_int64 * max(rank, 1))(*shape)
    steps = (c_int64 * max(rank, 1))(*strides) if strides is not None else None
    argument = Argument(
        name=name.encode(), is_tensor=1, dtype=_DTYPES[dtype], rank=rank, data=data, shape=extents, strides=steps
    )
    argument._kept = (extents, steps)  # alive as long as the argument
    return argument


def real(name, value):
    """A scalar argument of a floating-point dtype."""
    return Argument(name=name.encode(), dtype=_DTYPES["f32"], real=value)


def integer(name, value):
    """A scalar argument of an integer dtype."""
    return Argument(name=name.encode(), dtype=_DTYPES["i64"], is_integer=1, integer=value)


def _argument(name, value):
    if isinstance(value, Argument):
        return value
    if isinstance(value, int):
        return integer(name, value)
    if isinstance(value, float):
        return real(name, value)
    dtype = _TORCH_DTYPES.get(str(getattr(value, "dtype", None)))
    if dtype is None or not hasattr(value, "data_ptr"):
        raise TypeError(f"{name}: expected a PyTorch tensor of {', '.join(_TORCH_DTYPES)}, a number, or fa2.tensor(...)")
    return tensor(name, value.data_ptr(), dtype, tuple(value.shape), tuple(value.stride()))


def _marshal(values):
    arguments = [_argument(name, value) for name, value in values.items()]
    array = (Argument * max(len(arguments), 1))(*arguments)
    array._kept = arguments
    return array, len(arguments)


class Device:
    """A device by name: "cuda", "cuda:1", "sim", "sim:sm_90?strict", ..."""

    def __init__(self, name="cuda"):
        self._handle = c_void_p()
        self.name = name
        _check(library().fa2rtDeviceOpen(name.encode(), byref(self._handle)))

    def __del__(self):
        if getattr(self, "_handle", None):
            library().fa2rtDeviceClose(self._handle)
            self._handle = None

    def properties(self):
        """A dict of fa2rtDeviceProperties."""
        info = _DeviceProperties()
        _check(library().fa2rtDeviceGetProperties(self._handle, byref(info)))
        result = {name: getattr(info, name) for name, _ in info._fields_}
        result["name"] = result["name"].decode()
        return result

    def load(self, ptx, image=None):
        """Loads PTX (str or bytes); `image` is a cubin of it, or None."""
        return Program(self, ptx, image)

    def synchronize(self):
        _check(library().fa2rtDeviceSynchronize(self._handle))


class Program:
    """Loaded kernels. Call it with the kernel's arguments by name."""

    def __init__(self, device, ptx, image=None):
        text = ptx.encode() if isinstance(ptx, str) else ptx
        self._handle = c_void_p()
        self.device = device  # outlives the program
        _check(
            library().fa2rtProgramLoad(
                device._handle, text, len(text), image, len(image) if image else 0, byref(self._handle)
            )
        )
        self.manifest = json.loads(library().fa2rtProgramManifest(self._handle))
        self._zeroed = {}  # workspaces of zeros, by device and stream

    def __del__(self):
        if getattr(self, "_handle", None):
            library().fa2rtProgramUnload(self._handle)
            self._handle = None

    def kernels(self):
        """What the driver says of each kernel: a list of dicts."""
        result = []
        for i in range(library().fa2rtProgramKernelCount(self._handle)):
            info = _KernelInfo()
            _check(library().fa2rtProgramGetKernel(self._handle, i, byref(info)))
            entry = {name: getattr(info, name) for name, _ in info._fields_}
            entry["name"] = entry["name"].decode()
            result.append(entry)
        return result

    def runs(self, **arguments):
        """The names of the kernels that a launch with these arguments runs."""
        array, count = _marshal(arguments)
        names = []
        for i, kernel in enumerate(self.kernels()):
            runs = c_int32()
            _check(library().fa2rtKernelRuns(self._handle, i, array, count, byref(runs)))
            if runs.value:
                names.append(kernel["name"])
        return names

    def workspace_size(self, **arguments):
        """Bytes of workspace that a launch with these arguments needs."""
        array, count = _marshal(arguments)
        size = c_size_t()
        _check(library().fa2rtWorkspaceSize(self._handle, array, count, byref(size), None))
        return size.value

    def workspace_zeroed(self):
        """Whether the workspace must be zeroed once; every launch leaves it so, and one serves a stream."""
        return bool(library().fa2rtWorkspaceZeroed(self._handle))

    def launch(self, arguments, workspace=None, workspace_bytes=0, stream=None):
        """Launches on `stream` (an address such as torch's stream.cuda_stream).

        `arguments` is a dict; `workspace` is a device address (see
        workspace_zeroed). Asynchronous.
        """
        array, count = _marshal(arguments)
        _check(library().fa2rtLaunch(self._handle, array, count, workspace, workspace_bytes, stream))

    def measure(self, arguments, repeats, workspace=None, workspace_bytes=0, stream=None):
        """Milliseconds on the device of each of `repeats` launches."""
        array, count = _marshal(arguments)
        times = (c_float * max(repeats, 1))()
        _check(
            library().fa2rtMeasure(
                self._handle, array, count, workspace, workspace_bytes, stream, repeats, times
            )
        )
        return list(times[:repeats])

    def __call__(self, **arguments):
        """Launches on PyTorch tensors, on PyTorch's current stream.

        A workspace, when the kernel needs one, is a PyTorch tensor too, so its
        memory is reused in the order of that stream. One that must hold zeros is
        kept for the stream's later calls; in a graph's capture each call has one
        of its own, which the graph zeroes at each replay.
        """
        import torch

        place = next(v.device for v in arguments.values() if isinstance(v, torch.Tensor))
        stream = torch.cuda.current_stream(place)
        array, count = _marshal(arguments)
        size = c_size_t()
        _check(library().fa2rtWorkspaceSize(self._handle, array, count, byref(size), None))
        workspace = None
        if size.value and not self.workspace_zeroed():
            workspace = torch.empty(size.value, dtype=torch.uint8, device=place)
        elif size.value:
            workspace = self._zeroed_workspace(torch, size.value, place, stream)
        with torch.cuda.device(place):
            _check(
                library().fa2rtLaunch(
                    self._handle,
                    array,
                    count,
                    workspace.data_ptr() if size.value else None,
                    size.value,
                    stream.cuda_stream,
                )
            )

    def _zeroed_workspace(self, torch, size, place, stream):
        def zeros():
            return torch.zeros(size, dtype=torch.uint8, device=place)

        if torch.cuda.is_current_stream_capturing():
            return zeros()
        key = (place, stream.cuda_stream)
        workspace = self._zeroed.get(key)
        if workspace is None or workspace.numel() < size:
            workspace = self._zeroed[key] = zeros()
        return workspace
