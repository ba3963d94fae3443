"""Draws of the NumPy dialect: parameters are numbers or arrays, which are broadcast; one row for each distribution.

Most draws are a function of their parameters and of noise that does not depend on them. The noise is the second,
hidden output, and the gradient by the parameters is made of it (Kingma and Welling, "Auto-encoding variational Bayes").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.ops.elementwise.broadcast import broadcast_shapes

FloatType = Literal["float16", "float32", "float64"]

_CTX = "device of an imperative call; a graph's devices are chosen where it is run"
_SIZE = "the shape of the draws; None: that of the parameters"
A_DRAW = "a draw: the work depends on the generator"
NO_GRADIENT = "nothing flows through a draw, as in MXNet"

Formula = Callable[[NodeEntry, NodeEntry, NodeEntry, NodeEntry], NodeEntry]
"""(head gradient, draws, noise, the parameter) → the gradient of each draw by the parameter."""


class SizeParams(Params):
    """Parameters of all draws of the dialect."""

    size: Tuple | None = param(None, ge=0, doc=_SIZE)
    ctx: str = param("cpu", doc=_CTX)


class SizeTypeParams(SizeParams):
    """Parameters of draws that have a dtype to choose."""

    dtype: FloatType = param("float32", doc="the dtype of the draws")


def number_or_array(default: Any = ..., ge: float | None = None, gt: float | None = None) -> Any:
    """A parameter that is a number, or None where an input has it."""
    doc = "a number; None: an input has it"
    return param(doc=doc, ge=ge, gt=gt) if default is ... else param(default, doc=doc, ge=ge, gt=gt)


class LocationScale(Params):
    loc: float | None = number_or_array()
    scale: float | None = number_or_array(ge=0)


class Interval(Params):
    low: float | None = number_or_array()
    high: float | None = number_or_array()


class ShapeScale(Params):
    shape: float | None = number_or_array(gt=0)
    scale: float | None = number_or_array(gt=0)


class Scale(Params):
    scale: float | None = number_or_array(1.0, ge=0)


class Exponent(Params):
    a: float | None = number_or_array(None, gt=0)


class ExponentSizeParams(Params):
    """Parameters of `_npi_powerd`, which does not name a device."""

    a: float | None = number_or_array(None, gt=0)
    size: Tuple | None = param(None, ge=0, doc=_SIZE)


def _head(dy: NodeEntry, draws: NodeEntry, noise: NodeEntry, parameter: NodeEntry) -> NodeEntry:
    """d/dloc (loc + scale·noise) = 1."""
    return dy


def _times_noise(dy: NodeEntry, draws: NodeEntry, noise: NodeEntry, parameter: NodeEntry) -> NodeEntry:
    """d/dscale (loc + scale·noise) = noise."""
    return apply("elemwise_mul", dy, apply("_cast_like", noise, dy))


def _per_square(factor: NodeEntry, dy: NodeEntry, parameter: NodeEntry) -> NodeEntry:
    """-dy·factor / parameter²."""
    slope = apply("broadcast_div", factor, apply("square", apply("_cast_like", parameter, factor)))
    return apply("negative", apply("elemwise_mul", dy, slope))


def _by_pareto(dy: NodeEntry, draws: NodeEntry, noise: NodeEntry, a: NodeEntry) -> NodeEntry:
    """d/da (exp(noise / a) - 1) = -(draw + 1)·noise / a²."""
    return _per_square(apply("elemwise_mul", apply("_plus_scalar", draws, scalar=1.0), noise), dy, a)


def _by_weibull(dy: NodeEntry, draws: NodeEntry, noise: NodeEntry, a: NodeEntry) -> NodeEntry:
    """d/da noise^(1 / a) = -draw·log(noise) / a²."""
    return _per_square(apply("elemwise_mul", draws, apply("log", noise)), dy, a)


@dataclass(frozen=True)
class BroadcastDistribution:
    """A row: the operator, its parameters, which of them may be arrays and the gradient by each, if there is one.

    n: `size` draws for each element of the parameters, not in all.
    """

    name: str
    params: type
    arrays: Mapping[str, Formula | None]
    doc: str
    n: bool = False

    @property
    def has_noise(self) -> bool:
        """Whether the noise is an output, as the gradient needs it."""
        return None not in self.arrays.values()

    def inputs(self, p: Any) -> tuple[str, ...]:
        """The names of the inputs in use."""
        return tuple(f"input{i + 1}" for i, _ in enumerate(self.given_as_arrays(p)))

    def given_as_arrays(self, p: Any) -> list[str]:
        """The parameters that are inputs."""
        return [name for name in self.arrays if getattr(p, name) is None]


def _params(base: type, shared: type) -> type:
    """The parameters of a distribution, then those that all have."""
    return type(f"{base.__name__}{shared.__name__}", (shared, base), {})


_AFFINE: dict[str, Formula | None] = {"loc": _head, "scale": _times_noise}
_NORMAL = _params(LocationScale, SizeTypeParams)
_LOCATION_SCALE = _params(LocationScale, SizeParams)
_UNIFORM = _params(Interval, SizeTypeParams)
_SCALE = _params(Scale, SizeParams)
_EXPONENT = _params(Exponent, SizeParams)

DISTRIBUTIONS: tuple[BroadcastDistribution, ...] = (
    BroadcastDistribution("_npi_normal", _NORMAL, _AFFINE, "the normal distribution of mean loc and deviation scale"),
    BroadcastDistribution(
        "_npi_normal_n", _NORMAL, _AFFINE, "the normal distribution of mean loc and deviation scale", n=True
    ),
    BroadcastDistribution("_npi_gumbel", _LOCATION_SCALE, _AFFINE, "the Gumbel distribution of mode loc"),
    BroadcastDistribution("_npi_logistic", _LOCATION_SCALE, _AFFINE, "the logistic distribution of mean loc"),
    BroadcastDistribution(
        "_npi_exponential", _SCALE, {"scale": _times_noise}, "the exponential distribution of mean scale"
    ),
    BroadcastDistribution("_npi_rayleigh", _SCALE, {"scale": _times_noise}, "the Rayleigh distribution of mode scale"),
    BroadcastDistribution("_npi_pareto", _EXPONENT, {"a": _by_pareto}, "the Pareto II distribution of shape a"),
    BroadcastDistribution("_npi_weibull", _EXPONENT, {"a": _by_weibull}, "the Weibull distribution of shape a"),
    BroadcastDistribution(
        "_npi_powerd", ExponentSizeParams, {"a": None}, "the power distribution over [0, 1] of exponent a - 1"
    ),
    BroadcastDistribution(
        "_npi_uniform", _UNIFORM, {"low": None, "high": None}, "the uniform distribution over [low, high)"
    ),
    BroadcastDistribution(
        "_npi_uniform_n", _UNIFORM, {"low": None, "high": None}, "the uniform distribution over [low, high)", n=True
    ),
    BroadcastDistribution(
        "_npi_gamma",
        _params(ShapeScale, SizeTypeParams),
        {"shape": None, "scale": None},
        "the gamma distribution of a shape and a scale",
    ),
)


def broadcast_all(shapes: Shapes) -> Shape | None:
    """The shape that arrays are broadcast to; () of none, None where one is unknown. Raises InferenceError."""
    result: Shape | None = ()
    for shape in shapes:
        _, (result,) = broadcast_shapes(NoParams(), [result, shape], [None])
    return result


def drawn_shapes(row: BroadcastDistribution, p: Any, ins: Shapes, outs: Shapes):
    """Parameters (…), broadcast → size; or their shape without it; or, of the operators that end in _n, both."""
    parameters = broadcast_all(ins)
    if p.size is None or row.n:
        drawn = None if parameters is None else (*(p.size or ()), *parameters)
    else:
        drawn = p.size
        if parameters is not None and broadcast_all([parameters, drawn]) != drawn:
            raise InferenceError(
                "The parameters have more elements than there are draws",
                param="size",
                expected=f"a shape to which {format_shape(parameters)} is broadcast",
                got=drawn,
            )
    return ins, [drawn] * len(outs)


def _drawn_types(p: Any, ins: Types, outs: Types):
    """The dtype parameter, where there is one; noise in at least float32. Parameters have any dtype."""
    dtype = getattr(p, "dtype", "float32")
    return ins, [dtype, "float32" if dtype == "float16" else dtype][: len(outs)]


def _gradient(row: BroadcastDistribution, node: Node, ograds: Entries) -> list[NodeEntry | None]:
    """The gradient by each parameter that is an input, made of the noise, summed to its shape."""
    draws, noise = NodeEntry(node, 0, 0), NodeEntry(node, 1, 0)
    names = row.given_as_arrays(node.attrs.parsed)
    return [
        formula
        and apply("_cast_like", apply("_sum_like", formula(ograds[0], draws, noise, parameter), parameter), parameter)
        for formula, parameter in zip((row.arrays[name] for name in names), node.inputs, strict=True)
    ]


for _row in DISTRIBUTIONS:
    register_op(
        _row.name,
        params=_row.params,
        inputs=("input1", "input2")[: len(_row.arrays)],
        inputs_used=_row.inputs,
        outputs=("output0", "output1") if _row.has_noise else None,
        visible_outputs=1 if _row.has_noise else None,
        infer_shape=partial(drawn_shapes, _row),
        infer_type=_drawn_types,
        gradient=partial(_gradient, _row),
        out_grads_read=1 if _row.has_noise else None,
        not_derivative=None if _row.has_noise else NO_GRADIENT,
        flops=A_DRAW,
        draws="always",
        deviation="in a graph parameters in arrays that no distribution has give NaN; MXNet refuses them",
        doc=f"Draws from {_row.doc}.",
    )

# -- Bernoulli, choice, multinomial ------------------------------------------------------------------------------------


class BernoulliParams(Params):
    prob: float | None = param(ge=0, le=1, doc="the probability of 1; None: an input has it, or logit")
    logit: float | None = param(doc="the logarithm of the odds of 1; None: an input has it, or prob")
    size: Tuple | None = param(None, ge=0, doc=_SIZE)
    ctx: str = param("cpu", doc=_CTX)
    dtype: Literal["bool", "float16", "float32", "float64", "int32", "uint8"] = param(
        "float32", doc="the dtype of the draws"
    )
    is_logit: bool = param(doc="whether the input has logit, not prob")

    @property
    def number(self) -> float | None:
        """The parameter, where it is a number."""
        return self.logit if self.is_logit else self.prob


_BERNOULLI = BroadcastDistribution("_npi_bernoulli", BernoulliParams, {"number": None}, "")

register_op(
    "_npi_bernoulli",
    params=BernoulliParams,
    inputs=("input1",),
    inputs_used=_BERNOULLI.inputs,
    infer_shape=partial(drawn_shapes, _BERNOULLI),
    infer_type=lambda p, ins, outs: (ins, [p.dtype]),
    gradient=lambda node, ograds: [None] * len(node.inputs),
    not_derivative=NO_GRADIENT,
    flops=A_DRAW,
    draws="always",
    deviation="in a graph probabilities in arrays outside of [0, 1] count as the next bound; MXNet refuses them",
    doc="1 with a probability, else 0.",
)


class ChoiceParams(Params):
    a: int | None = param(
        ge=1, doc="how many there are to choose from; None: as many as the first axis of an input has"
    )
    size: Tuple | None = param(ge=0, doc="the shape of the draws; None: a number")
    ctx: str = param("cpu", doc=_CTX)
    replace: bool = param(True, doc="whether one may be chosen again")
    weighted: bool = param(False, doc="whether the last input has their probabilities")


def _choice_inputs(p: ChoiceParams) -> tuple[str, ...]:
    return ("input1", "input2")[: (p.a is None) + p.weighted]


def _choice_shapes(p: ChoiceParams, ins: Shapes, outs: Shapes):
    """An array (n, …), weights (n,) → size."""
    array = ins[0] if p.a is None else None
    if array == ():
        raise InferenceError("There is nothing to choose from", expected="at least one axis", got="()")
    weights = ins[-1] if p.weighted else None
    count = known(p.a, *(shape[0] for shape in (array, weights) if shape))
    drawn = prod(p.size or ())
    if not p.replace and count is not None and drawn > count:
        raise ParamError(
            "Cannot take a larger sample than population when 'replace=False'",
            param="size",
            expected=f"at most {count} draws",
            got=p.size,
        )
    inputs = [(count,)] * len(ins)
    return inputs if p.a is not None or array is None else [(count, *array[1:]), *inputs[1:]], [p.size or ()]


register_op(
    "_npi_choice",
    params=ChoiceParams,
    inputs=("input1", "input2"),
    inputs_used=_choice_inputs,
    infer_shape=_choice_shapes,
    infer_type=lambda p, ins, outs: (ins, ["int64"]),
    gradient=lambda node, ograds: [None] * len(node.inputs),
    not_derivative=NO_GRADIENT,
    flops=A_DRAW,
    draws="always",
    doc="Numbers below a, or below the length of an array, with given probabilities, or equal ones.",
)


class NumpyMultinomialParams(Params):
    n: int = param(ge=0, le=(1 << 31) - 1, doc="how many draws are counted")
    pvals: tuple[float, ...] | None = param(None, ge=0, le=1, doc="the probabilities; None: an input has them")
    size: Tuple | None = param(None, ge=0, doc="how many counts; None: one")

    def check(self) -> str | None:
        return "sum(pvals) > 1.0" if sum(self.pvals or ()) > 1 + 1e-12 else None


def _multinomial_shapes(p: NumpyMultinomialParams, ins: Shapes, outs: Shapes):
    """Probabilities (k,) → counts (size…, k)."""
    if p.pvals is not None:
        return (), [(*(p.size or ()), len(p.pvals))]
    count = ins[0][0] if ins[0] else None
    return [(count,)], [(*(p.size or ()), count)]


register_op(
    "_npi_multinomial",
    params=NumpyMultinomialParams,
    inputs=("a",),
    inputs_used=lambda p: () if p.pvals is not None else ("a",),
    infer_shape=_multinomial_shapes,
    infer_type=lambda p, ins, outs: (ins, ["int64"]),
    gradient=lambda node, ograds: [None] * len(node.inputs),
    not_derivative=NO_GRADIENT,
    flops=A_DRAW,
    workspace=lambda p, ins, outs: 8 * p.n * prod(p.size or ()) + 8 * (outs[0][-1] or 0),
    draws="always",
    doc="How often each of k classes comes up in n draws.",
)
