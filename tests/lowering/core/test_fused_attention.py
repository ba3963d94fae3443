"""Attention in half precision as cuDNN's kernel: which graphs are fused, what they compute, what is lowered.

No GPU is needed: the fused operator is computed on the CPU, and what is lowered for CUDA is read.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from benchmarks import networks
from lowering.api.explain import Explanation
from lowering.convolutions.backends import placed
from lowering.core.cache import Programs
from lowering.core.program import Program
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import LoweringError, SymbolValueError
from symjax_nnvm.pipeline import Options, Plan
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

HALVES = ("bfloat16", "float16")
ROWS, T, S, D = 6, 5, 7, 16  # three heads of two samples, odd lengths
q, k, v, mask, length = (sym.Variable(name) for name in ("q", "k", "v", "mask", "length"))
QKV = {"q": (ROWS, T, D), "k": (ROWS, S, D), "v": (ROWS, S, D)}
INTERLEAVED = {"q": (T, 2, 3 * 3 * D)}
ENCODER = {"q": (T, 2, 3 * D), "k": (S, 2, 3 * 2 * D)}


LENGTHS: dict[str, Any] = {"length": length, "use_length": True}


def weights(scores: sym.Symbol, **given: Any) -> sym.Symbol:
    return sym.Dropout(sym.softmax(scores, axis=-1, **given), p=0.1)


def scores() -> sym.Symbol:
    return sym.batch_dot(q, k, transpose_b=True) * D**-0.5


def by_matrices(scores: sym.Symbol, **given: Any) -> sym.Symbol:
    return sym.batch_dot(weights(scores, **given), v)


def hidden(scores: sym.Symbol, fill: float = -6e4) -> sym.Symbol:
    return sym.where(mask, scores, fill * sym.ones_like(scores))


def in_itself(add: sym.Symbol | None = None, **given: Any) -> sym.Symbol:
    """As BERT of GluonNLP has it, of lengths for each row."""
    made = sym.contrib.interleaved_matmul_selfatt_qk(q, heads=3)
    made = weights(made if add is None else sym.broadcast_add(made, add), **given)
    return sym.contrib.interleaved_matmul_selfatt_valatt(q, made, heads=3)


def _encoder(values: sym.Symbol = k, heads: int = 3) -> sym.Symbol:
    made = sym.softmax(sym.contrib.interleaved_matmul_encdec_qk(q, k, heads=3))
    return sym.contrib.interleaved_matmul_encdec_valatt(values, made, heads=heads)


def _transposed() -> sym.Symbol:
    turned = [sym.transpose(x, axes=(0, 2, 1)) for x in (q, k, v)]
    made = sym.batch_dot(turned[0], turned[1], transpose_a=True) / 4.0
    return sym.batch_dot(weights(made, temperature=2.0), turned[2], transpose_b=True)


def _reshaped() -> sym.Symbol:
    made = sym.Dropout(sym.reshape(weights(scores()), shape=(-4, 2, 3, 0, 0)), p=0.1)
    return sym.batch_dot(sym.reshape(made, shape=(-3, 0, 0)), v)


class Network(NamedTuple):
    build: Callable[[], sym.Symbol]
    shapes: dict[str, tuple[int, ...]]
    fused: int = 1


NETWORKS = {
    "two blocks": Network(lambda: networks.blocks(sym, 2, 32, 2, pre_norm=False, dropout=0.1), {"data": (2, T, 32)}, 2),
    "scaled": Network(lambda: by_matrices(scores()), QKV),
    "transposed operands, a temperature": Network(_transposed, QKV),
    "weights reshaped and back": Network(_reshaped, QKV),
    "a mask is added": Network(lambda: by_matrices(scores() + mask), QKV | {"mask": (ROWS, T, S)}),
    "a mask of keys is added": Network(
        lambda: by_matrices(sym.broadcast_add(mask, scores())), QKV | {"mask": (ROWS, 1, S)}
    ),
    "a mask chooses": Network(lambda: by_matrices(hidden(scores())), QKV | {"mask": (ROWS, T, S)}),
    "lengths": Network(lambda: by_matrices(scores(), **LENGTHS), QKV | {"length": (ROWS, T)}),
    "interleaved": Network(in_itself, INTERLEAVED),
    "interleaved, lengths": Network(lambda: in_itself(**LENGTHS), INTERLEAVED | {"length": (ROWS, T)}),
    "interleaved, a causal mask": Network(lambda: in_itself(mask), INTERLEAVED | {"mask": (1, T, T)}),
    "interleaved, a mask": Network(lambda: in_itself(mask), INTERLEAVED | {"mask": (ROWS, 1, T)}),
    "interleaved, of an encoder": Network(_encoder, ENCODER),
}


def arrays(net: sym.Symbol, shapes: dict[str, tuple[int, ...]], dtype: str) -> dict[str, np.ndarray]:
    """Values of all arguments: a mask hides keys, one row of each whole where it chooses; lengths begin at 0."""
    rng = np.random.default_rng(3)
    named = zip(net.list_arguments(), net.infer_shape(**shapes)[0], strict=True)
    given = {name: rng.normal(size=shape).astype(dtype) for name, shape in named}
    if "length" in given:
        given["length"] = (np.arange(given["length"].size) % (S + 1)).reshape(given["length"].shape).astype(np.int32)
    if "mask" in given:
        chooses = any(node.op is not None and node.op.name == "where" for node, *_ in net.get_internals().outputs)
        shown = rng.random(given["mask"].shape) < 0.6
        shown[..., 0] = True
        if chooses:
            shown[0] = False
        given["mask"] = shown.astype(dtype) if chooses else np.where(shown, 0, -1e4).astype(dtype)
    return given


def plan_of(net: sym.Symbol, given: dict[str, np.ndarray], **more: Any) -> Plan:
    shapes, dtypes = (tuple((n, f(a)) for n, a in given.items()) for f in (lambda a: a.shape, lambda a: str(a.dtype)))
    options = Options(**{"platform": "gpu", "attention": "cudnn", "shapes": shapes, "dtypes": dtypes, **more})
    return Programs(net).plan(options)


def fused_in(plan: Plan) -> int:
    return Explanation(plan, 0, 0, None).attentions


def computed(plan: Plan, given: dict[str, np.ndarray], platform: str = "cpu") -> np.ndarray:
    """The output of a plan's graph, by the rules of a platform, on the CPU."""
    program = Program(plan.graph, placed(Options(platform=platform)))
    return np.asarray(evaluated(lambda args: program.evaluate(args, {}, None)[0][0], given), np.float32)


