"""Sizes that are left open: what is exported so agrees with the network at any size, or an error says why it cannot."""

import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np
import pytest

import lowering
from lowering.core.rules import FLowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import LoweringError, OpenSizeError
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.symbol.symbol import Symbol
from tests.cases import Case
from tests.lowering.api.open_batch import compare
from tests.support.ladder import all_cases
from tests.support.pages import text_of
from tests.support.walk import Walk, first, rung

pytest.importorskip("flatbuffers", reason="the extra `export` is not installed")

# -- every operator --------------------------------------------------------------------------------------------------

REFUSED = {
    "a parameter says the size": (
        *("Reshape", "_backward_gather_nd", "_scatter_set_nd", "broadcast_to", "ravel_multi_index", "scatter_nd"),
        *("_winograd_weight", "_npi_broadcast_to"),
    ),
    "the size is 1, or has to be told from 1": (
        *("_contrib_Proposal", "_contrib_MultiBoxTarget", "_backward_mean", "broadcast_axis", "broadcast_like"),
        *("squeeze", "_np_squeeze"),
    ),
    "a side of a square matrix": (
        *("_linalg_syevd", "linalg_det", "linalg_inverse", "linalg_potrf", "linalg_potri", "linalg_slogdet"),
        *("linalg_sumlogdiag", "_npi_cholesky", "_npi_eig", "_npi_eigh", "_npi_eigvals", "_npi_eigvalsh"),
        *("_npi_det", "_npi_slogdet", "_npi_solve", "_npi_tensorinv", "_npi_tensorsolve", "_tensor_matrix"),
    ),
    "another input says the size": ("_backward_slice", "_backward_slice_axis", "_slice_assign", "reshape_like"),
    "how an array is laid out follows from it": (
        *("_slopes_like", "diag", "_np_diag", "_np_diagonal", "_np_diagflat", "_npi_diag_indices_from", "_np_trace"),
        *("_npi_polyval", "_polynomial_derivative", "_npi_insert_scalar"),
    ),
    "the size of the draws says": ("_npi_pareto", "_npi_weibull", "_npi_multinomial"),
    "the channels of an image without a batch": ("_image_normalize",),
}
"""Why the first case of an operator cannot have an open batch → the operators, besides those whose lowering rule says
so itself (`numbers=` of `lowers`)."""


def has_a_batch(case: Case) -> bool:
    return bool(case.inputs and case.inputs[0].shape and 0 not in case.inputs[0].shape)


@rung(first(has_a_batch), one_in=24)
def an_open_batch_agrees_with_a_fixed_one(walk: Walk):
    op, case = walk.case.op, walk.case
    refused = [why for why, names in REFUSED.items() if op in names]
    numbers = FLowering[Op.get(op)].numbers if Op.exists(op) else None
    shape = case.inputs[0].shape
    by_rule = numbers is not None and (numbers.axes is None or any(axis % len(shape) == 0 for axis in numbers.axes))
    with tempfile.TemporaryDirectory() as folder:
        if refused or by_rule:
            with pytest.raises(LoweringError, match="cannot leave.*in operator .*node .*Give numbers"):
                compare(case, Path(folder))
        else:
            assert compare(case, Path(folder), most=1) == 1


def test_every_operator_that_refuses_has_cases():
    assert {op for names in REFUSED.values() for op in names} <= {c.op for _, c in all_cases() if has_a_batch(c)}


def test_the_page_names_every_operator_that_leaves_no_size_open():
    """Those of which a network's own nodes are made: backward operators and such with a hidden name are none."""
    page = text_of("docs/guide/serving.md")
    by_rule = {op.name for op in list_unique_ops() if (rule := FLowering.get(op)) is not None and rule.numbers}
    refused = {op for names in REFUSED.values() for op in names} | by_rule
    named = {op.removeprefix("_contrib_").removeprefix("_linalg_").removeprefix("linalg_") for op in refused}
    public = sorted(op for op in named if not op.startswith("_") or op == "_shuffle")
    assert [op for op in public if f"`{op.removeprefix('_')}`" not in page] == []


# -- networks --------------------------------------------------------------------------------------------------------

IMAGES = {"data": ("N", 3, "H", "W")}
X = sym.Variable("data")


def convolved(x: Symbol, name: str, stride: int = 1) -> Symbol:
    found = sym.Convolution(x, kernel=(3, 3), pad=(1, 1), stride=(stride, stride), num_filter=4, name=name)
    return sym.relu(sym.BatchNorm(found, name=f"{name}_norm"))


