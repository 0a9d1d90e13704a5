"""Random programs that read operands: grown from the score one step at a time, with bounds of each value, so that no finite
value overflows and errors stay small. NumPy is not needed.
"""
import math
from dataclasses import dataclass

SCORE = 30.0  # what scores are taken to be within
NUMBER = 5.0  # what fa2-run draws for floats of tensors is within
LENGTH = 512
FLOATS = (0.125, 0.5, -0.5, 1.0, -1.0, 2.0, -3.0, 0.1)
INTEGERS = (0, 1, 2, 3, 7, 8, 16, 31, 64, 100, 128, -1, -5, -64)
# Indices of what is read at coordinates: batch entry, head, row i and column j.
PLACES = ("h", "b", "bh", "bj", "bi", "bhj", "bhi", "hj", "j", "i", "bhij", "bhij", "bhij", "hij", "ij", "bhji")


class Rejected(Exception):
    """A step that would give +inf, a NaN or a derivative that is one."""


@dataclass(frozen=True)
class Value:
    name: str
    kind: str  # f32, index, i32 or i1
    low: float = 0.0
    high: float = 1.0
    hides: bool = False  # it may be -inf too
    scaled: bool = False  # and so times what varies: of its exponential, a derivative is 0 times infinity

    @property
    def most(self):
        return max(abs(self.low), abs(self.high))


@dataclass
class Operand:
    name: str
    kind: str
    element: str
    rank: int
    smooth: bool  # it has a gradient that is known


