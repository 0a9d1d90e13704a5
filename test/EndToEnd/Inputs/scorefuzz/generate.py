"""Random programs, grown from the score one step at a time; a step that gives what must not be asked for is undone."""
import numpy as np

from .attention import Attention
from .bounded import Bounded, Context, Rejected
from .cases import Random, draw_case
from .operations import BY_KEY, INTEGERS, OPERATIONS
from .programs import ARGUMENTS, Constant, Node, Program, evaluate_node

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.25, 2.0, 3.0, -3.0, 0.1, 5.0, -7.5, 1e-3, 100.0)
MASKED = (-np.inf, -np.inf, -np.inf, -1e9, -1e4, -30000.0, -3.0, 0.0, -0.0)
INTS = (0, 1, 2, 3, 5, 7, 8, 16, 31, 32, 63, 64, 65, 100, 127, 128, 200, 256, -1, -3, -64)


class Builder:
    """Nodes with their values on one case's data."""

    def __init__(self, attention, random):
        self.attention, self.random = attention, random
        self.nodes, self.values = [], list(attention.arguments)
        self.types = [kind for _, kind in ARGUMENTS]
        self.context = Context(attention.visible)

    def add(self, node):
        with np.errstate(all="ignore"):
            self.values.append(evaluate_node(node, self.context, self.values))
        self.nodes.append(node)
        self.types.append(node.result)
        return len(self.values) - 1

    def constant(self, value, kind):
        return self.add(Node(Constant(value, kind)))

    def apply(self, operation, *inputs):
        return self.add(Node(operation, inputs))

    def named(self, name, operands, result, *inputs, predicate=""):
        return self.apply(BY_KEY[(name, predicate, operands, result)], *inputs)

    def state(self):
        return len(self.nodes), self.context.undecided

    def restore(self, state):
        count, self.context.undecided = state
        del self.nodes[count:], self.values[count + len(ARGUMENTS):], self.types[count + len(ARGUMENTS):]

    def operations(self):
        return sum(not isinstance(n.what, Constant) for n in self.nodes)

    def operation(self, which):
        return self.random.pick([o for o in OPERATIONS if which(o)])

    # Integers of coordinates, of any type.

    def integer(self, kind, depth):
        r = self.random
        if depth <= 0 or r.chance(0.15):
            if kind != "index":
                return self.cast(self.integer("index", 0), "index", kind)
            return 1 + r.pick((0, 1, 2, 2, 2, 3, 3, 3, 3))
        if r.chance(0.12):
            return self.named("arith.select", ("i1", kind, kind), kind, self.condition(0), self.integer(kind, 0),
                              self.int_operand(kind, 0))
        operation = self.operation(lambda o: o.operands == (kind, kind) and o.result == kind)
        a = self.integer(kind, depth - 1)
        if operation.name in ("arith.shli", "arith.shrsi", "arith.shrui"):
            return self.apply(operation, a, self.constant(r.between(0, 6), kind))
        return self.apply(operation, a, self.int_operand(kind, depth - 1))

    def int_operand(self, kind, depth):
        r = self.random
        if r.chance(0.5):
            # Edges of the tensors too.
            case = self.attention.case
            value = r.pick(INTS + (case["seqlen_q"], case["seqlen_k"], case["seqlen_k"] - case["seqlen_q"]))
            return self.constant((value + 128) % 256 - 128 if kind == "i8" else value, kind)
        return self.integer(kind, depth)

    def cast(self, value, source, target):
        if source != target and not any(o.cast and o.operands == (source,) and o.result == target for o in OPERATIONS):
            value, source = self.cast(value, source, "i32"), "i32"
        return self.apply(self.operation(lambda o: o.cast and o.operands == (source,) and o.result == target), value)

    def coordinate(self):
        """A float of coordinates."""
        r = self.random
        kind = r.pick(("i32", "i32", "i64", "i8"))
        if r.chance(0.2):
            return self.as_float(self.condition(1), "i1")
        return self.as_float(self.integer(kind, r.between(1, 2)), kind)

    def as_float(self, x, kind):
        """Integers as a float of a few units."""
        r = self.random
        if kind == "index" or r.chance(0.15):
            to = r.pick([k for k in ("i32", "i64", "i8") if k != kind])
            x, kind = self.cast(x, kind, to), to
        x = self.apply(self.operation(lambda o: o.cast and o.operands == (kind,) and o.result == "f32"
                                      and o.name != "arith.bitcast"), x)
        return self.scaled(x)

    def scaled(self, x):
        r = self.random
        value = self.values[x].value
        most = np.abs(value[np.isfinite(value)]).max(initial=1.0)
        if most > 8 or r.chance(0.3):
            factor = r.pick((1, -1)) * 2.0 ** r.between(0, 3) / 2.0 ** np.ceil(np.log2(most))
            x = self.named("arith.mulf", ("f32", "f32"), "f32", x, self.constant(float(factor), "f32"))
        return x

    def condition(self, depth):
        r = self.random
        if depth > 0 and r.chance(0.3):
            operation = self.operation(lambda o: o.operands == ("i1", "i1"))
            return self.apply(operation, self.condition(depth - 1), self.condition(depth - 1))
        if depth > 0 and r.chance(0.06):
            return self.named("arith.select", ("i1", "i1", "i1"), "i1", *(self.condition(0) for _ in range(3)))
        if r.chance(0.06):
            return self.named("arith.trunci", ("i32",), "i1", self.integer("i32", depth))
        kind = r.pick(("index", "index", "index", *INTEGERS))
        operation = self.operation(lambda o: o.name == "arith.cmpi" and o.operands[0] == kind)
        if kind == "index" and r.chance(0.35):  # row against column, as masks are
            row, col = 3, 4
            if r.chance(0.5):
                col = self.named("arith.subi", (kind, kind), kind, col, row)
                return self.apply(operation, col, self.constant(r.pick(INTS), kind))
            return self.apply(operation, *r.pick(((row, col), (col, row))))
        return self.apply(operation, self.integer(kind, depth + 1), self.int_operand(kind, 0))

    def decision(self, x):
        """A condition, of coordinates or of floats."""
        r = self.random
        if r.chance(0.65):
            return self.condition(r.between(0, 1))
        operation = self.operation(lambda o: o.name == "arith.cmpf")
        return self.apply(operation, *self.either_way(x, self.operand()))

    def either_way(self, a, b):
        return self.random.pick(((a, b), (b, a)))

    def operand(self):
        """A float beside the one that grows."""
        r = self.random
        if r.chance(0.15):
            return 0
        if r.chance(0.4):
            return self.coordinate()
        if r.chance(0.2):
            return self.constant(r.pick(MASKED), "f32")
        return self.constant(r.pick(FLOATS), "f32")

    # Steps: from a float to a float.

    def unary(self, x):
        operation = self.operation(lambda o: o.operands == ("f32",) and o.result == "f32")
        return self.apply(operation, x)

    def binary(self, x):
        operation = self.operation(lambda o: o.operands == ("f32", "f32") and o.result == "f32")
        return self.apply(operation, *self.either_way(x, self.operand()))

    def select(self, x):
        return self.named("arith.select", ("i1", "f32", "f32"), "f32", self.decision(x),
                          *self.either_way(x, self.operand()))

    def hide(self, x, masked=MASKED):
        """As masks are written: the score, or a constant that takes it out."""
        out = self.constant(self.random.pick(masked), "f32")
        arms = (x, out) if self.random.chance(0.7) else (out, x)
        return self.named("arith.select", ("i1", "f32", "f32"), "f32", self.decision(x), *arms)

    def remove(self, x):
        return self.hide(x, (-np.inf,))

    def guarded(self, x):
        """A quotient that has no value where it is not taken."""
        kind = self.random.pick(("i32", "i64"))
        n = self.integer(kind, 1)
        quotient = self.named("arith.divf", ("f32", "f32"), "f32", x,
                              self.named("arith.sitofp", (kind,), "f32", n))
        taken = self.named("arith.cmpi", (kind, kind), "i1", n, self.constant(0, kind), predicate="ne")
        return self.named("arith.select", ("i1", "f32", "f32"), "f32", taken, quotient, self.operand())

    def whole(self, x):
        """Rounded to integers and back."""
        r = self.random
        if r.chance(0.5):
            x = self.named("math.absf", ("f32",), "f32", x)
        scaled = self.named("arith.mulf", ("f32", "f32"), "f32", x, self.constant(r.pick((0.5, 2.0, 8.0)), "f32"))
        operation = self.operation(lambda o: o.name in ("arith.fptosi", "arith.fptoui"))
        return self.named("arith.sitofp", (operation.result,), "f32", self.apply(operation, scaled))

    def bits(self, x):
        """Through the bits of a coordinate: the sign taken, or flipped."""
        y = self.named("arith.bitcast", ("f32",), "i32", self.coordinate())
        name, constant = self.random.pick((("arith.andi", 0x7FFFFFFF), ("arith.xori", -(2**31))))
        y = self.named(name, ("i32", "i32"), "i32", y, self.constant(constant, "i32"))
        y = self.named("arith.bitcast", ("i32",), "f32", y)
        return self.named("arith.addf", ("f32", "f32"), "f32", x, y)

    def use(self, operation):
        """A step that has this operation."""
        def step(builder, x):
            inputs = []
            for kind in operation.operands:
                if kind == "f32":
                    inputs.append(builder.operand() if x in inputs else x)
                elif kind == "i1":
                    inputs.append(builder.condition(0))
                elif inputs:
                    inputs.append(builder.int_operand(kind, 0))
                else:
                    inputs.append(builder.integer(kind, 1))
            if operation.name == "arith.bitcast":
                return builder.bits(x)
            if operation.name in ("arith.shli", "arith.shrsi", "arith.shrui"):
                inputs[1] = builder.constant(builder.random.between(1, 6), operation.operands[0])
            result = builder.apply(operation, *inputs)
            if operation.result == "i1":
                return builder.named("arith.select", ("i1", "f32", "f32"), "f32", result,
                                     *builder.either_way(x, builder.operand()))
            if operation.result == "f32" and operation.operands[0] == "f32":
                return result
            if operation.result == "f32":
                result = builder.scaled(result)
            else:
                result = builder.as_float(result, operation.result)
            return builder.named("arith.addf", ("f32", "f32"), "f32", x, result)
        return step

    STEPS = (unary, unary, unary, binary, binary, binary, binary, select, select, hide, hide, hide, guarded, whole, bits)

    def grow(self, x, most, steps=STEPS):
        """One more step, or None."""
        state = self.state()
        try:
            grown = self.random.pick(steps)(self, x)
            self.check(grown, most, self.values[x])
            return grown
        except Rejected:
            self.restore(state)
            return None

    def check(self, grown, most, before):
        if self.operations() > most:
            raise Rejected("too long")
        value = self.values[grown]
        s = self.attention.check(value, self.context)
        live = np.isfinite(s.value).any(-1)
        seen = np.broadcast_to(self.attention.visible.any(-1), live.shape)
        if live.sum() < 0.3 * seen.sum():
            raise Rejected("hardly a row is left")
        width = s.width()[np.isfinite(s.value)]
        if (width > 0.01).mean() > 0.02:
            raise Rejected("rounding decides")
        rows = np.broadcast_to(self.context.undecided & self.attention.visible, s.value.shape).any(-1)
        if rows.mean() > 0.1:
            raise Rejected("rows that hang on a rounding")
        if s.value.shape == before.value.shape and (s.value == before.value).all():
            raise Rejected("a step that changes nothing")


