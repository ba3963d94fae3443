"""`mx.contrib.quantization`: its words say where quantisation is."""

from __future__ import annotations

from lowering.messages.mxnet_words import unknown_attribute


def __getattr__(name: str) -> object:
    unknown_attribute("mx.contrib.quantization", name, [])
