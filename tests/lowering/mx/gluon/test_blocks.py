"""Blocks: names, children, structural names, files, hooks, structure of arguments, symbols as blocks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import symjax_nnvm
from lowering import mx
from lowering.mx import gluon
from lowering.mx.compatibility import backends
from lowering.mx.gluon import nn
from lowering.mx.gluon.utils import HookHandle


class Pair(gluon.HybridBlock):
    """Two layers, assigned in one order, and a parameter of its own."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.second = nn.Dense(2, in_units=3)
            self.first = nn.Dense(3, in_units=4)
            self.scale = self.params.get("scale", shape=(1,), init="ones")

    def hybrid_forward(self, F: Any, x: Any, scale: Any) -> Any:
        return F.broadcast_mul(self.second(self.first(x)), scale)


def ones(*shape: int) -> Any:
    return mx.nd.ones(shape)


# -- names -------------------------------------------------------------------------------------------------------------


def test_prefixes_are_class_names_and_counters_of_their_scope():
    with mx.name.NameManager():
        pairs = [Pair(), Pair()]
        assert [pair.prefix for pair in pairs] == ["pair0_", "pair1_"]
        assert pairs[1].second.prefix == "pair1_dense0_"
        assert pairs[1].first.weight.name == "pair1_dense1_weight"
        assert Pair(prefix="mine_").first.name == "mine_dense1"
        assert nn.Conv2D(1, 1).prefix == "conv0_"
        assert nn.Activation("relu").prefix == "relu0_"


def test_an_empty_prefix_leaves_the_scope_to_the_parent():
    with mx.name.NameManager():
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            inner = nn.HybridSequential(prefix="")
            with inner.name_scope():
                inner.add(nn.Dense(1))
            net.add(inner, nn.Dense(1))
        assert list(net.collect_params().keys())[::2] == ["net_dense0_weight", "net_dense1_weight"]


def test_parameters_come_own_first_then_in_the_order_of_children():
    net = Pair(prefix="p_")
    names = ["p_scale", "p_dense0_weight", "p_dense0_bias", "p_dense1_weight", "p_dense1_bias"]
    assert list(net.collect_params().keys()) == names
    assert list(net.collect_params(".*weight|.*scale").keys()) == [names[0], names[1], names[3]]


def test_structural_names_are_attributes_with_dots():
    net = nn.HybridSequential()
    net.add(Pair(), nn.BatchNorm(in_channels=2))
    names = {"0.scale", "0.second.weight", "0.second.bias", "0.first.weight", "0.first.bias"}
    assert set(net._collect_params_with_prefix()) == names | {
        f"1.{name}" for name in ("gamma", "beta", "running_mean", "running_var")
    }


def test_modules_have_mxnets_names():
    assert gluon.parameter.Parameter is gluon.block.Parameter is gluon.Parameter
    assert gluon.block.DeferredInitializationError is gluon.parameter.DeferredInitializationError
    assert gluon.block.HookHandle is HookHandle
    assert gluon.parameter.tensor_types == gluon.tensor_types
    assert gluon.trainer.Trainer is gluon.Trainer


def test_attributes_keep_their_kind():
    net = Pair()
    with pytest.raises(TypeError, match="Changing attribute type for first"):
        net.first = 3  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AssertionError, match="Overriding Parameter attribute"):
        net.scale = gluon.Parameter("other")


def test_blocks_in_lists_are_warned_of():
    class Listed(gluon.Block):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Dense(1)]

    with pytest.warns(UserWarning, match="unregistered container"):
        Listed().collect_params()


def test_children_of_hybrid_blocks_are_hybrid():
    with pytest.raises(ValueError, match="Children of HybridBlock must also be HybridBlock"):
        nn.HybridSequential().add(nn.Lambda("tanh"))


def test_parts_of_a_sequence_share_its_blocks():
    net = nn.HybridSequential(prefix="s_")
    net.add(nn.Dense(2), nn.Dense(3), nn.Dense(4))
    assert len(net) == 3
    assert net[1:][0] is net[1]


def test_a_sequential_of_hybrid_blocks_is_warned_of():
    net = nn.Sequential()
    net.add(nn.Dense(2, in_units=2), nn.HybridLambda("relu"))
    with pytest.warns(UserWarning, match="Consider using HybridSequential"):
        net.hybridize()
    net.initialize()
    assert net(ones(1, 2)).shape == (1, 2)


# -- files -------------------------------------------------------------------------------------------------------------


def filled(net: Any) -> Any:
    net.initialize(mx.init.Normal(1.0))
    return net


