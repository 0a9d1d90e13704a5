#!/usr/bin/env python3
"""Trains a small GPT twice, with fa2c.attention and with PyTorch's attention, on the same data from the same start.

    pip install .            # or PYTHONPATH, FA2_LIBRARY and FA2RT_LIBRARY, as docs/guide/python.md has them
    examples/train_gpt.py --picture losses.png

Learns to continue the text of the files in this checkout, byte by byte. Prints both losses, and with them a second run of
PyTorch's from another seed: the two attentions should be no further apart than two seeds are.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import fa2c

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--heads", type=int, default=8)
parser.add_argument("--seqlen", type=int, default=1024)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--device", default="cuda")
parser.add_argument("--picture", help="a PNG of the losses; needs matplotlib")
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList(nn.LayerNorm(args.width) for _ in range(2))
        self.qkv, self.out = nn.Linear(args.width, 3 * args.width), nn.Linear(args.width, args.width)
        self.mlp = nn.Sequential(nn.Linear(args.width, 4 * args.width), nn.GELU(), nn.Linear(4 * args.width, args.width))

    def forward(self, x):
        qkv = self.qkv(self.norms[0](x)).unflatten(-1, (3, args.heads, -1))
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))  # views: nothing is copied
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, args.width), nn.Embedding(args.seqlen, args.width)
        self.blocks = nn.Sequential(*(Block(attention) for _ in range(args.layers)))
        self.head = nn.Linear(args.width, 256)

    def forward(self, tokens):
        return self.head(self.blocks(self.tokens(tokens) + self.places.weight[: tokens.shape[1]]))


def train(attention, seed, text):
    """The loss of each step."""
    torch.manual_seed(seed)
    model = GPT(attention).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95))
    draw = torch.Generator().manual_seed(0)  # the data are the same for all
    losses = []
    for _ in range(args.steps):
        starts = torch.randint(len(text) - args.seqlen - 1, (args.batch,), generator=draw)
        rows = torch.stack([text[s: s + args.seqlen + 1] for s in starts]).long().to(args.device)
        with torch.autocast(torch.device(args.device).type, torch.bfloat16):
            logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


root = Path(__file__).resolve().parent.parent
data = b"".join(path.read_bytes() for path in sorted(root.glob("lib/**/*.cpp")))
text = torch.frombuffer(bytearray(data), dtype=torch.uint8)
runs = {
    "fa2c": train(lambda q, k, v: fa2c.attention(q, k, v, causal=True), 0, text),
    "SDPA": train(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), 0, text),
    "SDPA, another seed": train(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), 1, text),
}
for step in range(0, args.steps, max(args.steps // 10, 1)):
    print(f"step {step:4}  " + "  ".join(f"{name} {losses[step]:.4f}" for name, losses in runs.items()))
tail = max(args.steps // 5, 1)
last = {name: sum(losses[-tail:]) / tail for name, losses in runs.items()}
print(f"mean of the last {tail}:  " + "  ".join(f"{name} {loss:.4f}" for name, loss in last.items()))
if args.picture:
    import matplotlib.pyplot as plt

    for name, losses in runs.items():
        plt.plot(losses, label=name, linewidth=1)
    plt.xlabel("step")
    plt.ylabel("loss")
    plt.legend()
    plt.savefig(args.picture, dpi=120)
