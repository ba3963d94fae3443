"""Operator parameters: accepted spellings, rejected ones, bounds, and the wording of errors."""

import dataclasses
import math
import re
import typing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError, ParamError
from symjax_nnvm.ir.op import list_unique_ops
from symjax_nnvm.ir.params import Params, Tuple, param, schema_of, value_to_text


def parse(annotation: Any, text: str) -> Any:
    """Parse one parameter `p` of a type."""
    cls = dataclasses.make_dataclass("One", [("p", annotation)], frozen=True, kw_only=True)
    return schema_of(cls).parse({"p": text}, "toy").p


Activation = Literal["relu", "valid", "float32"]

ACCEPTED = [
    (bool, {"True": True, "False": False, "true": True, "false": False, "TRUE": True, "1": True, "0": False}),
    (bool | None, {"True": True, "0": False, " true": True, "None": None, "none": None}),
    (int, {"5": 5, " 5": 5, "5 ": 5, "+5": 5, "-5": -5, "007": 7}),
    (int | None, {"5": 5, "2L": 2, "-2L": -2, "None": None, "None ": None}),
    (float, {"0.1": 0.1, "1e-05": 1e-5, ".1": 0.1, "1.": 1.0, "1": 1.0, "0.1f": 0.1, " 0.1": 0.1, "1E+3": 1000.0}),
    (float, {"inf": math.inf, "-inf": -math.inf, "Infinity": math.inf, "0.0": 0.0, "-0": 0.0, "0e5": 0.0}),
    (float | None, {"None": None, "0.5": 0.5, "0.5 ": 0.5, "-1e-3": -0.001}),
    (Tuple, {"(3, 3)": (3, 3), "(3,3)": (3, 3), "[3,3]": (3, 3), "(3,)": (3,), "( 3 , 3 )": (3, 3), "(3L,3L)": (3, 3)}),
    (Tuple, {"3": (3,), "-1": (-1,), "()": (), "[]": (), "[3,3)": (3, 3), " (3,3) ": (3, 3)}),
    (Tuple | None, {"None": None, "()": (), "(2,)": (2,)}),
    (tuple[int | None, ...], {"(None, 2)": (None, 2), "[None,2]": (None, 2), "(1L,2L)": (1, 2)}),
    (tuple[float, ...], {"(0.5, 1)": (0.5, 1.0), "0.5": (0.5,)}),
    (tuple[tuple[int, ...], ...], {"((1, 2), (3,))": ((1, 2), (3,)), "[[1,2],]": ((1, 2),), "()": ()}),
    (Activation, {"relu": "relu", "valid": "valid", "float32": "float32"}),
    (Activation | None, {"relu": "relu", "None": None}),
    (str, {"": "", " kept ": " kept ", "None": "None", "(1,": "(1,"}),
]

REJECTED = [
    (bool, ["", "None", "yes", "1.0", "2"]),
    (bool | None, ["yes", ""]),
    (int, ["5.0", "5L", "0x5", "5e0", "None", "", "٣", "--5", "1_000", "True"]),
    (int | None, ["none", "2.0", "", "nOne"]),
    (float, ["0x1p3", "None", "True", "", "1e400", "-1e400", "1e-400", "1,5", ".", "1e", "0.1ff", "1_0.0", "٣.0"]),
    (float | None, ["inf", "nan", "0.5f", "none", ""]),
    (Tuple, ["3,3", "(3 3)", "(3.5,1)", "{3,3}", "(3,3", "(3,3)x", "", "3L", "((3,3),3)", "(3,,3)", "(,)", "(None,)"]),
    (tuple[int | None, ...], ["(None, 2", "(none,)", "None, 2"]),
    (tuple[tuple[int, ...], ...], ["(1, 2)", "((1, 2)", "1", "((1, x),)", "(1, (2,))", ""]),
    (Activation, ["Relu", "0", "", "None"]),
    (Activation | None, ["none", "", "RELU"]),
]


def cases(table: list) -> list:
    return [pytest.param(a, text, id=f"{getattr(a, '__name__', a)}-{text!r}") for a, texts in table for text in texts]


@pytest.mark.parametrize(("annotation", "text"), cases(ACCEPTED))
def test_accepted_spelling(annotation: Any, text: str):
    (expected,) = [texts[text] for a, texts in ACCEPTED if a == annotation and text in texts]
    value = parse(annotation, text)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(("annotation", "text"), cases(REJECTED))
