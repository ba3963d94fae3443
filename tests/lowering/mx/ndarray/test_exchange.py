"""Arrays come from bytes and from other libraries, and go to them."""

from pathlib import Path

import jax
import numpy as np
import pytest

from lowering import mx


def test_bytes_of_a_file(tmp_path: Path):
    path = str(tmp_path / "arrays")
    named = {"a": mx.nd.ones((2, 3)), "b": mx.nd.arange(4)}
    mx.nd.save(path, named)
    found = mx.nd.load_frombuffer(Path(path).read_bytes())
    assert isinstance(found, dict)
    for name, array in named.items():
        np.testing.assert_array_equal(found[name].asnumpy(), array.asnumpy())
    mx.nd.save(path, [named["b"]])
    assert [np.asarray(each).tolist() for each in mx.nd.load_frombuffer(Path(path).read_bytes())] == [[0, 1, 2, 3]]
    with pytest.raises(TypeError, match="buf required to be bytes"):
        mx.nd.load_frombuffer(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="buffer"):
        mx.nd.load_frombuffer(b"no arrays at all")


def test_dlpack():
    x = mx.nd.arange(6).reshape((2, 3))
    capsule = mx.nd.to_dlpack_for_read(x)
    assert type(capsule).__name__ == "PyCapsule"
    y = mx.nd.from_dlpack(capsule)
    y += 1
    assert y.asnumpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert x.asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert mx.nd.from_dlpack(np.arange(4, dtype=np.float32)).asnumpy().tolist() == [0, 1, 2, 3]
    with pytest.raises(mx.MXNetError, match="never changes.*to_dlpack_for_read"):
        mx.nd.to_dlpack_for_write(x)


def test_arrays_give_their_memory_themselves():
    x = mx.nd.array([1, 2])
    assert mx.nd.from_dlpack(x.to_dlpack_for_read()).asnumpy().tolist() == [1, 2]
    assert x.writable
    with pytest.raises(mx.MXNetError, match="no other library can write to it"):
        x.to_dlpack_for_write()


def test_parts_are_read_from_the_wholes_memory(monkeypatch):
    x = mx.nd.array(np.arange(24.0).reshape(2, 3, 4))
    row, turned = x[1][2], x.reshape((4, 6))[3, 1:2]
    monkeypatch.setattr(jax, "device_put", None)
    np.testing.assert_array_equal(row.asnumpy(), [20, 21, 22, 23])
    np.testing.assert_array_equal(np.stack([np.asarray(row), np.asarray(x[0][1])])[:, 0], [20, 4])
    assert turned.asscalar() == 19
    monkeypatch.undo()
    x[1] = 0
    assert not row.asnumpy().any()
