"""Every regular expression of the project takes linear time, whatever text it meets.

Of each pattern the table below holds texts that match. Pumping them, a place at a time, makes the worst cases: what
matches a long run in two ways has to try all of them when the end does not match. A pattern that is not in the table
fails the test.
"""

import ast
import functools
import importlib
import re
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import symjax_nnvm
from lowering.initializer.initializer_base import create
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InitializerError, ParamError, ParamsFormatError
from symjax_nnvm.ir.params import _parse_float, _parse_int, _parse_long, _parse_plain_float
from symjax_nnvm.ir.types import parse_shape
from symjax_nnvm.mxnet.npy_file import read_npy

ROOT = Path(symjax_nnvm.__file__).parents[1]
LENGTH = 20_000
SECONDS = 0.5
"""Linear time is a few milliseconds; quadratic time is minutes."""

FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer", "subn"}

MATCHING: dict[tuple[str, str], tuple[str, ...]] = {
    ("lowering/cli/convert.py", "_MXNET_NAME"): ("net-symbol.json", "a-b-0012.params", "-0001-00002.params"),
    ("lowering/executor/gradient_names.py", "_GRADIENT"): ("fc_in1_backward", "a_backward"),
    ("lowering/executor/gradient_names.py", "_ZEROS"): ("label_zero_grad",),
    ("lowering/initializer/initializer_base.py", "search"): ("<a.b_1.Xavier object at 0x7fA9>", "<X object at 0x7>"),
    ("lowering/training/checkpoints.py", "_REASON"): ("os_error_code='28", r"os_error_code=\'12345"),
    ("symjax_nnvm/mxnet/model_files.py", "_OF_EPOCH"): ("a-b-0012", "-0001-00002"),
    ("symjax_nnvm/mxnet/find_files.py", "_PARAMS_NAME"): ("a-b-0012.params", "-0001-00002.params"),
    ("lowering/cli/saving.py", "_UNSAFE"): ("/", "...", "."),
    ("lowering/convolutions/layouts.py", "_LAYOUT"): ("b16c64",),
    ("lowering/mx/operator.py", "match"): ("one of 'a', 'bc', 'd'",),
    ("lowering/mx/util.py", "fullmatch"): ("12.0",),
    ("lowering/mx/viz.py", "findall"): ("(3, 3)",),
    ("lowering/mx/operator.py", "sub"): (" ≥ 1", " < 2"),
    ("lowering/mx/gluon/contrib/estimator/checkpoint_files.py", "_NUMBERED"): ("epoch1batch20.params",),
    ("lowering/mx/gluon/rnn/rnn_layer.py", "_PARAMETER"): ("l12_i2h_weight", "r0_h2r_bias"),
    ("lowering/native/ask.py", "_IMPLEMENTATION"): (",cpu,convolution,brg_conv_fwd:avx2,",),
    ("lowering/serving/archive.py", "_PLATFORM"): ("cpu",),
    ("lowering/serving/archive.py", "_CRC32"): ("0f" * 4,),
    ("lowering/serving/archive.py", "_FOLDER"): ("saved-12",),
    ("symjax_nnvm/cli/model_argument.py", "split"): ("1,2x3",),
    ("symjax_nnvm/cli/model_argument.py", "fullmatch"): ("-12",),
    ("symjax_nnvm/ops/formulas.py", "_SEVERAL_UPDATES"): ("_preloaded_multi_mp_sgd_update", "mp_sgd_update"),
    ("symjax_nnvm/ops/formulas.py", "_SECOND"): ("x + y", "xʸ"),
    ("symjax_nnvm/ir/params.py", "_INT"): ("+12",),
    ("symjax_nnvm/ir/params.py", "_PYTHON2_LONG"): ("-12L",),
    ("symjax_nnvm/ir/params.py", "_FLOAT"): ("-12.34e-56f", ".12e3", "12.", "-infinity"),
    ("symjax_nnvm/ir/params.py", "_PLAIN_FLOAT"): ("-12.34e-56", ".12e3", "12."),
    ("symjax_nnvm/ir/params.py", "_TUPLE"): ("(1, 2)", "[1,)]"),
    ("symjax_nnvm/ir/params.py", "_INNER"): ("(1, 2)", "[1,]"),
    ("symjax_nnvm/ir/types.py", "_SHAPE_TEXT"): (" ( 1, 2L, ) ", "[1]", " +12 "),
    ("symjax_nnvm/ir/types.py", "_DIM_TEXT"): ("-12L",),
    ("lowering/training/processes.py", "_CONNECTION"): ("Gloo", "DEADLINE_EXCEEDED"),
    ("lowering/training/processes.py", "_COLLECTIVE"): ("Gloo", "a nccl b"),
    ("symjax_nnvm/symbol/operator_functions.py", "_DIALECT_PREFIX"): ("_npi_add", "_np_sum", "_npx_relu"),
    ("symjax_nnvm/symbol/automatic_names.py", "_AUTOMATIC"): ("a10", "a1b0"),
    ("symjax_nnvm/ir/sharding.py", "_ITEM"): (" (data, model) ,", "model", "(data"),
    ("symjax_nnvm/ir/sharding.py", "_NAME"): ("data_1",),
    ("symjax_nnvm/mxnet/npy_file.py", "_ITEM"): (
        " 'descr' : '<f4' , ",
        "'fortran_order' : False",
        " 'shape' : ( 1, 2L, ) , ",
    ),
    ("symjax_nnvm/mxnet/npy_file.py", "_DIM"): ("12L",),
    ("symjax_nnvm/surgery/node_names.py", "_DATA"): ("data12",),
    ("lowering/source/blocks.py", "_BORDER"): ("_",),
    ("lowering/source/blocks.py", "_EXPRESSION"): ("\ue002name\ue003",),
    ("lowering/source/blocks.py", "_PARTS"): ("12", "unit", "\ue002i\ue003"),
    ("lowering/source/line_breaks.py", "_HEAD"): ("return ", "for i, j in "),
    ("lowering/source/line_breaks.py", "_KEYWORD"): ("axis=",),
    ("lowering/source/line_breaks.py", "_TOKEN"): ('"ab"', "'ab'", "a"),
    ("lowering/source/line_breaks.py", "_WORD_BEFORE"): ("]",),
    ("lowering/source/module.py", "_IN_SHAPE"): ("(2, 3)",),
    ("lowering/source/module.py", "_RETURN"): ("    return (x,)",),
    ("lowering/source/module.py", "_RUN"): ("[x[0], x[1]]", "x[0], x[1], x[2]"),
    ("lowering/source/names.py", "_HUMP"): ("aBc",),
    ("lowering/source/names.py", "_OTHERS"): ("-.",),
    ("lowering/source/templates.py", "_MARKER"): ("\ue000s12\ue001",),
    ("lowering/source/templates.py", "_WORD"): ("key",),
    ("lowering/mx/numpy/multiarray.py", "_DTYPE"): (", dtype=int32)",),
    ("lowering/mx/shared_arguments.py", "_ROW"): ("    rate: the probability, a\n        number.",),
    ("symjax_nnvm/drawing/page.py", "sub"): ("<title>a</title>",),
}

