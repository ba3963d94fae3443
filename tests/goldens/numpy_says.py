"""What MXNet 1.9.1 says to calls of every function of the NumPy dialect: `numpy_says.txt`, an expression on each line.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.numpy_says

A line is the expression and MXNet's repr of its value, or ! and the class of its error. What is asked stands in
`tests/lowering/mx/numpy`: in `calls.txt` functions (or expressions, with @ for the arguments) and after a colon the
arguments of several calls, in `expressions.txt` all else.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as onp

HERE = Path(__file__).parent
SAID = HERE / "numpy_says.txt"
ASKED = HERE.parent / "lowering" / "mx" / "numpy"


def names_of(mx: Any, expression: str) -> dict[str, Any]:
    """What an expression uses, of a module that is MXNet or ours; arrays are new, since some functions write them."""
    np, npx = mx.np, mx.npx

    def grad(f: Callable[..., Any], *xs: Any) -> list[Any]:
        xs = tuple(x.copy() for x in xs)
        for x in xs:
            x.attach_grad()
        with mx.autograd.record():
            y = f(*xs)
        y.backward()
        return [x.grad for x in xs]

    def setit(x: Any, key: Any, value: Any) -> Any:
        x = x.copy()
        x[key] = value
        return x

    def upd(f: Callable[[Any], Any], x: Any) -> Any:
        x = x.copy()
        f(x)
        return x

    def kind(x: Any) -> tuple[Any, ...]:
        return (str(x.asnumpy().dtype), x.shape)  # which waits for errors

    names = {"mx": mx, "np": np, "npx": npx, "onp": onp, "grad": grad, "setit": setit, "upd": upd, "kind": kind}
    return names | {name: make(np) for name, make in ARRAYS.items() if name in expression}


ARRAYS: dict[str, Callable[[Any], Any]] = {
    "F32": lambda np: np.array([[1.5, -2.0, 3.0], [0.25, 5.0, -6.0]]),
    "f1": lambda np: np.array([1.0, 2.0, 3.0]),
    "f0": lambda np: np.array(2.5),
    "i32": lambda np: np.array([[1, 2, 3], [4, 5, 6]], dtype="int32"),
    "i64": lambda np: np.array([3, 1, 2], dtype="int64"),
    "u8": lambda np: np.array([1, 2, 250], dtype="uint8"),
    "b": lambda np: np.array([True, False, True], dtype="bool"),
    "f16": lambda np: np.array([1.0, 2.0, 3.0], dtype="float16"),
    "f64": lambda np: np.array([1.0, 2.0, 3.0], dtype="float64"),
    "E": lambda np: np.zeros((0, 3)),
    "idx": lambda np: np.array([0, 1], dtype="int32"),
    "m2": lambda np: np.array([[True, False, True], [False, True, False]], dtype="bool"),
    "sq": lambda np: np.array([[4.0, 1.0], [2.0, 3.0]]),
    "sym": lambda np: np.array([[4.0, 1.0], [1.0, 3.0]]),
    "pos": lambda np: np.array([0.1, 0.5, 0.9]),
    "image": lambda np: np.arange(12).reshape(2, 2, 3),
    "batch": lambda np: np.arange(16).reshape(1, 1, 4, 4) / 8,
}


def text_of(result: Any) -> str:
    """A value as text: of NumPy's and Python's numbers the value alone."""
    if isinstance(result, list | tuple):
        return f"({', '.join(map(text_of, result))})"
    if isinstance(result, bool | onp.bool_):
        return str(bool(result))
    if isinstance(result, onp.generic | float | int):
        return repr(float(result))
    return repr(result).replace("\n", "").replace("       ", " ")


def expressions() -> list[str]:
    """All that is asked, each once."""
    lines = (ASKED / "expressions.txt").read_text(encoding="utf-8").splitlines()
    for row in (ASKED / "calls.txt").read_text(encoding="utf-8").splitlines():
        heads, _, calls = row.partition(": ")
        for head in heads.split(" "):
            form = head if "@" in head else f"{head}(@)"
            lines += [form.replace("@", call.strip()) for call in calls.split("|")]
    return list(dict.fromkeys(lines))


def main() -> None:
    """Ask MXNet."""
    import mxnet as mx  # type: ignore[import-not-found]  # the test imports this module without MXNet

    mx.npx.set_np()
    said = []
    warnings.simplefilter("ignore")
    for expression in expressions():
        try:
            answer = text_of(eval(expression, names_of(mx, expression)))
        except Exception as error:  # whatever MXNet raises is its answer
            answer = f"!{type(error).__name__}"
            with suppress(Exception):  # which this call left to the next one
                mx.nd.waitall()
        said.append(f"{expression}  =>  {answer}")
    SAID.write_text("\n".join(said) + "\n", encoding="utf-8")
    print(f"{len(said)} expressions")


if __name__ == "__main__":
    main()
