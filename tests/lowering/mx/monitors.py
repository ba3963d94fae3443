"""What monitors of modules see, in MXNet and here: `MONITORS`, name → (network, shape of its data, options)."""

from typing import Any


def _mlp(mx: Any) -> Any:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc1")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="relu", name="relu1"), num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def _convolution(mx: Any) -> Any:
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    net = mx.sym.Activation(mx.sym.BatchNorm(net, name="bn"), act_type="relu", name="act")
    net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    net = mx.sym.Dropout(mx.sym.Flatten(net, name="flat"), p=0.5, name="drop")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3, name="fc"), name="softmax")


MONITORS: dict[str, tuple[Any, tuple[int, ...], dict[str, Any]]] = {
    f"{name}{', all' * monitor_all}{'' if trained else ', inference'}": (
        net,
        shape,
        {"monitor_all": monitor_all, "trained": trained},
    )
    for name, net, shape in (("mlp", _mlp, (2, 5)), ("convolution", _convolution, (2, 3, 4, 4)))
    for monitor_all in (False, True)
    for trained in (True, False)
}


def told(mx: Any, name: str) -> list[list[str]]:
    """The names of the arrays of each of two batches."""
    network, shape, options = MONITORS[name]
    trained = options["trained"]
    module = mx.mod.Module(network(mx), context=mx.cpu())
    module.bind([("data", shape)], [("softmax_label", shape[:1])], for_training=trained)
    module.init_params(mx.init.One())
    monitor = mx.mon.Monitor(1, lambda array: array.sum(), monitor_all=options["monitor_all"])
    module.install_monitor(monitor)
    rows = []
    for _ in range(2):
        monitor.tic()
        module.forward(mx.io.DataBatch([mx.nd.ones(shape)], [mx.nd.zeros(shape[:1])]), is_train=trained)
        if trained:
            module.backward()
        rows.append([called for _, called, _ in monitor.toc()])
    return rows
