"""What tests run in is as it is asked for, and as before afterwards."""

import os

import pytest

from lowering import mx
from lowering.mx import test_utils as tu
from tests.support import warm


def test_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MX_A", "1")
    monkeypatch.delenv("MX_B", raising=False)
    seen: list[str | None] = []

    def fail() -> None:
        with tu.environment({"MX_A": None, "MX_B": "2"}):
            seen.extend([tu.getenv("MX_A"), tu.getenv("MX_B")])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [None, "2"]
    with tu.environment("MX_A", "3"):
        assert os.environ["MX_A"] == "3"
    with tu.EnvManager("MX_B", "4"):
        assert os.environ["MX_B"] == "4"
    assert (os.environ["MX_A"], os.environ.get("MX_B")) == ("1", None)
    with pytest.raises(AssertionError, match="Expecting one dict arg or two args"), tu.environment("MX_A"):
        pass
    assert (tu.set_env_var("MX_A", "5"), tu.set_env_var("MX_B", "6", "none")) == ("1", "none")
    assert (os.environ["MX_A"], os.environ.pop("MX_B")) == ("5", "6")
    tu.setenv("MX_A", None)
    assert "MX_A" not in os.environ


@pytest.mark.slow("starts processes")
def test_no_errors_are_shown():
    code = """
import os, sys
from lowering.mx.test_utils import discard_stderr
with discard_stderr():
    print("first", file=sys.stderr)
    os.write(2, b"second")
print("third", file=sys.stderr)
"""
    done = warm.run(["-c", code])
    assert done.stderr.strip().splitlines()[-1] == "third"
    assert "first" not in done.stderr
    assert "second" not in done.stderr


def test_exceptions_and_retries():
    tu.assert_exception(int, ValueError, "x")
    with pytest.raises(AssertionError, match="did not raise"):
        tu.assert_exception(int, ValueError, "3")
    with pytest.raises(TypeError):
        tu.assert_exception(int, ValueError, None)
    tried: list[int] = []

    @tu.retry(3)
    def third(wanted: int) -> None:
        """It passes at the third try."""
        tried.append(wanted)
        assert len(tried) >= wanted

    third(3)
    assert tried == [3, 3, 3]
    assert third.__name__ == "third"
    with pytest.raises(AssertionError):
        third(9)
    assert len(tried) == 6


def test_the_machine(monkeypatch: pytest.MonkeyPatch):
    assert list(tu.list_gpus()) == list(range(mx.num_gpus()))
    monkeypatch.setenv("CD_JOB", "1")
    assert tu.is_cd_run()
    monkeypatch.setenv("CD_JOB", "0")
    assert not tu.is_cd_run()
    assert tu.is_aarch64_run() == (os.uname().machine == "aarch64")
    assert (tu.has_tvm_ops(), tu.is_op_runnable()) == (False, True)
    before = tu.default_context()
    tu.set_default_context(mx.cpu(1))
    assert mx.current_context() == mx.cpu(1)
    tu.set_default_context(before)
    assert tu.use_np is mx.use_np
