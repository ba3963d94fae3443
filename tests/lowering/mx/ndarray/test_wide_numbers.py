"""Numbers of 64 bits where JAX has 32: an error at every way in, and nothing of a file is lost."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import mx
from lowering.jax_casts import TooWideError
from symjax_nnvm import symbol as sym

BIG = 2**40 + 3
pytestmark = pytest.mark.filterwarnings("ignore::symjax_nnvm.NarrowedDtypeWarning")

DATA = sym.Variable("data")
WIDE = np.array([BIG, 5])


def _written(value: Any, key: Any = slice(None)) -> mx.nd.NDArray:
    array = mx.nd.array([1, 2], dtype="int64")
    array[key] = value
    return array


def _forward(**inputs: np.ndarray) -> Any:
    return (mx.sym.var("data") + 0).simple_bind(mx.cpu(), data=(2,), type_dict={"data": "int64"}).forward(**inputs)


def _argument(value: np.ndarray) -> Any:
    executor = lowering.simple_bind(DATA + 0, data=(2,), type_dict={"data": "int64"})
    executor.arg_dict["data"] = value
    return executor.forward()


def _module_output(value: np.ndarray) -> Any:
    module = mx.mod.Module(mx.sym.var("data") * 1, data_names=["data"], label_names=None)
    module.bind([mx.io.DataDesc("data", (2,), dtype="int64")], for_training=False)
    module.init_params()
    module.forward(mx.io.DataBatch([value]))  # pyright: ignore[reportArgumentType]


WAYS_IN: dict[str, Callable[[], Any]] = {
    "array": lambda: mx.nd.array([BIG], dtype="int64"),
    "array_of_numpy": lambda: mx.nd.array(WIDE, dtype=np.int64),
    "array_of_floats": lambda: mx.nd.array([3e9], dtype="int64"),
    "unsigned": lambda: mx.nd.array(np.array([2**32 + 5], np.uint64), dtype="uint64"),
    "float64": lambda: mx.nd.array([1e300], dtype="float64"),
    "full": lambda: mx.nd.full((1,), BIG, dtype="int64"),
    "arange": lambda: mx.nd.arange(2**31, 2**31 + 2, dtype="int64"),
    "from_numpy": lambda: mx.nd.from_numpy(WIDE.copy()),
    "from_dlpack": lambda: mx.nd.from_dlpack(WIDE.copy()),
    "from_dlpack_capsule": lambda: mx.nd.from_dlpack(WIDE.copy().__dlpack__()),
    "write": lambda: _written(BIG),
    "write_array": lambda: _written(WIDE),
    "write_list": lambda: _written([BIG, 1]),
    "write_part": lambda: _written(BIG, 0),
    "write_slice": lambda: _written(WIDE[:1], slice(0, 1)),
    "plus": lambda: mx.nd.array([1], dtype="int64") + BIG,
    "compare": lambda: mx.nd.array([1], dtype="int64") > BIG,
    "maximum": lambda: mx.nd.maximum(mx.nd.array([1], dtype="int64"), BIG),
    "numpy_number": lambda: np.add(mx.nd.array([1], dtype="int64"), np.int64(BIG)),
    "one_hot": lambda: mx.nd.one_hot(mx.nd.array([1]), 3, on_value=BIG, dtype="int64"),
    "symbol_full": lambda: mx.sym.full((1,), BIG, dtype="int64").eval(),
    "symbol_arange": lambda: mx.sym.arange(2**31, 2**31 + 2, dtype="int64").eval(),
    "executor_forward": lambda: _forward(data=WIDE),
    "executor_argument": lambda: _argument(WIDE),
    "module": lambda: _module_output(WIDE),
    "bind": lambda: lowering.bind(DATA + 0, "cpu", {"data": WIDE}),
    "to_jax": lambda: lowering.to_jax(DATA + 0)({"data": WIDE}),
    "compile": lambda: lowering.compile(DATA + 0)({"data": WIDE}),
    "compile_float64": lambda: lowering.compile(DATA + 0)({"data": np.array([1e300])}),
    "compile_list": lambda: lowering.compile(DATA + 0)({"data": [BIG]}),
    "grad_fn": lambda: lowering.grad_fn(DATA + 0, [])({"data": WIDE}),
    "predictor": lambda: lowering.Predictor(DATA + 0, {}, {})(data=WIDE),
    "predictor_parameter": lambda: lowering.Predictor(DATA + sym.Variable("w"), {"w": WIDE}, {}),
    "trainer": lambda: lowering.Trainer(DATA + sym.Variable("w"), "sgd").init(0, {"w": WIDE}, data=(2,)),
    "data_loader": lambda: next(iter(mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(WIDE), batch_size=1))),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_a_number_that_needs_64_bits_is_an_error_at_every_way_in(way: str):
    with pytest.raises(TooWideError, match="JAX_ENABLE_X64=1"):
        WAYS_IN[way]()


def test_with_64_bits_the_same_numbers_are_kept():
    with jax.enable_x64(True):
        for way in ("array", "array_of_numpy", "full", "from_numpy", "from_dlpack_capsule", "write", "plus"):
            assert int(WAYS_IN[way]().asnumpy()[0]) in (BIG, BIG + 1)


def test_an_error_of_a_parameter_names_operator_and_node():
    with pytest.raises(TooWideError, match=f"int32 does not hold {BIG}.*'_plus_scalar', node 'added'"):
        lowering.to_jax(sym._plus_scalar(DATA, scalar=BIG, name="added"))({"data": np.array([1], np.int32)})


def test_narrower_integers_wrap_as_in_mxnet():
    bytes_ = mx.nd.array([250, 5], dtype="uint8")
    assert (bytes_ + 300).asnumpy().tolist() == [38, 49]
    assert (bytes_ + 10.7).asnumpy().tolist() == [4, 15]
    bytes_[:] = 300.7
    assert bytes_.asnumpy().tolist() == [44, 44]
    bytes_[0] = -1
    assert bytes_.asnumpy().tolist() == [255, 44]
    bytes_[:] = np.array([300.7, -1.0])
    assert bytes_.asnumpy().tolist() == [44, 255]
    mx.nd.array([-1, 256.5]).copyto(bytes_)
    assert bytes_.asnumpy().tolist() == [255, 0]
    assert mx.nd.array([256.0, -1.0, 300.7]).astype("uint8").asnumpy().tolist() == [0, 255, 44]
    one = mx.nd.ones(1)
    assert bytes_.astype(one).dtype is np.float32
    assert one.astype(one, copy=False) is one  # as Sockeye's losses do


DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    arrays = {dtype: np.array([1, 0, 1]).astype(dtype) for dtype in DTYPES}
    arrays |= {"int64": np.array([BIG, -5, 2**62 + 1]), "float64": np.array([1 / 3, 1e300, -0.0])}
    nn.save_arrays(tmp_path / "given.params", arrays)
    return tmp_path / "given.params"


def test_load_then_save_loses_nothing(file: Path, tmp_path: Path):
    arrays = mx.nd.load(str(file))
    assert isinstance(arrays, dict)
    assert [array.dtype for array in arrays.values()] == [np.dtype(dtype).type for dtype in DTYPES]
    mx.nd.save(str(tmp_path / "saved"), arrays)
    assert (tmp_path / "saved").read_bytes() == file.read_bytes()
    mx.nd.save(str(tmp_path / "copies"), {name: array.copy() for name, array in arrays.items()})
    assert (tmp_path / "copies").read_bytes() == file.read_bytes()
    assert pickle.loads(pickle.dumps(arrays["int64"])).asnumpy().tolist() == [BIG, -5, 2**62 + 1]


def test_a_loaded_array_is_narrowed_where_it_is_computed_with(tmp_path: Path):
    nn.save_arrays(tmp_path / "file", [np.array([1 / 3, 2.0]), np.array([7, 5]), WIDE])
    arrays = mx.nd.load(str(tmp_path / "file"))
    assert isinstance(arrays, list)
    x, ids, big = arrays
    assert (ids.dtype, (ids + 1).dtype, ids[:1].dtype) == (np.int64, np.int32, np.int64)
    with pytest.raises(TooWideError, match=str(BIG)):
        big.sum()
    big.wait_to_read()  # computes nothing
    x.attach_grad()
    with mx.autograd.record():
        y = (x * 2).sum()
    y.backward()
    assert np.asarray(x.grad).tolist() == [2, 2]
    ids[0] = 9
    assert (ids.dtype, ids.asnumpy().tolist()) == (np.int64, [9, 5])
    x[:] = 3
    assert (x.dtype, x.asnumpy().tolist()) == (np.float64, [3, 3])


class Scaled(mx.gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.w = self.params.get("w", shape=(2,), dtype="float64", init="ones")
        self.ids = self.params.get("ids", shape=(2,), dtype="int64", init="zeros", grad_req="null")

    def hybrid_forward(self, F: Any, x: Any, w: Any, ids: Any) -> Any:
        return x * w


def test_blocks_and_checkpoints_keep_the_width_of_their_files(tmp_path: Path):
    given, saved = str(tmp_path / "given"), str(tmp_path / "saved")
    nn.save_arrays(given, {"w": np.array([1 / 3, 2.0]), "ids": WIDE})
    net = Scaled()
    net.load_parameters(given)
    net(mx.nd.array([1, 2], dtype="float64"))
    net.save_parameters(saved)
    assert Path(saved).read_bytes() == Path(given).read_bytes()
    net = Scaled()
    net.initialize()
    net(mx.nd.array([1, 2], dtype="float64"))
    net.load_parameters(given)
    net.save_parameters(saved)
    assert Path(saved).read_bytes() == Path(given).read_bytes()
    given, saved = f"{given}-net", f"{saved}-net"
    nn.save_checkpoint(given, 0, DATA * sym.Variable("w"), {"w": np.array([1 / 3, 2.0])}, {})
    mx.model.save_checkpoint(saved, 0, *mx.model.load_checkpoint(given, 0))
    nn.Model.load(given, 0).save(f"{saved}2", 0)
    assert len({Path(f"{prefix}-0000.params").read_bytes() for prefix in (given, saved, f"{saved}2")}) == 1


def test_a_parameter_of_64_bits_is_trained_in_32_and_set_again(tmp_path: Path):
    net = Scaled()
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    x = mx.nd.array([1, 2], dtype="float64")
    with mx.autograd.record():
        loss = net(x).sum()
    loss.backward()
    trainer.step(1)
    assert net.w.data().asnumpy().tolist() == [0.5, 0]
    net.w.set_data(mx.nd.array([3, 4], dtype="float64"))
    assert net(x).asnumpy().tolist() == [3, 8]
    nn.save_arrays(tmp_path / "file", {"w": np.array([1 / 3, 2.0]), "ids": np.array([1, 2])})
    net.load_parameters(str(tmp_path / "file"))
    np.testing.assert_allclose(net(x).asnumpy(), [1 / 3, 4], rtol=1e-6)
    assert net.w.data().asnumpy().tolist() == [1 / 3, 2]


def test_a_parameter_of_64_bits_that_was_computed_in_32_is_saved_in_64(tmp_path: Path):
    net = Scaled()
    net.initialize()
    net.save_parameters(str(tmp_path / "file"))
    arrays = nn.load_arrays(tmp_path / "file")
    assert isinstance(arrays, dict)
    assert {name: array.dtype.name for name, array in arrays.items()} == {"w": "float64", "ids": "int64"}


@pytest.mark.filterwarnings("ignore::symjax_nnvm.errors.NarrowedDtypeWarning")
@pytest.mark.parametrize("how", ["cast", "saved"])
def test_a_parameter_whose_arrays_exist_takes_64_bits_and_saves_them(how: str, tmp_path: Path):
    """The values are MXNet 1.9.1's."""
    weight = np.array([[1.0, 1 / 3]])
    nn.save_arrays(tmp_path / "a.params", {"weight": weight})
    net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
    net.initialize()
    if how == "cast":
        net.cast("float64")
        net.load_parameters(str(tmp_path / "a.params"))
    else:
        net.load_parameters(str(tmp_path / "a.params"), cast_dtype=True, dtype_source="saved")
    net.save_parameters(str(tmp_path / "b.params"))
    saved: Any = mx.nd.load(str(tmp_path / "b.params"))
    for array in (net.weight.data(), saved["weight"]):
        assert array.dtype == np.float64
        assert array.asnumpy().tolist() == weight.tolist()
    assert net(mx.nd.array([[1, 3]], dtype="float64")).asnumpy().item() == 2


