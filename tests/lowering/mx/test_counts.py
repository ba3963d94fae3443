"""Every size, count and step that must be positive is checked where it comes in, at every door."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
from lowering import data as native
from lowering import mx
from lowering.optim import schedules

DATA = np.ones((6, 3), np.float32)
IMAGE = np.arange(30 * 30 * 3, dtype=np.uint8).reshape(30, 30, 3)
SHAPE = (3, 20, 20)
Door = Callable[[Any], object]
optimizers: Any = mx.optimizer


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A table, a LibSVM file, records with images and with boxes, and MNIST's two files."""
    folder: Path = tmp_path_factory.mktemp("files")
    names = {name: str(folder / name) for name in ("csv", "svm", "images", "index", "labels", "rec", "boxes")}
    np.savetxt(names["csv"], DATA, delimiter=",")
    Path(names["svm"]).write_text("1 0:1 2:3\n0 1:1\n" * 3)
    Path(names["images"]).write_bytes(struct.pack(">IIII", 2051, 6, 2, 2) + bytes(24))
    Path(names["labels"]).write_bytes(struct.pack(">II", 2049, 6) + bytes(6))
    for kind, label in (("rec", 1.0), ("boxes", np.array([2, 5, 0, 0.1, 0.1, 0.5, 0.5], np.float32))):
        records = mx.recordio.MXIndexedRecordIO(names["index"], names[kind], "w")
        for i in range(4):
            records.write_idx(i, mx.recordio.pack_img(mx.recordio.IRHeader(0, label, i, 0), IMAGE, img_fmt=".png"))
        records.close()
    return names


class Numbers(mx.gluon.data.Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, idx: int) -> int:
        return idx


def iterators(files: dict[str, str]) -> dict[str, Door]:
    csv, svm, mnist = files["csv"], files["svm"], (files["images"], files["labels"])
    rec, index, boxes = files["rec"], files["index"], files["boxes"]
    io, image = mx.io, mx.image
    return {
        "NDArrayIter batch_size": lambda n: io.NDArrayIter(DATA, batch_size=n),
        "NDArrayIter batch_size, discard": lambda n: io.NDArrayIter(DATA, batch_size=n, last_batch_handle="discard"),
        "CSVIter batch_size": lambda n: io.CSVIter(csv, (3,), batch_size=n),
        "CSVIter data_shape": lambda n: io.CSVIter(csv, (n,), batch_size=2),
        "CSVIter label_shape": lambda n: io.CSVIter(csv, (3,), label_shape=(n,), batch_size=2),
        "LibSVMIter batch_size": lambda n: io.LibSVMIter(data_libsvm=svm, data_shape=(3,), batch_size=n),
        "LibSVMIter data_shape": lambda n: io.LibSVMIter(data_libsvm=svm, data_shape=(n,), batch_size=2),
        "LibSVMIter num_parts": lambda n: io.LibSVMIter(data_libsvm=svm, data_shape=(3,), batch_size=2, num_parts=n),
        "MNISTIter batch_size": lambda n: io.MNISTIter(*mnist, batch_size=n),
        "MNISTIter num_parts": lambda n: io.MNISTIter(*mnist, batch_size=2, num_parts=n),
        "ImageRecordIter batch_size": lambda n: io.ImageRecordIter(path_imgrec=rec, data_shape=SHAPE, batch_size=n),
        "ImageRecordIter data_shape": lambda n: io.ImageRecordIter(
            path_imgrec=rec, data_shape=(3, n, 20), batch_size=2
        ),
        "ImageRecordIter preprocess_threads": lambda n: io.ImageRecordIter(
            path_imgrec=rec, data_shape=SHAPE, batch_size=2, preprocess_threads=n
        ),
        "ImageRecordIter num_parts": lambda n: io.ImageRecordIter(
            path_imgrec=rec, data_shape=SHAPE, batch_size=2, num_parts=n
        ),
        "ImageDetRecordIter batch_size": lambda n: io.ImageDetRecordIter(
            path_imgrec=boxes, data_shape=SHAPE, batch_size=n
        ),
        "image.ImageIter batch_size": lambda n: image.ImageIter(n, SHAPE, path_imgrec=rec),
        "image.ImageIter data_shape": lambda n: image.ImageIter(2, (3, n, 20), path_imgrec=rec),
        "image.ImageIter label_width": lambda n: image.ImageIter(2, SHAPE, label_width=n, path_imgrec=rec),
        "image.ImageIter num_parts": lambda n: image.ImageIter(
            2, SHAPE, num_parts=n, path_imgrec=rec, path_imgidx=index
        ),
        "image.ImageDetIter batch_size": lambda n: image.ImageDetIter(n, SHAPE, path_imgrec=boxes),
        "data.CSVIter batch_size": lambda n: native.CSVIter(csv, (3,), n),
        "data.CSVIter data_shape": lambda n: native.CSVIter(csv, (n,), 2),
        "data.LibSVMIter batch_size": lambda n: native.LibSVMIter(svm, (3,), n),
        "data.ImageRecordIter batch_size": lambda n: native.ImageRecordIter(rec, SHAPE, n),
        "data.ImageRecordIter num_parts": lambda n: native.ImageRecordIter(rec, SHAPE, 2, num_parts=n),
        "data.ImageDetRecordIter batch_size": lambda n: native.ImageDetRecordIter(boxes, SHAPE, n),
        "Batches batch_size": lambda n: lowering.Batches({"x": DATA}, n),
        "BucketSentenceIter batch_size": lambda n: mx.rnn.BucketSentenceIter([[1, 2], [3, 4]], n, buckets=[2]),
        "BucketSentenceIter buckets": lambda n: mx.rnn.BucketSentenceIter([[1, 2], [3, 4]], 1, buckets=[n, 2]),
    }


