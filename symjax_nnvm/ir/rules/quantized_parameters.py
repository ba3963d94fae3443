"""Parameters of 8-bit integers: `fc1_weight_quantize`, int8, and its range, `…_min` and `…_max`; and mixing them up
with those of a network of floats."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from symjax_nnvm.errors import GraphError
from symjax_nnvm.ir.rules.quantized_form import QUANTIZED

OTHER_MODEL = (
    "symjax_nnvm.quantize(net, args, aux, calibration=batches) makes 8-bit parameters of float ones; "
    "symjax_nnvm.dequantized(symbol) is the network that takes the floats."
)


def way_out_of_mixing(names: Iterable[str], surplus: Collection[str]) -> str:
    """Return the way out where a network of 8-bit integers gets the parameters of its float network, or that those of
    the other; else empty. names: the names of the network's arguments; surplus: of arrays that it does not have."""
    names = list(names)
    if any(name.endswith(QUANTIZED) and name.removesuffix(QUANTIZED) in surplus for name in names):
        return f"The network is of 8-bit integers, the arrays are floats: {OTHER_MODEL}"
    if any(name + QUANTIZED in surplus for name in names):
        return (
            "The network is of floats, the arrays are 8-bit integers: they belong to the quantised model's own symbol, "
            "of which Model.dequantized() makes the model of floats."
        )
    return ""


def wrong_parameters(names: Collection[str], arrays: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield each parameter of integers whose array holds floats, or whose range is invalid: its name, what is wrong,
    and what is expected, what there is, and the way out.

    names: the names of the network's arguments. What has no array is passed by.
    """
    every = set(names)
    for name in names:
        ends = [f"{name}_min", f"{name}_max"]
        if name not in arrays or not name.endswith(QUANTIZED) or not every.issuperset(ends):
            continue
        dtype = getattr(arrays[name], "dtype", None)
        if dtype is not None and np.dtype(dtype).kind not in "iu":
            fix = f"Load the file that was saved with this symbol. {OTHER_MODEL}"
            yield name, "holds floats", {"expected": "int8", "got": np.dtype(dtype).name, "fix": fix}
        elif all(end in arrays for end in ends):
            low, high = (np.asarray(arrays[end]).reshape(-1) for end in ends)
            if low.size != 1 or high.size != 1 or not np.isfinite([*low, *high]).all() or low > high:
                expected = f"a finite number each in …{QUANTIZED}_min and …{QUANTIZED}_max, the first not greater"
                got = " and ".join(str(end.tolist())[:80] for end in (low, high))
                fix = f"Load the file again that the model came with. {OTHER_MODEL}"
                yield name, "has no range", {"expected": expected, "got": got, "fix": fix}


def refuse_wrong_parameters(names: Collection[str], arrays: Mapping[str, Any]) -> None:
    """Raise GraphError where a parameter of integers holds floats, or has no range."""
    for name, problem, details in wrong_parameters(names, arrays):
        raise GraphError(f"The 8-bit parameter {name!r} {problem}", **details)
