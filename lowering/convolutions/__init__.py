"""This package computes convolutions and their gradients, channels last, by several algorithms: the same numbers at
different speeds.

data (n, *size, c), weight (*kernel, c / g, f). ChooseAlgorithm chooses one, by a table of measurements, among those
that the platform's backend has. Other packages use only `backends`; `lowering.tune`, which measures, uses more.
"""
