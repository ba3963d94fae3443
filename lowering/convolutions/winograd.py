"""Winograd's minimal filtering (Lavin and Gray, 2015), F(2×2, 3×3) and F(4×4, 3×3): stride 1, no dilation, dense.

Outputs are made in tiles of t×t from (t+2)² numbers instead of 9 products each: 36 / 16 = 2.25 of F(2×2) and 144 / 36 =
4 of F(4×4) times fewer multiplications, at the price of sums before and after. All is slices, sums, and one product for
each of the (t+2)² numbers. Against XLA's, milliseconds on two loaded cores: forward 28²×512 22.8 → 14.9, 56²×256 27 →
12, 28²×128 1.46 → 0.84, 224²×64 in strips 25 → 19; the weight's gradient at batch 16 of 56²×64 38 → 19, of 28²×128 28 →
11. Errors in float32: below 1e-6 of scale by F(2×2), below 1e-5 by F(4×4).
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.convolutions.geometry import Geometry
from lowering.convolutions.products import row_product, sequence_product

__all__ = ["winograd", "winograd_weight", "winograd_weight_adjoint", "winograd_weight_gradient"]

Matrix = tuple[tuple[float, ...], ...]

_INPUT = {
    2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    4: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
}
"""Tile → Bᵀ: from t+2 elements of data to the numbers that are multiplied."""

_WEIGHT = {
    2: ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
    4: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
}
"""Tile → G: from the window's 3 elements to the factors."""

_OUTPUT = {
    2: ((1, 1, 1, 0), (0, 1, -1, -1)),
    4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
}
"""Tile → Aᵀ: from the products to t outputs."""


def _combined(rows: Matrix, parts: list[Array]) -> list[Array]:
    """Return for each row of factors, the sum of the parts times them."""
    sums = []
    for row in rows:
        total = None
        for factor, part in zip(row, parts, strict=True):
            if factor:
                term = part if factor == 1 else part * np.asarray(factor, part.dtype)
                total = term if total is None else total + term
        assert total is not None
        sums.append(total)
    return sums


def _transposed(rows: Matrix) -> Matrix:
    return tuple(zip(*rows, strict=True))


def _both(matrix: Matrix, array: Array) -> Array:
    """Map (j, j, …) → (i, i, …): matrix · array · matrixᵀ."""
    rows = jnp.stack(_combined(matrix, list(array)))
    return jnp.stack(_combined(matrix, [rows[:, j] for j in range(rows.shape[1])]), 1)


def winograd_weight(weight: Array, tile: int) -> Array:
    """Map (3, 3, c, f) → ((tile + 2)², c, f), the factors of `winograd`: G g Gᵀ of each channel and filter."""
    return _both(_WEIGHT[tile], weight).reshape(-1, *weight.shape[2:])


def winograd_weight_adjoint(factors: Array, tile: int) -> Array:
    """Map ((tile + 2)², c, f) → (3, 3, c, f): `winograd_weight`, transposed."""
    split = factors.reshape(tile + 2, tile + 2, *factors.shape[1:])
    return _both(_transposed(_WEIGHT[tile]), split)


def _tiles(padded: Array, matrix: Matrix, tile: int, counts: Sequence[int]) -> Array:
    """Map data (n, h, w, c) → ((tile + 2)², n · tiles, c): matrix · D · matrixᵀ of tiles D, which begin `tile` apart.

    Columns first, laid side by side: from 36 numbers at once, each of up to 16 elements, XLA makes a loop that takes
    twice as long or, of many channels' wide images, ten times. The barriers keep it from fusing what follows.
    """
    extent = range(len(matrix[0]))
    columns = _combined(matrix, [_every(padded, 2, j, tile, counts[1]) for j in extent])
    beside = lax.optimization_barrier(jnp.stack(columns))  # (tile + 2, n, h, tiles, c)
    rows = _combined(matrix, [_every(beside, 2, i, tile, counts[0]) for i in extent])
    return jnp.stack(rows).reshape((tile + 2) ** 2, -1, padded.shape[-1])


def _data_tiles(data: Array, g: Geometry, tile: int, counts: Sequence[int]) -> Array:
    """Map data (n, h, w, c) → ((tile + 2)², n · tiles, c): Bᵀ d B of what each tile of outputs sees."""
    axes = zip(g.size, g.pad, counts, strict=True)
    config = [(0, 0, 0), *((pad, count * tile + 2 - size - pad, 0) for size, pad, count in axes), (0, 0, 0)]
    return _tiles(lax.pad(data, np.zeros((), data.dtype), config), _INPUT[tile], tile, counts)


def _every(array: Array, axis: int, start: int, step: int, count: int) -> Array:
    return lax.slice_in_dim(array, start, start + (count - 1) * step + 1, step, axis)


def _outputs(products: Array, g: Geometry, tile: int, counts: Sequence[int]) -> Array:
    """Map ((tile + 2)², n · tiles, f) → (n, *out_size, f): Aᵀ M A of each tile."""
    split = products.reshape(tile + 2, tile + 2, -1, *counts, g.filters)
    rows = lax.optimization_barrier(_combined(_OUTPUT[tile], [split[i] for i in range(tile + 2)]))
    lines = [jnp.stack(_combined(_OUTPUT[tile], [row[j] for j in range(tile + 2)]), 3) for row in rows]
    out = jnp.stack(lines, 2)  # (n, rows of tiles, tile, columns of tiles, tile, f)
    out = out.reshape(-1, counts[0] * tile, counts[1] * tile, g.filters)
    return out[:, : g.out_size[0], : g.out_size[1]]


def _counts(g: Geometry, tile: int) -> list[int]:
    return [-(-size // tile) for size in g.out_size]


def winograd(data: Array, factors: Array, g: Geometry, tile: int) -> Array:
    """Map data (n, h, w, c), factors of `winograd_weight` → (n, *out_size, f)."""
    counts = _counts(g, tile)
    tiles = _data_tiles(data, g, tile, counts)
    return _outputs(sequence_product(tiles, factors), g, tile, counts)


def winograd_weight_gradient(ograd: Array, data: Array, g: Geometry, tile: int) -> Array:
    """Map head gradient (n, *out_size, f), data (n, h, w, c) → (3, 3, c, f): `winograd`, transposed in the weight.

    Filters come before channels until the end: then XLA lays (f, c, 3, 3), as files have it, by reading nine rows side
    by side. At batch 8 on one core, 7², 512→512 takes 44 ms instead of 65.
    """
    counts = _counts(g, tile)
    axes = zip(g.out_size, counts, strict=True)
    config = [(0, 0, 0), *((0, count * tile - size, 0) for size, count in axes), (0, 0, 0)]
    padded = lax.pad(ograd, np.zeros((), ograd.dtype), config)
    heads = _tiles(padded, _transposed(_OUTPUT[tile]), tile, counts)
    factors = row_product(heads, _data_tiles(data, g, tile, counts))
    return winograd_weight_adjoint(factors, tile).swapaxes(-1, -2)
