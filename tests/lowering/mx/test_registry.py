"""`mx.registry`, `mx.log`, `mx.util`, `mx.engine`, `mx.runtime`."""

import logging
from pathlib import Path

import pytest

from lowering import mx


class Shape:
    """A family."""

    def __init__(self, size: int = 1):
        self.size = size


class Square(Shape):
    """One of it."""


def test_a_family_of_classes():
    register = mx.registry.get_register_func(Shape, "shape")
    alias = mx.registry.get_alias_func(Shape, "shape")
    create = mx.registry.get_create_func(Shape, "shape")
    assert register(Square) is Square
    assert alias("box", "Tile")(Square) is Square
    assert mx.registry.get_registry(Shape) == {"square": Square, "box": Square, "tile": Square}
    mx.registry.get_registry(Shape).clear()
    assert create("SQUARE", 3).size == create("tile", size=3).size == 3
    assert create(shape="box").size == 1
    assert create({"shape": "box", "size": 4}).size == create('{"shape": "box", "size": 4}').size == 4
    assert create('["square", {"size": 5}]').size == 5
    square = Square()
    assert create(square) is square
    with pytest.raises(AssertionError, match="circle is not registered. Please register with shape.register first"):
        create("circle")
    with pytest.raises(AssertionError, match="already an instance"):
        create(square, 3)
    with pytest.raises(AssertionError, match="must be of string type"):
        create(3)
    with pytest.raises(AssertionError, match="cannot have further arguments"):
        create('["square", {}]', 3)
    with pytest.raises(AssertionError, match="Can only register subclass of Shape"):
        register(int)
    with pytest.warns(UserWarning, match="registered with name square is overriding"):
        register(Square)


def test_loggers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    logger = mx.log.get_logger("test_registry.terminal", level=mx.log.INFO)
    for level in (mx.log.DEBUG, mx.log.INFO, mx.log.WARNING, mx.log.ERROR, mx.log.CRITICAL):
        logger.log(level, "at %d", level)
    logger.log(25, "between")
    lines = capsys.readouterr().err.splitlines()
    assert [line[:6] for line in lines] == ["\x1b[32mI", "\x1b[31mW", "\x1b[31mE", "\x1b[31mC", "\x1b[32mU"]
    assert all("test_registry.py:test_loggers:" in line for line in lines)
    assert lines[0].endswith("]\x1b[0m at 20")
    assert mx.log.get_logger("test_registry.terminal") is logger
    assert len(logger.handlers) == 1
    assert logger.level == mx.log.INFO != mx.log.NOTSET

    path = tmp_path / "log.txt"
    path.write_text("before\n")
    with pytest.warns(DeprecationWarning, match="Use get_logger instead"):
        filed = mx.log.getLogger("test_registry.file", str(path))
    filed.warning("told")
    filed.handlers[0].close()
    assert path.read_text() == "before\ntold\n"
    assert mx.log.get_logger() is logging.getLogger()
    assert logging.getLogger("test_registry.new").handlers == []


def test_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MXNET_TEST_VALUE", "1")
    mx.util.setenv("MXNET_TEST_VALUE", "2")
    assert mx.util.getenv("MXNET_TEST_VALUE") == "2"
    mx.util.setenv("MXNET_TEST_VALUE", None)
    assert mx.util.getenv("MXNET_TEST_VALUE") is None


def test_gpus():
    assert mx.util.get_gpu_count() == mx.num_gpus()
    if not mx.num_gpus():
        with pytest.raises(mx.MXNetError, match="JAX sees 0 devices"):
            mx.util.get_gpu_memory(0)


def test_the_numpy_dialect_is_off_until_it_is_set():
    assert not mx.is_np_array()
    try:
        mx.util.set_np()
        assert (mx.is_np_array(), mx.is_np_shape()) == (True, True)
        with mx.np_array(False):
            assert not mx.is_np_array()
        mx.util.set_np(array=False)
        assert (mx.is_np_array(), mx.is_np_shape()) == (False, True)
    finally:
        mx.util.reset_np()
    assert (mx.is_np_array(), mx.is_np_shape()) == (False, False)
    with pytest.raises(ValueError, match="NumPy Shape semantics is required"):
        mx.util.set_np(shape=False)

    @mx.use_np
    def ask(x: object) -> object:
        """What it says."""
        return x, mx.is_np_array(), mx.is_np_shape()

    assert (ask.__name__, ask.__doc__, ask(3)) == ("ask", "What it says.", (3, True, True))


def test_the_module_of_a_function():
    @mx.util.set_module("there")
    def moved() -> None: ...

    @mx.util.set_module(None)
    def stays() -> None: ...

    assert moved.__module__ == "there"
    assert stays.__module__ == __name__


def test_bulks():
    before = mx.engine.set_bulk_size(7)
    with mx.engine.bulk(3):
        assert mx.engine.set_bulk_size(4) == 3
    assert mx.engine.set_bulk_size(before) == 7


def test_features():
    features = mx.runtime.Features()
    assert features is mx.runtime.Features()
    assert len(features) == 32
    assert next(iter(features)) == "CUDA"
    assert features.is_enabled("cuda") == (mx.num_gpus() > 0)
    assert features.is_enabled("LAPACK")
    assert repr(features).startswith(("[✖ CUDA, ", "[✔ CUDA, "))
    assert "✔ LAPACK" in repr(features)
    assert {feature.name for feature in mx.runtime.feature_list()} == set(features)
    with pytest.raises(RuntimeError, match="Feature 'NO SUCH' is unknown"):
        features.is_enabled("no such")
