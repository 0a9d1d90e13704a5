"""Whether results are equal bit for bit, and where not. The texts end so that "than those of X" or "alone" goes on."""

import torch

INTEGERS = {2: torch.int16, 4: torch.int32}
AXES = ("batch entry", "head", "row", "column")


def bits_of(tensor):
    return tensor.view(INTEGERS[tensor.element_size()])


def same_bits(one, other):
    return torch.equal(bits_of(one), bits_of(other))


def difference(name, one, other, first_entry=0):
    """Empty where the tensors are equal. `first_entry`: the batch entry that they begin with."""
    if same_bits(one, other):
        return ""
    places = (bits_of(one) != bits_of(other)).nonzero()
    at = [int(i) for i in places[0]]
    at[0] += first_entry
    where = ", ".join(f"{axis} {i}" for axis, i in zip(AXES, at))
    return f"{name} has {len(places)} of {one.numel()} elements other, the first at {where},"


def differs(run, other):
    """Of two KernelRuns on the same inputs, over all of their sets."""
    names = ("out", "lse") if run.has_lse and other.has_lse else ("out",)
    for index in range(run.inputs.count):
        for name, mine, theirs in zip(names, (run.outs, run.lses), (other.outs, other.lses)):
            text = difference(f"set {index}: {name}", mine[index], theirs[index])
            if text:
                return text
    return ""


def alone_differs(run):
    """Of each batch entry of the first set and the same as a batch of its own."""
    batch = run.inputs.case.batch
    names = ("out", "lse") if run.has_lse else ("out",)
    for b in range(batch if batch > 1 else 0):
        for name, all_, alone in zip(names, (run.outs, run.lses), run.entry_alone(b)):
            text = difference(name, alone, all_[0][b:b + 1], b)
            if text:
                return text
    return ""