def test_parameters_are_saved_and_loaded_by_structure(tmp_path: Path):
    net, other = filled(Pair(prefix="a_")), Pair(prefix="b_")
    net.save_parameters(str(tmp_path / "x.params"))
    assert sorted(mx.nd.load(str(tmp_path / "x.params"))) == sorted(net._collect_params_with_prefix())
    other.load_parameters(str(tmp_path / "x.params"))
    np.testing.assert_array_equal(other(ones(1, 4)).asnumpy(), net(ones(1, 4)).asnumpy())


def test_files_without_dots_are_loaded_by_whole_names(tmp_path: Path):
    net, other = filled(Pair(prefix="a_")), Pair(prefix="b_")
    net.collect_params().save(str(tmp_path / "x.params"), strip_prefix="a_")
    other.load_parameters(str(tmp_path / "x.params"))
    np.testing.assert_array_equal(other(ones(1, 4)).asnumpy(), net(ones(1, 4)).asnumpy())
    with pytest.warns(UserWarning, match="deprecated"):
        net.save_params(str(tmp_path / "y.params"))
    assert (tmp_path / "y.params").read_bytes() == (tmp_path / "x.params").read_bytes()
    with pytest.raises(ValueError, match="is to be striped"):
        net.collect_params().save(str(tmp_path / "x.params"), strip_prefix="c_")


def test_shared_parameters_are_written_once_if_asked(tmp_path: Path):
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=2))
    net.add(nn.Dense(2, in_units=2, params=net[0].params))
    filled(net).save_parameters(str(tmp_path / "x.params"), deduplicate=True)
    assert sorted(mx.nd.load(str(tmp_path / "x.params"))) == ["1.bias", "1.weight"]
    before = net(ones(1, 2)).asnumpy()
    net.initialize(force_reinit=True)
    net.load_parameters(str(tmp_path / "x.params"))
    np.testing.assert_array_equal(net(ones(1, 2)).asnumpy(), before)


def test_what_does_not_fit_a_file_is_told(tmp_path: Path):
    path = str(tmp_path / "x.params")
    filled(Pair()).save_parameters(path)
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Dense(2, in_units=3))
    with pytest.raises(
        AssertionError, match=r"Parameter '0.weight' is missing in file .* contains parameters: 'scale', 's"
    ):
        net.load_parameters(path)
    with pytest.raises(ValueError, match="is not present in ParameterDict, which contains parameters '0.weight'"):
        net.load_parameters(path, allow_missing=True)
    net.load_parameters(path, allow_missing=True, ignore_extra=True)
    other = Pair()
    other.first.weight._shape = (5, 4)
    with pytest.raises(AssertionError, match=r"shape incompatible expected \(5, 4\) vs saved \(3, 4\)"):
        other.load_parameters(path)


def test_dtypes_of_a_file_are_cast_if_asked(tmp_path: Path):
    path = str(tmp_path / "x.params")
    half = Pair()
    half.cast("float16")
    filled(half).save_parameters(path)
    net = Pair()
    with pytest.raises(AssertionError, match="dtype incompatible"):
        net.load_parameters(path)
    net.load_parameters(path, cast_dtype=True)
    assert net.first.weight.data().dtype == np.float32
    net.load_parameters(path, cast_dtype=True, dtype_source="saved")
    assert net.first.weight.data().dtype == net.first.weight.dtype == np.float16


def test_networks_of_the_same_lines_take_the_saved_tree(tmp_path: Path):
    def made() -> Any:
        net = nn.Sequential()
        net.add(nn.Dense(2), nn.Lambda("relu"), nn.Dense(3))
        return net

    net, other, prefix = made(), made(), str(tmp_path / "net")
    net.initialize(mx.init.Normal(1.0))
    for layer in (net[0], net[2]):
        layer.hybridize()
    out = net(ones(1, 4)).asnumpy()
    net.save(prefix)
    other.load(prefix)
    np.testing.assert_array_equal(other(ones(1, 4)).asnumpy(), out)
    assert other[0].name == net[0].name
    with pytest.raises(AssertionError, match="was saved from another network"):
        nn.Sequential().load(prefix)


# -- running -----------------------------------------------------------------------------------------------------------


def test_hooks_run_before_and_after_and_are_taken_away():
    net, told = filled(Pair()), []
    before = net.register_forward_pre_hook(lambda block, given: told.append(("before", block, given)))
    with net.register_forward_hook(lambda block, given, out: told.append(("after", given, out))):
        x = ones(1, 4)
        out = net(x)
    assert told == [("before", net, (x,)), ("after", (x,), out)]
    before.detach()
    net(x)
    assert len(told) == 2
    with pytest.raises(AssertionError, match="attached twice"):
        before.attach({}, print)
    assert isinstance(before, HookHandle)