def test_a_loaded_array_that_needs_64_bits_is_written(tmp_path: Path):
    """The values are MXNet 1.9.1's."""
    nn.save_arrays(tmp_path / "a", [np.array([2**40 + 3, 2**41])])
    wide = np.array([2**40 + 5, 7], np.int64)
    writes: list[tuple[Any, Any, list[int]]] = [
        (slice(None), 5, [5, 5]),
        (..., 5, [5, 5]),
        (0, 5, [5, 2**41]),
        (slice(1, 2), 2.5, [2**40 + 3, 2]),
        (slice(None), np.array([1, 2]), [1, 2]),
        (slice(None), wide, wide.tolist()),
        (slice(None), mx.nd.array([1, 2]), [1, 2]),
    ]
    for key, value, expected in writes:
        (array,) = mx.nd.load(str(tmp_path / "a"))
        assert isinstance(array, mx.nd.NDArray)
        array[key] = value
        assert array.dtype == np.int64
        assert array.asnumpy().tolist() == expected


@pytest.fixture
def loaded(tmp_path: Path) -> Any:
    """[2⁴⁰+3, 5] of int64 and [1/3, 2] of float64, of a file."""
    nn.save_arrays(tmp_path / "file", [WIDE, np.array([1 / 3, 2.0])])
    return mx.nd.load(str(tmp_path / "file"))


