"""The zoo: networks by name, trained parameters from a folder. Symbols and names are MXNet's elsewhere."""

from pathlib import Path

import numpy as np
import pytest

from lowering import mx
from lowering.mx.gluon.model_zoo import model_store, vision
from symjax_nnvm.errors import ModelNotFoundError, ParamError


@pytest.mark.slow("computes much")
def test_trained_parameters_are_read_from_a_folder(tmp_path: Path):
    net = vision.get_model("MobileNetV2_0.25", classes=3)
    net.initialize()
    net.infer_shape(mx.nd.zeros((1, 3, 32, 32)))
    net.initialize(force_reinit=True)
    path = tmp_path / "mobilenetv2_0.25-ae8f9392.params"
    for parameter in net.collect_params().values():
        drawn = np.random.default_rng(len(parameter.name)).normal(size=parameter.shape)
        parameter.set_data(drawn.astype(np.float32))
    net.save_parameters(str(path))
    other = vision.mobilenet_v2_0_25(pretrained=True, root=tmp_path, classes=3)
    pairs = zip(net.collect_params().values(), other.collect_params().values(), strict=True)
    for expected, found in pairs:
        np.testing.assert_array_equal(found.data().asnumpy(), expected.data().asnumpy())
    assert model_store.get_model_file("mobilenetv2_0.25", str(tmp_path)) == str(path)
    model_store.purge(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ModelNotFoundError, match=r"resnet50_v2-ecdde353.params. Trained parameters are not downl"):
        vision.resnet50_v2(pretrained=True, root=str(tmp_path))
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    with pytest.raises(ModelNotFoundError, match=f"{tmp_path}/models/vgg11_bn-ee79a809.params"):
        vision.get_model("vgg11_bn", pretrained=True)
    with pytest.raises(ParamError, match="Pretrained model for lenet is not available"):
        model_store.short_hash("lenet")


def test_a_name_that_is_near_another():
    with pytest.raises(ParamError, match=r"Model nothing is not supported. Available options are\n\talexnet"):
        vision.get_model("nothing")
    with pytest.raises(ParamError, match=r"Model resnet50 is not supported. Did you mean.*resnet50_v1.*\n\talexnet"):
        vision.get_model("resnet50")


def test_sizes_that_there_are_not():
    with pytest.raises(AssertionError, match="Invalid number of layers: 20"):
        vision.get_resnet(1, 20)
    with pytest.raises(AssertionError, match="Invalid resnet version: 3"):
        vision.get_resnet(3, 18)
    with pytest.raises(AssertionError, match="Unsupported SqueezeNet version 2.0"):
        vision.SqueezeNet("2.0")


def test_functions_are_rows_of_tables():
    assert vision.resnet18_v2.__name__ == "resnet18_v2"
    families = ("resnet", "vgg", "densenet", "squeezenet", "mobilenet")
    functions = [name for name in vars(vision) if name.startswith(families) and name[-1].isdigit()]
    assert len(functions) > 25
    assert [getattr(vision, name).__name__ for name in functions] == functions
    assert vision.vgg11_bn.__doc__ == "`get_vgg(11, batch_norm=True, …)`."
    assert isinstance(vision.vgg11_bn(classes=2).features[1], mx.gluon.nn.BatchNorm)
