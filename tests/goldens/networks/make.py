"""Make the golden networks: MXNet 1.9.1's files of each, what goes in, and what MXNet computes. Run by hand.

    mxnet-env/bin/python -m tests.goldens.networks.make [NAME ...]

For each network: `NAME-symbol.json`, `NAME-0000.params`, and `NAME.npz` with the inputs (`in|data`), the outputs at
inference (`out|0`), and where a gradient is taken the head gradients (`head|0`), the outputs in training (`train|0`),
gradients (`grad|conv_weight`) and states after it (`aux|bn_moving_mean`).
"""

import sys
import zlib
from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.goldens.make import save
from tests.goldens.networks.gluon_networks import BLOCKS
from tests.goldens.networks.networks import NETWORKS, NO_GRADIENT, Network

HERE = Path(__file__).parent


def parameter(rng: np.random.RandomState, name: str, shape: tuple[int, ...]) -> Any:
    """A parameter's value; variances and scales are positive."""
    positive = name.endswith(("_var", "gamma"))
    return mx.nd.array(rng.uniform(0.5, 1.5, shape) if positive else rng.normal(size=shape) * 0.4)


def run(symbol: Any, args: dict[str, Any], aux: dict[str, Any], inputs: list[str], gradient: bool) -> dict[str, Any]:
    """What MXNet computes: arrays by their names in the file."""
    found = {f"in|{name}": args[name].asnumpy() for name in inputs}
    executor = symbol.bind(mx.cpu(), args, aux_states={name: value.copy() for name, value in aux.items()})
    found |= {f"out|{i}": output.asnumpy() for i, output in enumerate(executor.forward(is_train=False))}
    if not gradient:
        return found
    wrt = [name for name in symbol.list_arguments() if name not in inputs]
    grads = {name: mx.nd.zeros(args[name].shape) for name in wrt}
    requests = {name: "write" if name in grads else "null" for name in args}
    states = {name: value.copy() for name, value in aux.items()}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads, grad_req=requests, aux_states=states)
    outputs = executor.forward(is_train=True)
    rng = np.random.RandomState(0)
    heads = [mx.nd.array(rng.uniform(-1, 1, output.shape)) for output in outputs]
    executor.backward(heads)
    for kind, arrays in (("train", outputs), ("head", heads)):
        found |= {f"{kind}|{i}": array.asnumpy() for i, array in enumerate(arrays)}
    for kind, named in (("grad", executor.grad_dict), ("aux", executor.aux_dict)):
        found |= {f"{kind}|{name}": array.asnumpy() for name, array in named.items() if array is not None}
    return found


def checkpoint(name: str, network: Network) -> None:
    """The files of a symbol."""
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    symbol, inputs = network
    # Partly, because MXNet does not know the shapes of what while_loop and cond give.
    arguments, _, states = symbol.infer_shape_partial(**{n: value.shape for n, value in inputs.items()})
    args = {n: mx.nd.array(value) for n, value in inputs.items()}
    for argument, shape in zip(symbol.list_arguments(), arguments, strict=True):
        args.setdefault(argument, parameter(rng, argument, shape))
    aux = {n: parameter(rng, n, s) for n, s in zip(symbol.list_auxiliary_states(), states, strict=True)}
    params = {n: value for n, value in args.items() if n not in inputs}
    mx.model.save_checkpoint(str(HERE / name), 0, symbol, params, aux)
    save(HERE / f"{name}.npz", run(symbol, args, aux, list(inputs), name not in NO_GRADIENT))


def export(name: str) -> None:
    """The files of a Gluon block: the export's, and `save_parameters`'s and (deprecated) `save_params`'s."""
    make, make_input = BLOCKS[name]
    mx.random.seed(zlib.crc32(name.encode()))
    net, data = make(), make_input()
    net.initialize()
    net.hybridize()
    net(data)
    for value in net.collect_params().values():
        value.set_data(parameter(np.random.RandomState(zlib.crc32(value.name.encode())), value.name, value.shape))
    output = net(data)
    net.export(str(HERE / name))
    net.save_parameters(str(HERE / f"{name}_structural.params"))
    net.collect_params().save(str(HERE / f"{name}_stripped.params"), strip_prefix=net.prefix)
    save(HERE / f"{name}.npz", {"in|data": data.asnumpy(), "out|0": output.asnumpy()})


def main(chosen: list[str]) -> None:
    """Make the chosen networks' files (default: all)."""
    for network in NETWORKS:
        name = network.__name__
        if not chosen or name in chosen:
            with mx.name.NameManager(), mx.AttrScope():
                checkpoint(name, network(np.random.RandomState(zlib.crc32(name.encode()))))
    for name in BLOCKS:
        if not chosen or name in chosen:
            export(name)
    print(f"{sum(path.stat().st_size for path in HERE.iterdir() if path.is_file())} bytes in {HERE}")


if __name__ == "__main__":
    main(sys.argv[1:])
