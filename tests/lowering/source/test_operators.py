"""Each operator's case, printed and run where this library is not, has the outputs that it has here."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm.errors import NNVMError
from tests.cases import Case
from tests.support import ladder
from tests.support.printed import Child

KEY = jax.random.key(7)
CASES = [case for _, case in ladder.all_cases()]
_firsts: dict[str, Case] = {}
for _case in CASES:
    _firsts.setdefault(_case.op, _case)
FIRST = list(_firsts.values())
OTHERS = [case for case in CASES if case not in FIRST]
SAMPLE, PARTS = 24, 40

REFUSED = ("Custom",)
"""Operators that are not printed: a user's Python."""


def failures(child: Child, cases: list[Case]) -> list[str]:
    """Return what is wrong with the printed modules of cases."""
    return [f"{case.id}: {wrong}" for case in cases if (wrong := failure(child, case))]


def failure(child: Child, case: Case) -> str:
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    shapes = {name: value.shape for name, value in args.items()}
    dtypes = {name: value.dtype.name for name, value in args.items()}
    try:
        source = lowering.to_source(symbol, aux=aux, shapes=shapes, dtypes=dtypes)
    except NNVMError as error:
        return "" if "cannot be printed" in str(error) and case.op in REFUSED else str(error)
    options = {"train": case.is_train} if "train=False" in source else {}
    options |= {"seed": 7} if "key=None" in source else {}
    try:
        data = [args[name] for name in symbol.list_arguments()]
        outputs, _, _ = child.run(source, aux, data, **options)
    except AssertionError as error:
        return str(error).splitlines()[0]
    expected, _ = lowering.to_jax(symbol, is_train=case.is_train, platform="any")(args, aux, KEY)
    for one, other in zip(outputs, map(np.asarray, expected), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{one.dtype}{one.shape} is not {other.dtype}{other.shape}"
        if not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            scale = max(float(np.nanmax(np.abs(other.astype("float64")), initial=0)), 1e-30)
            np_one, np_other = (each.astype("complex128") for each in (one, other))
            if not np.allclose(np_one, np_other, rtol=1e-6, atol=2e-6 * scale, equal_nan=True):
                return "other numbers"
    return ""


@pytest.mark.slow("twenty-five operators")
@pytest.mark.filterwarnings("ignore::symjax_nnvm.NarrowedDtypeWarning")
def test_a_sample_of_operators_is_the_same_function(child: Child):
    assert not failures(child, FIRST[::SAMPLE])


@pytest.mark.nightly("every operator")
@pytest.mark.filterwarnings("ignore::symjax_nnvm.NarrowedDtypeWarning")
@pytest.mark.parametrize("part", range(1, SAMPLE))
def test_every_operator_is_the_same_function(child: Child, part: int):
    assert not failures(child, FIRST[part::SAMPLE])


@pytest.mark.nightly("every case")
@pytest.mark.filterwarnings("ignore::symjax_nnvm.NarrowedDtypeWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_is_the_same_function(child: Child, part: int):
    assert not failures(child, OTHERS[part::PARTS])
