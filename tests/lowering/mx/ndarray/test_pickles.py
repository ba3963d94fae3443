"""Pickled arrays: ours, and those that MXNet wrote, which users unpickle by themselves."""

import io
import pickle
from typing import Any

import numpy as np
import pytest

import symjax_nnvm as nn
from lowering import mx

HALF = (  # pickle.dumps(mx.nd.array([1, 2], dtype="float16"), protocol=2) of MXNet 1.9.1
    b"\x80\x02cmxnet.ndarray.ndarray\nNDArray\nq\x00N\x85q\x01Rq\x02}q\x03X\x06\x00\x00\x00handleq\x04c__builtin__\n"
    b"bytearray\nq\x05c_codecs\nencode\nq\x06X(\x00\x00\x00\xc3\x89\xc3\xba\xc2\x93\xc3\xb9\x00\x00\x00\x00\x01\x00\x00\x00"
    b"\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00<\x00@q\x07X\x06\x00\x00\x00"
    b"latin1q\x08\x86q\tRq\n\x85q\x0bRq\x0csb."
)
ON_A_GPU = bytes.fromhex("c9fa93f9 00000000 01000000 0100000000000000 02000000 00000000 00000000 0000803f")
"""The bytes of an array of one number that was on a GPU, with its number."""


class Unpickler(pickle.Unpickler):
    """MXNet's class is ours, as after `mx.install()`."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        return mx.nd.NDArray if global_name == "NDArray" else super().find_class(module_name, global_name)


def test_an_array_that_mxnet_pickled_is_one_here():
    array = Unpickler(io.BytesIO(HALF)).load()
    assert (array.dtype, array.context) == (np.float16, mx.cpu(0))
    np.testing.assert_array_equal(array.asnumpy(), [1, 2])
    array[:] = 3
    np.testing.assert_array_equal((array + 1).asnumpy(), [4, 4])


def test_an_array_of_a_gpu_is_read_without_one():
    array = mx.nd.arange(3)
    array.__setstate__({"handle": bytearray(ON_A_GPU)})
    np.testing.assert_array_equal(array.asnumpy(), [1])


@pytest.mark.parametrize("length", [0, 3, 20, len(ON_A_GPU) - 1])
def test_bytes_that_end_too_soon_are_refused(length: int):
    with pytest.raises(nn.ParamsFormatError):
        mx.nd.arange(1).__setstate__({"handle": ON_A_GPU[:length]})


def test_an_array_is_pickled_and_comes_back():
    array = pickle.loads(pickle.dumps(mx.nd.array([[1, 2]], dtype="int32")))
    assert array.dtype == np.int32
    np.testing.assert_array_equal(array.asnumpy(), [[1, 2]])
