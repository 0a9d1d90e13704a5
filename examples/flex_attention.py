#!/usr/bin/env python3
"""FlexAttention's own examples, by fa2c: the callables are as its users have them, create_block_mask and flex_attention too.

    pip install .            # or PYTHONPATH, FA2_LIBRARY and FA2RT_LIBRARY, as docs/guide/python.md has them
    examples/flex_attention.py
    examples/flex_attention.py --device cpu --seqlen 40        # on the simulator

Each is compared with PyTorch in float64, forward and backward: gradients of captured tensors among them.
"""

import argparse

import torch

from fa2c.flex_attention import create_block_mask, flex_attention

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--seqlen", type=int, default=600)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--head-dim", type=int, default=64)
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
torch.manual_seed(0)
torch.set_default_device(args.device)

# What the examples capture.
slopes = torch.exp2(-8 * torch.arange(1, args.heads + 1) / args.heads).requires_grad_()
table = torch.randn(args.heads, 2 * args.seqlen - 1, requires_grad=True)  # a learned bias of the distance
documents = torch.sort(torch.randint(4, (args.seqlen,)))[0]
near = args.seqlen // 8


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def sliding_window(b, h, q_idx, kv_idx):
    return causal(b, h, q_idx, kv_idx) & (q_idx - kv_idx <= near)


def prefix_lm(b, h, q_idx, kv_idx):
    return (kv_idx <= near) | causal(b, h, q_idx, kv_idx)


def document(b, h, q_idx, kv_idx):
    return causal(b, h, q_idx, kv_idx) & (documents[q_idx] == documents[kv_idx])


def relative(score, b, h, q_idx, kv_idx):
    return score + (q_idx - kv_idx)


def alibi(score, b, h, q_idx, kv_idx):
    return score + slopes[h] * (kv_idx - q_idx)


def learned(score, b, h, q_idx, kv_idx):
    return score + table[h, q_idx - kv_idx + args.seqlen - 1]


def softcap(score, b, h, q_idx, kv_idx):
    return 20 * torch.tanh(score / 20)


def exact(q, k, v, score_mod, mask_mod):
    at = torch.meshgrid(torch.arange(1), torch.arange(args.heads), torch.arange(args.seqlen), torch.arange(args.seqlen), indexing="ij")
    scores = q.double() @ k.double().transpose(2, 3) * args.head_dim ** -0.5
    scores = scores if score_mod is None else score_mod(scores, *at)
    scores = scores if mask_mod is None else scores.masked_fill(~mask_mod(*at), float("-inf"))
    return torch.softmax(scores, -1) @ v.double()


worst = 0.0
for name, score_mod, mask_mod, captured in (
    ("causal", None, causal, []), ("sliding window", None, sliding_window, []), ("prefix LM", None, prefix_lm, []),
    ("documents", None, document, []), ("relative", relative, None, []), ("ALiBi", alibi, causal, [slopes]),
    ("learned bias", learned, causal, [table]), ("softcap", softcap, None, []),
):
    q, k, v = (torch.randn(1, args.heads, args.seqlen, args.head_dim).to(torch.bfloat16).requires_grad_() for _ in range(3))
    block_mask = mask_mod and create_block_mask(mask_mod, None, None, args.seqlen, args.seqlen, device=args.device)
    out = flex_attention(q, k, v, score_mod, block_mask)
    wanted = exact(q, k, v, score_mod, mask_mod)
    inputs, dout = (q, k, v, *captured), torch.randn_like(out)
    pairs = [(out, wanted), *zip(torch.autograd.grad(out, inputs, dout), torch.autograd.grad(wanted, inputs, dout.double()))]
    errors = [float((x.detach() - y.detach()).abs().max() / y.detach().abs().max()) for x, y in pairs]
    worst = max(worst, *errors)
    print(f"{name:15}" + "  ".join(f"{what} {error:.4f}" for what, error in zip(("out", "dq", "dk", "dv", "dcaptured"), errors)))
print("right" if worst < 0.02 else "WRONG")
raise SystemExit(worst >= 0.02)
