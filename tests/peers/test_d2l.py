"""What `d2l.py` adds to tutorials: cells for one of several libraries, data, draws, loaders."""

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.peers import book_data, tutorial_cells
from tests.peers.tutorials import Cell, cells_of, compared

CHAPTER = """```{.python .input  n=1}
%load_ext d2lbook.tab
tab.interact_select(['mxnet', 'pytorch'])
```

```{.python .input}
%%tab mxnet
%matplotlib inline
from mxnet import np, npx
```

```{.python .input}
#@tab pytorch
import torch
```

```{.python .input  n=4}
%%tab pytorch, mxnet
a = 3
```

```{.python .input}
#@tab all
#@save
if tab.selected('mxnet'):
    b = a + 1000
if tab.selected('pytorch', 'jax'):
    b = 0
b
```
"""


def test_cells_are_those_for_mxnet_and_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    chapter = tmp_path / "chapter.md"
    chapter.write_text(CHAPTER)
    cells = cells_of(chapter, {"1000": "1"})
    assert [cell.strip().splitlines()[0] for cell in cells] == [
        *("tab.interact_select(['mxnet', 'pytorch'])", "from mxnet import np, npx", "a = 3", "#@tab all")
    ]
    page = tutorial_cells.Page({"tab": tutorial_cells.Tab()})
    for cell in (cells[0], *cells[2:]):
        page.run(cell)
        assert not page.error
    assert capsys.readouterr().out == "4\n"
    chapter.write_text(CHAPTER.replace("['mxnet', 'pytorch']", '["pytorch"]'))
    assert cells_of(chapter) == []


def test_what_fails_on_mxnet_is_told():
    assert compared([Cell("", 1.0, "")], [Cell("wrong\nand more", 1.0, "")], 1).problem == "MXNet: wrong"


def test_packed_data_have_the_form_that_is_read(tmp_path: Path):
    for name in ("fra-eng.zip", "snli_1.0.zip", "ml-100k.zip", "ctr.zip", "bert.small.zip"):
        book_data.pack(tmp_path, name)
    rows = {}
    for name, member in (
        ("fra-eng", "fra-eng/fra.txt"),
        ("snli_1.0", "snli_1.0/snli_1.0_test.txt"),
        ("ml-100k", "ml-100k/u.data"),
        ("ctr", "ctr/test.csv"),
    ):
        with zipfile.ZipFile(tmp_path / f"{name}.zip") as archive:
            lines = archive.read(member).decode().splitlines()
        rows[name] = [line.split("\t") for line in lines]
        assert len({len(row) for row in rows[name]}) == 1, name
    assert {len(row[0]) for row in rows["ctr"]} == {1}
    users = {int(row[0]) for row in rows["ml-100k"]}
    assert users == set(range(1, max(users) + 1))  # pages take the count of users as the last one's number
    assert {row[0] for row in rows["snli_1.0"][1:]} == {"entailment", "contradiction", "neutral"}
    with zipfile.ZipFile(tmp_path / "bert.small.zip") as archive:
        assert "<cls>" in json.loads(archive.read("bert.small/vocab.json"))


class WithContext(np.ndarray):
    """An array that says where it is, as MXNet's do."""

    ctx = None


def test_draws_are_numpys():
    names = ("uniform", "normal", "randn", "randint", "multinomial")
    own = SimpleNamespace(**{name: lambda *_, **__: "the library's" for name in names})

    def array(values: np.ndarray, dtype: str, ctx: object) -> np.ndarray:
        return np.asarray(values, dtype)

    tutorial_cells.draw_numpy_alike(SimpleNamespace(np=SimpleNamespace(random=own, array=array)))
    expected = np.random.RandomState(0)
    assert np.array_equal(own.normal(0, 2, size=(2, 3)), expected.normal(0, 2, (2, 3)).astype("float32"))
    assert np.array_equal(own.randn(2, 2), expected.randn(2, 2).astype("float32"))
    assert own.multinomial(10, [0.5, 0.5], size=(4,)).sum(1).tolist() == [10] * 4
    assert own.randint(0, 3, size=2).dtype == "int64"
    assert own.normal(SimpleNamespace(asnumpy=None), 1) == "the library's"


def test_what_is_dropped_is_drawn_by_numpy():
    class Dropout:
        _rate = 0.5

        def forward(self, x: object) -> str:
            return "the library's"

    library = SimpleNamespace(
        gluon=SimpleNamespace(nn=SimpleNamespace(Dropout=Dropout)),
        autograd=SimpleNamespace(is_training=lambda: True),
        np=SimpleNamespace(ndarray=WithContext, array=lambda values, dtype, ctx: values.astype(dtype)),
    )
    tutorial_cells.drop_alike(library)
    expected = 3 * (np.random.RandomState(0).uniform(size=(4, 5)) >= 0.5) / 0.5
    assert np.array_equal(Dropout().forward(np.full((4, 5), 3.0).view(WithContext)), expected)
    assert Dropout().forward("a symbol") == "the library's"


def test_chance_leaves_pictures_as_they_are():
    class Crop:
        _args = ((2, 3), 0.5)

        def forward(self, x: str) -> str:
            return f"a part of {x}"

    vision = SimpleNamespace(transforms=SimpleNamespace(RandomHue=type("Hue", (), {}), RandomResizedCrop=Crop))
    image = SimpleNamespace(center_crop=lambda x, size: (f"the middle {size} of {x}", "where"), random_crop=None)
    library = SimpleNamespace(image=image, gluon=SimpleNamespace(data=SimpleNamespace(vision=vision)))
    tutorial_cells.change_pictures_alike(library)
    assert vision.transforms.RandomHue().forward("x") == "x"
    assert Crop().forward("x") == image.random_crop("x", (2, 3))[0] == "the middle (2, 3) of x"


def test_loaders_work_in_the_process_and_keep_the_batch_of_few_data():
    asked = {}

    class Loader:
        def __init__(self, data: object, batch: int, **words: object):
            asked.update(words)

    def split(*words: object, **named: object) -> tuple[object, ...]:
        return *words, named

    gluon = SimpleNamespace(data=SimpleNamespace(DataLoader=Loader), utils=SimpleNamespace(split_and_load=split))
    tutorial_cells.load_here(SimpleNamespace(gluon=gluon))
    for data, last in (([], "keep"), ([1] * 4, "discard")):
        gluon.data.DataLoader(data, 3, num_workers=4, last_batch="discard")
        assert asked == {"last_batch": last}
    assert gluon.utils.split_and_load([1], ["cpu"], even_split=True) == ([1], ["cpu"], 0, {"even_split": False})


def test_an_empty_file_of_parameters_stands_for_first_values(tmp_path: Path):
    said = []

    class Block:
        def initialize(self, ctx: object = None):
            said.append(f"first values on {ctx}")

        def load_parameters(self, filename: str, ctx: object = None):
            said.append(filename)

    tutorial_cells.load_first_values(SimpleNamespace(gluon=SimpleNamespace(Block=Block)))
    for name, content in (("empty", b""), ("full", b"1")):
        (tmp_path / name).write_bytes(content)
        Block().load_parameters(str(tmp_path / name), ctx="cpu")
    assert said == ["first values on cpu", str(tmp_path / "full")]


def test_drawing_gives_as_many_things_as_pages_take():
    nothing = tutorial_cells.Nothing("pyplot")
    _, axes = nothing.subplots()
    _, _, bars = nothing.hist([1])
    assert repr(axes) == repr(bars) == "nothing"
