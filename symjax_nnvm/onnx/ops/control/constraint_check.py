"""The ONNX form of _npx_constraint_check: none."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses("_npx_constraint_check", reason="ONNX has no errors", fix="Check the condition outside of the network.")