def network() -> Any:
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")


def trainer() -> mx.gluon.Trainer:
    layer = mx.gluon.nn.Dense(2, in_units=2)
    layer.initialize()
    return mx.gluon.Trainer(layer.collect_params(), "sgd", update_on_kvstore=False)


data, nn, estimator = mx.gluon.data, mx.gluon.nn, mx.gluon.contrib.estimator
OTHERS: dict[str, Door] = {
    "BatchSampler batch_size": lambda n: data.BatchSampler(data.SequentialSampler(6), n),
    "DataLoader batch_size": lambda n: data.DataLoader(Numbers(), batch_size=n),
    "DataLoader timeout": lambda n: data.DataLoader(Numbers(), batch_size=2, timeout=n),
    "Dataset.shard num_shards": lambda n: Numbers().shard(n, 0),
    "IntervalSampler interval": lambda n: mx.gluon.contrib.data.IntervalSampler(6, n),
    "split_data num_slice": lambda n: mx.gluon.utils.split_data(mx.nd.array(DATA), n),
    "Trainer.step batch_size": lambda n: trainer().step(n, ignore_stale_grad=True),
    "Trainer.update batch_size": lambda n: trainer().update(n, ignore_stale_grad=True),
    "Speedometer frequent": lambda n: mx.callback.Speedometer(2, n),
    "ProgressBar total": lambda n: mx.callback.ProgressBar(n),
    "ProgressBar length": lambda n: mx.callback.ProgressBar(10, n),
    "log_train_metric period": lambda n: mx.callback.log_train_metric(n),
    "Monitor interval": lambda n: mx.mon.Monitor(n),
    "FactorScheduler step": lambda n: mx.lr_scheduler.FactorScheduler(n),
    "MultiFactorScheduler step": lambda n: mx.lr_scheduler.MultiFactorScheduler([n, 5]),
    "PolyScheduler max_update": lambda n: mx.lr_scheduler.PolyScheduler(n),
    "CosineScheduler max_update": lambda n: mx.lr_scheduler.CosineScheduler(n),
    "optim.FactorScheduler step": lambda n: schedules.FactorScheduler(step=n),
    "optim.MultiFactorScheduler step": lambda n: schedules.MultiFactorScheduler(step=(n, 5)),
    "optim.PolyScheduler max_update": lambda n: schedules.PolyScheduler(max_update=n),
    "TopKAccuracy top_k": lambda n: mx.metric.TopKAccuracy(n),
    "LBSGD batch_scale": lambda n: mx.optimizer.create("lbsgd", batch_scale=n),
    "Trainer accumulate": lambda n: lowering.Trainer(network(), "sgd", accumulate=n),
    "Predictor.batches batch_size": lambda n: lowering.Predictor(mx.sym.var("a") + 1, {}, {}).batches([], n),
    "Vocabulary min_freq": lambda n: mx.contrib.text.vocab.Vocabulary(None, min_freq=n),
    "resize_short": lambda n: mx.image.resize_short(mx.nd.array(IMAGE), n),
    "imresize": lambda n: mx.image.imresize(mx.nd.array(IMAGE), n, 5),
    "fixed_crop": lambda n: mx.image.fixed_crop(mx.nd.array(IMAGE), 0, 0, n, 5),
    "center_crop": lambda n: mx.image.center_crop(mx.nd.array(IMAGE), (n, 5)),
    "random_crop": lambda n: mx.image.random_crop(mx.nd.array(IMAGE), (5, n)),
    "Conv2D groups": lambda n: nn.Conv2D(4, 3, groups=n),
    "LSTM hidden_size": lambda n: mx.gluon.rnn.LSTM(n),
    "LSTM num_layers": lambda n: mx.gluon.rnn.LSTM(3, n),
    "arange repeat": lambda n: mx.nd.arange(0, 4, repeat=n),
    "LoggingHandler log_interval": lambda n: estimator.LoggingHandler(n),
}

