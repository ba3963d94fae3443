"""ONNX forms of the loss heads other than SoftmaxOutput: their values, which are plain functions of their data."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import identity, onnx_form, onnx_table

onnx_form("LinearRegressionOutput", "MAERegressionOutput", "MakeLoss", "SVMOutput", "make_loss")(identity)
onnx_table({"LogisticRegressionOutput": lambda g, data, label: g.op("Sigmoid", data)})
