"""Captured tensors of PyTorch as a launch takes them."""

import torch
from torch.utils.weak import WeakIdKeyDictionary

_AS_THEY_ARE = {torch.float32, torch.bfloat16, torch.float16, torch.int32}
_INT32 = torch.iinfo(torch.int32)
_narrowed = WeakIdKeyDictionary()  # (version, int32 copy) by tensors of other integers


def operand(value, device, heads_first):
    """A number as it is; a tensor in a dtype that kernels read, in the order of dimensions that the runtime expects."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.device != device:
        raise ValueError(
            f"score_mod: a captured tensor of shape {tuple(value.shape)} is on {value.device}, q is on {device}: they must be equal"
        )
    if value.dtype not in _AS_THEY_ARE:
        value = _as_int32(value)
    return in_order(value, heads_first)


def in_order(value, heads_first):
    """The runtime exchanges dimensions 1 and 2 of every tensor of rank 4, as q's; it has no tensors of rank 0."""
    if heads_first and value.dim() == 4:
        return value.transpose(1, 2)
    return value if value.dim() else value.view(1)


def _as_int32(tensor):
    kept = _narrowed.get(tensor)
    if kept is None or kept[0] != tensor._version:
        if tensor.dtype == torch.int64 and tensor.numel():
            least, most = (int(x) for x in torch.aminmax(tensor))  # waits for the device, once a tensor
            if least < _INT32.min or most > _INT32.max:
                raise ValueError(f"score_mod: a captured tensor has values from {least} to {most}; kernels read 32 bits")
        kept = _narrowed[tensor] = tensor._version, tensor.to(torch.int32)
    return kept[1]


def of_types(types, tensors, numbers):
    """A launch's operands of these types, from its tensors and its numbers, each in their order."""
    tensors, numbers = iter(tensors), iter(numbers)
    return tuple(next(tensors) if type.startswith("tensor") else int(next(numbers)) if type == "i32" else next(numbers) for type in types)
