"""Values that are not what a parameter takes are refused at every public door, in words that hold the way out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.messages.arguments import kind_of
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError, SymbolValueError

NET = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
LOSS = sym.SoftmaxOutput(NET, name="softmax")
ARGS = {"fc_weight": np.ones((2, 3), np.float32), "fc_bias": np.zeros(2, np.float32)}
X = np.ones((4, 3), np.float32)
BATCHES = [{"data": X, "softmax_label": np.zeros(4, np.float32)}]


class _Odd:
    """An object that is nothing that anything takes."""


ODD: list[Any] = [True, "yes", (), [], {}, -7, 1.5, (1,), _Odd(), np.ones(3), b"x"]
FLAGS = [odd for odd in ODD if odd is not True]
NUMBERS = [True, False, "yes", (), [], {}, (1,), _Odd(), np.ones(3), b"x"]
WHOLE = [*NUMBERS, 1.5]
COUNTS = [*WHOLE, -7]
NAMES = [True, 0, 1.5, {"a": 1}, (1,), _Odd(), np.ones(3), b"x"]
WORDS = [True, -7, 1.5, (), {}, _Odd(), np.ones(3), b"x", "nonsense"]
DICTS = [True, "yes", (1,), -7, 1.5, _Odd(), np.ones(3), b"x"]
PLATFORMS = [(), [], {}, "", "cpu", True, 1.5, (1,), b"x", ("nonsense",)]
PATHS = [True, 0, 1.5, (), {}, None, _Odd(), np.ones(3), ""]
RULES = [True, 0, 1.5, "nonsense", None, _Odd(), np.ones(3), ()]
SEEDS = [True, False, "yes", (), {}, 1.5, _Odd(), np.ones(3)]


def _predict(**options: Any) -> Any:
    return lowering.Predictor(NET, ARGS, **options)(data=X)


def _exported(**options: Any) -> Any:
    return lowering.export_program("net.stablehlo", NET, ARGS, {}, **{"shapes": {"data": (4, 3)}, **options})


def _compiled() -> Any:
    compiled = lowering.compile(NET)
    compiled(ARGS | {"data": X})
    return compiled


def _trainer(**options: Any) -> Any:
    trainer = lowering.Trainer(LOSS, **{"optimizer": "sgd", **options})
    trainer.init(0, data=(4, 3))
    return trainer


def _fit(**options: Any) -> Any:
    return _trainer().fit(**{"data": BATCHES, "epochs": 1, "progress": False, **options})


def _batches(**options: Any) -> Any:
    return lowering.Batches(**{"arrays": {"data": X}, "batch_size": 2, **options})


DOORS: dict[str, tuple[Callable[..., Any], dict[str, list[Any]]]] = {
    "Predictor": (
        _predict,
        {"platform": WORDS, "compute_dtype": WORDS, "sharding": RULES, "data_axis": NAMES, "keep": [*COUNTS, 0]},
    ),
    "Predictor.batches": (
        lambda **options: list(lowering.Predictor(NET, ARGS).batches([X], **options)),
        {"batch_size": [*COUNTS, 0], "progress": FLAGS},
    ),
    "compile": (
        lambda **options: lowering.compile(NET, **options),
        {"is_train": FLAGS, "platform": WORDS, "donate_aux": FLAGS, "max_memory": [*NUMBERS, 1.5]},
    ),
    "export": (
        lambda **options: _compiled().export(**{"path": "net.stablehlo", **options}),
        {"platforms": PLATFORMS, "path": PATHS, "args": [True, "yes", X], "aux": [True, "yes", {}], "key": [0, True]},
    ),
    "export_program": (
        _exported,
        {"shapes": DICTS, "platforms": PLATFORMS, "dtypes": DICTS, "this_machine": FLAGS, "weights": WORDS},
    ),
    "to_jax": (lambda **options: lowering.to_jax(NET, **options), {"is_train": FLAGS, "platform": WORDS}),
    "grad_fn": (
        lambda **options: lowering.grad_fn(LOSS, **options)(ARGS | BATCHES[0]),
        {"wrt": NAMES, "is_train": FLAGS, "mirror": [True, -7, (), [], {}, np.ones(3)], "zeros_if_unreachable": FLAGS},
    ),
    "differentiable": (
        lambda **options: lowering.differentiable(LOSS, **options)(ARGS | BATCHES[0]),
        {"is_train": FLAGS, "mirror": [True, -7, [], {}, np.ones(3)], "zeros_if_unreachable": FLAGS},
    ),
    "Trainer": (
        _trainer,
        {
            "optimizer_params": DICTS,
            "data_names": [*NAMES, None],
            "label_names": [*NAMES, ()],
            "wrt": NAMES,
            "compute_dtype": [*WORDS, np.float64],
            "accumulate": [*COUNTS, 0],
            "clip_global_norm": [*NUMBERS, 0, -7],
            "mirror": [True, -7, [], {}, np.ones(3)],
            "frozen_statistics": FLAGS,
            "sharding": RULES,
            "data_axis": NAMES,
            "batch_statistics": WORDS,
        },
    ),
    "Trainer.init": (
        lambda **options: lowering.Trainer(LOSS).init(**{"key": 0, "data": (4, 3), **options}),
        {"key": [*SEEDS, None]},
    ),
    "Trainer.fit": (
        _fit,
        {
            "epochs": COUNTS,
            "validation": [True, -7, 1.5, _Odd()],
            "checkpoints": [*DICTS, (), [], {}],
            "progress": FLAGS,
            "begin_epoch": COUNTS,
            "check_finite": WORDS,
            "check_labels": FLAGS,
            "keep_memory": FLAGS,
            "exit_when_lost": FLAGS,
        },
    ),
    "Trainer.set_learning_rate": (lambda value: _trainer().set_learning_rate(value), {"value": NUMBERS}),
    "Trainer.export": (
        lambda **options: _trainer().export(**{"prefix": "net", "epoch": 1, **options}),
        {"prefix": PATHS, "epoch": WHOLE},
    ),
    "Batches": (
        _batches,
        {"batch_size": [*COUNTS, 0], "shuffle": FLAGS, "seed": COUNTS, "last": WORDS, "shard": WORDS},
    ),
    "Checkpoints": (
        lambda **options: lowering.Checkpoints(**{"directory": "folder", **options}),
        {"directory": PATHS, "keep": [*COUNTS, 0], "every": [*COUNTS, 0], "asynchronous": FLAGS},
    ),
    "init_params": (lambda key: lowering.init_params(NET, {"data": (4, 3)}, key), {"key": [*SEEDS, None]}),
    "simple_bind": (
        lambda **options: lowering.simple_bind(NET, data=(4, 3), **options),
        {"grad_req": [True, -7, 1.5, _Odd()], "seed": SEEDS, "mirror": [True, [], {}]},
    ),
}


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(("door", "name"), [(door, name) for door, (_, names) in DOORS.items() for name in names])
def test_a_wrong_kind_is_refused(door: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    call, wrong = DOORS[door]
    for value in wrong[name]:
        with pytest.raises(NNVMError) as refused:
            call(**{name: value})
        assert len(str(refused.value)) < 900
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".stablehlo"]


def test_flags_may_be_numpys_and_mxnets():
    for flag in (np.bool_(True), 1, 0, False):
        assert lowering.to_jax(NET, is_train=flag)  # type: ignore[arg-type]


def test_what_annotations_say():
    def door(names: Any, flag: bool, names_or_none: Any = None, **rest: int) -> None: ...

    parameters = inspect.signature(door).parameters
    kind = kind_of(parameters["flag"].annotation)
    assert kind is not None
    assert kind.read(True) is True
    assert kind_of(parameters["names"].annotation) is None
    optional = kind_of("int | None")
    assert optional is not None
    assert optional.read(None) is None
    with pytest.raises(TypeError):
        optional.read(True)
    assert optional.words == "a whole number, or None"


# -- what a function for another platform is exported for ------------------------------------------------------------


def test_a_function_of_a_platform_is_exported_for_it(tmp_path: Path):
    call = (ARGS | {"data": X},)
    assert lowering.compile(NET, platform="tpu").export(tmp_path / "tpu", *call).platforms == ("tpu",)
    for word in ("any", "plain"):
        assert lowering.compile(NET, platform=word).export(tmp_path / word, *call).platforms == (jax.default_backend(),)
    with pytest.raises(SymbolValueError, match=r"kind of GPU.*platforms=\('cuda',\)"):
        lowering.compile(NET, platform="gpu").export(tmp_path / "gpu", *call)
    assert not (tmp_path / "gpu").exists()
    assert lowering.compile(NET, platform="gpu").export(tmp_path / "c", *call, platforms=("cuda",)).platforms == (
        "cuda",
    )
