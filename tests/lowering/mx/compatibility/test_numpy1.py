"""Names that NumPy 2 dropped: given back where that is asked for, with NumPy 1.23's values, and in no other process."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lowering.mx.compatibility import numpy1, spawned
from tests.support import warm

ROOT = Path(__file__).parents[4]
LINE = f"; this process restores it and {len(numpy1._NAMES)} names in all, as NumPy 1 had them"

OF_NUMPYS_OWN = """ALLOW_THREADS BUFSIZE CLIP ERR_CALL ERR_DEFAULT ERR_IGNORE ERR_LOG ERR_PRINT ERR_RAISE ERR_WARN
FLOATING_POINT_SUPPORT FPE_DIVIDEBYZERO FPE_INVALID FPE_OVERFLOW FPE_UNDERFLOW MAXDIMS MAY_SHARE_BOUNDS MAY_SHARE_EXACT
RAISE SHIFT_DIVIDEBYZERO SHIFT_INVALID SHIFT_OVERFLOW SHIFT_UNDERFLOW Tester UFUNC_BUFSIZE_DEFAULT UFUNC_PYVALS_NAME
WRAP add_docstring add_newdoc add_newdoc_ufunc compat geterrobj get_array_wrap kernel_version lookfor numarray
oldnumeric set_numeric_ops set_string_function seterrobj tracemalloc_domain use_hugepage who"""
DROPPED = f"""{OF_NUMPYS_OWN} AxisError ComplexWarning DataSource Inf Infinity ModuleDeprecationWarning NAN NINF NZERO
NaN PINF PZERO RankWarning TooHardError VisibleDeprecationWarning alltrue asfarray bool8 byte_bounds bytes0 cast cfloat
clongfloat compare_chararrays complex_ cumproduct deprecate deprecate_with_doc disp fastCopyAndTranspose
find_common_type float_ format_parser in1d infty int0 issctype issubclass_ issubsctype longcomplex longfloat mat math
matrixlib maximum_sctype msort nbytes obj2sctype object0 os product recfromcsv recfromtxt round_ safe_eval sctype2char
sctypes singlecomplex sometrue source str0 string_ sys trapz typeDict uint0 unicode_ void0 warnings"""


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """NumPy with the names that it dropped, for a test."""
    before, of_lib = {**vars(np)}, vars(np.lib)["__getattr__"]
    monkeypatch.setattr(numpy1, "_told", [])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setitem(sys.modules, "pandas", ModuleType("pandas"))
    monkeypatch.delitem(sys.modules, "pandas")
    numpy1.give_back()
    numpy1.give_back()
    yield np
    for name in {*vars(np)} - {*before}:
        if not isinstance(vars(np)[name], ModuleType):  # NumPy loads parts of itself when they are asked for
            delattr(np, name)
    for name in ("__getattr__", "__all__", "fromstring"):
        setattr(np, name, before[name])
    setattr(np.lib, "__getattr__", of_lib)  # noqa: B010  # what types do not know
    delattr(np.linalg, "__getattr__")


def test_names_are_what_they_were(old: Any):
    assert [old.int, old.float, old.complex, old.object, old.str, old.unicode] == [
        int,
        float,
        complex,
        object,
        str,
        str,
    ]
    assert [old.float_, old.complex_, old.unicode_] == [np.float64, np.complex128, np.str_]
    assert (old.Inf, old.NINF, np.isnan(old.NaN), old.math.pi) == (np.inf, -np.inf, True, np.pi)
    assert old.VisibleDeprecationWarning is np.exceptions.VisibleDeprecationWarning
    assert old.round_(2.6) == old.rank(np.ones((1, 1, 1))) == old.alen([1, 2, 3]) == 3
    assert [old.product([2, 3]), old.alltrue([1, 0]), old.sometrue([1, 0])] == [6, False, True]
    assert all(getattr(np, name) is not None for name in numpy1._NAMES)


def test_functions_give_what_they_gave(old: Any):
    """Values of NumPy 1.23.5."""
    assert old.asscalar(np.array([2])) == 2
    assert old.in1d([[1, 2], [3, 4]], [2, 4]).tolist() == [False, True, False, True]
    assert old.msort(np.array([[3, 1], [2, 5]])).tolist() == [[2, 1], [3, 5]]
    assert [old.asfarray(a).dtype for a in ([1, 2], np.ones(2, "f4"))] == ["float64", "float64"]
    assert [old.asfarray([1], dtype).dtype for dtype in ("f4", int)] == ["float32", "float64"]
    assert old.cast["f4"]([1.5]).dtype == np.float32
    assert (old.nbytes[np.float32], old.sctype2char("f4"), old.obj2sctype("f4")) == (4, "f", np.float32)
    assert (old.trapz([1, 2, 3], dx=2), old.safe_eval("[1, 2]")) == (8, [1, 2])
    assert (old.issubsctype("f4", np.floating), old.issubclass_(3, int)) == (True, False)
    assert old.sctypes["int"] == [np.int8, np.int16, np.int32, np.int64]


def test_functions_of_dtypes_texts_and_sources_give_what_they_gave(old: Any, capsys: pytest.CaptureFixture[str]):
    """Values of NumPy 1.23.5."""
    widest = [np.int64, np.longdouble, np.clongdouble, np.str_, np.bool_]
    assert [old.maximum_sctype(t) for t in (np.int8, "f4", np.complex64, str, bool)] == widest
    types = (np.int32, "i4", list, 1.1, np.dtype("str"), object, int)
    assert [old.issctype(t) for t in types] == [True, False, False, False, True, False, True]
    assert old.typeDict["float32"] is np.float32
    rows = old.recfromcsv(["A,b", "1,2.5", "3,4"])
    assert (type(rows), rows.a.tolist(), rows.b.tolist()) == (np.recarray, [1, 3], [2.5, 4.0])
    assert old.recfromtxt(["1 2.5", "3 4"]).f1.tolist() == [2.5, 4.0]
    old.source(old.asscalar)
    old.source(3)
    said = capsys.readouterr().out
    assert said.startswith("In file: ")
    assert said.endswith("Not available for this object.\n")


def test_a_function_is_deprecated_in_each_way(old: Any):
    def twice(x: int) -> int:
        return 2 * x

    ways: list[tuple[Any, str]] = [
        (old.deprecate(twice), "`twice` is deprecated!"),
        (old.deprecate(twice, "old", "new"), "`old` is deprecated, use `new` instead!"),
        (old.deprecate(old_name="old", message="Soon gone.")(twice), "`old` is deprecated!\nSoon gone."),
        (old.deprecate_with_doc("Soon gone.")(twice), "`twice` is deprecated!\nSoon gone."),
    ]
    for function, told in ways:
        with pytest.warns(DeprecationWarning, match=f"^{re.escape(told)}$"):
            assert function(2) == 4


def test_what_is_not_given_back_is_listed(old: Any):
    """DROPPED is what NumPy 1.23.5 has and 2.0 lacks; what a script may use of it is given back."""
    given = {name for name in DROPPED.split() if name in numpy1._NAMES or hasattr(np, name)}
    assert {*DROPPED.split()} - given == {*OF_NUMPYS_OWN.split()}


def test_a_star_gives_what_it_gave_and_leaves_pythons_own_words(old: Any):
    names: dict[str, Any] = {}
    exec("from numpy import *", names)
    assert (names["product"]([2, 3]), names["Inf"], names["float_"]) == (6, np.inf, np.float64)
    assert not {"bool", "int", "float", "object", "str", "os", "sys", "warnings"} & ({*names} - {*np.__all__})


def test_lib_has_the_functions_of_its_parts_again(old: Any):
    """MXNet's example/ssd/tools/rand_sampler.py calls np.lib.pad."""
    assert old.lib.pad([1, 2], 1, "constant").tolist() == [0, 1, 2, 0]
    assert old.lib.arraysetops.setdiff1d([1, 2, 3], [2]).tolist() == [1, 3]
    assert old.linalg.linalg.LinAlgError is np.linalg.LinAlgError
    with pytest.raises(AttributeError, match=r"numpy\.linalg.*'linalgs'"):
        _ = old.linalg.linalgs
    with pytest.raises(AttributeError, match="nonsense"):
        _ = old.lib.nonsense


