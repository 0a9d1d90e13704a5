"""What a kernel is compared with: PyTorch's backends and Python modules."""

import importlib.util
import warnings
from pathlib import Path

from .cases import Refused

BACKENDS = {"flash2": ("FlashAttention-2", "FLASH_ATTENTION"), "cudnn": ("cuDNN", "CUDNN_ATTENTION")}


def mask_for(peer, case):
    """(the mask that a peer is measured with or None, why that is not the case's)"""
    if case.mask != "causal" or case.seqlen == case.seqlen_k:
        return case.mask, ""
    if case.seqlen == 1:
        return "none", ""  # a single query sees every key
    if peer.bottom_right:
        return "causal", ""
    if case.few_queries:
        return "none", "measured without a mask, since its causal one is not aligned at the bottom right"
    return None, "its causal mask is not aligned at the bottom right"


class PyTorchPeer:
    """torch.nn.functional.scaled_dot_product_attention held to one backend."""

    bottom_right = False  # whether causal means that the last query sees every key

    def __init__(self, name):
        self.label, self.backend = BACKENDS[name]

    def make(self, head_dim, causal, dtype):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        backend = getattr(SDPBackend, self.backend)

        def call(q, k, v):
            grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
            with sdpa_kernel(backend), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the reasons of a refusal come as warnings
                return scaled_dot_product_attention(q, k, v, is_causal=causal, **grouped)
        return call


class ModulePeer:
    """A function of a Python file: make(head_dim, causal, dtype), or make_backward(case)."""

    def __init__(self, label, path, function="make"):
        self.label = label
        if not Path(path).is_file():
            raise Refused(f"--peer {label}: {path} is not a file")
        specification = importlib.util.spec_from_file_location(f"fa2bench_peer_{label}", path)
        module = importlib.util.module_from_spec(specification)
        try:
            specification.loader.exec_module(module)
        except Exception as error:
            raise Refused(f"--peer {label}: {path} failed to import: {error!r}") from None
        wanted = {"make": "make(head_dim, causal, dtype)", "make_backward": "make_backward(case)"}
        if not callable(getattr(module, function, None)):
            raise Refused(f"--peer {label}: {path} has no {wanted[function]}")
        setattr(self, function, getattr(module, function))
        self.bottom_right = bool(getattr(module, "BOTTOM_RIGHT", False))
