"""A predictor's folder: all of the old or all of the new, and nothing of a stranger's is run."""

import copy
import hashlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.serving import archive, predictor
from lowering.serving import constant_store as constants
from lowering.serving.archive import MAX_BYTES, MAX_SIGNATURES, Folder, Signature, read_folder, write_folder
from lowering.xla.compile_options import options_for
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import FileError, NNVMError, SymbolValueError
from symjax_nnvm.mxnet.params_files import save_arrays
from tests.fuzz.contract import check_message
from tests.lowering.convolutions.test_onednn import needs_onednn

_CHANGES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "fcntl.flock")


def content(which: int) -> Folder:
    """One of two, which differ in every file, and in how many there are."""
    net = sym.Variable("data") * sym.Variable("w", attr={"which": str(which)})
    array = np.full(4, which, "float32")
    signature = Signature({"data": ((4,), "float32")}, False)
    return Folder((net, {"w": array}, {}), {"platform": None, "dtype": None}, [signature] * (1 + which), {"v": array})


def which_of(path: Path) -> int:
    """Whose content is there; every part must be of the same."""
    found = read_folder(path)
    net, args, _ = found.network
    (which,) = {
        int(net.get_internals()["w"].attr("which") or -1),
        *(int(array[0]) for array in (args["w"], *found.values.values())),
        len(found.signatures) - 1,
    }
    return which


def killed(at: int, action: Callable[[], Any]) -> bool:
    """Whether a process that does it is killed when it opens, renames, makes or removes for the time `at`."""
    child = os.fork()
    if child == 0:
        left = [at]

        def count(event: str, _: Any) -> None:
            if event in _CHANGES:
                left[0] -= 1
                if left[0] == 0:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            action()
            os._exit(0)
        except BaseException:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


@pytest.mark.nightly("kills processes")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:os.fork")
@pytest.mark.parametrize(
    "old", [pytest.param(True, id="older", marks=pytest.mark.nightly("the same again")), pytest.param(False, id="now")]
)
def test_a_save_that_is_killed_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path, old: bool):
    place = tmp_path / "served"

    def begin() -> None:
        write_folder(place, content(0))
        if old:
            as_version_2(place)

    begin()
    found = []
    while killed(len(found) + 1, lambda: write_folder(place, content(1))):
        found.append(which_of(place))
        if found[-1]:
            begin()
    assert which_of(place) == 1
    assert len(found) > 15
    assert found == sorted(found), "once the new is there, it stays"
    assert set(found) == {0, 1}
    write_folder(place, content(0))
    assert sorted(path.name.rstrip("0123456789") for path in place.iterdir()) == ["predictor.json", "saved-"]


def as_version_2(place: Path) -> None:
    """The folder as it was written before: all files beside the list, programs among them."""
    about = json.loads((place / "predictor.json").read_text())
    files = place / about.pop("files")
    for file in files.iterdir():
        file.rename(place / file.name)
    files.rmdir()
    (place / "signature-0.stablehlo").write_bytes(b"a program")
    (place / "predictor.json").write_text(json.dumps(about | {"version": 2}))


