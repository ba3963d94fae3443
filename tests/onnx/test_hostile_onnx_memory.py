"""ONNX files of a few hundred bytes that ask for gigabytes or for hours: what they ask for is bounded."""

import ast
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import symjax_nnvm as nn
from symjax_nnvm.errors import OnnxError
from symjax_nnvm.onnx.imports import importer, ops, reader
from symjax_nnvm.onnx.imports.array_budget import BASE, GROWTH, Budget
from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.constants import reference
from symjax_nnvm.onnx.imports.ops import resize
from symjax_nnvm.onnx.tensors import unique
from tests.onnx.test_from_onnx import assert_same, floats, model_of, node
from tests.support.refusals import refused

REFUSED = "would take more than|(axes|sizes), more than 64"


def whole(*numbers: Any) -> np.ndarray:
    return np.asarray(numbers, np.int64)


def test_a_negative_count_does_not_raise_the_budget():
    """The first node fails and reading goes on; the second alone is refused."""
    nodes = [node("ConstantOfShape", "less", "a"), node("ConstantOfShape", "much", "y")]
    weights = {"less": whole(-(2**61)), "much": whole(2**29)}
    with refused(OnnxError, "'ConstantOfShape', node 'a'", f"would take more than {BASE + GROWTH * 0} bytes"):
        nn.from_onnx(model_of(nodes, {}, ("a", "y"), weights))
    for kind, inputs in (("Tile", "three less"), ("Pad", "three cut"), ("OneHot", "three minus three")):
        first = node(kind, inputs, "a")
        given = {"three": whole(1, 2), "less": whole(-(2**61)), "cut": whole(-(2**61), 0), "minus": whole(-(2**61))}
        with pytest.raises(OnnxError, match="would take more than"):
            nn.from_onnx(model_of([first, nodes[1]], {}, ("a", "y"), {**given, "much": whole(2**29)}))


def test_a_budget():
    budget = Budget(1000)
    budget.reserve(BASE // 8, itemsize=8)
    with pytest.raises(OnnxError, match="would take more than"):
        budget.reserve(4001, itemsize=1)
    with pytest.raises(OnnxError, match="an axis of -1000 elements"):
        budget.reserve(-4, -1000)
    with pytest.raises(OnnxError, match="65 axes"):
        budget.reserve(*[1] * 65)
    budget.reserve(4000, itemsize=1)  # what was refused was not taken
    budget.reserve(0, 2**62)


SIDE = 20_000
HUGE: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], dict[str, np.ndarray]]] = {
    "a triangle": ([node("Trilu", "x")], {"x": (SIDE, SIDE)}, {}),
    "a larger one": ([node("Trilu", "x", upper=0)], {"x": (3 * SIDE, 3 * SIDE)}, {}),
    "a layer's bias": ([node("LayerNormalization", "x w")], {"x": (1, 2**33)}, {"w": floats(1)}),
    "a layer's gain": ([node("LayerNormalization", "x w b")], {"x": (1, 2**33)}, {"w": floats(1), "b": floats(1)}),
    "a state": ([node("LSTM", "x w r", hidden_size=2**31 - 1)], {"x": (2, 3, 4)},
                {"w": floats(1, 4, 4), "r": floats(1, 4, 1)}),
    "groups": ([node("GroupNormalization", "x w w", num_groups=2**40)], {"x": (1, 2**40, 1)}, {"w": floats(1)}),
    "axes of a batch": ([node("GatherND", "x i", batch_dims=2**40)], {"x": (2, 3), "i": ("INT64", (2, 1))}, {}),
    "one number broadcast": ([node("Expand", "w s", "a"), node("Add", "x a", "y")], {"x": (2**20, 2**20)},
                             {"w": floats(1), "s": whole(2**20, 2**20)}),
    "axes of a shape": ([node("Reshape", "x s")], {"x": (2, 3)}, {"s": np.full(10_000, 2**62, np.int64)}),
    "axes of nothing": ([node("Unsqueeze", "x s")], {"x": (2, 3)}, {"s": np.arange(50_000)}),
}  # fmt: skip
"""(nodes, inputs, weights) that once took gigabytes, or minutes."""