class Builder:
    """The text of a program, and the operands that it reads."""

    def __init__(self, random, reads):
        self.r, self.reads = random, reads
        self.lines, self.extras, self.known = [], [], []  # known: floats that were read
        self.operations = 0
        self.score = Value("%s", "f32", -SCORE, SCORE)
        self.at = {"b": Value("%batch", "index", 0, 4), "h": Value("%head", "index", 0, 32),
                   "i": Value("%row", "index", 0, LENGTH), "j": Value("%column", "index", 0, LENGTH)}

    def emit(self, text, kind, low=0.0, high=1.0, hides=False, counts=True, scaled=False):
        name = f"%{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.operations += counts
        return Value(name, kind, low, high, hides, scaled)

    def state(self):
        return len(self.lines), len(self.extras), len(self.known), self.operations, self.reads

    def restore(self, state):
        lines, extras, known, self.operations, self.reads = state
        del self.lines[lines:], self.extras[extras:], self.known[known:]

    # Operations.

    def constant(self, value, kind="f32"):
        text = "0xFF800000" if value == -math.inf else repr(value)
        hides = value == -math.inf
        return self.emit(f"arith.constant {text} : {kind}", kind, 0 if hides else value, 0 if hides else value, hides, counts=False)

    def binary(self, name, a, b):
        """Of two floats. -inf goes where the result is no NaN and not +inf."""
        hides = a.hides or b.hides
        if name == "subf":
            low, high, possible = a.low - b.high, a.high - b.low, not b.hides
        elif name in ("mulf", "divf"):
            ends = (b.low, b.high) if name == "mulf" else (1 / b.high, 1 / b.low)
            corners = [x * y for x in (a.low, a.high) for y in ends]
            low, high, possible = min(corners), max(corners), not b.hides and (b.low > 0 or not a.hides)
        else:
            of = {"addf": lambda x, y: x + y, "maximumf": max, "minimumf": min}[name]
            low, high, possible = of(a.low, b.low), of(a.high, b.high), True
            hides = a.hides and b.hides if name == "maximumf" else hides
        if not possible:
            raise Rejected(f"{name} of -inf")
        scaled = hides and (a.scaled or b.scaled or name in ("mulf", "divf") and b.low < b.high)
        return self.emit(f"arith.{name} {a.name}, {b.name} : f32", "f32", low, high, hides, scaled=scaled)

    def unary(self, name, a):
        if a.scaled or (a.hides and name in ("absf", "negf")):
            raise Rejected(f"{name} of -inf")
        if name == "tanh":
            flags = " fastmath<afn>" if self.r.chance(0.1) else ""
            return self.emit(f"math.tanh {a.name}{flags} : f32", "f32", -1 if a.hides else math.tanh(a.low), math.tanh(a.high))
        if name in ("exp", "exp2"):
            base = math.e if name == "exp" else 2.0
            return self.emit(f"math.{name} {a.name} : f32", "f32", 0 if a.hides else base**a.low, base**a.high)
        if name == "negf":
            return self.emit(f"arith.negf {a.name} : f32", "f32", -a.high, -a.low)
        low = 0.0 if a.low < 0 < a.high else min(abs(a.low), abs(a.high))
        return self.emit(f"math.absf {a.name} : f32", "f32", low, a.most)

    def select(self, condition, a, b):
        return self.emit(f"arith.select {condition.name}, {a.name}, {b.name} : f32", "f32", min(a.low, b.low), max(a.high, b.high),
                         a.hides or b.hides, scaled=a.scaled or b.scaled)

    def cast(self, name, a, kind):
        return self.emit(f"arith.{name} {a.name} : {a.kind} to {kind}", kind, a.low, a.high, counts=False)

    def whole(self, name, a, b):
        """Of two integers of one type, by which the bounds are known."""
        if name == "addi":
            low, high = a.low + b.low, a.high + b.high
        elif name == "subi":
            low, high = a.low - b.high, a.high - b.low
        elif name in ("maxsi", "minsi"):
            of = max if name == "maxsi" else min
            low, high = of(a.low, b.low), of(a.high, b.high)
        else:  # by a positive constant: divsi, floordivsi, remsi, remui, andi, xori, muli
            size = max(a.most, b.most, 1) * (b.high if name == "muli" else 2)
            low, high = -size, size
        return self.emit(f"arith.{name} {a.name}, {b.name} : {a.kind}", a.kind, low, high)

    def as_float(self, a):
        """An integer as a float of a few units."""
        a = a if a.kind == "i32" else self.cast("index_cast", a, "i32")
        x = self.cast("sitofp", a, "f32")
        factor = self.r.pick((1, -1)) * 2.0 ** (self.r.between(0, 3) - math.ceil(math.log2(max(a.most, 1))))
        return self.binary("mulf", x, self.constant(factor))

    def limit(self, x, most):
        if x.most <= most:
            return x
        if self.r.chance(0.5) and not x.hides:
            return self.unary("tanh", x)
        return self.binary("mulf", x, self.constant(2.0 ** math.floor(math.log2(most / x.most))))

    def positive(self, y):
        """At least 1 / 8."""
        way = self.r.between(0, 3)
        if way == 0 and self.reads > 0:
            return self.scalar("f32")
        if way == 1 and not y.hides:
            return self.unary("exp", self.limit(y, 2))
        if way == 2 and not y.hides:
            return self.binary("addf", self.unary("absf", self.limit(y, 8)), self.constant(0.5))
        return self.binary("addf", self.unary("tanh", y), self.constant(self.r.pick((1.25, 2.0))))

    # What is read.

    def operand(self, element, rank):
        """A new operand's name."""
        name = f"%x{len(self.extras)}"
        self.extras.append(Operand(name[1:], f"tensor<{'?x' * rank}{element}>" if rank else element, element, rank, element != "i32"))
        self.reads -= 1
        return name

    def scalar(self, element):
        name = self.operand(element, 0)
        return Value(name, element, *((0.5, NUMBER) if element == "f32" else (0, 100)))

    def extract(self, element, indices, name=None):
        """A read, of a new operand or another of it."""
        name = name or self.operand(element, len(indices))
        kind = f"tensor<{'?x' * len(indices)}{element}>"
        text = f"tensor.extract {name}[{', '.join(x.name for x in indices)}] : {kind}"
        if element == "i32":
            return self.emit(text, "i32", 0, 12, counts=False)
        x = self.emit(text, element, -NUMBER, NUMBER, counts=False)
        return self.cast("extf", x, "f32") if element != "f32" else x

    def places(self):
        return [self.at[letter] for letter in self.r.pick(PLACES)]

    def ids(self):
        """An i32 of a key or of a query, or of one less than of the other."""
        which = self.r.between(0, 3)
        if which < 2:
            return self.extract("i32", [self.at["b"], self.at["ij"[which]]])
        name = self.operand("i32", 2)
        a, b = (self.extract("i32", [self.at["b"], self.at[x]], name) for x in self.r.pick(("ij", "ji")))
        return self.whole("subi", a, b)

    def distance(self):
        ends = [self.at["j"], self.at["i"]]
        return self.whole("subi", *(ends if self.r.chance(0.7) else ends[::-1]))

    def index(self):
        """Of a table: what the program computes."""
        r = self.r
        way = r.between(0, 11)
        if way < 4:
            x = self.distance()
            if r.chance(0.2):
                x = self.whole(r.pick(("maxsi", "minsi")), x, self.constant(r.pick(INTEGERS), "index"))
            return self.whole("addi", x, self.constant(r.pick((0, 3, 7, 20, 64)), "index")) if r.chance(0.8) else x
        if way < 7 and self.reads > 0:
            x = self.ids() if r.chance(0.85) else self.scalar("i32")
            if r.chance(0.4):
                x = self.whole("addi", x, self.constant(r.pick((1, 5)), "i32"))
            return self.cast("index_cast", x, "index")
        if way == 7:
            return self.constant(r.between(0, 5), "index")
        if way < 10:
            return self.place()
        return self.whole(r.pick(("divsi", "floordivsi", "remsi", "remui", "andi", "divui")), self.at[r.pick("hijj")],
                          self.constant(r.pick((1, 2, 7, 16)), "index"))

    def place(self):
        """An index that each score has of its own, read or computed."""
        r = self.r
        if r.chance(0.6) and self.reads > 0:
            read = self.extract("i32", [self.at[letter] for letter in r.pick(("bij", "hij", "ij", "bji"))])
            return self.cast("index_cast", read, "index")
        row = self.whole("remui", self.at["i"], self.constant(r.pick((3, 7)), "index"))
        return self.whole(r.pick(("xori", "muli", "addi")), row, self.at["j"])

    def entry(self):
        """A table's entry at such a place, with or without a factor."""
        r = self.r
        first = [self.at[letter] for letter in r.pick(("", "h", "h", "b", "bh"))]
        y = self.extract(r.pick(("f32", "f32", "bf16", "f16")), first + [self.place()])
        if r.chance(0.4):
            y = self.binary("mulf", y, self.extract("f32", [self.at["h"]]) if self.reads > 0 else self.constant(r.pick(FLOATS)))
        return y

    def reading(self):
        """A float that is read, or that was."""
        r = self.r
        if self.reads <= 0 or (self.known and r.chance(0.1)):
            return r.pick(self.known) if self.known else self.constant(r.pick(FLOATS))
        if r.chance(0.08):
            x = self.scalar("f32")
        elif r.chance(0.1):
            return self.as_float(self.scalar("i32") if r.chance(0.3) else self.extract("i32", self.places()))
        else:
            element = r.pick(("f32", "f32", "bf16", "f16"))
            if r.chance(0.4):  # a table
                first = [self.at[letter] for letter in r.pick(("", "h", "h", "h", "bh", "i", "b"))]
                indices = first + [self.index()]
                if r.chance(0.15) and len(indices) < 4:
                    indices.insert(r.between(0, len(indices)), self.index())
            else:
                indices = self.places()
            name = None
            same = [x for x in self.extras if x.element == element and x.rank == len(indices)]
            if same and (r.chance(0.3) or self.reads <= 0):
                name = "%" + r.pick(same).name
            x = self.extract(element, indices, name)
        self.known.append(x)
        return x

    # Conditions, of coordinates and of what is read: a score close to a threshold would hang on rounding.

    def condition(self, depth=1):
        r = self.r
        if depth and r.chance(0.25):
            a, b = self.condition(0), self.condition(0)
            return self.emit(f"arith.{r.pick(('andi', 'ori', 'xori'))} {a.name}, {b.name} : i1", "i1")
        if self.reads > 0 and r.chance(0.5):
            return self.read_condition()
        letter = r.pick("hiijjdddd")
        x = self.distance() if letter == "d" else self.at[letter]
        constants = (0, 1) if letter == "h" else [n for n in INTEGERS if n >= 0 or letter == "d"]
        if r.chance(0.25):
            x = self.whole(r.pick(("remsi", "andi", "divsi", "floordivsi", "xori", "muli")), x, self.constant(r.pick((2, 3, 8)), "index"))
            constants = (0, 1, 2)
        return self.compare(x, self.constant(r.pick(constants), "index"))

    def read_condition(self):
        r = self.r
        way = r.between(0, 5)
        if way == 0:  # documents
            name = self.operand("i32", 2)
            a, b = (self.extract("i32", [self.at["b"], self.at[x]], name) for x in "ij")
            return self.compare(a, b, r.pick(("eq", "eq", "ne", "sle")))
        if way == 1:  # a window
            return self.compare(self.cast("index_cast", self.distance(), "i32"), self.scalar("i32"))
        if way == 2:  # lengths
            length = self.extract("i32", [self.at["b"]] if r.chance(0.7) else [self.at["b"], self.at["h"]])
            length = self.whole("muli", length, self.constant(r.pick((16, 64)), "i32"))
            length = self.whole("maxsi", length, self.constant(r.pick((0, 8, 40)), "i32"))
            return self.compare(self.cast("index_cast", self.at["j"], "i32"), length, r.pick(("slt", "ult", "sge")))
        if way == 3:
            return self.compare(self.extract("i32", self.places()), self.constant(r.between(0, 2), "i32"))
        predicate = r.pick(("olt", "ogt", "ole", "une", "ugt", "uge"))
        return self.emit(f"arith.cmpf {predicate}, {self.reading().name}, {self.constant(r.pick(FLOATS)).name} : f32", "i1")

    def compare(self, a, b, predicate=None):
        predicate = predicate or self.r.pick(("slt", "sle", "sgt", "sge", "ne", "ult", "uge", "sle", "sge"))
        return self.emit(f"arith.cmpi {predicate}, {a.name}, {b.name} : {a.kind}", "i1")

    # Steps: from a float to a float.

    def beside(self):
        """A float beside the one that grows."""
        r = self.r
        if r.chance(0.15):
            return self.constant(r.pick(FLOATS))
        y = self.reading() if r.chance(0.8) else self.as_float(self.distance() if r.chance(0.6) else self.at[r.pick("bhij")])
        way = r.between(0, 9)
        if way == 0:
            y = self.binary("mulf", y, self.as_float(self.distance()))
        elif way == 1:
            y = self.binary("mulf", y, self.reading())
        elif way == 2:
            y = self.unary(r.pick(("exp", "exp2")), self.limit(y, 3))
        elif way == 3:
            y = self.unary(r.pick(("tanh", "absf", "negf")), y)
        elif way == 4:
            y = self.select(self.condition(0), *self.either_way(y, self.constant(r.pick(FLOATS))))
        elif way == 5:
            y = self.binary("divf", y, self.positive(self.reading()))
        return y

    def either_way(self, a, b):
        return (a, b) if self.r.chance(0.5) else (b, a)

    def by_score(self, x):
        """What a table has at a score, whose gradient hangs on a rounding."""
        if x.hides:
            raise Rejected("an index of -inf")
        y = self.binary("mulf", self.limit(x, 20), self.constant(self.r.pick((0.5, 1.0, 2.0))))
        y = self.cast("index_cast", self.emit(f"arith.fptosi {y.name} : f32 to i32", "i32"), "index")
        first = [self.at["h"]] if self.r.chance(0.5) else []
        y = self.extract("f32", first + [self.whole("addi", y, self.constant(20, "index"))])
        self.extras[-1].smooth = False
        return self.binary("addf", x, y)

    def term(self, x):
        a, b = self.either_way(x, self.beside())
        return self.binary("subf" if self.r.chance(0.3) and not b.hides else "addf", a, b)

    def factor(self, x):
        y = self.beside()
        y = self.positive(y) if x.hides else self.limit(y, 4)
        return self.binary("mulf", *(self.either_way(x, y) if not x.hides else (x, y)))

    def quotient(self, x):
        return self.binary("divf", x, self.positive(self.beside()))

    def cap(self, x):
        c = self.scalar("f32") if self.reads > 0 and self.r.chance(0.5) else self.constant(self.r.pick((5.0, 10.0, 30.0)))
        return self.binary("mulf", c, self.unary("tanh", self.binary("divf", x, c)))

    def curve(self, x):
        name = self.r.pick(("exp", "exp2", "tanh", "absf", "negf"))
        return self.unary(name, self.limit(x, 4) if name != "absf" else x)

    def extreme(self, x):
        return self.binary(self.r.pick(("maximumf", "minimumf")), *self.either_way(x, self.beside()))

    def choose(self, x):
        return self.select(self.condition(), *self.either_way(x, self.beside()))

    def hide(self, x):
        return self.select(self.condition(0), *self.either_way(x, self.constant(-math.inf)))

    def hide_by_term(self, x):
        y = self.beside() if self.r.chance(0.5) else self.constant(0.0)
        return self.binary("addf", x, self.select(self.condition(0), *self.either_way(y, self.constant(-math.inf))))

    def guarded(self, x):
        """A quotient that has no value where it is not taken."""
        if x.hides:
            raise Rejected("a quotient of -inf by what may be negative")
        n = self.ids() if self.reads > 0 else self.cast("index_cast", self.distance(), "i32")
        quotient = self.emit(f"arith.divf {x.name}, {self.cast('sitofp', n, 'f32').name} : f32", "f32", -x.most, x.most)
        return self.select(self.compare(n, self.constant(0, "i32"), "ne"), quotient, self.beside())

    def guarded_power(self, x):
        """A power that is infinite where it is not taken, and 2^-40 or more where it is: f32 flushes gradients below 2^-126."""
        d = self.cast("index_cast", self.distance(), "i32")
        y = self.binary("mulf", self.cast("sitofp", d, "f32"), self.positive(self.reading()))
        y = self.binary("maximumf", y, self.constant(-27.0))
        y = self.emit(f"math.exp {y.name} : f32", "f32", 0, 1)
        y = self.select(self.compare(d, self.constant(0, "i32"), "sle"), y, self.constant(self.r.pick(FLOATS)))
        return self.binary("addf", x, y)

    def bits(self, x):
        """The sign of a read taken or flipped, which has no derivative."""
        y = self.emit(f"arith.bitcast {self.reading().name} : f32 to i32", "i32")
        name, mask = self.r.pick((("andi", 0x7FFFFFFF), ("xori", -(2**31))))
        y = self.emit(f"arith.{name} {y.name}, {self.constant(mask, 'i32').name} : i32", "i32")
        return self.binary("addf", x, self.emit(f"arith.bitcast {y.name} : i32 to f32", "f32", -NUMBER, NUMBER))

    STEPS = 4 * (term,) + 3 * (factor,) + 2 * (quotient, cap, choose) + (curve, extreme, hide, hide_by_term, guarded, guarded_power)

    def grow(self, x, wanted, most):
        """Steps until there are `wanted` operations; one that would make more than `most` is undone."""
        for _ in range(30):
            if self.operations >= wanted and self.reads <= 0:
                break
            state = self.state()
            try:
                step = self.r.pick(Builder.STEPS)
                if self.r.chance(0.03):
                    step = self.r.pick((Builder.bits, Builder.by_score))
                y = self.limit(step(self, x), 100)
                if self.operations > most:
                    raise Rejected("too long")
                x = y
            except Rejected:
                self.restore(state)
        return x


def draw_program(random):
    """The text of a region, and the operands that it reads."""
    while True:
        builder = Builder(random, random.pick((0, 1, 1, 2, 2, 2, 3, 3, 3)))
        adds = random.chance(0.3)  # one value to the score, and nothing else
        if adds:
            value = builder.entry() if builder.reads > 1 and random.chance(0.5) else builder.beside()
            result = builder.binary("addf", *builder.either_way(builder.score, value))
        else:
            result = builder.grow(builder.score, random.between(2, 14), 14)
        if adds or builder.operations >= 2:
            return "\n".join(f"        {line}" for line in builder.lines + [f"fa2.yield {result.name} : f32"]), builder.extras
