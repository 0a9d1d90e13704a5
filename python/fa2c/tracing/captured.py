"""What tracing watches PyTorch for: functions on real tensors, whose values would be frozen into the program in silence."""

import contextlib
import sys

from .place import cannot
from .values import Traced

# What only asks how a tensor is made.
_HARMLESS = {"shape", "dtype", "device", "ndim", "size", "dim", "stride", "numel", "is_floating_point", "requires_grad",
             "is_cuda", "__get__"}


def watched():
    """A context in which a function of PyTorch's that no traced value takes part in raises."""
    torch = sys.modules.get("torch")
    if torch is None:
        return contextlib.nullcontext()
    from torch.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), options=None):
            options = options or {}
            name = getattr(function, "__name__", str(function))
            if name in _HARMLESS or _takes_traced((arguments, options)):
                return function(*arguments, **options)
            raise cannot(
                f"torch.{name} of no traced value: a tensor that is made or read while the program is traced would be frozen "
                "into it; captured tensors are not supported yet, Python's numbers are"
            )

    return Watch()


def _takes_traced(value):
    if isinstance(value, Traced):
        return True
    if isinstance(value, (tuple, list)):
        return any(map(_takes_traced, value))
    return isinstance(value, dict) and _takes_traced(list(value.values()))