@pytest.mark.parametrize("name", HUGE)
def test_a_size_in_a_file_does_not_decide_what_memory_is_taken(name: str):
    nodes, inputs, weights = HUGE[name]
    started = time.process_time()
    with pytest.raises(OnnxError, match=f"{REFUSED}|cannot be those of a batch"):
        nn.from_onnx(model_of(nodes, inputs, weights=weights, opset=21))
    assert time.process_time() - started < 5


@pytest.mark.slow("computes much")
def test_a_weight_is_not_copied_for_each_node_that_reads_it():
    """Each of 400 products with another factor is a copy of 1 MB."""
    nodes = [node("Gemm", "x w", f"y{i}", alpha=1.0 + i) for i in range(400)]
    made = model_of(nodes, {"x": (3, 512)}, [f"y{i}" for i in range(400)], {"w": floats(512, 512)})
    with pytest.raises(OnnxError, match="would take more than"):
        nn.from_onnx(made)
    del made.graph.node[20:], made.graph.output[20:]
    assert len(nn.from_onnx(made)[1]) == 20


@pytest.mark.slow("computes much")
def test_large_weights_are_laid_out_anew():
    """The budget grows with what a file has: a cell's weights, of more bytes than any file may ask for."""
    size = 1500
    weights = {"w": np.zeros((1, 4 * size, size), np.float32), "r": np.zeros((1, 4 * size, 2 * size), np.float32)}
    weights["r"] = weights["r"][..., :size]
    made = model_of([node("LSTM", "x w r", hidden_size=size)], {"x": (2, 1, size)}, weights=weights)
    _, args, _ = nn.from_onnx(made)
    assert sum(array.nbytes for array in args.values()) > 2 * 4 * 4 * size * size


@pytest.mark.slow("computes much")
def test_a_resizing_takes_no_longer_than_what_it_gives():
    """The reference implementation takes its time for each element: not for each of a matrix of 16 million."""
    sizes = node("Constant", "", "z", value_ints=[1, 4000])
    nodes = [node("Resize", "x - - z", f"y{i}", mode="cubic", cubic_coeff_a=-0.5 - i / 100) for i in range(20)]
    outputs = [each.output[0] for each in nodes]
    started = time.process_time()
    assert nn.from_onnx(model_of([sizes, nodes[0]], {"x": (1, 3999)}, outputs[:1]))[1]["y0_resize1"].any()
    with pytest.raises(OnnxError, match="would take more than"):
        nn.from_onnx(model_of([sizes, *nodes], {"x": (1, 3999)}, outputs))
    assert time.process_time() - started < 10


