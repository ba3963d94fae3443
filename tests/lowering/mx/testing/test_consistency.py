"""Networks and optimisers that agree pass, others fail."""

from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx import test_utils as tu

SHAPES = [{"ctx": mx.cpu(0), "data": (2, 3)}, {"ctx": mx.cpu(1), "data": (2, 3)}]


def network(act_type: str = "tanh") -> mx.sym.Symbol:
    """One layer."""
    return mx.sym.Activation(mx.sym.Variable("data"), act_type=act_type, name="act")


def test_consistent():
    assert sorted(tu.check_consistency(network(), SHAPES)) == ["act_output", "data"]
    assert sorted(tu.check_consistency(network(), SHAPES, grad_req="null", use_uniform=True)) == ["act_output"]
    tu.check_consistency(network(), SHAPES, grad_req="add", arg_params={"data": np.ones((2, 3))})
    halves = [{**each, "type_dict": {"data": kind}} for each, kind in zip(SHAPES, ("float16", "float32"), strict=True)]
    tu.check_consistency(network(), halves)
    normed = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
    tu.check_consistency(normed, SHAPES, aux_params={"bn_moving_mean": 1, "bn_moving_var": 2})


def test_inconsistent(caplog: pytest.LogCaptureFixture):
    both = [network(), network("sigmoid")]
    with pytest.raises(AssertionError):
        tu.check_consistency(both, SHAPES)
    tu.check_consistency(both, SHAPES, raise_on_err=False)
    assert "Predict: act_output of 1 and of 0" in caplog.text
    assert "Train: data of 1 and of 0" in caplog.text
    with pytest.raises(AssertionError):
        tu.check_consistency(network(), SHAPES, grad_req="null", ground_truth={"act_output": mx.nd.ones((2, 3))})
    with pytest.raises(AssertionError):
        tu.check_consistency(network(), SHAPES[:1])


def test_speed():
    assert tu.check_speed(network(), N=2, data=(2, 3)) > 0
    assert tu.check_speed(network(), {"data": np.ones((2, 3))}, N=1, typ="forward") > 0
    with pytest.raises(ValueError, match="typ can only be"):
        tu.check_speed(network(), N=1, typ="backward", data=(2, 3))


def test_optimizers():
    class Plain(mx.optimizer.Optimizer):
        def create_state(self, index: Any, weight: Any) -> Any:
            return mx.nd.zeros(weight.shape)

        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            for w, g in zip(*((each,) if isinstance(index, int) else each for each in (weight, grad)), strict=True):
                w[:] = w - self.learning_rate * g

        update_multi_precision = update

    for shape, count in (((3, 4), 1), ([(3, 4), (2,)], 2)):
        tu.compare_optimizer(Plain(learning_rate=0.1), Plain(learning_rate=0.1), shape, "float32", ntensors=count)
        with pytest.raises(AssertionError):
            tu.compare_optimizer(Plain(learning_rate=0.1), Plain(learning_rate=0.2), shape, "float32", ntensors=count)


def test_a_reference_may_write_the_gradient_that_it_is_given():
    class Rescales(mx.optimizer.Optimizer):
        def create_state(self, index: Any, weight: Any) -> Any:
            return None

        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            grad[:] = grad * self.rescale_grad
            weight[:] = weight - self.learning_rate * grad

    given: dict[str, Any] = {"learning_rate": 0.5, "rescale_grad": 0.1}
    plain = mx.optimizer.create("sgd", **given)
    tu.compare_optimizer(Rescales(**given), plain, (3, 4), "float32", compare_states=False)


def test_tuples_of_arrays():
    tu.compare_ndarray_tuple((mx.nd.ones(1), None), (mx.nd.ones(1), mx.nd.zeros(1)))
    with pytest.raises(AssertionError):
        tu.compare_ndarray_tuple((mx.nd.ones(1),), (mx.nd.zeros(1),))


def test_structure_and_an_iterator():
    assert tu.same_symbol_structure(network(), network("relu"))
    assert not tu.same_symbol_structure(network(), mx.sym.exp(mx.sym.Variable("data")))
    real = mx.io.NDArrayIter(np.arange(4.0), np.arange(4.0), 2)
    dummy = tu.DummyIter(real)
    assert (dummy.batch_size, dummy.provide_data, dummy.provide_label) == (2, real.provide_data, real.provide_label)
    for _ in range(5):
        assert next(dummy).data[0].asnumpy().tolist() == [0, 1]
