"""JAX's autodiff computes no gradient that a user receives: proved on the source, and by running networks with it
poisoned. `tests/ops/test_ladder.py` does so with every case of the table."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jax
import jax._src.api
import jax._src.interpreters.ad
import numpy as np
import pytest

import lowering
import symjax_nnvm
from symjax_nnvm import symbol as sym
from tests.support.poison import AUTODIFF

ROOT = Path(lowering.__file__).parents[1]

AUTODIFF_MODULES = ("jax.ad_checkpoint", "jax.custom_derivatives", "jax.experimental.jet", "jax.interpreters.ad")

_LAST = {name.rpartition(".")[2] for name in AUTODIFF_MODULES}

ALLOWED = {
    ("lowering/api/gradient.py", "differentiable", "custom_vjp"),
    ("lowering/native/unpromised.py", "<module>", "jax.interpreters.ad"),  # where a rule of ours is registered
    ("symjax_nnvm/ops/optimizer/update.py", "UpdateSchema", "grad"),
    ("symjax_nnvm/ops/optimizer/multi_update.py", "MultiUpdateSchema", "grad"),
    ("symjax_nnvm/symbol/fluent.py", "<module>", "grad"),
    ("symjax_nnvm/symbol/wrappers.py", "adamw_update", "grad"),
    ("symjax_nnvm/symbol/wrappers.py", "mp_adamw_update", "grad"),
}
"""(file, function, name): what makes our gradient JAX's gradient, not the other way round; and what is
called `grad`: inputs, a method of MXNet's."""

WITNESS = ("lowering/verify/gradient_check.py", "lowering/verify/nodes.py")


# -- the source ------------------------------------------------------------------------------------------------------


