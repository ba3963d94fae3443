"""What is no path (None, a number, a list, bytes) is refused at every door, by the name of its argument there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import mx

NET: Any = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
ARRAYS = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.ones((2,))}
PLAIN = {name: np.ones(array.shape, np.float32) for name, array in ARRAYS.items()}


def bound_module() -> mx.mod.Module:
    module = mx.mod.Module(NET, label_names=None)
    module.bind([("data", (1, 3))], None)
    module.init_params()
    module.init_optimizer()
    return module


def called_block() -> mx.gluon.nn.HybridSequential:
    block = mx.gluon.nn.HybridSequential()
    block.add(mx.gluon.nn.Dense(2))
    block.initialize()
    block.hybridize()
    block(mx.nd.ones((1, 3)))
    return block


MODULE, BLOCK = bound_module(), called_block()
TRAINER = mx.gluon.Trainer(BLOCK.collect_params(), "sgd")
STORE = mx.kv.create("local")
STORE.set_optimizer(mx.optimizer.create("sgd"))
IMAGES: dict[str, Any] = {"data_shape": (3, 4, 4), "batch_size": 1}
ROWS: dict[str, Any] = {"data_shape": (3,), "batch_size": 1}
vision: Any = mx.gluon.data.vision
onnx: Any = mx.contrib.onnx
text: Any = mx.contrib.text
estimator: Any = mx.gluon.contrib.estimator
model_store: Any = mx.gluon.model_zoo.model_store

DOORS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "image.imread": ("filename", mx.image.imread),
    "ImageIter's list": ("path_imglist", lambda p: mx.image.ImageIter(1, (3, 4, 4), path_imglist=p, path_root=".")),
    "ImageIter's records": ("path_imgrec", lambda p: mx.image.ImageIter(1, (3, 4, 4), path_imgrec=p)),
    "ImageIter's folder": (
        "path_root",
        lambda p: mx.image.ImageIter(1, (3, 4, 4), imglist=[[0, "a.jpg"]], path_root=p),
    ),
    "MXRecordIO": ("uri", lambda p: mx.recordio.MXRecordIO(p, "r")),
    "MXRecordIO to write": ("uri", lambda p: mx.recordio.MXRecordIO(p, "w")),
    "MXIndexedRecordIO": ("idx_path", lambda p: mx.recordio.MXIndexedRecordIO(p, "a.rec", "w")),
    "nd.load": ("fname", mx.nd.load),
    "nd.save": ("fname", lambda p: mx.nd.save(p, ARRAYS)),
    "mx.load_checkpoint": ("prefix", lambda p: mx.model.load_checkpoint(p, 1)),
    "mx.save_checkpoint": ("prefix", lambda p: mx.model.save_checkpoint(p, 1, NET, ARRAYS, {})),
    "sym.load": ("fname", mx.sym.load),
    "sym.save": ("fname", NET.save),
    "Module.load": ("prefix", lambda p: mx.mod.Module.load(p, 1)),
    "Module.save_checkpoint": ("prefix", lambda p: MODULE.save_checkpoint(p, 1)),
    "Module.save_params": ("fname", MODULE.save_params),
    "Module.load_params": ("fname", MODULE.load_params),
    "Module.save_optimizer_states": ("fname", MODULE.save_optimizer_states),
    "Module.load_optimizer_states": ("fname", MODULE.load_optimizer_states),
    "Block.save_parameters": ("fname", BLOCK.save_parameters),
    "Block.load_parameters": ("fname", BLOCK.load_parameters),
    "Block.export": ("path", BLOCK.export),
    "ParameterDict.save": ("fname", BLOCK.collect_params().save),
    "Trainer.save_states": ("fname", TRAINER.save_states),
    "Trainer.load_states": ("fname", TRAINER.load_states),
    "kvstore.save_optimizer_states": ("fname", STORE.save_optimizer_states),
    "kvstore.load_optimizer_states": ("fname", STORE.load_optimizer_states),
    "init.Load": ("param", lambda p: mx.init.Load(p)),
    "ImageRecordIter": ("path_imgrec", lambda p: mx.io.ImageRecordIter(path_imgrec=p, **IMAGES)),
    "ImageDetRecordIter": ("path_imgrec", lambda p: mx.io.ImageDetRecordIter(path_imgrec=p, **IMAGES)),
    "CSVIter": ("data_csv", lambda p: mx.io.CSVIter(data_csv=p, **ROWS)),
    "LibSVMIter": ("data_libsvm", lambda p: mx.io.LibSVMIter(data_libsvm=p, **ROWS)),
    "MNISTIter": ("image", lambda p: mx.io.MNISTIter(image=p)),
    "test_utils.download": ("url", mx.test_utils.download),
    "gluon.utils.download": ("url", mx.gluon.utils.download),
    "check_sha1": ("filename", lambda p: mx.gluon.utils.check_sha1(p, "0")),
    "RecordFileDataset": ("filename", mx.gluon.data.RecordFileDataset),
    "ImageFolderDataset": ("root", vision.ImageFolderDataset),
    "CIFAR10": ("root", lambda p: vision.CIFAR10(root=p)),
    "import_model": ("", onnx.import_model),
    "export_model": ("onnx_file_path", lambda p: onnx.export_model(NET, ARRAYS, [(1, 3)], np.float32, p)),
    "profiler.set_config": ("filename", lambda p: mx.profiler.set_config(filename=p)),
    "do_checkpoint": ("prefix", mx.callback.do_checkpoint),
    "module_checkpoint": ("prefix", lambda p: mx.callback.module_checkpoint(MODULE, p)),
    "save_rnn_checkpoint": ("prefix", lambda p: mx.rnn.save_rnn_checkpoint([], p, 1, NET, ARRAYS, {})),
    "CustomEmbedding": ("pretrained_file_path", text.embedding.CustomEmbedding),
    "CheckpointHandler": ("model_dir", estimator.CheckpointHandler),
    "Predictor.load": ("prefix", lambda p: lowering.Predictor.load(p, 1)),
    "Predictor.load of a folder": ("prefix", lambda p: lowering.Predictor.load(p)),
    "Predictor.save": ("path", lowering.Predictor(NET, PLAIN, {}).save),
    "load_checkpoint": ("prefix", lambda p: nn.load_checkpoint(p, 1)),
    "save_checkpoint": ("prefix", lambda p: nn.save_checkpoint(p, 1, NET, {}, {})),
    "load_model": ("symbol_path", lambda p: nn.load_model(p, "net-0001.params")),
    "load_arrays": ("fname", nn.load_arrays),
    "save_arrays": ("fname", lambda p: nn.save_arrays(p, PLAIN)),
    "load_safetensors": ("path", nn.load_safetensors),
    "save_safetensors": ("path", lambda p: nn.save_safetensors(p, PLAIN, {})),
    "Model.load": ("path", nn.Model.load),
    "Model.save": ("path", nn.Model(NET, PLAIN, {}).save),
    "from_onnx": ("", nn.from_onnx),
    "check": ("", nn.check),
    "lowering.data.RecordFile": ("path", lowering.data.RecordFile),
    "compile.export": ("path", lowering.compile(NET).export),
}

OPTIONAL = "ImageIter's list", "ImageIter's records", "ImageIter's folder", "CIFAR10"
"""Doors that take None for no path."""


class InBytes:
    def __fspath__(self) -> bytes:
        return b"net"


@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_path_is_refused_by_the_name_of_its_argument(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    argument, call = DOORS[door]
    for value in (None, 977, ["net"], b"net", InBytes()):
        if value is None and door in OPTIONAL:
            continue
        with pytest.raises(TypeError) as refused:
            call(value)
        assert isinstance(refused.value, mx.MXNetError), value
        assert argument in str(refused.value), value
        assert not [*tmp_path.iterdir()], value


@pytest.mark.parametrize("iterator", ["ImageRecordIter", "ImageDetRecordIter", "LibSVMIter"])
def test_an_iterators_example_is_in_the_words_of_both_doors(iterator: str):
    for door in (mx.io, lowering.data):
        with pytest.raises(nn.CallError, match=rf"(For example|Call it so): {iterator}\("):
            getattr(door, iterator)(batch_size=1)
