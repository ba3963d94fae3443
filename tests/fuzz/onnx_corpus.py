"""Seeds of the target `onnx`: small models of every kind that is read, as bytes, the same ones every time."""

from functools import cache

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.mxnet_files.test_networks import NAMES
from tests.onnx.not_run import NO_FORM, has_form, has_no_file
from tests.onnx.runtime import exported as exported_case
from tests.onnx.test_from_onnx import NEW, OLD, model_of, node
from tests.onnx.test_networks import BATCHES, exported, fixed, of_any_batch
from tests.support import ladder

__all__ = ["onnx_models", "with_branches", "with_functions"]

_SMALL = 200_000
"""Bytes: of larger models most mutants differ in weights alone."""


@cache
def onnx_models() -> list[bytes]:
    """Models: of the table of cases, of each form in each version, whole networks, and functions and branches."""
    cases = [
        case for _, case in ladder.all_cases() if has_form(case) and not has_no_file(case) and case.id not in NO_FORM
    ]
    made = [exported_case(case)[0] for case in cases]
    made += [model_of(nodes, {"x": shape}, weights=arrays, opset=opset)
             for opset, nodes, shape, arrays in (*OLD.values(), *NEW.values())]  # fmt: skip
    made += [exported(name, of_any_batch(name) if name in BATCHES else fixed(name)) for name in NAMES]
    made += [with_functions(), with_branches(), _of_sizes()]
    texts = [model.SerializeToString(deterministic=True) for model in made]
    return [text for text in dict.fromkeys(texts) if len(text) < _SMALL]


def _floats(*shape: int) -> np.ndarray:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def with_functions(deep: int = 3) -> onnx.ModelProto:
    """A model of functions inside each other, each of which calls the next twice; the last is a Relu with a weight."""
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    made = model_of([node("f0", "x", "a", domain="local", alpha=0.5), node("Add", "a w", "y")], {"x": (2, 3)},
                    weights={"w": _floats(3)})  # fmt: skip
    given = onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    constant = node("Constant", "", "c", value=numpy_helper.from_array(_floats(3), "c"))
    last = [constant, node("Add", "i c", "a"), node("LeakyRelu", "a", "b"), node("Relu", "b", "o")]
    last[2].attribute.append(given)
    for number in range(deep):
        calls = [node(f"f{number + 1}", *places, domain="local") for places in (("i", "a"), ("a", "o"))]
        for call in calls:
            call.attribute.append(given)
        body = calls if number + 1 < deep else last
        made.functions.append(
            helper.make_function("local", f"f{number}", ["i"], ["o"], body, versions, attributes=["alpha"])
        )
    made.opset_import.append(versions[1])
    return made


def with_branches() -> onnx.ModelProto:
    """A model with a branch that has weights and no nodes, beside one that has nodes."""
    info = helper.make_tensor_value_info("t", TensorProto.FLOAT, (2, 3))
    weights = helper.make_graph([], "weights", [], [info], [numpy_helper.from_array(_floats(2, 3), "t")])
    other = helper.make_tensor_value_info("e", TensorProto.FLOAT, (2, 3))
    nodes = helper.make_graph([node("Neg", "x", "e")], "nodes", [], [other])
    choice = node("If", "c", "b", then_branch=weights, else_branch=nodes)
    return model_of([choice, node("Add", "x b", "y")], {"x": (2, 3), "c": ("BOOL", ())})


def _of_sizes() -> onnx.ModelProto:
    """Shapes that are computed of open sizes."""
    nodes = [
        *(node("Shape", "x", "s"), node("ConstantOfShape", "s", "zeros"), node("Add", "x zeros", "a")),
        *(node("Shape", "x", "n", start=0, end=1), node("Concat", "n minus", "shape", axis=0)),
        *(node("Reshape", "a shape", "flat"), node("Pad", "flat pads", "wide"), node("Tile", "wide twice", "y")),
    ]
    arrays = {"minus": [-1], "pads": [0, 1, 0, 2], "twice": [1, 2]}
    return model_of(nodes, {"x": ("n", 3, 2)}, weights={name: np.asarray(v, np.int64) for name, v in arrays.items()})
