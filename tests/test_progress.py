"""A bar is shown on a terminal, of work that takes its time; elsewhere nothing is."""

import io

import pytest

from symjax_nnvm import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal, or that it is none."""

    def __init__(self, looked_at: bool):
        super().__init__()
        self.looked_at = looked_at

    def isatty(self) -> bool:
        return self.looked_at


@pytest.mark.parametrize(
    ("looked_at", "shown", "worth", "seen"),
    [(True, True, 0.0, True), (False, True, 0.0, False), (True, False, 0.0, False), (True, True, 60.0, False)],
)
def test_a_bar(looked_at: bool, shown: bool, worth: float, seen: bool, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("rich", reason="the extra `cli` is not installed")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_WORTH_A_BAR", worth)
    stream = Terminal(looked_at)
    monkeypatch.setattr("sys.stderr", stream)
    with progress.bar("reading x.rec", 10, shown) as advance:
        for done in range(10):
            advance(done)
    assert ("reading x.rec" in stream.getvalue()) == seen


def test_a_bar_at_once_takes_other_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("rich", reason="the extra `cli` is not installed")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal(True)
    monkeypatch.setattr("sys.stderr", stream)
    with progress.bar("compiling", None, at_once=True) as advance:
        assert "compiling" in stream.getvalue()
        advance(3, "epoch 0")
        print("a line", flush=True)
    assert "epoch 0" in stream.getvalue()
    assert "3/?" in stream.getvalue()
    assert capsys.readouterr().out == "a line\n"  # which is no terminal here, and gets what is printed


def test_a_bar_tells_what_takes_long_until_the_work_goes_on(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("rich", reason="the extra `cli` is not installed")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal(True)
    monkeypatch.setattr("sys.stderr", stream)
    progress.tell("compiling")  # there is no bar
    with progress.bar("predicting", 10) as advance:
        advance(1)
        assert not stream.getvalue()
        progress.tell("compiling")
        assert "compiling" in stream.getvalue()
        assert "predicting" not in stream.getvalue()
        advance(2)
    assert "predicting" in stream.getvalue()
    progress.tell("too late")
    assert "too late" not in stream.getvalue()
