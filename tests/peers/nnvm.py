"""NNVM's own core tests on `symjax_nnvm`: `python -m tests.peers.nnvm --source CHECKOUT`.

CHECKOUT is a working tree of dmlc/nnvm, branch mxnet; nothing of it is kept here. `nnvm.toml` lists the tests that are
not expected to pass, each with a reason.
"""

import sys
from pathlib import Path

from tests.peers.run import arguments, compare


def main() -> int:
    """Returns 1 where a result is not as the list says."""
    options = arguments(__doc__, "dmlc/nnvm, branch mxnet", ("symbol", "graph", "gradient"))
    paths = [options.source / "tests" / "python" / f"test_{name}.py" for name in options.files]
    given = options.seconds, options.workers, options.only, options.out
    return compare("tests.peers.nnvm_plugin", paths, Path(__file__).with_suffix(".toml"), *given)


if __name__ == "__main__":
    sys.exit(main())
