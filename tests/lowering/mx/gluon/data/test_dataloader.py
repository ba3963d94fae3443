"""DataLoader: batches, threads that make them ahead, time limits and what is refused."""

import gc
import multiprocessing
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx.gluon.data import (
    ArrayDataset,
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    dataloader,
)
from lowering.mx.gluon.data.dataloader import WorkerTimeoutError, default_batchify_fn, default_mp_batchify_fn
from lowering.mx.gluon.data.dataset import DownloadedDataset, _TransformFirstClosure
from lowering.mx.gluon.data.vision import transforms
from symjax_nnvm.errors import NNVMError, ParamError


def batches(loader: DataLoader) -> list[Any]:
    return [batch.asnumpy().tolist() for batch in loader]


def test_samples_become_arrays_in_their_dtypes():
    data = np.arange(10, dtype=np.float16).reshape(5, 2)
    pairs = ArrayDataset(data, np.arange(5, dtype=np.uint8))
    found = list(DataLoader(pairs, 2))
    assert len(found) == 3
    x, y = found[0]
    assert (x.dtype, y.dtype, x.context) == (np.float16, np.uint8, mx.cpu())
    np.testing.assert_array_equal(x.asnumpy(), data[:2])
    arrays = default_batchify_fn([mx.nd.ones((2, 3), dtype="uint8"), mx.nd.zeros((2, 3), dtype="uint8")])
    assert (arrays.shape, arrays.dtype) == ((2, 2, 3), np.uint8)
    (nested, labels), number = default_mp_batchify_fn([((1.5, 2), 3), ((4.5, 5), 6)])
    assert (nested.asnumpy().tolist(), labels.asnumpy().tolist()) == ([1.5, 4.5], [2, 5])
    assert number.dtype == np.int32  # which Python's numbers are in NumPy, less 32 bits


class Doubled(ArrayDataset):
    """Items that are not the arrays' own."""

    def __getitem__(self, idx: Any) -> Any:
        return 2 * super().__getitem__(idx)


def assert_batch_is_of_samples(dataset: Dataset, numbers: list[int]) -> None:
    (made,) = DataLoader(dataset, batch_sampler=[numbers])
    samples = default_batchify_fn([dataset[i] for i in numbers])
    pairs = zip(made, samples, strict=True) if isinstance(samples, list) else [(made, samples)]
    for array, other in pairs:
        assert (array.dtype, array.context, type(array)) == (other.dtype, other.context, type(other))
        np.testing.assert_array_equal(array.asnumpy(), other.asnumpy())


def test_batches_of_arrays_are_those_of_their_samples():
    x, y = mx.nd.array(np.arange(24).reshape(6, 2, 2)), np.arange(6.0)
    x[1] = 7
    rows = [ArrayDataset(x), ArrayDataset(y), ArrayDataset(x[1:], mx.nd.array(y[1:], dtype="int8"))]
    rows += [ArrayDataset(x.astype("float16"), y.astype("int32"), y > 3), Doubled(x), ArrayDataset([1, 2, 3, 4])]
    rows.append(ArrayDataset(x.as_np_ndarray()))
    for dataset in rows:
        assert_batch_is_of_samples(dataset, [3, 0, -1])
    with pytest.raises(IndexError):
        next(iter(DataLoader(rows[0], batch_sampler=[[6]])))


