"""Make the golden files: every case of tests/cases, run in MXNet 1.9.1.

Run by hand, in an environment of its own, from the project's root:

    python3.11 -m venv mxnet-env && mxnet-env/bin/pip install mxnet==1.9.1 numpy==1.23.5
    mxnet-env/bin/python -m tests.goldens.make [FAMILY ...]

For each case it stores the visible outputs, the gradient of every input that is checked, and the auxiliary states after
one forward and backward: arrays `{case id}|out0`, `|grad0`, `|aux0` below `tests/goldens/operators/`,
in `nn/pooling.npz` for the family `nn.pooling`.
"""

import ctypes
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.cases import Case, families

HERE = Path(__file__).parent

STATES = {"BatchNorm_v1": ("moving_mean", "moving_var"), "IdentityAttachKLSparseReg": ("moving_avg",)}
"""Auxiliary states, the last inputs, that MXNet's functions take by keyword alone."""


MODULES = (
    (mx.sym, ""),
    (mx.sym._internal, ""),
    (mx.sym.contrib, "_contrib_"),
    (mx.sym.linalg, "_linalg_"),
    (mx.sym.image, "_image_"),
)
"""MXNet's modules of symbol functions, and the prefix that operators' names lose there."""


def operator_function(name: str) -> Any:
    """MXNet's symbol function of an operator; None of an operator of its NumPy dialect, whose functions have others."""
    for module, prefix in MODULES:
        found = getattr(module, name.removeprefix(prefix), None) if name.startswith(prefix) else None
        if found is not None:
            return found
    return None


def variadic_parameter(handle: ctypes.c_void_p) -> str:
    """The parameter of an operator that says how many inputs there are; empty where their number is fixed."""
    texts, count = ctypes.POINTER(ctypes.c_char_p), ctypes.c_char_p()
    size, fields = mx.base.mx_uint(), [ctypes.c_char_p(), ctypes.c_char_p()]
    lists, result = [texts(), texts(), texts()], ctypes.c_char_p()
    answers = (*fields, size, *lists, count, result)
    mx.base.check_call(mx.base._LIB.MXSymbolGetAtomicSymbolInfo(handle, *map(ctypes.byref, answers)))
    return mx.base.py_str(count.value)


def compose(case: Case, inputs: list[mx.sym.Symbol]) -> mx.sym.Symbol:
    """The case's operator named `op`, on the inputs."""
    if case.graph is not None:
        return case.graph(mx.sym, *inputs)
    states = dict(zip(reversed(STATES.get(case.op, ())), reversed(inputs), strict=False))
    function = operator_function(case.op)
    try:
        if function is not None:
            return function(*inputs[: len(inputs) - len(states)], name="op", **states, **case.params)
    except mx.MXNetError as error:
        if "Not enough argument to call operator" not in str(error):
            raise
    # MXNet's functions pass inputs by name, which fails where the operator itself does not know the names of its own.
    handle = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.NNGetOpHandle(mx.base.c_str(case.op), ctypes.byref(handle)))
    count = variadic_parameter(handle)
    params = {**({count: len(inputs)} if count else {}), **case.params}
    keys, values = list(params), [str(value) for value in params.values()]
    return mx.sym._internal._symbol_creator(handle.value, inputs, {}, keys, values, "op", False, False)


def run(case: Case) -> dict[str, np.ndarray]:
    """The case in MXNet: arrays by name. Raises mx.MXNetError when MXNet cannot run it."""
    with mx.util.np_shape(case.is_numpy):
        return run_in_its_shapes(case)


def run_in_its_shapes(case: Case) -> dict[str, np.ndarray]:
    """The case in MXNet, which takes shapes as the case's dialect does."""
    values = case.values()
    if case.writes_over:
        return run_outside_of_a_graph(case, values)
    names = [f"in{i}" for i in range(len(values))]
    symbol = compose(case, [mx.sym.Variable(name) for name in names])
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


def run_outside_of_a_graph(case: Case, values: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The case in MXNet, for an operator that writes its outputs over inputs; other inputs that change are states."""
    arrays = [mx.nd.array(value, dtype=value.dtype) for value in values]
    outputs = [arrays[i].copy() for i in case.writes_over]
    function = getattr(mx.nd, case.op, None) or getattr(mx.nd._internal, case.op)
    function(*arrays, out=outputs, **case.params)
    mx.nd.waitall()
    after = [array.asnumpy() for array in arrays]
    changed = {i: array for i, array in enumerate(after) if not np.array_equal(array, values[i])}
    return {f"out{i}": output.asnumpy() for i, output in enumerate(outputs)} | {
        f"aux{i}": a for i, a in changed.items()
    }


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
            except (mx.MXNetError, AttributeError, TypeError, ValueError) as error:
                refused += 1
                print(f"REFUSED {case.id}: {str(error).strip().splitlines()[-1][:200]}", file=sys.stderr)
        path = HERE / "operators" / f"{family.replace('.', '/')}.npz"
        path.parent.mkdir(exist_ok=True)
        save(path, arrays)
        print(f"{family}: {len(cases)} cases, {len(arrays)} arrays, {path.stat().st_size} bytes")
    return refused


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
