"""What is asked of MXNet and of ours alike: functions of `mx` that return numbers and text.

`tests/goldens/namespace.py` runs them in MXNet 1.9.1; `test_scenarios.py` runs them here.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

LABELS = [np.array([0, 1, 1, 0, 1], np.float32), np.array([1, 0, 1], np.float32)]
_RNG = np.random.RandomState(0)
PROBABILITIES = [
    (lambda raw: (raw / raw.sum(1, keepdims=True)).astype(np.float32))(_RNG.uniform(0.1, 1, (len(label), 2)))
    for label in LABELS
]
THREE = [(lambda raw: (raw / raw.sum(1, keepdims=True)).astype(np.float32))(_RNG.uniform(0.1, 1, (4, 3))) for _ in "ab"]
CLASSES = [np.array([0, 2, 1, 2], np.float32), np.array([2, 2, 0, 1], np.float32)]


def _seen(mx: Any, metric: Any, labels: Any, outputs: Any) -> list[Any]:
    """(name, value) after each batch; local and global after a local reset and one batch more."""
    found = []
    for label, output in zip(labels, outputs):  # noqa: B905  # MXNet's Python is older
        metric.update([mx.nd.array(label)], [mx.nd.array(output)])
        found += metric.get_name_value()
    metric.reset_local()
    metric.update([mx.nd.array(labels[1])], [mx.nd.array(outputs[1])])
    return [*found, *metric.get_name_value(), *metric.get_global_name_value()]


def metrics(mx: Any) -> dict[str, Any]:
    """Every classic metric."""
    two = {
        name: _seen(mx, mx.metric.create(name), LABELS, PROBABILITIES)
        for name in ("acc", "ce", "nll_loss", "f1", "mcc")
    }
    two["f1 micro"] = _seen(mx, mx.metric.F1(average="micro"), LABELS, PROBABILITIES)
    two["composite"] = _seen(mx, mx.metric.create(["acc", "ce"]), LABELS, PROBABILITIES)
    two["custom"] = _seen(
        mx, mx.metric.np(lambda label, pred: float((label * pred[:, 1]).sum())), LABELS, PROBABILITIES
    )
    two["perplexity"] = _seen(mx, mx.metric.Perplexity(None), LABELS, PROBABILITIES)
    two["perplexity ignoring"] = _seen(mx, mx.metric.Perplexity(0), LABELS, PROBABILITIES)
    two["top k"] = _seen(mx, mx.metric.TopKAccuracy(top_k=2), CLASSES, THREE)
    two["pcc"] = _seen(mx, mx.metric.create("pcc"), CLASSES, THREE)
    for name in ("mae", "mse", "rmse", "pearsonr"):
        two[name] = _seen(mx, mx.metric.create(name), CLASSES, [output[:, 0] for output in THREE])
    two["loss"] = _seen(mx, mx.metric.create("loss"), CLASSES, THREE)
    return two


def iterators(mx: Any) -> dict[str, Any]:
    """Batches, their padding and their order; a custom layout; two epochs each."""
    np.random.seed(0)
    rows, labels = np.arange(14).reshape(7, 2), np.arange(7)
    found: dict[str, Any] = {}
    for handle in ("pad", "discard", "roll_over"):
        for shuffle in (False, True):
            it = mx.io.NDArrayIter(rows, labels, 3, shuffle, last_batch_handle=handle)
            epochs = []
            for _ in range(3):
                batches = [(b.data[0].asnumpy().tolist(), b.label[0].asnumpy().tolist(), b.pad) for b in it]
                epochs.append(batches)
                it.reset()
            found[f"{handle} {shuffle}"] = epochs
    it = mx.io.NDArrayIter({"b": rows, "a": labels}, batch_size=4)
    found["names"] = [(d.name, list(d.shape), np.dtype(d.dtype).name, d.layout) for d in it.provide_data]
    resized = mx.io.ResizeIter(mx.io.NDArrayIter(rows, labels, 3), 5)
    found["resized"] = [b.data[0].asnumpy()[0, 0].item() for b in resized]
    ahead = mx.io.PrefetchingIter(mx.io.NDArrayIter(rows, labels, 3), [{"data": "x"}], [{"softmax_label": "y"}])
    found["prefetched"] = [[b.data[0].asnumpy()[0, 0].item() for b in ahead] for _ in range(2) if not ahead.reset()]
    found["renamed"] = [d.name for d in [*ahead.provide_data, *ahead.provide_label]]
    found["small"] = [b.data[0].asnumpy().ravel().tolist() for b in mx.io.NDArrayIter(np.arange(2), batch_size=5)]
    return found


def schedules(mx: Any) -> dict[str, Any]:
    """The four schedules, with and without a warm-up."""
    s = mx.lr_scheduler
    warm = {"warmup_steps": 4, "warmup_begin_lr": 0.01}
    made = {
        "factor": s.FactorScheduler(5, 0.5, 1e-8, 0.2),
        "multi": s.MultiFactorScheduler(step=[3, 9], factor=0.1, base_lr=0.3, **warm),
        "poly": s.PolyScheduler(15, 0.4, 2, 0.01),
        "cosine": s.CosineScheduler(max_update=15, base_lr=0.4, final_lr=0.05, **warm),
    }
    return {name: [float(schedule(i)) for i in range(1, 20)] for name, schedule in made.items()}


def optimizers(mx: Any) -> dict[str, Any]:
    """Three updates of a weight and a bias by an updater, with multipliers and a schedule."""
    found: dict[str, Any] = {}
    for name, given in {
        "sgd": {"momentum": 0.9, "lr_scheduler": mx.lr_scheduler.FactorScheduler(1, 0.5), "learning_rate": 0.2},
        "adam": {"wd": 0.1},
        "rmsprop": {"centered": True, "clip_gradient": 0.5},
        "ftrl": {},
        "test": {},
    }.items():
        optimizer = mx.optimizer.create(name, rescale_grad=0.5, param_idx2name={0: "fc_weight", 1: "fc_bias"}, **given)
        optimizer.set_lr_mult({"fc_bias": 2.0})
        updater = mx.optimizer.get_updater(optimizer)
        arrays = [mx.nd.array([[1.0, -2.0], [3.0, 0.5]]), mx.nd.array([0.5, -0.5])]
        for step in range(3):
            for i, array in enumerate(arrays):
                updater(i, mx.nd.sin(array + step), array)
        found[name] = [array.asnumpy().tolist() for array in arrays]
    return found


def cells(mx: Any) -> dict[str, Any]:
    """Graphs of unrolled cells: arguments, output shapes, and each node's operator, name and attributes."""
    rnn, data = mx.rnn, mx.sym.Variable("data")

    def stack() -> Any:
        made = rnn.SequentialRNNCell()
        made.add(rnn.LSTMCell(4, prefix="a_"))
        made.add(rnn.DropoutCell(0.3))
        made.add(rnn.ResidualCell(rnn.LSTMCell(4, prefix="b_")))
        return made

    fused = {"mode": "lstm", "bidirectional": True, "dropout": 0.5, "get_next_state": True}
    makers: dict[str, Callable[[], Any]] = {
        "rnn": lambda: rnn.RNNCell(4, activation="relu"),
        "lstm": lambda: rnn.LSTMCell(4),
        "gru": lambda: rnn.GRUCell(4),
        "stack": stack,
        "both ways": lambda: rnn.BidirectionalCell(rnn.GRUCell(4, prefix="l_"), rnn.GRUCell(4, prefix="r_")),
        "fused": lambda: rnn.FusedRNNCell(4, 2, **fused),
        "unfused": lambda: rnn.FusedRNNCell(4, 2, **fused).unfuse(),
    }
    found: dict[str, Any] = {}
    for name, maker in makers.items():
        for merge in (True, False):
            with mx.name.NameManager():
                outputs, _ = maker().unroll(2, data, merge_outputs=merge)
            net = outputs if merge else mx.sym.Group(outputs)
            shapes = net.infer_shape(data=(2, 2, 5))[1]
            found[f"{name} {merge}"] = [net.list_arguments(), [list(shape) for shape in shapes], net.list_outputs()]
            found[f"{name} {merge}"].append(sorted(net.attr_dict().items()))
    cell = rnn.FusedRNNCell(3, 2, mode="gru", bidirectional=True)
    size = 2 * 3 * 3 * (5 + 3 + 2) + 2 * 3 * 3 * (6 + 3 + 2)
    apart = cell.unpack_weights({"gru_parameters": mx.nd.arange(size)})
    found["apart"] = {name: [list(a.shape), float(a.asnumpy().sum())] for name, a in sorted(apart.items())}
    found["packed"] = (cell.pack_weights(apart)["gru_parameters"].asnumpy() == np.arange(size)).all().item()
    return found


def sentences(mx: Any) -> dict[str, Any]:
    """Words as numbers, and batches of sentences in the order of seeds."""
    random.seed(0)
    np.random.seed(0)
    found: dict[str, Any] = {}
    coded, vocab = mx.rnn.encode_sentences([["a", "b"], ["b", "c"]], start_label=1, invalid_label=0)
    found["coded"] = [coded, sorted(vocab.items())]
    for layout in ("NT", "TN"):
        it = mx.rnn.BucketSentenceIter(
            [[i % 7 + 1] * (3 + i % 4) for i in range(30)], 4, buckets=[4, 6], invalid_label=0, layout=layout
        )
        found[layout] = [
            [b.bucket_key, b.data[0].asnumpy().tolist(), b.label[0].asnumpy().tolist(), list(b.provide_data[0].shape)]
            for b in it
        ]
        found[f"{layout} described"] = [it.default_bucket_key, [list(d.shape) for d in it.provide_data]]
    return found


SCENARIOS: dict[str, Callable[[Any], dict[str, Any]]] = {
    function.__name__: function for function in (metrics, iterators, schedules, optimizers, cells, sentences)
}
