"""Make the array files that MXNet 1.9.1 writes, and what it reads from them. Run by hand in MXNet's environment.

mxnet-env/bin/python tests/goldens/files/make.py
"""

from __future__ import annotations

from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

HERE = Path(__file__).parent


def arrays() -> dict[str, mx.nd.NDArray]:
    """One array of each dtype that MXNet 1.x saves, an empty one, and both kinds of sparse ones."""
    named = {
        f"arg:{dtype}": mx.nd.array(np.arange(6).reshape(2, 3) % 5, dtype=dtype)
        for dtype in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")
    }
    named["aux:bool"] = mx.nd.array([True, False, True], dtype=bool)
    named["arg:ümlaut"] = mx.nd.array([1.5])
    rows = mx.nd.sparse.row_sparse_array(([[1.0, 2], [3, 4]], [1, 3]), shape=(5, 2))
    csr = mx.nd.sparse.csr_matrix(([1.0, 2, 3], [1, 0, 2], [0, 1, 1, 3]), shape=(3, 4))
    return named | {"rows": rows, "csr": csr}


def main() -> None:
    """Write a dict, a list and an empty file."""
    mx.nd.save(str(HERE / "dict.params"), arrays())
    mx.nd.save(str(HERE / "list.params"), [mx.nd.array([[1, 2, 3]]), mx.nd.array([4.0])])
    mx.nd.save(str(HERE / "empty.params"), {})
    bfloat16 = np.dtype([("bfloat16", np.uint16)])  # how MXNet spells it
    mx.nd.save(str(HERE / "bfloat16.params"), {"w": mx.nd.array([1, -2.5, 3e38]).astype(bfloat16)})
    with mx.util.np_shape(True):
        mx.nd.save(str(HERE / "scalar.params"), [mx.np.array(3.5).as_nd_ndarray(), mx.np.zeros((2, 0)).as_nd_ndarray()])


if __name__ == "__main__":
    main()