@pytest.mark.slow("computes every network twice")
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("declared", [True, False], ids=["arguments in half precision", "compute_dtype"])
def test_the_fused_operator_computes_what_the_graph_does(half: str, declared: bool, monkeypatch: pytest.MonkeyPatch):
    """By its rule for the CPU, and by JAX's products for the arguments that the rule for GPUs gives cuDNN."""
    attention = jax.nn.dot_product_attention

    def by_products(*args: Any, implementation: str, **named: Any):
        assert implementation == "cudnn"
        return attention(*args, implementation="xla", **named)

    monkeypatch.setattr(jax.nn, "dot_product_attention", by_products)
    for name, network in NETWORKS.items():
        net = network.build()
        given = arrays(net, network.shapes, half if declared else "float32")
        more = {} if declared else {"compute_dtype": half}
        fused, plain = plan_of(net, given, **more), plan_of(net, given, attention=None, **more)
        assert (fused_in(fused), fused_in(plain)) == (network.fused, 0), name
        expected = computed(plain, given)
        for platform in ("cpu", "gpu"):
            assert_close(computed(fused, given, platform), expected, 4 * float(jnp.finfo(half).eps), name)


@pytest.mark.parametrize("half", HALVES)
def test_cudnn_is_called_in_the_program_for_cuda(half: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("jax._src.cudnn.fused_attention_stablehlo.check_cudnn_version", lambda: 91000)
    for name, network in NETWORKS.items():
        net = network.build()
        given = arrays(net, network.shapes, half)
        program = Program(plan_of(net, given).graph, placed(Options(platform="gpu")))
        traced = jax.jit(lambda args: program.evaluate(args, {}, None)[0]).trace(given)  # noqa: B023
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
        is_masked = bool({"mask", "length"} & given.keys())
        target = "__cudnn$fmhaScaleBiasSoftmax" if is_masked else "__cudnn$fmhaSoftmax"
        assert text.count(f"custom_call @{target}(") == network.fused, name


def test_without_cudnn_the_error_says_what_to_leave_out():
    net = NETWORKS["scaled"].build()
    given = arrays(net, QKV, "float16")
    program = Program(plan_of(net, given).graph, placed(Options(platform="gpu")))
    with pytest.raises(LoweringError, match="cuDNN is not detected.*Leave out attention"):
        jax.eval_shape(lambda args: program.evaluate(args, {}, None)[0], given)


def _read_twice() -> sym.Symbol:
    made = scores()
    return sym.Group([by_matrices(made), made])


LEFT: dict[str, tuple[Callable[[], sym.Symbol], dict[str, tuple[int, ...]]]] = {
    "scores that are an output": (_read_twice, QKV),
    "another axis": (lambda: sym.batch_dot(sym.softmax(scores(), axis=1), v), QKV),
    "no softmax": (lambda: sym.batch_dot(sym.log_softmax(scores()), v), QKV),
    "a dropout that always drops": (lambda: sym.batch_dot(sym.Dropout(sym.softmax(scores()), mode="always"), v), QKV),
    "a factor that is an array": (lambda: by_matrices(scores() * mask), QKV | {"mask": (ROWS, T, S)}),
    "a temperature of the mask too": (
        lambda: by_matrices(scores() + mask, temperature=2.0),
        QKV | {"mask": (ROWS, T, S)},
    ),
    "a choice that hides little": (lambda: by_matrices(hidden(scores(), -9.0)), QKV | {"mask": (ROWS, T, S)}),
    "a choice and lengths": (
        lambda: by_matrices(hidden(scores()), **LENGTHS),
        QKV | {"mask": (ROWS, T, S), "length": (ROWS, T)},
    ),
    "a choice of rows": (lambda: by_matrices(hidden(scores())), QKV | {"mask": (ROWS,)}),
    "weights that are transposed": (
        lambda: sym.batch_dot(weights(scores()), v, transpose_a=True),
        {"q": (ROWS, S, D), "k": (ROWS, S, D), "v": (ROWS, S, D)},
    ),
    "weights of another shape": (
        lambda: sym.batch_dot(sym.reshape(weights(scores()), shape=(0, S, T)), v),
        QKV | {"v": (ROWS, T, D)},
    ),
    "values of one head": (lambda: _encoder(v, 1), ENCODER | {"v": (S, ROWS, 2 * 3 * D)}),
    "scores by 0": (lambda: by_matrices(scores() / 0.0), QKV),
    "heads of 12": (lambda: by_matrices(scores()), {n: (*s[:2], 12) for n, s in QKV.items()}),
    "heads of 136": (lambda: by_matrices(scores()), {n: (*s[:2], 136) for n, s in QKV.items()}),
    "values of another size": (lambda: by_matrices(scores()), QKV | {"v": (ROWS, S, 8)}),
}


def test_other_graphs_stay_as_they_are():
    for name, (build, shapes) in LEFT.items():
        net = build()
        given = arrays(net, shapes, "float16")
        record = next(record for record in plan_of(net, given).records if record.name == "FuseAttention")
        assert record.ran, name
        assert record.after is record.before, name


def test_the_option_alone_changes_it_on_a_gpu_in_half_precision_at_inference():
    net = by_matrices(scores())
    half, single = arrays(net, QKV, "bfloat16"), arrays(net, QKV, "float32")
    assert fused_in(plan_of(net, half)) == 1
    assert fused_in(plan_of(net, single)) == 0
    others: list[dict[str, Any]] = [{"is_train": True}, {"wrt": ("q",)}, {"witness": True}, {"shapes": None}]
    for more in (*others, {"platform": "cpu"}, {"platform": "tpu"}, {"mesh": jax.make_mesh((1,), ("data",))}):
        assert fused_in(plan_of(net, half, **more)) == 0, more


def test_doors_take_the_option():
    net, (data,) = networks.blocks(sym, 1, 32, 2, pre_norm=False), (np.ones((2, T, 32), np.float32),)
    told = str(lowering.explain(net, platform="gpu", compute_dtype="float16", attention="cudnn", data=data.shape))
    assert "attention by cuDNN: 1" in told
    assert "attention by cuDNN" not in str(lowering.explain(net, data=data.shape))
    given = arrays(net, {"data": data.shape}, "float32")
    del given["data"]
    plain, asked = (lowering.Predictor(net, given, attention=name, effort="quick") for name in (None, "cudnn"))
    np.testing.assert_array_equal(asked(data=data)[0], plain(data=data)[0])
    with pytest.raises(SymbolValueError, match="'flash'.*cudnn"):
        lowering.Predictor(net, given, attention="flash")
