"""MXNet's own unit tests on `lowering.mx`: `python -m tests.peers.mxnet --source CHECKOUT`.

CHECKOUT is a working tree of apache/mxnet at tag 1.9.1; nothing of it is kept here. Each file of tests runs in a
process of its own in which `import mxnet` is `lowering.mx` (`lowering.mx.install`). `mxnet.toml` lists the tests that
are not expected to pass, each with a reason; a test that fails and is not there makes the command fail, and so does one
that is there and passes.
"""

import sys
from pathlib import Path

from tests.peers.run import arguments, compare

FILES = (
    *("symbol", "attr", "executor", "infer_shape", "infer_type", "module", "io", "metric", "init", "rnn", "viz"),
    *("autograd", "model_parallel", "multi_device_exec", "recordio", "optimizer", "ndarray", "kvstore"),
    *("kvstore_custom", "contrib_control_flow", "contrib_krprod", "contrib_stes_op", "contrib_hawkesll", "contrib_io"),
    *("contrib_optimizer", "contrib_operator", "contrib_autograd"),
    *("contrib_text", "random", "operator", "higher_order_grad", "loss", "image", "profiler"),
    *("sparse_operator", "sparse_ndarray"),
    *("numpy_op", "numpy_ndarray", "numpy_gluon", "numpy_interoperability"),
    *("gluon_data", "gluon_data_vision", "gluon_rnn", "gluon_contrib", "gluon_model_zoo"),
    *("gluon", "gluon_save", "gluon_trainer", "gluon_utils", "gluon_estimator", "gluon_event_handler"),
    *("quantization", "quantization_mkldnn", "subgraph"),
)
FOLDERS = ("unittest", "quantization", "mkl")


def main() -> int:
    """Returns 1 where a result is not as the list says."""
    options = arguments(__doc__, "apache/mxnet at tag 1.9.1", FILES)
    folders = [options.source / "tests" / "python" / name for name in FOLDERS]
    paths = [path for name in options.files for folder in folders if (path := folder / f"test_{name}.py").is_file()]
    given = options.seconds, options.workers, options.only, options.out
    return compare("tests.peers.mxnet_plugin", paths, Path(__file__).with_suffix(".toml"), *given)


if __name__ == "__main__":
    sys.exit(main())
