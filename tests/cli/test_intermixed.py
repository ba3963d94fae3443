"""Inputs of a subcommand stand before, between and behind its options."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symjax_nnvm.cli import COMMANDS, _parser, main

SHAPE = ["--shape", "data=2,1,8,8"]
OPEN_ENDED = {
    "run": ("inputs", [["a=1"], ["--seed", "3"], ["b=2"]], ["a=1", "b=2"]),
    "verify": ("inputs", [["a=1"], ["--full"], ["--against", "other"], ["b=2"]], ["a=1", "b=2"]),
    "convert": ("last", [["0"], ["--to", "jax"], ["out"], ["--float"]], Path("out")),
    "records": ("source", [["--quality", "3"], ["images"], ["--no-shuffle"]], Path("images")),
}
"""Subcommand → (its argument of any number, words in the order of which nothing depends, what that argument gets)."""

FIRST = {"records": ["make", "x.rec"]}


def test_every_subcommand_of_any_number_of_inputs_is_here():
    found: dict[str, str] = {}
    for command in COMMANDS:
        parser: Any = _parser([command])
        chosen = parser._subparsers._group_actions[0].choices[command]
        dests = [each.dest for each in chosen._get_positional_actions() if each.nargs in ("*", "?")]
        if dests:
            (found[command],) = dests
    assert found == {command: row[0] for command, row in OPEN_ENDED.items()}


@pytest.mark.slow("runs the command")
@pytest.mark.parametrize("command", OPEN_ENDED)
def test_any_order_is_the_same(command: str):
    dest, words, expected = OPEN_ENDED[command]
    kept = [word for word in words if not word[0].startswith("-")]
    for order in permutations(words):
        if [word for word in order if word in kept] != kept:
            continue
        argv = [command, *FIRST.get(command, ["net"]), *(text for word in order for text in word)]
        assert getattr(_parser(argv).parse_args(argv), dest) == expected, argv


@pytest.mark.parametrize("command", OPEN_ENDED)
def test_what_is_no_input_is_still_refused(command: str, capsys: pytest.CaptureFixture[str]):
    _, words, _ = OPEN_ENDED[command]
    given = [command, *FIRST.get(command, ["net"]), *(text for word in words for text in word)]
    for more in (["--nonsense"], ["--nonsense", "x"], *([["other"]] if command == "records" else [])):
        with pytest.raises(SystemExit):
            main([*given, *more])
        assert f"unrecognized arguments: {' '.join(more)}" in capsys.readouterr().err


def test_an_onnx_file_is_verified_on_an_array_behind_the_other_model(net: Path, capsys: pytest.CaptureFixture[str]):
    out, data = f"{net}.onnx", net.with_name("x.npy")
    np.save(data, np.ones((2, 1, 8, 8), np.float32))
    assert main(["convert", str(net), out, "--shape", "data=batch,1,8,8"]) == 0
    assert main(["verify", out, "--against", str(net), f"data={data}"]) == 0
    assert "agrees" in capsys.readouterr().out


@pytest.mark.nightly("verifies a network that others verify")
@pytest.mark.slow("compiles")
def test_a_network_is_run_and_verified_on_arrays_behind_options(net: Path):
    data = net.with_name("x.npy")
    np.save(data, np.ones((2, 1, 8, 8), np.float32))
    assert main(["run", str(net), "--seed", "1", f"data={data}"]) == 0
    assert main(["verify", str(net), "--directions", "1", *SHAPE, "data=zeros"]) == 0
