"""What a start does not wait for."""

import subprocess
import sys

import pytest

_CODE = """
import sys
import lowering
late = "lowering.training", "lowering.data", "lowering.executor", "lowering.mx"
loaded = [name for name in sys.modules if name.startswith(late)]
assert not loaded, loaded
assert set(lowering.__all__) <= set(dir(lowering))
found = {name: getattr(lowering, name) for name in (*lowering.__all__, "mx")}
assert found["compile"] is lowering.compile and callable(lowering.compile)
assert lowering.mx.nd is found["mx"].nd
assert callable(lowering.explain) and lowering.data is sys.modules["lowering.data"]
"""


@pytest.mark.nightly("starts processes")
def test_what_a_server_does_not_use_is_loaded_when_it_is_asked_for():
    subprocess.run([sys.executable, "-c", _CODE], check=True)
