"""Our gradients against `jax.vjp` of the same lowered forward function, and against MXNet 1.9.1 on the same machine.

    python benchmarks/gradients.py [--rounds 15] [--only NAME …] [--mxnet PYTHON]

Each row is one operator at a realistic size: milliseconds of forward and backward together, jitted with this library's
compile options (`lowering/xla/compile_options.py`). All take turns; a ratio is the median of the rounds'
ratios. --mxnet: the Python of an environment with MXNet 1.9.1, which runs the same cases with all cores, in a process
of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import Loaded, compare


@dataclass(frozen=True)
class GradientCase:
    """An operator at a realistic size. build: (module of symbol functions, variables) → symbol; inputs: name → shape;
    integers: inputs that hold whole numbers below a bound; wrt: the inputs whose gradients are computed."""

    name: str
    graph: Callable[..., Any]
    inputs: dict[str, tuple[int, ...]]
    integers: dict[str, int] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    @property
    def wrt(self) -> list[str]:
        """Every float input that is not a state."""
        return [name for name in self.inputs if name not in self.integers and name not in self.without]

    def build(self, sym: Any) -> Any:
        """The symbol, in MXNet's module or in ours."""
        return self.graph(sym, **{name: sym.Variable(name) for name in self.inputs})

    def values(self) -> dict[str, np.ndarray]:
        """Arrays of the inputs."""
        rng = np.random.RandomState(0)
        found = {}
        for name, shape in self.inputs.items():
            if name in self.integers:
                found[name] = rng.randint(0, self.integers[name], shape).astype(np.float32)
            else:
                found[name] = rng.uniform(0.1, 1, shape).astype(np.float32)
        return found

    def head(self, shape: tuple[int, ...]) -> np.ndarray:
        """A head gradient."""
        return np.random.RandomState(1).uniform(-1, 1, shape).astype(np.float32)