MAY_BE_0: dict[str, Door] = {
    "ResizeIter size": lambda n: mx.io.ResizeIter(mx.io.NDArrayIter(DATA, batch_size=2), n),
    "SequentialSampler length": lambda n: data.SequentialSampler(n),
    "RandomSampler length": lambda n: data.RandomSampler(n),
    "Dataset.take count": lambda n: Numbers().take(n),
    "warmup_steps": lambda n: mx.lr_scheduler.CosineScheduler(10, warmup_steps=n),
    "linspace num": lambda n: mx.nd.linspace(0, 1, n),
    "eye N": lambda n: mx.nd.eye(n),
    "full shape": lambda n: mx.nd.full((n, 2), 1),
    "ValidationHandler epoch_period": lambda n: estimator.ValidationHandler([], print, epoch_period=n),
    "ValidationHandler batch_period": lambda n: estimator.ValidationHandler([], print, batch_period=n),
    "CheckpointHandler epoch_period": lambda n: estimator.CheckpointHandler(".", epoch_period=n),
    "CheckpointHandler batch_period": lambda n: estimator.CheckpointHandler(".", batch_period=n),
    "CheckpointHandler max_checkpoints": lambda n: estimator.CheckpointHandler(".", max_checkpoints=n),
}


def refuses(door: Door, number: Any) -> None:
    with pytest.raises(mx.MXNetError) as raised:
        door(number)
    assert isinstance(raised.value, ValueError | TypeError | AssertionError)


def test_no_iterator_takes_0_or_less(files: dict[str, str]):
    for name, door in iterators(files).items():
        door(3 if name in ("CSVIter data_shape", "data.CSVIter data_shape", "LibSVMIter data_shape") else 2)
        for number in (0, -1):
            refuses(door, number)


@pytest.mark.parametrize("door", OTHERS)
def test_no_size_count_or_step_is_0_or_less(door: str):
    OTHERS[door](2)
    for number in (0, -1):
        refuses(OTHERS[door], number)


