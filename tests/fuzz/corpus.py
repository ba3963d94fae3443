"""The seeds: small valid files of every kind, made by our own code, the same ones every time.

Symbols: every row of the table of operator cases with its shapes declared, small networks, files of old generations.
Array and record files are lists of fields, so that changes know where a count, a dimension or a name is. Zip files are
members by name. None of it is committed.
"""

import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lowering
from symjax_nnvm import graph as nnvm_graph
from symjax_nnvm import symbol as sym
from symjax_nnvm.mxnet.record_format import MAGIC
from tests.cases import Case
from tests.support import ladder

__all__ = ["ITEM_SIZES", "V0", "V1", "V2", "V3", "Field", "Fields", "array_fields", "array_list", "dense", "join"]
__all__ += ["predictor_folder", "record_fields", "sparse", "symbol_texts", "zip_members", "zip_of"]

# -- symbols ---------------------------------------------------------------------------------------------------------


@cache
def symbol_texts() -> list[str]:
    """Texts of symbols."""
    texts = dict.fromkeys(_case_text(case) for _, case in ladder.all_cases())
    return [*texts, *_networks(), *_old_files(), *_graphs()]


def _case_text(case: Case) -> str:
    symbol = ladder.build(case)
    tensors = {f"in{i}": tensor for i, tensor in enumerate(case.inputs)}
    for variable in symbol.list_input_variables():
        if variable.name in tensors:
            variable._set_attr(__shape__=str(tensors[variable.name].shape), __dtype__=tensors[variable.name].dtype)
    return symbol.tojson()


