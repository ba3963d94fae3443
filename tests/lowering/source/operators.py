"""Each operator's case, printed and run where this library is not, beside what it is here, in float64:
`python -m tests.lowering.source.operators FILE [OPERATOR ...]`.

FILE gets a line of JSON for each case, the first case of each operator before the others; cases that have a line are
not run again, so that an hour's work may be done in parts. The table counts cases whose outputs, and gradients, have
the same bits, or differ by how much of the largest number, and says what is not printed. Each is one program that XLA
compiles. The outputs are the same primitives; the gradients are not: those of the module are the derivative by JAX,
ours are the program of MXGradient.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lowering
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.attributes import FGradient
from symjax_nnvm.symbol.symbol import Symbol
from tests.cases import Case
from tests.support import ladder
from tests.support.printed import Child

KEY = jax.random.key(7)
NO_DERIVATIVE = ("there is no derivative", "the derivative does not exist")
"""What cases say whose gradient is JAX's choice: elements that tie, corners."""

SAME, NEARLY = "same bits", "rounding"
"""Rounding: 1e-12 of the largest number, four units of its dtype where that has fewer than 64 bits."""


class Both(NamedTuple):
    """Outputs and gradients of a printed module, beside ours. Without a gradient these are empty."""

    outputs: Sequence[Any]
    expected: Sequence[Any]
    gradients: Sequence[Any] = ()
    expected_gradients: Sequence[Any] = ()


def both(
    child: Child,
    case: Case,
    symbol: Symbol,
    args: dict[str, Any],
    aux: dict[str, Any],
    run: Callable[..., Any],
    **options: Any,
) -> Both:
    """Print and run a case. run: how ours is run. options: of the child. Raises NNVMError where it is not printed,
    AssertionError where the module fails."""
    shapes = {name: value.shape for name, value in args.items()}
    dtypes = {name: value.dtype.name for name, value in args.items()}
    source = lowering.to_source(symbol, aux=aux, shapes=shapes, dtypes=dtypes)
    options |= {"train": case.is_train} if "train=False" in source else {}
    options |= {"seed": 7} if "key=None" in source else {}
    is_derivative = not any(words in case.not_derivative for words in NO_DERIVATIVE)
    names = ladder.wrt(case, symbol) if FGradient.get(symbol.outputs[0].node.op) and is_derivative else []
    expected, _ = run(lowering.to_jax(symbol, is_train=case.is_train, platform="any"), args, aux, KEY)
    heads = case.head_grads([array.shape for array in expected]) if names else None
    data = [args[name] for name in symbol.list_arguments()]
    outputs, _, grads = child.run(source, aux, data, heads=heads, **options)
    if not names:
        return Both(outputs, expected)
    ours = run(lowering.grad_fn(symbol, names, platform="any", is_train=case.is_train), args, aux, KEY, heads)[1]
    printed = dict(zip([*sorted(aux), *symbol.list_arguments()], grads or (), strict=True))
    return Both(outputs, expected, [printed[name] for name in names], [ours[name] for name in names])


def compiled(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of arrays returns as one compiled program."""
    return jax.jit(function)(*arguments)


def widened(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return arrays, those of float32 as float64."""
    return {n: array.astype("float64") if array.dtype.name == "float32" else array for n, array in arrays.items()}


def distance(ones: Sequence[Any], others: Sequence[Any], units: Sequence[Any] = ()) -> str:
    """Return how far arrays are from others, as a part of the largest number of each. units: arrays from which these
    come, whose rounding they have."""
    largest = 0.0
    floats = [array.dtype for array in (*ones, *units) if jnp.issubdtype(array.dtype, jnp.floating)]
    unit = max((float(jnp.finfo(dtype).eps) for dtype in floats if dtype.itemsize < 8), default=0.0)
    for one, other in zip(ones, map(np.asarray, others), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{one.dtype}{one.shape} is not {other.dtype}{other.shape}"
        if np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            continue
        a, b = one.astype("complex128"), other.astype("complex128")
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return "other infinities"
        finite = np.isfinite(b)
        largest = max(largest, float(np.abs(a - b)[finite].max()) / max(float(np.abs(b[finite]).max()), 1e-30))
    return SAME if largest == 0 else NEARLY if largest <= max(1e-12, 4 * unit) else f"{largest:.0e}"


def measured(child: Child, case: Case) -> dict[str, str]:
    """Return what a line of the file has. What takes no float64 is run in float32."""
    symbol = ladder.build(case)
    line = {"op": case.op, "case": case.id}
    for wide in (True, False):
        with jax.enable_x64(wide):
            args, aux = (widened(arrays) if wide else arrays for arrays in ladder.arrays(case, symbol))
            try:
                found = both(child, case, symbol, args, aux, compiled, compiled=True)
            except NNVMError as error:
                line["refused"] = str(error)
                continue
            except AssertionError as error:
                return {**line, "outputs": str(error).splitlines()[0]}
        line.pop("refused", None)
        line["outputs"] = distance(found.outputs, found.expected)
        if found.gradients:
            line["gradients"] = distance(found.gradients, found.expected_gradients, found.outputs)
        break
    return line


def main(path: Path, operators: list[str]) -> None:
    """Run the cases that have no line; print the table."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    ready = {line["case"] for line in lines}
    cases = [case for _, case in ladder.all_cases() if case.op in (operators or [case.op])]
    firsts = {case.op: case for case in reversed(cases)}.values()
    child = Child()
    with path.open("a") as file:
        for case in {case.id: case for case in [*firsts, *cases]}.values():
            if case.id in ready:
                continue
            lines.append(measured(child, case))
            file.write(json.dumps(lines[-1]) + "\n")
            file.flush()
    child.close()
    print(f"{len(lines)} cases of {len({line['op'] for line in lines})} operators")
    for key in ("outputs", "gradients"):
        counts = Counter(line[key] if line[key] in (SAME, NEARLY) else "others" for line in lines if key in line)
        print(f"{key}: {dict(counts)}")
        for line in lines:
            if line.get(key, SAME) not in (SAME, NEARLY):
                print(f"    {line['case']}: {line[key]}")
    for line in lines:
        if "refused" in line:
            print(f"not printed: {line['case']}: {line['refused'].splitlines()[0]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
