#!/usr/bin/env python3
"""Writes the mutation case of a kernel from its manifest: tensors of [heads, length, dim], all contiguous.

    case_from_manifest.py KERNEL.ptx SEQLEN_Q SEQLEN_K [HEADS] > KERNEL.case
"""
import json
import math
import re
import sys


def manifest_of(path):
    lines = []
    with open(path) as file:
        for line in file:
            if line.startswith("// fa2-manifest-end"):
                return json.loads("\n".join(lines[1:]))
            lines.append(line[3:].rstrip("\n"))
    sys.exit(f"{path}: no manifest")


def evaluate(expression, names):
    """docs/manifest.md's grammar, of which Python's is a superset but for the operators' spelling."""
    if isinstance(expression, int):
        return expression
    text = expression.replace("&&", " and ").replace("||", " or ").replace("/", "//")
    text = re.sub(r"!(?!=)", " not ", text)
    text = re.sub(r"(\w+)\.stride\[(\d)\]", r"stride_\1_\2", text)
    text = re.sub(r"device\.(\w+)", r"device_\1", text).replace("if(", "choose(")
    functions = dict(min=min, max=max, ceildiv=lambda a, b: -(-a // b), pow2floor=lambda a: 1 << (a.bit_length() - 1),
                     choose=lambda c, a, b: a if c else b)
    return int(eval(text, {"__builtins__": {}}, {**functions, **names}))


def main():
    path, seqlen_q, seqlen_k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    heads = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    manifest = manifest_of(path)
    capability = manifest["target"]["min_compute_capability"]
    # Few multiprocessors, so that persistent blocks take several tiles.
    names = dict(batch=1, heads=heads, heads_kv=heads, seqlen_q=seqlen_q, seqlen_k=seqlen_k,
                 device_multiprocessors=108 if capability < 90 else 2,
                 device_l2_bytes=40 << 20, device_shared_bytes_per_block=166912 if capability < 90 else 232448,
                 device_compute_capability=capability)
    shapes, dtypes, strides, scalars = {}, {}, {}, {}
    for argument in manifest["arguments"]:
        if argument["kind"] == "scalar":
            scalars[argument["name"]] = argument
            continue
        # Where no coordinate says an extent, such as a table's, 40.
        shape = [e if isinstance(e, int) else names.setdefault(e, 40) for e in argument["shape"]]
        if len(shape) == 4:  # [batch, length, heads, dim], heads before lengths in memory
            _, n, h, d = shape
            stride, order = [h * n * d, d, n * d, 1], [h, n, d]
        else:  # [batch, heads, length]; what a score program reads
            order = shape
            stride = [math.prod(shape[k + 1:]) for k in range(len(shape))]
        name = argument["name"]
        shapes[name], dtypes[name], strides[name] = shape, argument["dtype"], stride
        for k, s in enumerate(stride):
            names[f"stride_{name}_{k}"] = s
        # The judge knows no programs: what they add is 0.
        read = argument["direction"] == "in" and len(shape) < 3
        fill = "zero" if read else "normal" if argument["direction"] == "in" else "output"
        print("tensor", name, argument["dtype"], fill, *order)
    if manifest["workspace"]["bytes"]:
        bytes_ = evaluate(manifest["workspace"]["bytes"], names)
        fill = "zero" if manifest["workspace"].get("zeroed") else "workspace"
        if manifest["specification"].get("deterministic"):
            fill = "ordered"
        print("tensor workspace i32", fill, -(-bytes_ // 4))
    scale = scalars["scale"]["default"]
    for launch in manifest["launches"]:
        if not evaluate(launch.get("when", 1), names):
            continue
        print("launch", launch["kernel"], *[evaluate(g, names) for g in launch["grid"]], *launch["block"],
              launch["shared_bytes"], "cluster", *launch["cluster"], *["programmatic"] * launch.get("programmatic", False))
        for p in launch["parameters"]:
            if p["kind"] == "pointer":
                print("  pointer", p["of"])
            elif p["kind"] == "stride":
                print("  i64", strides[p["of"]][p["dim"]])
            elif p["kind"] in ("i32", "i64"):
                print(" ", p["kind"], evaluate(p["value"], names))
            elif p["kind"] == "workspace":
                print("  pointer workspace", evaluate(p["offset"], names))
            elif p["kind"] == "scalar":
                print(" ", scalars[p["of"]]["dtype"], scalars[p["of"]]["default"])
            elif p["kind"] == "tensor_map":
                batch, seq, heads, d = [max(1, e) for e in shapes[p["of"]]]
                size = 4 if dtypes[p["of"]] == "f32" else 2
                print("  map", p["of"], 4, size, p["swizzle"], d, seq, heads, batch,
                      *[strides[p["of"]][k] * size for k in (1, 2, 0)], p["box_cols"], p["box_rows"], 1, 1)
            else:
                sys.exit(f"{path}: parameter kind '{p['kind']}' is not supported here")
    backward = manifest["specification"]["pass"] == "backward"
    print("backward q k v out lse dout dq dk dv" if backward else "forward q k v out lse", scale,
          ["none", "causal", "causal_top_left", "strictly_causal"].index(manifest["specification"]["mask"]))


if __name__ == "__main__":
    main()
