"""This package serves a network with its parameters: `Predictor`, its folder, `export_program`."""
