"""`symjax-nnvm env`: versions, devices, native help, and why there is none."""

import json

import jax
import pytest

from lowering.convolutions import backends
from lowering.convolutions.backends import onednn
from symjax_nnvm.cli import main


def facts(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert main(["env", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_versions_and_devices_are_said(capsys: pytest.CaptureFixture[str]):
    found = facts(capsys)
    assert found["jax"] == jax.__version__
    assert found["devices"].count("cpu:") == len(jax.devices("cpu"))
    assert found["oneDNN"] == (onednn.why_not() or "in use for convolutions and dense layers")


def test_what_is_turned_off_says_by_what(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SYMJAX_NNVM_ONEDNN", "0")
    monkeypatch.setenv("SYMJAX_NNVM_STREAMS", "0")
    found = facts(capsys)
    assert found["oneDNN"] == "SYMJAX_NNVM_ONEDNN=0 in the environment"
    assert found["streams"] == "SYMJAX_NNVM_STREAMS=0 in the environment"
    assert found["SYMJAX_NNVM_ONEDNN"] == "0"


def test_xlas_own_calls_are_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SYMJAX_NNVM_ONEDNN", "xla")
    made = "made" if backends.xla_makes_calls() else "this jaxlib makes none"
    assert facts(capsys)["oneDNN"] == onednn.why_not() or facts(capsys)["oneDNN"].endswith(made)
    assert "xla_cpu_experimental_onednn_custom_call=True" in facts(capsys)["compile options"]
    monkeypatch.setenv("SYMJAX_NNVM_ONEDNN", "xls")
    assert main(["env"]) == 2
    assert "Did you mean 'xla'?" in capsys.readouterr().err


@pytest.mark.parametrize("machine", ["arm64", "aarch64", ""])
def test_other_processors_are_told(machine: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onednn.platform, "machine", lambda: machine)
    assert facts(capsys)["oneDNN"].startswith("jaxlib has it for x86 processors, this is ")


def test_it_is_for_people_too(capsys: pytest.CaptureFixture[str]):
    found = facts(capsys)
    assert main(["env"]) == 0
    width = max(map(len, found))
    assert capsys.readouterr().out.splitlines() == [f"{name:{width}}  {value}" for name, value in found.items()]