def test_hooks_of_inner_blocks_do_not_run_in_a_program():
    net, told = filled(Pair()), []
    net.first.register_forward_hook(lambda *_: told.append(1))
    net(ones(1, 4))
    with pytest.warns(UserWarning, match="the hooks will not take effect"):
        net.hybridize()
    net(ones(1, 4))  # traced: the blocks are called with symbols
    count = len(told)
    net(ones(1, 4))
    assert len(told) == count


def test_arguments_may_be_none_and_nested():
    class Nested(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, pair: Any, last: Any = None) -> Any:
            total = x + pair[0] * pair[1][0]
            return [total, (total if last is None else total + last, pair[0])]

    net = Nested()
    for _ in range(2):
        total, (same, first) = net(ones(2), [ones(2) * 2, [ones(2) * 3]], None)
        assert (total.asnumpy() == 7).all()
        assert (same.asnumpy() == 7).all()
        assert (first.asnumpy() == 2).all()
        net.hybridize()
    net(ones(2), [ones(2), [ones(2)]])  # None at the end may be left out
    with pytest.raises(ValueError, match="argument structure of HybridBlock does not match"):
        net(ones(2), [ones(2), ones(2)], None)
    with pytest.raises(ValueError, match="There must be one|there must be one"):
        net(None, [None, [None]])
    with pytest.raises(ValueError, match="do not support mixed"):
        net(ones(2), [mx.sym.var("x"), [ones(2)]])


