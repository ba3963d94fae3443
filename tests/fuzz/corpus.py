"""The seed corpus: small valid files of every kind, made by our own code, the same ones every time.

Symbols: every row of the table of operator cases with its shapes declared, small networks, and files of old
generations. Array files: lists of fields, so that mutations know where a count, a dimension or a name is. Zip files:
members by name. Folders of predictors: the list in them. Nothing of it is committed; `write` puts it into a directory
for engines that want files.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lowering
from symjax_nnvm import graph as nnvm_graph
from symjax_nnvm import symbol as sym
from symjax_nnvm.mxnet.recordio import MAGIC
from tests.cases import Case
from tests.fuzz.onnx_corpus import onnx_models
from tests.support import ladder

__all__ = [
    "Field",
    "Fields",
    "array_fields",
    "join",
    "predictor_folder",
    "record_fields",
    "symbol_texts",
    "write",
    "zip_members",
    "zip_of",
]

# -- symbols ---------------------------------------------------------------------------------------------------------


def symbol_texts(every: int = 1) -> list[str]:
    """Texts of symbols; of the table of cases only each `every`-th."""
    cases = [case for _, case in ladder.all_cases()][::every]
    texts = dict.fromkeys(_case_text(case) for case in cases)
    return [*texts, *_networks(), *_old_files(), *_graphs()]


def _case_text(case: Case) -> str:
    symbol = ladder.build(case)
    tensors = {f"in{i}": tensor for i, tensor in enumerate(case.inputs)}
    for variable in symbol.list_input_variables():
        if variable.name in tensors:
            shape = tensors[variable.name].shape
            variable._set_attr(__shape__=str(shape), __dtype__=tensors[variable.name].dtype)
    return symbol.tojson()


def _networks() -> list[str]:
    data = sym.Variable("data", shape=(2, 3, 8, 8), lr_mult=2.0)
    net = sym.Convolution(data, kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    net = sym.Activation(sym.BatchNorm(net, name="bn"), act_type="relu", name="act")
    net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    parts = sym.SliceChannel(net, num_outputs=2, name="split")
    net = sym.FullyConnected(sym.Flatten(sym.Concat(*parts, dim=1)), num_hidden=3, name="fc")
    classifier = sym.SoftmaxOutput(net, name="softmax")

    sequence = sym.Variable("sequence", shape=(3, 2, 4))
    state = sym.Variable("state", shape=(2, 4))
    loop, states = sym.contrib.foreach(lambda x, s: (x + s[0], [x * s[0]]), sequence, [state])
    recurrent = sym.Group([loop, *states])

    bounded, final = sym.contrib.while_loop(
        lambda i, s: i < 3, lambda i, s: ([s + i], [i + 1, s]), [sym.Variable("i"), sym.Variable("s")], max_iterations=4
    )
    looped = sym.Group([*bounded, *final])
    return [symbol.tojson() for symbol in (classifier, recurrent, looped)]


def _old_files() -> list[str]:
    """0.8 with `param` and two-element entries; 0.10 with `attr`; both lack inputs that are added on loading."""
    variable = {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1}
    layer = {
        "op": "BatchNorm",
        "param": {"eps": "0.001", "fix_gamma": "True"},
        "name": "bn",
        "inputs": [[0, 0], [1, 0], [2, 0]],
        "backward_source_id": -1,
        "attr": {"ctx_group": "stage1", "gamma_lr_mult": "1.2"},
    }
    nodes = [variable, {**variable, "name": "bn_gamma"}, {**variable, "name": "bn_beta"}, layer]
    first = {"nodes": nodes, "arg_nodes": [0, 1, 2], "heads": [[3, 0]]}
    arg = {"op": "argmax", "name": "a", "attr": {"axis": "-1", "lr_mult": "2"}, "inputs": [[0, 0, 0]]}
    second = {
        "nodes": [{"op": "null", "name": "x", "attr": {"__shape__": "(2, 3)"}, "inputs": []}, arg],
        "arg_nodes": [0],
        "node_row_ptr": [0, 1, 2],
        "heads": [[1, 0, 0]],
        "attrs": {"mxnet_version": ["int", 903]},
    }
    return [json.dumps(first), json.dumps(second)]


def _graphs() -> list[str]:
    """Graphs with attributes of every type, those that passes read among them."""
    x = sym.Variable("x")
    graph = nnvm_graph.create(sym.FullyConnected(x, num_hidden=4, name="fc") + 1)
    graph._set_json_attr("shape_inputs", [[2, 3], [], []], "list_shape")
    graph._set_json_attr("dtype_inputs", [0, -1, -1], "list_int")
    graph._set_json_attr("shape_attr_key", "__shape__")
    graph._set_json_attr("names", ["a", "b"], "list_str")
    graph._set_json_attr("numbers", {"a": 1, "b": 2}, "dict_str_int")
    inferred = graph.apply(["InferShape", "InferType"])
    return [graph.json(), inferred.json()]


# -- array files -----------------------------------------------------------------------------------------------------


class Field(NamedTuple):
    """Some bytes of an array file: a number in one of struct's letters, or raw bytes (letter "s")."""

    letter: str
    value: int | bytes

    def pack(self) -> bytes:
        """The bytes; numbers wrap around, so that every number is one of the letter's."""
        if isinstance(self.value, bytes):
            return self.value
        size = struct.calcsize(f"<{self.letter}")
        return (self.value % (1 << 8 * size)).to_bytes(size, "little")


