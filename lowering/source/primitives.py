"""JAX's primitives: how each is called, what its result is named, which are written between their operands."""

from __future__ import annotations

from enum import IntEnum


class Level(IntEnum):
    """How tightly operators bind, those that bind least first."""

    COMPARED, OR, XOR, AND, ADDED, MULTIPLIED, SIGNED, ATOM = range(8)


def _table(text: str) -> dict[str, str]:
    """Return the pairs of a text, `key: value` in each line or after each semicolon."""
    rows = (row.split(":") for row in text.replace("\n", ";").split(";") if row.strip())
    return {key.strip(): value.strip() for key, value in rows}


COMPARISONS = _table("eq: ==; ne: !=; lt: <; le: <=; gt: >; ge: >=")

INFIX = {
    **{name: (sign, Level.COMPARED) for name, sign in COMPARISONS.items()},
    **{name: (sign, Level.ADDED) for name, sign in _table("add: +; add_any: +; sub: -").items()},
    **{name: (sign, Level.MULTIPLIED) for name, sign in _table("mul: *; div: /").items()},
    "and": ("&", Level.AND),
    "or": ("|", Level.OR),
    "xor": ("^", Level.XOR),
}

PREFIX = _table("neg: -; not: ~")

OF_TWO = _table("max: jnp.maximum; min: jnp.minimum; atan2: jnp.arctan2")
"""Functions that broadcast their operands as NumPy does."""

REDUCTIONS = _table("""
    reduce_sum: sum; reduce_prod: prod; reduce_max: max; reduce_min: min; reduce_and: all; reduce_or: any
""")

_OF_NUMPY = "abs exp exp2 log log1p expm1 sqrt square sin cos tan sinh cosh tanh floor ceil real imag cbrt"

CALLS = {name: f"jnp.{name}" for name in _OF_NUMPY.split()} | _table("""
    is_finite: jnp.isfinite
    logistic: jax.nn.sigmoid
    regularized_incomplete_beta: lax.betainc
    random_seed: jax.random.key
    random_unwrap: jax.random.key_data
    random_wrap: jax.random.wrap_key_data
    concatenate: jnp.concatenate [] axis=dimension
    stack: jnp.stack [] axis=
    unstack: jnp.unstack axis=
    convert_element_type: .astype new_dtype
    split: lax.split sizes axis
    argmax: lax.argmax axes index_dtype
    argmin: lax.argmin axes index_dtype
    sort: lax.sort () dimension= is_stable= num_keys=
    top_k: lax.top_k k axis=
    cumsum: lax.cumsum axis= reverse=
    cumprod: lax.cumprod axis= reverse=
    cummax: lax.cummax axis= reverse=
    cummin: lax.cummin axis= reverse=
    cumlogsumexp: lax.cumlogsumexp axis= reverse=
    integer_pow: lax.integer_pow y
    bitcast_convert_type: lax.bitcast_convert_type new_dtype
    pad: lax.pad padding_config
    rev: lax.rev dimensions
    tile: lax.tile reps
    round: lax.round rounding_method
    reduce_precision: lax.reduce_precision exponent_bits mantissa_bits
    fft: lax.fft fft_type fft_lengths
    cholesky: lax.linalg.cholesky symmetrize_input=False
    triangular_solve: lax.linalg.triangular_solve left_side= lower= transpose_a= conjugate_a= unit_diagonal=
    householder_product: lax.linalg.householder_product
    lu: lax.linalg.lu
    eigh: lax.linalg.eigh lower= sort_eigenvalues= symmetrize_input=False
    eig: lax.linalg.eig compute_left_eigenvectors= compute_right_eigenvectors=
    qr: lax.linalg.qr full_matrices= pivoting=
    svd: lax.linalg.svd full_matrices= compute_uv=
""")
"""The function of each primitive, [] or () where it takes its arrays as one list or tuple, then the parameters of the
primitive: by place, or `name=` by name, which may be another than the parameter's."""

HINTS = _table("""
    add: shifted; sub: difference; mul: scaled; div: ratio; max: larger; min: smaller; eq: equal; ne: unequal; lt: less
    le: at_most; gt: greater; ge: at_least; and: both; or: either; not: without; square: squares; integer_pow: power
    sqrt: root; exp: powers; reduce_sum: total; reduce_max: largest; reduce_min: smallest; reduce_window_sum: sums
    reduce_window_max: maxima; dot_general: product; rsqrt: scale; select_n: chosen; stop_gradient: fixed
    random_bits: bits; random_fold_in: subkey; iota: indices; conv_general_dilated: convolved; concatenate: together
    convert_element_type: cast; slice: part; index: part; pad: padded; reshape: reshaped; transpose: turned
    gather: picked; sort: ordered; jnp.take_along_axis: picked; jnp.argsort: order; squeeze: squeezed; cumsum: sums
    scatter: placed; scatter-add: added; scatter_add: added; tile: tiled; rev: reversed_order; stack: together
    reduce_or: any_of; reduce_and: all_of; neg: negative; floor: whole; shift_right_logical: shifted
    bitcast_convert_type: as_bits; clamp: clipped; dynamic_slice: part; top_k: largest; split: parts
    jax.random.uniform: draws
""")
"""What the result of a primitive is called."""
