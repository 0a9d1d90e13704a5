"""Devices, programs and their launches."""

import ctypes
import json
import os
import sys
import threading
from ctypes import byref, c_char_p, c_float, c_int32, c_size_t, c_void_p
from typing import Any, Dict, List, Mapping, Optional, Union

from .arguments import Reader, torch_tensor_type
from .library import OTHER_LAYOUT, DeviceProperties, KernelInfo, as_dict, check, library
from .prepared import DirectCalls, Prepared

_MOST_PREPARED = 1024  # layouts that a program keeps, a few KB each
_MOST_DIRECT = 8  # kinds of direct calls that it keeps


def version() -> str:
    """The runtime's version, such as "0.1.0"."""
    return library().fa2rtVersion().decode()


def cuda_device_count() -> int:
    """How many GPUs the driver has; raises Error where there is no driver."""
    count = c_int32()
    check(library().fa2rtCudaDeviceCount(byref(count)))
    return count.value


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

    def load(self, ptx: Union[str, bytes], image: Optional[bytes] = None, heads_first: bool = False) -> "Program":
        """Loads PTX; `image` is a cubin of it, or None.

        With `heads_first`, the program's tensors of rank 4 are given as [batch, heads, seqlen, d], PyTorch's order, where
        the kernels' have heads behind seqlen; how they lie in memory is for their strides to say, either way.
        """
        return Program(self, ptx, image, heads_first)

    def abandon(self) -> None:
        """Leaves it open for ever, as a child of fork() must do with its parent's."""
        self._handle = None

    def synchronize(self) -> None:
        """Waits for all work of the device's context."""
        check(library().fa2rtDeviceSynchronize(self._handle))


class Program:
    """Loaded kernels. Call it with the kernels' arguments by name.

    Several threads may use a program at once.
    """

    def __init__(
        self, device: Device, ptx: Union[str, bytes], image: Optional[bytes] = None, heads_first: bool = False
    ):
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
        self._reader = Reader(self._ordinal, written, heads_first)
        self._start = library().fa2rtPreparedLaunch
        self._start_direct = library().fa2rtPreparedLaunchObjects
        self._prepared: Dict[tuple, Prepared] = {}  # by layouts
        self._latest = ([], None, None)  # layouts, what was prepared of them, direct calls: calls repeat theirs
        self._direct: List[DirectCalls] = []  # the latest first
        self._may_be_direct = os.environ.get("FA2_DLPACK") != "0"
        self._lock = threading.Lock()  # of additions to them
        self._wants_zeros = self.manifest["workspace"].get("zeroed", False)
        self._zeroed: Dict[int, Any] = {}  # of zeros, by stream: bytes, and what _place returns
        self._stream = self._capture = None  # functions of PyTorch

    def __del__(self):
        if getattr(self, "_handle", None):
            self._prepared.clear()
            self._latest, self._direct = ([], None, None), []
            library().fa2rtProgramUnload(self._handle)
            self._handle = None

    def abandon(self) -> None:
        """As Device.abandon()."""
        self._handle = None
        for prepared in self._prepared.values():
            prepared.handle = None

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
        direct = self._latest[2]
        if direct is None or not self._launch_direct(direct, arguments):
            prepared, addresses = self._read(arguments)
            packed, size = prepared.pack(*addresses), prepared.workspace_bytes
            memory, workspace, stream = self._place(size)
            # `memory` lives until the launch is queued.
            check(self._start(prepared.handle, packed, len(addresses), workspace, size, stream))

    def _launch_direct(self, direct, arguments):
        """Whether the call was launched: it is one of `direct`, whose tensors the runtime could read."""
        if direct.numbers and not direct.has_numbers(arguments):
            return False
        size, find_stream = direct.workspace_bytes, self._stream
        if size or find_stream is None:
            memory, workspace, stream = self._place(size)
        else:
            workspace, stream = None, find_stream(self._ordinal)
        try:
            status = self._start_direct(direct.call, arguments, workspace, stream)
        except Exception:  # of what reads the tensors; read by their attributes, they tell what is wrong
            return False
        if status and status != OTHER_LAYOUT:
            check(status)
        return not status

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
        known, prepared, _ = self._latest
        if layouts != known or prepared is None:
            key = tuple(layouts)
            prepared = self._prepared.get(key) or self._prepare(key, arguments)
            self._latest = (layouts, prepared, self._direct_calls(arguments, prepared))
        return prepared, addresses

    def _prepare(self, key, arguments):
        prepared = Prepared(self._handle, self._reader, arguments)
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

    def _direct_calls(self, arguments, prepared):
        """Those that later calls like this one are of, or None where there are none."""
        if not self._may_be_direct:
            return None
        with self._lock:
            known = [direct for direct in self._direct
                     if direct.workspace_bytes == prepared.workspace_bytes
                     and direct.has_names(arguments) and direct.has_numbers(arguments)]
            direct = known[0] if known else DirectCalls.of(arguments, prepared)
            if direct is None:
                return None
            if prepared not in direct.members:
                direct = direct.including(prepared)
            others = [other for other in self._direct if other not in known]
            self._direct = [direct, *others[: _MOST_DIRECT - 1]]
            return direct

    def _place(self, size):
        """(memory of a workspace, its address, the stream) for a launch that needs `size` bytes."""
        if self._ordinal is None:
            return self._host_workspace(size)
        stream = (self._stream or self._find_stream())(self._ordinal)
        if not size:
            return None, None, stream
        # The default stream, 0, cannot be captured.
        if not self._wants_zeros or (stream and self._is_capturing()):
            return self._allocate(size, stream)
        kept = self._zeroed.get(stream)
        if kept is None or kept[0] < size:
            kept = self._zeroed[stream] = (size, self._allocate(size, stream))
        return kept[1]

    def _allocate(self, size, stream):
        """As _place: memory of PyTorch's, of zeros where the kernels want them."""
        torch = sys.modules["torch"]
        make = torch.zeros if self._wants_zeros else torch.empty
        memory = make(size, dtype=torch.uint8, device=torch.device("cuda", self._ordinal))
        return memory, c_void_p(memory.data_ptr()), stream

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

    def _is_capturing(self):
        """Whether the program's device's current stream is; PyTorch tells of the current device's."""
        torch = sys.modules["torch"]
        if self._capture is None:
            # PyTorch's own, without the look at whether CUDA is there.
            self._capture = (
                getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device),
                getattr(torch._C, "_cuda_isCurrentStreamCapturing", torch.cuda.is_current_stream_capturing),
            )
        device, capturing = self._capture
        if device() == self._ordinal:
            return capturing()
        with torch.cuda.device(torch.device("cuda", self._ordinal)):
            return capturing()
