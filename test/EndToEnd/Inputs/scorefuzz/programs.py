"""Score programs: a list of nodes, each an operation on earlier nodes or a constant; the last one is the new score.

The first five values are the region's arguments: s, batch, head, row and col.
"""
from dataclasses import dataclass

import numpy as np

from .bounded import Bounded
from .operations import BITS, BY_KEY, OPERATIONS, Operation

ARGUMENTS = (("s", "f32"), ("batch", "index"), ("head", "index"), ("row", "index"), ("col", "index"))


@dataclass(frozen=True)
class Constant:
    value: object  # float of f32 (-inf, -0.0 too), int or bool
    result: str

    def text(self):
        if self.result == "f32":
            return f"arith.constant 0x{int(np.float32(self.value).view(np.uint32)):08X} : f32"
        if self.result == "i1":
            return f"arith.constant {'true' if self.value else 'false'}"
        return f"arith.constant {self.value} : {self.result}"

    def evaluate(self):
        if self.result == "f32":
            return Bounded(np.full((1, 1, 1, 1), np.float64(np.float32(self.value))))
        return np.full((1, 1, 1, 1), self.value, bool if self.result == "i1" else np.int64)


@dataclass(frozen=True)
class Node:
    what: object  # Operation or Constant
    inputs: tuple = ()

    @property
    def result(self):
        return self.what.result


class Program:
    def __init__(self, nodes=()):
        self.nodes = list(nodes)

    def types(self):
        return [kind for _, kind in ARGUMENTS] + [n.result for n in self.nodes]

    def operations(self):
        return [i for i, n in enumerate(self.nodes) if isinstance(n.what, Operation)]

    def text(self):
        names = ["%" + name for name, _ in ARGUMENTS]
        lines = []
        for i, node in enumerate(self.nodes):
            names.append(f"%{i}")
            right = node.what.text([names[x] for x in node.inputs]) if node.inputs else node.what.text()
            comment = f"  // {node.what.value}" if isinstance(node.what, Constant) and node.result == "f32" else ""
            lines.append(f"        {names[-1]} = {right}{comment}")
        return "\n".join(lines + [f"        fa2.yield {names[-1]} : f32"])

    def evaluate(self, context, arguments):
        """The new scores. `arguments` in the order of ARGUMENTS."""
        values = list(arguments)
        for node in self.nodes:
            values.append(evaluate_node(node, context, values))
        return values[-1] if self.nodes else values[0]

    def to_json(self):
        def of(node):
            if isinstance(node.what, Constant):
                value = node.what.value
                if node.result == "f32":
                    value = int(np.float32(value).view(np.uint32))
                return ["constant", value, node.result]
            o = node.what
            return [o.name, o.predicate, o.operands, o.result, node.inputs]
        return [of(node) for node in self.nodes]

    @staticmethod
    def from_json(nodes):
        def to(fields):
            if fields[0] == "constant":
                _, value, kind = fields
                if kind == "f32":
                    value = float(np.uint32(value).view(np.float32))
                return Node(Constant(value, kind))
            name, predicate, operands, result, inputs = fields
            return Node(BY_KEY[(name, predicate, tuple(operands), result)], tuple(inputs))
        return Program(to(fields) for fields in nodes)


def evaluate_node(node, context, values):
    if isinstance(node.what, Constant):
        return node.what.evaluate()
    return node.what.evaluate(context, *(values[i] for i in node.inputs))


def mutants(program, random):
    """Plain attention, and for each operation and constant the program with that one altered."""
    yield "identity", Program()
    for i, node in enumerate(program.nodes):
        for what, changed in alterations(node, random):
            yield what, Program(program.nodes[:i] + [changed] + program.nodes[i + 1:])


def alterations(node, random):
    if isinstance(node.what, Constant):
        value, kind = node.what.value, node.result
        if kind == "i1":
            changed = not value
        elif kind == "f32":
            changed = 1.25 * value + 0.125 if np.isfinite(value) else -4.0
        else:
            changed = value + 1 if value + 1 < 1 << (BITS[kind] - 1) else value - 1
        yield f"{value} to {changed}", Node(Constant(changed, kind))
        return
    o = node.what
    others = [p for p in OPERATIONS if p.operands == o.operands and p.result == o.result and p != o]
    if others:
        other = random.pick(others)
        yield f"{o.name} {o.predicate} to {other.name} {other.predicate}", Node(other, node.inputs)
    elif len(node.inputs) == 3:  # the arms of a select
        c, a, b = node.inputs
        yield "arms exchanged", Node(o, (c, b, a))