@pytest.mark.parametrize(
    ("arrays", "scalars", "dtype"),
    [
        (["f4"], ["f8"], "f4"),
        (["i1"], ["f4"], "f4"),
        ([], [int], "i8"),
        (["i2", "f4"], [], "f4"),
        (["u1"], ["i8"], "i8"),
        (["i8"], ["f2"], "f8"),
    ],
)
def test_common_types_are_those_of_the_arrays_unless_a_scalar_is_of_a_kind_above(
    old: Any, arrays: list[Any], scalars: list[Any], dtype: str
):
    assert old.find_common_type(arrays, scalars) == np.dtype(dtype)


def test_bytes_are_read_as_numbers_and_text_as_before(old: Any):
    old.fromstring = numpy1._from_string  # up to NumPy 2.2 its own reads them
    read = old.fromstring(b"\1\0\2\0", dtype=np.uint8)
    assert (read.tolist(), read.flags.writeable) == ([1, 0, 2, 0], True)
    assert old.fromstring("é", np.uint8).tolist() == [195, 169]
    assert old.fromstring(b"abcd", np.int16, 1).tolist() == [25185]
    assert [len(old.fromstring(b"", np.uint8)), len(old.fromstring(b"ab", np.uint8, 0))] == [0, 0]
    assert old.fromstring("1,2", dtype=int, sep=",").tolist() == [1, 2]
    with pytest.raises(ValueError, match="multiple of element size"):
        old.fromstring(b"abc", np.int16)


