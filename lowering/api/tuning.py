"""`tune`: how fast each algorithm computes a network's convolutions on this machine, for a table of the user's own."""

from __future__ import annotations

import platform as system
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
from numpy.typing import DTypeLike

from lowering.convolutions import choose, directions
from lowering.convolutions.applicable import LIBRARY, applicable, geometry_of, winograd_tile
from lowering.convolutions.backends import onednn
from lowering.convolutions.geometry import Direction, Epilogue, Geometry
from lowering.convolutions.layouts import Blocks
from lowering.convolutions.ops.algorithms import MEASURED
from lowering.convolutions.timings_table import Measured, Table, read_table, user_table, write_table
from lowering.convolutions.winograd import winograd_weight
from lowering.core.cache import Programs
from lowering.core.chosen_options import chosen_options
from lowering.messages.arguments import require_symbol, shapes_by_name
from lowering.messages.migration_hints import with_migration_hints
from lowering.xla.compile_options import jit, options_for
from lowering.xla.platforms import current_platform
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.passes.choose_algorithm import nodes_with_shapes
from symjax_nnvm.passes.infer import infer_shape, variable_dtypes
from symjax_nnvm.passes.subgraphs import Known
from symjax_nnvm.pipeline import Options
from symjax_nnvm.progress import bar
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["CONSTANT", "about", "measure", "row", "runs", "tune"]

RULES = {
    "forward": directions.forward,
    "data": directions.data_gradient,
    "weight": directions.weight_gradient,
}

CONSTANT = " (constant)"
"""Ends the name of an algorithm that is timed without what it makes of the weight first."""

ROUNDS = 25

_CALL = "lowering.tune(net, {'data': (1, 3, 224, 224)})"


@with_migration_hints("tune", _CALL)
def tune(
    symbol: Symbol,
    shapes: Mapping[str, Sequence[int]],
    *,
    is_train: bool = False,
    compute_dtype: DTypeLike | None = None,
    seconds: float = 0.4,
    progress: bool = True,
) -> Table:
    """Measure on this machine which algorithm is the fastest for each convolution of a network.

    The result is written to the user's own table (`symjax-nnvm env` shows its path), which is used from then on; it
    replaces what the table had for the same geometries. On platforms other than a CPU no algorithm is chosen, and
    nothing is measured.

    Args:
        symbol: the network.
        shapes: shapes of the data by name.
        is_train: measure both gradients of each convolution as well.
        compute_dtype: as in `to_jax`.
        seconds: the time for the rounds of one convolution, in seconds, without compiling.
        progress: show what is measured.

    Returns:
        The table.

    Raises:
        InferenceError: shapes do not fit the network.
        FileError: the user's file is not a table.
    """
    input_shapes = shapes_by_name(shapes, "shapes", _CALL)
    platform = current_platform()
    options = chosen_options(Options(platform=platform, is_train=is_train), compute_dtype)
    cases = list(dict.fromkeys(_cases(require_symbol(symbol, "tune"), input_shapes, options)))
    rows = []
    with bar("measuring", len(cases), progress, at_once=True) as advance:
        for direction, geometry in cases:
            rows.append(row(direction, geometry, measure(runs(direction, geometry), ROUNDS, seconds)))
            advance(len(rows))
    path = user_table(platform)
    before = read_table(path).rows if path.is_file() else ()
    other_rows = [one for one in before if (one.direction, one.geometry) not in set(cases)]
    table = Table(platform, about(platform), [*rows, *other_rows])
    if rows:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, table)
        choose.forget()
    return table


def _cases(symbol: Symbol, shapes: Mapping[str, Shape], options: Options) -> Iterator[tuple[Direction, Geometry]]:
    """Yield each convolution whose algorithm is chosen, those of loops' bodies included, in each direction."""
    programs = Programs(symbol)
    infer_shape(programs.pipeline.graph, shapes=dict(shapes))  # reports what does not fit by the network's names
    graph = programs.plan(options).graph
    directions: Sequence[Any] = get_args(Direction) if options.is_train else ("forward",)
    dtypes = variable_dtypes(programs.pipeline.graph)
    facts = Known(shapes=tuple(shapes.items()), dtypes=tuple((node.name, dtype) for node, dtype in dtypes.items()))
    for node, (shape, *_), dtype in nodes_with_shapes(graph, facts, MEASURED):
        sizes = tuple(size for size in shape or () if size is not None)
        if shape is not None and len(sizes) == len(shape):
            geometry = geometry_of(node.attrs.parsed, sizes, dtype)
            for direction in directions:
                yield direction, geometry


