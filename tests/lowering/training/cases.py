"""What MXNet's optimisers, schedulers and metrics are asked, and ours after them. Needs NumPy only."""

from typing import Any

import numpy as np

SHAPES = {"fc_weight": (3, 4), "fc_bias": (3,), "bn_gamma": (4,), "special_weight": (2, 3)}
MULTIPLIERS = {"special_weight": {"lr_mult": 0.5, "wd_mult": 2.0}}
"""Attributes of the variables."""
STEPS = 5

_FULL = {"rescale_grad": 0.25, "clip_gradient": 0.5, "wd": 0.03}
_FACTOR = {"lr_scheduler": ("FactorScheduler", {"step": 2, "factor": 0.5, "base_lr": 0.1})}

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("sgd", {"rescale_grad": 0.25}),
    "sgd momentum": ("sgd", {"learning_rate": 0.1, "momentum": 0.9, **_FULL}),
    "sgd schedule": ("sgd", {"momentum": 0.9, **_FACTOR, **_FULL}),
    "sgd late start": ("sgd", {"begin_num_update": 3, **_FACTOR, **_FULL}),
    "sgd multipliers": (
        "sgd",
        {"learning_rate": 0.1, "lr_mult": {"fc_weight": 0.1, "special_weight": 3.0}, "wd_mult": {"fc_bias": 1.5},
         **_FULL},
    ),
    "ccsgd": ("ccSGD", {"learning_rate": 0.1, "momentum": 0.5, **_FULL}),
    "nag": ("nag", {"learning_rate": 0.1, "momentum": 0.9, "rescale_grad": 0.25, "clip_gradient": 0.5}),
    "nag without momentum": ("NAG", {"learning_rate": 0.1, **_FULL}),
    "signum": ("signum", {"learning_rate": 0.1, **_FULL}),
    "signum wd_lh": ("signum", {"learning_rate": 0.1, "momentum": 0.7, "wd_lh": 0.05, **_FULL}),
    "signsgd": ("signum", {"momentum": 0.0, **_FULL}),
    "ftml": ("ftml", {"learning_rate": 0.1, **_FULL}),
    "lars": ("lars", {"learning_rate": 0.1, "momentum": 0.9, "eta": 0.3, "eps": 1e-4, "wd": 0.03}),
    "lars schedule": ("lars", {"momentum": 0.9, "eta": 0.3, **_FACTOR, **_FULL}),
    "lars uncorrected": ("lars", {"momentum": 0.9, "eta": 0.3, "momentum_correction": False, **_FACTOR, **_FULL}),
    "lars without momentum": ("lars", {"learning_rate": 0.1, "eta": 0.3, **_FULL}),
    "lamb": ("lamb", {"learning_rate": 0.05, **_FULL}),
    "lamb bounds": ("lamb", {"lower_bound": 0.5, "upper_bound": 2.0, "bias_correction": False, **_FULL}),
    "dcasgd": ("dcasgd", {"learning_rate": 0.1, "lamda": 0.5, **_FULL}),
    "adam": ("adam", {"rescale_grad": 0.25}),
    "adam full": ("adam", {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4, **_FULL}),
    "adagrad": ("adagrad", {"learning_rate": 0.1, "eps": 1e-3, **_FULL}),
    "groupadagrad": ("groupadagrad", {"learning_rate": 0.1, "rescale_grad": 0.25, "clip_gradient": 0.5}),
    "rmsprop": ("rmsprop", {"learning_rate": 0.01, "gamma1": 0.8, "clip_weights": 1.0, **_FULL}),
    "rmsprop centered": ("rmsprop", {"centered": True, "gamma2": 0.7, **_FULL}),
    "adadelta": ("adadelta", {"rho": 0.8, "epsilon": 1e-3, **_FULL}),
    "ftrl": ("ftrl", {"lamda1": 0.02, "beta": 0.5, **_FULL}),
    "adamax": ("adamax", {"learning_rate": 0.05, **_FULL}),
    "nadam": ("nadam", {"learning_rate": 0.05, "schedule_decay": 0.1, **_FULL}),
}  # fmt: skip

_LARGE: dict[str, Any] = {"learning_rate": 0.05, "updates_per_epoch": 3, "warmup_epochs": 2, **_FULL}

