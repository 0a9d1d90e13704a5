"""libfa2rt and libfa2 by ctypes. Structures and functions have the names of fa2rt.h and fa2.h."""

import ctypes
import ctypes.util
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p


OUT_OF_MEMORY = 6  # FA2RT_ERROR_MEMORY
OTHER_LAYOUT = 8  # FA2RT_ERROR_LAYOUT


class Error(RuntimeError):
    """A refusal or failure. `status` is its fa2rtStatus: 1 is a refused argument."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


class OutOfMemory(Error, MemoryError):
    """Of the host's or the device's memory."""


def error_of(status: int, text: str) -> Error:
    return (OutOfMemory if status == OUT_OF_MEMORY else Error)(status, text)


class Argument(ctypes.Structure):
    """fa2rtArgument"""

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


class ObjectCall(ctypes.Structure):
    """fa2rtObjectCall"""

    _fields_ = [
        ("next", c_void_p),
        ("read", c_void_p),
        ("release", c_void_p),
        ("acquire", c_void_p),
        ("names", POINTER(c_void_p)),
        ("count", c_size_t),
        ("prepared", POINTER(c_void_p)),
        ("prepared_count", c_size_t),
        ("workspace_bytes", c_size_t),
        ("heads_first", c_int32),
    ]


class DeviceProperties(ctypes.Structure):
    """fa2rtDeviceProperties"""

    _fields_ = [
        ("name", ctypes.c_char * 128),
        ("is_simulated", c_int32),
        ("compute_capability", c_int32),
        ("multiprocessors", c_int32),
        ("driver_version", c_int32),
        ("l2_bytes", c_int64),
        ("shared_bytes_per_block", c_int64),
        ("memory_bytes", c_int64),
        ("ordinal", c_int32),
    ]


class KernelInfo(ctypes.Structure):
    """fa2rtKernelInfo"""

    _fields_ = [
        ("name", c_char_p),
        ("threads", c_int32),
        ("dynamic_shared_bytes", c_int64),
        ("registers", c_int32),
        ("local_bytes", c_int64),
        ("static_shared_bytes", c_int64),
    ]


def as_dict(info):
    """A structure's fields; texts as str."""
    fields = {name: getattr(info, name) for name, _ in info._fields_}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in fields.items()}


def find_library(name, variable):
    """The path of a library: the environment's, then beside an installed package, then the system's."""
    given = os.environ.get(variable)
    if given:
        return given
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.join(here, "..", ".."), os.path.join(here, "..", "..", "..")):
        path = os.path.join(folder, f"lib{name}.so.0")
        if os.path.exists(path):
            return path
    return ctypes.util.find_library(name) or f"lib{name}.so.0"


def _load(name, variable):
    try:
        return ctypes.CDLL(find_library(name, variable))
    except OSError as error:
        raise ImportError(f"lib{name}.so.0 could not be loaded ({error}); {variable} says where it is") from None


def _declare(library, functions):
    for name, (result, types) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, types
    return library


def _runtime_functions():
    handle, status = c_void_p, c_int32
    arguments = [handle, POINTER(Argument), c_size_t]
    where = [c_void_p, c_size_t, c_void_p]  # workspace, its bytes, stream
    return {
        "fa2rtLastError": (c_char_p, []),
        "fa2rtVersion": (c_char_p, []),
        "fa2rtManifestCheck": (status, [c_char_p, c_size_t]),
        "fa2rtCudaDeviceCount": (status, [POINTER(c_int32)]),
        "fa2rtDeviceOpen": (status, [c_char_p, POINTER(handle)]),
        "fa2rtDeviceClose": (None, [handle]),
        "fa2rtDeviceGetProperties": (status, [handle, POINTER(DeviceProperties)]),
        "fa2rtDeviceSynchronize": (status, [handle]),
        "fa2rtProgramLoad": (status, [handle, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(handle)]),
        "fa2rtProgramUnload": (None, [handle]),
        "fa2rtProgramManifest": (c_char_p, [handle]),
        "fa2rtProgramKernelCount": (c_int32, [handle]),
        "fa2rtProgramGetKernel": (status, [handle, c_int32, POINTER(KernelInfo)]),
        "fa2rtKernelRuns": (status, [handle, c_int32, POINTER(Argument), c_size_t, POINTER(c_int32)]),
        "fa2rtWorkspaceSize": (status, arguments + [POINTER(c_size_t), POINTER(c_size_t)]),
        "fa2rtWorkspaceZeroed": (c_int32, [handle]),
        "fa2rtLaunch": (status, arguments + where),
        "fa2rtMeasure": (status, arguments + where + [c_int32, POINTER(c_float)]),
        "fa2rtPrepare": (status, arguments + [POINTER(handle)]),
        "fa2rtPreparedFree": (None, [handle]),
        "fa2rtPreparedWorkspaceSize": (c_size_t, [handle]),
        # The addresses are packed into bytes, which ctypes passes as they lie.
        "fa2rtPreparedLaunch": (status, [handle, c_char_p, c_size_t] + where),
    }


def _compiler_functions():
    handle = c_void_p
    return {
        "fa2_version": (c_char_p, []),
        "fa2_compile": (handle, [c_char_p]),
        "fa2_compile_module": (handle, [c_char_p, c_char_p]),
        "fa2_schedules": (handle, [c_char_p, c_char_p]),
        "fa2_cache": (handle, [c_char_p]),
        "fa2_compilation_ok": (c_int32, [handle]),
        "fa2_compilation_cached": (c_int32, [handle]),
        "fa2_compilation_text": (c_void_p, [handle]),
        "fa2_compilation_size": (c_size_t, [handle]),
        "fa2_compilation_error": (c_char_p, [handle]),
        "fa2_compilation_explanation": (c_char_p, [handle]),
        "fa2_compilation_free": (None, [handle]),
    }


def runtime_of(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """A loaded libfa2rt, whose functions are declared."""
    return _declare(loaded, _runtime_functions())


@functools.lru_cache(maxsize=None)
def library():
    """The loaded libfa2rt."""
    loaded = runtime_of(_load("fa2rt", "FA2RT_LIBRARY"))
    # It reads Python's objects, so it is called with Python's lock, which it gives up while it launches.
    launch = ctypes.PyDLL(loaded._name).fa2rtPreparedLaunchObjects
    launch.restype, launch.argtypes = c_int32, [c_void_p, ctypes.py_object, c_void_p, c_void_p]
    loaded.fa2rtPreparedLaunchObjects = launch
    return loaded


@functools.lru_cache(maxsize=None)
def compiler_library():
    """The loaded libfa2."""
    return _declare(_load("fa2", "FA2_LIBRARY"), _compiler_functions())


def last_error() -> str:
    """The text of this thread's last failed call."""
    return library().fa2rtLastError().decode()


def check(status: int) -> None:
    """Raises Error with the runtime's words unless `status` is 0."""
    if status:
        raise error_of(status, last_error())
