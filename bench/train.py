#!/usr/bin/env python3
"""Trains GPT models of the FlashAttention-2 paper's table 1 for some steps with each attention. See --help."""

import argparse
import gc
import statistics
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent / "python")]

from fa2bench import options as command_line  # noqa: E402
from python_call import use_build  # noqa: E402

EPILOG = """\
example: train.py --build build/release --seqlens 2048 8192

Random tokens, AdamW, float32 weights under autocast to bfloat16, no checkpointing, one GPU. Each attention starts from the same
weights and sees the same tokens; a second seed of the first one says how far apart losses may be. TFLOP/s by the paper's formula, with
causal attention not halved: 6 parameters + 12 layers hidden seqlen a token. MFU is of --peak TFLOP/s. "math" is attention without a
fused kernel. An attention that runs out of memory, or that PyTorch refuses, says so in place of its row. exit status: 0, 1 when a loss was
not finite or fa2c has no row.
"""
MODELS = {"1.3B": (24, 2048, 16), "2.7B": (32, 2560, 20), "small": (4, 256, 4)}
VOCABULARY = 50304


def parse(arguments):
    p = argparse.ArgumentParser(prog="train.py", description=__doc__, epilog=EPILOG,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=Path, metavar="FOLDER", help="of the libraries; an installed fa2c has its own")
    p.add_argument("--model", choices=MODELS, default="1.3B")
    p.add_argument("--seqlens", type=int, nargs="+", default=[2048, 8192])
    p.add_argument("--tokens", type=command_line.positive, default=16384, help="a step")
    p.add_argument("--steps", type=command_line.positive, default=12, help="of which the first three are not timed")
    p.add_argument("--attentions", nargs="+", default=["fa2c", "FlashAttention-2", "cuDNN", "math"])
    p.add_argument("--peak", type=float, default=989.0, help="TFLOP/s of the GPU")
    p.add_argument("--compile", action="store_true", help="torch.compile the blocks")
    p.add_argument("--device", default="cuda")
    p.add_argument("--csv", type=Path, help="losses of all steps")
    return p.parse_args(arguments)


def attention_of(torch, name):
    """A function of q, k, v [batch, heads, seqlen, d]."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if name == "fa2c":
        import fa2c

        return lambda q, k, v: fa2c.attention(q, k, v, causal=True)
    backend = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}[name]

    def attention(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return attention


def make_model(torch, shape, seqlen, attention, device):
    from torch import nn

    layers, width, heads = shape

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (y.transpose(1, 2) for y in self.qkv(self.norm1(x)).unflatten(-1, (3, heads, -1)).unbind(2))
            x = x + self.out(attention(q, k, v).transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(seqlen, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places.weight
            for block in self.blocks:
                x = block(x)
            return nn.functional.linear(self.norm(x), self.tokens.weight)

    with torch.device(device):
        model = Model()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
    return model


def train(torch, name, seed, seqlen, args):
    """(losses, milliseconds of each timed step, bytes at most, parameters)"""
    torch.manual_seed(seed)
    cuda = args.device != "cpu"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    model = make_model(torch, MODELS[args.model], seqlen, attention_of(torch, name), args.device)
    if args.compile:
        for block in model.blocks:
            block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, betas=(0.9, 0.95), fused=cuda)
    draw = torch.Generator().manual_seed(1)
    losses, times = [], []
    for step in range(args.steps):
        tokens = torch.randint(VOCABULARY, (max(args.tokens // seqlen, 1), seqlen + 1), generator=draw).to(args.device)
        torch.cuda.synchronize() if cuda else None
        start = time.perf_counter()
        with torch.autocast(args.device.split(":")[0], torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())  # in float32
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())  # waits
        if step >= 3:
            times.append((time.perf_counter() - start) * 1e3)
    memory = torch.cuda.max_memory_allocated() if cuda else 0
    return losses, times, memory, sum(p.numel() for p in model.parameters())


def row(name, seqlen, result, args):
    losses, times, memory, parameters = result
    layers, width, _ = MODELS[args.model]
    tokens = max(args.tokens // seqlen, 1) * seqlen
    milliseconds = statistics.median(times)
    flops = tokens * (6 * parameters + 12 * layers * width * seqlen)
    speed = flops / milliseconds / 1e9
    print(f"| {args.model} | {seqlen} | {name} | {milliseconds:.0f} | {tokens / milliseconds * 1e3:.0f} | {speed:.0f} | "
          f"{speed / args.peak:.1%} | {memory / 2 ** 30:.1f} | {losses[-1]:.4f} |", flush=True)


def main(arguments):
    args = parse(arguments)
    use_build(args.build)
    import torch

    print("| model | seqlen | attention | ms a step | tokens/s | TFLOP/s | MFU | GB at most | last loss |\n" + "|---" * 9 + "|")
    all_losses, finite = {}, True
    for seqlen in args.seqlens:
        for name, seed in [(name, 0) for name in args.attentions] + [(args.attentions[0], 1)]:
            label = name if seed == 0 else f"{name}, another seed"
            try:
                result = train(torch, name, seed, seqlen, args)
            except RuntimeError as error:  # out of memory is one
                print(f"| {args.model} | {seqlen} | {label} | {str(error).splitlines()[0]} |" + " |" * 5, flush=True)
                finite = finite and name != "fa2c"
            else:
                all_losses[f"{seqlen} {label}"] = result[0]
                finite = finite and all(loss == loss and abs(loss) < 1e3 for loss in result[0])
                row(label, seqlen, result, args)
            gc.collect()
            if args.device != "cpu":
                torch.cuda.empty_cache()
    if args.csv:
        lines = [",".join(all_losses), *(",".join(map(str, step)) for step in zip(*all_losses.values()))]
        args.csv.write_text("\n".join(lines) + "\n")
    return 0 if finite else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
