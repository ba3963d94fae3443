"""Networks that are known by their numbers, built from MXNet's operators."""

from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol.symbol import Symbol


def _convolution(data: Symbol, name: str, filters: int, kernel: int, stride: int = 1) -> Symbol:
    """Convolution without bias, and batch normalisation."""
    conv = sym.Convolution(
        data,
        num_filter=filters,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2, kernel // 2),
        no_bias=True,
        name=f"{name}_conv",
    )
    return sym.BatchNorm(conv, fix_gamma=False, name=f"{name}_bn")


def resnet(units: tuple[int, int, int, int] = (3, 4, 6, 3)) -> Symbol:
    """ResNet of bottleneck blocks with the stride in the 3×3 convolution (v1.5): 50 layers by default.

    Known of 50 layers at 224²: 25,557,032 parameters, 4,089,184,256 MACs of convolutions and the dense layer.
    """
    body = sym.Activation(_convolution(sym.Variable("data"), "stem", 64, 7, 2), act_type="relu", name="stem_relu")
    body = sym.Pooling(body, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", name="stem_pool")
    for stage, count in enumerate(units):
        width = 64 << stage
        for unit in range(count):
            name = f"stage{stage + 1}_unit{unit + 1}"
            stride = 2 if unit == 0 and stage > 0 else 1
            branch = _convolution(body, f"{name}_a", width, 1)
            branch = sym.Activation(branch, act_type="relu", name=f"{name}_a_relu")
            branch = _convolution(branch, f"{name}_b", width, 3, stride)
            branch = sym.Activation(branch, act_type="relu", name=f"{name}_b_relu")
            branch = _convolution(branch, f"{name}_c", 4 * width, 1)
            shortcut = body if unit else _convolution(body, f"{name}_sc", 4 * width, 1, stride)
            added = sym.elemwise_add(branch, shortcut, name=f"{name}_add")
            body = sym.Activation(added, act_type="relu", name=f"{name}_relu")
    pooled = sym.Pooling(body, global_pool=True, kernel=(7, 7), pool_type="avg", name="pool")
    return sym.SoftmaxOutput(sym.FullyConnected(pooled, num_hidden=1000, name="fc"), name="softmax")