@pytest.mark.nightly("every kind", but_one_in=3)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("how", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_a_matrix_of_few_vectors_is_that_of_all(mode: str, how: str):
    more = [{}] if mode == "nearest" else [{}, {"antialias": 1}]
    more += [{"exclude_outside": 1}, {"cubic_coeff_a": -0.5}] if mode == "cubic" else []
    more += [{"nearest_mode": each} for each in ("floor", "ceil", "round_prefer_ceil")] if mode == "nearest" else []
    for old, new in ((5, 9), (33, 7), (3, 1), (40, 100)):
        for extra in more:
            given = {"mode": mode, "coordinate_transformation_mode": how, **extra}
            g = Composer(18, 1, Counter(), lambda *_: [], lambda g, value: value, Budget())
            made = resize._matrix(g, old, new, None, given)
            one = node("Resize", "x - - z", **given)
            for i, row in enumerate(made):
                (expected,) = reference(one, 18, [np.eye(old, dtype=np.float32)[i], None, None, whole(new)])
                np.testing.assert_allclose(row, expected, atol=1e-6)


def test_masks_of_usual_sizes_are_made():
    made = model_of([node("Trilu", "x k")], {"x": (2, 5, 5)}, weights={"k": np.asarray(-(2**63), np.int64)})
    assert_same(made, {"x": floats(2, 5, 5)})
    made = model_of([node("Trilu", "x")], {"x": (1024, 1024)})
    assert nn.from_onnx(made)[1]["y_mask"].sum() == 1024 * 1025 / 2


# -- no form makes an array without reserving it ----------------------------------------------------------------------

PLAIN = frozenset(
    {
        *("all", "allclose", "any", "array_equal", "asarray", "broadcast_shapes", "cumsum", "diff", "fill_diagonal"),
        *("float32", "floor", "int64", "isfinite", "ndarray", "round"),
    }
)
"""Names of NumPy that make nothing, or nothing larger than what is there."""

RESERVED = frozenset({"broadcast_to", "concatenate", "flatnonzero", "repeat", "split", "tril", "triu"})
"""Those that copy, in functions that reserve the bytes before."""


def _numpy(tree: ast.AST) -> set[str]:
    found = (each for each in ast.walk(tree) if isinstance(each, ast.Attribute))
    return {each.attr for each in found if isinstance(each.value, ast.Name) and each.value.id == "np"}


def _reserves(tree: ast.AST) -> bool:
    calls = (each.func for each in ast.walk(tree) if isinstance(each, ast.Call))
    return any(isinstance(each, ast.Attribute) and each.attr in ("reserve", "full") for each in calls)


@pytest.mark.parametrize("path", sorted(Path(ops.__path__[0]).glob("*.py")), ids=lambda path: path.stem)
def test_forms_reserve_what_they_make(path: Path):
    for part in ast.parse(path.read_text(encoding="utf-8")).body:
        wrong = _numpy(part) - PLAIN - (RESERVED if _reserves(part) else set())
        assert not wrong, (
            f"{path.name}:{part.lineno}: np.{', np.'.join(wrong)}: g.full makes an array, g.reserve counts one"
        )


# -- what took the square of a number of names -------------------------------------------------------------------------


def test_equal_names_take_no_longer_than_others():
    taken: dict[str, int] = {}
    started = time.process_time()
    names = [unique("n", taken) for _ in range(100_000)]
    assert time.process_time() - started < 5
    assert (names[0], names[1], names[-1], len(set(names))) == ("n", "n_1", "n_99999", len(names))
    assert [unique(name, taken) for name in ("n_1", "n", "m")] == ["n_1_1", "n_100000", "m"]


@pytest.mark.slow("computes much")
def test_many_open_dimensions_are_few_readings():
    """Each name of a few is varied alone; those of many share readings, of which no two have the same."""
    for count, readings in ((0, 1), (1, 2), (16, 17), (17, 7), (2000, 15), (50_000, 20)):
        names = {"x": ("float32", [f"n{i}" for i in range(count)])}
        (shapes,) = next(importer._assignments(names)).values()
        columns = list(zip(*shapes[1], strict=True))
        assert len(shapes[1]) == readings
        assert len(set(columns[1:])) == max(count - 1, 0)  # the first name is that of a batch
        assert all(len(set(column)) == 2 for column in columns)
        pairs = {tuple(a + b - 224 for a, b in zip(columns[1], other, strict=True)) for other in columns[2:50]}
        assert not pairs & set(columns[1:])


def test_a_model_of_many_open_dimensions_is_read():
    names = [f"x{i}" for i in range(40)]
    inputs = {name: (f"a{i}", f"b{i}") for i, name in enumerate(names)}
    nodes = [node("Transpose", name, f"t{name}") for name in names]
    joined = [node("Reshape", "tx0 minus", "y")]
    made = model_of([*nodes, *joined], inputs, ["y", *(f"t{name}" for name in names[1:])], {"minus": whole(-1)})
    assert_same(made, {name: floats(2, 3 + i % 5) for i, name in enumerate(names)})


def test_bodies_do_not_copy_what_is_around_them(monkeypatch: pytest.MonkeyPatch):
    """Of many branches beside many values each would copy all."""
    around: list[Any] = []
    read = reader.Reader._read
    monkeypatch.setattr(reader.Reader, "_read", lambda self, graph: (around.append(self.values), read(self, graph))[1])
    info = onnx.helper.make_tensor_value_info("n", onnx.TensorProto.FLOAT, (2,))
    inner = onnx.helper.make_graph([node("Neg", "x", "n")], "b", [], [info])
    nodes = [node("If", "yes", f"y{i}", then_branch=inner, else_branch=inner) for i in range(3)]
    nn.from_onnx(model_of(nodes, {"x": (2,)}, ["y2"], {"yes": np.asarray(True)}))
    outer, *bodies = around
    assert len(bodies) == 3
    assert all(body.maps[1:] == [outer] for body in bodies)
