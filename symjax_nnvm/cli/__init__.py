"""The command `symjax-nnvm` shows what a model is, whether it runs, and what it computes, without a program.

Each subcommand is a module of two functions, `add_arguments(parser)` and `run(options) -> exit code`; only the chosen
one is imported, so that those that need no JAX answer at once. Exit codes: 0 yes, 1 no (a model that does not run, two
that differ, gradients that disagree), 2 wrong usage or a file that cannot be read. Results go to stdout, everything
else to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from symjax_nnvm import __version__
from symjax_nnvm.cli.argument_types import Parser
from symjax_nnvm.cli.console import note, safe_streams
from symjax_nnvm.errors import NNVMError

COMMANDS: dict[str, tuple[str, str]] = {
    "inspect": ("symjax_nnvm.cli.inspect", "table of layers: output shapes, parameters, FLOPs"),
    "check": ("symjax_nnvm.cli.check", "will it run here? everything in the way, at once"),
    "plot": ("symjax_nnvm.cli.plot", "draw the network, repeated blocks folded"),
    "diff": ("symjax_nnvm.cli.diff", "what differs between two models"),
    "records": ("symjax_nnvm.cli.records", "list, verify or make record files (.rec)"),
    "run": ("lowering.cli.run", "run it on arrays, an image or random numbers"),
    "verify": ("lowering.cli.verify", "prove its gradients against JAX's and finite differences"),
    "tune": ("lowering.cli.tune", "measure its convolutions here, for the fastest algorithms"),
    "env": ("lowering.cli.env", "versions, devices, which native help is in use, and why not"),
    "convert": ("lowering.cli.convert", "to StableHLO, safetensors or MXNet 1.9.1's files"),
}
"""Subcommand → (module, help). The names of `lowering`'s are only text here: this package stands without it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code. argv: arguments, default those of the process, which is the command's own
    then: what runs networks has it keep freed memory.

    Raises SystemExit for `--help` and for usage that argparse refuses.
    """
    defaults = argparse.Namespace(own_process=argv is None)
    argv = list(sys.argv[1:] if argv is None else argv)
    safe_streams()
    options = _parser(argv).parse_args(argv, defaults)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return options.run(options)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `| head`: the reader has read enough, and the rest of stdout has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (NNVMError, OSError, MemoryError, RuntimeError) as error:  # XLA's own errors are RuntimeErrors
        if options.traceback:
            traceback.print_exc()
        note(f"symjax-nnvm: error: {_worded(error)}")
        return 2


def _worded(error: Exception) -> str:
    """Return the text of an error; of the system's own the file first, without their number."""
    if isinstance(error, OSError) and not isinstance(error, NNVMError) and error.strerror and error.filename:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error) or type(error).__name__


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser; of the subcommands, only the one in argv gets its arguments."""
    parser = Parser(
        prog="symjax-nnvm",
        description="MXNet 1.x models on JAX. MODEL is a -symbol.json, a file of parameters, or their common prefix.",
        epilog="exit codes: 0 yes, 1 no, 2 wrong usage or unreadable file",
    )
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((arg for arg in argv if not arg.startswith("-")), None)
    for name, (module_name, help) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help, description=help)
        if name != chosen:
            continue
        module: Any = importlib.import_module(module_name)
        subparser.description = module.__doc__.split("\n\n")[0]
        module.add_arguments(subparser)
        subparser.add_argument("--json", action="store_true", help="print JSON for programs")
        subparser.add_argument("--traceback", action="store_true", help="show where an error came from")
        subparser.set_defaults(run=module.run)
    return parser


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"symjax-nnvm: warning: {message}")
