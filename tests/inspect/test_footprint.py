"""The estimate of memory and arithmetic: liveness by hand, small files that would swell a process, and its speed."""

import json
import time

import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import SymbolValueError
from symjax_nnvm.inspect.footprint import bytes_text, flops_text, parse_size
from symjax_nnvm.symbol import Symbol

X = sym.Variable("data")
MIB = 1 << 20


def _doubled(times: int) -> Symbol:
    y = X
    for _ in range(times):
        y = sym.Concat(y, y, dim=0)
    return y


def _counter(iterations: int) -> Symbol:
    outputs, _ = sym.contrib.while_loop(
        lambda i: i < 10, lambda i: (i * 2, [i + 1]), [sym.Variable("data")], max_iterations=iterations
    )
    return outputs if isinstance(outputs, Symbol) else outputs[0]


# -- liveness --------------------------------------------------------------------------------------------------------


def test_a_chain_holds_two_arrays_at_a_time():
    y = X
    for _ in range(5):
        y = sym.sort(y)  # values and their places, and two copies to work on
    cost = nn.estimate(y, {"data": (MIB // 4,)})
    assert cost.input_bytes == MIB
    assert cost.peak_bytes == MIB + MIB + 2 * MIB + 2 * MIB


@pytest.mark.parametrize(("net", "results"), [(sym.argsort(X), 1), (sym.topk(X, k=0, ret_typ="value"), 2)])
def test_ordering_works_on_two_copies(net: Symbol, results: int):
    assert nn.estimate(net, {"data": (MIB // 4,)}).peak_bytes == (1 + results + 2) * MIB


def test_elementwise_operators_take_memory_over():
    assert nn.estimate(sym.relu(sym.relu(sym.relu(X))), {"data": (MIB // 4,)}).peak_bytes == 2 * MIB


def test_what_is_read_later_stays():
    first = sym.dot(X, X)
    y = first
    for _ in range(4):
        y = sym.dot(y, y)
    assert nn.estimate(sym.dot(y, first), {"data": (512, 512)}).peak_bytes == 4 * MIB
    assert nn.estimate(y, {"data": (512, 512)}).peak_bytes == 3 * MIB


def test_heads_stay_and_unread_outputs_go():
    parts = sym.SliceChannel(X, num_outputs=4, axis=0)
    assert nn.estimate(sym.dot(parts[0], parts[0], transpose_b=True), {"data": (4, MIB // 4)}).peak_bytes == 8 * MIB
    both = nn.estimate(sym.Group([sym.sum(X, axis=0), sym.sum(X, axis=1)]), {"data": (2, MIB // 4)})
    assert both.peak_bytes == 2 * MIB + MIB + 8


def test_dtypes_count():
    halves = nn.estimate(sym.dot(X, X), {"data": (512, 512)}, {"data": "float16"})
    assert 4 * halves.peak_bytes == nn.estimate(sym.dot(X, X), {"data": (512, 512)}, {"data": "float64"}).peak_bytes


def test_training_keeps_everything():
    y = X
    for i in range(6):
        y = sym.FullyConnected(y, num_hidden=512, no_bias=True, name=f"fc{i}")
    shapes = {"data": (512, 512)}
    forward, training = nn.estimate(y, shapes), nn.estimate(y, shapes, training=True)
    assert training.flops == 3 * forward.flops == 3 * 6 * 2 * 512**3
    assert training.peak_bytes >= 2 * forward.input_bytes + 6 * MIB


def test_states_are_held_twice_while_they_change():
    cost = nn.estimate(sym.BatchNorm(X, name="bn"), {"data": (1, MIB // 4)})
    assert cost.input_bytes == 5 * MIB
    assert cost.peak_bytes >= 5 * MIB + MIB + 2 * MIB


def test_loops_count_their_bodies_once_in_memory_and_often_in_arithmetic():
    outputs, _ = sym.contrib.foreach(lambda d, s: (sym.dot(d, s), s), X, sym.Variable("s"))
    cost = nn.estimate(outputs, {"data": (10, 256, 256), "s": (256, 256)})
    assert cost.flops == 10 * 2 * 256**3
    assert cost.peak_bytes < 10 * 4 * 256 * 256 * 3


# -- small files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("symbol", "shapes", "least", "node"),
    [
        (_doubled(31), {"data": (1,)}, 12 << 30, "Concat"),
        (sym.sum(sym.zeros((10**9,))), {}, 4 * 10**9, "_zeros"),
        (_counter(10**9), {"data": (1,)}, 8 * 10**9, "_while_loop"),
        (
            sym.Correlation(X, sym.Variable("b"), max_displacement=10**6, pad_size=10**6),
            {"data": (1, 1, 4, 4)},
            10**14,
            "Correlation",
        ),
        (sym.im2col(X, kernel=(100, 100), pad=(99, 99)), {"data": (8, 3, 100, 100)}, 3 * 10**9, "im2col"),
    ],
)  # fmt: skip
def test_what_swells_is_named(symbol, shapes, least, node):
    cost = nn.estimate(sym.load_json(symbol.tojson()), shapes)
    assert cost.peak_bytes >= least
    assert cost.op == node
    assert f"({node})" in str(cost)
    report = nn.check(symbol, shapes=shapes or None, params=None if shapes else {})
    assert report.peak_bytes == cost.peak_bytes
    assert report.flops == cost.flops
    assert json.loads(json.dumps(report.to_json()))["peak_bytes"] == cost.peak_bytes
    assert bytes_text(cost.peak_bytes) in str(report)


def test_what_only_takes_long_is_a_warning():
    aligned = sym.contrib.ROIAlign(
        X, sym.Variable("r"), pooled_size=(7, 7), spatial_scale=1.0, sample_ratio=100_000, name="align"
    )
    shapes = {"data": (1, 16, 2, 2), "r": (3, 5)}
    cost = nn.estimate(aligned, shapes)
    assert cost.peak_bytes < 64 << 20
    assert cost.flops >= 10**13
    assert cost.longest == "align"
    assert cost.wasteful == (("align", cost.longest_flops),)
    report = nn.check(aligned, shapes=shapes)
    (warning,) = [problem for problem in report.problems if problem.severity == "warning"]
    assert (warning.kind, warning.nodes) == ("cost", ("align",))
    assert "hours" in warning.reason
    short = nn.check(sym.Pooling(X, kernel=(2, 2)), shapes={"data": (1, 16, 8, 8)})
    assert [problem.severity for problem in short.problems] == ["note"]


def test_check_says_what_cannot_run():
    params = {"kernel": (1,), "pad": (10**19,), "stride": (2**31 - 1,), "num_filter": 1, "no_bias": True}
    report = nn.check(sym.Convolution(X, name="conv", **params), shapes={"data": (1, 1, 2)})
    assert not report.ok
    assert report.peak_bytes is None


def test_unknown_shapes_are_said():
    cost = nn.estimate(sym.relu(sym.relu(X, name="first")), {})
    assert cost.undecided[0] == "first"
    assert len(cost.undecided) == 2
    assert "nodes of unknown shape" in str(cost)
    assert nn.check(sym.relu(X), shapes=None).peak_bytes is None


@pytest.mark.slow("computes much")
def test_eighteen_thousand_nodes_take_less_than_seconds():
    y = X
    for _ in range(18_000):
        y = sym.relu(y)
    began = time.perf_counter()
    cost = nn.estimate(y, {"data": (10, 10)})
    assert time.perf_counter() - began < 5  # half a second on a quiet machine
    assert cost.flops == 18_000 * 100


# -- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [("4G", 4 << 30), ("500M", 500 << 20), ("1.5 GiB", 3 << 29), ("2kb", 2048), ("123", 123), (77, 77), ("1", 1)],
)
def test_sizes_as_text(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "4X", "-4G", "nan", "inf", "1e400", "0", "9" * 100_000])
def test_what_is_no_size(text):
    with pytest.raises(SymbolValueError, match="not a size of memory") as caught:
        parse_size(text)
    assert len(str(caught.value)) < 300


def test_sizes_for_people():
    assert [bytes_text(n) for n in (0, 1023, 1024, 1536, 3 << 30)] == ["0 B", "1023 B", "1 KiB", "1.5 KiB", "3 GiB"]
    assert bytes_text(1 << 90).endswith(" EiB")
    assert [flops_text(n) for n in (12, 3_400_000_000)] == ["12 FLOPs", "3.4 GFLOPs"]


def test_a_draw_without_inputs_is_counted_by_what_it_draws():
    assert nn.estimate(sym._sample_unique_zipfian(range_max=9, shape=(2, 5))).flops > 0


def test_a_transform_takes_5_n_log_n():
    assert nn.estimate(sym.contrib.fft(sym.Variable("data")), {"data": (4, 8)}).flops == 5 * 64 * 5
    assert nn.estimate(sym.contrib.ifft(sym.Variable("data")), {"data": (4, 16)}).flops == 5 * 32 * 4
