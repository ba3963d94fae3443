"""Cells made of cells: one after the other, in both directions, and with something done to what they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowering.messages.counts import check_number, checks_flags
from lowering.mx import symbol as sym
from lowering.mx.ndarray import NDArray
from lowering.mx.rnn.symbol_cells import BaseRNNCell, Params, RNNParams, States, normalized
from lowering.mx.symbol import Symbol
from symjax_nnvm.errors import ComposeError


class _Several(BaseRNNCell):
    """Holds cells whose states come one after the other."""

    def __init__(self, params: RNNParams | None):
        self._cells: list[BaseRNNCell] = []
        super().__init__("", params)
        self._override_cell_params = params is not None

    def _join(self, cell: BaseRNNCell) -> None:
        """Take a cell in. Raises ComposeError."""
        if self._override_cell_params and not cell._own_params:
            raise ComposeError("Either specify params for the whole or for the cells in it, not both.")
        if self._override_cell_params:
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)
        self._cells.append(cell)

    def reset(self) -> None:
        """Begin to count steps anew."""
        super().reset()
        for cell in self._cells:
            cell.reset()

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Return the states of all cells."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, func: Any = None, **kwargs: Any) -> States:
        """Return the states of all cells before the first step."""
        return [state for cell in self._cells for state in cell.begin_state(func, **kwargs)]

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Params:
        """Return arguments with each gate's weights apart."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return dict(args)

    def pack_weights(self, args: Mapping[str, NDArray]) -> Params:
        """Return arguments with the gates' weights in one."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return dict(args)

    def _parted(self, states: States) -> list[tuple[BaseRNNCell, States]]:
        """Return each cell with its states."""
        pairs, first = [], 0
        for cell in self._cells:
            count = len(cell.state_info)
            pairs.append((cell, states[first : first + count]))
            first += count
        return pairs


class SequentialRNNCell(_Several):
    """A stack of cells; `add` puts one on top.

    Args:
        params: the RNNParams of another cell, whose weights it shares.
    """

    def __init__(self, params: RNNParams | None = None):
        super().__init__(params)

    def add(self, cell: BaseRNNCell) -> None:
        """Put a cell on top."""
        self._join(cell)

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step of each."""
        self._counter += 1
        after: States = []
        for cell, cell_states in self._parted(states):
            inputs, new = cell(inputs, cell_states)
            after += new
        return inputs, after

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None
    ) -> tuple[Any, States]:
        """Unroll one cell after the other; see `BaseRNNCell.unroll`."""
        after: States = []
        parts = self._parted(self.begin_state() if begin_state is None else begin_state)
        for i, (cell, cell_states) in enumerate(parts):
            merge = merge_outputs if i == len(parts) - 1 else None
            inputs, new = cell.unroll(length, inputs, cell_states, layout, merge)
            after += new
        return inputs, after


class BidirectionalCell(_Several):
    """Two cells: the second runs from the last step to the first, and the output has both results side by side.

    Args:
        l_cell: the cell that runs forwards.
        r_cell: the cell that runs backwards.
        params: the RNNParams of another cell, whose weights it shares.
        output_prefix: the beginning of the outputs' names.
    """

    def __init__(
        self,
        l_cell: BaseRNNCell,
        r_cell: BaseRNNCell,
        params: RNNParams | None = None,
        output_prefix: str = "bi_",
    ):
        super().__init__(params)
        self._output_prefix = output_prefix
        self._join(l_cell)
        self._join(r_cell)

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None
    ) -> tuple[Any, States]:
        """Unroll both directions; the states are a list for each direction. See `BaseRNNCell.unroll`."""
        inputs, axis = normalized(length, inputs, layout, merge=False)
        (left, begin), (right, end) = self._parted(self.begin_state() if begin_state is None else begin_state)
        ahead, states = left.unroll(length, inputs, begin, layout, merge_outputs)
        back, ends = right.unroll(length, inputs[::-1], end, layout, merge_outputs)
        if merge_outputs is None:
            merge_outputs = isinstance(ahead, Symbol) and isinstance(back, Symbol)
            if not merge_outputs:
                ahead, back = (
                    normalized(length, outputs_of_one, layout, merge=False)[0] for outputs_of_one in (ahead, back)
                )
        if merge_outputs:
            back = sym.reverse(back, axis=axis)
            return sym.Concat(ahead, back, dim=2, name=f"{self._output_prefix}out"), [states, ends]
        pairs = zip(ahead, reversed(back), strict=True)
        outputs = [sym.Concat(*pair, dim=1, name=f"{self._output_prefix}t{i}") for i, pair in enumerate(pairs)]
        return outputs, [states, ends]


