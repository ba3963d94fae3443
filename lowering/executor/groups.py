"""group2ctx: which device each `ctx_group` of a graph belongs to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.passes.place_device import place_device
from symjax_nnvm.symbol.symbol import Symbol


def check_groups(symbol: Symbol, group2ctx: Mapping[str, Any]) -> None:
    """Check that every group has a device and that no operator writes a state on another one.

    An executor is one program and runs on one device: where the groups name several, a warning says so. Models too
    large for one device are spread by `jax.sharding` over `to_jax`'s function. Raises PassError.
    """
    devices = list(dict.fromkeys(group2ctx.values()))
    numbers = {group: devices.index(ctx) + 1 for group, ctx in group2ctx.items()}  # 0 is the executor's own
    place_device(Graph(symbol.outputs), group_attr_key="__ctx_group__", assign_map=numbers, copy_op="_copy")
    if len(devices) > 1:
        warnings.warn(
            f"group2ctx names {len(devices)} devices; an executor runs on one device, and the groups are ignored. To "
            "spread a model over devices use lowering.to_jax with jax.sharding.",
            stacklevel=4,
        )
