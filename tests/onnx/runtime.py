"""A model in onnxruntime, and a case of the table as such a model."""

from typing import Any

import numpy as np
import onnxruntime as ort

import symjax_nnvm as nn
from tests.cases import Case
from tests.support import ladder
from tests.support.walk import Walk

ort.set_default_logger_severity(4)  # what a session has to say it raises

Arrays = dict[str, np.ndarray]


def session(model: Any, *, optimised: bool = False) -> ort.InferenceSession:
    """A session on one thread of a CPU; of nodes as they stand in the file, unless optimised."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: Any, inputs: Arrays, *, optimised: bool = False) -> list[np.ndarray]:
    """The outputs of a model; inputs that it does not have are left out."""
    made = session(model, optimised=optimised)
    outputs: list[Any] = list(made.run(None, {each.name: inputs[each.name] for each in made.get_inputs()}))
    return outputs


def exported(case: Case, **options: Any) -> tuple[Any, Arrays]:
    """(model, inputs) of a case: all its inputs are inputs, labels and states as well."""
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    inputs = args | aux
    shapes = {name: value.shape for name, value in inputs.items()}
    dtypes = {name: value.dtype for name, value in inputs.items()}
    return nn.to_onnx(symbol, shapes=shapes, dtypes=dtypes, inference=False, **options), inputs


def exported_once(walk: Walk) -> tuple[Any, Arrays]:
    """(model, inputs) of a case, made for all rungs."""
    return walk.once("ONNX model", lambda: exported(walk.case))


def ran_once(walk: Walk) -> list[np.ndarray]:
    """What onnxruntime computes of a case, for all rungs."""
    return walk.once("ONNX outputs", lambda: run(*exported_once(walk)))


def again(model: Any, inputs: Arrays, **options: Any) -> Any:
    """A model read and written again, for inputs of these shapes. options: of `from_onnx`."""
    net, args, aux = nn.from_onnx(model, **options)
    given = {
        each.name: inputs[each.name]
        for each in model.graph.input
        if each.name in set(net.list_inputs()) - {*args, *aux}
    }
    shapes = {name: array.shape for name, array in given.items()}
    dtypes = {name: array.dtype for name, array in given.items()}
    return nn.to_onnx(net, args, aux, shapes=shapes, dtypes=dtypes, inference=False)
