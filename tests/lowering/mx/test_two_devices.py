"""Arrays of two devices do not meet in a computation: MXNet's errors name both contexts. What copies may cross."""

import json
from typing import Any

import pytest

from tests.support import warm


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    ran = warm.run(["-m", "tests.lowering.mx.on_two_devices"])
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


ALIKE = "Operator {} require all inputs live on the same context. But the first argument is on {} while the {}-th "
REFUSED = {
    "a + b": ALIKE.format("broadcast_add", "gpu(0)", 2) + "argument is on cpu(0). x.as_in_context(mx.gpu(0)) copies",
    "b + a": ALIKE.format("broadcast_add", "cpu(0)", 2) + "argument is on gpu(0). x.as_in_context(mx.cpu(0)) copies",
    "two GPUs": ALIKE.format("broadcast_add", "gpu(0)", 2) + "argument is on gpu(1)",
    "an operator of many": ALIKE.format("Concat", "gpu(0)", 3) + "argument is on cpu(0)",
    "in place": ALIKE.format("broadcast_add", "gpu(0)", 2) + "argument is on cpu(0)",
    "recorded": ALIKE.format("broadcast_mul", "gpu(0)", 2) + "argument is on cpu(0)",
    "a parameter elsewhere": ALIKE.format("FullyConnected", "gpu(0)", 2) + "argument is on cpu(0)",
    "an update": ALIKE.format("adam_update", "cpu(0)", 2) + "argument is on gpu(0)",
    "a head gradient": ALIKE.format("backward", "gpu(0)", 2) + "argument is on cpu(0)",
    "a mask": ALIKE.format("_contrib_boolean_mask", "gpu(0)", 2) + "argument is on cpu(0)",
    "hybridised": "Find multiple contexts in the input",
    "CachedOp": "CachedOp requires all inputs to live on the same context. But x is on gpu(0) while y is on cpu(0)",
    "bound": "Input array is in cpu(0) while binding with ctx=gpu(0). All arguments must be in global context (gpu(0))",
}

COMPUTED = {  # numbers, context, devices
    "a + a": [[[2.0, 2.0], [2.0, 2.0]], "gpu(0)", [1]],
    "two of the CPU": [[2.0, 2.0], "cpu(1)", [0]],
    "copied": [[[2.0, 2.0], [2.0, 2.0]], "gpu(0)", [1]],
    "written": [[[1.0, 1.0], [1.0, 1.0]], "cpu(0)", [0]],
    "written as out": [[[2.0, 2.0], [2.0, 2.0]], "cpu(0)", [0]],
    "the gradient of a copy": [[[3.0, 0.0], [3.0, 0.0]], "cpu(0)", [0]],
    "a second gradient": [[12.0], "gpu(0)", [1]],
    "a store": [[[4.0, 4.0], [4.0, 4.0]], "gpu(0)", [1]],
    "trained": [[[0.5, 0.5]], "gpu(1)", [2]],
    "bound there": [[[2.0, 2.0], [2.0, 2.0]], "gpu(0)", [1]],
    "a CustomOp": [[[5.0, 5.0], [5.0, 5.0]], "gpu(0)", [1]],
    "hybridised there": [[[2.0], [2.0]], "gpu(1)", [2]],
    "moved between GPUs": [[[2.0, 2.0], [2.0, 2.0]], "gpu(1)", [2]],
    "copied between GPUs": [[[1.0, 1.0], [1.0, 1.0]], "gpu(1)", [2]],
    "drawn there": [[[1.0, 1.0], [1.0, 1.0]], "gpu(0)", [1]],
}


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("what", REFUSED)
def test_arrays_of_two_devices_are_refused(told: dict[str, Any], what: str):
    assert REFUSED[what] in told[what]


@pytest.mark.slow("waits for processes or threads")
@pytest.mark.parametrize("what", COMPUTED)
def test_what_is_on_one_device_or_copies_is_computed_there(told: dict[str, Any], what: str):
    assert told[what] == COMPUTED[what]


@pytest.mark.slow("starts processes")
def test_a_module_of_two_devices_merges_its_outputs_on_the_first(told: dict[str, Any]):
    _, context, devices = told["a module"]
    assert (context, devices) == ("gpu(0)", [1])
