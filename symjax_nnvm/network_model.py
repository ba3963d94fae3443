"""`Model`: a network and its arrays together, so that what changes the one keeps the other in step.

A face over functions that are there without it: `cut`, `inference_symbol`, `replace_head`, `check`, `summarize`,
`plot_network`, `save_checkpoint`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, SupportsIndex

import numpy as np

from symjax_nnvm.check import CheckReport, check
from symjax_nnvm.errors import ParamsFormatError, ParamsMismatchError, plain_list, printable, tells_new_names
from symjax_nnvm.inspect.roles import data_inputs, learned_variables
from symjax_nnvm.inspect.summary import Summary, summarize
from symjax_nnvm.io.files import atomic_writes, path_text
from symjax_nnvm.io.formats import FORMATS, format_of_name
from symjax_nnvm.ir.rules.quantized_parameters import way_out_of_mixing
from symjax_nnvm.mxnet.array_formats import MXNET, SAFETENSORS
from symjax_nnvm.mxnet.array_names import with_kinds
from symjax_nnvm.mxnet.find_files import SYMBOL_SUFFIX, as_epoch, prefix_of
from symjax_nnvm.onnx import find_any_model, to_onnx
from symjax_nnvm.surgery import cut, dequantized, inference_symbol, replace_head
from symjax_nnvm.surgery.dequantized import dequantized_arrays
from symjax_nnvm.symbol.call_arguments import expect_arrays, expect_symbol
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.tables import table_html
from symjax_nnvm.viz.network_plot import NetworkPlot, plot_network

Shapes = Mapping[str, Sequence[int]]


@tells_new_names
@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A network with its arrays: `net, args, aux = model`. Its methods return other models and leave it as it is.

    Arrays that the network does not use are left out. An array may be in either dict: the graph decides whether it is
    an argument or an auxiliary state.

    Args:
        net: the symbol.
        args: arguments by name.
        aux: auxiliary states by name.

    Raises:
        SymbolTypeError: `net` is not a symbol, or `args` or `aux` is not a dict.
        ParamsMismatchError: the network is of 8-bit integers, and the arrays are its float network's, or the other way.
    """

    net: Symbol
    args: Mapping[str, Any] = field(default_factory=dict)
    aux: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect_symbol(self.net, "Model")
        expect_arrays(self.args, "args")
        expect_arrays(self.aux, "aux")
        every = {**self.args, **self.aux}
        names = self.net.list_inputs()
        if way_out := way_out_of_mixing(set(names).difference(every), every):
            raise ParamsMismatchError("The arrays are another model's", got=plain_list(list(every)), fix=way_out)
        for kind, names in (("args", self.net.list_arguments()), ("aux", self.net.list_auxiliary_states())):
            object.__setattr__(self, kind, {name: every[name] for name in names if name in every})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        epoch: SupportsIndex | str | None = None,
        *,
        params: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Load a model from files.

        A symbol without arrays beside it gives a model without arrays. A warning names arrays that the network does not
        use.

        Args:
            path: a prefix, a symbol's file, a file of arrays in any format that `load_arrays` reads, or an ONNX file.
            epoch: a number, or text such as `"0003"`; None for the highest there is.
            params: the file of arrays, where it is not beside the symbol's.

        Raises:
            ModelNotFoundError: there is no such file; the message lists those there are.
            ParamsMismatchError: arrays are missing or have the wrong shape; the message lists all.
            JSONFormatError: the symbol's file is malformed.
            ParamsFormatError: the file of arrays is malformed.
            OnnxError: the ONNX file is malformed, or a node of it cannot be read.
            MissingExtraError: a format needs a package that is not installed.
            OSError: a file cannot be read.
        """
        number = None if epoch is None else as_epoch(epoch)
        beside = None if params is None else Path(path_text(params, "params"))
        return cls(*find_any_model(path_text(path), beside, number).load())

    def __iter__(self) -> Iterator[Any]:
        return iter((self.net, self.args, self.aux))

    @property
    def inputs(self) -> list[str]:
        """Return the names of the data and labels that each call needs, in the graph's order."""
        fed = data_inputs(self.net, (), self.args or None) - set(self.missing)
        return [name for name in self.net.list_arguments() if name in fed]

    @property
    def missing(self) -> list[str]:
        """Return the names of parameters and auxiliary states without an array, such as an untrained head's."""
        states = self.net.list_auxiliary_states()
        learned = {node.name for node in learned_variables(self.net)} | set(states)
        names = (*self.net.list_arguments(), *states)
        return [name for name in names if name in learned and name not in self.args and name not in self.aux]

    # -- another model of this one ----------------------------------------------------------------------------------

    def cut(self, layer: str | Sequence[str]) -> Self:
        """Return the network up to an internal output, or several, with the arrays that it still needs.

        Raises what `symjax_nnvm.cut` raises.

        Args:
            layer: the name of an output or a node, or several.
        """
        return self._with(cut(self.net, layer))

    def inference(self, *, labels: Sequence[str] | None = None) -> Self:
        """Return the network without training heads and labels.

        Raises what `symjax_nnvm.inference_symbol` raises.

        Args:
            labels: names of the variables that hold labels; None to find them.
        """
        return self._with(inference_symbol(self.net, labels=labels))

    def dequantized(self) -> Self:
        """Return a quantised or fused model as one of floats, by the names that its parameters had.

        Parameters of 8-bit integers become floats. Raises what `symjax_nnvm.dequantized` raises, and GraphError for a
        parameter without a range.
        """
        net = dequantized(self.net)
        return type(self)(net, dequantized_arrays(net, self.args), self.aux)

    def replace_head(self, output_name: str, fn: Callable[[Symbol], Symbol]) -> Self:
        """Return the network with a new head.

        Variables of the new head have no array, even where the old head had a variable of the same name; `missing`
        lists them. Raises what `symjax_nnvm.replace_head` raises.

        Args:
            output_name: the internal output that the new head starts from.
            fn: makes the head: `fn(features)` gets that output as a symbol.
        """
        fresh: set[str] = set()

        def head(features: Symbol) -> Symbol:
            built = fn(features)
            if isinstance(built, Symbol):  # replace_head raises the error where it is none
                fresh.update(set(built.list_inputs()) - set(features.list_inputs()))
            return built

        changed = replace_head(self.net, output_name, head)
        old_arrays = ({n: a for n, a in arrays.items() if n not in fresh} for arrays in (self.args, self.aux))
        return type(self)(changed, *old_arrays)

    def _with(self, net: Symbol) -> Self:
        return type(self)(net, self.args, self.aux)

    # -- looking at it ----------------------------------------------------------------------------------------------

    def check(self, shapes: Shapes | None = None, **options: Any) -> CheckReport:
        """Report what keeps the model from running, or makes it run differently than in MXNet.

        Raises what `symjax_nnvm.check` raises.

        Args:
            shapes: shapes of inputs by name.
            options: further arguments of `symjax_nnvm.check`.
        """
        return check(self.net, shapes, params=(self.args, self.aux) if self.args or self.aux else None, **options)

    def summary(self, shapes: Shapes | None = None) -> Summary:
        """Return the table of the model's layers; the shapes of parameters are those of their arrays.

        Raises what `symjax_nnvm.summarize` raises.

        Args:
            shapes: shapes of inputs by name.
        """
        return summarize(self.net, self._shapes(shapes), self.args or None)

    def plot(self, shapes: Shapes | None = None, **options: Any) -> NetworkPlot:
        """Draw the model.

        Raises what `symjax_nnvm.plot_network` raises.

        Args:
            shapes: shapes of inputs by name; with them the drawing shows all shapes.
            options: further arguments of `symjax_nnvm.plot_network`.
        """
        all_shapes = self._shapes(shapes) if shapes else None
        return plot_network(self.net, all_shapes, **{"params": self.args or None, **options})

    def _shapes(self, shapes: Shapes | None) -> dict[str, Sequence[int]]:
        arrays = {**self.args, **self.aux}
        return {name: np.shape(array) for name, array in arrays.items()} | dict(shapes or {})

    def __repr__(self) -> str:
        without = f", {len(self.missing)} without array" if self.missing else ""
        return (
            f"<Model {printable(self.net.name or 'Grouped')}: inputs {plain_list(self.inputs)}; "
            f"{len(self.args)} arguments, {len(self.aux)} states{without}>"
        )

    def _repr_html_(self) -> str:
        summary = self.summary()
        return self.plot().above(table_html(summary.columns, summary.rows(), 3, [repr(self), *summary.totals()]))

    # -- running and saving -----------------------------------------------------------------------------------------

    def predictor(self, **options: Any) -> Any:
        """Return the `lowering.Predictor` of the model, a function `predict(data=x)`.

        Raises what `lowering.Predictor` raises.

        Args:
            options: arguments of `lowering.Predictor`.
        """
        return _lowering().Predictor(self.net, self.args, self.aux, **options)

    def to_jax_source(
        self, folder: str | os.PathLike[str], shapes: Mapping[str, Sequence[int | str]], **options: Any
    ) -> list[Path]:
        """Write the model as plain JAX, which needs neither this library nor MXNet: a module and its weights.

        Raises what `lowering.to_source` raises.

        Args:
            folder: where; it is made where there is none. The module is named after it.
            shapes: shapes of inputs by name; a size may be a name such as `"batch"`.
            options: further arguments of `lowering.to_source`.

        Returns:
            The paths of the module and of `weights.npz`.
        """
        return _lowering("source").save_source(folder, self.net, self.args, self.aux, shapes, **options)

    def to_onnx(self, shapes: Mapping[str, Sequence[int | str]], **options: Any) -> Any:
        """Return the network at inference as an `onnx.ModelProto`.

        Raises what `symjax_nnvm.to_onnx` raises.

        Args:
            shapes: shapes of inputs by name; a size may be a name such as `"batch"`.
            options: further arguments of `symjax_nnvm.to_onnx`.
        """
        return to_onnx(self.net, self.args, self.aux, shapes=shapes, **options)

    def save(
        self, path: str | os.PathLike[str], epoch: SupportsIndex | str | None = None, *, format: str | None = None
    ) -> list[Path]:
        """Write the network and its arrays to files, all of them or none; existing files are replaced whole.

        A model without arrays writes only the symbol's file.

        Args:
            path: a name that ends in `.safetensors`, with `-symbol.json` beside it; any other name is the prefix of
                MXNet's two files (as in `save_checkpoint`), or the name of either.
            epoch: the epoch in the name of MXNet's file of arrays; None for the one in `path`, else 0.
            format: "mxnet" or "safetensors", whatever `path` ends in; None to go by the name.

        Returns:
            The paths of the files.

        Raises:
            ParamsFormatError: the format cannot hold an array, or is one that is only read.
            FileError: no file can be written to the path.
            OSError: a file cannot be written.
        """
        files, row = _files(path_text(path), epoch, format)
        files = files if self.args or self.aux else files[:1]
        with atomic_writes(*reversed(files)) as streams:
            streams[-1].write(Symbol.tojson(self.net).encode())
            if len(files) > 1:
                row(streams[0], with_kinds(self.args, self.aux))
        return files


