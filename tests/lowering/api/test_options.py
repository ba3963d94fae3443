"""An option has one name and one meaning at every function that takes it; former names are told by an error."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lowering
import lowering.training
import symjax_nnvm as nn
from lowering.messages.migration_hints import KEYWORDS
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import RENAMED, CallError, NNVMError, TrainingError
from symjax_nnvm.pipeline import Options, Pipeline, Plan
from tests.support.traced import evaluated

WIDTH = {"__sharding__": "batch, None"}


def _network() -> sym.Symbol:
    """A small network with what each option changes: products, an activation to mirror, a split variable."""
    hidden = sym.FullyConnected(sym.Variable("data", attr=WIDTH), num_hidden=8, name="fc1")
    hidden = sym.Activation(sym.BatchNorm(hidden, name="bn"), act_type="tanh", name="act")
    return sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=3, name="fc2"), name="softmax")


NET = _network()
SERVED = nn.inference_symbol(NET)
SHAPES: dict[str, Any] = {"data": (4, 5)}
RNG = np.random.default_rng(0)
ARGS, AUX = lowering.init_params(NET, SHAPES, 0, lowering.initializer.Normal(0.5))
X, Y = RNG.standard_normal((4, 5), np.float32), np.arange(4, dtype=np.float32) % 3
BATCH = {"data": X, "softmax_label": Y}
WRT = list(ARGS)
GIVEN = {**ARGS, **BATCH}
HALF: dict[str, Any] = {"compute_dtype": "bfloat16"}


FORWARD: dict[str, Callable[..., Any]] = {
    "to_jax": lambda **options: lowering.to_jax(NET, **options),
    "compile": lambda **options: lowering.compile(NET, **options),
}
TRAINING: dict[str, Callable[..., Any]] = {
    "grad_fn": lambda **options: lowering.grad_fn(NET, WRT, **options),
    "differentiable": lambda **options: lowering.differentiable(NET, **options)(ARGS | BATCH, AUX),
    "Trainer": lambda **options: lowering.Trainer(NET, **options),
    "simple_bind": lambda **options: lowering.simple_bind(NET, **options, **SHAPES).forward_backward(),
    "bind": lambda **options: lowering.bind(NET, None, GIVEN, GIVEN, aux=dict(AUX), **options).forward_backward(),
}
SERVING: dict[str, Callable[..., Any]] = {
    "Predictor": lambda **options: lowering.Predictor(SERVED, ARGS, AUX, **options),
    "export_program": lambda path, **options: lowering.export_program(
        path, NET, ARGS, AUX, {"data": ("N", 5)}, platforms=["cpu"], **options
    ),
}
DOORS = {**FORWARD, **TRAINING, **SERVING}
SIGNATURES: dict[str, Any] = {
    name: inspect.signature(getattr(lowering, name)).parameters
    for name in (*DOORS, "explain", "tune", "check_gradients", "check_projection")
} | {"Trainer.init": inspect.signature(lowering.Trainer.init).parameters}
CHOICES: dict[str, Callable[[], dict[str, Any]]] = {
    "compute_dtype": lambda: HALF,
    "platform": lambda: {"platform": "cpu"},
    "mirror": lambda: {"mirror": "do_mirror"},
    "data_axis": lambda: {"mesh": jax.make_mesh((1,), ("batch",)), "data_axis": "batch"},
}


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans that are made during a test."""
    made: list[Plan] = []
    plan = Pipeline.plan

    def recorded(self: Pipeline, options: Options) -> Plan:
        made.append(plan(self, options))
        return made[-1]

    monkeypatch.setattr(Pipeline, "plan", recorded)
    return made


