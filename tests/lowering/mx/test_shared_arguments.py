"""Docstrings whose arguments are explained in one place."""

from __future__ import annotations

from typing import Any

from lowering import mx
from lowering.mx.shared_arguments import explained_by


def first(a: Any, b: Any) -> None:
    """Return nothing.

    Args:
        a: the first number, whose explanation
            needs two lines.
        b: the second number.
    """


def test_a_function_explains_its_own_arguments_and_takes_the_others():
    @explained_by(first)
    def second(b: Any, c: Any, a: Any) -> None:
        """Do nothing.

        Args:
            b: another number.
            c: a third one.

        Raises:
            TypeError: never.
        """

    other = "    a: the first number, whose explanation\n        needs two lines."
    rows = f"    b: another number.\n    c: a third one.\n{other}"
    assert second.__doc__ == f"Do nothing.\n\nArgs:\n{rows}\n\nRaises:\n    TypeError: never."


def test_a_list_is_made_where_there_is_none():
    @explained_by(first)
    def second(b: Any) -> None:
        """Do nothing."""

    assert second.__doc__ == "Do nothing.\n\nArgs:\n    b: the second number."


def test_a_function_without_a_docstring_stays_without():
    @explained_by(first)
    def second(b: Any) -> None:
        pass

    assert second.__doc__ is None


def test_layers_of_one_two_and_three_axes_name_their_own_layouts():
    assert 'layout: the order of the axes: "NCHW" or "NHWC".' in (mx.gluon.nn.Conv2D.__doc__ or "")
    assert 'layout: the order of the axes: "NCW".' in (mx.gluon.nn.Conv1DTranspose.__doc__ or "")
