"""Cases of Activation and LeakyReLU."""

from tests.cases import Case, T

_HALF = "one unit in the last place of float16"
_RANDOM = "MXNet's rrelu crashes in training on a CPU"
_UNWRITTEN = "MXNet leaves the output mask unwritten"
_ACTIVATIONS = ("relu", "sigmoid", "softrelu", "softsign", "tanh")
_LEAKY = ("leaky", "elu", "gelu")
_THREE_AXES = "MXNet places the last axis of gamma on axis 1 of data or before it"
_SELU = "MXNet's gradient of selu multiplies what is below 0 by the scale twice"


def _signs(*shape: int, dtype: str = "float32", high: float = 2.0):
    return T(*shape, kind="signs", low=0.1, high=high, dtype=dtype)


CASES = [
    *[Case("Activation", (_signs(2, 3, 4),), {"act_type": kind}) for kind in _ACTIVATIONS],
    *[Case("Activation", (_signs(12, high=40.0),), {"act_type": kind}, tag="large") for kind in _ACTIVATIONS],
    *[Case("Activation", (_signs(2, 3, dtype="float64"),), {"act_type": kind}) for kind in _ACTIVATIONS],
    *[
        Case("Activation", (_signs(2, 3, dtype="float16"),), {"act_type": kind}, rtol=1e-3, rtol_reason=_HALF)
        for kind in _ACTIVATIONS
    ],
    *[Case("LeakyReLU", (_signs(2, 3, 4),), {"act_type": kind}) for kind in _LEAKY],
    *[Case("LeakyReLU", (_signs(12, high=40.0),), {"act_type": kind}, tag="large") for kind in _LEAKY],
    *[Case("LeakyReLU", (_signs(2, 3, dtype="float64"),), {"act_type": kind}) for kind in _LEAKY],
    *[
        Case("LeakyReLU", (_signs(2, 3, dtype="float16"),), {"act_type": kind}, rtol=1e-3, rtol_reason=_HALF)
        for kind in _LEAKY
    ],
    *[Case("LeakyReLU", (_signs(*shape),), {"act_type": "selu"}, wrt=()) for shape in ((2, 3, 4), (12,))],
    *[
        Case("LeakyReLU", (_signs(*shape),), {"act_type": "selu"}, tag="gradient", no_mxnet=_SELU)
        for shape in ((2, 3, 4), (12,))
    ],
    Case("LeakyReLU", (_signs(2, 3, dtype="float64"),), {"act_type": "selu"}, no_mxnet=_SELU),
    Case("LeakyReLU", (_signs(2, 3),)),
    *[Case("LeakyReLU", (_signs(3, 4),), {"act_type": kind, "slope": -0.7}) for kind in ("leaky", "elu")],
    Case("LeakyReLU", (_signs(3, 4),), {"act_type": "leaky", "slope": 0.0}),
    # learned slopes: one for each channel, or one for all
    *[
        Case("LeakyReLU", (_signs(*shape), T(c, low=0.1)), {"act_type": "prelu"})
        for shape, c in [
            ((2, 3, 4), 3),
            ((2, 3, 4), 1),
            ((2, 3), 3),
            ((4, 2, 2, 3), 2),
            ((4, 1, 3), 1),
            ((5,), 1),
            ((5,), 5),
        ]
    ],
    Case("LeakyReLU", (_signs(2, 3, dtype="float64"), T(3, dtype="float64")), {"act_type": "prelu"}),
    *[
        Case("LeakyReLU", (_signs(*shape), T(*gamma, low=0.1)), {"act_type": "prelu"}, tag="leading axes")
        for shape, gamma in [
            *(((3, 4), (3, 4)), ((3, 4), (3,)), ((3, 4), (3, 1)), ((3, 4), (1, 4)), ((3, 4, 2, 5), (3, 4))),
            *(((3, 4, 2), (3,)), ((3, 4, 2), (1, 1)), ((3, 3), (3,))),
        ]
    ],
    *[
        Case("LeakyReLU", (_signs(2, 3, 4), T(*gamma, low=0.1)), {"act_type": "prelu"}, no_mxnet=_THREE_AXES)
        for gamma in ((2, 3, 4), (2, 1, 4))
    ],
    *[
        Case("_slopes_like", (T(*gamma), T(3, 4, 2)), wrt=(0,), no_mxnet="an operator of this library")
        for gamma in ((4,), (3,), (3, 4), (1,))
    ],
    # random slopes
    Case("LeakyReLU", (_signs(3, 4),), {"act_type": "rrelu"}, no_mxnet=_RANDOM),
    Case("LeakyReLU", (_signs(3, 4),), {"act_type": "rrelu", "lower_bound": 0.2, "upper_bound": 0.2}, no_mxnet=_RANDOM),
    Case("LeakyReLU", (_signs(3, 4),), {"act_type": "rrelu"}, is_train=False, no_mxnet=_UNWRITTEN),
]