def _facts(plan: Plan) -> dict[str, Any]:
    """What a plan was made of and what became of it, without what the options do not decide."""
    chosen = {
        name: getattr(plan.options, name) for name in ("compute_dtype", "platform", "mirror", "mesh", "data_axis")
    }
    ran = [record.name for record in plan.records if record.ran]
    return chosen | {"ran": ran, "graph": [str(node) for node in plan.graph.nodes()]}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("door", "choice"), [(door, choice) for door in DOORS for choice in CHOICES if choice in SIGNATURES[door]]
)
def test_an_option_makes_the_same_plan_at_every_door(door: str, choice: str, plans: list[Plan], tmp_path: Path):
    given, net = CHOICES[choice](), SERVED if door in SERVING else NET
    with lowering.effort("full"):
        DOORS[door](**given, **({"path": tmp_path / "p"} if door == "export_program" else {}))
    if door in FORWARD:
        found, asked = plans[-1], {}
    elif door in TRAINING:
        found = [plan for plan in plans if plan.options.wrt][-1]
        asked = {"is_train": True, "wrt": found.options.wrt}
    else:
        found, asked = plans[-1], {"constants": [*ARGS, *AUX], "platform": "cpu"}
    explained = _facts(lowering.explain(net, **{**asked, **given}).plan)
    assert _facts(found) == explained
    assert explained != _facts(lowering.explain(net, **asked).plan) or choice == "platform"


def test_options_that_do_not_fit_are_refused_alike(tmp_path: Path):
    mesh = jax.make_mesh((1,), ("batch",))
    for door, call in DOORS.items():
        path = {"path": tmp_path / "p"} if door == "export_program" else {}
        with pytest.raises(NNVMError, match="compute_dtype"):
            call(compute_dtype="int8", **path)
        if "data_axis" in SIGNATURES[door]:
            with pytest.raises(TrainingError, match="data_axis names an axis that the mesh does not have.*'batch'"):
                call(mesh=mesh, data_axis="bach")
    assert lowering.to_jax(NET, mesh=mesh)  # the default names an axis that a mesh need not have
    with pytest.raises(CallError, match="must be a mesh"):
        lowering.to_jax(NET, mesh=3)


def test_the_axis_of_samples_is_that_of_the_mesh_around(plans: list[Plan]):
    run = lowering.to_jax(NET, data_axis=("batch", "rows"))
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((1, 1), ("batch", "model"))):
        jax.eval_shape(run, ARGS | BATCH, AUX)
        assert plans[-1].options.data_axis == ("batch",)
        assert lowering.explain(NET, data_axis="model").plan.options.data_axis == ("model",)


# -- half precision --------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_half_precision_is_the_same_in_functions_predictors_and_programs(tmp_path: Path):
    path = tmp_path / "p"
    (served,) = lowering.Predictor(SERVED, ARGS, AUX, **HALF)(data=X)
    exported = lowering.export_program(path, SERVED, ARGS, AUX, {"data": (4, 5)}, **HALF)
    (whole,), _ = evaluated(lowering.to_jax(SERVED), ARGS | {"data": X}, AUX)
    runs = [lowering.to_jax(SERVED, **HALF), lowering.compile(SERVED, **HALF)]
    for output in (*(run(ARGS | {"data": X}, AUX)[0][0] for run in runs), exported.call(data=X)[0]):
        assert output.dtype == np.float32
        np.testing.assert_allclose(output, served, rtol=0, atol=2e-3)  # folded weights are rounded otherwise
        assert 1e-6 < float(abs(output - whole).max()) < 2e-2


@pytest.mark.slow("compiles")
def test_half_precision_of_gradients_is_the_trainers():
    executor = lowering.bind(NET, None, GIVEN, {n: np.zeros_like(a) for n, a in ARGS.items()}, aux=dict(AUX), **HALF)
    executor.forward_backward()
    function = lowering.differentiable(NET, **HALF)
    gradients = [
        jax.jit(lowering.grad_fn(NET, WRT, **HALF))(ARGS | BATCH, AUX)[1],
        jax.jit(jax.grad(lambda args: function(args | BATCH, AUX)[0][0].sum()))(dict(ARGS)),
        executor.grad_dict,
    ]
    trainer = lowering.Trainer(NET, "sgd", {"learning_rate": 1.0, "rescale_grad": 1.0}, **HALF)
    trainer.init(0, ARGS, AUX, **SHAPES)
    trainer.step(BATCH)
    params = trainer.require_state().params
    whole = jax.jit(lowering.grad_fn(NET, WRT))(ARGS | BATCH, AUX)[1]
    for name in WRT:
        expected = np.asarray(ARGS[name]) - np.asarray(params[name])
        for found in gradients:
            assert np.asarray(found[name]).dtype == np.float32
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-5)
    assert any(float(abs(gradients[0][name] - whole[name]).max()) > 1e-3 for name in WRT)