class Inverted(transforms.ToTensor):
    """A transform of a caller's."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return 1 - super().hybrid_forward(F, x)


class Pictures(DownloadedDataset):
    """Images and labels, as MNIST has them."""

    def _get_data(self) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3))
        self._data, self._label = mx.nd.array(pixels, dtype="uint8"), np.arange(6, dtype=np.int32)


def hooked() -> transforms.ToTensor:
    transform = transforms.ToTensor()
    transform.register_forward_hook(lambda *_: None)
    return transform


TO_TENSOR, NORMALIZE = transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), 0.5)
INVERT: Any = lambda image: 1 - image  # noqa: E731


@pytest.mark.parametrize(
    ("transform", "once"),
    [
        (TO_TENSOR, True),
        (transforms.Cast("float16"), True),
        (transforms.Compose([TO_TENSOR, NORMALIZE]), True),
        (transforms.Compose([TO_TENSOR, transforms.Compose([NORMALIZE]), transforms.Cast("float16")]), True),
        (Inverted(), False),
        (hooked(), False),
        (lambda image: image.astype("float32") / 255, False),
        (transforms.Compose([TO_TENSOR, INVERT]), False),
    ],
)
def test_transforms_that_compute_each_image_alike_are_called_once_for_a_batch(
    transform: Any, once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pictures = Pictures(tmp_path, None)
    dataset = pictures.transform_first(transform)
    assert_batch_is_of_samples(dataset, [3, 0, -1])
    assert_batch_is_of_samples(dataset.take(4), [3, 0, -1])
    assert_batch_is_of_samples(ArrayDataset(pictures._data).transform_first(transform), [3, 0, -1])
    called: list[Any] = []
    monkeypatch.setattr(_TransformFirstClosure, "__call__", lambda self, *sample: called.append(self) or sample)
    next(iter(DataLoader(dataset, 3)))
    assert len(called) == (0 if once else 3)


def test_what_is_no_batch_of_images_is_transformed_one_by_one():
    with pytest.raises(NNVMError):  # an image of two axes, of which a batch would be taken for an image
        next(iter(DataLoader(ArrayDataset(mx.nd.ones((4, 5, 6))).transform_first(TO_TENSOR), 2)))
    with pytest.raises(NNVMError, match="one NDArray or one Symbol"):  # as of one sample
        next(iter(DataLoader(ArrayDataset(np.ones((4, 5, 6, 3), "uint8")).transform_first(TO_TENSOR), 2)))


@pytest.mark.parametrize("workers", [0, 3])
def test_workers_keep_the_order_and_what_rolls_over(workers: int):
    loader = DataLoader(range(7), 3, last_batch="rollover", num_workers=workers)
    assert batches(loader) == [[0, 1, 2], [3, 4, 5]]
    assert batches(loader) == [[6, 0, 1], [2, 3, 4]]
    assert len(loader) == 3
    assert batches(DataLoader(range(4), batch_sampler=[[3, 1], [0]], num_workers=workers)) == [[3, 1], [0]]


@pytest.mark.parametrize("thread_pool", [True, False])
def test_workers_are_threads_that_lambdas_run_in(thread_pool: bool):
    names: set[str] = set()

    class Threads(Dataset):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, idx: int) -> Any:
            names.add(threading.current_thread().name)
            assert not mx.autograd.is_recording()
            return mx.nd.full((2,), idx)

    loader = DataLoader(Threads().transform(lambda x: x + 1), 4, num_workers=2, thread_pool=thread_pool)
    with mx.autograd.record():
        found = [batch.asnumpy()[:, 0].tolist() for batch in loader]
    assert found == [[float(4 * i + j + 1) for j in range(4)] for i in range(10)]
    assert names <= {"DataLoader_0", "DataLoader_1"}
    assert names


def test_a_batch_that_is_late_is_told():
    release = threading.Event()

    class Late(Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, idx: int) -> int:
            release.wait(30)
            return idx

    loader = DataLoader(Late(), 1, num_workers=1, timeout=0.05)
    try:
        with pytest.raises(WorkerTimeoutError, match="Worker timed out after 0.05 seconds"):
            next(iter(loader))
    finally:
        release.set()
    assert issubclass(WorkerTimeoutError, multiprocessing.TimeoutError)
    with pytest.raises(AssertionError, match="timeout must be positive, given 0"):
        DataLoader([1], 1, timeout=0)


def test_what_a_data_set_raises_comes_out_and_the_loader_goes_on():
    def once(x: int, failures: list[int] = [3]) -> int:  # noqa: B006
        if x in failures:
            failures.remove(x)
            raise TimeoutError("of the data set itself")
        return x

    loader = DataLoader(ArrayDataset(range(6)).transform(once), 2, num_workers=2)
    with pytest.raises(TimeoutError, match="of the data set itself"):
        list(loader)
    assert batches(loader) == [[0, 1], [2, 3], [4, 5]]


def test_a_loop_that_is_left_early_makes_no_more_batches():
    made: list[int] = []

    def slow(x: int) -> int:
        made.append(x)
        return x

    loader = DataLoader(ArrayDataset(range(100)).transform(slow), 1, num_workers=1, prefetch=50)
    iterator = iter(loader)
    next(iterator)
    iterator.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert batches(loader) == [[i] for i in range(100)]
    assert len(made) < 152


@pytest.mark.nightly("computes much")
def test_the_iterator_keeps_its_loader_and_threads_end_with_it():
    loader = DataLoader(mx.nd.ones((5,)), 2, num_workers=1, batchify_fn=lambda samples: samples)
    assert loader._worker_pool is not None
    (thread,) = loader._worker_pool.threads
    reference, iterator = weakref.ref(loader), iter(loader)
    del loader
    assert len(next(iterator)) == 2
    assert reference() is not None
    del iterator
    gc.collect()
    assert reference() is None
    thread.join(30)
    assert not thread.is_alive()


def test_an_epoch_begins_before_it_is_asked_for():
    begun = threading.Event()

    def note(x: int) -> int:
        begun.set()
        return x

    loader = DataLoader(ArrayDataset(range(3)).transform(note), 1, num_workers=1, auto_reload=True)
    assert begun.wait(30)
    assert batches(loader) == batches(loader) == [[0], [1], [2]]
    loader.clean()
    assert batches(loader) == [[0], [1], [2]]


def test_pinned_arrays_say_so():
    ((x, y),) = DataLoader(ArrayDataset([1.0], [2]), 1, pin_memory=True, pin_device_id=2)
    assert x.context == y.context == mx.cpu_pinned(2)


def test_parameters_that_exclude_each_other():
    with pytest.raises(ParamError, match="batch_size must be specified unless batch_sampler"):
        DataLoader([1])
    with pytest.raises(ParamError, match="shuffle must not be specified if sampler"):
        DataLoader([1], 1, shuffle=True, sampler=RandomSampler(1))
    with pytest.raises(ParamError, match="must not be specified if batch_sampler is specified"):
        DataLoader([1], 1, batch_sampler=BatchSampler(SequentialSampler(1), 1))


@pytest.mark.parametrize("make", [np.ones, mx.nd.ones])
def test_samples_of_different_shapes_are_told(make: Any):
    loader = DataLoader([(make((2,)), 0), (make((3,)), 1)], batch_size=2)
    with pytest.raises(
        ParamError, match=r"different shapes; got \[\(2,\), \(3,\)\]. Give the loader a batchify_fn= that pads"
    ):
        next(iter(loader))


def test_a_shuffled_epoch_has_numpys_order():
    np.random.seed(3)
    found = batches(DataLoader(range(6), 6, shuffle=True))
    np.random.seed(3)
    order = np.arange(6)
    np.random.shuffle(order)
    assert found == [order.tolist()]


def test_a_loader_with_processes_of_its_own_is_refused_when_it_is_made():
    """Libraries derive from MXNet's private iterator when they are imported."""

    class Loads(dataloader._MultiWorkerIter):
        pass

    with pytest.raises(ValueError, match="Give it num_workers=0"):
        Loads(None, None, None)


