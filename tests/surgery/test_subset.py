"""subset: the arrays of one network for a part of it. freeze_statistics: batch norms that stay as they are."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import ParamsMismatchError, SymbolTypeError, SymbolValueError
from tests.support.traced import evaluated
from tests.surgery.networks import arrays_for, classifier, outputs_of

NET = classifier()
ARGS, AUX = arrays_for(NET, data=(2, 3, 6, 6))


def with_new_head() -> sym.Symbol:
    return nn.replace_head(NET, "fc1_output", lambda fc1: sym.FullyConnected(fc1, num_hidden=2, name="new"))


@pytest.mark.slow("compiles")
def test_what_was_cut_off_is_left_out():
    features = nn.cut(NET, "fc1")
    args, aux = nn.subset(features, ARGS, AUX)
    assert list(args) == features.list_arguments()  # the data, which were given, among them
    assert list(aux) == features.list_auxiliary_states()
    evaluated(lowering.to_jax(features), args, aux)


def test_merged_and_swapped_dicts_are_told_apart():
    for given in ((ARGS | AUX,), (AUX, ARGS)):
        args, aux = nn.subset(NET, *given)
        assert (set(args), set(aux)) == (set(ARGS), set(AUX))


def test_a_misspelt_parameter_is_an_error_with_its_close_name():
    misspelt = {name.replace("fc1_weight", "fc1_wieght"): array for name, array in ARGS.items()}
    with pytest.raises(ParamsMismatchError, match=r"\['fc1_weight'\].*'fc1_wieght'.*Did you mean .*'fc1_wieght'"):
        nn.subset(nn.cut(NET, "fc1"), misspelt, AUX)


def test_parameters_of_a_new_head_are_named():
    net = with_new_head()
    with pytest.raises(ParamsMismatchError, match=r"\['new_weight', 'new_bias'\].*new="):
        nn.subset(net, ARGS, AUX)
    args, _ = nn.subset(net, ARGS, AUX, new="new_*")
    assert "new_weight" not in args
    assert "fc2_weight" not in args


def test_a_list_is_no_dict():
    with pytest.raises(SymbolTypeError, match="dict of arrays by name"):
        nn.subset(NET, list(ARGS.values()))


@pytest.mark.slow("compiles")
def test_frozen_statistics_are_those_of_inference():
    frozen = nn.freeze_statistics(nn.cut(NET, "bn1"), "bn*")
    (training,), (inference,) = (outputs_of(frozen, ARGS, AUX, is_train=is_train) for is_train in (True, False))
    assert np.array_equal(training, inference)
    taken = {name: ARGS[name] for name in frozen.list_arguments()}
    _, states = evaluated(lowering.to_jax(frozen, is_train=True), taken, AUX)
    for name, state in states.items():
        assert np.array_equal(state, AUX[name])
    (moving,) = outputs_of(nn.cut(NET, "bn1"), ARGS, AUX, is_train=True)
    assert not np.allclose(moving, inference)


def test_a_pattern_without_batch_norm_is_an_error():
    with pytest.raises(SymbolValueError, match="'bn2'.*Did you mean 'bn1'"):
        nn.freeze_statistics(NET, "bn2")
