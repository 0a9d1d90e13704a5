"""DLPack's C exchange functions (DLPack 1, dlpack.h), by which a library lets others read its tensors."""

import ctypes
import functools
from ctypes import c_char_p, c_int, c_uint32, c_void_p, py_object
from typing import Optional

_MAJOR = 1  # of DLPack, whose next may lay a DLTensor out otherwise
_CAPSULE = b"dlpack_exchange_api"


class _ExchangeApi(ctypes.Structure):
    """DLPackExchangeAPI; its first three fields stay as they are in every version."""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("previous", c_void_p),  # one of an older version, or NULL
        ("managed_tensor_allocator", c_void_p),
        ("managed_tensor_from_py_object_no_sync", c_void_p),
        ("managed_tensor_to_py_object_no_sync", c_void_p),
        ("dltensor_from_py_object_no_sync", c_void_p),
        ("current_work_stream", c_void_p),
    ]


@functools.lru_cache(maxsize=8)
def tensor_reader(tensor_type: type) -> Optional[int]:
    """The address of the function that reads tensors of a type; None where the type has no such function."""
    python = getattr(ctypes, "pythonapi", None)  # which CPython has
    capsule = getattr(tensor_type, "__dlpack_c_exchange_api__", None)
    if python is None or capsule is None:
        return None
    is_valid = ctypes.PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_IsValid", python))
    pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", python))
    address = pointer(capsule, _CAPSULE) if is_valid(capsule, _CAPSULE) else None
    while address:
        api = _ExchangeApi.from_address(address)
        if api.major == _MAJOR:
            return api.dltensor_from_py_object_no_sync
        address = api.previous
    return None