def test_rejected_spelling(annotation: Any, text: str):
    with pytest.raises(ParamError, match=rf"Invalid Parameter format for p expect .* but value='{re.escape(text)}'"):
        parse(annotation, text)


def test_nan_is_a_float():
    assert math.isnan(parse(float, "nan"))


def test_text_is_never_evaluated():
    with pytest.raises(ParamError, match="Invalid Parameter format"):
        parse(Tuple, "(__import__('os'),)")


# -- schemas ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PoolParams:
    kernel: tuple[int, ...] = param(ge=1, doc="window")
    stride: tuple[int, ...] = ()
    rate: float = param(0.5, ge=0, lt=1)
    kind: Literal["max", "avg"] = "max"
    axis: int | None = param(None, alias="dim")

    def check(self) -> str | None:
        """Refuse strides that do not fit."""
        if self.stride and len(self.stride) != len(self.kernel):
            return "kernel and stride have different lengths"
        return None


def pool(**attrs: str) -> Any:
    return schema_of(PoolParams).parse(attrs, "Pool", "pool1")


def test_left_out_parameters_take_their_defaults():
    assert pool(kernel="(2,2)") == PoolParams(kernel=(2, 2))


def test_none_leaves_out_the_tuples_of_every_operator():
    """MXNet reads an unknown shape; of `slice(step=None)`, `Dropout(axes=None)` and five more it means left out."""
    seen = 0
    for op in list_unique_ops():
        for field in op.params.fields.values() if op.params else ():
            if typing.get_origin(field.annotation) is tuple and not field.required:
                assert field.parse("None") == field.default, (op.name, field.name)
                seen += 1
    assert seen > 50
    with pytest.raises(ParamError, match="Invalid Parameter format for reps"):
        sym.tile(sym.Variable("x"), reps=None)  # pyright: ignore[reportArgumentType]


def test_required_parameter_is_named():
    with pytest.raises(ParamError) as caught:
        pool(kind="avg")
    assert str(caught.value) == (
        "Required parameter kernel of tuple of int is not presented, in operator Pool(name='pool1', kind='avg'). "
        "Pass kernel=."
    )
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, NNVMError)


def test_unknown_parameter_lists_the_known_ones():
    with pytest.raises(ParamError) as caught:
        pool(kernel="(2,2)", pads="1")
    assert str(caught.value) == (
        "Cannot find argument 'pads', Possible Arguments: kernel, stride, rate, kind, axis; in operator 'Pool', "
        "node 'pool1'. An attribute of your own must be spelled __pads__."
    )


@pytest.mark.parametrize("key", ["__lr_mult__", "__a__"])
def test_attributes_between_double_underscores_are_the_users(key: str):
    assert pool(kernel="(2,2)", **{key: "anything"}) == PoolParams(kernel=(2, 2))


@pytest.mark.parametrize("key", ["____", "__a", "a__", "_a_"])
def test_other_underscores_are_not(key: str):
    with pytest.raises(ParamError, match=f"Cannot find argument '{key}'"):
        pool(kernel="(2,2)", **{key: "anything"})


def test_malformed_parameter_names_type_value_and_operator():
    with pytest.raises(ParamError) as caught:
        pool(kernel="(2,2)", rate="fast")
    assert str(caught.value) == (
        "Invalid Parameter format for rate expect float ≥ 0 < 1 but value='fast', "
        "in operator Pool(name='pool1', kernel='(2,2)', rate='fast')."
    )


def test_enum_lists_its_words():
    with pytest.raises(ParamError, match="for kind expect one of 'max', 'avg' but value='sum'"):
        pool(kernel="(2,2)", kind="sum")


@pytest.mark.parametrize("rate", ["-0.1", "1", "nan", "inf"])
def test_value_out_of_range_names_the_bounds(rate: str):
    with pytest.raises(ParamError) as caught:
        pool(kernel="(2,2)", rate=rate)
    assert str(caught.value) == (
        f"Value {rate} for Parameter rate is out of range; in operator 'Pool', node 'pool1', parameter 'rate'; "
        f"expected float ≥ 0 < 1; got {rate}."
    )