Fields = list[Field]


def join(fields: Iterable[Field]) -> bytes:
    """The file."""
    return b"".join(field.pack() for field in fields)


def _file(records: Sequence[Fields], names: Sequence[str] = ()) -> Fields:
    fields = [Field("Q", 0x112), Field("Q", 0), Field("Q", len(records))]
    for record in records:
        fields += record
    fields.append(Field("Q", len(names)))
    for name in names:
        fields += [Field("Q", len(name.encode())), Field("s", name.encode())]
    return fields


def _shape(shape: Sequence[int], letter: str = "q") -> Fields:
    return [Field("i", len(shape)), *(Field(letter, dim) for dim in shape)]


V0, V1, V2, V3 = 0, 0xF993FAC8, 0xF993FAC9, 0xF993FACA


def _dense(version: int, shape: Sequence[int], dtype: int, data: bytes) -> Fields:
    head = {
        V0: [],
        V1: [Field("I", V1)],
        V2: [Field("I", V2), Field("i", 0)],
        V3: [Field("I", V3), Field("i", 0)],
    }[version]
    dims = _shape(shape, "I" if version == V0 else "q")
    return [*head, *dims, Field("i", 1), Field("i", 0), Field("i", dtype), Field("s", data)]


def _sparse(storage: int, stored: Sequence[int], shape: Sequence[int], data: bytes, *parts: Sequence[int]) -> Fields:
    fields = [Field("I", V2), Field("i", storage), *_shape(stored), *_shape(shape)]
    fields += [Field("i", 1), Field("i", 0), Field("i", 0)]
    for part in parts:
        fields += [Field("i", 6), *_shape([len(part)])]
    fields.append(Field("s", data))
    return fields + [Field("q", number) for part in parts for number in part]


def array_fields() -> list[Fields]:
    """Array files as fields: all record versions, all dtypes, sparse arrays, arrays that were never initialised."""
    sizes = {0: 4, 1: 8, 2: 2, 3: 1, 4: 4, 5: 1, 6: 8, 7: 1, 8: 2, 9: 2, 10: 4, 11: 8, 12: 2}
    dtypes = [_dense(V2, (2, 3), dtype, bytes(range(6)) * size) for dtype, size in sizes.items()]
    versions = [_dense(version, (2,), 0, bytes(8)) for version in (V0, V1, V2, V3)]
    rows = _sparse(1, (2, 3), (5, 3), bytes(24), [1, 4])
    matrix = _sparse(2, (3,), (3, 4), bytes(12), [0, 1, 1, 3], [1, 0, 2])
    scalar = _dense(V3, (), 0, bytes(4))
    empty = _dense(V2, (0, 3), 0, b"")
    nothing = [[Field("I", 0)], [Field("I", V1), Field("i", 0)], [Field("I", V3), Field("i", 0), Field("i", -1)]]
    return [
        _file(dtypes, [f"arg:{dtype}" for dtype in sizes]),
        _file(versions, ["arg:a", "aux:b", "c", "ü"]),
        _file([rows, matrix], ["arg:rows", "arg:matrix"]),
        _file([scalar, empty, *nothing]),
        _file([_dense(V2, (4, 3, 3, 3), 0, bytes(432))], ["arg:conv_weight"]),
        _file([]),
    ]


