"""ONNX forms of the sums of products over named axes."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import in_int32
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.linalg.contraction import LABELS, Contraction


def _register(name: str, labels: Callable[..., Contraction]) -> None:
    @onnx_form(name)
    def form(g: Builder, p: Any, *operands: Tensor) -> Tensor:
        contraction = labels(p, *(operand.ndim for operand in operands))
        used = list(dict.fromkeys(label for term in contraction.inputs for label in term))
        if len(used) > len(string.ascii_letters):
            g.refuse("its axes are more than ONNX' Einsum has letters", "multiply fewer operands at a time")
        letters = dict(zip(used, string.ascii_letters, strict=False))
        terms = ["".join(letters[label] for label in term) for term in (*contraction.inputs, contraction.output)]
        equation = f"{','.join(terms[:-1])}->{terms[-1]}"
        return in_int32(g, lambda *xs: g.op("Einsum", *xs, equation=equation), *operands)


for _name, _labels in LABELS.items():
    _register(_name, _labels)
