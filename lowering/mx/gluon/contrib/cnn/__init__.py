"""`mx.gluon.contrib.cnn`: convolutions at places that another convolution computes."""

from __future__ import annotations

from lowering.mx.gluon.contrib.cnn.conv_layers import DeformableConvolution as DeformableConvolution
from lowering.mx.gluon.contrib.cnn.conv_layers import ModulatedDeformableConvolution as ModulatedDeformableConvolution