def _conv(name: str, n: int, c: int, size: int, filters: int, kernel: int, **params: Any) -> GradientCase:
    groups = params.get("num_group", 1)
    return GradientCase(
        name,
        lambda sym, data, weight: sym.Convolution(
            data, weight, kernel=(kernel, kernel), num_filter=filters, no_bias=True, pad=(kernel // 2,) * 2, **params
        ),
        {"data": (n, c, size, size), "weight": (filters, c // groups, kernel, kernel)},
    )


def _pool(name: str, pool_type: str, **params: Any) -> GradientCase:
    return GradientCase(
        name,
        lambda sym, data: sym.Pooling(data, pool_type=pool_type, **params),
        {"data": (16, 64, 112, 112)},
    )


def _rnn(mode: str, gates: int) -> GradientCase:
    steps, batch, size, hidden = 35, 32, 200, 200
    inputs = {
        "data": (steps, batch, size),
        "parameters": (gates * hidden * (size + hidden + 2),),
        "state": (1, batch, hidden),
    }
    if mode == "lstm":
        inputs["state_cell"] = (1, batch, hidden)
    return GradientCase(
        mode,
        lambda sym, **given: sym.RNN(**given, mode=mode, state_size=hidden, num_layers=1),
        inputs,
    )


def _attention(sym: Any, query: Any, key: Any, value: Any) -> Any:
    scores = sym.softmax(sym.batch_dot(query, key, transpose_b=True) * 0.125, axis=-1)
    return sym.batch_dot(scores, value)


CASES = [
    _conv("conv dense 3x3", 8, 64, 56, 64, 3),
    _conv("conv strided 3x3", 8, 64, 56, 128, 3, stride=(2, 2)),
    _conv("conv 1x1", 8, 64, 56, 256, 1),
    _conv("conv grouped 32", 8, 128, 28, 128, 3, num_group=32),
    _conv("conv depth-wise 3x3", 16, 32, 112, 32, 3, num_group=32),
    _conv("conv depth-wise strided", 16, 32, 112, 32, 3, num_group=32, stride=(2, 2)),
    _pool("pool max 3x3 stride 2", "max", kernel=(3, 3), stride=(2, 2)),
    _pool("pool max 2x2", "max", kernel=(2, 2), stride=(2, 2)),
    _pool("pool avg 3x3 stride 2", "avg", kernel=(3, 3), stride=(2, 2)),
    GradientCase(
        "BatchNorm",
        lambda sym, **given: sym.BatchNorm(**given, fix_gamma=False),
        {"data": (32, 64, 56, 56), "gamma": (64,), "beta": (64,), "moving_mean": (64,), "moving_var": (64,)},
        without=("moving_mean", "moving_var"),
    ),
    GradientCase(
        "LayerNorm",
        lambda sym, **given: sym.LayerNorm(**given),
        {"data": (32, 128, 512), "gamma": (512,), "beta": (512,)},
    ),
    GradientCase("softmax", lambda sym, data: sym.softmax(data, axis=-1), {"data": (4096, 1000)}),
    GradientCase("log_softmax", lambda sym, data: sym.log_softmax(data, axis=-1), {"data": (4096, 1000)}),
    _rnn("rnn_tanh", 1),
    _rnn("lstm", 4),
    _rnn("gru", 3),
    GradientCase(
        "Embedding",
        lambda sym, data, weight: sym.Embedding(data, weight, input_dim=30000, output_dim=256),
        {"data": (64, 128), "weight": (30000, 256)},
        integers={"data": 30000},
    ),
    GradientCase("attention (batch_dot)", _attention, dict.fromkeys(("query", "key", "value"), (96, 128, 64))),
    GradientCase(
        "FullyConnected",
        lambda sym, data, weight, bias: sym.FullyConnected(data, weight, bias, num_hidden=1024),
        {"data": (128, 1024), "weight": (1024, 1024), "bias": (1024,)},
    ),
]


def calls(case: GradientCase) -> dict[str, Callable[[], Any]]:
    """Ours and `jax.vjp`, both from the same arrays to outputs and gradients."""
    import jax

    import lowering
    from lowering.xla.compile_options import options_for
    from symjax_nnvm import symbol as sym

    symbol = case.build(sym)
    values = case.values()
    states = set(symbol.list_auxiliary_states())
    args = {name: jax.device_put(value) for name, value in values.items() if name not in states}
    aux = {name: jax.device_put(value) for name, value in values.items() if name in states}
    forward = lowering.to_jax(symbol, is_train=True)
    shapes, _ = jax.eval_shape(forward, args, aux)
    heads = [jax.device_put(case.head(shape.shape)) for shape in shapes]

    chosen = {name: args.pop(name) for name in case.wrt}
    everything = (chosen, args, aux, heads)  # arguments all of them: XLA would compute with constants while compiling

    def by_vjp(chosen: Any, args: Any, aux: Any, heads: Any) -> Any:
        outputs, back = jax.vjp(lambda c: forward({**args, **c}, aux)[0], chosen)
        return outputs, back(heads)

    gradient = lowering.grad_fn(symbol, case.wrt)

    def ours(chosen: Any, args: Any, aux: Any, heads: Any) -> Any:
        return gradient({**args, **chosen}, aux, None, heads)[:2]

    jitted = [jax.jit(each, compiler_options=options_for(jax.default_backend())) for each in (ours, by_vjp)]
    ours_call, vjp_call = (lambda run=run: jax.block_until_ready(run(*everything)) for run in jitted)
    return {"ours": ours_call, "jax.vjp": vjp_call}


def load_in_mxnet(name: str) -> Loaded:
    """A case in MXNet's executor."""
    import mxnet as mx  # type: ignore[import-not-found]

    (case,) = (case for case in CASES if case.name == name)
    symbol = case.build(mx.sym)
    states = set(symbol.list_auxiliary_states())
    arrays = {key: mx.nd.array(value) for key, value in case.values().items()}
    args = {key: value for key, value in arrays.items() if key not in states}
    grads = {key: mx.nd.zeros(args[key].shape) for key in case.wrt}
    requests = {key: "write" if key in grads else "null" for key in args}
    aux = {key: arrays[key] for key in states}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads, grad_req=requests, aux_states=aux)
    heads = [mx.nd.array(case.head(output.shape)) for output in executor.forward(is_train=True)]

    def call() -> None:
        executor.forward(is_train=True)
        executor.backward(heads)
        mx.nd.waitall()

    return Loaded(call)


if __name__ == "__main__":
    cases = {(case.name,): partial(calls, case) for case in CASES}
    compare(__doc__, ("case",), ("ours", "jax.vjp"), cases, load_in_mxnet, rounds=15)