def test_readers_find_one_content_whoever_writes(tmp_path: Path):
    write_folder(tmp_path, content(0))
    done = threading.Event()
    found: list[int] = []

    def read() -> None:
        while not done.wait(0.001):
            found.append(which_of(tmp_path))

    def write() -> None:
        for turn in range(4):
            write_folder(tmp_path, content(turn % 2))

    reader, writers = threading.Thread(target=read), [threading.Thread(target=write) for _ in range(2)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert which_of(tmp_path) in (0, 1)
    assert set(found) == {0, 1}


# -- a stranger's ----------------------------------------------------------------------------------------------------

NET = sym.FullyConnected(sym.Variable("data"), sym.exp(sym.Variable("w")), num_hidden=2, no_bias=True, name="fc")
X = np.arange(6, dtype="float32").reshape(2, 3)
RIGHT = np.full((2, 2), X.sum(1, keepdims=True), "float32")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The folder of a predictor whose weights were a number, made once."""

    @cache
    def save(number: int) -> Path:
        place = tmp_path_factory.mktemp("saved") / "served"
        lowering.Predictor(NET, {"w": np.full((2, 3), number, "float32")}).warm(data=X.shape).save(place)
        return place

    return save


@pytest.fixture
def served(tmp_path: Path, saved: Callable[[int], Path]) -> Path:
    """A folder whose predictor gives RIGHT of X."""
    return shutil.copytree(saved(0), tmp_path / "served")


def predicted(place: Path) -> np.ndarray:
    return np.asarray(lowering.Predictor.load(place)(data=X)[0])


def about(place: Path) -> Any:
    return json.loads((place / "predictor.json").read_text())


def rewritten(place: Path, **changes: Any) -> None:
    (place / "predictor.json").write_text(json.dumps(about(place) | changes))


HOSTILE = [
    *(None, True, False, -1, 0, 1, 3, 2**31, 2**63, -(2**63), 10**400, 1.5, float("nan"), float("inf")),
    *("", "..", "../../x", "a\0b", "\ud800", "x" * 70_000, "cpu", "tpu", "float64", "<f4", "O", "saved-2"),
    *([], {}, [[]], {"": {}}, [2**40], [-1], [1] * 100, [[2, 3], "float32", 1], {"data": [[2**31, 2**31], "float32"]}),
    *([{"inputs": {}, "key": False}] * 2, [[[[[[[[[[]]]]]]]]]]),
]
NESTED = "[" * 5000 + "]" * 5000


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(each, (*path, key))


def mutants(whole: Any) -> Iterator[str]:
    """Texts of `predictor.json` in which one value is another, or is not there."""
    for path in [*places(whole)][1:]:
        for value in (*HOSTILE, ...):
            mutant = copy.deepcopy(whole)
            inner = mutant
            for key in path[:-1]:
                inner = inner[key]
            if value is ...:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            yield json.dumps(mutant)
    yield from (
        "",
        "null",
        "3",
        "[",
        "[]",
        "{}",
        NESTED,
        '{"version": 6',
        "\ufeff{}",
        '{"version": 6, "options": ' + NESTED,
    )


@pytest.mark.slow("compiles")
def test_mutants_of_the_list_give_the_same_predictions_or_an_error_of_the_family(served: Path):
    told, same = 0, 0
    for text in mutants(about(served)):
        (served / "predictor.json").write_text(text)
        try:
            predict = lowering.Predictor.load(served)
        except NNVMError as error:
            check_message(error)
            told += 1
            continue
        assert len(predict._ready) == 0, "nothing is compiled before it is asked for"
        same += 1
        np.testing.assert_array_equal(predict(data=X)[0], RIGHT)
    assert told > 600
    assert same > 15


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["net-symbol.json", "net-0000.params", "computed.params"])
def test_files_that_are_not_as_they_were_saved_are_told(served: Path, name: str):
    (member,) = served.rglob(name)
    whole = member.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 12)):
        member.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(FileError, match=f"{name} as it was saved, CRC-32"):
            lowering.Predictor.load(served)
        member.write_bytes(whole[:at])
        with pytest.raises(FileError, match=f"{name} of {len(whole)} bytes"):
            lowering.Predictor.load(served)
    member.unlink()
    with pytest.raises(FileError, match=f"a file {name}"):
        lowering.Predictor.load(served)
    os.mkfifo(member)
    with pytest.raises(FileError):
        lowering.Predictor.load(served)
    member.unlink()
    with member.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileError, match="bytes"):
        lowering.Predictor.load(served)
    member.write_bytes(whole)
    np.testing.assert_array_equal(predicted(served), RIGHT)


@pytest.mark.parametrize("name", ["net-symbol.json", "net-0000.params", "computed.params"])
def test_a_member_that_the_memory_could_not_hold_is_not_summed(name: str, served: Path):
    """It takes nothing on the disk: its list says its size, and summing four terabytes takes an hour."""
    (member,) = served.rglob(name)
    with member.open("r+b") as file:
        file.truncate(1 << 42)
    list_ = about(served)
    list_["members"][name]["bytes"] = 1 << 42
    (served / "predictor.json").write_text(json.dumps(list_))
    with pytest.raises(FileError, match=f"{name} of at most .* memory of this machine"):
        lowering.Predictor.load(served)


def put_values(place: Path, change: Callable[[dict[str, np.ndarray]], dict[str, Any]]) -> None:
    """Other values in a folder, with sums that fit."""
    (file,) = place.rglob("computed.params")
    save_arrays(file, change({name: array.copy() for name, array in read_folder(place).values.items()}))
    sums = {"bytes": file.stat().st_size, "crc32": f"{zlib.crc32(file.read_bytes()):08x}"}
    rewritten(place, members=about(place)["members"] | {"computed.params": sums})


@pytest.mark.slow("compiles")
def test_only_values_that_the_network_asks_for_are_taken(served: Path, monkeypatch: pytest.MonkeyPatch):
    """By what computes them, their shape and their dtype; else they are computed."""
    ((address, value),) = read_folder(served).values.items()
    for wrong in (
        {address: np.ones(4, "float32")},
        {address: np.ones((3, 2), "float32")},
        {address: np.ones((2, 3), "float16")},
        {address: np.ones((2, 3), "float64")},
        {address: np.ones(0, "float32")},
        {address[::-1]: value * 2, "w": value * 3, "fc_weight": value * 4},
        {},
    ):
        put_values(served, lambda _, wrong=wrong: wrong)
        np.testing.assert_array_equal(predicted(served), RIGHT)
    put_values(served, lambda _: {address: np.asarray(value) * 2})  # a network that computes something else
    for unused in ("jit", "_computing"):  # they are neither computed again nor traced
        monkeypatch.setattr(constants, unused, None)
    np.testing.assert_array_equal(predicted(served), RIGHT * 2)


BLOCKS = {"batch": 2, "size": [6, 6], "channels": 4, "filters": 16, "kernel": [3, 3], "stride": [1, 1]}
BLOCKS |= {"dilate": [1, 1], "pad": [1, 1], "groups": 1, "dtype": "float32"}


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("change", [{"groups": 3}, {"stride": [1 << 63, 1]}, {"pad": [1 << 31, 1 << 31]}])
def test_of_older_folders_the_network_is_read_and_no_program(served: Path, version: int, change: dict[str, Any]):
    """Whose geometries were asked of a library, and ended the process; whose programs were run."""
    files = served / about(served)["files"]
    row = {"inputs": {"data": [[2, 3], "float32"]}, "key": False, "held": {"fc_weight": "v"}, "constants": []}
    row |= {"program": "signature-0.stablehlo", "sha256": hashlib.sha256(b"program").hexdigest(), "rows": None}
    row |= {"blocks": [[BLOCKS | change, [False, False, ""], 16]]}
    old = {"version": version, "jax": "0.10.2", "platform": "cpu", "machine": None, "signatures": [row]}
    old |= {"options": {"platform": None, "dtype": None}} | ({"files": files.name} if version > 2 else {})
    (files / "signature-0.stablehlo").write_bytes(b"program")
    (files / "computed.params").write_bytes(b"arrays")
    if version < 3:
        for file in files.iterdir():
            file.rename(served / file.name)
    (served / "predictor.json").write_text(json.dumps(old))
    predict = lowering.Predictor.load(served)
    assert [each["data"].shape for each in predict.signatures] == [(2, 3)]
    np.testing.assert_array_equal(predict(data=X)[0], RIGHT)
    predict.save(served)
    assert about(served)["version"] == 6
    assert not [*served.rglob("*.stablehlo")]
    np.testing.assert_array_equal(predicted(served), RIGHT)


@pytest.mark.slow("compiles")
def test_what_cannot_be_here_is_told(served: Path):
    rewritten(served, options={"platform": "nonsense", "dtype": None})
    with pytest.raises(SymbolValueError, match="No such platform.*'nonsense'"):
        lowering.Predictor.load(served)
    one = {"inputs": {"data": [[2, 3], "float32"]}, "key": False}
    for signatures, words in (
        ([one] * (MAX_SIGNATURES + 1), "signatures: a list of at most 4096"),
        (
            [{"inputs": {"data": [[1 << 30, 1 << 30], "float32"]}, "key": False}],
            "signatures: 0: inputs: data: an input",
        ),
        ([one | {"inputs": {str(i): one["inputs"]["data"] for i in range(MAX_BYTES // 20)}}], "too large"),
    ):
        rewritten(served, options={"platform": None, "dtype": None}, signatures=signatures)
        with pytest.raises(FileError, match=words):
            lowering.Predictor.load(served)


@pytest.mark.slow("computes much")
def test_a_list_that_cannot_be_read_is_not_written(tmp_path: Path):
    """Signatures that no file may have are left out."""
    many = Signature({f"input{i}": ((1,) * 8, "float32") for i in range(2000)}, False)
    for signatures in ([many] * 20, [Signature({"data": ((2,), "float8_e4m3fn")}, False)]):
        write_folder(tmp_path, content(0)._replace(signatures=signatures))
        assert read_folder(tmp_path).signatures == []
    write_folder(tmp_path, content(0)._replace(signatures=[*content(0).signatures] * (MAX_SIGNATURES + 5)))
    assert len(read_folder(tmp_path).signatures) == MAX_SIGNATURES


SECOND_START = """
import sys
import jax
import numpy as np
import lowering
from lowering.serving import constant_store
from lowering.serving import archive
counts = {}
jax.monitoring.register_event_listener(lambda event, **_: counts.update({event: counts.get(event, 0) + 1}))
folder, first = sys.argv[1:]
if first == "yes":
    from symjax_nnvm import symbol as sym
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=16, name="conv")
    net = sym.Activation(sym.BatchNorm(net, fix_gamma=False, name="norm"), act_type="relu")
    net = sym.FullyConnected(net, sym.Variable("fc_weight") * 2, no_bias=True, num_hidden=4, name="fc")
    args, aux = lowering.init_params(net, {"data": (2, 8, 12, 12)}, 0)
    predict = lowering.Predictor(net, args, aux, effort="full")
