"""Write down which keys MXNet 1.9.1's parsers take on the nodes of a symbol file, those it does not document included.

Run by hand, in the environment of tests/goldens/make.py, after tests/goldens/schemas.py, from the project's root:

    mxnet-env/bin/python -m tests.goldens.keys

Every operator of `schemas.json` is loaded from a symbol file once for each candidate key: the parameters of all
operators together, the parameters that error messages name, and words that files are known to hold. It writes
`tests/goldens/keys.json`, one line for each operator: `{key: type}` with MXNet's words for the type, or `"any"` where
whatever key a file has is read.
"""

import json
import re
from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]

HERE = Path(__file__).parent
NO_KEY = "zz_bogus"
WORDS = (
    *("lower", "ctx", "dtype", "name", "workspace", "cudnn_off", "cudnn_tune", "layout", "mirror_stage"),
    *("force_mirroring", "lr_mult", "wd_mult", "ctx_group", "profiler_scope", "storage_type", "num_args"),
    *("num_weights", "num_tensors", "num_arrays", "num_inputs", "is_int", "__layout__", "__lr_mult__"),
    *("__bogus__", "__init__"),
)
"""Candidates beside the parameters of all operators."""

BRIDGES = ("_CachedOp", "_CachedOpThreadSafe", "_CustomFunction", "_NDArray", "_Native")
"""Operators that hold addresses of the running process, which they follow: no file has them."""

_NAMED = re.compile(r"^(\w+) : (.*)$", re.MULTILINE)
_REFUSED = "Cannot find argument"


def error_of(op: str, attrs: dict[str, str]) -> str:
    """What MXNet says when it loads the operator with these attributes; empty when it takes them."""
    node = {"op": op, "name": "op", "attrs": attrs, "inputs": []}
    graph = {"nodes": [node], "arg_nodes": [], "heads": [[0, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}
    try:
        mx.sym.load_json(json.dumps(graph))
    except mx.MXNetError as error:
        return str(error)
    return ""


def accepted(op: str, candidates: set[str]) -> dict[str, str] | str:
    """The keys that the operator's parser takes, with their types, or "any"."""
    answer = error_of(op, {NO_KEY: "1"})
    if _REFUSED not in answer:
        return "any"
    named = dict(_NAMED.findall(answer.partition("Possible Arguments:")[2]))
    taken = {key for key in candidates | set(named) if f"{_REFUSED} '{key}'" not in error_of(op, {key: "1"})}
    hidden = {key for key in taken if key.startswith("__") and key.endswith("__")}
    return {key: named.get(key, "") for key in sorted(taken - hidden)}


def main() -> None:
    """Write the file."""
    schemas: dict[str, dict[str, Any]] = json.loads((HERE / "schemas.json").read_text())
    candidates: set[str] = {name for row in schemas.values() for name in row["params"]} | set(WORDS)
    rows = {op: accepted(op, candidates) for op in sorted(schemas.keys() - set(BRIDGES))}
    lines = [f"{json.dumps(op)}: {json.dumps(row)}" for op, row in rows.items()]
    (HERE / "keys.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} operators, {len(candidates)} candidate keys")


if __name__ == "__main__":
    main()
