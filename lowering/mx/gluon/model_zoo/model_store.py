"""The files with the networks' trained parameters, which are read from a folder: nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lowering.mx.accepted_types import ContextLike
from lowering.mx.base import data_dir
from symjax_nnvm.errors import ModelNotFoundError, ParamError
from symjax_nnvm.io.files import StrPath, path_text

__all__ = ["get_model_file", "load_pretrained", "purge"]

_model_sha1 = {
    "alexnet": "44335d1f", "densenet121": "f27dbf2d", "densenet161": "b6c8a957", "densenet169": "2603f878",
    "densenet201": "1cdbc116", "inceptionv3": "ed47ec45", "mobilenet0.25": "9f83e440", "mobilenet0.5": "8e9d539c",
    "mobilenet0.75": "529b2c7f", "mobilenet1.0": "6b8c5106", "mobilenetv2_1.0": "36da4ff1",
    "mobilenetv2_0.75": "e2be7b72", "mobilenetv2_0.5": "aabd26cd", "mobilenetv2_0.25": "ae8f9392",
    "resnet18_v1": "a0666292", "resnet34_v1": "48216ba9", "resnet50_v1": "0aee57f9", "resnet101_v1": "d988c13d",
    "resnet152_v1": "671c637a", "resnet18_v2": "a81db45f", "resnet34_v2": "9d6b80bb", "resnet50_v2": "ecdde353",
    "resnet101_v2": "18e93e4f", "resnet152_v2": "f2695542", "squeezenet1.0": "264ba497", "squeezenet1.1": "33ba0f93",
    "vgg11": "dd221b16", "vgg11_bn": "ee79a809", "vgg13": "6bc5de58", "vgg13_bn": "7d97a06c", "vgg16": "e660d456",
    "vgg16_bn": "7f01cf05", "vgg19": "ad2f660d", "vgg19_bn": "f360b758",
}  # fmt: skip
"""Network → the first digits of its file's SHA-1, which the file's name ends in."""


def _folder(root: StrPath | None) -> Path:
    return Path(os.path.join(data_dir(), "models") if root is None else path_text(root, "root")).expanduser()


def short_hash(name: str) -> str:
    """The digits in the name of a network's file. Raises ParamError, a ValueError, for a network without one."""
    if name not in _model_sha1:
        raise ParamError(f"Pretrained model for {name} is not available.")
    return _model_sha1[name]


def get_model_file(name: str, root: StrPath | None = None) -> str:
    """The path of a network's trained parameters, `NAME-DIGITS.params`.

    root: the folder; default is `models` in `mx.base.data_dir()`. Raises ParamError, and ModelNotFoundError, which
    names the file that is missing.
    """
    path = _folder(root) / f"{name}-{short_hash(name)}.params"
    if not path.exists():
        raise ModelNotFoundError(
            f"No such file: {path.absolute()}. Trained parameters are not downloaded: copy the file from another "
            f"machine's ~/.mxnet/models, or unpack {path.stem}.zip of MXNet's model zoo there."
        )
    return str(path)


def load_pretrained(net: Any, name: str, pretrained: bool, ctx: ContextLike, root: StrPath | None) -> Any:
    """The network, with its trained parameters if `pretrained` is true. Raises as `get_model_file`."""
    if pretrained:
        net.load_parameters(get_model_file(name, root), ctx=ctx)
    return net


def purge(root: StrPath | None = None) -> None:
    """Remove all files of parameters from the folder. Raises OSError."""
    for path in _folder(root).glob("*.params"):
        path.unlink()
