"""The ladder: every case of tests/cases on every rung — one parametrised test each.

The dearest rungs take a sample of the cases, unless pytest is given `--whole-ladder` (`SAMPLED_RUNGS` in conftest.py).
Values and gradients are computed by both ways that users have: the first case of each operator is compiled, and the
others are evaluated by NumPy, as first calls are, or compiled where the evaluator lacks a primitive; with
`--whole-ladder` all are compiled. A case's rungs trace its functions once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import Tracer

import lowering
from lowering.host.primitives import COMPILED
from lowering.verify.gradient_check import witness
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FGradient
from symjax_nnvm.ir.op import Op
from tests.cases import Case
from tests.onnx.not_run import NO_FORM, has_form, has_no_file, why_not_run
from tests.onnx.runtime import exported, run
from tests.support import ladder
from tests.support.comparison import assert_close
from tests.support.poison import poison
from tests.support.traced import Traced, equations

pytestmark = pytest.mark.filterwarnings("ignore::symjax_nnvm.NarrowedDtypeWarning")

CASES = ladder.all_cases()
KEY = jax.random.key(7)


def cases(keep=lambda case: True):
    """Parametrise a rung over the cases it applies to."""
    chosen = [pytest.param(family, case, id=case.id) for family, case in CASES if keep(case)]
    return pytest.mark.parametrize(("family", "case"), chosen)


def has_gradient(case: Case) -> bool:
    chosen = [t for t in case.inputs if t.dtype.startswith("float")] if case.wrt is None else case.wrt
    return bool(chosen) and Op.get(case.op) in FGradient


def proven(case: Case) -> bool:
    return has_gradient(case) and not case.not_derivative


def is_first(case: Case) -> bool:
    """Whether a case is the first of its operator, in training or out of it, of which MXNet has results."""
    return case.id in FIRST


_firsts: dict[tuple[str, bool, bool], str] = {}
FIRST = {_firsts.setdefault((case.op, case.is_train, bool(case.no_mxnet)), case.id) for _, case in CASES}


def is_wide(case: Case) -> bool:
    return any(tensor.dtype in ("float64", "int64") for tensor in case.inputs)


def forward(case: Case) -> Traced:
    """The case's function of (arguments, auxiliary states, key), traced once for all rungs that run it."""
    return _traced(
        case, "forward", lambda: Traced(lowering.to_jax(ladder.build(case), is_train=case.is_train), *given(case))
    )


def gradient(case: Case) -> Traced:
    """The case's function of (arguments, auxiliary states, key, head gradients of its outputs' dtypes), traced once
    while JAX has no autodiff."""

    def trace() -> Traced:
        symbol = ladder.build(case)
        outputs, _ = jax.eval_shape(lowering.to_jax(symbol, is_train=case.is_train), *given(case))
        with pytest.MonkeyPatch.context() as patch:
            poison(patch)
            function = lowering.grad_fn(symbol, ladder.wrt(case, symbol), is_train=case.is_train)
            return Traced(function, *given(case), outputs)

    return _traced(case, "gradient", trace)


def given(case: Case) -> tuple[Any, ...]:
    return *ladder.arrays(case, ladder.build(case)), KEY


def _traced(case: Case, what: str, trace: Callable[[], Traced]) -> Traced:
    if _last[:1] != [case.id]:
        _last[:] = [case.id]  # the rungs of a case run one after the other
        _programs.clear()
    key = what, jax.dtypes.canonicalize_dtype(np.float64)
    if key not in _programs:
        _programs[key] = trace()
    return _programs[key]


_last: list[str] = []
_programs: dict[tuple[str, np.dtype], Traced] = {}


@cases()
def test_inference_agrees_with_the_lowered_result(family: str, case: Case):
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    everything = args | aux
    shapes = symbol.infer_shape(**{name: value.shape for name, value in everything.items()})[1]
    dtypes = symbol.infer_type(**{name: value.dtype for name, value in everything.items()})[1]
    with jax.enable_x64(True):  # 64-bit dtypes are only themselves there
        outputs, new_aux = jax.eval_shape(lowering.to_jax(symbol, is_train=case.is_train), args, aux, KEY)
    assert [tuple(output.shape) for output in outputs] == shapes
    assert [np.dtype(output.dtype) for output in outputs] == [np.dtype(dtype) for dtype in dtypes]
    assert {name: value.shape for name, value in new_aux.items()} == {name: value.shape for name, value in aux.items()}


