"""What is lowered for GPUs and TPUs has no more operations than the same network written by hand in JAX.

No accelerator is needed: operations of the program that XLA is given are counted. A bound above 1 has its reason beside
it. Transposes and casts are counted by themselves.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import lowering
from benchmarks import by_hand, networks
from lowering.core.cache import Programs
from lowering.core.chosen_options import first_options
from symjax_nnvm import symbol as sym
from symjax_nnvm.pipeline import Options

PLATFORMS = {"cuda": "gpu", "tpu": "tpu"}
STAGES = ((64, 2, 1), (128, 2, 2))  # widths, blocks and strides of a ResNet with bottlenecks


def shaped(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.float32)


# -- the networks ------------------------------------------------------------------------------------------------------


def _unit(data: sym.Symbol, name: str, filters: int, kernel: int, stride: int, active: bool = True) -> sym.Symbol:
    sizes: dict[str, Any] = {"kernel": (kernel, kernel), "stride": (stride, stride), "pad": (kernel // 2, kernel // 2)}
    data = sym.Convolution(data, num_filter=filters, no_bias=True, name=name, **sizes)
    data = sym.BatchNorm(data, fix_gamma=False, eps=1e-5, name=f"{name}_bn")
    return sym.Activation(data, act_type="relu") if active else data


def resnet() -> sym.Symbol:
    data = _unit(sym.Variable("data"), "stem", 64, 7, 2)
    data = sym.Pooling(data, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
    for i, (width, blocks, stride) in enumerate(STAGES):
        for j in range(blocks):
            name, step = f"s{i}b{j}", stride if j == 0 else 1
            short = _unit(data, f"{name}_short", 4 * width, 1, step, active=False) if j == 0 else data
            data = _unit(_unit(data, f"{name}_1", width, 1, 1), f"{name}_2", width, 3, step)
            data = sym.Activation(_unit(data, f"{name}_3", 4 * width, 1, 1, active=False) + short, act_type="relu")
    data = sym.Pooling(data, global_pool=True, pool_type="avg", kernel=(1, 1))
    return sym.FullyConnected(sym.Flatten(data), num_hidden=1000, name="fc")


def resnet_by_hand(w: Mapping[str, Any], data: jax.Array, is_train: bool, half: Any) -> jax.Array:
    """The same; in half precision convolutions and products alone in training, all in inference."""

    def cast(x: jax.Array) -> jax.Array:
        return x if half is None else x.astype(half)

    def unit(x: jax.Array, name: str, kernel: int, stride: int, active: bool = True) -> jax.Array:
        pads, numbers = [(kernel // 2, kernel // 2)] * 2, ("NCHW", "OIHW", "NCHW")
        x = lax.conv_general_dilated(
            cast(x), cast(w[f"{name}_weight"]), (stride, stride), pads, dimension_numbers=numbers
        )
        if is_train:
            x = x.astype(jnp.float32)
            mean = x.mean((0, 2, 3))
            variance = jnp.square(x - mean[:, None, None]).mean((0, 2, 3))
        else:
            mean, variance = w[f"{name}_bn_moving_mean"], w[f"{name}_bn_moving_var"]
        scale = w[f"{name}_bn_gamma"] * lax.rsqrt(variance + 1e-5)
        shift = w[f"{name}_bn_beta"] - mean * scale
        x = x * scale.astype(x.dtype)[:, None, None] + shift.astype(x.dtype)[:, None, None]
        return jnp.maximum(x, 0) if active else x

    x = unit(data, "stem", 7, 2)
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)])
    for i, (_, blocks, stride) in enumerate(STAGES):
        for j in range(blocks):
            name, step = f"s{i}b{j}", stride if j == 0 else 1
            short = unit(x, f"{name}_short", 1, step, active=False) if j == 0 else x
            x = unit(unit(x, f"{name}_1", 1, 1), f"{name}_2", 3, step)
            x = jnp.maximum(unit(x, f"{name}_3", 1, 1, active=False) + short, 0)
    return (cast(x.mean((2, 3))) @ cast(w["fc_weight"]).T + cast(w["fc_bias"])).astype(jnp.float32)


class Pair(NamedTuple):
    """A network and the same by hand. by_hand: (weights, data, is_train, half) → output. weights: what it takes, by
    those of the network."""

    build: Callable[[], sym.Symbol]
    data: tuple[int, ...]
    by_hand: Callable[..., jax.Array]
    weights: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict


def _encoder_weights(args: Mapping[str, Any]) -> Mapping[str, Any]:
    return {n: shaped(*a.shape[::-1]) if n.endswith("weight") else a for n, a in args.items()}


def _lstm_weights(_: Mapping[str, Any]) -> Mapping[str, Any]:
    matrices = {f"{part}{i}": shaped(512, 2048) for i in range(2) for part in ("input", "recurrent")}
    return matrices | {f"bias{i}": shaped(2048) for i in range(2)}


PAIRS = {
    "resnet": Pair(resnet, (8, 3, 64, 64), resnet_by_hand),
    "encoder": Pair(
        lambda: networks.blocks(sym, 2, 256, 4, pre_norm=False),
        (8, 128, 256),
        lambda w, data, is_train, half: by_hand.encoder(w, data, layers=2, heads=4),
        _encoder_weights,
    ),
    "lstm": Pair(
        lambda: networks.lstm(sym), (64, 32, 512), lambda w, data, is_train, half: by_hand.lstm(w, data), _lstm_weights
    ),
}


# -- counting ----------------------------------------------------------------------------------------------------------


def operations(function: Callable[..., Any], platform: str, *arguments: Any) -> Counter[str]:
    """How often each operation is in the program that XLA is given for a platform; those of functions at each call."""
    text = jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    bodies: dict[str, list[str]] = {}
    body: list[str] = []
    for line in text.splitlines():
        if begins := re.match(r"\s*func\.func (?:public |private )?@([\w.]+)", line):
            body = bodies[begins.group(1)] = []
        body.append(line)

    @cache
    def of(name: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for line in bodies[name][1:]:
            if call := re.search(r"call @([\w.]+)", line):
                found += of(call.group(1))
            elif operation := re.search(r'(?:= |^\s*)"?(?:stablehlo|chlo)\.(\w+)', line):
                found[operation.group(1)] += 1
        return found

    return Counter({name: count for name, count in of("main").items() if name not in ("constant", "return")})


def _rounds(function: Callable[..., Any], platform: str, *arguments: Any) -> list[int]:
    """How often each loop runs."""
    text = jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    loops = re.finditer(r"compare\s+LT, %iterArg\w*, (%c\w*),", text)
    return [
        int(re.findall(rf"{loop[1]} = stablehlo.constant dense<(\d+)>", text[: loop.start()])[-1]) for loop in loops
    ]


def _casts(function: Callable[..., Any], platform: str, *arguments: Any) -> int:
    """How many casts between floating-point types there are; those of masks are products."""
    text = jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    return len(re.findall(r"stablehlo\.convert .*\((?:tensor<[\dx]*b?f\d+>)\) -> tensor<[\dx]*b?f\d+>", text))


def both(name: str, platform: str, gradient: bool, half: str | None = None) -> tuple[Any, Any]:
    """Ours and what is written by hand, each with its arguments."""
    pair = PAIRS[name]
    net = pair.build()
    shapes, _, states = net.infer_shape(data=pair.data)
    args = {n: shaped(*shape) for n, shape in zip(net.list_arguments(), shapes, strict=True)}
    aux = {n: shaped(*shape) for n, shape in zip(net.list_auxiliary_states(), states, strict=True)}
    data, wrt = args["data"], [n for n in args if n != "data"]
    weights = pair.weights({n: args[n] for n in wrt})
    if not gradient:
        ours = lowering.to_jax(net, platform=PLATFORMS[platform], compute_dtype=half)
        return (ours, args, aux), (lambda w, x: pair.by_hand(w, x, False, half), {**weights, **aux}, data)
    head = shaped(*net.infer_shape(data=pair.data)[1][0])
    grads = lowering.grad_fn(net, wrt=wrt, platform=PLATFORMS[platform], compute_dtype=half)
    by_hand = jax.grad(lambda w, x, head: jnp.sum(pair.by_hand(w, x, True, half) * head))
    return (lambda args, aux, head: grads(args, aux, head_grads=[head])[1], args, aux, head), (
        *(by_hand, weights, data),
        head,
    )


BOUNDS = {
    # (network, gradient): (all operations, transposes more than by hand)
    ("resnet", False): (1.0, 0),
    ("resnet", True): (1.0, 0),
    # MXNet's graph splits and joins heads by transposes; einsum hides them in the numbers of a product's axes.
    ("encoder", False): (1.15, 6),
    ("encoder", True): (1.0, 0),
    # MXNet's RNN has one vector of all weights, which is taken apart outside of the loop: twenty slices and shapes. A
    # wavefront's rows are stacked before the loop and cut after it.
    ("lstm", False): (1.45, 7),
    ("lstm", True): (1.05, 11),
}


@pytest.mark.nightly("every bound on every platform", but_one_in=3)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(("name", "gradient"), BOUNDS)
def test_no_more_operations_than_by_hand(name: str, gradient: bool, platform: str):
    (ours, *given), (by_hand, *taken) = both(name, platform, gradient)
    found, expected = operations(ours, platform, *given), operations(by_hand, platform, *taken)
    most, transposes = BOUNDS[name, gradient]
    assert found.total() <= most * expected.total()
    assert found["transpose"] <= expected["transpose"] + transposes
    for product in ("dot_general", "convolution", "while", "custom_call"):
        assert found[product] <= expected[product], product
    assert _casts(ours, platform, *given) == 0


@pytest.mark.slow("lowers programs")
@pytest.mark.parametrize("gradient", [False, True])
def test_two_lstm_layers_are_one_loop_of_their_diagonals(gradient: bool):
    """64 steps of two layers are 65 dependent ones, each way."""
    (ours, *given), _ = both("lstm", "cuda", gradient)
    assert _rounds(ours, "cuda", *given) == [65] * (1 + gradient)


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("gradient", [False, True])
def test_half_precision_casts_as_by_hand(gradient: bool, platform: str):
    (ours, *given), (by_hand, *taken) = both("resnet", platform, gradient, "bfloat16")
    # In training ours keeps activations in half the bytes, and casts them where statistics are taken of them.
    most = 1.25 if gradient else 1.0
    assert 0 < _casts(ours, platform, *given) <= most * _casts(by_hand, platform, *taken)
    # JAX 0.12 writes means by hand with fewer divisions: 1,329 operations to our 1,333.
    assert operations(ours, platform, *given).total() <= 1.01 * operations(by_hand, platform, *taken).total()


@pytest.mark.slow("compiles")
def test_first_calls_on_a_gpu_leave_no_depth_wise_convolution_to_cudnn():
    data = sym.Convolution(sym.Variable("data"), kernel=(3, 3), stride=(2, 2), pad=(1, 1), num_filter=8, num_group=8)
    net = sym.MakeLoss(sym.Convolution(sym.Activation(data, act_type="relu"), kernel=(1, 1), num_filter=4))
    names = net.list_arguments()
    shapes = dict(zip(names, net.infer_shape(data=(2, 8, 9, 9))[0], strict=True))
    rng = np.random.default_rng(5)
    args = {name: jnp.asarray(rng.normal(size=shape), "float32") for name, shape in shapes.items()}
    options = Options(is_train=True, wrt=tuple(names), platform="gpu")
    first = first_options(options)
    assert first is not None
    programs = Programs(net)
    run, full = (partial(programs.gradient(chosen), aux={}, key=None, head_grads=[None]) for chosen in (first, options))
    assert [operations(function, "cuda", args)["convolution"] for function in (run, full)] == [3, 6]
    for name, gradient in jax.jit(run)(args)[1].items():
        np.testing.assert_allclose(gradient, jax.jit(full)(args)[1][name], rtol=1e-5, atol=1e-5)
