"""The ladder: every operator of tests/cases on every rung — one test an operator, which goes over its cases.

The dearest rungs take a sample of the cases and operators; the others climb at night. Values and gradients are
evaluated by NumPy, as a user's first calls are, or compiled where the evaluator lacks a primitive; a rung asks that
XLA computes the same. With `--whole-ladder` all cases climb, and are compiled. One rung alone is climbed with
`--rung NAME`.
"""

import importlib
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import Tracer

import lowering
from lowering.host.evaluator import as_numpy, evaluator_of
from lowering.host.open_sizes import OpenTraces
from lowering.host.primitives import COMPILED
from lowering.verify.gradient_check import witness
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.attributes import FGradient
from symjax_nnvm.ir.op import Op
from tests.cases import Case
from tests.support.comparison import assert_close
from tests.support.traced import Traced, equations
from tests.support.walk import CASES, KEY, RUNGS, Part, Rung, Walk, climb, every, first, part_of, rung

for _module in (
    *("onnx.test_cases", "onnx.test_from_onnx_cases", "check.test_declarations", "lowering.api.test_open_sizes"),
    *("lowering.core.test_workspaces", "ops.test_empty_axes", "ops.test_ends_of_the_range", "ops.test_keys"),
    *("ops.test_parameter_bounds", "ops.test_random_parameters", "ops.test_rules_at_random"),
):
    importlib.import_module(f"tests.{_module}")  # it adds its rungs


@pytest.mark.quick
@pytest.mark.slow("climbs the ladder")
@pytest.mark.nightly("climbs what the usual run leaves out", but_one_in=1)
@pytest.mark.filterwarnings("ignore::symjax_nnvm.NarrowedDtypeWarning")
@pytest.mark.parametrize("op", CASES)
def test_operator(op: str, request: pytest.FixtureRequest):
    options = request.config.option
    seconds = climb(op, part_of(options.markexpr), only=options.rung, is_whole=options.whole_ladder)
    request.node.user_properties.extend((f"rung {name}", spent) for name, spent in seconds.items())


def has_gradient(case: Case) -> bool:
    chosen = [t for t in case.inputs if t.dtype.startswith("float")] if case.wrt is None else case.wrt
    return bool(chosen) and Op.get(case.op) in FGradient


def proven(case: Case) -> bool:
    return has_gradient(case) and not case.not_derivative


def one(case: Case) -> str:
    """One case of each operator is enough where what a rung can reveal hangs on the rule, not on further shapes and
    dtypes: it asks for values that it only has outside jit, maps over the wrong axis, has no second derivative."""
    return case.op


def is_compared(case: Case) -> bool:
    """Whether its gradient is compared with MXNet's."""
    return has_gradient(case) and case.is_train and not case.no_mxnet


@rung(every(), quick=True)
def json_round_trip(walk: Walk):
    text = walk.symbol.tojson()
    loaded = type(walk.symbol)(sym.load_json(text).outputs)
    assert loaded.tojson() == text
    assert loaded.debug_str() == walk.symbol.debug_str()


@rung(every(is_compared))
def gradient_equals_mxnet(walk: Walk):
    _, grads, _ = walk.differentiated
    for name in walk.names:
        assert_close(grads[name], walk.golden[f"grad{name.removeprefix('in')}"], walk.case.rtol, f"gradient of {name}")


@rung(every(lambda case: not case.no_mxnet), quick=True)
def value_equals_mxnet(walk: Walk):
    outputs, new_aux = walk.values
    for i, output in enumerate(outputs):
        expected = walk.golden[f"out{i}"]
        assert_close(output, expected, walk.case.rtol, f"output {i}")
        if walk.is_wide or expected.dtype.itemsize < 8:
            assert np.dtype(output.dtype) == expected.dtype
    for name, value in new_aux.items():
        assert_close(value, walk.golden[f"aux{name.removeprefix('in')}"], walk.case.rtol, f"auxiliary state {name}")


