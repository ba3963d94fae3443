"""`python -m lowering` is the command `symjax-nnvm`."""

import sys

from symjax_nnvm.cli import main

if __name__ == "__main__":
    sys.exit(main())
