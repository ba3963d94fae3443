"""`mx.nd.contrib`: what is a number, and many weights updated as one by one."""

from typing import Any

import numpy as np
import pytest

from lowering import mx

contrib = mx.nd.contrib


def test_numbers():
    x = mx.nd.array([np.inf, -np.inf, np.nan, -1])
    assert contrib.isinf(x).asnumpy().tolist() == [1, 1, 0, 0]
    assert contrib.isnan(x).asnumpy().tolist() == [0, 0, 1, 0]
    assert contrib.isfinite(x).asnumpy().tolist() == [0, 0, 0, 1]


def arrays(kind: str, seed: int) -> list[mx.nd.NDArray]:
    """A weight, its gradient, its mean and its variance."""
    rng = np.random.default_rng(seed)
    shape = (2 + seed, 3)
    weight, grad = (mx.nd.array(rng.standard_normal(shape), dtype=kind) for _ in range(2))
    return [weight, grad, *(mx.nd.array(rng.random(shape)) for _ in range(2))]


@pytest.mark.parametrize("half", [False, True])
def test_many_weights_by_adam(half: bool):
    kind = "float16" if half else "float32"
    rates = {"lrs": [0.1, 0.2], "wds": [0.01, 0], "etas": [1, 0.5]}
    scale = mx.nd.array([0.5])
    many = list(zip(*(arrays(kind, i) for i in range(2)), strict=True))
    wide: Any = [[weight.astype("float32") for weight in many[0]]] if half else []
    function = contrib.multi_mp_adamw_update if half else contrib.multi_adamw_update
    function(*many, *wide, scale, out=many[0], beta1=0.8, **rates)
    for i in range(2):
        one = arrays(kind, i)
        copies = [one[0].astype("float32")] if half else []
        single = contrib.mp_adamw_update if half else contrib.adamw_update
        options = {"lr": rates["lrs"][i], "eta": rates["etas"][i], "wd": rates["wds"][i], "beta1": 0.8}
        single(*one, *copies, 0.5, out=one[0], **options)
        for (found, *_), expected in zip([(row[i],) for row in (*many, *wide)], [*one, *copies], strict=True):
            np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-3 if half else 1e-6)
    before = many[0][0].asnumpy()
    function(*many, *wide, mx.nd.array([np.nan]), out=many[0], **rates)
    np.testing.assert_array_equal(many[0][0].asnumpy(), before)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("half", [False, True])
def test_many_weights_by_lamb(half: bool):
    kind = "float16" if half else "float32"
    many = list(zip(*(arrays(kind, i) for i in range(2)), strict=True))
    wide: Any = [[weight.astype("float32") for weight in many[0]]] if half else []
    function = contrib.multi_mp_lamb_update if half else contrib.multi_lamb_update
    function(*many, *wide, [1, 3], [0.1, 0.2], [0.01, 0], out=many[0])
    for i in range(2):
        weight, grad, mean, var = (each.astype("float32") for each in arrays(kind, i))
        step = mx.nd.lamb_update_phase1(weight, grad, mean, var, t=(1, 3)[i], wd=(0.01, 0)[i])
        lr, norms = (0.1, 0.2)[i], [mx.nd.norm(each) for each in (weight, step)]
        expected = mx.nd.lamb_update_phase2(weight, step, *norms, lr=lr)
        np.testing.assert_allclose(many[0][i].asnumpy(), expected.asnumpy(), rtol=2e-3 if half else 1e-5, atol=1e-3)


def test_a_mask_whose_values_are_known_keeps_rows():
    x, mask = mx.nd.arange(8).reshape((4, 2)), mx.nd.array([2, 0, -1, 0])
    x.attach_grad()
    with mx.autograd.record():
        kept = mx.nd.contrib.boolean_mask(x * 2, mask)
        square = kept * kept
    square.backward()
    assert x.grad is not None
    assert kept.asnumpy().tolist() == [[0, 2], [8, 10]]
    assert x.grad.asnumpy().tolist() == [[0, 8], [0, 0], [32, 40], [0, 0]]
    assert mx.nd.contrib.boolean_mask(x, mx.nd.zeros(4)).shape == (0, 2)
    out = mx.nd.zeros((2, 2), dtype="int32")
    mx.nd.contrib.boolean_mask(data=x.astype("int32"), index=mask, out=out)
    assert out.asnumpy().tolist() == [[0, 1], [4, 5]]
    for wrong, axis in ((mx.nd.ones(2), 0), (mx.nd.ones((1, 4)), 0), (mask, 1)):
        with pytest.raises(mx.MXNetError, match="a mask with one number for each row"):
            mx.nd.contrib.boolean_mask(x, wrong, axis=axis)
