"""Fuzz targets: each draws one hostile input and holds the reader, and all that may follow loading, to `contract.py`.

What was accepted survives saving and loading, and answers every question or refuses it with an error of ours.
"""

import ast
import contextlib
import json
import random
import struct
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import onnx
from google.protobuf import json_format
from hypothesis import strategies as st

import lowering
import symjax_nnvm as nn
from symjax_nnvm import graph as nnvm_graph
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.op import list_all_names
from symjax_nnvm.mxnet.params_files import named_arrays
from symjax_nnvm.mxnet.record_file import RecordFile
from symjax_nnvm.mxnet.record_format import frame
from symjax_nnvm.mxnet.record_writer import RecordWriter
from symjax_nnvm.mxnet.sparse import SparseArray
from symjax_nnvm.onnx.imports.array_budget import BASE
from symjax_nnvm.symbol import Symbol
from tests.fuzz import corpus
from tests.fuzz.contract import READ_MEMORY, RUN_MEMORY, Hang, ask, check_message, contract
from tests.fuzz.corpus import ITEM_SIZES, V0, V1, V2, V3, Fields, array_list, dense, join, sparse
from tests.fuzz.grammar import draw_symbol
from tests.fuzz.mutate import NUMBERS, mutate_bytes, mutate_fields, mutate_npy, mutate_tree, mutate_zip
from tests.fuzz.onnx_corpus import onnx_models
from tests.fuzz.symbol_to_the_end import symbol_to_the_end

__all__ = ["RANDOMS", "TARGETS", "Target", "check", "draw"]

# -- what is done with an input: each returns how far it came ----------------------------------------------------------

_FOLDER = tempfile.TemporaryDirectory(prefix="symjax-nnvm-fuzz-")
_NETWORK = sym.FullyConnected(sym.Variable("data", shape=(2, 3)), sym.Variable("p0"), sym.Variable("p1"), num_hidden=2)
_DENSE_BYTES = 1 << 22


def _file(data: bytes, name: str = "input.params") -> Path:
    path = Path(_FOLDER.name) / name
    path.unlink(missing_ok=True)  # a new file each time: arrays are views of the old one
    path.write_bytes(data)
    return path


def _round_trip(symbol: Symbol) -> None:
    text = symbol.tojson()
    text.encode()
    assert sym.load_json(text).tojson() == text, "saving and loading changed the graph"


def _questions(symbol: Symbol, **shapes: tuple[int, ...]) -> None:
    """All that a user may ask of a symbol that was read."""
    for name in ("list_arguments", "list_auxiliary_states", "list_inputs", "list_outputs", "get_children", "attr_dict"):
        ask(getattr(symbol, name))
    ask(symbol.get_internals().list_outputs)
    ask(lambda: symbol.list_attr(recursive=True))
    for question in (symbol.debug_str, symbol.copy, symbol.infer_type, symbol.infer_type_partial):
        ask(question)
    ask(_round_trip, symbol)
    ask(lambda: symbol.infer_shape(**shapes))
    ask(lambda: symbol.infer_shape_partial(**shapes))


def _check_symbol_json(data: bytes, run: bool) -> str:
    """MXNet's reader and NNVM's reader of a `-symbol.json` file."""

    def graph() -> None:
        loaded = nnvm_graph.load_json(data.decode("utf-8", "replace"))
        for question in (loaded.json, loaded.ir, lambda: loaded.apply("InferShape"), lambda: loaded.apply("InferType")):
            ask(question)

    read = ask(lambda: _questions(sym.load(_file(data))))
    return "loaded" if ask(graph) or read else "refused"


def _check_arrays(data: bytes, run: bool) -> str:
    """Every reader of array files; arrays are read, made dense, compared with a symbol, saved and loaded."""
    path, reached = _file(data), "refused"
    for loader in (lambda: nn.load_arrays(path), lambda: nn.load_safetensors(path)[0], lambda: named_arrays(path)):
        try:
            arrays = loader()
        except NNVMError as error:
            check_message(error)
        else:
            reached = _use(arrays)
    ask(lambda: nn.check(_NETWORK, params=path))
    ask(lambda: nn.load_model(_file(_NETWORK.tojson().encode(), "net-symbol.json"), path))
    return reached