def alone(case: Case) -> bool:
    """Whether nothing else proves its gradient."""
    return proven(case) and not is_compared(case)


@rung(first(alone))
def gradient_equals_vjp_and_finite_differences(walk: Walk):
    """Finite differences prove JAX's derivative of the operator's rule, vjp ours of each case."""
    lowering.check_gradients(walk.symbol, *walk.given, wrt=walk.names, is_train=walk.case.is_train)


@rung(lambda cases: every(alone)(cases)[1:])
def gradient_equals_vjp(walk: Walk):
    args = (walk.symbol, *walk.given)
    lowering.check_gradients(*args, wrt=walk.names, is_train=walk.case.is_train, finite_differences=False)


@rung(every(proven), sampled=one, one_in=12)
def every_gradient_equals_vjp_and_finite_differences(walk: Walk):
    gradient_equals_vjp_and_finite_differences(walk)


@rung(every(has_gradient))
def gradient_has_the_arguments_shape_and_dtype_and_asks_jax_for_none(walk: Walk):
    _, grads, _ = walk.gradient().result
    for name in walk.names:
        argument = walk.given[0][name]
        assert grads[name].shape == argument.shape
        assert np.dtype(grads[name].dtype) == jax.dtypes.canonicalize_dtype(argument.dtype)


@rung(every(), quick=True)
def inference_agrees_with_the_lowered_result(walk: Walk):
    shapes, dtypes = walk.inferred
    with jax.enable_x64(walk.is_wide or any(dtype.itemsize == 8 for dtype in dtypes)):
        outputs, new_aux = walk.traced
    assert [tuple(output.shape) for output in outputs] == shapes
    assert [np.dtype(output.dtype) for output in outputs] == dtypes
    assert {name: value.shape for name, value in new_aux.items()} == {
        n: value.shape for n, value in walk.given[1].items()
    }


@rung(every(lambda case: proven(case) and case.smooth), sampled=one, one_in=12)
def second_order_gradient_equals_vjp_of_grad(walk: Walk):
    case, symbol, names = walk.case, walk.symbol, walk.names
    args, aux, _ = walk.given
    heads = [sym.Variable(f"head{i}") for i in range(len(symbol))]
    gradient = symbol.gradient(names, head_grads=heads)
    with jax.enable_x64(True):
        wide = {name: np.asarray(v, np.float64) if v.dtype.kind == "f" else v for name, v in args.items()}
        wide_aux = {name: np.asarray(value, np.float64) for name, value in aux.items()}
        outputs, _ = jax.eval_shape(lowering.to_jax(symbol, is_train=case.is_train), wide, wide_aux, KEY)
        rng = case.rng("second")
        head_values = [np.asarray(rng.uniform(-1, 1, output.shape)) for output in outputs]
        directions = [np.asarray(rng.uniform(-1, 1, wide[name].shape)) for name in names]
        given = {f"head{i}": value for i, value in enumerate(head_values)}
        known = [n for n in gradient.list_arguments() if n in given or n in wide]
        second_wrt = [name for name in names if name in known]
        phi = witness(symbol, head_values, is_train=case.is_train)

        def inner(chosen):
            grads = jax.grad(lambda c: phi({**wide, **c}, wide_aux, KEY))(chosen)
            return sum(jnp.sum(grads[name] * d) for name, d in zip(names, directions, strict=True))

        program = lowering.grad_fn(gradient, second_wrt, is_train=case.is_train)
        first_aux = {name: wide_aux[name] for name in gradient.list_auxiliary_states()}

        def both(chosen):
            first_args = {name: {**wide, **given, **chosen}[name] for name in known}
            return program(first_args, first_aux, KEY, directions)[1], jax.grad(inner)(chosen)

        chosen = {name: wide[name] for name in names}
        second, expected = Traced(both, chosen).evaluated(chosen)
        for name in names:
            ours = np.asarray(second[name]) if name in second else np.zeros_like(wide[name])
            # Of terms of order 1 that cancel, the rounding is left.
            ours = np.where(abs(ours - np.asarray(expected[name])) < 1e-14, expected[name], ours)
            assert_close(ours, expected[name], 1e-9, f"second-order gradient of {name}")


