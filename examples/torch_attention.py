#!/usr/bin/env python3
"""Launches an fa2 kernel on PyTorch tensors, on the current stream.

    fa2-compile --head-dim 128 --mask causal -o attn.ptx
    PYTHONPATH=python FA2RT_LIBRARY=build/release/runtime/lib/libfa2rt.so.0 \
        examples/torch_attention.py attn.ptx

Compares with PyTorch's own attention, then captures the launch in a CUDA graph
and replays it.
"""

import argparse
import json
import sys

import torch
import torch.nn.functional as F

import fa2c

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("ptx")
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--heads", type=int, default=8)
parser.add_argument("--heads-kv", type=int, default=2)
parser.add_argument("--seqlen", type=int, default=1000)
args = parser.parse_args()

torch.cuda.init()
torch.cuda.current_stream()  # the runtime works in PyTorch's context
torch.empty(1, device="cuda")
with open(args.ptx) as file:
    program = fa2c.Device("cuda").load(file.read())
spec = program.manifest["specification"]
dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[spec["dtype"]]

torch.manual_seed(0)
shape = (args.batch, args.seqlen, args.heads)
shape_kv = (args.batch, args.seqlen, args.heads_kv)
q = torch.randn(*shape, spec["head_dim"], dtype=dtype, device="cuda")
k = torch.randn(*shape_kv, spec["head_dim"], dtype=dtype, device="cuda")
v = torch.randn(*shape_kv, spec["head_dim_v"], dtype=dtype, device="cuda")
out = torch.full((*shape, spec["head_dim_v"]), float("nan"), dtype=dtype, device="cuda")
lse = torch.full((args.batch, args.heads, args.seqlen), float("nan"), device="cuda")


def attention():
    program(q=q, k=k, v=v, out=out, lse=lse)


attention()
# Square, so that a causal mask is the same aligned to either corner.
group = args.heads // args.heads_kv
reference = F.scaled_dot_product_attention(
    q.double().transpose(1, 2),
    k.double().repeat_interleave(group, dim=2).transpose(1, 2),
    v.double().repeat_interleave(group, dim=2).transpose(1, 2),
    is_causal=spec["mask"] != "none",
).transpose(1, 2)
error = (out.double() - reference).abs().max().item()
print(f"largest error against float64: {error:.3g}")

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    attention()
first = out.clone()
q.copy_(torch.randn_like(q))
graph.replay()
torch.cuda.synchronize()
changed = not torch.equal(first, out)
attention()
torch.cuda.synchronize()
replayed = out.clone()
graph.replay()
torch.cuda.synchronize()
print(f"a captured launch reads its inputs anew: {changed}, and gives the same bits: {torch.equal(replayed, out)}")
for kernel in program.kernels():
    print(json.dumps(kernel))
sys.exit(0 if error < 0.05 and changed and torch.equal(replayed, out) else 1)
