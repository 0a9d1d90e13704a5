"""Devices, programs and their launches."""

import ctypes
import json
import sys
import threading
from ctypes import byref, c_char_p, c_float, c_int32, c_size_t, c_void_p
from struct import Struct
from typing import Any, Dict, List, Mapping, Optional, Union

from .arguments import Reader, torch_tensor_type
from .library import DeviceProperties, KernelInfo, as_dict, check, library

_MOST_PREPARED = 1024  # layouts that a program keeps, a few KB each


def version() -> str:
    """The runtime's version, such as "0.1.0"."""
    return library().fa2rtVersion().decode()


class Device:
    """A device by name: "cuda", "cuda:1", "sim", "sim:sm_90?strict", ..."""

    def __init__(self, name: str = "cuda"):
        self._handle = c_void_p()
        self.name = name
        check(library().fa2rtDeviceOpen(name.encode(), byref(self._handle)))

    def __del__(self):
        if getattr(self, "_handle", None):
            library().fa2rtDeviceClose(self._handle)
            self._handle = None

    def properties(self) -> Dict[str, Any]:
        """A dict of fa2rtDeviceProperties."""
        info = DeviceProperties()
        check(library().fa2rtDeviceGetProperties(self._handle, byref(info)))
        return as_dict(info)

    def load(self, ptx: Union[str, bytes], image: Optional[bytes] = None) -> "Program":
        """Loads PTX; `image` is a cubin of it, or None."""
        return Program(self, ptx, image)

    def synchronize(self) -> None:
        """Waits for all work of the device's context."""
        check(library().fa2rtDeviceSynchronize(self._handle))


class _Prepared:
    """fa2rtPrepared, of arguments in their order."""

    def __init__(self, program, reader, arguments):
        self.handle = None
        self._free = library().fa2rtPreparedFree
        array, count = reader.marshal(arguments)
        handle = c_void_p()
        status = library().fa2rtPrepare(program, array, count, byref(handle))
        reader.check(status, arguments)
        self.handle = handle.value
        self.pack = Struct(f"{count}P").pack
        self.workspace_bytes = library().fa2rtPreparedWorkspaceSize(handle)
        self.has_torch = any(isinstance(value, torch_tensor_type()) for value in arguments.values())

    def __del__(self):
        if self.handle:
            self._free(self.handle)


