"""Make the goldens of the executor with MXNet 1.9.1: printed graphs, and what its executor holds after each call.

Run by hand, in an environment with mxnet==1.9.1 and numpy==1.23.5, from the project's root:

    mxnet-env/bin/python -m tests.goldens.executor.make
"""

import json
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.support.executor_scenarios import PRINTED, SCENARIOS, play


def main() -> None:
    folder = Path(__file__).parent
    printed = {}
    for name, case in PRINTED.items():
        symbol = case.build(mx.sym)
        shapes = dict.fromkeys(symbol.list_arguments(), case.shape)
        printed[name] = symbol.simple_bind(mx.cpu(), grad_req=case.grad_req, **shapes).debug_str()
    (folder / "printed.json").write_text(json.dumps(printed, indent=1) + "\n")
    arrays = {}
    for name, scenario in SCENARIOS.items():
        executor = scenario.build(mx.sym).simple_bind(mx.cpu(), grad_req=scenario.grad_req, **scenario.shapes)

        def read(array: mx.nd.NDArray) -> np.ndarray:
            mx.nd.waitall()  # states are written while others may still read them
            return array.asnumpy()

        for i, record in enumerate(play(scenario, executor, mx.nd.array, read)):
            arrays |= {f"{name}/{i}/{what}": value for what, value in record.items()}
    np.savez_compressed(folder / "scenarios.npz", **arrays)
    print(f"{len(printed)} graphs, {len(SCENARIOS)} scenarios, {len(arrays)} arrays")


if __name__ == "__main__":
    main()
