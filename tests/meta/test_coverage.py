"""Operators, lowering rules, gradients and cases held against each other."""

from lowering.core.rules import FLowering
from symjax_nnvm.ir.attributes import FGradient, FInferShape, FLossEquivalent, TMadeBy
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.ops.optimizer import multi_update as optimizer_multi
from symjax_nnvm.ops.optimizer import update as optimizer
from tests.cases import families

OPERATORS = [op for op in list_unique_ops() if not op.name.startswith(("_test_", "Custom"))]
IN_CASES = {Op.get(case.op) for cases in families().values() for case in cases}

# `Custom` stands for operators that users register, tests/ops/test_custom.py for one.
# Backward operators have no cases of their own: the forward operator's gradient and second-order rungs run them.
NO_CASES: dict[str, str] = {
    "_npi_bincount": "its shape depends on values, unknown to jit: tests/ops/reduce/test_bincount.py",
    "_contrib_boolean_mask": "its shape depends on values, unknown to jit: tests/ops/indexing/test_boolean_mask.py",
    **dict.fromkeys(
        ("_npi_unique", "_npx_nonzero"),
        "its shape depends on values, unknown to jit: tests/ops/indexing/test_unique.py",
    ),
    "reset_arrays": "all its inputs are states; tests/ops/elementwise/test_amp.py has it",
}

# Operators whose result does not depend smoothly on any input, or that have no input to differentiate.
NOT_DIFFERENTIABLE: dict[str, str] = {
    **dict.fromkeys(
        (
            *("_zeros", "_ones", "_full", "_zeros_without_dtype", "_arange", "_linspace", "_eye"),
            *("_npi_zeros", "_npi_ones", "_npi_identity", "_npi_arange", "_npi_eye", "_npi_indices", "_npi_logspace"),
            *("_npi_blackman", "_npi_hamming", "_npi_hanning"),
        ),
        "takes no input",
    ),
    **dict.fromkeys(("_npi_insert_scalar", "_npi_insert_slice", "_npi_insert_tensor"), "MXNet has no gradient of it"),
    "_norm_direction": "the gradient of a norm of singular values, which has no second one",
    "_contrib_allclose": "a verdict on its inputs, as in MXNet",
    **dict.fromkeys(
        [*(row.name for row in optimizer.UPDATES), *(row.name for row in optimizer_multi.UPDATES)],
        "an optimiser's step, where a graph ends; MXNet has no gradient for it",
    ),
    **dict.fromkeys(
        ("multi_lars", "multi_sum_sq", "reset_arrays"), "part of an optimiser's step; MXNet has no gradient for it"
    ),
    **dict.fromkeys(("all_finite", "multi_all_finite"), "the result is 0 or 1"),
    **dict.fromkeys(
        (
            *(
                f"_random_{name}"
                for name in (
                    *("exponential", "gamma", "generalized_negative_binomial", "negative_binomial"),
                    *("normal", "poisson", "randint", "uniform"),
                )
            ),
            "_sample_unique_zipfian",
        ),
        "takes no input",
    ),
    **{op.name: f"{TMadeBy[op]} makes it where no gradients are asked for" for op in OPERATORS if op in TMadeBy},
    "_shuffle": "MXNet has no gradient of it",
}


def is_backward(op: Op) -> bool:
    return op.name.startswith("_backward_")


def test_every_operator_has_a_lowering_rule():
    assert [op.name for op in OPERATORS if op not in FLowering] == []


def test_every_operator_has_a_shape_rule():
    assert [op.name for op in OPERATORS if op not in FInferShape] == []


def test_every_operator_has_cases():
    missing = [op.name for op in OPERATORS if op not in IN_CASES and not is_backward(op) and op.name not in NO_CASES]
    assert missing == [], "write cases in tests/cases, or say in NO_CASES why there are none"


def test_every_operator_has_a_gradient_or_a_reason():
    missing = [op.name for op in OPERATORS if op not in FGradient and op.name not in NOT_DIFFERENTIABLE]
    assert missing == [], "give the card a gradient, or say in NOT_DIFFERENTIABLE why there is none"


def test_every_operator_is_described():
    assert [op.name for op in OPERATORS if not op.description] == []


def test_exceptions_are_still_needed():
    assert [name for name in NO_CASES if Op.get(name) in IN_CASES] == []
    assert [name for name in NOT_DIFFERENTIABLE if Op.get(name) in FGradient] == []


def test_loss_heads_have_cases_with_gradients():
    """Their gradients are no derivatives of their outputs, so nothing but a case of their own checks them."""
    heads = [op for op in OPERATORS if op in FLossEquivalent]
    checked = {Op.get(case.op) for cases in families().values() for case in cases if case.wrt != ()}
    assert {op.name for op in heads} >= {"SoftmaxOutput", "LinearRegressionOutput", "SVMOutput", "MakeLoss"}
    assert [op.name for op in heads if op not in checked] == []


def test_every_wider_tolerance_has_a_reason():
    wider = [case.id for cases in families().values() for case in cases if case.rtol > 1e-5 and not case.rtol_reason]
    assert wider == []