# -- record files ----------------------------------------------------------------------------------------------------


def record_fields() -> list[Fields]:
    """Record files as fields: whole records, one in three parts, headers of images with one label and with several."""

    def part(flag: int, data: bytes) -> Fields:
        padded = data + bytes(-len(data) % 4)
        return [Field("I", MAGIC), Field("I", flag << 29 | len(data)), Field("s", padded)]

    def head(flag: int, label: int) -> bytes:
        return struct.pack("<IIQQ", flag, label, 7, 0)

    header = [Field("I", 2), Field("I", 0), Field("Q", 7), Field("Q", 0), Field("s", bytes(10) + bytes(2))]
    return [
        [*part(0, b"any bytes"), *part(0, b""), *part(0, b"1234")],
        [*part(1, b"1234"), *part(2, b""), *part(3, b"12"), *part(0, head(0, 5) + b"image")],
        [*part(0, head(0, 1)), *part(0, head(2, 0) + bytes(8)), *part(0, head(1, 0) + bytes(4) + b"image")],
        [Field("I", MAGIC), Field("I", 34), *header],
    ]


# -- zip files -------------------------------------------------------------------------------------------------------


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def zip_members() -> list[dict[str, bytes]]:
    """Zip files as members by name."""
    rng = np.random.default_rng(0)
    arrays = {"arg:w.npy": rng.normal(size=(2, 3)).astype("f4"), "aux:m.npy": np.zeros(3), "b.npy": np.array(True)}
    kinds = {f"{dtype}.npy": np.asfortranarray(np.ones((2, 2), dtype)) for dtype in ("f2", "i8", "u1", "?")}
    sparse = {"data": np.ones((2, 2), "f4"), "indices": np.array([0, 1]), "shape": np.array([3, 2])}
    return [
        {name: _npy(array) for name, array in arrays.items()},
        {name: _npy(array) for name, array in kinds.items()},
        {f"arr_{i}.npy": _npy(np.arange(i)) for i in range(3)},
        {f"w/{part}.npy": _npy(array) for part, array in sparse.items()},
    ]


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file's bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


# -- folders of predictors -------------------------------------------------------------------------------------------


class PredictorFolder(NamedTuple):
    """A folder that was saved, the text of its list, and what its predictor gives of ones (2, 3)."""

    place: Path
    text: str
    output: np.ndarray


@cache
def predictor_folder() -> PredictorFolder:
    """The folder of a small predictor, for as long as the process runs."""
    place = Path(_PLACE.name)
    net = sym.FullyConnected(sym.Variable("data"), sym.exp(sym.Variable("w")), num_hidden=2, no_bias=True, name="fc")
    predict = lowering.Predictor(net, {"w": np.zeros((2, 3), "float32")})
    (output,) = predict(data=np.ones((2, 3), "float32"))
    predict.warm(data=(1, 3)).save(place)
    return PredictorFolder(place, (place / "predictor.json").read_text(), np.asarray(output))


_PLACE = tempfile.TemporaryDirectory(prefix="symjax-nnvm-fuzz-")


def write(directory: Path, target: str) -> None:
    """Put a target's seeds into a directory, named by their content."""
    seeds = {
        "symbol_json": lambda: [text.encode() for text in symbol_texts()],
        "params": lambda: [join(fields) for fields in array_fields()],
        "zip": lambda: [zip_of(members) for members in zip_members()],
        "records": lambda: [join(fields) for fields in record_fields()],
        "predictor_folder": lambda: [predictor_folder().text.encode()],
        "onnx": onnx_models,
    }[target]()
    directory.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (directory / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
