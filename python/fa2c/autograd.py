"""Attention on PyTorch's tensors: launches and gradients."""

import math
import sys

import torch

from .choice import lengths_of
from .compiler import CompileError
from .kernels import kernels
from .operands import in_order, of_types, operand
from .specification import Specification

WHOLE = ":whole"  # behind a name in `grads`: the gradient is of the operand's own type
OVER = (":batch", ":heads")  # so it is with these, summed over entries of the batch, or heads
_MOST_SHAPES = 4096  # for which a plan keeps which kernels they take
_OF_16_BITS = (torch.bfloat16, torch.float16)


class Plan:
    """The kernels of one specification on one device; `ordinal` is None for the simulator."""

    def __init__(self, ordinal, specification: Specification, heads_first: bool, deterministic: bool):
        self.ordinal, self.specification = ordinal, specification
        self.heads_first, self.deterministic = heads_first, deterministic
        self.operands = specification.operands  # types by names
        # By the names of operands whose gradients are wanted, whether lse has one, and q's and v's shapes.
        self._backward = {}
        self._refused = set()  # names with forms of gradients that the compiler does not have
        self._seqlen, self._heads = (2, 1) if heads_first else (1, 2)

    def backward_for(self, grads, of_lse, q_shape, v_shape):
        """The kernels for tensors of such shapes that give the gradients of these operands, too, and take one of lse; None where one of them has
        no such form."""
        key = grads, of_lse, q_shape, v_shape
        program = self._backward.get(key)
        if program is None:
            gradient = self.specification.gradient(self.deterministic, grads, of_lse)
            try:
                lengths = lengths_of(q_shape, v_shape, self.heads_first)
                program = kernels.program_for(lengths, self.ordinal, gradient, self.heads_first)
            except CompileError as error:
                if any(":" in name for name in grads):
                    return None
                if self.specification.program is None:
                    raise
                raise NotImplementedError(
                    f"score_mod: its gradients are not supported ({error}); forward alone is (under torch.no_grad())"
                ) from None
            if len(self._backward) >= _MOST_SHAPES:
                self._backward.clear()
            self._backward[key] = program
        return program

    def lse_shape(self, q):
        return q.shape[0], q.shape[self._heads], q.shape[self._seqlen]

    def program_for(self, q_shape, v_shape):
        """The forward kernel for tensors of such shapes."""
        lengths = lengths_of(q_shape, v_shape, self.heads_first)
        return kernels.program_for(lengths, self.ordinal, self.specification, self.heads_first)

    def given(self, operands, device):
        """What the program reads, by its names."""
        return {name: operand(value, device, self.heads_first) for name, value in zip(self.operands, operands)}

    def forward(self, q, k, v, scale, out, operands=()):
        """(out, lse)"""
        lse = torch.empty(self.lse_shape(q), dtype=torch.float32, device=q.device)
        _launch(self.program_for(q.shape, v.shape), q, k, v, out, lse, scale, self.given(operands, q.device))
        return out, lse

    def backward(self, q, k, v, out, lse, dout, scale, operands=(), wanted=(), gradients=None, dlse=None):
        """[dq, dk, dv, and of each operand its gradient where it is wanted, else None]; `gradients` is where the first three go, if not to new
        memory that lies as q, k and v do. Without dlse, lse has no gradient."""
        dq, dk, dv = gradients or (torch.empty_like(q), torch.empty_like(k), torch.empty_like(v))
        given = self.given(operands, q.device) if operands else {}
        if scale is not None:
            given["scale"] = scale
        if dlse is not None:
            given["dlse"] = dlse.contiguous()
        of_lse = dlse is not None
        grads = self._grads(operands, wanted, q, k) if operands else ()
        program = self.backward_for(grads, of_lse, q.shape, v.shape)
        while program is None:
            self._refused.update(name for name in grads if ":" in name)
            grads = self._grads(operands, wanted, q, k)
            program = self.backward_for(grads, of_lse, q.shape, v.shape)
        sums = self._sums(operands, grads, self._scores(q, k), q.device) if operands else {}
        for name, value in sums.items():
            given[sys.intern(f"d{name}")] = in_order(value, self.heads_first)
        program(q=q, k=k, v=v, out=out, lse=lse, dout=dout, dq=dq, dk=dk, dv=dv, **given)
        return [dq, dk, dv, *(_summed_to(value, sums[name]) if name in sums else None for name, value in zip(self.operands, operands))]

    def _scores(self, q, k):
        return q.shape[0], q.shape[self._heads], q.shape[self._seqlen], k.shape[self._seqlen]

    def _grads(self, operands, wanted, q, k):
        """Names of the operands whose gradients are wanted; with WHOLE those of 16 bits that have a value for each of the scores [batch, heads,
        seqlen_q, seqlen_k]: they are stored as they are computed, not summed in f32. Those that entries or heads share are too where there are
        no more than two of them, or where the order of sums over heads is to be fixed, and summed afterwards; else behind their names stands
        what the kernels sum them over."""
        scores = self._scores(q, k)

        def forms(value):
            shape = tuple(value.shape)
            if value.dtype not in _OF_16_BITS or len(shape) != 4 or shape[2:] != scores[2:]:
                return []
            shared = [dim for dim in (0, 1) if shape[dim] == 1 and scores[dim] != 1]
            if any(shape[dim] != scores[dim] for dim in (0, 1) if dim not in shared):
                return []
            few = math.prod(scores[dim] for dim in shared) <= 2
            over = ["".join(OVER[dim] for dim in shared)] if shared and not (self.deterministic and 1 in shared) else []
            return [WHOLE] + over if few else over + ([WHOLE] if self.deterministic else [])

        def named(name, value):
            return next((name + form for form in forms(value) if name + form not in self._refused), name)

        return tuple(named(name, value) for name, value, is_wanted in zip(self.operands, operands, wanted) if is_wanted)

    def _sums(self, operands, grads, scores, device):
        """Memory for the gradients that `grads` names, by names: of those that are not summed in f32 in rows of a multiple of 8 elements."""
        sums, forms = {}, dict(name.partition(":")[::2] for name in grads)
        for name, value in zip(self.operands, operands):
            form = forms.get(name)
            if form:
                extents = [1 if over[1:] in form.split(":") else extent for over, extent in zip(OVER, scores)]
                columns = scores[3]
                rows = torch.empty((*extents, scores[2], -(-columns // 8) * 8), dtype=value.dtype, device=device)
                sums[name] = rows[..., :columns]
            elif form is not None:
                sums[name] = torch.empty(value.shape, dtype=torch.float32, device=device)
        return sums


def _summed_to(value, gradient):
    """A gradient in the shape and type of what it is of: where that is broadcast over entries or heads, their sum, in one order; PyTorch adds up
    in f32 and rounds once."""
    shared = [dim for dim, extent in enumerate(value.shape) if extent != gradient.shape[dim]]
    if shared:
        gradient = gradient.sum(shared, keepdim=True, dtype=value.dtype)
    return gradient.to(value.dtype)


def _launch(program, q, k, v, out, lse, scale, given):
    if given:
        if scale is not None:
            given["scale"] = scale
        program(q=q, k=k, v=v, out=out, lse=lse, **given)
    elif scale is None:
        program(q=q, k=k, v=v, out=out, lse=lse)
    else:
        program(q=q, k=k, v=v, out=out, lse=lse, scale=scale)


class Call:
    """A plan, and what each call of tensors with the same shapes, and q with the same strides, needs besides."""

    __slots__ = ("plan", "program", "_empty", "_out", "_lse", "_unwanted")

    def __init__(self, plan, q, v):
        self.plan, self.program = plan, plan.program_for(q.shape, v.shape)
        out = empty_of_width(q, v.shape[-1])
        lse = torch.empty(plan.lse_shape(q), dtype=torch.float32, device="meta")
        self._empty, self._unwanted = allocator(q.device), unwanted(lse.shape, q.device)
        self._out, self._lse = ((tuple(x.shape), x.stride(), x.dtype) for x in (out, lse))

    def forward(self, q, k, v, scale, wants_lse, operands):
        """(out, lse), out lying in memory as q does."""
        empty = self._empty
        out = empty(*self._out)
        lse = self._unwanted
        if wants_lse or lse is None:
            lse = empty(*self._lse)
        _launch(self.program, q, k, v, out, lse, scale, operands and self.plan.given(operands, q.device))
        return out, lse


_unwanted = {}  # by device: float32 tensors, the largest last
_MOST_UNWANTED = 16 << 20  # elements


def unwanted(shape, device):
    """Memory for an lse that nobody reads, which kernels write all the same; None for one that is too large to be kept.

    All calls and streams share it, and it is never given back: a graph may hold its address.
    """
    kept = _unwanted.setdefault(device, [torch.empty(0, device=device)])
    size = math.prod(shape)
    if size > _MOST_UNWANTED:
        return None
    if kept[-1].numel() < size:
        kept.append(torch.empty(max(size, 2 * kept[-1].numel()), device=device))
    return kept[-1][:size].view(shape)


def allocator(device):
    """A function of a shape, strides and dtype, to an empty tensor there: where it can be, that of torch.compile's code, which costs the
    host a third of what torch.empty_strided does and takes the current device."""
    direct = getattr(getattr(torch._C._dynamo, "guards", None), f"_empty_strided_{device.type}", None)
    if direct is not None and (device.type == "cpu" or torch.cuda.device_count() == 1):
        return direct
    current = getattr(torch._C, "_cuda_getDevice", None)

    def allocate(shape, strides, dtype):
        if direct is not None and current is not None and current() == device.index:
            return direct(shape, strides, dtype)
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    return allocate


def empty_of_width(q, width):
    """An empty tensor whose rows of `width` are packed, in q's order of the other dimensions in memory."""
    shape = (*q.shape[:-1], width)
    order = sorted(range(len(shape) - 1), key=lambda d: (q.stride(d), q.shape[d]))
    strides, step = [1] * len(shape), width
    for d in order:
        strides[d] = step
        step *= max(shape[d], 1)
    return torch.empty_strided(shape, strides, dtype=q.dtype, device=q.device)


class Attention(torch.autograd.Function):
    """out, or (out, lse), of a call; the last arguments are what its program reads."""

    @staticmethod
    def forward(ctx, q, k, v, call, scale, return_lse, *operands):
        out, lse = call.forward(q, k, v, scale, True, operands)
        if operands:
            tensors = [x for x in operands if isinstance(x, torch.Tensor)]
            ctx.numbers = [x for x in operands if not isinstance(x, torch.Tensor)]
            ctx.save_for_backward(q, k, v, out, lse, *tensors)
        else:
            ctx.save_for_backward(q, k, v, out, lse)
        ctx.plan, ctx.scale = call.plan, scale
        if return_lse:
            ctx.set_materialize_grads(False)
            return out, lse
        return out

    @staticmethod
    def backward(ctx, dout, dlse=None):
        wanted = ctx.needs_input_grad[6:]
        if dout is None and dlse is None:
            return (None,) * (6 + len(wanted))
        q, k, v, out, lse, *operands = ctx.saved_tensors
        if wanted:
            operands = of_types(ctx.plan.operands.values(), operands, ctx.numbers)
        dout = torch.zeros_like(out) if dout is None else readable(dout)
        gradients = ctx.plan.backward(q, k, v, out, lse, dout, ctx.scale, operands, wanted, dlse=dlse)
        if torch.is_grad_enabled():  # create_graph
            gradients = without_derivative(gradients)
        return (*gradients[:3], None, None, None, *gradients[3:])


# Function.apply without its look for torch.func's transforms, which callers have refused: 2.5 us a call.
apply = super(torch.autograd.Function, Attention).apply


def without_derivative(gradients):
    """Tensors whose own gradients raise, where silence would leave them out of a sum."""
    there = [gradient.detach().requires_grad_() for gradient in gradients if gradient is not None]
    say = torch._C._functions.DelayedError(b"fa2c.attention: second derivatives are not supported yet", len(there))
    said = iter(say(*there))
    return [None if gradient is None else next(said) for gradient in gradients]


def readable(dout):
    """Itself, or a copy where the kernels cannot read it as it lies: a gradient's layout is autograd's choice."""
    strides = dout.stride()
    if strides[-1] != 1 or any(stride % 8 for stride in strides[:-1]) or dout.data_ptr() % 16:
        return dout.contiguous()
    return dout
