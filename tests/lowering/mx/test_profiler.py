"""`mx.profiler`: what ran while it was on is in the file and in the table."""

import json
from pathlib import Path

import pytest

import lowering
from lowering import mx

FILE = "profile.json"


@pytest.fixture(autouse=True)
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In a folder of its own, and off afterwards."""
    monkeypatch.chdir(tmp_path)
    mx.profiler.set_config(profile_all=True, aggregate_stats=True, filename=FILE)
    yield
    mx.profiler.set_state("stop")
    mx.profiler.dumps(reset=True)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("effort", ["auto", "full"])
def test_operators_are_recorded_whatever_computes_them(effort: str):
    """JAX's primitives where NumPy does, XLA's where it does; those of programs in programs once."""
    x = mx.nd.ones((3, 7))
    with lowering.effort(effort):
        mx.profiler.start()
        mx.nd.softmax(mx.nd.tanh(x)).wait_to_read()
        mx.profiler.stop()
    (times,) = json.loads(mx.profiler.dumps(format="json"))["Time"].values()
    assert sum(row["Count"] for name, row in times.items() if "tanh" in name) == 1, times
    assert "jit" not in times


def test_operators_and_marks():
    x = mx.nd.ones((8, 8))
    mx.nd.dot(x, x).wait_to_read()  # compiled before
    domain = mx.profiler.Domain("net")
    task, frame, event = domain.new_task("epoch"), domain.new_frame("step"), mx.profiler.Event("lonely")
    with pytest.raises(KeyError):
        mx.profiler.set_state("begin")
    task.start()
    task.stop()
    task.stop()
    mx.profiler.start()
    for span in (task, frame, event, task):
        span.start()
        mx.nd.dot(x, x).wait_to_read()
        span.stop()
    counter = domain.new_counter("seen", 3)
    counter += 4
    counter -= 2
    domain.new_marker("now").mark()
    mx.profiler.stop()
    assert [str(each) for each in (domain, task, frame, event, counter)] == ["net", "epoch", "step", "lonely", "seen"]
    read = json.loads(mx.profiler.dumps(format="json"))
    times = read["Time"]
    assert read["Unit"]["Time"] == "ms"
    assert read["Memory"] == {}
    assert sum(row["Count"] for row in times["operator"].values()) >= 4
    assert times["net:task"]["epoch"]["Count"] == 2
    assert times["event"]["lonely"]["Count"] == 1
    assert times["net:counter"]["seen"]["Count"] == 3
    assert times["net:marker"]["now"]["Count"] == 1
    row = times["net:task"]["epoch"]
    assert 0 < row["Min"] <= row["Avg"] <= row["Max"] <= row["Total"]
    assert row["Avg"] == pytest.approx(row["Total"] / 2)
    assert "net:frame\nName" in mx.profiler.dumps()
    assert not Path(FILE).exists()

    mx.profiler.dump()
    events = json.loads(Path(FILE).read_text())["traceEvents"]
    assert [each["args"]["value"] for each in events if each.get("name") == "seen"] == ["3", "7", "5"]
    mx.profiler.dumps(reset=True)
    assert json.loads(mx.profiler.dumps(format="json"))["Time"] == {}


def test_the_order_of_the_table():
    task = mx.profiler.Domain("d").new_task
    mx.profiler.start()
    for name, count in (("once", 1), ("thrice", 3)):
        for _ in range(count):
            span = task(name)
            span.start()
            span.stop()
    mx.profiler.stop()

    def names(**options: object) -> list[str]:
        return list(json.loads(mx.profiler.dumps(format="json", **options))["Time"]["d:task"])  # pyright: ignore

    assert names(sort_by="count") == ["thrice", "once"]
    assert names(sort_by="count", ascending=True) == ["once", "thrice"]
    for wrong in ({"format": "xml"}, {"sort_by": "name"}):
        with pytest.raises(mx.MXNetError, match="dumps does not support this value"):
            mx.profiler.dumps(**wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.slow("computes much")
def test_pause():
    mx.profiler.resume()
    domain = mx.profiler.Domain("p")

    def mark(name: str) -> None:
        domain.new_marker(name).mark()

    mark("before")
    mx.profiler.start()
    mark("first")
    mx.profiler.pause()
    mark("between")
    mx.profiler.resume()
    mark("second")
    assert list(json.loads(mx.profiler.dumps(format="json", sort_by="count"))["Time"]["p:marker"]) in (
        ["first", "second"],
        ["second", "first"],
    )
    mark("third")
    mx.profiler.dump(finished=False)
    mark("fourth")
    mx.profiler.dump()
    mark("after")
    events = json.loads(Path(FILE).read_text())["traceEvents"]
    marks = [each for each in events if each.get("args", {}).get("category") == "p:marker"]
    assert [each["name"] for each in marks] == ["first", "second", "third", "fourth"]
    assert [each["ts"] for each in marks] == sorted(each["ts"] for each in marks)


def test_old_names_and_wrong_settings():
    with pytest.warns(UserWarning, match="profiler_set_config.. is deprecated. Please use profiler.set_config"):
        mx.profiler.profiler_set_config("all", "old.json")
    with pytest.warns(UserWarning, match="profiler_set_state"):
        mx.profiler.profiler_set_state("run")
    with pytest.warns(UserWarning, match="dump_profile"):
        mx.profiler.dump_profile()
    assert Path("old.json").exists()
    with pytest.raises(mx.MXNetError, match="The profiler has no such setting"):
        mx.profiler.set_config(file_name="x")