def test_bounds_apply_to_every_element_of_a_tuple():
    with pytest.raises(ParamError, match="Value .2, 0. for Parameter kernel is out of range"):
        pool(kernel="(2, 0)")


def test_contradictory_values_are_explained():
    with pytest.raises(ParamError, match="kernel and stride have different lengths; in operator 'Pool', node 'pool1'"):
        pool(kernel="(2,2)", stride="(1,)")


def test_alias_of_a_parameter_is_understood():
    assert pool(kernel="(2,)", dim="1").axis == 1
    assert schema_of(PoolParams).canonical("dim") == "axis"
    assert schema_of(PoolParams).canonical("kernel") == "kernel"


@pytest.mark.parametrize("value", [2, [2], None])
def test_values_that_are_no_text_are_refused(value: Any):
    with pytest.raises(
        ParamError, match="A parameter must be text; in operator 'Pool', node 'pool1', parameter 'rate'"
    ):
        pool(kernel="(2,)", rate=value)


def test_overlong_text_is_refused():
    with pytest.raises(ParamError, match="Parameter too long.*got 70000 characters"):
        pool(kernel="1" * 70000)


def test_equal_attributes_give_the_same_object():
    assert pool(kernel="(2,2)") is pool(kernel="(2,2)")
    assert schema_of(PoolParams) is schema_of(PoolParams)


def test_failure_is_not_remembered_under_another_node():
    for name in ("first", "second"):
        with pytest.raises(ParamError, match=f"name='{name}'"):
            schema_of(PoolParams).parse({"kernel": "bad"}, "Pool", name)


def test_unsupported_annotation_is_a_programming_error():
    with pytest.raises(TypeError, match="no parameter type"):
        _ = schema_of(dataclasses.make_dataclass("Bad", [("p", dict)])).fields


# -- values to text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((3, 3), "(3, 3)"),
        ((3,), "(3,)"),
        ((), "()"),
        ([1, 2], "[1, 2]"),
        (True, "True"),
        (None, "None"),
        (0.1, "0.1"),
        (1e-5, "1e-05"),
        ("word", "word"),
        (np.float32(0.1), "0.1"),
        (np.int64(3), "3"),
        (np.bool_(True), "True"),
        ((np.int32(2), np.int32(3)), "(2, 3)"),
        (np.array([1, 2]), "[1, 2]"),
        (np.array(2.5), "2.5"),
        (np.float16, "float16"),
        (np.dtype("int8"), "int8"),
        ((None, 2), "(None, 2)"),
    ],
)
def test_values_are_written_as_mxnet_writes_them(value: Any, text: str):
    assert value_to_text(value) == text


@pytest.mark.slow("computes much")
@given(st.lists(st.integers(-(2**40), 2**40)).map(tuple))
def test_tuples_survive_text(value: tuple[int, ...]):
    assert parse(Tuple, value_to_text(value)) == value


@pytest.mark.slow("has many cases")
@given(st.floats(allow_nan=False, width=64).filter(lambda x: x == 0 or abs(x) > 1e-300))
def test_floats_survive_text(value: float):
    assert parse(float, value_to_text(value)) == value


@pytest.mark.slow("has many cases")
@given(st.one_of(st.none(), st.integers(-(2**63), 2**63)))
def test_optional_integers_survive_text(value: int | None):
    assert parse(int | None, value_to_text(value)) == value


@pytest.mark.slow("computes much")
@given(st.text(max_size=20))
def test_any_text_parses_or_is_refused_with_a_parameter_error(text: str):
    for annotation, _ in REJECTED:
        try:
            parse(annotation, text)
        except ParamError:
            continue


def test_parameters_are_values():
    class Window(Params):
        size: int
        pad: tuple[int, ...] = ()

    one = Window(size=3)
    assert (one, hash(one)) == (Window(size=3, pad=()), hash(Window(size=3)))
    assert one != dataclasses.replace(one, pad=(1,)) == Window(size=3, pad=(1,))
    assert repr(one).endswith("Window(size=3, pad=())")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.size = 4  # pyright: ignore[reportAttributeAccessIssue]
    mistakes: list[dict[str, Any]] = [{}, {"size": 1, "sise": 2}]
    for wrong in mistakes:
        with pytest.raises(TypeError, match=r"Window\(size, pad\) got"):
            Window(**wrong)
