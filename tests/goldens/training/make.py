"""Train the cases of tests/support/training_cases.py in MXNet 1.9.1, with its Module, and write down what comes out.

Run by hand in MXNet's environment (see CONTRIBUTING.md), from the project's root:

    mxnet-env/bin/python -m tests.goldens.training.make [CASE ...]

Each `{case}_{optimizer}.npz` holds the parameters and states after the last step, the loss of every step (`loss`), and
MXNet's own sensitivity: how far each parameter ends (`drift:{name}`, norm of the difference / norm) from where it does
when every first weight is moved by one unit in its last place, up or down, whichever is farther.
"""

import sys
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.goldens.make import save
from tests.support.training_cases import CASES, WITH_RELU, Arrays, TrainingCase

HERE = Path(__file__).parent


def train(case: TrainingCase, optimizer: str, towards: float) -> tuple[Arrays, np.ndarray]:
    """(parameters and states after the last step, loss of each step).

    towards: 0, or the infinity in whose direction every first weight is moved by one unit in its last place.
    """
    symbol, shapes = case.network(mx.sym), case.shapes()
    data_shapes = [(name, shape) for name, shape in shapes.items() if name != case.label]
    module = mx.mod.Module(symbol, [name for name, _ in data_shapes], [case.label])
    module.bind(data_shapes, [(case.label, shapes[case.label])])
    arg_shapes, _, aux_shapes = symbol.infer_shape(**shapes)
    parameters = {n: s for n, s in zip(symbol.list_arguments(), arg_shapes, strict=True) if n not in shapes}
    states = dict(zip(symbol.list_auxiliary_states(), aux_shapes, strict=True))
    initial = case.initial(parameters | states)
    for name in parameters if towards else ():
        initial[name] = np.nextafter(initial[name], np.float32(towards))
    values = {name: mx.nd.array(value) for name, value in initial.items()}
    module.init_params(arg_params={n: values[n] for n in parameters}, aux_params={n: values[n] for n in states})
    module.init_optimizer("local", optimizer, tuple(case.optimizers[optimizer].items()))
    losses = []
    for batch in case.batches():
        arrays = {name: mx.nd.array(value) for name, value in batch.items()}
        module.forward_backward(mx.io.DataBatch([arrays[name] for name, _ in data_shapes], [arrays[case.label]]))
        module.update()
        losses.append(case.loss(module.get_outputs()[0].asnumpy(), batch))
    mx.nd.waitall()  # BatchNorm writes its moving statistics in backward, behind the back of the engine
    args, aux = module.get_params()
    return {name: value.asnumpy() for name, value in {**args, **aux}.items()}, np.array(losses, np.float32)


def main(chosen: list[str]) -> None:
    """Make the chosen cases' files (default: all)."""
    for case in (*CASES, WITH_RELU):
        for optimizer in case.optimizers if not chosen or case.name in chosen else ():
            final, losses = train(case, optimizer, 0)
            moved = [train(case, optimizer, towards)[0] for towards in (np.inf, -np.inf)]
            drift = {
                f"drift:{name}": np.array(
                    max(np.linalg.norm(m[name] - value) for m in moved) / np.linalg.norm(value), np.float32
                )
                for name, value in final.items()
            }
            if case is not WITH_RELU:
                save(HERE / f"{case.name}_{optimizer}.npz", final | drift | {"loss": losses})
            worst = max(drift, key=lambda name: drift[name])
            print(
                f"{case.name} {optimizer}: loss {losses[:5].mean():.3f} -> {losses[-5:].mean():.3f}; an ulp moves "
                f"{worst.removeprefix('drift:')} by {drift[worst]:.1e}, half of the parameters by more than "
                f"{np.median(list(drift.values())):.1e}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