STUCK = """
import signal, sys, time
from lowering import mx

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it

class Stuck(mx.gluon.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): time.sleep(3600)

def stuck():
    "An iterator whose worker sleeps for an hour."
    if sys.argv[1] == "loader":
        return iter(mx.gluon.data.DataLoader(Stuck(), 1, num_workers=2, timeout=float(sys.argv[2])))
    iterator = mx.io.NDArrayIter(mx.nd.ones((4, 1)), batch_size=2)
    iterator.next = lambda: time.sleep(3600)
    return mx.io.PrefetchingIter(iterator)

batches = stuck()
print("started", flush=True)
try:
    next(batches)
except mx.MXNetError as error:
    print(type(error).__name__, flush=True)
"""


@pytest.mark.nightly("processes that wait")
@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("source", ["loader", "prefetching"])
def test_a_worker_that_is_stuck_does_not_keep_the_process(source: str):
    """Neither after the timeout and the last line, nor when it is interrupted."""
    timeout = "0.1" if source == "loader" else "3600"
    child = subprocess.Popen([sys.executable, "-c", STUCK, source, timeout], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        if source == "prefetching":
            child.send_signal(signal.SIGINT)
        try:
            output, _ = child.communicate(timeout=60)
        finally:
            child.kill()
    assert (output, child.returncode) == {
        "loader": ("WorkerTimeoutError\n", 0),
        "prefetching": ("", -signal.SIGINT),
    }[source]
