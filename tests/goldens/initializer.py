"""Make `initializer.json` and `initializer.npz`: what MXNet 1.9.1's initialisers give the cases.

mxnet-env/bin/python -m tests.goldens.initializer
"""

import json
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.support.initializer_cases import FIXED, NAMES, SCALES, shape_of

HERE = Path(__file__).parent


_create = mx.init.create


def create(text: str) -> Any:
    """MXNet's `create`, but a FusedRNN's inner initialiser comes as an object: MXNet cannot read what it writes."""
    if not text.startswith('["fusedrnn"'):
        return _create(text)
    parameters = json.loads(text)[1]
    inner = parameters.pop("init")
    return mx.init.FusedRNN(None if inner is None else _create(inner), **parameters)


def by_name(name: str, described: bool) -> list[float] | None:
    """The value that Constant(3) gives a name, flat; None where MXNet knows no rule."""
    array = mx.nd.full(shape_of(name), 7)
    try:
        mx.init.Constant(3)(mx.init.InitDesc(name) if described else name, array)
    except ValueError:
        return None
    flat = array.asnumpy().ravel().tolist()
    return flat[:1] if len(set(flat)) == 1 else flat[:16]


def drawn(name: str, parameters: dict[str, Any], shape: tuple[int, ...]) -> tuple[str, float]:
    """(generator, its second argument): the bound or the standard deviation that MXNet asks for."""
    asked: list[tuple[str, float]] = []
    for generator in ("uniform", "normal"):

        def note(_: float, scale: float, *rest: Any, generator: str = generator, **options: Any) -> None:
            asked.append((generator, scale))

        with mock.patch.object(mx.initializer.random, generator, note):
            mx.init.create(name, **parameters)(mx.init.InitDesc("a_weight"), mx.nd.zeros(shape))
    return asked[0][0], float(asked[0][1])


def main() -> None:
    """Write both files."""
    warnings.simplefilter("ignore", DeprecationWarning)
    arrays: dict[str, np.ndarray] = {}
    for case, (init, shape) in FIXED.items():
        array = mx.nd.full(shape, 7)
        with mock.patch.object(mx.initializer, "create", create):
            mx.init.Constant(3)(mx.init.InitDesc("anything", {"__init__": init}), array)
        arrays[case] = array.asnumpy()
    np.savez_compressed(HERE / "initializer.npz", allow_pickle=False, **arrays)
    told = {
        "described": {name: by_name(name, True) for name in NAMES},
        "plain": {name: by_name(name, False) for name in NAMES},
        "drawn": [drawn(*case) for case in SCALES],
        "dumps": [mx.init.create(name, **parameters).dumps() for name, parameters, _ in SCALES],
    }
    (HERE / "initializer.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