@cases()
def test_json_round_trip(family: str, case: Case):
    symbol = ladder.build(case)
    text = symbol.tojson()
    loaded = type(symbol)(sym.load_json(text).outputs)
    assert loaded.tojson() == text
    assert loaded.debug_str() == symbol.debug_str()


@cases(lambda case: not case.no_mxnet)
def test_value_equals_mxnet(family: str, case: Case, whole_ladder: bool):
    wide = is_wide(case)
    with jax.enable_x64(wide):
        program = forward(case)
        run = program.compiled if whole_ladder or is_first(case) else program.evaluated
        outputs, new_aux = run(*given(case))
    stored = ladder.golden(family, case)
    for i, output in enumerate(outputs):
        expected = stored[f"out{i}"]
        assert_close(output, expected, case.rtol, f"output {i}")
        if wide or expected.dtype.itemsize < 8:
            assert np.dtype(output.dtype) == expected.dtype
    for name, value in new_aux.items():
        assert_close(value, stored[f"aux{name.removeprefix('in')}"], case.rtol, f"auxiliary state {name}")


def only_ours(case: Case) -> bool:
    """Whether an ONNX file computes a case of which MXNet has no result; `tests/onnx/test_cases.py` has the others."""
    return bool(case.no_mxnet) and has_form(case) and not (has_no_file(case) or why_not_run(case) or case.id in NO_FORM)


@cases(only_ours)
def test_an_onnx_file_computes_the_same(family: str, case: Case):
    with jax.enable_x64(is_wide(case)):
        outputs, _ = forward(case).evaluated(*given(case))
    for i, (found, output) in enumerate(zip(run(*exported(case)), outputs, strict=True)):
        step = 2**-10 if found.dtype == np.float16 else 1e-5  # sums of another order may end on the next number
        assert_close(found, output, max(case.rtol, step), f"output {i}")


@cases(lambda case: has_gradient(case) and case.is_train and not case.no_mxnet)
def test_gradient_equals_mxnet(family: str, case: Case, whole_ladder: bool):
    symbol = ladder.build(case)
    stored = ladder.golden(family, case)
    args = *given(case), case.head_grads([stored[f"out{i}"].shape for i in range(len(symbol))])
    names = ladder.wrt(case, symbol)
    program = gradient(case)
    if not program.takes(*args):  # head gradients of another dtype than the outputs'
        program = Traced(lowering.grad_fn(symbol, names), *args)
    _, grads, _ = (program.compiled if whole_ladder or is_first(case) else program.evaluated)(*args)
    for name in names:
        assert_close(grads[name], stored[f"grad{name.removeprefix('in')}"], case.rtol, f"gradient of {name}")


@cases(proven)
def test_gradient_equals_vjp_and_finite_differences(family: str, case: Case):
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    lowering.check_gradients(symbol, args, aux, KEY, wrt=ladder.wrt(case, symbol), is_train=case.is_train)


@cases(has_gradient)
def test_gradient_has_the_arguments_shape_and_dtype_and_asks_jax_for_none(family: str, case: Case):
    args, _, _ = given(case)
    _, grads, _ = gradient(case).result
    for name in ladder.wrt(case, ladder.build(case)):
        assert grads[name].shape == args[name].shape
        assert np.dtype(grads[name].dtype) == jax.dtypes.canonicalize_dtype(args[name].dtype)


@cases(lambda case: proven(case) and case.smooth)
def test_second_order_gradient_equals_vjp_of_grad(family: str, case: Case):
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    names = ladder.wrt(case, symbol)
    heads = [sym.Variable(f"head{i}") for i in range(len(symbol))]
    first = symbol.gradient(names, head_grads=heads)
    with jax.enable_x64(True):
        wide = {
            name: jnp.asarray(v, jnp.float64) if v.dtype.kind == "f" else jnp.asarray(v) for name, v in args.items()
        }
        wide_aux = {name: jnp.asarray(value, jnp.float64) for name, value in aux.items()}
        outputs, _ = jax.eval_shape(lowering.to_jax(symbol, is_train=case.is_train), wide, wide_aux, KEY)
        rng = case.rng("second")
        head_values = [jnp.asarray(rng.uniform(-1, 1, output.shape)) for output in outputs]
        directions = [jnp.asarray(rng.uniform(-1, 1, wide[name].shape)) for name in names]
        given = {f"head{i}": value for i, value in enumerate(head_values)}
        known = [n for n in first.list_arguments() if n in given or n in wide]
        second_wrt = [name for name in names if name in known]
        phi = witness(symbol, head_values, is_train=case.is_train)

        def inner(chosen):
            grads = jax.grad(lambda c: phi({**wide, **c}, wide_aux, KEY))(chosen)
            return sum(jnp.sum(grads[name] * d) for name, d in zip(names, directions, strict=True))

        program = lowering.grad_fn(first, second_wrt, is_train=case.is_train)
        first_aux = {name: wide_aux[name] for name in first.list_auxiliary_states()}

        def both(chosen):
            first_args = {name: {**wide, **given, **chosen}[name] for name in known}
            return program(first_args, first_aux, KEY, directions)[1], jax.grad(inner)(chosen)

        chosen = {name: wide[name] for name in names}
        second, expected = Traced(both, chosen).evaluated(chosen)
        for name in names:
            ours = second.get(name, jnp.zeros_like(wide[name]))
            assert_close(ours, expected[name], 1e-9, f"second-order gradient of {name}")


