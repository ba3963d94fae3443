"""Write down what MXNet 1.9.1's monitor calls inputs and outputs: `monitor.json`, one case of each operator.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.monitor
"""

import json
import sys

import mxnet as mx  # type: ignore[import-not-found]

from tests.cases import Case, families
from tests.goldens.make import HERE, compose


def names(case: Case) -> list[str]:
    """What the monitor of all inputs and outputs is called with, in order. Raises mx.MXNetError."""
    arrays = {f"in{i}": mx.nd.array(value, dtype=value.dtype) for i, value in enumerate(case.values())}
    symbol = compose(case, [mx.sym.Variable(name) for name in arrays])
    aux = {name: arrays[name] for name in symbol.list_auxiliary_states()}
    args = {name: arrays[name] for name in symbol.list_arguments()}
    executor = symbol.bind(mx.cpu(), args, grad_req="null", aux_states=aux)
    seen: list[str] = []
    executor.set_monitor_callback(lambda name, array: seen.append(name.decode()), monitor_all=True)
    executor.forward(is_train=case.is_train)
    mx.nd.waitall()
    return seen


def main() -> None:
    """The first case of each operator that MXNet runs inside a graph."""
    found: dict[str, dict[str, object]] = {}
    for cases in families().values():
        for case in cases:
            if case.op in found or case.no_mxnet or case.writes_over:
                continue
            try:
                found[case.op] = {"case": case.id, "names": names(case)}
            except mx.MXNetError as error:
                print(f"REFUSED {case.id}: {str(error).strip().splitlines()[-1][:200]}", file=sys.stderr)
    rows = ",\n".join(f"{json.dumps(op)}: {json.dumps(row)}" for op, row in sorted(found.items()))
    (HERE / "monitor.json").write_text(f"{{\n{rows}\n}}\n")


if __name__ == "__main__":
    main()
