"""Fuzz targets: each reads one hostile input and holds the reader, and all that may follow loading, to one contract.

The contract: nothing but an `NNVMError` is raised, within `TIME_LIMIT` seconds, and the process's peak memory grows by
less than `MEMORY_FACTOR` times the input plus `MEMORY_CONSTANT`. A target returns whether the input was accepted, so
that a runner can tell whether its inputs reach beyond the first check. Anything else that escapes is a finding.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np

import lowering
import symjax_nnvm as nn
from symjax_nnvm import graph as nnvm_graph
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.mxnet.record_file import RecordFile
from symjax_nnvm.mxnet.record_writer import RecordWriter
from symjax_nnvm.mxnet.recordio import frame
from symjax_nnvm.mxnet.sparse import SparseArray
from symjax_nnvm.onnx.imports.budget import BASE
from symjax_nnvm.symbol import Symbol
from tests.fuzz.corpus import predictor_folder

__all__ = ["MEMORY_CONSTANT", "MEMORY_FACTOR", "TARGETS", "TIME_LIMIT", "Hang", "check_message", "contract"]

TIME_LIMIT = 5.0
MEMORY_FACTOR = 10
MEMORY_CONSTANT = 64 << 20


class Hang(BaseException):
    """An input took longer than the limit; no `except Exception` swallows it."""


def _peak() -> int:
    """The most memory this process ever held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _hang(signum: int, frame: FrameType | None) -> NoReturn:
    raise Hang(f"more than {TIME_LIMIT} s")


@contextlib.contextmanager
def contract(size: int, constant: int = MEMORY_CONSTANT) -> Iterator[None]:
    """Hold the block to the contract for an input of `size` bytes; only an NNVMError may pass through."""
    before = _peak()
    previous = signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    grown = _peak() - before
    assert grown < MEMORY_FACTOR * size + constant, f"{grown} bytes of memory for an input of {size}"


