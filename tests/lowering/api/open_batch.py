"""A case of the table, exported with sizes of its first input left open, beside the same case at fixed sizes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import lowering
from symjax_nnvm.errors import LoweringError, NNVMError
from symjax_nnvm.symbol.symbol import Symbol
from tests.cases import Case
from tests.support.ladder import build

Opened = Mapping[str, tuple[int, ...]]
"""The open axes of inputs by name."""


def exported(case: Case, folder: Path, first: tuple[int, ...]) -> Any:
    """The exported program of a case, its symbol, the values of its inputs, and the open axes of each input by name.

    first: the open axes of the first input. Where the operator wants more than that, what inference says must change
    with them is open, too, or else these axes of every input as long. Raises LoweringError where it refuses all of
    these: all that it said.
    """
    symbol = build(case)
    values = {f"in{i}": value for i, value in enumerate(case.values())}
    values = {name: value for name, value in values.items() if name in symbol.list_inputs()}
    refusals: dict[str, None] = {}
    for opened in _openings(symbol, values, first):
        try:
            program = _export(symbol, values, opened, folder)
        except LoweringError as error:
            refusals[str(error)] = None
        else:
            return program, symbol, values, opened
    raise LoweringError("\n".join(refusals))


def _openings(symbol: Symbol, values: Mapping[str, np.ndarray], axes: tuple[int, ...]) -> Iterator[Opened]:
    sizes = [values["in0"].shape[axis] for axis in axes]
    first: dict[str, tuple[int, ...]] = {"in0": axes}
    tried: list[Opened] = []
    for opened in (
        first,
        first | _follow(symbol, values, axes),
        {
            name: axes
            for name, value in values.items()
            if value.ndim > max(axes) and [value.shape[axis] for axis in axes] == sizes
        },
    ):
        if opened not in tried:
            tried.append(opened)
            yield opened


def _follow(symbol: Symbol, values: Mapping[str, np.ndarray], axes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The axes of other inputs that inference finds to be longer where these axes of the first input are."""
    longer = tuple(size + (i in axes) for i, size in enumerate(values["in0"].shape))
    try:
        args, _, aux = symbol.infer_shape_partial(in0=longer)
    except NNVMError:
        return {}
    found = dict(zip([*symbol.list_arguments(), *symbol.list_auxiliary_states()], [*args, *aux], strict=True))
    return {
        name: changed
        for name, value in values.items()
        if name != "in0" and found[name] and len(found[name]) == value.ndim
        if (changed := tuple(i for i, (a, b) in enumerate(zip(value.shape, found[name], strict=True)) if b == a + 1))
    }


def _export(symbol: Symbol, values: Mapping[str, np.ndarray], opened: Opened, folder: Path) -> Any:
    sizes = dict.fromkeys(size for name, axes in opened.items() for size in (values[name].shape[i] for i in axes))
    names = {size: f"N{i}" for i, size in enumerate(sizes)}  # one name for all sizes that are equal
    shapes = {
        name: tuple(names[size] if i in axes else size for i, size in enumerate(values[name].shape))
        for name, axes in opened.items()
    }
    dtypes = {name: values[name].dtype for name in opened}
    states = set(symbol.list_auxiliary_states())
    rest = {name: value for name, value in values.items() if name not in opened}
    args = {name: value for name, value in rest.items() if name not in states}
    aux = {name: value for name, value in rest.items() if name in states}
    return lowering.export_program(folder / "p", symbol, args, aux, shapes, dtypes=dtypes)


def fixed(symbol: Symbol, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of the network at these sizes. Raises NNVMError where it does not take them."""
    states = set(symbol.list_auxiliary_states())
    args = {name: value for name, value in values.items() if name not in states}
    aux = {name: value for name, value in values.items() if name in states}
    outputs, _ = lowering.compile(symbol)(args, aux, jax.random.key(0))
    return [np.asarray(output) for output in outputs]


def longer(values: Mapping[str, np.ndarray], opened: Opened) -> dict[str, np.ndarray]:
    """The same inputs, one longer along open axes, the first element again."""
    found = dict(values)
    for name, axes in opened.items():
        for axis in axes:
            found[name] = np.concatenate([found[name], np.take(found[name], [0], axis)], axis)
    return found


def compare(case: Case, folder: Path, axes: tuple[int, ...] = (0,), most: int = 2) -> int:
    """How many sizes were compared, at most so many: one more than the case's along each open axis, where the network
    takes that, and the case's own.

    axes: of the first input, that are open. Raises LoweringError where they cannot be, AssertionError where numbers or
    shapes differ.
    """
    program, symbol, values, opened = exported(case, folder, axes)
    needs_key = "key" in program.in_tree.unflatten(program.in_avals)[1]
    compared = 0
    for given in (longer(values, opened), values):
        if compared == most:
            break
        try:
            expected = fixed(symbol, given)
        except NNVMError:
            assert given is not values
            continue
        key = {"key": jax.random.key(0)} if needs_key else {}
        found = program.call(**key, **{name: given[name] for name in opened})
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
            assert ours.dtype == theirs.dtype
            scale = np.max(np.abs(theirs[np.isfinite(theirs)]), initial=1e-3) if theirs.size else 1.0
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * float(scale))
        compared += 1
    return compared
