"""Which arguments MXNet sets to a number: its gamma that is fixed, of every kind of batch normalisation."""

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.inspect.fixed_inputs import fixed_inputs

X = sym.Variable("x")


@pytest.mark.parametrize(
    ("kind", "options", "in_inference"),
    [
        ("BatchNorm", {}, False),
        ("_contrib_BatchNormWithReLU", {}, False),
        ("BatchNorm_v1", {}, True),
        ("_contrib_SyncBatchNorm", {"key": "k"}, True),
    ],
)
def test_a_gamma_that_is_fixed(kind: str, options: dict[str, str], in_inference: bool):
    net = getattr(sym, kind)(X, name="bn", **options)
    assert fixed_inputs(net) == {"bn_gamma": 1}
    assert fixed_inputs(net, lambda node: False) == ({"bn_gamma": 1} if in_inference else {})
    assert fixed_inputs(getattr(sym, kind)(X, fix_gamma=False, **options)) == {}
    assert fixed_inputs(getattr(sym, kind)(X, gamma=sym.exp(sym.Variable("g")), **options)) == {}
