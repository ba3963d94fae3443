"""How `tutorials.py` reads pages and compares what they print."""

import json
from pathlib import Path

import pytest

from tests.peers.tutorial_cells import Page, file_for
from tests.peers.tutorials import Cell, agree, cells_of, compared, cut, numbers_of, parameters, without_magic

MARKDOWN = """# A page

```python
import mxnet
%matplotlib inline
```

```{.python .input  n=2}
print(1)
```

```bash
rm -r x
```
"""


def test_cells_of_both_kinds_of_pages(tmp_path: Path):
    page, notebook = tmp_path / "page.md", tmp_path / "page.ipynb"
    page.write_text(MARKDOWN)
    cells = [{"cell_type": "code", "source": ["a = 1\n", "!ls"]}, {"cell_type": "markdown", "source": ["words"]}]
    notebook.write_text(json.dumps({"cells": cells}))
    assert [cell.strip() for cell in cells_of(page)] == ["import mxnet", "print(1)"]
    assert cells_of(notebook) == ["a = 1"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("epochs = 30", "epochs = 2"),
        ("fit(num_epoch=1, lr=5)", "fit(num_epoch=1, lr=5)"),
        ("for epoch in range(10): pass", "for epoch in range(2): pass"),
        ("for e in range(epochs): pass", "for e in range(epochs): pass"),
        ("epoch == 10", "epoch == 10"),
        ("size, num_epochs, lr = 100, 20, 0.1", "size, num_epochs, lr = 100, 2, 0.1"),
        ("def fit(net, epochs=9): pass", "def fit(net, epochs=2): pass"),
        ("é = dict(max_epochs=50, epochs=4 * 5)", "é = dict(max_epochs=2, epochs=4 * 5)"),
        ("batch = 30", "batch = 30"),
    ],
)
def test_epochs_are_cut(source: str, expected: str):
    assert cut(source) == expected


def test_epochs_by_position_are_cut_where_a_page_defines_the_function():
    known = dict(parameters("def train(net, lr, num_epochs): pass"))
    assert cut("train(net, 30, 20)\nother(net, 30, 20)", known) == "train(net, 30, 2)\nother(net, 30, 20)"


def test_lines_of_doctests_are_what_is_typed():
    assert without_magic(">>> x = [1,\n...      2]\n>>> x\n[1, 2]") == "x = [1,\n     2]\nx"


def test_lines_of_notebooks_are_left_out_and_those_that_go_on_with_a_remainder_are_not():
    assert without_magic("%%time\nprint('%d'\n      % (3))\n  %matplotlib inline\n! ls") == "print('%d'\n      % (3))"


def test_numbers_without_clocks_and_addresses():
    said = (
        "<Block at 0x7f2a> loss 0.5, 1e-3; Speed: 812.4 samples/sec time cost 2.1; took 3 s x12 nan 8.4 word pairs/sec"
    )
    numbers = numbers_of(said)
    assert numbers[:2] == [0.5, 1e-3]
    assert len(numbers) == 3


def test_agreement_is_of_numbers_alone():
    assert agree("a 1.00001", "b 1.0")
    assert not agree("1.1", "1.0")
    assert not agree("1 2", "1")
    assert agree("none", "") is None
    assert agree("1.1 3", "1.0 3", "1.03 3")
    assert not agree("1.1 4", "1.0 3", "1.03 3")
    assert not agree("1.1", "1.0", "")


def test_only_cells_that_pass_on_both_are_summed():
    theirs = [Cell("", 1.0, "2"), Cell("", 2.0, ""), Cell("wrong", 4.0, "")]
    row = compared([Cell("", 3.0, "2"), Cell("NoName: x", 5.0, ""), Cell("", 7.0, "")], theirs, 4)
    assert row[:-1] == (4, 2, 1, 1, 1, 1.0, 3.0)
    assert row.problem == "NoName: x"


def test_a_page_goes_on_after_an_error(capsys: pytest.CaptureFixture[str]):
    page = Page({})
    errors = []
    for source in ("x = 3", "y = 1 / 0", "x +", "x"):
        page.run(source)
        errors.append(page.error.partition(":")[0])
    assert errors == ["", "ZeroDivisionError", "SyntaxError", ""]
    assert capsys.readouterr().out == "3\n"


def test_a_download_is_answered_by_name_or_by_ending(tmp_path: Path):
    for name in ("mnist.zip", "any.jpg"):
        (tmp_path / name).touch()
    assert Path(file_for("http://x.org/a/mnist.zip", str(tmp_path))).name == "mnist.zip"
    assert Path(file_for("http://x.org/cat.jpg?raw=true", str(tmp_path))).name == "any.jpg"
    with pytest.raises(OSError, match="nothing is made"):
        file_for("http://x.org/net.params", str(tmp_path))