@rung(every(), sampled=one, one_in=2)
def jitted_equals_unjitted(walk: Walk):
    """Outside jit a rule has arrays with values. One that makes the same equations of them as of what JAX traces
    computes the same; others are run, as are graphs, which have arrays of their own."""
    if not walk.is_whole and walk.case.graph is None:
        function, arrays = walk.function, jax.device_put(walk.given)
        if equations(Traced(lambda: function(*arrays))) == equations(walk.forward()):
            return
    plain, plain_aux = walk.function(*walk.given)
    jitted, jitted_aux = walk.forward().compiled(*walk.given)
    for i, (a, b) in enumerate(zip(jitted, plain, strict=True)):
        assert a.dtype == b.dtype
        assert_close(a, b, max(walk.case.rtol, 1e-5), f"output {i}")
    for name in plain_aux:
        assert_close(jitted_aux[name], plain_aux[name], max(walk.case.rtol, 1e-5), f"auxiliary state {name}")


NOT_MAPPED = dict.fromkeys(
    ("_fused_convolution", "_fused_fully_connected"),
    "a pass alone makes it; oneDNN's call on a weight in blocks cannot be mapped",
)
"""Operators that `jax.vmap` does not map, and why."""


@rung(every(lambda case: bool(case.inputs) and case.op not in NOT_MAPPED), sampled=one, one_in=6)
def vmap_equals_a_loop(walk: Walk):
    function, (args, aux, key) = walk.function, walk.given
    flipped = {name: value[::-1].copy() if value.ndim else value for name, value in args.items()}
    stacked = {name: np.stack([args[name], flipped[name]]) for name in args}
    mapped, _ = Traced(jax.vmap(lambda a: function(a, aux, key)), stacked).evaluated(stacked)
    for k, element in enumerate((args, flipped)):
        outputs, _ = walk.forward().evaluated(element, aux, key)
        for i, output in enumerate(outputs):
            assert_close(mapped[i][k], output, max(walk.case.rtol, 1e-5), f"output {i} of element {k}")


@rung(every(), sampled=one, one_in=8)
def numpy_evaluates_what_xla_computes(walk: Walk):
    """Value, beside the gradient where there is one; a primitive that is left to the compiler has a reason in
    `COMPILED`."""
    case, args = walk.case, walk.given
    with jax.enable_x64(walk.is_wide):
        if has_gradient(case) and case.is_train:
            assert_evaluated(*walk.gradient_for(case.head_grads(walk.inferred[0])), case)
        else:
            assert_evaluated(walk.forward(), args, case)


def assert_evaluated(program: Traced, args: tuple[Any, ...], case: Case) -> None:
    """NumPy evaluates a function to what XLA computes, to the case's tolerance, or some primitive is left to XLA."""
    if program.evaluator is None:
        assert program.left in COMPILED
        return
    compiled = program.compiled(*args)
    results = jax.tree.leaves(program.evaluated(*args))
    for i, (result, expected) in enumerate(zip(results, jax.tree.leaves(compiled), strict=True)):
        assert np.asarray(result).dtype == expected.dtype
        # XLA rounds numbers of half precision after several operations, NumPy after each.
        is_half = jnp.issubdtype(expected.dtype, jnp.floating) and expected.dtype.itemsize == 2
        rounding = 2 * float(jnp.finfo(expected.dtype).eps) if is_half else 1e-6
        assert_close(result, expected, max(case.rtol, rounding), f"result {i}")


