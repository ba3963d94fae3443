"""The choice of a convolution's algorithm: by the nearest that was measured, the user's own table first."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from lowering.convolutions import choose as choose_module
from lowering.convolutions import timings_table as table_module
from lowering.convolutions.applicable import LIBRARY, applies
from lowering.convolutions.choose import choose
from lowering.convolutions.geometry import Direction, Geometry
from lowering.convolutions.timings_table import Measured, Table, read_table, write_table
from symjax_nnvm.errors import FileError

ROOT = Path(table_module.__file__).parent
DENSE = Geometry(1, (28, 28), 128, 128, (3, 3), (1, 1), (1, 1), (1, 1))
TIMES = {"xla": 4.0, "im2col": 3.0, "winograd4": 2.0, "winograd2": 2.5}


@pytest.fixture(autouse=True)
def _no_other_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    choose_module.forget()
    yield
    choose_module.forget()


def measured(*rows: Measured) -> None:
    """Write the user's table of a platform that has no other, and of the CPU."""
    for platform in ("abacus", "cpu"):
        path = table_module.user_table(platform)
        path.parent.mkdir(exist_ok=True)
        write_table(path, Table(platform, {"machine": "none"}, rows))
    choose_module.forget()


# -- the choice ------------------------------------------------------------------------------------------------------


def test_a_platform_that_was_not_measured_leaves_all_to_xla():
    wide = replace(DENSE, groups=128)
    assert {choose(d, g, "abacus") for d in get_args(Direction) for g in (DENSE, wide)} == {"xla"}


def test_the_fastest_of_the_nearest_is_chosen_of_what_can_compute():
    measured(
        Measured("forward", DENSE, TIMES, {}),
        Measured("forward", replace(DENSE, batch=16), {"xla": 1.0, "im2col": 0.9, "winograd2": 0.5}, {}),
    )
    assert choose("forward", DENSE, "abacus") == "winograd4"
    assert choose("forward", replace(DENSE, batch=2, size=(30, 20)), "abacus") == "winograd4"
    assert choose("forward", replace(DENSE, batch=8), "abacus") == "winograd2"
    assert choose("forward", replace(DENSE, kernel=(1, 7), pad=(0, 3)), "abacus") == "im2col"


def test_errors_and_dtypes_exclude_algorithms():
    measured(Measured("forward", DENSE, TIMES, {}))
    assert choose("forward", DENSE, "abacus", precise=True) == "winograd2"
    assert choose("forward", replace(DENSE, dtype="float64"), "abacus") == "winograd2"
    assert choose("forward", replace(DENSE, dtype="bfloat16"), "abacus") == "im2col"


def test_what_is_made_of_a_constant_weight_is_not_counted():
    measured(Measured("forward", DENSE, {"xla": 4.0, "winograd2": 9.0}, {"winograd2": 2.0}))
    assert choose("forward", DENSE, "abacus") == "xla"
    assert choose("forward", DENSE, "abacus", constant=True) == "winograd2"


def test_noise_does_not_replace_xla():
    measured(Measured("forward", DENSE, {"xla": 1.0, "im2col": 0.96}, {}))
    assert choose("forward", DENSE, "abacus") == "xla"


def test_what_was_not_measured_of_its_kind_takes_what_saves_most_work():
    measured(Measured("forward", DENSE, TIMES, {}))
    wide = replace(DENSE, groups=128)
    assert choose("forward", wide, "abacus") == "shifts"
    assert choose("weight", wide, "abacus") == "rows"
    assert choose("forward", replace(DENSE, kernel=(1, 1), pad=(0, 0)), "abacus") == "product"
    assert choose("data", replace(DENSE, stride=(2, 2)), "abacus") == "phases"
    assert choose("weight", DENSE, "abacus") == "xla"


def test_the_gradient_of_a_weight_is_xlas_only_where_others_are_much_slower_or_data_is_an_image():
    image = replace(DENSE, channels=3)
    times = {"xla": 4.0, "im2col": 5.0}
    measured(Measured("weight", DENSE, times, {}), Measured("weight", image, times, {}))
    assert choose("weight", DENSE, "abacus") == "im2col"
    assert choose("weight", image, "abacus") == "xla"
    measured(Measured("weight", DENSE, {"xla": 4.0, "im2col": 5.5}, {}))
    assert choose("weight", DENSE, "abacus") == "xla"


def test_gradients_of_few_channels_by_one_element_are_xlas_only_where_others_are_much_slower():
    pointwise = replace(DENSE, kernel=(1, 1), pad=(0, 0), size=(112, 112), channels=32)
    wide = replace(pointwise, channels=64)
    times = {"xla": 4.0, "product": 5.0}
    measured(Measured("data", pointwise, times, {}), Measured("data", wide, times, {}))
    assert choose("data", pointwise, "abacus") == "product"
    assert choose("data", wide, "abacus") == "xla"