@pytest.mark.parametrize("door", MAY_BE_0)
def test_what_may_be_0_is_not_less(door: str):
    MAY_BE_0[door](0)
    refuses(MAY_BE_0[door], -1)


def test_a_period_that_is_a_word_is_told():
    for door in MAY_BE_0:
        if "Handler" in door:
            refuses(MAY_BE_0[door], "x")
    refuses(OTHERS["LoggingHandler log_interval"], "x")


@pytest.mark.parametrize("wrong", [2.5, "2", None], ids=repr)
def test_what_is_no_whole_number_is_told(files: dict[str, str], wrong: Any):
    for name, door in iterators(files).items():
        if "batch_size" in name:
            refuses(door, wrong)
    for door in ("BatchSampler batch_size", "split_data num_slice", "Speedometer frequent", "Monitor interval"):
        refuses(OTHERS[door], wrong)


def test_whole_numbers_of_numpy_and_whole_floats_of_a_sampler_are_taken():
    assert len(list(mx.io.NDArrayIter(DATA, batch_size=np.int64(2)))) == 3  # pyright: ignore[reportArgumentType]
    assert len(data.DataLoader(Numbers(), batch_size=2.0)) == 3  # pyright: ignore[reportArgumentType]
    assert len(mx.gluon.utils.split_data(mx.nd.array(DATA), np.int32(2))) == 2  # pyright: ignore[reportArgumentType]


def flags(files: dict[str, str]) -> dict[str, Door]:
    """A call with a flag, of the doors of each kind: iterators, modules, blocks, the tape, images."""
    pairs = mx.gluon.data.ArrayDataset(DATA, DATA)
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (2, 3))])
    dense = mx.gluon.nn.Dense(2, in_units=3)
    x = mx.nd.ones((2, 3))
    return {
        "DataLoader shuffle": lambda f: mx.gluon.data.DataLoader(pairs, 2, shuffle=f),
        "DataLoader shuffle by position": lambda f: mx.gluon.data.DataLoader(pairs, 2, f),
        "DataLoader pin_memory": lambda f: mx.gluon.data.DataLoader(pairs, 2, pin_memory=f),
        "NDArrayIter shuffle": lambda f: mx.io.NDArrayIter(DATA, batch_size=2, shuffle=f),
        "CSVIter round_batch": lambda f: mx.io.CSVIter(files["csv"], (3,), batch_size=2, round_batch=f),
        "ImageIter shuffle": lambda f: mx.image.ImageIter(2, SHAPE, path_imgrec=files["rec"], shuffle=f),
        "CreateAugmenter rand_crop": lambda f: mx.image.CreateAugmenter(SHAPE, rand_crop=f),
        "Module.bind force_rebind": lambda f: module.bind([("data", (2, 3))], force_rebind=f),
        "Module.init_params force_init": lambda f: module.init_params(force_init=f),
        "Executor.forward is_train": lambda f: net.simple_bind(mx.cpu(), data=(2, 3)).forward(f),
        "Dense use_bias": lambda f: mx.gluon.nn.Dense(2, use_bias=f),
        "initialize force_reinit": lambda f: dense.initialize(force_reinit=f),
        "hybridize static_alloc": lambda f: dense.hybridize(static_alloc=f),
        "record train_mode": mx.autograd.record,
        "backward retain_graph": lambda f: x.backward(retain_graph=f),
        "astype copy": lambda f: x.astype("float32", copy=f),
        "SGD lazy_update": lambda f: optimizers.SGD(lazy_update=f),
        "SGD multi_precision": lambda f: mx.optimizer.create("sgd", multi_precision=f),
    }


def test_what_is_no_flag_is_refused_at_every_door_deviation(files: dict[str, str]):
    """MXNet takes most of it for true, the text "False" as well."""
    for name, door in flags(files).items():
        for value in ("False", "x", 0.5, [1], {}):
            with pytest.raises(mx.MXNetError) as told:
                door(value)
            assert "True or False" in str(told.value), name


