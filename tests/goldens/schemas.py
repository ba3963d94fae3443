"""Write down what MXNet 1.9.1 says of its operators: aliases, inputs, parameters, read from its registry.

Run by hand, in the environment of tests/goldens/make.py, from the project's root:

    mxnet-env/bin/python -m tests.goldens.schemas

It writes `tests/goldens/schemas.json`, one line for each operator: `{"aliases": […], "inputs": […], "params": {name:
type}}`, a type in MXNet's words: `int, optional, default='1'`. A variadic operator's inputs are one name with dots.
Backward operators, and those that have subgraphs for oneDNN, are left out: `tests/goldens/more_names.json` lists them.
"""

import ctypes
import json
from pathlib import Path
from typing import Any

from mxnet.base import _LIB, c_str, check_call, mx_uint, py_str  # type: ignore[import-not-found]

HERE = Path(__file__).parent
TENSORS = ("NDArray", "Symbol")
LEFT_OUT = ("_backward", "_broadcast_backward", "_npi_backward", "_npi_hsplit_backward", "_sg_")

Texts = ctypes.POINTER(ctypes.c_char_p)


def all_names() -> list[str]:
    """Every name an operator answers to."""
    size, names = mx_uint(), Texts()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return sorted(py_str(names[i]) for i in range(size.value))


def schema(name: str) -> tuple[str, dict[str, Any]]:
    """(canonical name, inputs and parameters) of the operator that answers to a name."""
    handle, size, lists = ctypes.c_void_p(), mx_uint(), [Texts(), Texts(), Texts()]
    canonical, description, count, result = (ctypes.c_char_p() for _ in range(4))
    check_call(_LIB.NNGetOpHandle(c_str(name), ctypes.byref(handle)))
    fields = (canonical, description, size, *lists, count, result)
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, *(ctypes.byref(field) for field in fields)))
    arguments = [(py_str(lists[0][i]), py_str(lists[1][i])) for i in range(size.value)]
    inputs = [f"{n}..." if t.endswith("[]") else n for n, t in arguments if t.startswith(TENSORS)]
    params = {n: t for n, t in arguments if not t.startswith(TENSORS)}
    return py_str(canonical.value), {"inputs": inputs, "params": params}


def main() -> None:
    """Write the file."""
    found: dict[str, dict[str, Any]] = {}
    for name in all_names():
        canonical, facts = schema(name)
        row = found.setdefault(canonical, {"aliases": [], **facts})
        if name != canonical:
            row["aliases"].append(name)
    lines = [
        f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(found.items()) if not name.startswith(LEFT_OUT)
    ]
    (HERE / "schemas.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    more = [
        name
        for canonical in found
        if canonical.startswith(LEFT_OUT)
        for name in (canonical, *found[canonical]["aliases"])
    ]
    (HERE / "more_names.json").write_text(json.dumps(sorted(more), indent=0) + "\n")
    print(f"{len(lines)} operators")


if __name__ == "__main__":
    main()
