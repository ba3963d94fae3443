"""`mx.nd.CachedOp`: a symbol as a function of arrays."""

import numpy as np
import pytest

import symjax_nnvm as nn
from lowering import mx


def arrays() -> list[mx.nd.NDArray]:
    random = np.random.RandomState(0)
    return [mx.nd.array(random.randn(*shape)) for shape in ((2, 3, 5, 5), (4, 3, 3, 3), (4,))]


def test_a_symbol_is_a_function_of_arrays_with_gradients():
    op = mx.nd.CachedOp(mx.sym.Convolution(kernel=(3, 3), num_filter=4) + 2, [("static_alloc", "true")])
    data, weight, bias = arrays()
    first = op(data, weight, bias)
    expected = mx.nd.Convolution(data, weight, bias, kernel=(3, 3), num_filter=4) + 2
    np.testing.assert_allclose(first.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-5)
    bias[:] = bias + 1
    np.testing.assert_allclose(op(data, weight, bias).asnumpy(), first.asnumpy() + 1, rtol=1e-5, atol=1e-5)
    out = mx.nd.zeros(first.shape)
    assert op(data, weight, bias, out=out) is out
    np.testing.assert_allclose(out.asnumpy(), first.asnumpy() + 1, rtol=1e-5, atol=1e-5)
    bias.attach_grad()
    with mx.autograd.record():
        total = (op(data, weight, bias) * 3).sum()
    total.backward()
    assert bias.grad is not None
    np.testing.assert_allclose(bias.grad.asnumpy(), np.full(4, 3 * 2 * 9), rtol=1e-5)


def test_several_outputs_are_a_list_and_misfits_are_told():
    op = mx.nd.CachedOp(mx.sym.Group([mx.sym.Variable("a") + 1, mx.sym.Variable("b") * 2]))
    results = op(mx.nd.ones(2), mx.nd.ones(3))
    assert [result.asnumpy().tolist() for result in results] == [[2, 2], [2, 2, 2]]
    with pytest.raises(nn.CallError, match=r"2 arrays: \['a', 'b'\]"):
        op(mx.nd.ones(2))