class Program:
    """Loaded kernels. Call it with the kernels' arguments by name.

    Several threads may use a program at once.
    """

    def __init__(self, device: Device, ptx: Union[str, bytes], image: Optional[bytes] = None):
        text = ptx.encode() if isinstance(ptx, str) else ptx
        self._handle = c_void_p()
        self.device = device  # outlives the program
        check(
            library().fa2rtProgramLoad(
                device._handle, text, len(text), image, len(image) if image else 0, byref(self._handle)
            )
        )
        self.manifest: Dict[str, Any] = json.loads(library().fa2rtProgramManifest(self._handle))
        written = [a["name"] for a in self.manifest["arguments"] if a.get("direction", "in") != "in"]
        properties = device.properties()
        self._ordinal = None if properties["is_simulated"] else properties["ordinal"]
        self._reader = Reader(self._ordinal, written)
        self._start = library().fa2rtPreparedLaunch
        self._prepared: Dict[tuple, _Prepared] = {}  # by layouts
        self._latest = ([], None)  # layouts and what was prepared of them: calls repeat theirs
        self._lock = threading.Lock()  # of additions to it
        self._wants_zeros = self.manifest["workspace"].get("zeroed", False)
        self._zeroed: Dict[int, Any] = {}  # workspaces of zeros by stream: memory, address, bytes
        self._stream = self._capture = None  # functions of PyTorch

    def __del__(self):
        if getattr(self, "_handle", None):
            self._prepared.clear()
            library().fa2rtProgramUnload(self._handle)
            self._handle = None

    def kernels(self) -> List[Dict[str, Any]]:
        """What the driver says of each kernel: a list of dicts."""
        result = []
        for i in range(library().fa2rtProgramKernelCount(self._handle)):
            info = KernelInfo()
            check(library().fa2rtProgramGetKernel(self._handle, i, byref(info)))
            result.append(as_dict(info))
        return result

    def runs(self, **arguments: Any) -> List[str]:
        """The names of the kernels that a launch with these arguments runs."""
        array, count = self._reader.marshal(arguments)
        names = []
        for i, kernel in enumerate(self.kernels()):
            runs = c_int32()
            check(library().fa2rtKernelRuns(self._handle, i, array, count, byref(runs)))
            if runs.value:
                names.append(kernel["name"])
        return names

    def workspace_size(self, **arguments: Any) -> int:
        """Bytes of workspace that a launch with these arguments needs."""
        array, count = self._reader.marshal(arguments)
        size = c_size_t()
        check(library().fa2rtWorkspaceSize(self._handle, array, count, byref(size), None))
        return size.value

    def workspace_zeroed(self) -> bool:
        """Whether the workspace must be zeroed once; every launch leaves it so, and one serves a stream."""
        return bool(library().fa2rtWorkspaceZeroed(self._handle))

    def launch(
        self,
        arguments: Mapping[str, Any],
        workspace: Optional[int] = None,
        workspace_bytes: int = 0,
        stream: Optional[int] = None,
    ) -> None:
        """Launches on `stream` (an address such as torch's stream.cuda_stream).

        `workspace` is a device address (see workspace_zeroed). Asynchronous.
        """
        array, count = self._reader.marshal(arguments)
        status = library().fa2rtLaunch(self._handle, array, count, workspace, workspace_bytes, stream)
        self._reader.check(status, arguments)

    def measure(
        self,
        arguments: Mapping[str, Any],
        repeats: int,
        workspace: Optional[int] = None,
        workspace_bytes: int = 0,
        stream: Optional[int] = None,
    ) -> List[float]:
        """Milliseconds on the device of each of `repeats` launches."""
        array, count = self._reader.marshal(arguments)
        times = (c_float * max(repeats, 1))()
        check(
            library().fa2rtMeasure(self._handle, array, count, workspace, workspace_bytes, stream, repeats, times)
        )
        return list(times[:repeats])

    def prepare(self, **arguments: Any) -> None:
        """Prepares calls with arguments of these layouts; raises what they would. Launches nothing."""
        self._read(arguments)

    def __call__(self, **arguments: Any) -> None:
        """Launches: on CUDA, on PyTorch's current stream of the program's device.

        The first call with a layout (dtypes, shapes, strides and places of the
        tensors, values of the scalars) prepares it; later calls compare theirs
        with what was prepared and pass addresses only.

        A workspace, when the kernels need one, is a PyTorch tensor, so its
        memory is reused in the order of the stream. One that must hold zeros is
        kept for the stream's later calls; in a graph's capture each call has
        one of its own, which the graph zeroes at each replay.
        """
        prepared, addresses = self._read(arguments)
        size = prepared.workspace_bytes
        packed = prepared.pack(*addresses)
        if self._ordinal is None:
            memory, workspace, stream = self._host_workspace(size)
        else:
            stream = (self._stream or self._find_stream())(self._ordinal)
            memory, workspace = self._workspace(size, stream) if size else (None, None)
        # `memory` lives until the launch is queued.
        status = self._start(prepared.handle, packed, len(addresses), workspace, size, stream)
        if status:
            check(status)

    def _read(self, arguments):
        """(what was prepared of the arguments' layouts, their addresses)"""
        tensor_type = torch_tensor_type()
        layouts, addresses = [], []
        for name, value in arguments.items():
            if isinstance(value, tensor_type) and (shape := value.shape):
                layouts.append((name, value.dtype, shape, value.stride(), value.get_device()))
                addresses.append(value.data_ptr())
            else:
                layout, address = self._reader.layout(name, value)
                layouts.append(layout)
                addresses.append(address)
        known, prepared = self._latest
        if layouts != known or prepared is None:
            key = tuple(layouts)
            prepared = self._prepared.get(key) or self._prepare(key, arguments)
            self._latest = (layouts, prepared)
        return prepared, addresses

    def _prepare(self, key, arguments):
        prepared = _Prepared(self._handle, self._reader, arguments)
        if self._ordinal is not None and not prepared.has_torch:
            name = next(iter(arguments), "arguments")
            raise TypeError(
                f"{name}: no argument is a PyTorch tensor; a call on {self._reader.place} takes its stream and its "
                "workspace from PyTorch (launch() takes both from you)"
            )
        with self._lock:
            while len(self._prepared) >= _MOST_PREPARED:
                self._prepared.pop(next(iter(self._prepared)))
            self._prepared[key] = prepared
        return prepared

    def _find_stream(self):
        """A function from a device's number to PyTorch's current stream there, as an address."""
        torch = sys.modules["torch"]
        # The address alone, without a Stream object around it.
        direct = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self._stream = direct or (lambda ordinal: torch.cuda.current_stream(ordinal).cuda_stream)
        return self._stream

    def _host_workspace(self, size):
        """(memory of zeros, its address as the manifest wants it aligned, no stream)"""
        if not size:
            return None, None, None
        alignment = self.manifest["workspace"]["alignment"]
        memory = ctypes.create_string_buffer(size + alignment)
        return memory, -(-ctypes.addressof(memory) // alignment) * alignment, None

    def _workspace(self, size, stream):
        """(memory, its address)"""
        torch = sys.modules["torch"]
        if not self._wants_zeros:
            memory = torch.empty(size, dtype=torch.uint8, device=self._torch_device(torch))
        elif self._is_capturing(torch):
            memory = torch.zeros(size, dtype=torch.uint8, device=self._torch_device(torch))
        else:
            kept = self._zeroed.get(stream)
            if kept is None or kept[2] < size:
                memory = torch.zeros(size, dtype=torch.uint8, device=self._torch_device(torch))
                kept = self._zeroed[stream] = (memory, memory.data_ptr(), size)
            return kept[:2]
        return memory, memory.data_ptr()

    def _torch_device(self, torch):
        return torch.device("cuda", self._ordinal)

    def _is_capturing(self, torch):
        """Whether the program's device's current stream is; PyTorch tells of the current device's."""
        if self._capture is None:
            # PyTorch's own, without the look at whether CUDA is there.
            self._capture = (
                getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device),
                getattr(torch._C, "_cuda_isCurrentStreamCapturing", torch.cuda.is_current_stream_capturing),
            )
        device, capturing = self._capture
        if device() == self._ordinal:
            return capturing()
        with torch.cuda.device(self._torch_device(torch)):
            return capturing()