# -- one name --------------------------------------------------------------------------------------------------------

ELSEWHERE = {
    **dict.fromkeys(("nn.Variable dtype", "nn.var dtype"), "the dtype of an array"),
    "nn.register_op precision": "TPrecision, which an operator has",
    "nn.quantize dtype": "the dtype of integers",
    "data.CSVIter dtype": "the dtype of an array",
    "data.Augmentation dtype": "the dtype of an array",
    "data.DetectionAugmentation dtype": "the dtype of an array",
    "lowering.Executor.copy_params_from arg_params": "MXNet's method",
    "lowering.Executor.copy_params_from aux_params": "MXNet's method",
}
"""Parameters that are named like another option's former name, and why."""


def _is_made_by_callers(member: Any) -> bool:
    return inspect.isclass(member) and not issubclass(member, BaseException)


def _functions() -> Iterator[tuple[str, Any]]:
    """Every public function, method and class that callers make, as `package.name`."""
    packages = {"nn": nn, "lowering": lowering, "training": lowering.training, "data": lowering.data}
    for package, module in packages.items():
        for name in (name for name in dir(module) if name[0] != "_"):
            member = getattr(module, name)
            methods = [f"{name}.{n}" for n in vars(member) if n[0] != "_"] if inspect.isclass(member) else []
            for path in (name, *methods):
                function = member if path == name else getattr(member, path.partition(".")[2])
                if inspect.isfunction(function) or inspect.ismethod(function) or _is_made_by_callers(function):
                    yield f"{package}.{path}", function


def test_no_function_has_an_option_by_a_former_name():
    parameters = {
        f"{path} {name}" for path, function in _functions() for name in inspect.signature(function).parameters
    }
    assert {each for each in parameters if each.partition(" ")[2] in RENAMED} == set(ELSEWHERE)


MADE_BY_US = {"nn.ParamsMatch", "lowering.Executor", "lowering.TrainState", "training.TrainState"}
"""Classes of results: callers do not make them."""
ROWS = {"to_jax": "compile", "check_projection": "check_gradients"}
"""Functions that share another's row of KEYWORDS."""


_LOOKING = (lowering.to_jax.__code__, lowering.CompiledFunction.hlo.__code__)


def _told() -> Iterator[tuple[str, str]]:
    """Each function × each former name of an option that it has; and, of functions that look at the names that they
    are called with, of an option that it has not."""
    for path, function in _functions():
        names = {name for name, each in inspect.signature(function).parameters.items() if each.kind.name[:3] != "VAR"}
        making = function.__init__ if inspect.isclass(function) else function
        for old, new in RENAMED.items():
            looks = path.startswith("lowering") and getattr(making, "__code__", None) in _LOOKING
            if path not in MADE_BY_US and old not in names and (new in names or looks):
                yield path, old


@pytest.mark.parametrize(("path", "old"), sorted(_told()))
def test_a_former_name_is_told(path: str, old: str):
    function = dict(_functions())[path]
    name = path.partition(".")[2]
    word = KEYWORDS.get(ROWS.get(name, name), {}).get(old, f"{RENAMED[old]}=").format(name=old)
    with pytest.raises(CallError) as error:
        function(**{old: None})
    called, _, hints = str(error.value).partition(f"{old}=: ")
    assert called.startswith(f"{name}: " if ":" in called else f"{name} ")
    assert word in hints.partition(" For example: ")[0]


def test_an_input_may_have_a_former_name():
    net = sym.FullyConnected(sym.Variable("precision"), num_hidden=2)
    assert lowering.explain(net, precision=(3, 4)).footprint is not None
