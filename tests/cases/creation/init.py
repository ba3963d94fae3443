"""Cases of the operators that make arrays."""

from tests.cases import Case, T

CODE = "MXNet's Python refuses the dtype codes that its operator wants"

CASES = [
    *(Case(op, (), {"shape": (2, 3)}) for op in ("_zeros", "_ones")),
    *(Case(op, (), {"shape": (2,), "dtype": dtype}) for op in ("_zeros", "_ones") for dtype in ("int32", "float16")),
    Case("_zeros", (), {"shape": (2,), "dtype": "float64"}),
    Case("_full", (), {"shape": (2, 3), "value": 2.5}),
    Case("_full", (), {"shape": (2,), "value": 2.5, "dtype": "int32"}),
    Case("_zeros_without_dtype", (), {"shape": (2, 3), "dtype": 0}, no_mxnet=CODE),
    Case("_zeros_without_dtype", (), {"shape": (2,), "dtype": 4}, no_mxnet=CODE),
    Case("zeros_like", (T(2, 3),)),
    Case("zeros_like", (T(2, 3, dtype="int32", kind="integers", high=9),)),
    Case("ones_like", (T(2, 3),)),
    Case("ones_like", (T(2, 3, dtype="float16"),)),
    Case("_arange", (), {"start": 5}),
    Case("_arange", (), {"start": 1, "stop": 5.5, "step": 0.75}),
    Case("_arange", (), {"start": 5, "stop": -1, "step": -2}),
    Case("_arange", (), {"start": 0, "stop": 3, "repeat": 2}),
    Case("_arange", (), {"start": 0, "stop": 6, "step": 2, "dtype": "int32"}),
    Case("_arange", (), {"start": 0, "stop": 8, "step": 2, "dtype": "float16"}),
    Case(
        "_arange",
        (),
        {"start": 0, "stop": 4, "step": 0.5, "dtype": "float16"},
        no_mxnet="MXNet truncates a float16 step to an integer",
    ),
    Case("_linspace", (), {"start": 0, "stop": 1, "num": 5}),
    Case("_linspace", (), {"start": -2, "stop": 3, "num": 4, "endpoint": False}),
    Case("_linspace", (), {"start": 1, "stop": 3, "num": 1}),
    Case("_linspace", (), {"start": 0, "stop": 9, "num": 5, "dtype": "int32"}),
    Case("_eye", (), {"N": 3}),
    Case("_eye", (), {"N": 2, "M": 4, "k": 1}),
    Case("_eye", (), {"N": 3, "M": 2, "k": -1, "dtype": "int32"}),
    # as NumPy makes them
    *(Case(op, (), {"shape": shape}) for op in ("_npi_zeros", "_npi_ones") for shape in ((2, 3), (), (0, 2))),
    *(
        Case(op, (), {"shape": (2,), "dtype": dtype})
        for op in ("_npi_zeros", "_npi_ones")
        for dtype in ("bool", "int64")
    ),
    Case("_npi_identity", (), {"shape": (3, 3)}),
    Case("_npi_identity", (), {"shape": (2, 2), "dtype": "int32"}),
    Case("_npi_full_like", (T(2, 3),), {"fill_value": 2.5}),
    Case("_npi_full_like", (T(),), {"fill_value": 2.5, "dtype": "int32"}),
    Case("_npi_arange", (), {"start": 0, "stop": 5}),
    Case("_npi_arange", (), {"start": 5, "stop": 1}),
    Case("_npi_arange", (), {"start": 5, "stop": -1.5, "step": -1.5}),
    Case("_npi_arange", (), {"start": 1, "stop": 7, "step": 2, "dtype": "int64"}),
    Case("_npi_eye", (), {"N": 3}),
    Case("_npi_eye", (), {"N": 2, "M": 4, "k": -1, "dtype": "int32"}),
    Case("_npi_eye", (), {"N": 2, "M": 0}),
    Case("_npi_indices", (), {"dimensions": (2, 3)}),
    Case("_npi_indices", (), {"dimensions": (2,), "dtype": "float32"}),
    Case("_npi_logspace", (), {"start": 0, "stop": 2, "num": 5}),
    Case("_npi_logspace", (), {"start": 0, "stop": 3, "num": 3, "endpoint": False, "base": 2, "dtype": "int32"}),
    Case("_npi_logspace", (), {"start": 1, "stop": 3, "num": 1}),
    *(Case(op, (), {"M": M}) for op in ("_npi_blackman", "_npi_hamming", "_npi_hanning") for M in (0, 1, 5)),
    Case("_npi_hamming", (), {"M": 4, "dtype": "float64"}),
]
