"""What the rungs of the ladder share: a case as a symbol with named inputs, and its goldens."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol import Symbol
from symjax_nnvm.symbol.symbol import NumpySymbol
from tests.cases import Case, families

GOLDENS = Path(__file__).parents[1] / "goldens"


def all_cases() -> list[tuple[str, Case]]:
    """(family, case) of the whole table."""
    return [(family, case) for family, cases in families().items() for case in cases]


def build(case: Case) -> Symbol:
    """The case's operator named `op`, on variables `in0`, `in1`, …."""
    inputs = [sym.Variable(f"in{i}") for i in range(len(case.inputs))]
    if case.is_numpy:
        return NumpySymbol(getattr(sym, case.op)(*inputs, name="op", **case.params).outputs)
    if case.graph is not None:
        with sym.NameManager():  # automatic names start at 0
            return case.graph(sym, *inputs)
    return getattr(sym, case.op)(*inputs, name="op", **case.params)


def arrays(case: Case, symbol: Symbol) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(arguments, auxiliary states) of the case by name."""
    values = {f"in{i}": value for i, value in enumerate(case.values())}
    aux = set(symbol.list_auxiliary_states())
    return (
        {name: value for name, value in values.items() if name not in aux},
        {name: value for name, value in values.items() if name in aux},
    )


def wrt(case: Case, symbol: Symbol) -> list[str]:
    """Names of the arguments whose gradient the case checks."""
    floats = [i for i, tensor in enumerate(case.inputs) if tensor.dtype.startswith("float")]
    arguments = symbol.list_arguments()
    return [f"in{i}" for i in (floats if case.wrt is None else case.wrt) if f"in{i}" in arguments]


@cache
def _archive(family: str) -> Any:
    return np.load(GOLDENS / "operators" / f"{family.replace('.', '/')}.npz", allow_pickle=False)


def golden(family: str, case: Case) -> dict[str, np.ndarray]:
    """MXNet 1.9.1's arrays of the case: out0, …, grad0, …, aux3, …."""
    prefix = f"{case.id}|"
    archive = _archive(family)
    found = {key.removeprefix(prefix): archive[key] for key in archive.files if key.startswith(prefix)}
    assert found, f"no golden for {case.id}: run tests/goldens/make.py {family}, or say why there is none (no_mxnet)"
    return found
