"""What is decided about an operator stands on its card: no name of an operator is written outside `ops/`, but where the
name itself is what is meant."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowering
from symjax_nnvm.ir.op import list_all_names

ROOT = Path(lowering.__file__).parents[1]

_API = "MXNet's functions, and the operators that they call"
_LAYER = "Gluon's layers, and the operators that they call"
_BUILDS = "builds nodes of its own"
NAMING = {
    "symjax_nnvm/symbol/python_operators.py": _API,
    "lowering/mx/compatibility/downloader.py": "HTTP's name of a content that is not packed",
    "symjax_nnvm/symbol/fluent.py": _API,
    "symjax_nnvm/symbol/operator_functions.py": _API,
    "symjax_nnvm/symbol/namespaces.py": _API,
    "symjax_nnvm/symbol/random_functions.py": _API,
    "symjax_nnvm/symbol/wrappers.py": _API,
    "symjax_nnvm/symbol/control_flow.py": f"{_API}; {_BUILDS}: copies of what a body returns as it came",
    "symjax_nnvm/symbol/gradient_call.py": f"{_BUILDS}: head gradients",
    "symjax_nnvm/ir/rules/entry_gradients.py": f"{_BUILDS}: zeros where no gradient flows",
    "symjax_nnvm/passes/gradient/__init__.py": f"{_BUILDS}: NNVM's sums and zeros",
    "symjax_nnvm/passes/gradient/full_graph.py": f"{_BUILDS}: MXNet's sums, zeros and copies",
    "symjax_nnvm/passes/alter_op_layout.py": f"{_BUILDS}: transpositions",
    "symjax_nnvm/passes/eliminate_common_expressions.py": f"{_BUILDS}: copies of heads that become one",
    "symjax_nnvm/passes/fold_scale_axis.py": "the operator that is folded into others",
    "symjax_nnvm/passes/reduce_precision.py": f"{_BUILDS}: casts",
    "symjax_nnvm/passes/quantize.py": f"{_BUILDS}: what rounds to 8 bits, and what undoes it",
    "symjax_nnvm/passes/place_device.py": f"{_BUILDS}: copies to another device",
    "symjax_nnvm/passes/place_sharding.py": f"{_BUILDS}: constraints",
    "symjax_nnvm/onnx/imports/constants.py": "ONNX' operators, some of which have the names of MXNet's",
    "lowering/lanes/primitive_rules.py": "JAX's primitives, one of which has the name of MXNet's operator",
    "lowering/source/node_code.py": "JAX's primitives, one of which has the name of MXNet's operator",
    "lowering/source/equations.py": "JAX's primitives, one of which has the name of MXNet's operator",
    "symjax_nnvm/onnx/builder.py": "ONNX' operators, some of which have the names of MXNet's",
    "lowering/sharding/ctx_groups.py": f"{_BUILDS}: copies to another device",
    "lowering/mx/ndarray/__init__.py": _API,
    "lowering/mx/ndarray/array.py": f"{_API}: those of Python's operators on arrays",
    "lowering/mx/ndarray/number_inputs.py": f"{_BUILDS}: operators of the numbers that others have as parameters",
    "lowering/mx/mixed_precision.py": f"{_BUILDS}: casts",
    "symjax_nnvm/surgery/amp_casts.py": "the casts that MXNet takes out of a network that it saves",
    "lowering/mx/gluon/loss.py": _LAYER,
    "lowering/mx/gluon/nn/conv_layers.py": _LAYER,
    "lowering/mx/gluon/nn/normalization.py": "a parameter with the name of an operator",
    "lowering/mx/gluon/rnn/rnn_layer.py": _LAYER,
    "lowering/mx/gluon/rnn/sequences.py": _LAYER,
    "lowering/mx/symbol/partial_shapes.py": "which shapes MXNet's operators infer of shapes that are known in part",
    "lowering/mx/viz.py": "the operators whose parameters MXNet's table counts",
    "lowering/mx/ndarray/contributed.py": f"{_API}: updates of several arrays",
    "lowering/mx/ndarray/array_control_flow.py": f"{_API}: what a loop's outputs become one array by",
    "lowering/mx/ndarray/creation.py": _API,
    **{
        f"lowering/mx/numpy/{name}.py": _API
        for name in (
            *(
                *("decompositions", "distributions", "elementwise", "methods", "multiarray"),
                *("axis_reductions", "rearranging"),
            ),
        )
    },
    "lowering/mx/numpy_extension/functions.py": _API,
    "lowering/mx/symbol/dialect.py": _API,
    "symjax_nnvm/mxnet/symbol_json.py": "a rule of MXNet's for old files, about two operators by name",
}
"""File → why it names operators."""

NAMES = frozenset(list_all_names())
_ASKING = {"get", "apply", "exists", "register", "lowers", "create_operator", "superseding"}
"""Functions and methods whose arguments may be names of operators."""


def _constants(tree: ast.AST) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_name_of_op(node: ast.AST) -> bool:
    """`op.name`, `node.op.name`, and methods of them."""
    if isinstance(node, ast.Attribute) and node.attr == "name":
        return isinstance(node.value, ast.Name | ast.Attribute) and ast.unparse(node.value).endswith("op")
    return isinstance(node, ast.Attribute | ast.Call) and any(map(_is_name_of_op, ast.iter_child_nodes(node)))


def _deciding(node: ast.AST) -> bool:
    """Whether a name is looked up, or compared with the name of an operator."""
    if isinstance(node, ast.Compare | ast.Subscript):
        return any(map(_is_name_of_op, ast.iter_child_nodes(node)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        return called in _ASKING or _is_name_of_op(node.func)
    return False


def names_in(source: str) -> list[str]:
    """The names of operators in a source: words that can be nothing else (`_copy`, `Concat`, `one_hot`) wherever they
    stand; ordinary ones (`mean`, `zeros`) where one is looked up or compared; parts of names that operators' are
    searched for."""
    tree = ast.parse(source)
    found = [text for text in _constants(tree) if text in NAMES and ("_" in text or text != text.lower())]
    for node in filter(_deciding, ast.walk(tree)):
        outer = node.args if isinstance(node, ast.Call) else [node]
        texts = [text for part in outer for text in _constants(part)]
        searched = isinstance(node, ast.Call) and _is_name_of_op(node.func)
        found += [text for text in texts if text not in found and (searched or text in NAMES)]
    return found


FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in ("symjax_nnvm", "lowering")
    for path in (ROOT / package).rglob("*.py")
    if "ops" not in path.relative_to(ROOT).parts
)


@pytest.mark.slow("compiles")
def test_no_operator_is_named_outside_ops_but_in_a_listed_few():
    found = {file: names_in((ROOT / file).read_text(encoding="utf-8")) for file in FILES if file not in NAMING}
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.slow("reads the whole project")
@pytest.mark.parametrize("file", NAMING)
def test_every_listed_file_names_one(file: str):
    assert names_in((ROOT / file).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('KEPT = {"Convolution", "Concat"}', ["Convolution", "Concat"]),
        ('RULES = {"softmax": 5, "one_hot": 0}', ["one_hot"]),
        ('if node.op.name == "softmax": pass', ["softmax"]),
        ('if op.name in ("mean", "sum"): pass', ["mean", "sum"]),
        ('op.name.startswith("broadcast_")', ["broadcast_"]),
        ('node.op.name.partition(":")[0] != "Custom"', ["Custom", ":"]),
        ('apply("zeros", name="zero_grad")', ["zeros"]),
        ('block = Op.get("BlockGrad")', ["BlockGrad"]),
        ('reduction = "mean"\nshape.index("dot")', []),
        ('"""The result of softmax and of Convolution."""', []),
    ],
)
def test_what_counts_as_a_name(source: str, names: list[str]):
    assert sorted(names_in(source)) == sorted(names)
