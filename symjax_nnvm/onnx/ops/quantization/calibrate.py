"""Why the calibration of ranges has no ONNX form."""

from symjax_nnvm.onnx.forms import refuses

refuses(
    "_contrib_calibrate_entropy",
    reason="it finds the ranges of a network's numbers, which are parameters of the network that runs",
    fix="Calibrate first; write the network whose nodes have the ranges.",
)
