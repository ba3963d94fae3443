"""Networks in MXNet's files, printed, beside what they are here: `python -m tests.lowering.source.zoo [NAME ...]`.

The table has the largest difference of outputs, gradients and states in each dtype, as a part of the largest number.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import lowering
import symjax_nnvm as nn
from tests.support.printed import Child

NETWORKS = Path(__file__).parents[2] / "goldens" / "networks"
NAMES = sorted(path.stem for path in NETWORKS.glob("*.npz"))
DTYPES = ("float64", "float32", "bfloat16")
NOTHING = 1e-3
"""Of the largest number of all arrays: what an array is measured by whose numbers are nothing but rounding."""


class Differences(NamedTuple):
    """The largest difference of each kind."""

    outputs: float
    gradients: float
    states: float


def differences(child: Child, name: str, dtype: str, *, is_train: bool) -> Differences:
    """Return how a printed network, with an open batch, differs from ours."""
    net, args, aux = nn.load_checkpoint(NETWORKS / name, 0)
    with np.load(NETWORKS / f"{name}.npz") as archive:
        inputs = {key[3:]: array for key, array in archive.items() if key.startswith("in|")}
    with jax.enable_x64(dtype == "float64"):
        data, args, aux = ({n: _cast(array, dtype) for n, array in given.items()} for given in (inputs, args, aux))
        params = {n: array for n, array in args.items() if n in net.list_arguments() and n not in data} | aux
        shapes = {n: ("batch", *array.shape[1:]) if n == "data" else array.shape for n, array in data.items()}
        if len(data) > 1:
            shapes = {n: array.shape for n, array in data.items()}
        dtypes = {n: array.dtype.name for n, array in data.items()}
        source = lowering.to_source(net, params, aux, shapes=shapes, dtypes=dtypes)
        everything, key = args | data, jax.random.key(7)
        outputs, states = jax.jit(lowering.to_jax(net, is_train=is_train, platform="any"))(everything, aux, key)
        heads = [np.ones(output.shape, output.dtype) for output in outputs]
        wrt = [n for n in params if n not in aux and params[n].dtype.name == dtype]
        gradient = jax.jit(lowering.grad_fn(net, wrt, platform="any", is_train=is_train))
        _, gradients, _ = gradient(everything, aux, key, heads)
        options = ({"train": is_train} if "train=False" in source else {}) | (
            {"seed": 7} if "key=None" in source else {}
        )
        ordered = [data[n] for n in dict.fromkeys(net.list_arguments()) if n in data]
        printed, new_states, grads = child.run(source, params, ordered, heads=heads, compiled=True, **options)
    named = dict(zip(sorted(params), grads or (), strict=False))
    return Differences(
        _largest(printed, outputs),
        _largest([named[n] for n in wrt], [gradients[n] for n in wrt]),
        _largest([*new_states.values()], [states[n] for n in new_states]),
    )


def _cast(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype(jax.numpy.dtype(dtype)) if array.dtype.kind == "f" else array


def _largest(ones: list, others: list) -> float:
    pairs = [
        (np.asarray(a).astype("float64"), np.asarray(b).astype("float64")) for a, b in zip(ones, others, strict=True)
    ]
    scale = max((float(np.abs(b).max(initial=0)) for _, b in pairs), default=0) * NOTHING
    return max(
        (float(np.abs(a - b).max(initial=0)) / max(scale, float(np.abs(b).max(initial=0)), 1e-30) for a, b in pairs),
        default=0.0,
    )


def main(names: list[str]) -> None:
    """Print the table."""
    child = Child()
    for name in names or NAMES:
        for dtype in DTYPES:
            rows = [differences(child, name, dtype, is_train=mode) for mode in (False, True)]
            texts = [" ".join(f"{number:8.1e}" for number in row) for row in rows]
            print(f"{name:22s} {dtype:9s} inference {texts[0]}   training {texts[1]}", flush=True)
    child.close()


if __name__ == "__main__":
    main(sys.argv[1:])