def test_numbers_and_none_are_flags():
    flags: list[Any] = [1, 0, None, np.True_, np.int64(0)]
    for shuffle in flags:
        assert len(list(mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(DATA), 2, shuffle=shuffle))) == 3
    with mx.autograd.record(train_mode=flags[1]):
        assert not mx.autograd.is_training()


def test_storage_types_and_executors_of_another_kind_are_refused():
    x = mx.sym.var("x")
    for given in ({"stype_dict": 5}, {"stype_dict": {"x": "sparse"}}, {"stype_dict": {"y": "csr"}}, {"shared_exec": 5}):
        with pytest.raises(mx.MXNetError, match="stype_dict|storage type|shared_exec"):
            (x + 1).simple_bind(mx.cpu(), x=(2,), **given)
    for name, value in {"shared_buffer": 5, "shared_arg_names": "x", "type_dict": [1], "group2ctx": "x"}.items():
        with pytest.raises(mx.MXNetError, match=f"parameter '{name}'"):
            (x + 1).simple_bind(mx.cpu(), x=(2,), **{name: value})
    for stype in ("sparse", 5):
        with pytest.raises(mx.MXNetError, match="No such storage type"):
            mx.sym.var("x", stype=stype)


@pytest.mark.slow("compiles")
def test_an_argument_of_another_kind_is_named_where_python_would_stop():
    """Arguments of the annotated kinds pass on what a user's own function raises, and duck types are taken."""
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(net, label_names=None)
    number: Any = 5
    numbers: Any = [1]
    text: Any = "x"
    nn, transforms = mx.gluon.nn, mx.gluon.data.vision.transforms
    layer, parameter = nn.Dense(2), mx.gluon.Parameter("p", shape=(2,))
    trained = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    batches = mx.io.NDArrayIter(DATA, np.zeros(len(DATA)), 2)
    trained.bind(batches.provide_data, batches.provide_label)
    trained.init_params()
    loader = mx.gluon.data.DataLoader
    doors: list[tuple[str, Callable[[], Any]]] = [
        ("'attr'.*dict", lambda: mx.sym.Variable("a", attr=number)),
        ("'attr'.*dict", lambda: mx.sym.FullyConnected(net, num_hidden=2, attr=text)),
        ("'name'.*text", lambda: mx.sym.FullyConnected(net, num_hidden=2, name=number)),
        ("'init'.*Initializer", lambda: mx.sym.Variable("a", init=number)),
        ("'key'.*text", lambda: net.attr(numbers)),
        ("'arg_params'.*dict", lambda: net.simple_bind(mx.cpu(), data=(2, 3)).copy_params_from(number)),
        ("'args_lr_mult'.*dict", lambda: optimizers.SGD().set_lr_mult(numbers)),
        ("'sym'.*Symbol", lambda: optimizers.SGD(sym=number)),
        ("'optimizer'.*Optimizer", lambda: mx.optimizer.get_updater(text)),
        ("'step'.*int", lambda: mx.lr_scheduler.FactorScheduler(step=numbers)),
        ("'period'.*int", lambda: mx.callback.do_checkpoint("p", text)),
        ("'pattern'.*str", lambda: mx.monitor.Monitor(1, pattern=number)),
        ("Dense.*'prefix'.*str", lambda: nn.Dense(2, prefix=number)),
        ("'fn'.*function", lambda: layer.apply(number)),
        ("num_filter='x'", lambda: nn.Conv2D(text, 3)),
        ("stride='x'", lambda: nn.Conv2D(2, 3, strides=text)),
        ("num_group=5", lambda: nn.Conv2D(2, 3, groups=5)),
        ("'ctx'.*context", lambda: layer.initialize(ctx=text)),
        ("an array", lambda: parameter.set_data(number)),
        ("'other'.*ParameterDict", lambda: mx.gluon.ParameterDict().update(number)),
        ("ZoneoutCell.*'base_cell'.*RecurrentCell", lambda: mx.gluon.rnn.ZoneoutCell(number)),
        ("'relu' or 'tanh'", lambda: mx.gluon.rnn.RNN(2, activation=number)),
        ("LSTMCell.*'prefix'.*str", lambda: mx.rnn.LSTMCell(2, prefix=number)),
        ("arrays, or lists", lambda: mx.gluon.data.ArrayDataset(number)),
        ("'dataset'.*Sized", lambda: loader(number, 2)),
        ("'sampler'.*iterable", lambda: list(loader(DATA, 2, sampler=number))),
        ("blocks", lambda: transforms.Compose(text)),
        ("'value'.*float", lambda: transforms.RandomBrightness(text)),
        ("'patterns'.*Sequence", lambda: mx.init.Mixed(number, [mx.init.One()])),
        ("'rnd_type'", lambda: mx.init.Xavier(rnd_type=numbers)),
        ("'size'.*int", lambda: mx.engine.set_bulk_size(text)),
        ("'source'.*int", lambda: mx.nd.moveaxis(mx.nd.ones((2, 3)), text, 0)),
        ("'run' or 'stop'", lambda: mx.profiler.set_state(text)),
        ("shape of an image", lambda: mx.image.CreateAugmenter(numbers)),
        ("DataDesc", lambda: module.bind(numbers)),
        ("'mon'.*Watcher", lambda: trained.fit(batches, num_epoch=1, monitor=number)),
        ("'initializer'.*Callable", lambda: trained.init_params(number, force_init=True)),
        ("'batch_end_callback'", lambda: trained.score(batches, "acc", batch_end_callback=numbers)),
        ("'epoch_end_callback'", lambda: trained.fit(batches, num_epoch=1, epoch_end_callback=number)),
        ("'sentences'", lambda: mx.rnn.encode_sentences(numbers)),
        ("whole numbers", lambda: net.infer_shape(data=(2, 2.5))),  # pyright: ignore[reportArgumentType]
        ("below -1", lambda: net.infer_shape(data=(2, -3))),
        ("from -1 on", lambda: net.simple_bind(mx.cpu(), data=(2, -3))),
        ("data_csv", lambda: mx.io.CSVIter(data_shape=(2,), batch_size=2)),
        ("'batch_size'", lambda: mx.io.CSVIter("none", (2,))),
        ("size='x'", lambda: transforms.Resize(text)(mx.nd.ones((2, 2, 3)))),
        ("axis", lambda: mx.metric.F1().update([mx.nd.zeros(2)], [mx.nd.zeros(2)])),
    ]
    for words, door in doors:
        with pytest.raises(mx.MXNetError, match=words):
            door()
    with pytest.raises(ZeroDivisionError):
        mx.gluon.nn.Dense(2).apply(lambda block: 1 / 0)
    with pytest.raises(TypeError, match="unsupported operand"):
        mx.gluon.nn.Dense(2).apply(lambda block: 1 + "x")  # pyright: ignore[reportOperatorIssue]
    with pytest.raises(mx.MXNetError, match="1 grad_reqs for 3 arguments"):
        module.bind([("data", (2, 3))], grad_req=["write"])
    with pytest.raises(mx.MXNetError, match="only of NDArrays"):
        mx.autograd.backward("x")


def test_a_dense_layer_of_no_units_is_refused_where_it_computes():
    """MXNet makes such layers; its own tests do, in lists of layers of growing sizes."""
    layer = mx.gluon.nn.Dense(0)
    layer.initialize()
    with pytest.raises(ValueError, match="num_hidden"):
        layer(mx.nd.ones((2, 3)))
    with pytest.raises(ValueError, match="units"):
        mx.gluon.nn.Dense(-1)