def fuzz_symbol_json(data: bytes) -> bool:
    """A `-symbol.json` file: MXNet's reader, NNVM's reader, and what is asked of a symbol once it is loaded."""
    accepted = False
    with contract(len(data)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for read in (_load_symbol, _load_graph):
            try:
                read(data)
                accepted = True
            except NNVMError as error:
                check_message(error)
    return accepted


def fuzz_params(data: bytes) -> bool:
    """A `.params` file of any generation, sparse arrays made dense."""
    with contract(len(data)):
        try:
            _load_arrays(data)
        except NNVMError as error:
            check_message(error)
            return False
    return True


fuzz_zip = fuzz_params
"""MXNet 2.0's zip files of `.npy` arrays; the reader tells them apart by what is in them."""


def fuzz_records(data: bytes) -> bool:
    """A `.rec` file whose index is made, and the same bytes as the index of a file that is whole."""
    accepted = False
    with contract(len(data)):
        for read in (_read_records, _read_index):
            try:
                read(data)
                accepted = True
            except NNVMError as error:
                check_message(error)
    return accepted


def fuzz_predictor_folder(data: bytes) -> bool:
    """A predictor's list, beside files that are as they were saved: an error, or the predictions that were."""
    seed = predictor_folder()
    (seed.place / "predictor.json").write_bytes(data)
    with contract(len(data)):
        try:
            predict = lowering.Predictor.load(seed.place)
            (output,) = predict(data=np.ones((2, 3), "float32"))
        except NNVMError as error:
            check_message(error)
            return False
    assert np.array_equal(output, seed.output), "other predictions"
    return True


def fuzz_onnx(data: bytes) -> bool:
    """An ONNX model, and what is asked of the network that it becomes. The arrays that a file may ask for are more than
    what other files may take."""
    with contract(len(data), MEMORY_CONSTANT + BASE), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            net, args, aux = nn.from_onnx(_file(data))
        except NNVMError as error:
            check_message(error)
            return False
        shapes = {name: array.shape for name, array in (args | aux).items()}
        _ask(_listings, net)
        _ask(_round_trip, net)
        _ask(lambda each: each.infer_shape_partial(**shapes), net)
        _ask(lambda each: each.infer_type_partial(), net)
    return True


TARGETS: dict[str, Callable[[bytes], bool]] = {
    "symbol_json": fuzz_symbol_json,
    "params": fuzz_params,
    "zip": fuzz_zip,
    "records": fuzz_records,
    "predictor_folder": fuzz_predictor_folder,
    "onnx": fuzz_onnx,
}

# -- what is done with an input --------------------------------------------------------------------------------------

_DIRECTORY = tempfile.TemporaryDirectory(prefix="symjax-nnvm-fuzz-")


def _file(data: bytes) -> Path:
    # A new file each time: arrays are views of the mapped file, which must not change under them.
    path = Path(_DIRECTORY.name) / "input"
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def check_message(error: NNVMError) -> None:
    """Errors are shown in terminals and logs: they are short, and can be written."""
    message = str(error)
    assert message, "an error without a message"
    assert len(message) < 20_000, f"an error message of {len(message)} characters: {message[:200]}"
    message.encode()


def _load_symbol(data: bytes) -> None:
    symbol = sym.load(_file(data))
    _ask(_listings, symbol)
    _ask(_round_trip, symbol)
    for infer in (symbol.infer_shape, symbol.infer_shape_partial, symbol.infer_type, symbol.infer_type_partial):
        _ask(lambda _, infer=infer: infer(), symbol)


def _load_graph(data: bytes) -> None:
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    graph = nnvm_graph.load_json(text)
    _ask(lambda g: g.json(), graph)
    _ask(lambda g: g.ir(), graph)
    for name in ("InferShape", "InferType"):
        _ask(lambda g, name=name: g.apply(name), graph)


def _ask(question: Callable[[Any], object], loaded: Any) -> None:
    """What is loaded may turn out to be impossible later; then, too, an error of ours says so."""
    try:
        question(loaded)
    except NNVMError as error:
        check_message(error)


def _listings(symbol: Symbol) -> None:
    symbol.list_arguments()
    symbol.list_auxiliary_states()
    symbol.list_inputs()
    symbol.list_outputs()
    symbol.get_internals().list_outputs()
    symbol.get_children()
    symbol.attr_dict()
    symbol.list_attr(recursive=True)
    symbol.debug_str()
    symbol.copy()


def _round_trip(symbol: Symbol) -> None:
    """What was accepted can be saved, and loads as the same graph."""
    text = symbol.tojson()
    text.encode()
    assert sym.load_json(text).tojson() == text, "saving and loading changed the graph"


def _load_arrays(data: bytes) -> None:
    arrays = nn.load_arrays(_file(data))
    for array in arrays.values() if isinstance(arrays, dict) else arrays:
        dense = array.todense() if isinstance(array, SparseArray) else array
        assert isinstance(dense, np.ndarray)
        dense.reshape(-1)[:16].tolist()  # mapped memory that is not there would end the process


def _read_records(data: bytes) -> None:
    path = _file(data)
    path.with_suffix(".idx").unlink(missing_ok=True)
    file = RecordFile(path)
    records = list(file)
    with RecordWriter(path.with_name("again.rec")) as writer:
        for record in records:
            writer.write(record)
    assert list(RecordFile(path.with_name("again.rec"))) == records, "writing and reading changed the records"
    for i in range(len(file)):
        _ask(file.header, i)
        _ask(file.unpack, i)
    _ask(lambda _: file.labels, None)
    file.close()


def _read_index(data: bytes) -> None:
    path = _file(frame(b"1234") * 3)
    path.with_suffix(".idx").write_bytes(data)
    file = RecordFile(path)
    for i in range(len(file)):
        _ask(file.__getitem__, i)
    file.close()
