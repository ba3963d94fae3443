"""What MXNet 1.9.1 gives, in files, and the programs that made them.

They run by hand, from the project's root, in an environment that `make.py` describes: as
`mxnet-env/bin/python -m tests.goldens.NAME`, without MXNet's fusions.
"""

import os

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")
