#!/usr/bin/env python3
"""A model of Hugging Face's transformers with fa2c's attention: padded prompts, a sliding window, generation behind a cache.

    pip install . transformers
    examples/transformers_generate.py
    examples/transformers_generate.py --device cpu --tokens 4        # on the simulator

The model is a small one with random weights, so that nothing is downloaded; for a real one:
AutoModelForCausalLM.from_pretrained(NAME, attn_implementation="fa2c", dtype=torch.bfloat16).
"""

import argparse

import torch
import transformers

from fa2c.integrations import transformers as fa2c_transformers

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--tokens", type=int, default=32, help="how many to generate")
parser.add_argument("--device", default="cuda")
args = parser.parse_args()

fa2c_transformers.register()


def make(implementation):
    torch.manual_seed(0)
    config = transformers.MistralConfig(
        vocab_size=256, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        sliding_window=16, pad_token_id=0, eos_token_id=None, attn_implementation=implementation)
    return transformers.MistralForCausalLM(config).to(args.device, torch.bfloat16).eval()


ours, theirs = make("fa2c"), make("sdpa")
prompts = torch.randint(1, 256, (2, 24), device=args.device)
seen = torch.ones_like(prompts)
seen[0, :9] = 0  # the first prompt is shorter, padded on the left
text = ours.generate(prompts, attention_mask=seen, max_new_tokens=args.tokens, do_sample=False)
print("generated", text[:, prompts.shape[1]:].tolist())
with torch.no_grad():
    seen = torch.nn.functional.pad(seen, (0, args.tokens), value=1)
    got, wanted = (model(text, attention_mask=seen).logits.float()[seen.bool()] for model in (ours, theirs))
error = float((got - wanted).abs().max() / wanted.abs().max())
print(f"logits beside PyTorch's attention: {error:.4f} of the largest apart")
raise SystemExit(error >= 0.05)
