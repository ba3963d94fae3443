"""Decompositions and equations have no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    *("_npi_svd", "_npi_eig", "_npi_eigh", "_npi_eigvals", "_npi_eigvalsh", "_npi_solve"),
    *("_npi_pinv", "_npi_pinv_scalar_rcond", "_npi_tensorinv", "_npi_tensorsolve"),
    reason="ONNX has no factorisation of matrices",
    fix="Where the matrix is a constant, factorise it before; else cut the network around it, with symjax_nnvm.cut.",
)
refuses("_tensor_matrix", reason="it is part of a gradient, and a file holds what a network computes at inference")