def _added(array: Any) -> None:
    array += 1


def _subtracted(array: Any) -> None:
    array -= 2**40


def _added_itself(array: Any) -> None:
    array += array


def _added_of_32_bits(array: Any) -> None:
    array += mx.nd.array([1, 2], dtype=array.dtype)


def _part_added(array: Any) -> None:
    array[1:] += 3


def _view_written(array: Any) -> None:
    array[:1][:] = 5


def _part_of_a_view_written(array: Any) -> None:
    array.reshape((2, 1))[1:][0] = 2**41


def _copied(array: Any) -> None:
    mx.nd.array([8, 9], dtype=array.dtype).copyto(array)


def _of_its_own_part(array: Any) -> None:
    array[1:] = array[:1]


WRITES: dict[Callable[[Any], None], tuple[list[Any], list[Any]]] = {
    _added: ([BIG + 1, 6], [4 / 3, 3.0]),
    _subtracted: ([3, 5 - 2**40], [1 / 3 - 2**40, 2.0 - 2**40]),
    _added_itself: ([2 * BIG, 10], [2 / 3, 4.0]),
    _added_of_32_bits: ([BIG + 1, 7], [4 / 3, 4.0]),
    _part_added: ([BIG, 8], [1 / 3, 5.0]),
    _view_written: ([5, 5], [5.0, 2.0]),
    _part_of_a_view_written: ([BIG, 2**41], [1 / 3, 2.0**41]),
    _copied: ([8, 9], [8.0, 9.0]),
    _of_its_own_part: ([BIG, BIG], [1 / 3, 1 / 3]),
}


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__[1:])
def test_what_is_written_to_a_loaded_array_keeps_its_64_bits(write: Callable[[Any], None], loaded: Any):
    for array, expected in zip(loaded, WRITES[write], strict=True):
        dtype = array.dtype
        write(array)
        assert (array.dtype, array.asnumpy().dtype, array.asnumpy().tolist()) == (dtype, dtype, expected)


