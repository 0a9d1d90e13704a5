"""Figures and kernel files for tests."""

import json
from pathlib import Path

from fa2bench.cases import paper_grid
from fa2bench.results import Results, record_for


def fake_results():
    """ours = 330, FlashAttention-2 = 300, cuDNN = 440 TFLOP/s, but for one point and one hole."""
    results = Results("grid", "a machine", "a title")
    for case in paper_grid([64, 128], ["none", "causal"], [1024, 2048], 2048, 16384, "bf16"):
        for label, role, tflops in (("ours", "kernel", 330), ("FlashAttention-2", "peer", 300),
                                    ("cuDNN", "peer", 440)):
            record = results.add(record_for(label, role, case))
            if (label, case.head_dim, case.mask, case.seqlen) == ("ours", 64, "none", 1024):
                tflops = 270
            if (label, case.head_dim, case.mask) == ("cuDNN", 64, "causal"):
                record.note = "no kernel"
                continue
            ms = case.flops / tflops / 1e9
            record.fill([ms * 1.1, ms, ms * 0.9])
    return results


def manifest(head_dim=64, mask="none", dtype="bf16", head_dim_v=None, **changes):
    head_dim_v = head_dim_v or head_dim

    def tensor(name, direction, dims, element=dtype):
        return {"name": name, "kind": "tensor", "direction": direction, "dtype": element,
                "shape": dims, "alignment": 16, "stride_multiple": 8 if element == dtype else 1}
    m = {
        "fa2_manifest": 1, "compiler": "fa2 test",
        "specification": {"pass": "forward", "dtype": dtype, "head_dim": head_dim,
                          "head_dim_v": head_dim_v, "mask": mask},
        "target": {"arch": "sm_80", "family": False, "min_compute_capability": 80, "ptx": "7.0",
                   "min_driver": 11000},
        "schedule": {"block_q": 64, "block_kv": 64, "warps": 4, "stages": 2},
        "arguments": [
            tensor("q", "in", ["batch", "seqlen_q", "heads", head_dim]),
            tensor("k", "in", ["batch", "seqlen_k", "heads_kv", head_dim]),
            tensor("v", "in", ["batch", "seqlen_k", "heads_kv", head_dim_v]),
            tensor("out", "out", ["batch", "seqlen_q", "heads", head_dim_v]),
            tensor("lse", "out", ["batch", "heads", "seqlen_q"], "f32"),
            {"name": "scale", "kind": "scalar", "dtype": "f32", "default": 0.125,
             "require": "positive_finite"}],
        "requires": [], "workspace": {"bytes": 0, "alignment": 1},
        "launches": [{"kernel": "attention", "grid": ["ceildiv(seqlen_q, 64)", "heads", "batch"],
                      "block": [128, 1, 1], "cluster": [1, 1, 1], "shared_bytes": 1024,
                      "parameters": [{"kind": "pointer", "of": "q"},
                                     {"kind": "i32", "value": "seqlen_q"},
                                     {"kind": "scalar", "of": "scale"}]}]}
    m.update(changes)
    return m


def write_ptx(path, m):
    comment = "\n".join("// " + line for line in json.dumps(m, indent=1).splitlines())
    Path(path).write_text(f"""// fa2-manifest-begin
{comment}
// fa2-manifest-end
.version 7.0
.target sm_80
.address_size 64
.visible .entry attention(.param .u64 a, .param .u32 b, .param .f32 c) {{ ret; }}
""")