@cases()
def test_jitted_equals_unjitted(family: str, case: Case, whole_ladder: bool):
    """Outside jit a rule has arrays with values. One that makes the same equations of them as of what JAX traces
    computes the same; others are run, as are graphs, which have arrays of their own."""
    function = lowering.to_jax(ladder.build(case), is_train=case.is_train)
    args, aux, key = jax.tree.map(jnp.asarray, given(case))
    if not whole_ladder and case.graph is None:
        with_values = Traced(lambda: function(args, aux, key))
        if equations(with_values) == equations(forward(case)):
            return
    plain, plain_aux = function(*given(case))
    jitted, jitted_aux = forward(case).compiled(*given(case))
    for i, (a, b) in enumerate(zip(jitted, plain, strict=True)):
        assert a.dtype == b.dtype
        assert_close(a, b, max(case.rtol, 1e-5), f"output {i}")
    for name in plain_aux:
        assert_close(jitted_aux[name], plain_aux[name], max(case.rtol, 1e-5), f"auxiliary state {name}")


@cases(lambda case: bool(case.inputs))
def test_vmap_equals_a_loop(family: str, case: Case):
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    function = lowering.to_jax(symbol, is_train=case.is_train)
    flipped = {name: value[::-1].copy() if value.ndim else value for name, value in args.items()}
    stacked = {name: np.stack([args[name], flipped[name]]) for name in args}
    mapped, _ = Traced(jax.vmap(lambda a: function(a, aux, KEY)), stacked).evaluated(stacked)
    for k, one in enumerate((args, flipped)):
        outputs, _ = forward(case).evaluated(one, aux, KEY)
        for i, output in enumerate(outputs):
            assert_close(mapped[i][k], output, max(case.rtol, 1e-5), f"output {i} of element {k}")


@cases()
def test_numpy_evaluates_what_xla_computes(family: str, case: Case):
    """Value and gradient; a primitive that is left to the compiler has a reason in `COMPILED`."""
    with jax.enable_x64(is_wide(case)):
        args = given(case)
        outputs, _ = assert_evaluated(forward(case), args, case)
        if has_gradient(case) and case.is_train:
            args = *args, case.head_grads([output.shape for output in outputs])
            symbol = ladder.build(case)
            assert_evaluated(Traced(lowering.grad_fn(symbol, ladder.wrt(case, symbol)), *args), args, case)


def assert_evaluated(program: Traced, args: tuple[Any, ...], case: Case) -> Any:
    """NumPy evaluates a function to what XLA computes, to the case's tolerance, or some primitive is left to XLA.
    Return what XLA computes."""
    compiled = program.compiled(*args)
    if program.evaluator is None:
        assert program.left in COMPILED
        return compiled
    results = jax.tree.leaves(program.evaluated(*args))
    for i, (result, expected) in enumerate(zip(results, jax.tree.leaves(compiled), strict=True)):
        assert np.asarray(result).dtype == expected.dtype
        assert_close(result, expected, max(case.rtol, 1e-6), f"result {i}")
    return compiled


def test_equations_tell_a_rule_that_makes_another_thing_of_values():
    x = jnp.ones(3)

    def honest(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x + 1, x)

    def branching(x: jax.Array) -> jax.Array:
        return x + 1 if isinstance(x, Tracer) else x + 2

    for rule, alike in ((honest, True), (branching, False)):
        assert (equations(Traced(lambda rule=rule: rule(x))) == equations(Traced(rule, x))) == alike