def _use(arrays: Any) -> str:
    size = 0
    for array in list(arrays.values()) if isinstance(arrays, dict) else list(arrays):
        np.asarray(array.data if isinstance(array, SparseArray) else array).reshape(-1)[:16].tolist()
        size += int(np.prod(array.shape, dtype=object)) * array.dtype.itemsize
        if isinstance(array, SparseArray) and size <= _DENSE_BYTES:
            ask(array.todense)
    target = Path(_FOLDER.name) / "again.params"
    if size > _DENSE_BYTES or not ask(nn.save_arrays, target, arrays):
        return "read"
    assert len(nn.load_arrays(target)) == len(arrays), "saving and loading lost arrays"
    return "saved"


def _check_records(data: bytes, run: bool) -> str:
    """A `.rec` file whose index is made, and the same bytes as the index of a file that is whole."""

    def records() -> None:
        path, again = _file(data, "records.rec"), Path(_FOLDER.name) / "again.rec"
        path.with_suffix(".idx").unlink(missing_ok=True)
        with contextlib.closing(RecordFile(path)) as file:
            found = list(file)
            with RecordWriter(again) as writer:
                for record in found:
                    writer.write(record)
            assert list(RecordFile(again)) == found, "writing and reading changed the records"
            for i in range(len(file)):
                ask(file.header, i)
                ask(file.unpack, i)
            ask(lambda: file.labels)

    def index() -> None:
        path = _file(frame(b"1234") * 3, "whole.rec")
        _file(data, "whole.idx")
        with contextlib.closing(RecordFile(path)) as file:
            for i in range(len(file)):
                ask(file.__getitem__, i)

    read = ask(records)
    return "read" if ask(index) or read else "refused"


def _check_predictor_folder(data: bytes, run: bool) -> str:
    """A predictor's list, beside files that are as they were saved: an error, or the predictions that were."""
    seed = corpus.predictor_folder()
    (seed.place / "predictor.json").write_bytes(data)

    def predict() -> None:
        (output,) = lowering.Predictor.load(seed.place)(data=np.ones((2, 3), "float32"))
        assert np.array_equal(output, seed.output), "other predictions"

    return "predicted" if ask(predict) else "refused"


def _check_onnx(data: bytes, run: bool) -> str:
    """An ONNX model, and what is asked of the network that it becomes."""

    def read() -> None:
        net, args, aux = nn.from_onnx(_file(data, "model.onnx"))
        _questions(net, **{name: array.shape for name, array in (args | aux).items()})

    return "loaded" if ask(read) else "refused"


# -- what is drawn ---------------------------------------------------------------------------------------------------

_ONNX_OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
_ONNX_BYTES = ("rawData", "s", "strings", "stringData")


def _draw_tree(rng: random.Random, texts: list[str]) -> bytes:
    text = mutate_tree(rng, rng.choice(texts), rng.choice(texts), list_all_names())
    data = text.encode("utf-8", "surrogatepass")
    return mutate_bytes(rng, data, b'{}[],:"0') if rng.random() < 0.1 else data


@cache
def _onnx_text(data: bytes) -> str:
    return json_format.MessageToJson(onnx.ModelProto.FromString(data))


def _draw_onnx(rng: random.Random) -> bytes:
    data, other = rng.choice(onnx_models()), rng.choice(onnx_models())
    text, donor = _onnx_text(data), _onnx_text(other)
    for _ in range(3):  # four in ten changes are values that a field cannot have
        with contextlib.suppress(ValueError, json_format.ParseError):
            changed = mutate_tree(rng, text, donor, _ONNX_OPERATORS, _ONNX_BYTES)
            model = json_format.Parse(changed, onnx.ModelProto(), ignore_unknown_fields=True)
            data = model.SerializeToString(deterministic=True)
            return mutate_bytes(rng, data, other) if rng.random() < 0.1 else data
    return mutate_bytes(rng, data, other)


def _draw_shape(rng: random.Random) -> tuple[int, ...]:
    """A shape of few elements, or of none beside extreme axes."""
    rank = rng.choice([0, 1, 1, 2, 2, 3, 4, 8, 32, 33, 64])
    dims = [rng.choice([1, 1, 2, 3]) if rank < 9 else 1 for _ in range(rank)]
    if rank and rng.random() < 0.5:
        dims = [rng.choice([1, 2, abs(rng.choice(NUMBERS))]) for _ in range(rank)]
        dims[rng.randrange(rank)] = 0
    return tuple(dims)