@rung(every(lambda case: sum(map(prod, (t.shape for t in case.inputs))) < 4096), sampled=one, one_in=12)
def open_sizes_compute_what_numbers_do(walk: Walk):
    """Value and gradient, each size left open in turn: what is traced so is evaluated for the size and for another."""
    case, (args, aux, key) = walk.case, walk.given
    functions: list[tuple[Any, tuple[Any, ...]]] = [(walk.function, (args, aux, key))]
    with jax.enable_x64(walk.is_wide):
        if has_gradient(case) and case.is_train:
            heads = case.head_grads(walk.inferred[0])
            functions.append((lowering.grad_fn(walk.symbol, walk.names), (args, aux, key, heads)))
        for function, given in functions:
            arrays, tree = jax.tree.flatten(given)
            for size in {size for array in arrays for size in np.shape(array) if size > 2}:
                in_one = lambda *leaves: function(*jax.tree.unflatten(tree, leaves))  # noqa: B023, E731
                others = [_resized(array, size, size + 5) for array in arrays]
                traces = OpenTraces(walk.symbol.outputs)
                for leaves in (arrays, others, arrays, others):
                    try:
                        expected = Traced(in_one, *leaves)
                    except (NNVMError, ValueError, TypeError):  # a parameter decides this size
                        break
                    program = traces.traced(in_one, leaves)
                    if program is None or expected.evaluator is None:
                        continue
                    with np.errstate(all="ignore"):
                        results = evaluator_of(program.closed)(*(as_numpy(jnp.asarray(leaf)) for leaf in leaves))
                    for i, (result, number) in enumerate(
                        zip(results, jax.tree.leaves(expected.evaluated(*leaves)), strict=True)
                    ):
                        assert_close(result, number, max(case.rtol, 1e-6), f"result {i}, size {size} left open")


def _resized(array: Any, old: int, new: int) -> Any:
    """An array whose axes of one size have another, of the same numbers."""
    if old not in np.shape(array):
        return array
    return np.resize(array, [new if size == old else size for size in np.shape(array)])


def test_equations_tell_a_rule_that_makes_another_thing_of_values():
    x = jnp.ones(3)

    def honest(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x + 1, x)

    def branching(x: jax.Array) -> jax.Array:
        return x + 1 if isinstance(x, Tracer) else x + 2

    for rule, alike in ((honest, True), (branching, False)):
        assert (equations(Traced(lambda rule=rule: rule(x))) == equations(Traced(rule, x))) == alike


def test_every_rung_of_an_operator_is_climbed_and_all_failures_are_told(monkeypatch: pytest.MonkeyPatch):
    climbed: list[str] = []

    def fails(walk: Walk) -> None:
        climbed.append(walk.case.id)
        assert walk.case.id == "", walk.case.id

    for name in ("one", "other"):
        monkeypatch.setitem(RUNGS, name, Rung(name, fails, every(), quick=True))
    with pytest.raises(BaseExceptionGroup) as failures:
        climb("sin", "quick", only="other")
    cases = [case.id for _, case in CASES["sin"]]
    assert climbed == cases[:1]
    with pytest.raises(BaseExceptionGroup) as failures:
        climb("sin", "usual")
    assert [(str(error).partition("\n")[0], *error.__notes__) for error in failures.value.exceptions] == [
        (case, f"-- in: {case}, rung {name}  (pytest tests/ops/test_ladder.py --rung {name} -k sin)")
        for case in cases
        for name in ("one", "other")
    ]


@pytest.mark.slow("goes through all cases")
def test_what_the_usual_run_leaves_out_is_climbed_at_night():
    for one_of_them in RUNGS.values():
        usual, nightly, everything = (_asked(one_of_them, part) for part in ("usual", "nightly", "all"))
        assert (usual | nightly, usual & nightly) == (everything, set())
        assert usual
        assert bool(nightly) == (one_of_them.one_in > 1 or one_of_them.sampled is not None)


def _asked(of: Rung, part: Part) -> set[str]:
    """The cases, or the operators, that a rung asks."""
    if of.cases is None:
        return {op for op in CASES if of.asks(op, part)}
    return {name for op, cases in CASES.items() for name in of.chosen(op, [case for _, case in cases], part)}