def _lowering(part: str = "") -> Any:
    """Return the package `lowering`, or a module of it. It is built on this package, which imports it only here, by
    name."""
    return importlib.import_module("lowering" + (f".{part}" if part else ""))


def _files(path: str, epoch: SupportsIndex | str | None, format: str | None) -> tuple[list[Path], Callable[..., None]]:
    """Return the symbol's file, the arrays', and a function that writes the latter. Raises ParamsFormatError."""
    row = FORMATS.get(format) if format is not None else format_of_name(path) or MXNET
    prefix, epoch_in_path = prefix_of(path)
    if row is None or row.write is None or (row is MXNET and prefix.endswith(MXNET.suffixes)):
        kinds = [name for name, kind in FORMATS.items() if kind.write is not None]
        raise ParamsFormatError(
            f"A model cannot be saved as {printable(path)}" + (f", format {printable(str(format))}" if format else ""),
            expected=f"the prefix of MXNet's two files, or a name that ends in {plain_list(SAFETENSORS.suffixes)}",
            fix=f"{printable(Path(path).stem)!r} is a prefix; format= is {' or '.join(kinds)}.",
        )
    if row is MXNET:
        number = as_epoch(epoch if epoch is not None else epoch_in_path or 0)
        return [Path(prefix + SYMBOL_SUFFIX), Path(f"{prefix}-{number:04d}.params")], row.write
    arrays = Path(path if path.lower().endswith(row.suffixes) else path + row.suffixes[0])
    return [arrays.with_name(arrays.stem + SYMBOL_SUFFIX), arrays], row.write