def test_the_first_name_is_told_and_names_that_never_were_are_not(old: Any, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = old.nonsense
    _ = old.bool, old.float, old.int, old.fromstring(b"a", np.uint8)
    told = capsys.readouterr().err
    assert told.startswith(f"NumPy 2 removed np.float{LINE}")
    assert told.count("\n") == 1


def test_a_star_is_not_told_since_libraries_take_all_names_so(old: Any, capsys: pytest.CaptureFixture[str]):
    exec("from numpy import *", {})
    assert capsys.readouterr().err == ""


def test_what_numpy_has_stays_as_it_is(old: Any):
    assert old.bool is np.bool_
    assert old.array is np.array


class Table:
    """A table of two columns, which has what pandas' have."""

    def __init__(self, columns: dict[str, list[int]]):
        self.columns = columns

    def __getitem__(self, names: list[str]) -> Table:
        return Table({name: self.columns[name] for name in names})

    def to_numpy(self) -> np.ndarray:
        return np.array(list(self.columns.values())).T


def test_pandas_is_completed_when_it_is_imported(old: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pandas.py").write_text("class DataFrame: pass\nclass Series:\n    as_matrix = 'its own'\n")
    monkeypatch.syspath_prepend(tmp_path)
    pandas: Any = importlib.import_module("pandas")
    assert pandas.DataFrame.as_matrix is numpy1._as_matrix
    assert pandas.Series.as_matrix == "its own"
    table = Table({"a": [1, 2], "b": [3, 4]})
    assert numpy1._as_matrix(table).tolist() == [[1, 3], [2, 4]]
    assert numpy1._as_matrix(table, ["b"]).tolist() == [[3], [4]]


@pytest.mark.parametrize("without", [True, False])
def test_the_environment_tells_spawned_processes_what_was_asked_for(without: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(spawned.NUMPY2, raising=False)
    if without:
        monkeypatch.setenv(spawned.NUMPY2, "1")
    assert spawned.wants_numpy1() is not without


SCRIPT = """
import multiprocessing
import sys

import numpy as np

import mxnet as mx

kind = np.float


def double(queue, value):
    queue.put(kind(mx.nd.array([value]).asscalar()) * 2)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=double, args=(queue, 2))
    process.start()
    print(queue.get(timeout=100), *np.fromstring(b"ab", np.uint8), sys.argv)
    process.join()
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(arguments, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.nightly("starts processes")
def test_the_runner_gives_names_back_to_a_script_and_to_processes_that_it_spawns(tmp_path: Path):
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = run(tmp_path, "-m", "lowering.mx", "script.py", "a")
    assert ended.stdout == "4.0 97 98 ['script.py', 'a']\n", ended.stderr
    assert ended.stderr.count(f"NumPy 2 removed np.float{LINE}") == 2  # once in each process


@pytest.mark.slow("starts processes")
def test_without_them_a_script_meets_numpy_2(tmp_path: Path):
    (tmp_path / "script.py").write_text("import numpy as np\nimport mxnet as mx\nnp.float\n")
    ended = run(tmp_path, "-m", "lowering.mx", "--numpy2", "script.py")
    assert ended.returncode == 1
    assert "AttributeError: module 'numpy' has no attribute 'float'" in ended.stderr
    code = "import numpy; from lowering import mx; mx.install(); print(hasattr(numpy, 'float'))"
    assert run(tmp_path, "-c", f"{code}; mx.install(numpy1=True); numpy.float").stdout == "False\n"