class DropoutCell(BaseRNNCell):
    """Dropout of the inputs.

    Args:
        dropout: the probability of dropping an element.
        prefix: the beginning of the variables' names.
        params: the RNNParams of another cell, whose weights it shares.
    """

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None):
        super().__init__(prefix, params)
        check_number(dropout, "dropout")
        self.dropout = dropout

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        return (sym.Dropout(data=inputs, p=self.dropout) if self.dropout > 0 else inputs), states

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None
    ) -> tuple[Any, States]:
        """Unroll the cell; all steps at once where they are one symbol. See `BaseRNNCell.unroll`."""
        inputs, _ = normalized(length, inputs, layout, merge_outputs)
        if isinstance(inputs, Symbol):
            return self(inputs, [])
        return super()._unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(BaseRNNCell):
    """The base class of cells that change what another cell returns; they have its parameters and states.

    Args:
        base_cell: the other cell.
    """

    @checks_flags
    def __init__(self, base_cell: BaseRNNCell):
        self.base_cell = base_cell
        super().__init__()
        base_cell._modified = True

    def reset(self) -> None:
        """Start counting steps again."""
        super().reset()
        self.base_cell.reset()

    @property
    def params(self) -> RNNParams:
        """Return the other cell's variables."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Return the other cell's states."""
        return self.base_cell.state_info

    def begin_state(self, func: Any = None, **kwargs: Any) -> States:
        """Return the other cell's states before the first step."""
        self.base_cell._modified = False
        begin = self.base_cell.begin_state(func, **kwargs)
        self.base_cell._modified = True
        return begin

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Params:
        """Return arguments with the weights of each gate in an array of their own."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Mapping[str, NDArray]) -> Params:
        """Return arguments with the weights of all gates in one array."""
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """A cell whose outputs and states randomly keep elements of the step before.

    Args:
        base_cell: the other cell.
        zoneout_outputs: the probability for an element of the output.
        zoneout_states: the probability for an element of a state.
    """

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0):
        if isinstance(base_cell, BidirectionalCell):
            raise ComposeError("BidirectionalCell doesn't support zoneout", fix="Add ZoneoutCell to the cells in it.")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states

    def reset(self) -> None:
        """Start counting steps again."""
        super().reset()
        self.prev_output: Symbol | None = None

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        output, after = self.base_cell(inputs, states)

        def mixed(rate: float, new: Symbol, old: Symbol) -> Symbol:
            return sym.where(sym.Dropout(sym.ones_like(new), p=rate), new, old) if rate else new

        before = sym.zeros_like(output) if self.prev_output is None else self.prev_output
        self.prev_output = mixed(self.zoneout_outputs, output, before)
        return self.prev_output, [mixed(self.zoneout_states, new, old) for new, old in zip(after, states, strict=True)]


class ResidualCell(ModifierCell):
    """A cell whose inputs are added to its outputs."""

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        output, after = self.base_cell(inputs, states)
        return sym.elemwise_add(output, inputs, name=f"{output.name}_plus_residual"), after

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None
    ) -> tuple[Any, States]:
        """Unroll the cell; see `BaseRNNCell.unroll`."""
        self.base_cell._modified = False
        outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs)
        self.base_cell._modified = True
        merge = isinstance(outputs, Symbol) if merge_outputs is None else merge_outputs
        inputs, _ = normalized(length, inputs, layout, merge)
        if merge:
            return sym.elemwise_add(outputs, inputs, name=f"{outputs.name}_plus_residual"), states
        pairs = zip(outputs, inputs, strict=True)
        return [sym.elemwise_add(out, x, name=f"{out.name}_plus_residual") for out, x in pairs], states