LARGE_BATCHES: dict[str, dict[str, Any]] = {
    "plain": {"learning_rate": 0.1, "rescale_grad": 0.25},
    "linear": {"batch_scale": 2, "momentum": 0.9, **_LARGE},
    "power2": {"batch_scale": 3, "warmup_strategy": "power2", **_LARGE},
    "sqrt": {"batch_scale": 2, "warmup_strategy": "sqrt", "momentum": 0.5, **_LARGE},
    "lars": {"batch_scale": 2, "warmup_strategy": "lars", "momentum": 0.9, **_LARGE},
    "lars of each batch": {"warmup_strategy": "lars", **_LARGE},
    "another word": {"batch_scale": 2, "warmup_strategy": "none", **_LARGE},
    "later epoch": {"batch_scale": 2, "begin_epoch": 1, "momentum": 0.9, **_LARGE},
    "no warm-up": {"batch_scale": 2, **_LARGE, "warmup_epochs": 0},
    "schedule": {"batch_scale": 2, "momentum": 0.9, **_LARGE, "learning_rate": None, **_FACTOR},
    "half": {"batch_scale": 2, "momentum": 0.9, "multi_precision": True, "warmup_strategy": "lars", **_LARGE},
}
"""Name → parameters of LBSGD, of which LARGE_STEPS updates are compared; "half" is of float16."""
LARGE_STEPS = 10

_WARM = {"warmup_steps": 6, "warmup_begin_lr": 0.02}

SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "factor": ("FactorScheduler", {"step": 4, "factor": 0.5, "base_lr": 0.1}),
    "factor stops": ("FactorScheduler", {"step": 2, "factor": 0.1, "base_lr": 0.1, "stop_factor_lr": 1e-4}),
    "factor warm": ("FactorScheduler", {"step": 4, "factor": 0.5, "base_lr": 0.1, **_WARM}),
    "multi": ("MultiFactorScheduler", {"step": [3, 10, 11], "factor": 0.3, "base_lr": 0.2}),
    "multi constant": ("MultiFactorScheduler", {"step": [3, 10], "factor": 0.3, **_WARM, "base_lr": 0.2,
                                                "warmup_mode": "constant"}),
    "poly": ("PolyScheduler", {"max_update": 20, "base_lr": 0.1, "pwr": 2, "final_lr": 0.01}),
    "poly warm": ("PolyScheduler", {"max_update": 20, "base_lr": 0.1, "pwr": 1, **_WARM}),
    "cosine": ("CosineScheduler", {"max_update": 20, "base_lr": 0.1, "final_lr": 0.01}),
    "cosine warm": ("CosineScheduler", {"max_update": 20, "base_lr": 0.1, **_WARM}),
}  # fmt: skip
UPDATES = 30
"""Updates for which a schedule is asked: 1 to this."""

METRICS: dict[str, tuple[str, dict[str, Any], str]] = {
    "accuracy": ("accuracy", {}, "classes"),
    "accuracy of images": ("accuracy", {"axis": 1}, "images"),
    "accuracy of numbers": ("accuracy", {}, "numbers"),
    "top_k_accuracy": ("top_k_accuracy", {"top_k": 3}, "classes"),
    "cross-entropy": ("ce", {}, "classes"),
    "nll_loss": ("nll_loss", {}, "classes"),
    "perplexity": ("perplexity", {"ignore_label": None}, "classes"),
    "perplexity ignoring": ("perplexity", {"ignore_label": 2}, "classes"),
    "f1": ("f1", {}, "two"),
    "f1 micro": ("f1", {"average": "micro"}, "two"),
    "mcc": ("mcc", {}, "two"),
    "mcc micro": ("mcc", {"average": "micro"}, "two"),
    "mae": ("mae", {}, "values"),
    "mse": ("mse", {}, "values"),
    "rmse": ("rmse", {}, "values"),
    "mse of columns": ("mse", {}, "columns"),
    "loss": ("loss", {}, "values"),
}
"""(name, parameters, kind of `metric_batches`)."""


def weights() -> dict[str, np.ndarray]:
    """The parameters before the first step."""
    rng = np.random.RandomState(7)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def gradients(step: int) -> dict[str, np.ndarray]:
    """The gradients of a step, 0 for the first."""
    rng = np.random.RandomState(100 + step)
    return {name: (2 * rng.normal(size=shape)).astype(np.float32) for name, shape in SHAPES.items()}


def names_of(case: str) -> list[str]:
    """The parameters of a case: groupadagrad updates matrices only."""
    return [name for name, shape in SHAPES.items() if case != "groupadagrad" or len(shape) == 2]


def metric_batches(kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Three batches of (label, output)."""
    return [_metric_batch(kind, np.random.RandomState(200 + i)) for i in range(3)]


def _metric_batch(kind: str, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    classes, shape = {"two": (2, (8,)), "images": (4, (3, 2, 2))}.get(kind, (5, (8,)))
    if kind in ("values", "columns"):
        label, output = rng.normal(size=8), rng.normal(size=(8, 1) if kind == "columns" else (8,))
    elif kind == "numbers":
        label, output = rng.randint(classes, size=shape), rng.randint(classes, size=shape)
    else:
        label = rng.randint(classes, size=shape)
        output = rng.dirichlet(np.ones(classes), size=shape)
        output = np.moveaxis(output, -1, 1)
    return label.astype(np.float32), np.ascontiguousarray(output, np.float32)