def test_a_block_that_forgets_to_return_is_told_of():
    class Forgetful(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return None if self.prefix == "one_" else [x * 2, None]

    for prefix in ("one_", "list_"):
        net = Forgetful(prefix=prefix)
        net.hybridize()
        with pytest.raises(TypeError, match="hybrid_forward of Forgetful must return symbols"):
            net(ones(2))


def test_inputs_and_parameters_without_use_are_warned_of():
    class First(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
            return x + 1

    net = First()
    net.hybridize()
    with pytest.warns(UserWarning, match="1-th input to HybridBlock is not used"):
        net(ones(1), ones(1))


def test_unknown_inputs_are_told():
    class Unknown(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x + F.var("elsewhere") if F is mx.sym else x

    net = Unknown()
    net.hybridize()
    with pytest.raises(AssertionError, match="Unknown input to HybridBlock: elsewhere"):
        net(ones(1))


def test_a_block_for_another_backend_is_a_hybridised_block(tmp_path: Path):
    backends._warn_of.cache_clear()
    net, x = mx.gluon.nn.Dense(3), ones(2, 4)
    net.initialize(mx.init.One())
    with pytest.warns(backends.BackendWarning, match="no backend 'MKLDNN' here"):
        net.optimize_for(x, backend="MKLDNN", static_alloc=True, precision="half")
    net.export(str(tmp_path / "net"))  # no call is needed before
    assert (net._active, net(x).asnumpy().tolist()) == (True, [[4, 4, 4]] * 2)
    net.hybridize(backend="MKLDNN")  # is said once
    assert net(x).asnumpy().tolist() == [[4, 4, 4]] * 2
    for wrong, told in (((x, None), "Must specify"), ((None, "MKLDNN"), "one NDArray or one Symbol")):
        with pytest.raises(ValueError, match=told):
            net.optimize_for(wrong[0], backend=wrong[1])


def test_flags_are_kept():
    net = Pair()
    net.hybridize(static_alloc=True, static_shape=True, forward_bulk_size=3)
    assert dict(net.first._flags) == {
        "static_alloc": True, "static_shape": True, "inline_limit": 2, "forward_bulk_size": 3,
    }  # fmt: skip


def test_summary(capsys: pytest.CaptureFixture[str]):
    net = filled(Pair())
    net.summary(ones(1, 4))
    text = capsys.readouterr().out
    assert "Dense-1" in text
    assert "Total params: 24" in text
    net.hybridize()
    with pytest.raises(AssertionError, match="must not be hybridized"):
        net.summary(ones(1, 4))


def test_a_summary_counts_shared_parameters_once(capsys: pytest.CaptureFixture[str]):
    net, first = nn.HybridSequential(), nn.Dense(4, in_units=4)
    net.add(first, nn.Dense(4, in_units=4, params=first.params), nn.Dense(2, in_units=4))
    net.initialize()
    net.summary(ones(1, 4))
    text = capsys.readouterr().out
    for line in (
        *("   Total params: 50", "   Trainable params: 50", "   Non-trainable params: 0"),
        *("Shared params in forward computation graph: 20", "Unique parameters in model: 30"),
    ):
        assert line in text.splitlines()


@pytest.mark.parametrize("container", [gluon.contrib.nn.HybridConcurrent, type("Mine", (nn.Sequential,), {})])
def test_a_summary_has_no_row_for_a_kind_of_row(container: Any, capsys: pytest.CaptureFixture[str]):
    net = container()
    net.add(nn.Dense(2), nn.Dense(3))
    net.initialize()
    net.summary(ones(1, 4))
    text = capsys.readouterr().out
    assert "Dense-2" in text
    assert container.__name__ not in text


def test_a_summary_has_the_shapes_of_nested_states(capsys: pytest.CaptureFixture[str]):
    layer = gluon.rnn.LSTM(3)
    layer.initialize()
    layer.summary(ones(2, 1, 3), layer.begin_state(1))
    assert capsys.readouterr().out.count("(2, 1, 3), [(1, 1, 3), (1, 1, 3)]") == 2


# -- export and symbols as blocks --------------------------------------------------------------------------------------


def test_export_needs_a_forward_pass(tmp_path: Path):
    net = filled(Pair())
    with pytest.raises(RuntimeError, match="first call block.hybridize"):
        net.export(str(tmp_path / "net"))


def test_exported_networks_come_back(tmp_path: Path):
    net, path = filled(Pair()), str(tmp_path / "net")
    net.hybridize()
    out = net(ones(2, 4)).asnumpy()
    net.export(path, epoch=3)
    block = gluon.SymbolBlock.imports(path + "-symbol.json", ["data"], path + "-0003.params")
    np.testing.assert_allclose(block(ones(2, 4)).asnumpy(), out, rtol=1e-6)
    assert block.prefix == ""
    module = mx.mod.Module.load(path, 3, label_names=[])
    module.bind([("data", (2, 4))], for_training=False)
    module.forward(mx.io.DataBatch([ones(2, 4)]), is_train=False)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), out, rtol=1e-6)
    assert block(mx.sym.var("other")).list_inputs()[0] == "other"
    with pytest.raises(AssertionError, match="is missing"):
        gluon.SymbolBlock.imports(path + "-symbol.json", ["data"], str(empty(tmp_path)))


def test_a_symbol_block_of_what_any_loader_gives():
    net, args, aux = nn_load("gluon_resnet")
    block = gluon.SymbolBlock(net, mx.sym.var("data"))
    block.collect_params().load_dict({**args, **aux})
    x = np.random.RandomState(0).randn(2, 3, 8, 8).astype(np.float32)
    expected = lowering.compile(net)(args | {"data": x}, aux)[0][0]
    np.testing.assert_allclose(block(mx.nd.array(x)).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def nn_load(name: str) -> Any:
    return symjax_nnvm.load_checkpoint(Path(__file__).parents[3] / "goldens" / "networks" / name, 0)


def empty(folder: Path) -> Path:
    mx.nd.save(str(folder / "empty.params"), {"arg:other": ones(1)})
    return folder / "empty.params"


def test_a_symbol_block_has_the_types_of_its_file(tmp_path: Path):
    net, path = filled(nn.Dense(2, in_units=3)), str(tmp_path / "net")
    net.cast("float16")
    net.hybridize()
    out = net(ones(1, 3).astype("float16"))
    net.export(path)
    block = gluon.SymbolBlock.imports(path + "-symbol.json", "data", path + "-0000.params")
    assert {param.data().dtype for param in block.collect_params().values()} == {np.float16}
    assert block(ones(1, 3).astype("float16")).dtype == out.dtype == np.float16


def test_a_symbol_block_shares_parameters_and_trains():
    net = filled(Pair(prefix="whole_"))
    x = mx.sym.var("data")
    inside = net(x).get_internals()
    part = gluon.SymbolBlock(inside["whole_dense1_fwd_output"], x, params=net.collect_params())
    with mx.autograd.record():
        out = part(ones(1, 4))
    out.backward()
    assert net.first.weight.grad().asnumpy().any()
    assert out.shape == (1, 3)


def test_symbols_of_row_sparse_parameters_are_refused():
    x, w = mx.sym.var("x"), mx.sym.var("w", stype="row_sparse")
    with pytest.raises(AssertionError, match="'w' because its storage type is 'row_sparse'"):
        gluon.SymbolBlock(mx.sym.dot(x, w), x)


def test_batch_norm_stays_float32_under_float16(tmp_path: Path):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 1, in_channels=1), nn.BatchNorm(in_channels=2))
    net.cast("float16")
    filled(net)
    assert net[0].weight.dtype == "float16"
    assert net[1].gamma.dtype == net[1].running_var.dtype == "float32"
    net.hybridize()
    assert net(ones(1, 1, 2, 2).astype("float16")).dtype == np.float16
    net.export(str(tmp_path / "net"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    block.cast("float32")
    block.cast("float16")
    assert sorted(np.dtype(param.dtype).name for param in block.collect_params().values()) == [
        "float16", "float16", "float32", "float32", "float32", "float32",
    ]  # fmt: skip
