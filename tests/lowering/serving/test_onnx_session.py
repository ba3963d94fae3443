"""`Predictor(backend="onnxruntime")`: XLA's outputs by another runtime, or an error."""

import sys
from typing import Any

import numpy as np
import pytest

import lowering
from lowering.serving import onnx_session
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, InferenceError, LoweringError, MissingExtraError, OnnxError
from tests.lowering.serving.test_predictor import ARGS, AUX, NET

pytestmark = pytest.mark.slow("runs onnxruntime and XLA")
X = np.random.default_rng(0).normal(size=(3, 2, 4, 4)).astype("float32")


def predictor(net: sym.Symbol = NET, args: Any = ARGS, aux: Any = AUX, **options: Any) -> lowering.Predictor:
    return lowering.Predictor(net, args, aux, backend="onnxruntime", **options)


def test_outputs_are_xlas_and_one_session_takes_every_size_of_batch(monkeypatch: pytest.MonkeyPatch, tmp_path):
    opened: list[str] = []
    open_session = onnx_session.open_session
    monkeypatch.setattr(onnx_session, "open_session", lambda *args: opened.append(args[1]) or open_session(*args))
    by_xla = lowering.Predictor(NET, ARGS, AUX)
    predict = predictor().warm(data=(1, 2, 4, 4))
    for rows in (1, 3):
        (actual,), (expected,) = predict(data=X[:rows]), by_xla(data=X[:rows])
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    assert len(opened) == 1
    (whole,) = by_xla(data=X)
    batches = list(predict.batches([X[:2], X[2:]]))
    np.testing.assert_allclose(np.concatenate([outputs[0] for outputs in batches]), whole, rtol=1e-5, atol=1e-6)
    predict.save(tmp_path / "served")
    again = lowering.Predictor.load(tmp_path / "served", backend="onnxruntime", one_core=True)
    np.testing.assert_allclose(again(data=X)[0], whole, rtol=1e-5, atol=1e-6)
    assert len(opened) == 2


def test_a_size_that_the_graph_has_takes_a_session_of_its_own():
    net = sym.broadcast_add(sym.reshape(sym.Variable("data"), shape=(2, 8)), sym.zeros((2, 8)))
    (output,) = predictor(net, {}, {})(data=np.ones((4, 4), np.float32))
    assert np.array_equal(output, np.ones((2, 8)))


def test_other_outputs_than_xlas_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_session, "tolerance", lambda dtype: -1.0)
    monkeypatch.setattr(onnx_session.np, "array_equal", lambda *_, **__: False)
    with pytest.raises(LoweringError, match="'softmax_output' differs from XLA's"):
        predictor()(data=X)


def test_what_it_cannot_run_is_told(monkeypatch: pytest.MonkeyPatch):
    options: Any
    for options in ({"compute_dtype": "bfloat16"}, {"platform": "gpu"}):
        with pytest.raises(CallError, match="on the CPU. Leave out mesh"):
            predictor(**options)
    with pytest.raises(CallError, match='backend must be "xla" or "onnxruntime"'):
        lowering.Predictor(NET, ARGS, AUX, backend="ort")
    with pytest.raises(CallError, match="draws random numbers"):
        predictor(sym.broadcast_add(sym.Variable("data"), sym.random.normal(shape=(1,))), {}, {})
    with pytest.raises(OnnxError, match="_linalg_gelqf"):
        predictor(sym.linalg.gelqf(sym.Variable("data")), {}, {})(data=np.ones((2, 4), np.float32))
    with pytest.raises(InferenceError, match="fc"):
        predictor()(data=np.ones((1, 2, 5, 5), np.float32))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match="pip install onnxruntime"):
        predictor()(data=X)
