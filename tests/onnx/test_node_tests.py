"""ONNX' own tests of its operators: what is read agrees, and what is not read is listed with a reason."""

import re
from collections import Counter

import onnx
import pytest

from tests.onnx.node_tests import OUTCOMES, RIGHT, ROUNDED, all_outcomes, cases, listed
from tests.support.pages import text_of

GROUPS = ("a", "bc", "defgh", "ijkl", "mno", "pqr", "s", "tuvwxyz")
"""First letters of the tests, which begin with their operator: as many of them in each as take a few seconds."""

USUAL = "tuvwxyz"

OTHERS = pytest.mark.nightly("climbs another ladder")


ALWAYS = (
    *("averagepool_2d_ceil_last_window_starts_on_pad", "flatten_negative_axis3", "hardmax_axis_1", "lstm_batchwise"),
    *("lstm_with_initial_bias", "maxpool_2d_ceil_output_size_reduce_by_one", "mod_int64_fmod", "top_k_smallest"),
    "split_1d_uneven_split_opset18",
)
"""Tests of what no operator of ours comes to when it comes back from a file: they run with the usual ones."""


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("letters", [pytest.param(group, marks=[OTHERS] * (group != USUAL)) for group in GROUPS])
def test_what_is_read_agrees_and_what_is_not_is_listed(letters: str):
    """The list is of one version of the package onnx; of another's tests none may be wrong."""
    more = ALWAYS if letters == USUAL else ()
    tests = cases(large=letters != USUAL)
    found = all_outcomes({name: test for name, test in tests.items() if name[0] in letters or name in more})
    assert {name: row for name, row in found.items() if row[0] not in OUTCOMES} == {}
    version, expected = listed()
    if version == onnx.__version__:
        assert found.keys() >= {*more}
        for name, (outcome, said) in found.items():
            known = expected.get(name, RIGHT)
            assert outcome == known or {outcome, known} == {RIGHT, ROUNDED}, (
                f"{name} is {outcome!r}, listed as {known!r}: {said}. python -m tests.onnx.node_tests lists anew."
            )


def test_the_page_has_the_lists_numbers():
    page = text_of("docs/guide/onnx.md").partition("### ONNX' own tests")[2]
    total = int(re.search(r"The ([\d,]+) node tests", page).group(1).replace(",", ""))  # pyright: ignore
    version, expected = listed()
    counts = Counter(expected.values())
    counts[RIGHT] = total - sum(counts.values())
    shown = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    assert sorted(map(int, shown), reverse=True) == sorted(counts.values(), reverse=True)
    assert f"onnx {version} " in page


@pytest.mark.nightly("compiles")
def test_the_list_has_no_other_tests():
    version, expected = listed()
    assert set(expected.values()) <= OUTCOMES.keys() - {RIGHT}
    assert {name[0] for name in cases()} <= set("".join(GROUPS))
    if version == onnx.__version__:
        assert expected.keys() - cases().keys() == set()
