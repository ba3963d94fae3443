"""Initialisers and parameters that MXNet 1.9.1 and we give values to; `goldens/initializer.py` asks MXNet."""

from typing import Any

Shape = tuple[int, ...]

FIXED: dict[str, tuple[str, Shape]] = {
    "zero": ('["zero", {}]', (2, 3)),
    "ones": ("ones", (2, 3)),
    "constant": ('["constant", {"value": 2.5}]', (2, 3)),
    "constant_array": ('["constant", {"value": [1.0, 2.0, 3.0]}]', (2, 3)),
    "bilinear_even": ("bilinear", (2, 1, 4, 4)),
    "bilinear_odd": ("Bilinear", (1, 2, 5, 5)),
    "bilinear_oblong": ("bilinear", (1, 1, 3, 6)),
    "lstm_bias": ('["lstmbias", {"forget_bias": 1.5}]', (12,)),
    "fused_lstm": (
        '["fusedrnn", {"init": "[\\"one\\", {}]", "num_hidden": 3, "num_layers": 2, "mode": "lstm",'
        ' "bidirectional": true, "forget_bias": 2.0}]',
        (4 * 3 * 2 * ((5 + 3 + 2) + (6 + 3 + 2)),),
    ),
    "fused_gru": (
        '["fusedrnn", {"init": "[\\"constant\\", {\\"value\\": 0.5}]",'
        ' "num_hidden": 4, "num_layers": 1, "mode": "gru"}]',
        (3 * 4 * (2 + 4 + 2),),
    ),
    "fused_rnn_global": (
        '["fusedrnn", {"init": null, "num_hidden": 2, "num_layers": 2, "mode": "rnn_tanh", "forget_bias": 9.0}]',
        (2 * ((3 + 2 + 2) + (2 + 2 + 2)),),
    ),
}
"""Variable's `__init__` → shape; the model's own initialiser is Constant(3)."""

_ENDINGS = "weight bias gamma beta moving_mean moving_var moving_inv_var moving_avg bias_quantize meanx"

NAMES = [
    *(f"a_{ending}" for ending in _ENDINGS.split()),
    *("weight", "xmin", "xmax", "upsampling_x", "upsampling_bias", "stn_loc_weight", "stn_loc_bias"),
    *("proj_weight", "unknown"),
]
"""Names that the rules decide; a parameter of shape (6, 1, 4, 4), or (6,) where it is a bias."""

SCALES: tuple[tuple[str, dict[str, Any], Shape], ...] = (
    ("xavier", {}, (10, 20)),
    ("xavier", {"factor_type": "in"}, (10, 20, 3, 3)),
    ("xavier", {"factor_type": "out", "magnitude": 2.34}, (10, 20, 5)),
    ("xavier", {"rnd_type": "gaussian", "magnitude": 2}, (7, 3, 1, 2)),
    ("msraprelu", {}, (8, 4, 3, 3)),
    ("msraprelu", {"factor_type": "in", "slope": 0.0}, (8, 4)),
    ("uniform", {}, (3,)),
    ("uniform", {"scale": 0.5}, (3, 2)),
    ("normal", {}, (3,)),
    ("normal", {"sigma": 2}, (3, 2)),
)
"""Name, parameters, shape: how wide does MXNet ask its generator to draw?"""


def shape_of(name: str) -> Shape:
    """The shape that a name of NAMES is tried with."""
    return (6,) if name.endswith("bias") and not name.startswith("upsampling") else (6, 1, 4, 4)