else:
    predict = lowering.Predictor.load(folder)
    constant_store.jit = None  # nothing is computed again
outputs = predict(data=np.ones((2, 8, 12, 12), "float32"))
if first == "yes":
    predict.save(folder)
print(counts.get("/jax/compilation_cache/cache_misses", 0), outputs[0].sum())
"""


@pytest.mark.slow("starts processes")
def test_a_second_start_computes_nothing_again_and_compiles_nothing(tmp_path: Path):
    """The same network is the same program in another process, which JAX's cache has."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    found = []
    for number in range(2):
        settings = {"SYMJAX_NNVM_ONEDNN": "0", "PYTHONHASHSEED": str(number), "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", SECOND_START, str(tmp_path / "served"), "no" if number else "yes"]
        done = subprocess.run(command, env=os.environ | cache | settings, check=True, capture_output=True, text=True)
        found.append(done.stdout.split())
    assert int(found[0][0]) > 0
    assert found[1] == ["0", found[0][1]]


# -- calls that begin quickly ----------------------------------------------------------------------------------------


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each program was compiled, in order: "quick" or "full"."""
    made: list[str] = []
    compiles = jax.stages.Lowered.compile
    assert options_for("cpu", "quick"), "which compiles a program to ask what XLA knows"

    def compile_(lowered: Any, compiler_options: Any = None) -> Any:
        made.append("quick" if compiler_options else "full")
        return compiles(lowered, compiler_options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_)
    return made


def state_of(predict: lowering.Predictor) -> str:
    """How its one signature runs."""
    (line,) = predict.ways()
    return line.removeprefix("float32[2, 3]: ")


def test_calls_of_what_was_saved_are_compiled_fully_when_the_rule_says(served: Path, compilations: list[str]):
    """By counts alone: what compiles in less than half a second begins with four quick calls."""
    predict = lowering.Predictor.load(served, effort="auto")
    for number in range(1, 5):
        np.testing.assert_allclose(predict(data=X)[0], RIGHT, rtol=1e-5)
        assert state_of(predict).startswith("compiled quickly; compiled when first calls have cost 0.0")
        assert state_of(predict).endswith(f"now {25 * number}% of it")
    assert compilations == ["quick"]
    for _ in range(2):
        np.testing.assert_allclose(predict(data=X)[0], RIGHT, rtol=1e-5)
        assert state_of(predict) == "compiled"
    assert compilations == ["quick", "full"]


FULL = {
    "warm": lambda predict: predict.warm(data=X.shape),
    "batches": lambda predict: [*predict.batches([X])],
    "effort": lambda predict: exec_in("full", predict),
}


def exec_in(word: str, predict: lowering.Predictor) -> None:
    with lowering.effort(word):
        predict(data=X)


@pytest.mark.parametrize("way", FULL)
@pytest.mark.parametrize("called", [False, True])
def test_what_compiles_fully_at_once(way: str, called: bool, served: Path, compilations: list[str]):
    """Also after a quick call."""
    predict = lowering.Predictor.load(served)
    with lowering.effort("auto"):
        if called:
            predict(data=X)
        FULL[way](predict)
        np.testing.assert_allclose(predict(data=X)[0], RIGHT, rtol=1e-5)
    assert state_of(predict) == "compiled"
    assert compilations == ["quick", "full"][not called :]


def test_quick_effort_stays_quick_and_saving_compiles_no_more(served: Path, compilations: list[str]):
    predict = lowering.Predictor.load(served, effort="quick")
    for _ in range(8):
        predict(data=X)
    predict.save(served)
    assert state_of(predict).startswith("compiled quickly")
    assert compilations == ["quick"]
    assert [{n: one.shape for n, one in each.items()} for each in predict.signatures] == [{"data": X.shape}]


def test_threads_compile_each_program_once(served: Path, compilations: list[str]):
    predict = lowering.Predictor.load(served, effort="auto")
    with ThreadPoolExecutor(8) as threads:
        for outputs in threads.map(lambda _: predict(data=X), range(64)):
            np.testing.assert_allclose(outputs[0], RIGHT, rtol=1e-5)
    assert compilations == ["quick", "full"]
    assert state_of(predict) == "compiled"


def test_a_jaxlib_without_the_options_compiles_fully_at_once(
    served: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(predictor, "options_for", lambda *_: None)
    predict = lowering.Predictor.load(served, effort="auto")
    for _ in range(6):
        np.testing.assert_allclose(predict(data=X)[0], RIGHT, rtol=1e-5)
    assert compilations == ["full"]


def test_a_signature_that_was_dropped_begins_anew(served: Path):
    predict = lowering.Predictor.load(served, effort="auto", keep=1)
    predict(data=X)
    predict(data=X)
    predict(data=X[:1])
    predict(data=X)
    assert state_of(predict).endswith("now 25% of it")


def test_an_error_of_compiling_fully_reaches_the_caller_and_the_next_call_tries_again(
    served: Path, monkeypatch: pytest.MonkeyPatch
):
    predict = lowering.Predictor.load(served, effort="auto")
    for _ in range(4):
        predict(data=X)

    def fails(*_: Any) -> None:
        raise jax.errors.JaxRuntimeError("INTERNAL: no such instruction")

    with monkeypatch.context() as patched:
        patched.setattr(jax.stages.Lowered, "compile", fails)
        with pytest.raises(jax.errors.JaxRuntimeError, match="no such instruction"):
            predict(data=X)
    np.testing.assert_allclose(predict(data=X)[0], RIGHT, rtol=1e-5)
    assert state_of(predict) == "compiled"


CONVOLUTION = sym.Convolution(sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=64, no_bias=True, name="conv")


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("net", "shape", "weight_shape", "first"),
    [
        (NET, X.shape, (2, 3), "full"),
        pytest.param(CONVOLUTION, (1, 64, 14, 14), (64, 64, 3, 3), "quick", marks=needs_onednn),
    ],
    ids=["xla alone", "library calls"],
)
def test_what_jaxs_cache_keeps_is_compiled_fully_at_once(
    net: Any,
    shape: Any,
    weight_shape: Any,
    first: str,
    tmp_path: Path,
    compilations: list[str],
    monkeypatch: pytest.MonkeyPatch,
):
    weights = np.random.default_rng(0).standard_normal(weight_shape).astype("float32")
    predict = lowering.Predictor(net, {net.list_arguments()[1]: weights}).warm(data=shape)
    right = np.asarray(predict(data=np.ones(shape, "float32"))[0])
    predict.save(tmp_path)
    monkeypatch.setattr(predictor, "keeps_programs", lambda: True)
    compilations.clear()
    outputs = lowering.Predictor.load(tmp_path, effort="auto")(data=np.ones(shape, "float32"))
    assert compilations == [first]
    np.testing.assert_allclose(outputs[0], right, rtol=1e-5, atol=1e-5 * np.abs(right).max())


# -- members that are no plain files, and that change ------------------------------------------------------------------


def _link(member: Path) -> None:
    whole = member.read_bytes()
    other = member.parents[2] / "elsewhere"
    other.write_bytes(whole)
    member.unlink()
    member.symlink_to(other)


def _loop(member: Path) -> None:
    member.unlink()
    member.symlink_to(member.name)


def _fifo(member: Path) -> None:
    member.unlink()
    os.mkfifo(member)


def _folder(member: Path) -> None:
    member.unlink()
    member.mkdir()


def _socket(member: Path) -> None:
    member.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(member.parent)  # a socket's name has at most 107 bytes
        try:
            made.bind(member.name)
        finally:
            os.chdir(here)


def _device(member: Path) -> None:
    member.unlink()
    member.symlink_to("/dev/zero")


def _terabyte(member: Path) -> None:
    with member.open("wb") as file:
        file.truncate(1 << 40)


def _gone(member: Path) -> None:
    member.unlink()


STRANGE = [_loop, _fifo, _folder, _socket, _device, _terabyte, _gone]
MEMBERS = ["predictor.json", "net-symbol.json", "net-0000.params", "computed.params"]


@pytest.mark.slow("has many cases")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("strange", STRANGE)
def test_members_that_are_no_plain_files_are_told_at_once(served: Path, name: str, strange: Callable[[Path], None]):
    (member,) = served.rglob(name)
    strange(member)
    began = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NNVMError) as caught:
        lowering.Predictor.load(served)
    check_message(caught.value)
    assert time.monotonic() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_may_be_a_link_to_the_file_that_was_saved(served: Path, name: str):
    (member,) = served.rglob(name)
    _link(member)
    np.testing.assert_array_equal(predicted(served), RIGHT)


@pytest.mark.parametrize(
    "files", ["..", "../served", "/etc", "saved-1/..", "saved-1/", "./saved-1", "saved-01", "saved-1\0", "saved-", ""]
)
def test_files_lie_in_the_folder_alone(served: Path, files: str):
    rewritten(served, files=files)
    with pytest.raises(FileError, match="a folder's name: saved- and a number"):
        lowering.Predictor.load(served)


def test_other_names_of_members_are_not_read(served: Path, tmp_path: Path):
    """The manifest's names are the library's own: more of them are left alone, others are missing."""
    members = about(served)["members"]
    rewritten(served, members=members | {"../../x": members["computed.params"], "/etc/passwd": {"bytes": 1}})
    np.testing.assert_array_equal(predicted(served), RIGHT)
    rewritten(served, members={f"../{name}": saved for name, saved in members.items()})
    with pytest.raises(FileError, match="a field"):
        lowering.Predictor.load(served)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", MEMBERS[1:])
def test_a_member_that_is_exchanged_while_it_is_read_is_told(
    served: Path, saved: Callable[[int], Path], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """After its sum was taken, before it is read."""
    (member,) = served.rglob(name)
    (wrong,) = shutil.copytree(saved(1), tmp_path / "other").rglob(name)
    require = archive._require_as_saved

    def exchanged(path: Path, saved: Any) -> Any:
        found = require(path, saved)
        if path.name == name:
            member.unlink()
            os.link(wrong, member)
        return found

    monkeypatch.setattr(archive, "_require_as_saved", exchanged)
    with pytest.raises(FileError, match=f"{name} as it was when its sum was taken|{name} as it was saved"):
        lowering.Predictor.load(served)