def offsets(x: Symbol, count: int, name: str) -> Symbol:
    return sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=count, name=name)


OVER_IMAGES: dict[str, Symbol] = {
    "pooling": sym.Pooling(
        sym.Pooling(convolved(X, "a"), kernel=(2, 2), stride=(2, 2), pool_type="max"),
        kernel=(3, 3),
        stride=(2, 2),
        pad=(1, 1),
        pool_type="avg",
        pooling_convention="full",
    ),
    "means without padding": sym.Pooling(
        X, kernel=(3, 2), pad=(1, 1), stride=(2, 1), pool_type="avg", count_include_pad=False
    ),
    "same": sym.Pooling(X, kernel=(3, 3), stride=(2, 2), pool_type="max", pooling_convention="same"),
    "lp": sym.Pooling(X, kernel=(2, 3), pool_type="lp", p_value=2),
    "Pooling_v1": sym.Pooling_v1(X, kernel=(2, 3), stride=(2, 1), pad=(1, 1), pool_type="avg"),
    "global": sym.FullyConnected(
        sym.Pooling(convolved(X, "a", 2), global_pool=True, kernel=(1, 1), pool_type="avg"), num_hidden=3, name="fc"
    ),
    "Deconvolution and Crop": sym.Crop(
        sym.Deconvolution(convolved(X, "a", 2), kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=3, name="d"),
        X,
        num_args=2,
    ),
    "slice_like": sym.slice_like(
        sym.Deconvolution(X, kernel=(4, 4), stride=(2, 2), num_filter=3, name="d"), X, axes=(2, 3)
    ),
    "slice": sym.slice(X, begin=(None, None, 1, 0), end=(None, None, -1, -2)),
    "slice with steps": sym.slice(X, begin=(None, 0, -1, 5), end=(None, 2, None, 0), step=(None, 1, -2, -1)),
    "slice_axis": sym.slice_axis(X, axis=2, begin=1, end=3),
    "scaled": sym.contrib.BilinearResize2D(X, scale_height=2.0, scale_width=1.5),
    "odd_scale": sym.contrib.BilinearResize2D(X, scale_height=0.5, scale_width=3.0, mode="odd_scale"),
    "to_odd_up": sym.contrib.BilinearResize2D(X, mode="to_odd_up", align_corners=False),
    "of a size": sym.contrib.BilinearResize2D(X, height=7, width=5, align_corners=False),
    "like": sym.contrib.BilinearResize2D(convolved(X, "a", 2), X, mode="like"),
    "AdaptiveAvgPooling2D": sym.contrib.AdaptiveAvgPooling2D(X, output_size=(3, 4)),
    "UpSampling": sym.UpSampling(X, scale=2, sample_type="bilinear", num_filter=3, num_args=1, name="up"),
    "DeformableConvolution": sym.contrib.DeformableConvolution(
        X, offsets(X, 18, "offset"), kernel=(3, 3), pad=(1, 1), num_filter=4, name="deformable"
    ),
    "ModulatedDeformableConvolution": sym.contrib.ModulatedDeformableConvolution(
        *(X, offsets(X, 18, "offset"), sym.sigmoid(offsets(X, 9, "mask"))),
        kernel=(3, 3),
        pad=(1, 1),
        num_filter=4,
        name="deformable",
    ),
    "GridGenerator and BilinearSampler": sym.BilinearSampler(
        X, sym.GridGenerator(offsets(X, 2, "flow"), transform_type="warp")
    ),
    "SpatialTransformer": sym.SpatialTransformer(
        X,
        sym.FullyConnected(sym.Pooling(X, global_pool=True, kernel=(1, 1), pool_type="avg"), num_hidden=6, name="loc"),
        target_shape=(4, 5),
        transform_type="affine",
        sampler_type="bilinear",
    ),
    "depth_to_space": sym.depth_to_space(offsets(X, 8, "depth"), block_size=2),
    "LRN": sym.LRN(X, nsize=3),
    "im2col": sym.im2col(X, kernel=(3, 3), pad=(1, 1)),
    "places as a sequence": sym.Reshape(sym.transpose(X, axes=(0, 2, 3, 1)), shape=(0, -1, 3)),
    "places as a sequence, after windows without padding": sym.Reshape(
        sym.transpose(sym.Convolution(X, kernel=(3, 3), num_filter=4, name="a"), axes=(0, 2, 3, 1)), shape=(0, -1, 4)
    ),
    "the best of all places": sym.argmax(
        sym.Reshape(sym.Convolution(X, kernel=(3, 3), num_filter=4, name="a"), shape=(0, -1)), axis=1
    ),
    "im2col without padding": sym.im2col(X, kernel=(3, 2)),
    "shape_array": sym.shape_array(X),
}

