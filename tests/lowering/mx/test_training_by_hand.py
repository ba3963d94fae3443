"""Training loops that are written by hand over several devices, with what MXNet's own modules are made of."""

from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx import model

CONTEXTS = (mx.cpu(0), mx.cpu(1))


def network() -> Any:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def batch() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    return random.randn(7, 4).astype(np.float32), random.randint(0, 3, 7).astype(np.float32)


def parameters() -> dict[str, Any]:
    random = np.random.RandomState(1)
    return {name: mx.nd.array(random.randn(*shape)) for name, shape in (("fc_weight", (3, 4)), ("fc_bias", (3,)))}


def optimizer() -> Any:
    return mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9, rescale_grad=1 / 7)


def trained_by_hand(update_on_kvstore: bool, with_kvstore: bool = True) -> dict[str, np.ndarray]:
    """The first device's parameters after three steps."""
    net, (data, label), params = network(), batch(), parameters()
    slices = [slice(0, 4), slice(4, 7)]
    executors = [
        net.simple_bind(ctx, data=(rows.stop - rows.start, 4), softmax_label=(rows.stop - rows.start,))
        for ctx, rows in zip(CONTEXTS, slices, strict=True)
    ]
    names = [name for name in net.list_arguments() if name in params]
    arrays = [[executor.arg_dict[name] for executor in executors] for name in names]
    grads = [[executor.grad_dict[name] for executor in executors] for name in names]
    store, _ = model._create_kvstore("local", 2, params)
    updater = mx.optimizer.get_updater(optimizer())
    for name, copies in zip(names, arrays, strict=True):
        for copy in copies:
            params[name].copyto(copy)
    if with_kvstore:
        model._initialize_kvstore(store, arrays, params, names, update_on_kvstore)
    if update_on_kvstore:
        store.set_optimizer(optimizer())
    for _ in range(3):
        for rows, executor in zip(slices, executors, strict=True):
            executor.forward(is_train=True, data=data[rows], softmax_label=label[rows])
            executor.backward()
        if update_on_kvstore:
            model._update_params_on_kvstore(arrays, grads, store, names)
        else:
            model._update_params(arrays, grads, updater, 2, kvstore=store if with_kvstore else None, param_names=names)
    for copies in arrays if with_kvstore else ():
        np.testing.assert_array_equal(copies[0].asnumpy(), copies[1].asnumpy())
    return {name: copies[0].asnumpy() for name, copies in zip(names, arrays, strict=True)}


def trained_by_a_module() -> dict[str, np.ndarray]:
    module = mx.mod.Module(network(), context=list(CONTEXTS))
    data, label = batch()
    module.bind([("data", data.shape)], [("softmax_label", label.shape)])
    module.init_params(arg_params=parameters(), aux_params={})
    module.init_optimizer(optimizer=optimizer())
    for _ in range(3):
        module.forward_backward(mx.io.DataBatch([mx.nd.array(data)], [mx.nd.array(label)]))
        module.update()
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_a_loop_over_two_devices_trains_as_a_module_does(update_on_kvstore: bool):
    by_hand, by_module = trained_by_hand(update_on_kvstore), trained_by_a_module()
    for name, value in by_module.items():
        np.testing.assert_allclose(by_hand[name], value, rtol=1e-5, atol=1e-6)


def test_without_a_store_each_device_goes_its_own_way():
    alone, together = trained_by_hand(False, with_kvstore=False), trained_by_hand(False)
    assert np.abs(alone["fc_weight"] - together["fc_weight"]).max() > 1e-3


@pytest.mark.slow("computes much")
def test_a_store_is_made_where_one_is_needed():
    params = parameters()
    assert model._create_kvstore(None, 2, params) == (None, False)
    assert model._create_kvstore("local", 1, params) == (None, False)
    store, updates = model._create_kvstore("device", 2, params)
    assert (store.type, updates) == ("device", True)
    assert model._create_kvstore(store, 1, params) == (store, True)
    assert model._create_kvstore("local", 2, {"w": mx.nd.zeros((4097, 4096))})[1] is False
    with pytest.raises(TypeError, match="kvstore must be KVStore, str or None"):
        model._create_kvstore(5, 1, params)
