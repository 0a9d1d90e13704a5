"""What the scripts of bench begin and end with."""

import sys

from .cases import Refused
from .runtime import RuntimeFailure


def with_torch(otherwise=""):
    try:
        import torch
    except ImportError:
        raise Refused("PyTorch is not installed" + otherwise) from None
    return torch


def with_gpu(device="cuda", otherwise=""):
    """PyTorch, with a context on the device that the runtime then works in; `otherwise` is what works without one."""
    torch = with_torch(otherwise)
    if not torch.cuda.is_available():
        raise Refused("PyTorch sees no CUDA device" + otherwise)
    torch.zeros(1, device=device)
    return torch


def status_of(failures):
    """Says what failed; the exit status."""
    for text in failures:
        print(f"FAILED {text}")
    return 1 if failures else 0


def said(program, measure):
    """measure()'s exit status; 2 where it refuses, which is said."""
    try:
        return measure()
    except (Refused, RuntimeFailure) as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        return 2
