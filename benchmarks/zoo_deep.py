"""The gradients of a deep stack of transformer blocks: ours against `jax.grad` of the same blocks written by hand.

    python benchmarks/zoo_deep.py [--layers 48] [--rounds 3]        # minutes: XLA compiles the plain one for long

Pre-norm blocks, 128 wide, 4 heads, on (8, 64, 128); the mean square of the output and its gradients by all parameters.
By hand there are three: plain; with an optimization_barrier after each residual sum; and with LayerNorm under a jit of
its own, which changes no number but adds up a LayerNorm's gradient before it joins the residual stream's. `largest
fusion` is the number of instructions in the largest loop that XLA computes in one go: what it grows by with the depth
is computed again and again (docs/reference/benchmarks.md says why).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import lowering
from benchmarks.contenders import Contender, Loaded, medians, options_of, print_table, serve, take_turns
from benchmarks.zoo import difference
from benchmarks.zoo_jax import normalised, pre_norm, transposed
from benchmarks.zoo_models import blocks, initial_values
from lowering.xla.compile_options import jit
from symjax_nnvm import symbol as sym

SHAPE, HEADS = (8, 64, 128), 4
BY_HAND: dict[str, dict[str, Callable[..., jax.Array]]] = {
    "by hand": {},
    "by hand, barriers": {"between": lax.optimization_barrier},
    "by hand, LayerNorm jitted": {"normal": jax.jit(normalised)},
}
VARIANTS = ("ours", *BY_HAND)


def gradient(variant: str, layers: int) -> tuple[Any, tuple[Any, ...]]:
    """(jitted function of the arrays, the arrays)."""
    net = sym.MakeLoss(sym.mean(sym.square(blocks(sym, layers, SHAPE[-1], HEADS, pre_norm=True))))
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=SHAPE)[0], strict=True))
    del shapes["data"]
    values = initial_values(shapes)
    data = jnp.asarray(np.random.RandomState(1).standard_normal(SHAPE), jnp.float32)
    if variant == "ours":
        function = lowering.grad_fn(net, list(values))
        return jit(lambda w, x: function({**w, "data": x})[:2]), (jax.device_put(values), data)

    def loss(w: Any, x: jax.Array) -> jax.Array:
        return jnp.mean(jnp.square(pre_norm(w, x, layers, HEADS, **BY_HAND[variant])))

    return jax.jit(jax.value_and_grad(loss)), (transposed(values), data)


def load(variant: str, layers: int) -> Loaded:
    """Trace, compile and run once."""
    jitted, arguments = gradient(variant, layers)
    start = time.perf_counter()
    compiled = jitted.lower(*arguments).compile()
    seconds = time.perf_counter() - start
    text = compiled.as_text() or ""
    analysis = compiled.memory_analysis()
    outputs, grads = compiled(*arguments)
    # Weights are ordered otherwise by hand; gradients in one array: those of the keys' biases are 0 but for rounding.
    vectors = [np.asarray(grads[name]) for name in sorted(grads) if not name.endswith("_weight")]
    found = [*map(np.asarray, jax.tree.leaves(outputs)), np.concatenate(vectors)]
    facts = {
        "compile": seconds,
        "temporaries": 0 if analysis is None else analysis.temp_size_in_bytes / 1e6,
        "largest": max(map(len, fusions(text)), default=0),
        "instructions": sum(map(len, fusions(text))),
    }
    return Loaded(lambda: jax.block_until_ready(compiled(*arguments)), found, facts)


def fusions(hlo: str) -> list[list[str]]:
    """The instructions of each fused computation."""
    bodies = re.findall(r"^%fused_computation[\w.]* \([^\n]*\{\n(.*?)^\}", hlo, re.MULTILINE | re.DOTALL)
    return [[line for line in body.splitlines() if " parameter(" not in line] for body in bodies]


def main() -> None:
    """Print the table; with --serve, be one of its contenders."""
    parser = options_of(__doc__, 3)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--serve", action="store_true", help="be one of the contenders")
    options = parser.parse_args()
    if options.serve:
        return serve(load)
    with ExitStack() as stack:
        children = {name: stack.enter_context(Contender((sys.executable, __file__, "--serve"))) for name in VARIANTS}
        compare(children, options.layers, options.rounds)


def compare(children: Mapping[str, Contender], layers: int, rounds: int) -> None:
    """Have each compile, time them in turn and print the table."""
    lines: dict[str, list[str]] = {}
    reference: list[np.ndarray] = []
    for name, child in children.items():
        print(f"compiling: {name}", file=sys.stderr, flush=True)
        facts = child.load(variant=name, layers=layers)
        outputs = child.outputs()
        reference = reference or outputs
        counts = [f"{facts[key]:,.0f}" for key in ("temporaries", "largest", "instructions")]
        lines[name] = [f"{facts['compile']:.1f}", *counts, f"{difference(outputs, reference):.0e}"]
    ways = {name: child.time for name, child in children.items()}
    ms = medians(take_turns(ways, rounds, seconds=0.2, pause=0.3))
    columns = ["gradients", "compile s", "temporaries MB", "largest fusion", "fused instructions", "difference", "ms"]
    print_table(columns, [[name, *lines[name], f"{ms[name]:.0f}"] for name in children])


if __name__ == "__main__":
    lowering.keep_memory()
    main()
