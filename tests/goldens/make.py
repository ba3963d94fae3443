"""Make the golden files: every case of tests/cases, run in MXNet 1.9.1.

Run by hand, in an environment of its own, from the project's root:

    python3 -m venv mxnet-env && mxnet-env/bin/pip install mxnet==1.9.1 numpy==1.23.5
    mxnet-env/bin/python -m tests.goldens.make [FAMILY ...]

For each case it stores the visible outputs, the gradient of every input that is checked, and the auxiliary states after
one forward and backward: arrays `{case id}|out0`, `|grad0`, `|aux0` in `tests/goldens/{family}.npz`.
"""

from __future__ import annotations

import os
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx  # type: ignore[import-not-found]

from tests.cases import Case, families

HERE = Path(__file__).parent


def run(case: Case) -> dict[str, np.ndarray]:
    """The case in MXNet: arrays by name. Raises mx.MXNetError when MXNet cannot run it."""
    values = case.values()
    names = [f"in{i}" for i in range(len(values))]
    function = find(case.op)
    symbol = function(*[mx.sym.Variable(name) for name in names], name="op", **case.params)
    aux_names = set(symbol.list_auxiliary_states())
    arrays = {name: mx.nd.array(value, dtype=value.dtype) for name, value in zip(names, values, strict=True)}
    used = set(symbol.list_arguments()) | aux_names
    wrt = [
        i
        for i, value in enumerate(values)
        if (value.dtype.kind == "f" if case.wrt is None else i in case.wrt) and names[i] not in aux_names
    ]
    args = {name: array for name, array in arrays.items() if name in used and name not in aux_names}
    aux = {name: arrays[name] for name in aux_names}
    grads = {names[i]: mx.nd.zeros(values[i].shape, dtype=values[i].dtype) for i in wrt if case.is_train}
    executor = symbol.bind(
        mx.cpu(), args, args_grad=grads, grad_req={n: "write" if n in grads else "null" for n in args}, aux_states=aux
    )
    outputs = executor.forward(is_train=case.is_train)
    stored = {f"out{i}": output.asnumpy() for i, output in enumerate(outputs)}
    if grads:
        heads = case.head_grads([output.shape for output in outputs])
        head_arrays = [mx.nd.array(head, dtype=output.dtype) for head, output in zip(heads, outputs, strict=True)]
        executor.backward(head_arrays, is_train=case.is_train)
        stored |= {f"grad{i}": executor.grad_dict[names[i]].asnumpy() for i in wrt}
    mx.nd.waitall()
    stored |= {f"aux{names.index(name)}": executor.aux_dict[name].asnumpy() for name in aux_names}
    return stored


def find(op: str) -> Any:
    """MXNet's function of an operator; `_contrib_` ones are kept apart, under the rest of their names."""
    places = ((mx.sym, op), (mx.sym._internal, op), (mx.sym.contrib, op.replace("_contrib_", "", 1)))
    return next(getattr(module, name) for module, name in places if hasattr(module, name))


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """An .npz that is the same for the same arrays: no timestamps."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(arrays):
            buffer = BytesIO()
            np.save(buffer, arrays[name], allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED)


def main(chosen: list[str]) -> int:
    """Make the chosen families' files (default: all). Returns the number of cases that MXNet refused."""
    refused = 0
    for family, cases in families().items():
        if chosen and family not in chosen:
            continue
        arrays: dict[str, np.ndarray] = {}
        for case in cases:
            if case.no_mxnet:
                continue
            try:
                arrays |= {f"{case.id}|{name}": array for name, array in run(case).items()}
            except (mx.MXNetError, StopIteration, TypeError, ValueError) as error:
                refused += 1
                print(f"REFUSED {case.id}: {str(error).strip().splitlines()[-1][:200]}", file=sys.stderr)
        save(HERE / f"{family}.npz", arrays)
        print(f"{family}: {len(cases)} cases, {len(arrays)} arrays, {(HERE / f'{family}.npz').stat().st_size} bytes")
    return refused


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
