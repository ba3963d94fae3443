"""Make the golden texts of graphs again: MXNet 1.9.1 reads each document here (LoadJSON) and writes it (SaveJSON).

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.json.make

A new golden is a document of that name, with whatever spaces; what is left is MXNet's text.
"""

import ctypes
import json
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]

HERE = Path(__file__).parent


def saved(text: str) -> str:
    """What MXNet writes of the graph that a text describes, graph attributes included."""
    library, check = mx.base._LIB, mx.base.check_call
    symbol, graph, result = mx.sym.Variable("any"), ctypes.c_void_p(), ctypes.c_void_p()
    check(library.NNGraphCreate(symbol.handle, ctypes.byref(graph)))
    value = json.dumps(["str", text], ensure_ascii=False).encode()
    check(library.NNGraphSetJSONAttr(graph, b"json", value))
    passes = (ctypes.c_char_p * 2)(b"LoadJSON", b"SaveJSON")
    check(library.NNGraphApplyPasses(graph, 2, passes, ctypes.byref(result)))
    found, there = ctypes.c_char_p(), ctypes.c_int()
    check(library.NNGraphGetJSONAttr(result, b"json", ctypes.byref(found), ctypes.byref(there)))
    assert found.value is not None
    return json.loads(found.value.decode(), strict=False)[1]


def main() -> None:
    """Write every text again."""
    for path in sorted(HERE.glob("*.json")):
        path.write_text(saved(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(path.name)


if __name__ == "__main__":
    main()