CALLERS_OWN = {
    ("lowering/initializer/composite.py", "(re.compile(p), _nested(i))"),
    ("lowering/mx/contrib/text/utils.py", 're.compile(f"{token_delim}|{seq_delim}")'),
    ("lowering/mx/gluon/basic_block.py", 're.compile(select or "").match'),
    ("lowering/mx/monitor.py", "return re.compile(text)"),
}
"""Patterns that a program hands over; no file can (`test_files_hold_no_patterns`)."""


def _calls() -> Iterator[tuple[str, str, re.Pattern[str] | None]]:
    """(file, name of the pattern, or of the function that is given one, the pattern) of every use of `re`."""
    for package in ("symjax_nnvm", "lowering"):
        for path in sorted((ROOT / package).rglob("*.py")):
            file, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if re.search(r"^\s*(import re\b|from re\b)", text, re.M) else ():
                assert not (isinstance(node, ast.ImportFrom) and node.module == "re"), f"{file}: write re.compile"
                targets = node.targets if isinstance(node, ast.Assign) else ()
                call = getattr(node, "value", None) if targets else node
                if not isinstance(call, ast.Call):
                    continue
                function = call.func
                if not (isinstance(function, ast.Attribute) and ast.unparse(function.value) == "re"):
                    continue
                if function.attr not in FUNCTIONS or (function.attr == "compile" and not targets):
                    continue
                name = ast.unparse(targets[0]) if targets and function.attr == "compile" else function.attr
                yield file, name, _pattern(file, name, call)
    yield from ((file, name, None) for file, name in CALLERS_OWN)