OVER_SEQUENCES: dict[str, Symbol] = {
    "GluonNLP's pooler": sym.FullyConnected(
        sym.slice(sym.FullyConnected(X, num_hidden=4, flatten=False, name="all"), begin=(0, 0), end=(None, 2)),
        num_hidden=3,
        flatten=False,
        name="pooler",
    ),
    "attention": sym.batch_dot(sym.softmax(sym.batch_dot(X, X, transpose_b=True)), X),
    "div_sqrt_dim": sym.contrib.div_sqrt_dim(sym.batch_dot(X, X, transpose_b=True)),
    "the last of a sequence": sym.slice_axis(X, axis=1, begin=-1, end=None),
    "size_array": sym.size_array(X),
}


def agree(net: Symbol, shapes: dict[str, Any], sizes: list[dict[str, int]], path: Path) -> None:
    """The program of these shapes gives what the network gives at each of the sizes."""

    def numbers(names: dict[str, int]) -> dict[str, Any]:
        return {name: tuple(names.get(size, size) for size in shape) for name, shape in shapes.items()}

    rng = np.random.default_rng(0)
    of_args, _, of_aux = net.infer_shape(**numbers(sizes[0]))
    args = {n: rng.uniform(-1, 1, s).astype("f") for n, s in zip(net.list_arguments(), of_args, strict=True)}
    args = {name: array for name, array in args.items() if name not in shapes}
    aux = {n: rng.uniform(0.5, 1, s).astype("f") for n, s in zip(net.list_auxiliary_states(), of_aux, strict=True)}
    program = lowering.export_program(path, net, args, aux, shapes)
    for names in sizes:
        data = {name: rng.uniform(-1, 1, shape).astype("f") for name, shape in numbers(names).items()}
        expected, _ = lowering.compile(net)(args | data, aux)
        for found, wanted in zip(program.call(**data), expected, strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.nightly("a network for each kind of node", but_one_in=4)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", OVER_IMAGES)
def test_images_of_any_size(name: str, tmp_path: Path):
    agree(OVER_IMAGES[name], IMAGES, [{"N": 2, "H": 9, "W": 12}, {"N": 1, "H": 16, "W": 7}], tmp_path / "p")


IN_PIECES = {
    "space_to_depth": sym.space_to_depth(X, block_size=2),
    "SliceChannel": sym.Concat(*sym.SliceChannel(X, num_outputs=2, axis=2), dim=1),
}


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("name", IN_PIECES)
def test_a_size_that_is_cut_evenly_is_a_condition_of_the_program(name: str, tmp_path: Path):
    agree(IN_PIECES[name], IMAGES, [{"N": 2, "H": 6, "W": 4}, {"N": 1, "H": 2, "W": 8}], tmp_path / "p")
    program = lowering.export_program(tmp_path / "p", IN_PIECES[name], {}, {}, IMAGES)
    with pytest.raises(ValueError, match=r"2\*floordiv\(H, 2\)"):
        program.call(data=np.ones((1, 3, 5, 4), "f"))


def test_a_flow_of_one_row_is_refused_by_the_program(tmp_path: Path):
    net = sym.GridGenerator(X, transform_type="warp")
    program = lowering.export_program(tmp_path / "p", net, {}, {}, {"data": ("N", 2, "H", "W")})
    with pytest.raises(ValueError, match="H.*2|constraint"):
        program.call(data=np.ones((1, 2, 1, 4), "f"))


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("channels", [1, 5, 300])
def test_a_window_of_one_element_over_images_of_any_size(channels: int, tmp_path: Path):
    """Which product is faster is no condition of the program."""
    data = sym.Variable("data")
    gate = sym.sigmoid(sym.Convolution(data, kernel=(1, 1), num_filter=channels))
    net = sym.Group([gate, sym.Deconvolution(data, kernel=(1, 1), num_filter=channels)])
    agree(net, IMAGES, [{"N": 2, "H": 9, "W": 12}, {"N": 1, "H": 1, "W": 2}], tmp_path / "p")


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("name", OVER_SEQUENCES)
def test_sequences_of_any_length(name: str, tmp_path: Path):
    sizes = [{"N": 2, "T": 5}, {"N": 1, "T": 3}, {"N": 3, "T": 1}]
    agree(OVER_SEQUENCES[name], {"data": ("N", "T", 6)}, sizes, tmp_path / "p")


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("mode", ["rnn_tanh", "lstm", "gru"])
def test_recurrent_cells_over_any_length_and_batch(mode: Any, tmp_path: Path):
    """As MXNet has them: steps first, and the first states as inputs."""
    states = ("state", "state_cell")[: 1 + (mode == "lstm")]
    net = sym.RNN(
        *(X, sym.Variable("w"), *map(sym.Variable, states)),
        mode=mode,
        state_size=4,
        num_layers=2,
        bidirectional=True,
        state_outputs=True,
        name="rnn",
    )
    shapes = {"data": ("T", "N", 3), **dict.fromkeys(states, (4, "N", 4))}
    agree(net, shapes, [{"T": 5, "N": 2}, {"T": 40, "N": 17}, {"T": 1, "N": 1}], tmp_path / "p")


# -- conditions and refusals -----------------------------------------------------------------------------------------


def test_a_program_says_which_sizes_its_operators_take(tmp_path: Path):
    """As the network does: fewer rows than it cuts out are an error, and no shorter piece."""
    net = sym.FullyConnected(sym.slice_axis(X, axis=0, begin=1, end=3), num_hidden=2, no_bias=True, name="fc")
    program = lowering.export_program(
        tmp_path / "p", net, {"fc_weight": np.ones((2, 4), "f")}, shapes={"data": ("N", 4)}
    )
    assert program.out_avals[0].shape == (2, 2)
    assert program.call(data=np.ones((3, 4), "f"))[0].shape == (2, 2)
    with pytest.raises(ValueError, match="N.*3|constraint"):
        program.call(data=np.ones((2, 4), "f"))


def test_conditions_that_exclude_each_other_are_refused(tmp_path: Path):
    net = sym.Group([sym.topk(X, k=5, axis=0), sym.linalg.gelqf(sym.slice_axis(X, axis=1, begin=0, end=3))[0]])
    with pytest.raises(LoweringError, match="More rows than columns.*operator '_linalg_gelqf'"):
        lowering.export_program(tmp_path / "p", net, {}, {}, {"data": ("N", 4)})


def test_who_exports_by_himself_is_told_the_condition():
    function = jax.jit(lowering.to_jax(sym.slice_axis(X, axis=0, begin=1, end=3, name="piece")))

    def exported(*constraints: str) -> Any:
        shape = jax.export.symbolic_shape("N, 4", scope=jax.export.SymbolicScope(constraints))
        return jax.export.export(function)({"data": jax.ShapeDtypeStruct(shape, "float32")})

    with pytest.raises(OpenSizeError, match="needs N >= 3.*operator 'slice_axis', node 'piece'.*constraints=") as told:
        exported()
    assert exported(told.value.condition).out_avals[0].shape == (2, 4)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (sym.squeeze(X, name="layer"), "open size that is 1.*'axis'.*operator 'squeeze', node 'layer'"),
        (sym.split_v2(X, 2, axis=0)[0], "open length N cannot be split.*operator '_split_v2'"),
        (sym.Reshape(X, shape=(2, -1, 3), name="layer"), "number of elements.*operator 'Reshape', node 'layer'"),
        (sym.contrib.fft(sym.transpose(X), name="layer"), "a known length.*operator '_contrib_fft', node 'layer'"),
        (sym.random.shuffle(X, name="layer"), "permutations of a known length.*node 'layer'"),
        (sym.diag(X, name="layer"), "operator 'diag', node 'layer'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value.list_outputs()[0],
)
def test_a_refusal_names_operator_and_node_and_the_way_out(net: Symbol, message: str, tmp_path: Path):
    with pytest.raises(LoweringError, match=f"cannot leave these sizes open.*{message}.*Give numbers"):
        lowering.export_program(tmp_path / "p", net, {}, {}, {"data": ("N", 3)})
    assert list(tmp_path.iterdir()) == []


def test_a_factor_that_is_rounded_is_refused_for_open_sizes(tmp_path: Path):
    net = sym.contrib.BilinearResize2D(X, scale_height=2.0, scale_width=1.1)
    with pytest.raises(LoweringError, match="factor 1.1.*rounded"):
        lowering.export_program(tmp_path / "p", net, {}, {}, IMAGES)


def test_a_network_keeps_the_labels_whose_shape_is_given(tmp_path: Path):
    net = sym.LinearRegressionOutput(X, sym.Variable("label"), name="head")
    program = lowering.export_program(tmp_path / "p", net, {}, {}, {"data": ("N", 2), "label": ("N", 2)})
    data = np.ones((3, 2), "f")
    np.testing.assert_array_equal(program.call(data=data, label=data)[0], data)
