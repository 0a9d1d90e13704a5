"""What a program runs on: shapes, schedules and inputs, drawn from a seed."""
import numpy as np

from .draws import Random  # noqa: F401

LENGTHS = ((70, 133), (256, 256), (256, 533), (33, 257), (1, 300), (133, 70), (64, 128), (65, 129), (200, 190), (17, 1),
           (129, 400))
SCHEDULES = {  # what --schedule says; "": as chosen
    "sm_80": ("", "stages=1", "stages=2", "stages=3,block_kv=32", "partition=split_k,block_q=16,stages=1",
              "partition=split_k,block_q=16", "block_q=32,warps=2", "lazy_rescale=0", "lazy_rescale=8", "block_kv=16"),
    "sm_90a": ("", "", "overlap=0", "block_kv=32", "block_q=64,block_kv=48", "block_q=128,stages=2",
               "speculate_max=0", "persistent=0", "separate_output=0",
               "ping_pong=1,group_limits=1", "lazy_rescale=0", "lazy_rescale=8"),
}
MASKS = ("none", "causal", "causal_top_left")


def draw_case(random):
    q, k = random.pick(LENGTHS)
    heads, heads_kv = random.pick(((1, 1), (2, 2), (4, 2), (3, 1), (2, 1)))
    batch = random.pick((1, 2))
    # A simulated run of some tenths of a second.
    while batch * heads * q * k > 140000:
        batch, heads, heads_kv = (1, heads, heads_kv) if batch > 1 else (1, heads - 1, 1)
        if heads == 1:
            break
    dim = random.pick((40, 64, 64, 128))
    # None: the kernel's own, compiled in; a number: an argument.
    scale = random.pick((None, None, 0.05, 0.3))
    return {"batch": batch, "heads": heads, "heads_kv": heads_kv, "seqlen_q": q, "seqlen_k": k, "head_dim": dim,
            "dtype": random.pick(("bf16", "f16")), "mask": random.pick(MASKS), "scale": scale,
            "data": random.between(0, 2**31 - 1),
            "schedules": {family: random.pick(choices) for family, choices in SCHEDULES.items()}}


def visible_elements(case):
    """Whether row i sees key j, without the program."""
    rows, cols = np.arange(case["seqlen_q"])[:, None], np.arange(case["seqlen_k"])[None, :]
    if case["mask"] == "none":
        seen = rows + cols >= 0
    else:
        shift = case["seqlen_k"] - case["seqlen_q"] if case["mask"] == "causal" else 0
        seen = cols <= rows + shift
    return seen[None, None]


def to_dtype(x, dtype):
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def inputs(case):
    """q, k and v in [batch, length, heads, dim], as float32 that the dtype holds."""
    source = np.random.RandomState(case["data"])  # whose numbers are frozen

    def tensor(length, heads):
        return to_dtype(source.standard_normal((case["batch"], length, heads, case["head_dim"])), case["dtype"])
    return (tensor(case["seqlen_q"], case["heads"]), tensor(case["seqlen_k"], case["heads_kv"]),
            tensor(case["seqlen_k"], case["heads_kv"]))
