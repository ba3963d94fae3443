"""`mx.base`, `mx.error`, `mx.libinfo`, `mx.attribute`: names that scripts import beside arrays and symbols."""

import array
import ctypes
import pickle
from pathlib import Path

import numpy as np
import pytest

import symjax_nnvm as nn
from lowering import mx
from symjax_nnvm import errors


def test_the_error_is_mxnets():
    assert mx.MXNetError is mx.base.MXNetError is mx.error.MXNetError is nn.NNVMError
    assert issubclass(mx.MXNetError, RuntimeError)
    with pytest.raises(RuntimeError):
        mx.nd.zeros((2,), ctx=mx.gpu(99))
    with pytest.raises(mx.base.MXNetError):
        mx.sym.Variable("x").infer_shape(y=(1,))
    assert issubclass(mx.base.NotImplementedForSymbol, mx.MXNetError)


def test_an_error_keeps_what_its_built_in_class_knows():
    assert errors.UnknownAttributeError("gone", name="q").name == "q"
    error = errors.FileError(2, "No such file", "f")
    assert (error.errno, error.filename, error.args) == (2, "f", (2, "No such file"))
    assert str(errors.UnknownArrayError("no array")) == "no array"
    assert str(pickle.loads(pickle.dumps(errors.ParamError("wrong", got=3)))) == "wrong; got 3."


def test_types():
    assert mx.base.integer_types == (int, int, np.int32, np.int64)
    assert isinstance(np.float16(1), mx.base.numeric_types)
    assert not isinstance("1", mx.base.numeric_types)
    assert mx.base.string_types == (str,)
    assert mx.base.mx_real_t is np.float32
    assert mx.base.py_str(b"\xc3\xa9") == mx.base.py_str("é") == "é"
    assert mx.base._as_list((1, 2)) == (1, 2)
    assert mx.base._as_list([1]) == [1]
    assert mx.base._as_list("ab") == ["ab"]
    assert repr(mx.base._Null) == "_Null"
    assert mx.base.__version__ == mx.libinfo.__version__ == mx.__version__ == "1.9.1"


def test_c_types():
    assert list(mx.base.c_array(mx.base.mx_uint, [1, 2])) == [1, 2]
    assert list(mx.base.c_array_buf(mx.base.mx_int64, array.array("q", [3, -4]))) == [3, -4]
    assert mx.base.c_str("é").value == "é".encode()
    assert list(mx.base.c_str_array(["a", "b"])) == [b"a", b"b"]
    assert (mx.base.mx_int, mx.base.mx_float) == (ctypes.c_int, ctypes.c_float)
    assert mx.base.mx_float_p(ctypes.c_float(2)).contents.value == 2
    handles = ("NDArrayHandle", "SymbolHandle", "ExecutorHandle", "KVStoreHandle", "CachedOpHandle", "RecordIOHandle")
    assert {getattr(mx.base, name) for name in handles} == {ctypes.c_void_p}


def test_there_is_no_c_library():
    mx.base.check_call(0)
    with pytest.raises(mx.MXNetError, match="the code -1"):
        mx.base.check_call(-1)
    with pytest.raises(AttributeError, match="'MXNDArrayFree'.*There is no C library"):
        mx.base._LIB.MXNDArrayFree(None)


def test_errors_are_registered():
    @mx.error.register
    class OwnError(mx.MXNetError):
        pass

    @mx.base.register_error("Other")
    class OtherError(mx.MXNetError):
        pass

    assert mx.base.error_types["OwnError"] is OwnError
    assert mx.base.error_types["Other"] is OtherError
    assert mx.base.error_types["ValueError"] is ValueError
    assert mx.base.error_types["InternalError"] is mx.error.InternalError


def test_the_folder_of_downloads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MXNET_HOME", "/there")
    assert mx.base.data_dir() == "/there"
    monkeypatch.delenv("MXNET_HOME")
    assert Path(mx.base.data_dir()) == Path.home() / ".mxnet"


def test_a_property_of_a_class():
    class Named:
        @mx.base.classproperty
        def name(cls):
            return cls.__name__.lower()  # pyright: ignore[reportAttributeAccessIssue]

    assert Named.name == Named().name == "named"


def test_short_names():
    assert mx.attribute.AttrScope is mx.AttrScope
    assert mx.NDArray is mx.nd.NDArray
    assert mx.rnd is mx.random