def _networks() -> list[str]:
    data = sym.Variable("data", shape=(2, 3, 8, 8), lr_mult=2.0)
    net = sym.Convolution(data, kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    net = sym.Activation(sym.BatchNorm(net, name="bn"), act_type="relu", name="act")
    net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    net = sym.Concat(*sym.SliceChannel(net, num_outputs=2, name="split"), dim=1)
    classifier = sym.SoftmaxOutput(sym.FullyConnected(sym.Flatten(net), num_hidden=3, name="fc"), name="softmax")
    sequence, state = sym.Variable("sequence", shape=(3, 2, 4)), sym.Variable("state", shape=(2, 4))
    loop, states = sym.contrib.foreach(lambda x, s: (x + s[0], [x * s[0]]), sequence, [state])
    bounded, final = sym.contrib.while_loop(
        lambda i, s: i < 3, lambda i, s: ([s + i], [i + 1, s]), [sym.Variable("i"), sym.Variable("s")], max_iterations=4
    )
    return [net.tojson() for net in (classifier, sym.Group([loop, *states]), sym.Group([*bounded, *final]))]


def _old_files() -> list[str]:
    """0.8 with `param` and two-element entries; 0.10 with `attr`; both lack inputs that are added on loading."""
    variable = {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1}
    layer = {**variable, "op": "BatchNorm", "param": {"eps": "0.001", "fix_gamma": "True"}, "name": "bn"}
    layer |= {"inputs": [[0, 0], [1, 0], [2, 0]], "attr": {"ctx_group": "stage1", "gamma_lr_mult": "1.2"}}
    nodes = [variable, {**variable, "name": "bn_gamma"}, {**variable, "name": "bn_beta"}, layer]
    first = {"nodes": nodes, "arg_nodes": [0, 1, 2], "heads": [[3, 0]]}
    arg = {"op": "argmax", "name": "a", "attr": {"axis": "-1", "lr_mult": "2"}, "inputs": [[0, 0, 0]]}
    nodes = [{"op": "null", "name": "x", "attr": {"__shape__": "(2, 3)"}, "inputs": []}, arg]
    second = {"nodes": nodes, "arg_nodes": [0], "node_row_ptr": [0, 1, 2], "heads": [[1, 0, 0]]}
    return [json.dumps(first), json.dumps(second | {"attrs": {"mxnet_version": ["int", 903]}})]


def _graphs() -> list[str]:
    """Graphs with attributes of every type, those that passes read among them."""
    graph = nnvm_graph.create(sym.FullyConnected(sym.Variable("x"), num_hidden=4, name="fc") + 1)
    graph._set_json_attr("shape_inputs", [[2, 3], [], []], "list_shape")
    graph._set_json_attr("dtype_inputs", [0, -1, -1], "list_int")
    graph._set_json_attr("shape_attr_key", "__shape__")
    graph._set_json_attr("names", ["a", "b"], "list_str")
    graph._set_json_attr("numbers", {"a": 1, "b": 2}, "dict_str_int")
    return [graph.json(), graph.apply(["InferShape", "InferType"]).json()]


# -- array files -----------------------------------------------------------------------------------------------------


class Field(NamedTuple):
    """Some bytes of a file: a number in one of struct's letters, or raw bytes (letter "s")."""

    letter: str
    value: int | bytes

    def pack(self) -> bytes:
        """The bytes; numbers wrap around, so that every number is one of the letter's."""
        if isinstance(self.value, bytes):
            return self.value
        size = struct.calcsize(f"<{self.letter}")
        return (self.value % (1 << 8 * size)).to_bytes(size, "little")


Fields = list[Field]
V0, V1, V2, V3 = 0, 0xF993FAC8, 0xF993FAC9, 0xF993FACA
ITEM_SIZES = {0: 4, 1: 8, 2: 2, 3: 1, 4: 4, 5: 1, 6: 8, 7: 1, 8: 2, 9: 2, 10: 4, 11: 8, 12: 2}
"""MXNet's number of a dtype → bytes of an element."""


def join(fields: Iterable[Field]) -> bytes:
    """The file."""
    return b"".join(field.pack() for field in fields)


def array_list(records: Sequence[Fields], names: Sequence[str] = ()) -> Fields:
    """MXNet's list of arrays."""
    head = [Field("Q", 0x112), Field("Q", 0), Field("Q", len(records))]
    named = [field for name in names for field in (Field("Q", len(name.encode())), Field("s", name.encode()))]
    return [*head, *(field for each in records for field in each), Field("Q", len(names)), *named]


def _shape(shape: Sequence[int], letter: str = "q") -> Fields:
    return [Field("i", len(shape)), *(Field(letter, dim) for dim in shape)]


def dense(version: int, shape: Sequence[int], dtype: int, data: bytes, device: tuple[int, int] = (1, 0)) -> Fields:
    """An array's record. device: the kind and the number of the device that had it."""
    head = [Field("I", version)] * (version != V0) + [Field("i", 0)] * (version in (V2, V3))
    numbers = [Field("i", number) for number in (*device, dtype)]
    return [*head, *_shape(shape, "I" if version == V0 else "q"), *numbers, Field("s", data)]


def sparse(
    storage: int, stored: Sequence[int], shape: Sequence[int], data: bytes, *indices: Sequence[int], dtype: int = 0
) -> Fields:
    """A sparse array's record. storage: 1 is row-sparse, 2 is CSR."""
    fields = [Field("I", V2), Field("i", storage), *_shape(stored), *_shape(shape)]
    fields += [Field("i", number) for number in (1, 0, dtype)]
    fields += [field for part in indices for field in (Field("i", 6), *_shape([len(part)]))]
    return [*fields, Field("s", data), *(Field("q", number) for part in indices for number in part)]


def array_fields() -> list[Fields]:
    """Array files: all record versions, all dtypes, sparse arrays, arrays that were never given values."""
    dtypes = [dense(V2, (2, 3), dtype, bytes(range(6)) * size) for dtype, size in ITEM_SIZES.items()]
    versions = [dense(version, (2,), 0, bytes(8)) for version in (V0, V1, V2, V3)]
    rows = sparse(1, (2, 3), (5, 3), bytes(24), [1, 4])
    matrix = sparse(2, (3,), (3, 4), bytes(12), [0, 1, 1, 3], [1, 0, 2])
    nothing = [[Field("I", 0)], [Field("I", V1), Field("i", 0)], [Field("I", V3), Field("i", 0), Field("i", -1)]]
    return [
        array_list(dtypes, [f"arg:{dtype}" for dtype in ITEM_SIZES]),
        array_list(versions, ["arg:a", "aux:b", "c", "ü"]),
        array_list([rows, matrix], ["arg:rows", "arg:matrix"]),
        array_list([dense(V3, (), 0, bytes(4)), dense(V2, (0, 3), 0, b""), *nothing]),
        array_list([dense(V2, (4, 3, 3, 3), 0, bytes(432))], ["arg:conv_weight"]),
        array_list([]),
    ]


# -- record files, zip files, folders of predictors ------------------------------------------------------------------


def record_fields() -> list[Fields]:
    """Record files: whole records, one in three parts, headers of images with one label and with several."""

    def part(flag: int, data: bytes) -> Fields:
        return [Field("I", MAGIC), Field("I", flag << 29 | len(data)), Field("s", data + bytes(-len(data) % 4))]

    def head(flag: int, label: int) -> bytes:
        return struct.pack("<IIQQ", flag, label, 7, 0)

    header = [Field("I", 2), Field("I", 0), Field("Q", 7), Field("Q", 0), Field("s", bytes(10) + bytes(2))]
    return [
        [*part(0, b"any bytes"), *part(0, b""), *part(0, b"1234")],
        [*part(1, b"1234"), *part(2, b""), *part(3, b"12"), *part(0, head(0, 5) + b"image")],
        [*part(0, head(0, 1)), *part(0, head(2, 0) + bytes(8)), *part(0, head(1, 0) + bytes(4) + b"image")],
        [Field("I", MAGIC), Field("I", 34), *header],
    ]


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def zip_members() -> list[dict[str, bytes]]:
    """Zip files of `.npy` files; the last three are sparse arrays of MXNet 2.0."""
    rng = np.random.default_rng(0)
    matrix = {"data": np.ones(3, "f4"), "indices": np.array([1, 0, 2]), "indptr": np.array([0, 1, 1, 3])}
    files = [
        {"arg:w": rng.normal(size=(2, 3)).astype("f4"), "aux:m": np.zeros(3), "b": np.array(True)},
        {dtype: np.asfortranarray(np.ones((2, 2), dtype)) for dtype in ("f2", "i8", "u1", "?", ">f4")},
        {f"arr_{i}": np.zeros((i, 3)) for i in range(3)},
        {"w/data": np.ones((2, 2), "f4"), "w/indices": np.array([0, 1]), "w/shape": np.array([3, 2])},
        {"w/format": np.frombuffer(b"csr", "u1"), "w/shape": np.array([3, 3])}
        | {f"w/{part}": array for part, array in matrix.items()},
        {"w/format": np.frombuffer(b"row_sparse", "u1"), "w/data": np.ones((0, 2)), "w/indices": np.zeros(0, "i8")}
        | {"w/shape": np.array([3, 2])},
    ]
    return [{f"{name}.npy": _npy(array) for name, array in file.items()} for file in files]


def zip_of(members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file's bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


class PredictorFolder(NamedTuple):
    """A folder that was saved, the text of its list, and what its predictor gives of ones (2, 3)."""

    place: Path
    text: str
    output: np.ndarray


@cache
def predictor_folder() -> PredictorFolder:
    """The folder of a small predictor, for as long as the process runs."""
    place = Path(_FOLDER.name)
    net = sym.FullyConnected(sym.Variable("data"), sym.exp(sym.Variable("w")), num_hidden=2, no_bias=True, name="fc")
    predict = lowering.Predictor(net, {"w": np.zeros((2, 3), "float32")})
    (output,) = predict(data=np.ones((2, 3), "float32"))
    predict.warm(data=(1, 3)).save(place)
    return PredictorFolder(place, (place / "predictor.json").read_text(), np.asarray(output))


_FOLDER = tempfile.TemporaryDirectory(prefix="symjax-nnvm-fuzz-")