def _pattern(file: str, name: str, call: ast.Call) -> re.Pattern[str]:
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    return getattr(module, name) if hasattr(module, name) else re.compile(ast.literal_eval(call.args[0]))


@functools.cache
def uses() -> dict[tuple[str, str], re.Pattern[str]]:
    return {(file, name): pattern for file, name, pattern in _calls() if pattern is not None}


def test_every_pattern_is_in_the_table():
    assert set(uses()) == set(MATCHING)
    compiled_inside = [
        (path.relative_to(ROOT).as_posix(), line.strip())
        for package in ("symjax_nnvm", "lowering")
        for path in (ROOT / package).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "re.compile(" in line and not re.match(r"_[A-Z]", line)
    ]
    assert {(f, part) for f, line in compiled_inside for g, part in CALLERS_OWN if f == g and part in line} == (
        CALLERS_OWN
    )
    assert len(compiled_inside) == len(CALLERS_OWN)


def _pumped(text: str) -> Iterator[str]:
    """The text with one place of it repeated, and an end that does not match."""
    for width in (1, 2, 3):
        for at in range(len(text) - width + 1):
            run = text[at : at + width] * (LENGTH // width)
            yield text[:at] + run + "\0"
            yield text[: at + width] + run + text[at + width :] + "\0"


def _hang(signum, frame):
    raise TimeoutError


@pytest.mark.nightly("every expression", but_one_in=3)
@pytest.mark.slow("computes much")
@pytest.mark.parametrize(("file", "name"), MATCHING, ids=lambda value: value)
def test_worst_cases_take_linear_time(file, name):
    pattern = uses()[file, name]
    previous = signal.signal(signal.SIGALRM, _hang)
    try:
        for text in MATCHING[file, name]:
            assert pattern.search(text), "the table is to hold texts that match"
            for worst in _pumped(text):
                signal.setitimer(signal.ITIMER_REAL, SECONDS)
                for match in (pattern.fullmatch, pattern.match, *([pattern.search] if name == "search" else [])):
                    match(worst)
    except TimeoutError:
        pytest.fail(f"{pattern.pattern!r} takes more than {SECONDS} s on {worst[:40]!r}…")  # type: ignore[reportPossiblyUnbound]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("parse", [_parse_float, _parse_plain_float, _parse_int, _parse_long, parse_shape])
def test_numbers_are_refused_by_their_length_first(parse):
    began = time.perf_counter()
    for text in ("1" * 5000, "1" * 10_000_000, "0." + "0" * 10_000_000):
        with pytest.raises(ValueError, match=r"111|0\.0"):
            parse(text)
    assert time.perf_counter() - began < SECONDS


def test_a_long_float_is_refused_at_once():
    began = time.perf_counter()
    with pytest.raises(ParamError, match="Invalid Parameter format for scalar"):
        getattr(sym, "_plus_scalar")(sym.Variable("x"), scalar="1" * 40_000 + "x")  # noqa: B009  (a private name)
    assert time.perf_counter() - began < SECONDS


@pytest.mark.parametrize("blanks", [500, 60_000])
def test_blanks_in_the_header_of_an_npy_file(blanks):
    header = b"{" + b" " * blanks + b"x"
    began = time.perf_counter()
    with pytest.raises(ParamsFormatError, match="expected descr, fortran_order and shape"):
        read_npy(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header, "the file")
    assert time.perf_counter() - began < SECONDS


def test_files_hold_no_patterns():
    with pytest.raises(InitializerError):
        create('["mixed", {"patterns": ["(a|a)*b"], "initializers": ["zeros"]}]')
