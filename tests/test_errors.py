"""How errors are worded: safe on terminals, names in bounded lists, and the closest of those that were not found."""

import time

import pytest

from symjax_nnvm.errors import NNVMError, closest, did_you_mean, explain, listed, plain_list, printable, printable_lines
from symjax_nnvm.ir.op import list_all_names

HOSTILE = "a\x1b]0;title\x07\x9b31m\u202eb\u2066c\u200f\r\x00\ud800"


def family(cls: type[NNVMError]) -> list[type[NNVMError]]:
    """The classes of errors that take a message alone; others carry a report, or say what to do for all of a kind."""
    return [cls, *(each for sub in cls.__subclasses__() for each in family(sub) if each.__name__ not in CARRYING)]


CARRYING = ("GradientsDisagreeError", "TooWideError")


def test_every_errors_text_is_safe_on_a_terminal():
    for cls in family(NNVMError):
        text = str(cls(f"node {HOSTILE}\n\tsecond line"))
        assert text == f"node {printable(HOSTILE)}\n\tsecond line", cls
        assert "".join(text.split()).isprintable()


def test_line_ends_stay_in_a_text_of_lines_and_not_in_a_name():
    assert printable("a\nb\tc") == "a\\nb\\tc"
    assert printable_lines("a\nb\tc\rd\x85e") == "a\nb\tc\\rd\\x85e"


def test_a_list_of_names_ends():
    assert plain_list(["a", "b"]) == "a, b"
    assert plain_list([]) == "none"
    assert plain_list(f"n{i}" for i in range(8)) == "n0, n1, n2, n3, n4, n5, n6, n7"
    assert plain_list(f"n{i}" for i in range(40)) == "n0, n1, n2, n3, n4, n5, n6, n7, … (40 in all)"
    assert plain_list(range(5), 2) == "0, 1, … (5 in all)"
    assert len(plain_list(["x" * 5000] * 9)) < 800
    assert plain_list(["a\x1b\nb"]) == "a\\x1b\\nb"


def test_names_are_listed_as_python_lists_them_as_long_as_they_are_few():
    assert listed(["a", "b\x1b"]) == "['a', 'b\\x1b']"
    assert listed(["a"] * 39) == "['a', 'a', 'a', 'a', 'a', 'a', 'a', 'a' and 31 more]"
    assert explain("x", got=["a"] * 10).endswith("got ['a', 'a', 'a', 'a', 'a', 'a', 'a', 'a' and 2 more].")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Convolutoin", "Convolution"),
        ("convolution", "Convolution"),
        ("fullyconnected", "FullyConnected"),
        ("Relu", "relu"),
        ("soft_max", "softmax"),
        ("_contrib_boxnms", "_contrib_box_nms"),
    ],
)
def test_the_closest_operator_comes_first(name: str, meant: str):
    assert closest(name, list_all_names())[0] == meant
    assert did_you_mean(name, list_all_names()).startswith(f"Did you mean {meant!r}")


def test_nothing_is_suggested_for_what_nothing_is_like():
    assert did_you_mean("qqqqqqqq", ["conv", "fc"]) == ""
    assert closest("", ["conv"]) == closest("___", ["conv"]) == []


@pytest.mark.nightly("compiles")
def test_names_of_a_hostile_file_do_not_take_long():
    began = time.perf_counter()
    assert closest("a" * 4000, ["a" * 4000 + str(i) for i in range(1000)]) == []
    closest("ab" * 60, ["ba" * 60 + str(i) for i in range(100_000)])
    assert time.perf_counter() - began < 20
