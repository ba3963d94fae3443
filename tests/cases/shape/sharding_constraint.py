"""Cases of the operator that says how an array is split over a mesh: without one it is the data."""

from tests.cases import Case, T

CASES = [
    Case("_sharding_constraint", (T(4, 2),), {"spec": "data, None"}, no_mxnet="MXNet has no meshes"),
    Case("_sharding_constraint", (T(2, 3, 4),), {"spec": "(data, model)"}, no_mxnet="MXNet has no meshes"),
]
