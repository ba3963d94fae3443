"""A target under libFuzzer: `python -m tests.fuzz.atheris_target symbol_json CORPUS -runs=200000`.

Needs atheris (`pip install 'symjax-nnvm[fuzz]'`, Linux or macOS). `tests.fuzz.run --engine atheris` calls it with a
corpus. The readers are instrumented, so that libFuzzer keeps the inputs that reach new lines.
"""

from __future__ import annotations

import sys

import atheris  # pyright: ignore  # an extra of its own, with wheels for few platforms

with atheris.instrument_imports(include=["symjax_nnvm"]):  # pyright: ignore
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """libFuzzer's command line behind the name of a target."""
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, lambda data: (target(data), None)[1])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
