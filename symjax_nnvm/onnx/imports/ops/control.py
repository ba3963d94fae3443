"""ONNX' If, Scan and Loop, as MXNet's cond, foreach and while_loop; lists of arrays, which cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.onnx.imports.composer import STATIC, Composer
from symjax_nnvm.onnx.imports.file_values import Numbers, Value
from symjax_nnvm.onnx.imports.import_registry import no_import, onnx_import
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import cast, entering, held_as, reshape
from symjax_nnvm.symbol.control_flow import cond, foreach, while_loop
from symjax_nnvm.symbol.symbol import Symbol


def _standing(value: Value, symbol: Symbol, shapes: Sequence[Numbers] | None = None) -> Value:
    """Return a value that a body gets, or a node gives, in place of one like it."""
    return Value(value.name, value.dtype, value.shapes if shapes is None else shapes, None, symbol, value.held)


def _symbols(g: Composer, values: Sequence[Value]) -> list[Symbol]:
    return [g.symbol(value) for value in values]


def _stacked(g: Composer, piece: Value, symbol: Symbol, counts: Sequence[int]) -> Value:
    """Stack one output of a loop's steps: a step's number has an axis in MXNet."""
    stacked = _standing(piece, symbol, [(n, *shape) for n, shape in zip(counts, piece.symbol_shapes, strict=True)])
    return stacked if piece.ndim else reshape(g, stacked, [(n,) for n in counts])


@onnx_import("If")
def _if(g: Composer, test: Value) -> list[Value]:
    """Return only the branch that is taken if it is known."""
    branches = [g.attr("then_branch"), g.attr("else_branch")]
    if test.array is not None:
        return g.body(branches[0 if test.array.item() else 1], [])
    branch_results: list[list[Value]] = []

    def branch(graph: object) -> list[Symbol]:
        branch_results.append(g.body(graph, []))
        return _symbols(
            g, branch_results[-1] if len(branch_results) == 1 else _as(g, branch_results[-1], branch_results[0])
        )

    results = cond(g.symbol(test), lambda: branch(branches[0]), lambda: branch(branches[1]))
    return [_standing(value, symbol) for value, symbol in zip(branch_results[0], results, strict=True)]


def _as(g: Composer, values: Sequence[Value], others: Sequence[Value]) -> list[Value]:
    """Return values in the dtypes of others, whose shapes they must have."""
    if [value.symbol_shapes for value in values] != [other.symbol_shapes for other in others]:
        g.refuse("its branches, or its steps, give arrays of different shapes")
    _symbols(g, others)
    return [held_as(g, value, other.held) for value, other in zip(values, others, strict=True)]


@onnx_import("Scan", since=9)
def _scan(g: Composer, *inputs: Value) -> list[Value]:
    count = g.attr("num_scan_inputs")
    states, data = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    if any(any(g.attr(f"scan_{side}_{what}", [])) for side in ("input", "output") for what in ("axes", "directions")):
        g.refuse("it scans along another axis than the first, or backwards", "Transpose or reverse the data first.")
    steps = [shape[0] for shape in data[0].shapes]
    results: list[list[Value]] = []

    def body(slices: list[Symbol], carried: list[Symbol]) -> tuple[list[Symbol], list[Symbol]]:
        rows = [_standing(x, s, [shape[1:] for shape in x.shapes]) for x, s in zip(data, slices, strict=True)]
        pieces = [entering(g, row) for row in rows]
        states_in = [_standing(x, s) for x, s in zip(states, carried, strict=True)]
        results.append(g.body(g.attr("body"), [*states_in, *pieces]))
        new = _as(g, results[0][: len(states)], states)
        return _symbols(g, results[0][len(states) :]), _symbols(g, new)

    outputs, last = foreach(body, _symbols(g, data), _symbols(g, states))
    stacked = zip(results[0][len(states) :], outputs, strict=True)
    return [
        *(_standing(state, symbol) for state, symbol in zip(states, last, strict=True)),
        *(_stacked(g, piece, symbol, steps) for piece, symbol in stacked),
    ]


@onnx_import("Loop")
def _loop(g: Composer, limit: Value | None, going: Value | None, *first: Value) -> list[Value]:
    """The outputs of the steps are stacked, with zeros after the last, as MXNet does: ONNX leaves them out."""
    if limit is None or limit.array is None or not 1 <= limit.array.item() < 2**31:
        g.refuse("its largest number of steps must be known when the file is read", STATIC)
    count = int(limit.array.item())
    number = g.constant(g.full((1,), 0, "int32"), name="first")
    number.shapes = [()] * g.count
    true = g.constant(g.full((1,), 1, "int32"), name="going")
    true.shapes = [()] * g.count
    start = [number, true if going is None else cast(g, going, "int32"), *first]
    step_results: list[list[Value]] = []

    def step(*variables: Symbol) -> tuple[list[Symbol], list[Symbol]]:
        i, on, *carried = (_standing(x, s) for x, s in zip(start, variables, strict=True))
        step_results.append(
            g.body(g.attr("body"), [Value(i.name, "int64", i.shapes, None, i.symbol, i.held), on, *carried])
        )
        again, *results = step_results[0]
        still = g.op("elemwise_mul", cast(g, again, "int32"), on)
        new = _as(g, results[: len(first)], first)
        next_number = g.op("_plus_scalar", i, scalar=1.0)
        return _symbols(g, results[len(first) :]), _symbols(g, [next_number, still, *new])

    outputs, last = while_loop(lambda i, on, *state: on, step, _symbols(g, start), count)
    stacked = zip(step_results[0][1 + len(first) :], outputs, strict=True)
    return [
        *(_standing(value, symbol) for value, symbol in zip(first, last[2:], strict=True)),
        *(_stacked(g, piece, symbol, [count] * g.count) for piece, symbol in stacked),
    ]


_FIX = "Export the network without it: unrolled, or for one case."
no_import(
    *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength"),
    *("SequenceMap", "SplitToSequence", "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement"),
    reason="a symbol has arrays, not lists of arrays",
    fix=_FIX,
)
no_import(
    *("StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"),
    reason="MXNet's arrays hold no text",
)