def test_small_convolutions_are_left_to_xla():
    measured(Measured("forward", DENSE, TIMES, {}))
    assert choose("forward", replace(DENSE, channels=4, filters=4), "abacus") == "xla"


def test_the_users_table_goes_before_ours():
    ours = read_table(ROOT / "algorithms_cpu.json")
    row = next(row for row in ours.rows if row.direction == "forward" and applies("im2col", "forward", row.geometry))
    assert choose("forward", row.geometry, "cpu") != "im2col"
    measured(replace(row, milliseconds={"xla": 1.0, "im2col": 0.1}, constant={}))
    assert choose("forward", row.geometry, "cpu") == "im2col"


# -- tables ----------------------------------------------------------------------------------------------------------


def test_our_table_says_where_it_was_measured_and_names_what_can_compute():
    (path,) = ROOT.glob("algorithms_*.json")
    table = read_table(path)
    assert path.name == f"algorithms_{table.platform}.json"
    assert set(table.about) == {"machine", "jaxlib", "options", "lanes", "winograd"}
    assert {row.direction for row in table.rows} == set(get_args(Direction))
    unknown = [
        (name, row)
        for row in table.rows
        for name in (*row.milliseconds, *row.constant)
        if not applies(name, row.direction, row.geometry)
    ]
    assert unknown == []
    assert all(choose(row.direction, row.geometry, table.platform) in row.milliseconds for row in table.rows)


def test_tables_survive_writing_and_reading(tmp_path: Path):
    rows = [Measured("data", replace(DENSE, stride=(2, 1), groups=4), {"xla": 1.5, "phases": 0.1}, {})]
    table = Table("abacus", {"machine": "beads"}, rows)
    write_table(tmp_path / "table", table)
    assert read_table(tmp_path / "table") == table


ROW = {
    "direction": "forward",
    "batch": 1,
    "size": [4, 4],
    "channels": 2,
    "filters": 2,
    "kernel": [3, 3],
    "stride": [1, 1],
    "dilate": [1, 1],
    "pad": [1, 1],
    "groups": 1,
    "dtype": "float32",
    "milliseconds": {"xla": 1.0},
    "constant": {},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"direction": "sideways"}, "forward, data, weight"),
        ({"batch": 0}, "batch"),
        ({"batch": True}, "batch"),
        ({"channels": "3"}, "channels"),
        ({"size": [4]}, "number for each"),
        ({"size": 4}, "a list"),
        ({"size": [], "kernel": [], "stride": [], "dilate": [], "pad": []}, "1 to 3"),
        ({"stride": [1, 0]}, "stride"),
        ({"kernel": [9, 9]}, "output"),
        ({"groups": 3}, "groups"),
        ({"dtype": None}, "a text"),
        ({"milliseconds": {"xla": -1}}, "positive"),
        ({"milliseconds": {"xla": float("nan")}}, "positive"),
        ({"milliseconds": {"xla": True}}, "positive"),
        ({"milliseconds": []}, "an object"),
        ({"constant": None}, "an object"),
    ],
)
def test_rows_that_are_none_are_refused(change: dict[str, Any], words: str, tmp_path: Path):
    path = tmp_path / "table"
    path.write_text(json.dumps({"platform": "cpu", "about": {}, "rows": [ROW]}))
    assert len(read_table(path).rows) == 1
    path.write_text(json.dumps({"platform": "cpu", "about": {}, "rows": [{**ROW, **change}]}))
    with pytest.raises(FileError, match=words) as caught:
        read_table(path)
    assert "Remove the file, or measure it again" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"rows": [], "about": {}}', "[" * 100_000, "\udcff"])
def test_files_that_are_no_tables_are_refused(text: str, tmp_path: Path):
    path = tmp_path / "table"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(FileError, match="not a table of algorithms"):
        read_table(path)


# -- a library -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "fastest"),
    [(10.0, "winograd4"), (2.4, "winograd4"), (2.3, LIBRARY), (None, LIBRARY)],
    ids=["far slower", "slower", "a little slower, but it does what follows", "not measured"],
)
def test_a_library_gives_way_to_winograd_alone(library: float | None, fastest: str):
    constant = {} if library is None else {LIBRARY: library}
    measured(Measured("forward", DENSE, TIMES | {"im2col": 0.1}, {"winograd4": 2.0, **constant}))
    assert choose("forward", DENSE, "abacus", constant=True, library=True) == fastest
    assert choose("forward", DENSE, "abacus", constant=True) == "im2col"


def test_where_nothing_was_measured_the_library_computes_all():
    assert choose("forward", DENSE, "nowhere", constant=True, library=True) == LIBRARY
    assert choose("forward", replace(DENSE, groups=128), "nowhere", constant=True, library=True) == LIBRARY
    assert choose("forward", DENSE, "nowhere", library=True) == "xla"