class Finder(ast.NodeVisitor):
    """Collects (function, name) for each use of JAX's autodiff, and the modules that are imported."""

    def __init__(self) -> None:
        self.uses: list[tuple[str, str]] = []
        self.modules: set[str] = set()
        self._jax_names: set[str] = set()
        self._functions: list[str] = ["<module>"]

    def _use(self, name: str) -> None:
        self.uses.append((self._functions[min(1, len(self._functions) - 1)], name))

    def _function(self, node: ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) -> None:
        self._functions.append(node.name)
        self.generic_visit(node)
        self._functions.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _function

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(alias.name, alias.asname or alias.name.partition(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._import(f"{node.module}.{alias.name}", alias.asname or alias.name)
            if (node.module or "").partition(".")[0] == "jax" and alias.name in AUTODIFF:
                self._use(alias.name)

    def _import(self, module: str, name: str) -> None:
        self.modules.add(module)
        if module.partition(".")[0] == "jax":
            self._jax_names.add(name)
        if module.startswith(AUTODIFF_MODULES):
            self._use(module)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in AUTODIFF and _root(node) in self._jax_names:
            self._use(node.attr)
        if node.attr in _LAST and ast.unparse(node).startswith(AUTODIFF_MODULES):
            self._use(ast.unparse(node))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value in AUTODIFF:  # getattr(jax, "grad")
            self._use(node.value)


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


@cache
def find(source: str) -> Finder:
    finder = Finder()
    finder.visit(ast.parse(source))
    return finder


def sources(package: str) -> Iterator[tuple[str, str]]:
    """(path, text) of the package's modules."""
    for path in sorted((ROOT / package).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import jax\njax.grad(f)", "grad"),
        ("import jax as j\ng = j.vjp", "vjp"),
        ("from jax import jvp as push", "jvp"),
        ("from jax import numpy\n@jax.custom_jvp\ndef f(): ...\nimport jax", ""),
        ("import jax\n@jax.custom_jvp\ndef f(): ...", "custom_jvp"),
        ("import jax\ndef f():\n    return jax.lax.linear_transpose", "linear_transpose"),
        ("import jax\ngetattr(jax, 'hessian')", "hessian"),
        ("from jax.ad_checkpoint import checkpoint_name", "jax.ad_checkpoint.checkpoint_name"),
        ("from jax.interpreters import ad", "jax.interpreters.ad"),
        ("import jax\njax.interpreters.ad.backward_pass", "jax.interpreters.ad"),
        ("import lowering\nlowering.gradient.grad(f)", ""),
    ],
)
def test_the_search_finds_each_way_to_autodiff(source: str, name: str):
    found = [use for _, use in find(source).uses]
    assert found == [] if not name else name in found


@pytest.mark.slow("computes much")
def test_the_source_uses_no_autodiff_of_jax():
    scanned = [(path, text) for package in ("symjax_nnvm", "lowering") for path, text in sources(package)]
    assert len(scanned) > 40
    found = {
        (path, function, name) for path, text in scanned if path not in WITNESS for function, name in find(text).uses
    }
    assert found - ALLOWED == set()
    assert found >= ALLOWED, "an exception that no module needs"


@pytest.mark.slow("computes much")
def test_the_ground_floor_imports_no_jax_in_its_source():
    for path, text in sources("symjax_nnvm"):
        roots = {module.partition(".")[0] for module in find(text).modules}
        assert not roots & {"jax", "jaxlib", "lowering", "flax", "optax"}, path


@pytest.mark.slow("starts processes")
def test_importing_the_ground_floor_does_not_import_jax():
    program = """
import importlib, pkgutil, sys
import symjax_nnvm
names = [info.name for info in pkgutil.walk_packages(symjax_nnvm.__path__, "symjax_nnvm.")]
for name in names:
    importlib.import_module(name)
print(len(names), [name for name in sys.modules if name.partition(".")[0] in ("jax", "jaxlib", "lowering")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    count, found = done.stdout.split(maxsplit=1)
    assert int(count) > 30
    assert found.strip() == "[]"
    assert symjax_nnvm.__name__ == "symjax_nnvm"


# -- at run time -----------------------------------------------------------------------------------------------------


TAKEN_BEFORE = {
    "grad": lambda f, grad=jax.grad: grad(f)(1.0),
    "jvp": lambda f, jvp=jax.jvp: jvp(f, (1.0,), (1.0,)),
    "linear_transpose": lambda f, transpose=jax.linear_transpose: transpose(lambda x: 2 * x, 1.0)(1.0),
    "linearize": lambda f, linearize=jax.linearize: linearize(f, 1.0),
    "vjp": lambda f, vjp=jax.vjp: vjp(f, 1.0),
}


@pytest.mark.parametrize("name", TAKEN_BEFORE)
def test_the_poison_reaches_public_functions_and_what_lies_below_them(poisoned: None, name: str):
    with pytest.raises(AssertionError, match="autodiff was called"):
        getattr(jax, name)(jax.numpy.sin)
    with pytest.raises(AssertionError, match="autodiff was called"):
        TAKEN_BEFORE[name](jax.numpy.sin)


def convolutional_network() -> sym.Symbol:
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    net = sym.Activation(sym.BatchNorm(net, fix_gamma=False, name="bn"), act_type="relu")
    net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = sym.Dropout(sym.Flatten(net), p=0.5, name="drop")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc"), name="softmax")


def values(net: sym.Symbol) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    shapes, _, aux_shapes = net.infer_shape(data=(2, 3, 4, 4))
    rng = np.random.RandomState(0)
    args = {n: rng.uniform(0, 1, s).astype(np.float32) for n, s in zip(net.list_arguments(), shapes, strict=True)}
    aux = {n: np.ones(s, np.float32) for n, s in zip(net.list_auxiliary_states(), aux_shapes, strict=True)}
    return args, aux


@pytest.mark.nightly("compiles")
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["plain", "jit"])
def test_a_convolutional_network_trains_without_autodiff(poisoned: None, transform):
    net = convolutional_network()
    args, aux = values(net)
    outputs, grads, new_aux = transform(lowering.grad_fn(net))(args, aux, jax.random.key(0))
    assert outputs[0].shape == (2, 3)
    assert set(new_aux) == set(aux)
    for name in ("conv_weight", "bn_gamma", "fc_weight", "data"):
        assert np.all(np.isfinite(grads[name]))
        assert np.any(np.asarray(grads[name]) != 0), name


@pytest.mark.slow("compiles")
def test_second_order_needs_no_autodiff(poisoned: None):
    net = convolutional_network()
    args, aux = values(net)
    first = net.gradient(["fc_weight"])
    names = [name for name in first.list_arguments() if name in args]
    aux = {name: aux[name] for name in first.list_auxiliary_states()}
    program = lowering.grad_fn(first, ["fc_weight"])
    heads = [np.ones((3, 16), np.float32)]
    _, second, _ = program({name: args[name] for name in names}, aux, jax.random.key(0), heads)
    assert second["fc_weight"].shape == (3, 16)
