"""One warm child process that has JAX and can import neither package: it runs modules that were printed."""

import ast
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

CHILD = r"""
import pickle, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("symjax_nnvm", "lowering", "mxnet", "tests"):
            raise ImportError(name + " is not for printed modules")

sys.meta_path.insert(0, Refuse())
import jax, jax.numpy as jnp, numpy as np

stream, sys.stdout = sys.stdout.buffer, sys.stderr
while True:
    try:
        source, params, data, options, heads, wide = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    with jax.enable_x64(wide):
        try:
            namespace = {"__name__": "printed"}
            exec(compile(source, "printed.py", "exec"), namespace)
            if options.pop("seed", None) is not None:
                options["key"] = jax.random.key(7)
            compiled = options.pop("compiled", False)
            params, data = jax.tree.map(jnp.asarray, (params, data))
            def forward(params, data):
                outputs = namespace["forward"](params, *data, **options)
                states = {}
                if isinstance(outputs, tuple) and isinstance(outputs[-1], dict):
                    outputs, states = outputs
                return list(outputs) if isinstance(outputs, tuple) else [outputs], states
            forward = jax.jit(forward) if compiled else forward
            grads = None
            if heads is None:
                outputs, states = forward(params, data)
            else:
                outputs, pull, states = jax.vjp(forward, params, data, has_aux=True)
                heads = [jnp.asarray(h, o.dtype) if jnp.issubdtype(o.dtype, jnp.floating)
                         else np.zeros(o.shape, jax.dtypes.float0) for h, o in zip(heads, outputs)]
                grads = [g if g.dtype != jax.dtypes.float0 else None
                         for g in jax.tree.leaves(pull(heads))]
            answer = jax.tree.map(np.asarray, (outputs, states, grads))
        except Exception as error:
            answer = type(error).__name__ + ": " + str(error)
    pickle.dump(answer, stream)
    stream.flush()
"""


class Child:
    """The process; it ends with its input."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", CHILD]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(
        self,
        source: str,
        params: Mapping[str, Any],
        data: Sequence[Any],
        *,
        heads: Sequence[Any] | None = None,
        **options: Any,
    ) -> tuple[list[np.ndarray], dict[str, np.ndarray], list[np.ndarray | None] | None]:
        """Return the outputs, the states, and with `heads` the gradients of parameters, by name, and of data. options:
        of `forward`, and `seed` for a key, `compiled` for jax.jit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        wide = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
        pickle.dump((source, dict(params), list(data), options, heads, bool(wide)), self._process.stdin)
        self._process.stdin.flush()
        answer = pickle.load(self._process.stdout)
        assert not isinstance(answer, str), f"{answer}\n{source}"
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def well_formed(source: str) -> None:
    """Assert what holds of every printed file: it parses, its lines are short, and ruff leaves it as it is."""
    ast.parse(source)
    assert max(map(len, source.splitlines())) <= 100
    ruff = shutil.which("ruff", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if ruff is not None:
        for command in ("check", "--quiet", "--select=B,C4,E,F,I,PIE,SIM,UP,W"), ("format", "--diff", "--quiet"):
            line = [ruff, command[0], "--isolated", "--line-length=100", *command[1:], "-"]
            said = subprocess.run(line, input=source, capture_output=True, text=True, check=False)
            assert said.stdout.strip() in ("", "All checks passed!"), said.stdout + source