def depends_on_score(attention, program):
    """Programs that have nothing to do with q.k are refused on sm_90a."""
    s, *coordinates = attention.arguments
    try:
        first, second = (program.evaluate(Context(attention.visible), (score, *coordinates)).value
                         for score in (Bounded(s.value), Bounded(s.value + 0.75)))
    except Rejected:
        return True
    return bool((attention.visible & (first != second) & ~(np.isnan(first) & np.isnan(second))).any())


def without_dead(program):
    """Steps may leave values that nothing uses."""
    first = len(ARGUMENTS)
    live = {first + len(program.nodes) - 1}
    for i in reversed(range(len(program.nodes))):
        if first + i in live:
            live.update(program.nodes[i].inputs)
    renamed, nodes = {i: i for i in range(first)}, []
    for i, node in enumerate(program.nodes):
        if first + i in live:
            renamed[first + i] = first + len(nodes)
            nodes.append(Node(node.what, tuple(renamed[x] for x in node.inputs)))
    return Program(nodes)


def required(seed, number):
    """Operations that a program should have: five in two of three programs, so that 60 programs have nearly all."""
    if number % 3 == 0:
        return []
    place = 5 * (20 * seed + number - number // 3 - 1)
    return [OPERATIONS[(place + i) % len(OPERATIONS)] for i in range(5)]


def generate(seed, number):
    """The case and its program."""
    for attempt in range(100):
        random = Random(f"{seed}/{number}/{attempt}")
        case = draw_case(random)
        attention = Attention(case)
        wanted, x = random.between(2, 14), 0
        builder = Builder(attention, random)
        for operation in required(seed, number):
            for _ in range(20):
                grown = builder.grow(x, 30, (builder.use(operation),))
                if grown:
                    x = grown
                    break
        hides = random.pick(("first", "last", "last", "no", "no"))
        for step in range(25):
            steps = (Builder.remove,) if hides == "first" and step == 0 else Builder.STEPS
            if builder.operations() >= wanted:
                break
            x = builder.grow(x, 14, steps) or x
        for _ in range(5 if hides == "last" else 0):
            grown = builder.grow(x, 18, (Builder.remove,))
            if grown:
                x = grown
                break
        if not builder.nodes:
            continue
        program = without_dead(Program(builder.nodes))
        if len(program.operations()) >= 2 and depends_on_score(attention, program):
            return attention, program
    raise RuntimeError(f"seed {seed}, program {number}: 100 attempts gave no program")