# -- measuring -------------------------------------------------------------------------------------------------------


def runs(direction: Direction, g: Geometry) -> dict[str, Callable[[], Any]]:
    """Map algorithm → what runs it, on arrays that are arguments. A weight is (f, c / g, *kernel), as files and
    training have it, and so is its gradient; what is made of it once is made before."""
    rng = np.random.default_rng(0)

    def array(*shape: int) -> jax.Array:
        return jax.device_put(rng.standard_normal(shape, np.float32).astype(g.dtype))

    data, ograd = array(g.batch, *g.size, g.channels), array(g.batch, *g.out_size, g.filters)
    stored_weight = array(g.filters, g.channels // g.groups, *g.kernel)
    weight = _channels_last(stored_weight)
    arguments = {"forward": (data, stored_weight), "data": (ograd, stored_weight), "weight": (ograd, data)}[direction]
    runners = {}
    for name in applicable(direction, g):
        if name == LIBRARY and not (current_platform() == "cpu" and onednn.OneDnn("cpu").computes(direction, g)):
            continue
        runners[name] = partial(jit(partial(_with_stored_weight, direction, g, name)), *arguments)
        tile = winograd_tile(name)
        if direction == "forward" and tile:
            factors = winograd_weight(weight, tile)
            rule = directions.TRANSFORMED[name]
            runners[name + CONSTANT] = partial(jit(lambda *arrays, rule=rule: rule(*arrays, g)), data, factors)
    block = onednn.block(g, Epilogue()) if direction == "forward" and current_platform() == "cpu" else None
    if block is not None:
        blocks = Blocks.of_weight(block, g).lay(weight, jnp).ravel()
        library = jit(lambda data, blocks: onednn.convolve(data, blocks, g, Epilogue(), ()))
        runners[LIBRARY + CONSTANT] = partial(library, data, blocks)
    return runners


def _with_stored_weight(direction: Direction, g: Geometry, algorithm: str, first: jax.Array, other: jax.Array) -> Any:
    rule = partial(RULES[direction], geometry=g, algorithm=algorithm)
    if direction == "weight":
        return jnp.moveaxis(rule(first, other), (-1, -2), (0, 1))
    return rule(first, _channels_last(other))


def _channels_last(weight: jax.Array) -> jax.Array:
    """Map (f, c / g, *kernel) → (*kernel, c / g, f)."""
    return jnp.moveaxis(weight, (0, 1), (-1, -2))


def measure(functions: dict[str, Callable[[], Any]], rounds: int, seconds: float) -> dict[str, float]:
    """Return median seconds of each, measured in turn: three rounds of all, then of those that may be the fastest, for
    so long."""
    times: dict[str, list[float]] = {name: [] for name in functions}

    def one_round(names: Sequence[str]) -> None:
        for name in names:
            start = time.perf_counter()
            jax.block_until_ready(functions[name]())
            times[name].append(time.perf_counter() - start)

    one_round(list(functions))  # compile
    for all_times in times.values():
        all_times.clear()
    for _ in range(3):
        one_round(list(functions))
    best = min(min(all_times) for all_times in times.values())
    names = [name for name, all_times in times.items() if min(all_times) <= 2 * best]
    end = time.perf_counter() + seconds
    for i in range(rounds):
        if time.perf_counter() > end:
            break
        one_round(names if i % 2 else names[::-1])
    return {name: statistics.median(all_times) for name, all_times in times.items()}


def row(direction: Direction, g: Geometry, times: dict[str, float]) -> Measured:
    """Return medians as a row of the table, to a hundredth of a percent."""
    figures = {name: float(f"{seconds * 1e3:.4g}") for name, seconds in times.items()}
    constant = {name.removesuffix(CONSTANT): ms for name, ms in figures.items() if name.endswith(CONSTANT)}
    return Measured(direction, g, {name: ms for name, ms in figures.items() if not name.endswith(CONSTANT)}, constant)


def machine() -> str:
    """Return the processor's name and the number of cores."""
    names = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return f"{names[0] if names else system.machine()}, {len(names) or 1} cores"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def about(platform: str) -> dict[str, str]:
    """Words on this machine, versions and options, for people who read a table."""
    return {"machine": machine(), "jaxlib": jaxlib.version.__version__, "options": str(options_for(platform))}
