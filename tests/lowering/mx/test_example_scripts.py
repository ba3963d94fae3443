"""What MXNet's example scripts do, in small: the ways of calling that stopped them here, or that ended otherwise."""

from __future__ import annotations

import logging
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx


@pytest.fixture
def mnist(tmp_path: Path) -> dict[str, Any]:
    """Six images and their labels, in MNIST's files."""
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(struct.pack(">IIII", 2051, 6, 2, 2) + bytes(range(24)))
    labels.write_bytes(struct.pack(">II", 2049, 6) + bytes(range(6)))
    return {"image": str(images), "label": str(labels)}


def test_iterators_over_files_ignore_what_mxnets_ignore(mnist: dict[str, Any], tmp_path: Path):
    shapes = mx.io.MNISTIter(**mnist, batch_size=2, data_shape=(4,), flat=True, silent=True).provide_data
    assert [tuple(desc.shape) for desc in shapes] == [(2, 4)]
    rows = tmp_path / "rows"
    rows.write_text("1 0:1\n0 1:2\n")
    with pytest.warns(UserWarning, match=r"LibSVMIter ignores \['ninth'\], as MXNet's does"):
        batch = mx.io.LibSVMIter(data_libsvm=str(rows), data_shape=(2,), batch_size=2, ninth=9).next()
    assert batch.data[0].asnumpy().tolist() == [[1, 0], [0, 2]]


def test_reading_files_leaves_the_root_logger_to_the_script(mnist: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    mx.io.MNISTIter(**mnist, batch_size=2)
    assert not logging.getLogger().handlers  # else logging.basicConfig(level=…) does nothing after


def test_every_initializer_is_one():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = [mx.init.Xavier(), mx.init.Constant(2), mx.init.create("uniform"), mx.init.FusedRNN(None, 2, 1, "lstm")]
    assert all(isinstance(each, mx.init.Initializer) for each in made)
    array = mx.nd.zeros((2, 3))
    made[1]("w_weight", array)
    assert array.asnumpy().tolist() == np.full((2, 3), 2).tolist()
