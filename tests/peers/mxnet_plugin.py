"""A plugin of pytest under which MXNet's own tests run on `lowering.mx`: `python -m tests.peers.mxnet` starts it."""

import ast
import functools
import os
import sys
import types
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lowering.mx


def _raises(*exceptions: type[BaseException]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def checked(*args: Any, **kwargs: Any) -> None:
            with pytest.raises(exceptions):
                test(*args, **kwargs)

        return checked

    return decorate


def _make_decorator(test: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return functools.wraps(test)


def _assert_raises(exception: Any, function: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Any:
    context = pytest.raises(exception)
    if function is None:
        return context
    with context:
        function(*args, **kwargs)
    return None


def _ok(value: object, message: str | None = None) -> None:
    assert value, message


def _equal(a: object, b: object, message: str | None = None) -> None:
    assert a == b, message


def _nose() -> None:
    """What MXNet's tests take from nose, which no Python of today runs."""
    nose, tools = types.ModuleType("nose"), types.ModuleType("nose.tools")
    names: dict[str, Any] = {
        "raises": _raises,
        "make_decorator": _make_decorator,
        "assert_raises": _assert_raises,
        "ok_": _ok,
        "eq_": _equal,
        "assert_equal": _equal,
        "assert_equals": _equal,
    }
    for name, value in names.items():
        setattr(tools, name, value)
    tools.__dict__["__all__"] = list(names)
    nose.__dict__.update(tools=tools, SkipTest=pytest.skip.Exception)
    sys.modules.update({"nose": nose, "nose.tools": tools})


def _lists_of(path: Path) -> dict[str, list[str]]:
    """The lists of words that a module of MXNet's writes down, by their names."""
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    lists = (each for each in statements if isinstance(each, ast.Assign) and isinstance(each.value, ast.List))
    return {ast.unparse(each.targets[0]): ast.literal_eval(each.value) for each in lists}


def _with_interpolation(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's that takes the name again that its argument had."""

    @functools.wraps(function)
    def call(*args: Any, interpolation: str = "linear", **kwargs: Any) -> Any:
        return function(*args, method=interpolation, **kwargs)

    return call


def _function_of(operator: str) -> Any:
    """The function of `mx.np` that is an operator `_np_…`."""
    return getattr(lowering.mx.np, operator.removeprefix("_np_"))


def _imported_alone(source: Path) -> None:
    """What files import of the insides of MXNet: codes of storage types, which functions of NumPy take arrays of mx.np,
    and which operators are functions of it."""
    lowering.mx.nd.__dict__["_STORAGE_TYPE_STR_TO_ID"] = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
    as_it_is = dict.fromkeys(("with_array_function_protocol", "with_array_ufunc_protocol"), lambda test: test)
    names = {
        "numpy_dispatch_protocol": as_it_is | _lists_of(source / "python" / "mxnet" / "numpy_dispatch_protocol.py"),
        "numpy_op_signature": {"_get_builtin_op": _function_of},
    }
    for name in ("percentile", "quantile", "nanpercentile", "nanquantile"):
        setattr(np, name, _with_interpolation(getattr(np, name)))
    documented = SourceFileLoader("mxnet._numpy_op_doc", str(source / "python" / "mxnet" / "_numpy_op_doc.py"))
    lowering.mx.__dict__["_numpy_op_doc"] = documented.load_module()
    for name, contents in names.items():
        module = sys.modules[f"mxnet.{name}"] = types.ModuleType(f"mxnet.{name}")
        module.__dict__.update(contents)


def _pictures(url: str, dirname: str) -> list[str]:
    """Sixteen photographs of 300 to 500 pixels, or what looks like one, in place of those that MXNet downloads."""
    import cv2
    import numpy as np

    generator = np.random.default_rng(0)
    paths = [str(Path(dirname) / f"{i}.jpg") for i in range(16)]
    for path in paths:
        height, width = (int(size) for size in generator.integers(300, 500, 2))
        coarse = generator.integers(0, 255, (8, 8, 3)).astype(np.uint8)
        cv2.imwrite(path, cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC))
    return paths


def pytest_pycollect_makeitem(obj: object) -> None:
    """Have a class that nose would set up be set up, with pictures that are made here."""
    if isinstance(obj, type) and hasattr(obj, "setupClass"):
        given: Any = obj
        sys.modules[obj.__module__].__dict__["_get_data"] = _pictures
        given.setUpClass, given.tearDownClass = given.setupClass, given.teardownClass


def _compiled_once() -> None:
    """Have equal programs compiled once in a file of tests: many tests bind one network again and again."""
    jax.config.update("jax_compilation_cache_dir", str(Path(os.environ["PEER_RESULTS"]).with_name("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_configure(config: pytest.Config) -> None:
    """Have `import mxnet` be ours before any test file is read, and arrays of 64 bits, which the tests ask for."""
    _nose()
    jax.config.update("jax_enable_x64", True)
    _compiled_once()
    lowering.mx.install(numpy1=True)
    sys.path.append(str(config.rootpath.parent / "unittest"))  # whose `common` other folders of tests import
    _imported_alone(config.rootpath.parents[2])
