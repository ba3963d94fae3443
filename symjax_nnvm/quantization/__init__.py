"""Networks of 8-bit integers made of networks of floats, as MXNet 1.9.1's `quantize_model` makes them."""

from symjax_nnvm.quantization.quantize_model import quantize as quantize
