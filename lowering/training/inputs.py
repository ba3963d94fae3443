"""The inputs of a network in training: its data and label arguments, and batches checked against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.messages.arguments import as_array
from symjax_nnvm.errors import TrainingError, close_names, listed, refuse_unknown
from symjax_nnvm.symbol.symbol import Symbol

Batch = Mapping[str, Any]


@dataclass(frozen=True)
class Inputs:
    """Describes the inputs of a network. dtypes: the dtype of each, by name, as inferred; batches are cast to them on
    the device.

    The batch is axis 0 of the first data array.
    """

    data: tuple[str, ...]
    labels: tuple[str, ...]
    dtypes: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Return data, then labels."""
        return self.data + self.labels

    def as_batch(self, item: Any) -> dict[str, Any]:
        """Return a batch by argument name, from a dict, from (data, label), or from the data alone.

        data and label may be arrays, or lists of arrays in the order of the names. Each is converted by `as_array`.
        Raises TrainingError, for lists of numbers, too.
        """
        if isinstance(item, Mapping):
            return {name: _array(name, value) for name, value in item.items()}
        if hasattr(item, "label") and hasattr(item, "data"):  # checked last: NumPy's dates raise here
            names = ", ".join(f"{name!r}: ..." for name in self.names[:3])
            raise TrainingError(
                "Trainer cannot use a batch of an iterator of mx.io",
                expected="a dict by argument name, (data, label), or an array",
                got=type(item).__name__,
                fix=f"Use mx.mod.Module.fit, or give Trainer.fit lowering.Batches({{{names}}}, batch_size=32).",
            )
        groups = (item,) if not isinstance(item, (tuple, list)) else item
        names = (self.data, self.labels)
        if len(groups) > 2:
            raise TrainingError("This is not a batch", expected="a dict, or (data, label)", got=f"{len(groups)} values")
        batch: dict[str, Any] = {}
        for what, group, group_names in zip(("data", "label"), groups, names, strict=False):
            values = list(group) if isinstance(group, (tuple, list)) else [group]
            if len(values) != len(group_names):
                expected = f"{len(group_names)} arrays of {what}, for {listed(group_names)}"
                fix = (
                    f"To pass a batch by name use a dict: {{{', '.join(f'{name!r}: ...' for name in self.names[:3])}}}."
                )
                raise TrainingError("The batch does not fit this network", expected=expected, got=len(values), fix=fix)
            batch.update({name: _array(name, value) for name, value in zip(group_names, values, strict=True)})
        return batch

    def prepare(self, batch: Batch, *, labels_needed: bool = True) -> dict[str, jax.Array]:
        """Return a batch, checked and cast. Run while tracing, so it costs nothing per step. Raises TrainingError."""
        unknown = [name for name in batch if name not in self.names]
        missing = [name for name in self.data if name not in batch]
        missing_labels = [name for name in self.labels if name not in batch] if labels_needed else []
        problems = [f"has unknown arguments {listed(unknown)}"] if unknown else []
        problems += [f"lacks the data {listed(missing)}"] if missing else []
        problems += [f"lacks the labels {listed(missing_labels)}"] if missing_labels else []
        if problems:
            raise TrainingError(
                f"The batch {' and '.join(problems)}",
                expected=f"exactly {listed(self.names)}",
                fix=self._way_out(unknown, missing, missing_labels),
            )
        return {name: self._cast(name, value) for name, value in batch.items()}

    def _way_out(self, unknown: list[str], missing: list[str], missing_labels: list[str]) -> str:
        if unknown and len(unknown) == len(missing) + len(missing_labels):
            names = ", ".join(f"{name!r}: batch[{old!r}]" for name, old in zip(self.names, unknown, strict=False))
            return f"A batch must have the names of the network's arguments: {{{names}}}."
        if missing_labels and not missing:
            return "trainer.predict(data) needs no labels; training takes (data, label), or a dict with both."
        extra = "Name other inputs when you make the trainer: Trainer(symbol, data_names=[...], label_names=[...])."
        return f"{close_names(unknown, self.names)} {extra}".strip()

    def _cast(self, name: str, value: jax.Array) -> jax.Array:
        if not value.shape:
            raise TrainingError(
                "An input must have the samples of the batch on axis 0",
                input=name,
                got="an array of shape ()",
                fix="For one sample pass x[None].",
            )
        dtype = jnp.dtype(self.dtypes[name])
        from_float = jnp.issubdtype(value.dtype, jnp.floating)
        usable = from_float or value.dtype == jnp.bool_ or jnp.issubdtype(value.dtype, jnp.integer)
        if not usable or (from_float and not jnp.issubdtype(dtype, jnp.floating)):
            raise TrainingError("The input has the wrong dtype", input=name, expected=dtype.name, got=value.dtype)
        return jnp.asarray(value, dtype)


def _array(name: str, value: Any) -> Any:
    if isinstance(value, jax.Array):
        return value
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        fix, got = "Make one with numpy.asarray(...).", type(value).__name__
        raise TrainingError("The input must be an array", input=name, expected="an array", got=got, fix=fix)
    return as_array(value, name, TrainingError)


def find_inputs(symbol: Symbol, data_names: Sequence[str], label_names: Sequence[str] | None) -> Inputs:
    """Return the inputs of a symbol. label_names: default the arguments that end in "label". Raises TrainingError."""
    arguments = symbol.list_arguments()
    data = (data_names,) if isinstance(data_names, str) else tuple(data_names)
    if label_names is None:
        labels = tuple(name for name in arguments if name.endswith("label") and name not in data)
    else:
        labels = (label_names,) if isinstance(label_names, str) else tuple(label_names)
    for what, names in (("data_names", data), ("label_names", labels)):
        fix = "Trainer(symbol, data_names=[...], label_names=[...]) names the arguments that come with batches."
        refuse_unknown(TrainingError, f"{what} names", names, arguments, "arguments", fix)
    both = [name for name in data if name in labels]
    if both or not data:
        raise TrainingError(
            f"Inputs cannot be both data and labels: {listed(both)}." if both else "data_names is empty."
        )
    inferred, _, _ = symbol.infer_type_partial()
    dtypes = dict(zip(arguments, inferred, strict=True))
    return Inputs(data, labels, {name: dtypes[name] or np.float32 for name in (*data, *labels)})
