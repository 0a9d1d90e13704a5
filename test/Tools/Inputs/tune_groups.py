"""Bundles of groups, as bench/hardware.py writes them, for tests of fa2-tune measure."""
import json
import os
import subprocess

SHAPE = "1x2/1x40x48"
SIZES = {"batch": 1, "heads": 2, "heads_kv": 1, "seqlen_q": 40, "seqlen_k": 48}


def compile_kernel(path, *flags):
    done = subprocess.run(["fa2-compile", *flags, "-o", path], capture_output=True, text=True)
    assert done.returncode == 0, (flags, done.stderr)


def manifest_of(text):
    lines = text.split("// fa2-manifest-end")[0].splitlines()[1:]
    return json.loads("\n".join(line[3:] for line in lines))


def hash_of(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def write_bundle(folder, groups, sizes=(SIZES,)):
    """groups: {group's name: [(candidate's name, file in the folder)]}"""
    kernels = []
    for group, candidates in groups.items():
        for number, (name, file) in enumerate(candidates):
            with open(os.path.join(folder, file), encoding="utf-8") as read:
                text = read.read()
            manifest = manifest_of(text)
            specification = manifest["specification"]
            problem = {key: specification[key] for key in ("pass", "dtype", "head_dim", "head_dim_v", "mask")}
            kernels.append({"problem": {**problem, "arch": manifest["target"]["arch"], "group": group}, "schedule": name,
                            "source": "list" if number else "today", "file": file, "hash": hash_of(text), "model_ms": [], "shapes": 0})
    with open(os.path.join(folder, "bundle.json"), "w", encoding="utf-8") as write:
        json.dump({"fa2_tune_bundle": 1, "compiler": "", "shapes": [list(sizes)], "kernels": kernels, "refused": []}, write)


def measure(folder, results, *more):
    return subprocess.run(["fa2-tune", "measure", folder, "-o", results, "--device", "sim:sm_90", *more], capture_output=True, text=True)


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
