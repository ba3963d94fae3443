"""Gluon's structural names (`features.0.weight`) against a symbol's (`net0_conv0_weight`): by roles, shapes and order.

Arrays belong to layers: those of one block in the file, the variables of one name stem in the symbol. A layer has
roles (`weight`, `bias`, `gamma`, …) and shapes. A file lists layers as they were registered. A symbol lists them as
they run; the numbers in its names give the order in which they were created, which for most networks is the same as
registered. Layers that only an order could distinguish are matched where every known order agrees, and reported
otherwise: nothing is guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from symjax_nnvm.ir.types import Shape

_SAME_ROLE = {"running_mean": "moving_mean", "running_var": "moving_var"}
"""Gluon's and the operators' names of one thing."""

_DIGITS = "0123456789"


@dataclass(frozen=True)
class StructuralLayer:
    """Holds arrays that belong together. members: role → name. shapes: role → the shape as far as it is known."""

    name: str
    members: dict[str, str]
    shapes: dict[str, Shape | None]

    def fits(self, other: StructuralLayer) -> bool:
        """Return whether both have the same roles, in shapes that do not contradict each other."""
        return self.members.keys() == other.members.keys() and all(
            compatible(shape, other.shapes[role]) for role, shape in self.shapes.items()
        )


Layers = list[StructuralLayer]


def compatible(a: Shape | None, b: Shape | None) -> bool:
    """Return whether two partly known shapes can be one."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(m is None or n is None or m == n for m, n in zip(a, b, strict=True))


def file_layers(shapes: Mapping[str, Shape]) -> Layers:
    """Return the layers of structural names, in order: what comes before the last dot, and the role after it."""
    layers: dict[str, StructuralLayer] = {}
    for name, shape in shapes.items():
        block, _, role = name.rpartition(".")
        _add(layers, block, _role(role), name, shape)
    return list(layers.values())


def symbol_layers(
    shapes: Mapping[str, Shape | None], uses: Mapping[str, tuple[str, str]], roles: frozenset[str]
) -> Layers:
    """Return the layers of a symbol's variables, in the order in which they run; variables without one of the roles are
    left out.

    A variable's role is the end of its name, else the name of the operator's input that it is. uses: variable →
    (operator node, input). roles: those of the file.
    """
    layers: dict[str, StructuralLayer] = {}
    depth = 1 + max((role.count("_") for role in roles), default=0)
    for name, shape in shapes.items():
        stem, role = _split(name, roles, depth)
        if role is None and name in uses and _role(uses[name][1]) in roles:
            stem, role = uses[name][0], _role(uses[name][1])
        if role is not None:
            _add(layers, stem, role, name, shape)
    return list(layers.values())


def match_layers(
    own: Layers, stored: Layers
) -> tuple[list[tuple[StructuralLayer, StructuralLayer]], list[tuple[Layers, Layers]]]:
    """Return (pairs of layers, groups that cannot be distinguished), of the symbol's layers and the file's."""
    created = _by_creation(own)
    orders = [order for order in (own, created) if _all_fit(order, stored)]
    if not orders:
        return _match_unique(own, stored)
    clear, unclear = [], []
    for i, layer in enumerate(stored):
        (clear if orders[0][i] is orders[-1][i] else unclear).append((orders[0][i], layer))
    if not unclear:
        return clear, []
    # The two orders differ here: each of these could be any other that it fits.
    pairs, groups = _match_unique([layer for layer, _ in unclear], [layer for _, layer in unclear])
    return clear + pairs, groups


def _add(layers: dict[str, StructuralLayer], stem: str, role: str, name: str, shape: Shape | None) -> None:
    layer = layers.setdefault(stem, StructuralLayer(stem, {}, {}))
    layer.members.setdefault(role, name)
    layer.shapes.setdefault(role, shape)


def _role(name: str) -> str:
    return _SAME_ROLE.get(name, name)


def _split(name: str, roles: frozenset[str], depth: int) -> tuple[str, str | None]:
    """Return (stem, role): the longest end of the name that is a role, of at most `depth` words."""
    words = name.rsplit("_", depth)
    for i in range(len(words)):
        role = _role("_".join(words[i:]))
        if role in roles:
            return "_".join(words[:i]), role
    return name, None


def _all_fit(own: Layers, stored: Layers) -> bool:
    return len(own) == len(stored) and all(a.fits(b) for a, b in zip(own, stored, strict=True))


def _by_creation(layers: Layers) -> Layers:
    """Return the layers; those whose names differ only in the last number are in the order of these numbers."""
    places: dict[str, list[int]] = {}
    for i, layer in enumerate(layers):
        places.setdefault(layer.name.rstrip(_DIGITS), []).append(i)
    ordered = list(layers)
    for stem, at in places.items():
        numbered = sorted((layers[i] for i in at), key=lambda layer: _number(layer.name[len(stem) :]))
        for i, layer in zip(at, numbered, strict=True):
            ordered[i] = layer
    return ordered


def _number(digits: str) -> tuple[int, str]:
    digits = digits.lstrip("0")
    return len(digits), digits


def _match_unique(
    own: Layers, stored: Layers
) -> tuple[list[tuple[StructuralLayer, StructuralLayer]], list[tuple[Layers, Layers]]]:
    """Return the pairs of layers that fit only each other; other layers come in groups of the same roles and shapes."""
    by_roles: dict[frozenset[str], Layers] = {}
    for layer in own:
        by_roles.setdefault(frozenset(layer.members), []).append(layer)
    alike: dict[frozenset[tuple[str, Shape | None]], Layers] = {}
    for layer in stored:
        alike.setdefault(frozenset(layer.shapes.items()), []).append(layer)
    groups = [([a for a in by_roles.get(frozenset(b[0].members), ()) if a.fits(b[0])], b) for b in alike.values()]
    claims = Counter(layer.name for candidates, layers in groups for layer in candidates for _ in layers)
    pairs: list[tuple[StructuralLayer, StructuralLayer]] = []
    unclear: list[tuple[Layers, Layers]] = []
    for candidates, layers in groups:
        if len(candidates) == 1 and claims[candidates[0].name] == 1:
            pairs.append((candidates[0], layers[0]))
        elif candidates:
            unclear.append((candidates, layers))
    return pairs, unclear
