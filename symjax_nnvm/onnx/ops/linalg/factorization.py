"""Matrix factorisations have no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    *("_linalg_potrf", "_linalg_potri", "_linalg_gelqf", "_linalg_syevd"),
    reason="ONNX has no factorisation of matrices",
    fix="Where the matrix is a constant, factorise it before; else cut the network around it, with symjax_nnvm.cut.",
)
refuses("_eigenvalue_gaps", reason="it is part of a gradient, and a file holds what a network computes at inference")