def _draw_list(rng: random.Random) -> Fields:
    """MXNet's list of arrays that are legal, however large they say they are."""
    records: list[Fields] = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        shape, dtype, version = _draw_shape(rng), rng.choice([*ITEM_SIZES]), rng.choice([V0, V1, V2, V3])
        rows, columns = (abs(number) for number in rng.choices(NUMBERS, k=2))
        every = dense(version, shape, dtype, bytes(prod(shape) * ITEM_SIZES[dtype]))
        some = sparse(1, (0, columns), (rows, columns), b"", [], dtype=dtype)
        csr = sparse(2, (0,), (rows, columns), b"", [0] * (min(rows, 200) + 1), [], dtype=dtype)
        records.append(rng.choice([every, some, csr]))
    return array_list(records, ["arg:p0", "aux:p1", "p2"][: len(records)])


def _draw_safetensors(rng: random.Random) -> bytes:
    header, at, sizes = (
        {},
        0,
        {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I8": 1, "U8": 1, "BOOL": 1},
    )
    for name in ("arg:w", "m", "é")[: rng.choice([0, 1, 1, 2, 3])]:
        code, shape = rng.choice([*sizes]), _draw_shape(rng)
        end = at + prod(shape) * sizes[code]
        header[name], at = {"dtype": code, "shape": shape, "data_offsets": [at, end]}, end
    if rng.random() < 0.3:
        header["__metadata__"] = {"symjax_nnvm.aux": rng.choice(['["m"]', "[]", "[1]", "{", "[" * 1000, "1", "NaN"])}
    text = json.dumps(header)
    if rng.random() < 0.6:
        text = mutate_tree(rng, text, text, [*sizes, "U64", "F8_E4M3", "C64"])
    raw = text.encode("utf-8", "replace")
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw + bytes(at)


def _draw_arrays(rng: random.Random) -> bytes:
    """MXNet's list of any version, a zip file, a `.npy` file or safetensors."""
    draw, archives, lists = rng.random(), corpus.zip_members(), [*corpus.array_fields(), *(_draw_list(rng),) * 4]
    if draw < 0.45:
        chosen = rng.choice(lists)
        return mutate_fields(rng, chosen, rng.choice(lists)) if rng.random() < 0.7 else join(chosen)
    if draw < 0.75:
        return mutate_zip(rng, rng.choice(archives), rng.choice(archives))
    if draw < 0.85:
        return mutate_npy(rng, rng.choice(list(rng.choice(archives).values())), b"(2, )L'<f4")
    data = _draw_safetensors(rng)
    return mutate_bytes(rng, data, data) if rng.random() < 0.2 else data


_ALPHABET = "\"'\\\n\t\0(){}[];:#%,. _aZ09\ue000\ue001\ue002\ue003é中\U0001f600\u2028"
_WORDS = (
    *("__import__('os')", 'x"); import os', "{0}", "def", "params", "jax", "data", "f{x}", "\\", "p"),
    *("train", "\ue000s0\ue001"),
)
_ROOTS = {"jax", "jnp", "lax", "np", "partial", "range", "print"}


def _draw_names(rng: random.Random) -> bytes:
    """Names of a network's nodes: words that mean something in Python, and any letters."""

    def name() -> str:
        letters = "".join(rng.choice(_ALPHABET) for _ in range(rng.randrange(8)))
        text = rng.choice(_WORDS) + letters if rng.random() < 0.6 else letters + rng.choice(_WORDS)[: rng.randrange(9)]
        return text * (rng.randrange(1, 40) if rng.random() < 0.1 else 1)

    return json.dumps([name() for _ in range(8)]).encode()


def _check_names(data: bytes, run: bool) -> str:
    """Print a network whose names are hostile: the module calls JAX and itself, and the names are strings in it."""
    try:
        names = json.loads(data)
    except ValueError:
        return "refused"
    if not (isinstance(names, list) and len(names) == 8 and all(isinstance(name, str) for name in names)):
        return "refused"
    alike = len(data) % 3 == 0  # equal once they are identifiers
    names = [f"{names[0] if alike else name}{'-' * i if alike else i}" for i, name in enumerate(names)]
    try:
        net = sym.Variable(names[0])
        for name in [*names[1:3], *(f"{names[5]}_{i}" for i in range(len(data) % 5))]:
            net = sym.FullyConnected(net, sym.Variable(name + names[4]), no_bias=True, num_hidden=2, name=name)
        if len(data) % 8 == 0:
            net = sym.BatchNorm(net, name=names[3])
        if len(data) % 8 == 1:
            net = sym.SoftmaxOutput(net, sym.Variable(names[6]), name=names[7])
        shapes = {name: shape for name, shape in ((names[0], (2, 2)), (names[6], (2,))) if name in net.list_arguments()}
        source = lowering.to_source(net, shapes=shapes)
    except NNVMError as error:
        check_message(error)
        return "refused"
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    assert source.isascii()
    imports = [one.name for each in nodes if isinstance(each, (ast.Import, ast.ImportFrom)) for one in each.names]
    assert set(imports) <= {"jax", "jax.numpy", "numpy", "lax", "partial"}, imports
    defined = {each.name for each in nodes if isinstance(each, ast.FunctionDef)}
    methods = {"reshape", "astype", "defvjp", "squeeze", "append", "split"}
    for call in (each.func for each in nodes if isinstance(each, ast.Call)):
        root = call
        while isinstance(root, ast.Attribute):
            root = root.value
        known = isinstance(root, ast.Name) and root.id in _ROOTS | defined
        assert known or (isinstance(call, ast.Attribute) and call.attr in methods), ast.unparse(call)
    namespace: dict[str, Any] = {"__name__": "printed"}
    exec(compile(tree, "printed", "exec"), namespace)
    given = dict(zip(net.list_arguments(), net.infer_shape(**shapes)[0], strict=True))
    params = {name: np.ones(shape, "float32") for name, shape in given.items()}
    params |= {name: np.ones(2, "float32") for name in net.list_auxiliary_states()}
    jax.eval_shape(namespace["forward"], params, *(params[name] for name in net.list_arguments() if name in shapes))
    return "printed"


class Target(NamedTuple):
    """What is drawn, what is done with it, the memory that this may take, and how many the suite draws."""

    draw: Callable[[random.Random], bytes]
    check: Callable[[bytes, bool], str]
    memory: int
    examples: int


def _draw_records(rng: random.Random) -> bytes:
    return mutate_fields(rng, rng.choice(corpus.record_fields()), rng.choice(corpus.record_fields()))


TARGETS = {
    "symbol_json": Target(lambda rng: _draw_tree(rng, corpus.symbol_texts()), _check_symbol_json, READ_MEMORY, 400),
    "symbol_grammar": Target(draw_symbol, symbol_to_the_end, RUN_MEMORY, 150),
    "arrays": Target(_draw_arrays, _check_arrays, READ_MEMORY, 600),
    "records": Target(_draw_records, _check_records, READ_MEMORY, 400),
    "predictor_folder": Target(
        lambda rng: _draw_tree(rng, [corpus.predictor_folder().text]), _check_predictor_folder, READ_MEMORY, 100
    ),
    "onnx": Target(_draw_onnx, _check_onnx, READ_MEMORY + BASE, 400),
    "source": Target(_draw_names, _check_names, RUN_MEMORY, 12),
}


RANDOMS = st.randoms(use_true_random=False) | st.randoms(use_true_random=True)
"""Half of the sources are Hypothesis's, whose choices it shrinks, and which prefer extremes: most of their files are
refused at once. Half are seeds of Python's, whose chances are those that the drawing functions say."""


def draw(target: str, rng: random.Random) -> bytes:
    """An input: one in fifty is any bytes."""
    return rng.randbytes(rng.randrange(200)) if rng.random() > 0.98 else TARGETS[target].draw(rng)


def check(target: str, data: bytes, *, run: bool = False) -> str:
    """How far an input came. Whatever is raised is a finding. run: what is traced is also compiled and run.

    What took too long is run again: a machine that others use counts their time as this process's, now and then.
    """
    for last in (False, True):
        try:
            with contract(len(data), TARGETS[target].memory), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return TARGETS[target].check(data, run)
        except Hang:
            if last:
                raise
    raise AssertionError
