"""A network with its parameters: `Predictor`, its folder, `export_program`."""
