"""The parts of `benchmarks/zoo.py` that need no other interpreter; nothing is timed here."""

import math
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import lowering
from benchmarks import by_hand
from benchmarks.contenders import Failed, in_process, medians, ratio, take_turns
from benchmarks.networks import NETWORKS, ROWS, Row, blocks, chosen, initial_values, inputs, with_head
from benchmarks.zoo import Result, as_json, difference, fusions, make_model, make_onnx, measure, table
from lowering import mx
from symjax_nnvm import symbol as sym

ROOT = Path(__file__).parents[2]

TOY = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import numpy as np
from benchmarks.contenders import Loaded, serve
from benchmarks.networks import inputs, row_of

def load(row, folder):
    print("libraries print", row.label)
    calls = []
    def call():
        calls.append(0)
        if len(calls) > int(sys.argv[1]):
            import atexit
            atexit.register(print, "Advice about tracebacks.", file=sys.stderr)
            raise ValueError("had enough")
    return Loaded(call, [inputs(row, ())["data"] * float(sys.argv[2])])

serve(row_of(load))
"""


@pytest.fixture
def toy(tmp_path: Path):
    """The command of a contender that fails after so many calls and multiplies its data."""
    script = tmp_path / "toy.py"
    script.write_text(TOY)
    return lambda calls, factor: [sys.executable, str(script), str(calls), str(factor)]


@pytest.mark.slow("starts processes")
def test_contenders_take_turns_and_one_that_fails_is_left_out(toy):
    commands = {"MXNet": toy(4, 1), "ours": toy(99, 1.5), "onnxruntime": toy(2, 1), "JAX by hand": toy(0, 1)}
    result = measure(Row("lstm", 2), commands, "", rounds=2, turn=0, pause=0)
    assert {name: len(times) for name, times in result.rounds.items()} == {"MXNet": 2, "ours": 2}
    assert result.errors == {
        "onnxruntime": "ended with status 1: ValueError: had enough",
        "JAX by hand": "ended with status 1: ValueError: had enough",
    }
    assert result.difference == {"MXNet": 0, "ours": 0.5, "onnxruntime": 0, "JAX by hand": 0}
    assert result.ratio == result.ms["ours"] / result.ms["MXNet"]


def test_a_table_has_what_was_measured_and_what_failed():
    measured = Result(
        Row("bert", 1),
        {"MXNet": [9.0, 4.0, 5.0], "onnxruntime": [8.0], "ours": [2.0], "JAX by hand": [4.0]},
        {"MXNet": 0.0, "ours": 2e-7},
    )
    other = Result(Row("vgg16", 1), {"MXNet": [2.0], "ours": [3.2]}, {}, errors={"onnxruntime": "no such operator"})
    trained = Result(Row("lstm", 32, training=True), {"ours": [3.0]})
    lines = table([measured, other, trained]).splitlines()
    assert [line.split() for line in lines[2:5]] == [
        ["bert-b1", "5.0", "8.0", "2.0", "4.0", "0.40", "0.50", "2e-07"],
        ["vgg16-b1", "2.0", "failed", "3.2", "-", "1.60", "-", "-"],
        ["lstm-b32-train", "-", "-", "3.0", "-", "-", "-", "-"],
    ]
    assert lines[5:] == ["geometric mean of the ratios, inference: 0.80", "vgg16-b1: onnxruntime: no such operator"]
    assert as_json([measured])[0]["ratio"] == pytest.approx(0.4)


def test_differences_are_relative_to_scale():
    reference = [np.array([1.0, -4.0]), np.array([2.0])]
    assert difference([np.array([[1.0, -3.0]]), np.array([2.0])], reference) == 0.25
    assert difference([np.array([1.0, np.nan]), np.array([2.0])], reference) == math.inf
    assert difference(reference[:1], reference) == math.inf


def test_rows_are_chosen_by_network_or_label():
    assert [row.label for row in chosen("resnet50,lstm-b32-train", None)] == [
        "resnet50-b1",
        "resnet50-b16",
        "lstm-b32-train",
    ]
    assert chosen(None, None) == ROWS
    assert {row.name for row in ROWS} == set(NETWORKS)
    assert all(row.training for row in chosen(None, True))
    with pytest.raises(ValueError, match="no network .'resnet'"):
        chosen("resnet", None)


def test_a_file_that_only_mxnet_could_make_is_asked_for(tmp_path):
    for make in (make_model, make_onnx):
        with pytest.raises(Failed, match="only MXNet can make it: give --mxnet"):
            make(Row("vgg16", 1), str(tmp_path), None)


@pytest.mark.parametrize("name", [name for name, network in NETWORKS.items() if callable(network.source)])
def test_symbolic_networks_have_outputs_of_their_datas_shape(name: str):
    row = next(row for row in ROWS if row.name == name)
    assert callable(row.network.source)
    net = row.network.source(sym)
    assert net.infer_shape(data=row.shape)[1] == [row.shape]
    label = inputs(Row(name, row.batch, training=True), row.shape)["head_label"]
    assert with_head(sym, net, row).infer_shape(data=row.shape, head_label=label.shape)[1] == [row.shape]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_encoder_by_hand_computes_what_the_symbol_does(pre_norm: bool):
    net = blocks(sym, 1, 8, 2, pre_norm=pre_norm)
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=(2, 3, 8))[0], strict=True))
    values = initial_values(shapes)
    function = by_hand.pre_norm if pre_norm else by_hand.encoder
    data = values.pop("data")
    theirs = jax.jit(lambda w, x: function(w, x, 1, 2))(by_hand.transposed(values), data)
    np.testing.assert_allclose(theirs, lowering.compile(net)({**values, "data": data})[0][0], rtol=1e-4, atol=1e-5)


@pytest.mark.nightly("computes much")
def test_resnet18_by_hand_computes_what_the_symbol_does():
    net = mx.gluon.model_zoo.vision.resnet18_v1(prefix="resnet18_")(mx.sym.var("data"))
    arguments, _, states = net.infer_shape(data=(1, 3, 64, 64))
    args = initial_values(dict(zip(net.list_arguments(), arguments, strict=True)))
    aux = initial_values(dict(zip(net.list_auxiliary_states(), states, strict=True)))
    data = args.pop("data")
    function, weights = by_hand.network_by_hand("resnet18", args, aux)
    ours = lowering.Predictor(net, args, aux)(data=data)[0]
    np.testing.assert_allclose(jax.jit(function)(weights, data), ours, rtol=1e-3, atol=1e-4)


def test_fused_computations_are_found_in_hlo():
    hlo = "%fused_computation.1 (a: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  ROOT %b = f32[] negate(%a)\n}\n\n"
    assert [len(found) for found in fusions(hlo + "ENTRY %main () -> f32[] {\n  ROOT %c = f32[] constant(0)\n}\n")] == [
        1
    ]


def test_the_first_of_a_round_moves_on_and_a_turn_has_one_call_that_is_not_timed():
    calls: list[str] = []
    ways = {name: in_process(lambda name=name: calls.append(name)) for name in "ab"}
    times = take_turns(ways, 3, seconds=0)
    assert "".join(calls) == "aabbbbaaaabb"
    assert {name: len(rounds) for name, rounds in times.items()} == {"a": 3, "b": 3}


def test_a_ratio_is_the_median_of_the_rounds_ratios():
    times = {"a": [2.0, 30.0, 3.0], "b": [1.0, 10.0, 3.0]}
    assert medians(times) == {"a": 3, "b": 3}
    assert ratio(times, "a", "b") == 2
