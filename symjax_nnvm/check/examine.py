"""`check`: examine everything that is known of a model without running it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from symjax_nnvm.check.array_findings import Arrays, arrays_by_name, check_missing, check_shapes
from symjax_nnvm.check.onnx import check_onnx
from symjax_nnvm.check.remedies import dtype_remedy, shape_remedy
from symjax_nnvm.check.report import CheckReport, Findings
from symjax_nnvm.check.tolerant import TolerantModel, describe_refusals, read_model
from symjax_nnvm.errors import InferenceError, SymbolValueError, close_or_all, did_you_mean
from symjax_nnvm.inspect.footprint import Footprint, bytes_text, check_workspaces, estimate_graph, flops_text
from symjax_nnvm.ir.attributes import FAsksSparse, FDequantized, FDeviation, FDraws, FLowering, TDataDependentShape
from symjax_nnvm.ir.graph import MXNET_VERSION, Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.types import DTYPE_CODES, DType, Shape, dtype_name, is_known
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.passes.infer.wide_dtypes import WIDE_DTYPES, asking_for_64_bits
from symjax_nnvm.surgery.batch_size import hard_coded_batch
from symjax_nnvm.symbol.call_arguments import known_shapes
from symjax_nnvm.symbol.symbol import Symbol

Target = Literal["jax", "onnx"]
"""The target of a check: this library, or an ONNX file."""

_LONG = 1e13  # floating-point operations: minutes on a CPU
_SPARSE_CODES = ("1", "2")  # of row_sparse and csr
_SWITCH_ON_64_BITS = "For 64 bits: `with jax.enable_x64(True):`, or the environment variable JAX_ENABLE_X64=1."


def check(
    symbol: Symbol | str | os.PathLike[str],
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    params: Arrays | tuple[Arrays, ...] | str | os.PathLike[str] | None = None,
    target: Target = "jax",
) -> CheckReport:
    """Report what keeps a model from running in this library, or makes it run differently than in MXNet 1.9.1.

    Unknown operators and parameters are findings, not errors. Nothing is traced, and jax is not imported: operators of
    users are checked for a lowering rule only when `lowering` has been imported (the library's own all have one).

    Args:
        symbol: a symbol, the path of a symbol's file, or its text.
        shapes: shapes of inputs by name; 0 is an unknown dimension.
        dtypes: dtypes of inputs by name.
        params: arrays by name, several dicts such as `(args, aux)`, or the path of a file of arrays. Arguments without
            an array are sorted into data, labels and missing parameters. Without `shapes` and `params` only declared
            shapes are compared.
        target: `"jax"` for running here; `"onnx"` for what `to_onnx` would write, where sizes may be names.

    Raises:
        JSONFormatError: the symbol's file or text is malformed.
        ModelNotFoundError: there is no such file.
        ParamsFormatError: the file of arrays is malformed.
        OSError: a file cannot be read.
        SymbolValueError: `shapes` or `dtypes` has a name that no variable has.
        SymbolTypeError: `symbol` is not a model, or a value is not a shape.
    """
    model = read_model(symbol)
    findings = Findings()
    describe_refusals(model, findings)
    arrays = {} if params is None else arrays_by_name(params)
    named_shapes, plain = shapes or {}, _without_names(shapes or {}, target)
    given_shapes = {name: shape or None for name, shape in known_shapes(plain).items()}
    given_dtypes = {name: _dtype(name, dtype) for name, dtype in (dtypes or {}).items()}
    _check_names(model.symbol, [*given_shapes, *given_dtypes], findings)
    _check_file(model, findings)
    num_nodes = _check_nodes(model, target, findings)
    _check_batch_size(model, findings)
    if params is not None:
        check_missing(model.symbol, arrays, [*given_shapes, *given_dtypes], findings)
    shapes_checked = bool(shapes) or params is not None
    every_size = shapes_checked and all(isinstance(size, int) for shape in named_shapes.values() for size in shape)
    shapes_of = _check_shapes(model, given_shapes, arrays, every_size, findings)
    dtypes_of = _check_dtypes(model, given_dtypes, arrays, target, findings)
    if target == "onnx" and not model.refused:
        check_onnx(model.symbol, arrays, named_shapes, given_dtypes, findings)
    cost = _check_cost(shapes_of, dtypes_of, findings) if shapes_checked else None
    return CheckReport(
        findings.problems(),
        num_nodes,
        shapes_checked,
        None if cost is None else cost.peak_bytes,
        None if cost is None else cost.flops,
    )


def _without_names(shapes: Mapping[str, Sequence[int | str]], target: Target) -> Any:
    """Return shapes with 0 for the sizes that have names, which ONNX files may have. Other values stay."""
    if target == "jax" or not isinstance(shapes, Mapping):
        return shapes
    return {name: tuple(0 if isinstance(size, str) else size for size in shape) for name, shape in shapes.items()}


def _dtype(name: str, dtype: Any) -> DType:
    try:
        return dtype_name(dtype)
    except ValueError as error:
        fix = did_you_mean(str(dtype), DTYPE_CODES)
        raise SymbolValueError(f"No dtype for {name!r}: {error}", fix=fix or None) from None


def _check_names(symbol: Symbol, names: Sequence[str], findings: Findings) -> None:
    counts = Counter(symbol.list_inputs())
    for name in names:
        if name not in counts:
            fix = close_or_all(name, counts, "Its variables are")
            raise SymbolValueError(f"The symbol has no variable {name!r}", fix=fix)
    for name, count in counts.items():
        if count > 1:
            findings.add("repeated name", "warning", name, "Several variables have this name and get one array")


def _check_file(model: TolerantModel, findings: Findings) -> None:
    version = model.attrs.get("mxnet_version")
    if isinstance(version, int) and version > MXNET_VERSION:
        written = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
        findings.add("newer file", "note", None, f"Written by MXNet {written}; operators mean what they mean in 1.9.1")


# -- node by node ----------------------------------------------------------------------------------------------------


def _check_nodes(model: TolerantModel, target: Target, findings: Findings) -> int:
    """Look at each operator by itself. The number of nodes."""
    count = 0
    for name, node in model.nodes():
        count += 1
        op = node.op
        _check_storage(node, name, findings)
        if op is None or not op.is_registered:
            continue
        if target == "jax" and len(FLowering) and op not in FLowering:
            fix = f'Register one: @lowering.lowers("{op.name}") def rule(params, *inputs): ...'
            findings.add("no lowering rule", "error", name, "No JAX rule is registered for it", op=op.name, fix=fix)
        if target == "jax" and op in TDataDependentShape:
            findings.add(
                "data-dependent shape",
                "warning",
                name,
                "The shape of its result depends on values, so the network runs as several programs, not in jax.jit",
                op=op.name,
                fix="For one program multiply by the mask instead.",
            )
        if op in FDequantized:
            findings.add(
                "8-bit integers",
                "note",
                name,
                "These compute with 8-bit integers, or were fused for oneDNN: no gradient passes",
                fix="symjax_nnvm.dequantized(net), Model.dequantized() or `convert MODEL OUT --float` give the network "
                "of floats, which trains and exports.",
            )
            if ("min_calib_range" in node.attrs.dict) != ("max_calib_range" in node.attrs.dict):
                findings.add(
                    "bad parameter",
                    "warning",
                    name,
                    "It has only one end of a calibrated range, which is ignored, as in MXNet: each run takes the "
                    "range of its own data",
                    op=op.name,
                    fix="Write min_calib_range and max_calib_range, or quantise the model of floats again.",
                )
        elif target == "jax" and node.attrs.subgraphs:
            findings.add(
                "control flow",
                "note",
                name,
                "Its subgraphs become part of the compiled function; states that they write end with them",
                op=op.name,
            )
        if target == "jax":
            _check_difference(node, name, op, findings)
    return count


def _check_batch_size(model: TolerantModel, findings: Findings) -> None:
    """Note the operators that fix the number of samples; what variables declare gives way to the shapes given."""
    if model.refused:  # nothing flows through what is not known
        return
    for place in hard_coded_batch(model.symbol):
        if place.op is not None and place.size > 1:
            findings.add(
                "batch size",
                "note",
                place.node,
                f"This parameter may contain a batch size of {place.size}",
                op=place.op,
                fix="symjax_nnvm.set_batch_size(symbol, n) gives the network for batches of n.",
            )


def _check_storage(node: Node, name: str, findings: Findings) -> None:
    """Make one note for all nodes that request sparse storage and all variables that declare it."""
    asks = FAsksSparse.get(node.op)
    if (asks is not None and asks(node.attrs)) or node.attrs.dict.get("__storage_type__") in _SPARSE_CODES:
        reason = "Asks for sparse storage; arrays and gradients are dense here, with the same numbers"
        fix = "Give dense arrays: `array.todense()` of those that load_arrays reads from sparse records."
        findings.add("sparse storage", "note", name, reason, fix=fix)


def _check_difference(node: Node, name: str, op: Op, findings: Findings) -> None:
    draws, deviation = FDraws.get(op), FDeviation.get(op)
    when = None if draws is None else draws(node.attrs)
    difference = None if deviation is None else deviation(node.attrs)
    if when is not None:
        always = when == "always"
        findings.add(
            "random numbers",
            "warning" if always else "note",
            name,
            f"Draws different random numbers from MXNet{'' if always else ', in training only'}: JAX's, from an "
            "explicit key",
            op=op.name,
        )
    if difference is not None:
        reason = difference.what if difference.affects == "outputs" else f"In training: {difference.what}"
        severity = "warning" if difference.affects == "outputs" else "note"
        findings.add("difference", severity, name, reason[0].upper() + reason[1:], op=op.name)


# -- all of it together ----------------------------------------------------------------------------------------------


def _check_shapes(
    model: TolerantModel, shapes: Mapping[str, Shape | None], arrays: Arrays, expect_all: bool, findings: Findings
) -> Graph | None:
    """Return the graph with its shapes; None when they contradict each other."""
    graph = Graph(model.symbol.outputs)
    inferred = _infer(lambda: infer_shape(graph, shapes=shapes), findings, lambda: shape_remedy(model.symbol, shapes))
    if inferred is not None and arrays:
        fitting = check_shapes(arrays, _of_variables(inferred, "shape"), findings)
        every = {**shapes, **fitting}
        inferred = _infer(lambda: infer_shape(graph, shapes=every), findings, lambda: shape_remedy(model.symbol, every))
    if inferred is not None and expect_all and not model.refused:  # whose shapes are unknown
        _check_decided(inferred, arrays, findings)
    return inferred


def _check_decided(inferred: Graph, arrays: Arrays, findings: Findings) -> None:
    """Note variables without a shape, and operators whose inputs have shapes and whose outputs have none."""
    index, shapes = inferred.indexed_graph(), inferred.attrs["shape"]
    for nid in index.input_nodes:
        name = index.nodes[nid].source.name
        if name not in arrays and not is_known(shapes[index.entry_rptr[nid]]):
            reason = "The shape of these variables cannot be inferred"
            fix = "Give the shapes of data, or pass the parameters."
            findings.add("undecided shape", "warning", name, reason, fix=fix)
    for nid, node in enumerate(index.nodes):
        op = node.source.op
        if op is None or op in TDataDependentShape:
            continue
        ins = [shapes[index.entry_rptr[source] + i] for source, i, _ in node.inputs]
        outs = shapes[index.entry_rptr[nid] : index.entry_rptr[nid + 1]]
        if all(map(is_known, ins)) and not all(map(is_known, outs)):
            reason = "The shape of its result cannot be inferred from its inputs"
            findings.add("undecided shape", "warning", node.source.name, reason, op=op.name)


def _check_dtypes(
    model: TolerantModel, dtypes: Mapping[str, DType], arrays: Arrays, target: Target, findings: Findings
) -> Graph | None:
    """Return the graph with its dtypes; None when they contradict each other."""
    names = set(model.symbol.list_inputs())
    stored = {name: str(array.dtype) for name, array in arrays.items() if name in names and name not in dtypes}
    every = {**{name: dtype for name, dtype in stored.items() if dtype in DTYPE_CODES}, **dtypes}
    graph, names_of = Graph(model.symbol.outputs), {name: str(dtype) for name, dtype in every.items()}
    inferred = _infer(lambda: infer_type(graph, dtypes=every), findings, lambda: dtype_remedy(model.symbol, names_of))
    asking = [] if inferred is None else [(node.name, dtype) for node, dtype in asking_for_64_bits(inferred)]
    wide = dict.fromkeys([*asking, *((n, d) for n, d in every.items() if d in WIDE_DTYPES)])
    for name, dtype in wide if target == "jax" else ():
        reason = f"Asks for {dtype} and runs in 32 bits, unless JAX's 64-bit mode is on"
        findings.add("64 bits", "warning", name, reason, fix=_SWITCH_ON_64_BITS)
    return inferred


def _check_cost(shapes: Graph | None, dtypes: Graph | None, findings: Findings) -> Footprint | None:
    """Note what one forward pass takes, and warn of one that takes long. None while it is not known."""
    if shapes is None or dtypes is None or not all(map(is_known, shapes.attrs["shape"])):
        return None
    if _infer(lambda: check_workspaces(shapes), findings, fine=shapes) is None:
        return None
    cost = estimate_graph(shapes.derive(attrs=shapes.attrs | {"dtype": dtypes.attrs["dtype"]}))
    reason = f"One forward pass: about {bytes_text(cost.peak_bytes)} of memory, {flops_text(cost.flops)}"
    if cost.node is not None:
        reason += f"; most memory for {cost.place}"
    findings.add("cost", "note", None, reason)
    for name, flops in cost.wasteful:
        reason = f"{flops_text(flops)}, far more than its arrays have elements: it may run for minutes or hours"
        findings.add("cost", "warning", name, reason, fix="Look at its kernel, its padding, and its displacements.")
    if cost.flops > _LONG and cost.longest not in dict(cost.wasteful):
        reason = f"{flops_text(cost.longest_flops)}: one forward pass may take minutes or hours"
        findings.add("cost", "warning", cost.longest, reason, fix="Look at its kernel sizes, and at the shapes.")
    return cost


def _infer(
    run: Callable[[], Graph | None],
    findings: Findings,
    remedy: Callable[[], str] | None = None,
    *,
    fine: Graph | None = None,
) -> Graph | None:
    """Return the result of `run`, or `fine` where it returns nothing; None when it finds a contradiction."""
    try:
        return run() or fine
    except InferenceError as error:
        findings.add("contradiction", "error", error.node, str(error), fix=remedy() if remedy else "")
        return None


def _of_variables(graph: Graph, attr: str) -> dict[str, Any]:
    index, values = graph.indexed_graph(), graph.attrs[attr]
    return {index.nodes[nid].source.name: values[index.entry_rptr[nid]] for nid in index.input_nodes}