def test_a_part_of_a_loaded_array_is_read_and_saved_with_its_64_bits(loaded: Any, tmp_path: Path):
    part = loaded[0][:1]
    assert (part.dtype, part.asnumpy().tolist(), part.copy().asnumpy().tolist()) == (np.int64, [BIG], [BIG])
    mx.nd.save(str(tmp_path / "part"), {"part": part})
    assert mx.nd.load(str(tmp_path / "part"))["part"].asnumpy().tolist() == [BIG]  # pyright: ignore
    with pytest.raises(TooWideError, match=str(BIG)):
        part.sum()


def test_a_result_under_record_writes_32_bits(loaded: Any):
    _, floats = loaded
    with mx.autograd.record():
        floats += 1
    assert (floats.dtype, floats.asnumpy().tolist()) == (np.float32, [np.float32(1 / 3) + 1, 3.0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float64_parameters_of_a_file_are_bound_beside_data_of_32_bits(dtype: str, tmp_path: Path):
    nn.save_arrays(tmp_path / "wide", {"w": np.array([2.0, 3.0])})
    weight = mx.nd.load(str(tmp_path / "wide"))["w"]  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert weight.dtype == np.float64
    args = {"x": mx.nd.array([5, 7], dtype=dtype), "w": weight}
    with pytest.warns(nn.NarrowedDtypeWarning, match="float64 became float32"):
        executor = (mx.sym.var("x") * mx.sym.var("w")).bind(mx.cpu(), args, {"w": weight.zeros_like()})
    (output,) = executor.forward(is_train=True)
    executor.backward([mx.nd.ones(2, dtype=dtype)])
    assert (output.dtype, output.asnumpy().tolist()) == (np.float32, [10, 21])
    assert executor.grad_dict["w"].asnumpy().tolist() == [5, 7]
    with pytest.raises(nn.BindError, match="The gradient array does not fit"):
        (mx.sym.var("x") * mx.sym.var("w")).bind(mx.cpu(), args, {"w": mx.nd.zeros(2, dtype="float16")})
