"""Each operator's case, printed and run where this library is not, has the outputs and gradients that it has here."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

from symjax_nnvm.errors import NNVMError
from symjax_nnvm.symbol.symbol import Symbol
from tests.cases import Case
from tests.lowering.source.operators import both, widened
from tests.support import ladder
from tests.support.printed import Child
from tests.support.traced import evaluated

CASES = [case for _, case in ladder.all_cases()]
_firsts: dict[str, Case] = {}
for _case in CASES:
    _firsts.setdefault(_case.op, _case)
FIRST = list(_firsts.values())
OTHERS = [case for case in CASES if case is not _firsts[case.op]]
SAMPLE, PARTS = 120, 40
KINDS = (
    *("_npi_svd", "_contrib_bipartite_matching", "_sample_multinomial", "_sample_unique_zipfian", "tile"),
    *("_npi_percentile", "_slice_assign_scalar", "_while_loop", "L2Normalization", "_image_random_color_jitter"),
)
"""Operators that need what others do not: results in another order, loops of several samples, total orders, arrays of
keys, tiles, one sorted array, whole numbers without sign, loops that JAX does not differentiate, roots not chosen,
branches that read one table."""

CASES_OF_KINDS = (
    *("gamma:(6,)float16", "IdentityAttachKLSparseReg:(4,3)x(3,):eval", "SliceChannel:num_outputs=1:(2,3)"),
    "Deconvolution:kernel=(1,1),num_filter=2,stride=(2,2):(1,3,3,4)x(3,2,1,1)",
    *("softmin:large:(3,4)", "RNN:mode=gru,state_size=2,num_layers=1:(3,2,3)x(42,)x(1,2,2)"),
)
"""Cases that need what others do not: numbers of a half float beside an array, a gradient of its own at inference, a
list of one array, a dilation without padding, numbers that cancel, a sum of a slice that is broadcast."""

REFUSED = ("Custom",)
"""Operators that are not printed: a user's Python."""

CUT = ("_image_random_hue",)
"""Operators whose whole numbers are floats without what follows the point: one is lower where rounding leaves 7 as
6.9999."""


def failures(child: Child, cases: list[Case], **options: Any) -> list[str]:
    """Return what is wrong with the printed modules of cases. options: of the child."""
    return [f"{case.id}: {wrong}" for case in cases if (wrong := failure(child, case, **options))]


def failure(child: Child, case: Case, **options: Any) -> str:
    """Return what is wrong with a case's module. Numbers that differ in float32 by more than the rounding of the
    largest result may have lost their digits where others cancel: those are as ours in float64."""
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    wrong = compared(child, case, symbol, args, aux, **options)
    if wrong.endswith("other numbers"):
        args, aux = map(widened, (args, aux))
        with jax.enable_x64(True):
            wrong = compared(child, case, symbol, args, aux, **options) and wrong
    return wrong


def compared(
    child: Child, case: Case, symbol: Symbol, args: dict[str, Any], aux: dict[str, Any], **options: Any
) -> str:
    try:
        found = both(child, case, symbol, args, aux, evaluated, **options)
    except NNVMError as error:
        return "" if "cannot be printed" in str(error) and case.op in REFUSED else str(error)
    except AssertionError as error:
        return str(error).splitlines()[0]
    if wrong := difference(found.outputs, found.expected, levels=int(case.op in CUT)):
        return wrong
    wrong = difference(found.gradients, found.expected_gradients)
    return wrong and f"gradient: {wrong}"


def difference(ones: Sequence[Any], others: Sequence[Any], levels: int = 0) -> str:
    """Return how arrays differ in shape, dtype, or by more than the rounding of their largest number. levels: by which
    whole numbers may differ."""
    for one, other in zip(ones, map(np.asarray, others), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{one.dtype}{one.shape} is not {other.dtype}{other.shape}"
        if not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            digits = {2: 4e-3, 8: 1e-10, 16: 1e-10}.get(one.dtype.itemsize, 1e-6)
            is_whole = one.dtype.kind in "iu"
            one, other = one.astype("complex128"), other.astype("complex128")
            scale = max(float(np.nanmax(np.abs(other), initial=0)), 1e-30)
            atol = levels if is_whole else 2 * digits * scale
            if not np.allclose(one, other, rtol=digits, atol=atol, equal_nan=True):
                return "other numbers"
    return ""


@pytest.mark.slow("twenty operators")
@pytest.mark.filterwarnings("ignore::symjax_nnvm.NarrowedDtypeWarning")
def test_a_sample_of_operators_is_the_same_function(child: Child):
    special = [case for case in OTHERS if case.id in CASES_OF_KINDS]
    assert len(special) == len(CASES_OF_KINDS)
    sample = [*FIRST[::SAMPLE], *(case for case in FIRST if case.op in KINDS), *special]
    assert not failures(child, sample, compiled=True)  # op by op, as the others run at night, takes twice as long


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
