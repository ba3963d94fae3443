"""The base of initialisers: values by a parameter's name and shape, MXNet's rules of names, and the registry.

The rules are those of MXNet 1.9.1's `mxnet/initializer.py`: a variable's `__init__` attribute decides; without one the
ending of its name does; a plain string instead of an `InitDesc` goes by the older list, which also has beginnings.
"""

from __future__ import annotations

import difflib
import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from lowering.host.numpy_keys import folded_in
from lowering.jax_casts import held
from lowering.messages.arguments import prng_key
from symjax_nnvm.errors import InitializerError

Shape = tuple[int, ...]


class UnknownInitializerError(InitializerError, AssertionError):
    """Reports a name that no initialiser has."""


class ParameterName(str):
    """A parameter's name, its dtype, and the name that its numbers follow (`drawn_as`), by default the same."""

    drawn_as: str
    dtype: Any = np.float32

    def __new__(cls, name: str, *, drawn_as: str | None = None) -> Self:
        """Return the name, as a string that carries the other."""
        self = super().__new__(cls, name)
        self.drawn_as = str(name) if drawn_as is None else drawn_as
        return self


class InitDesc(ParameterName):
    """A parameter's name with the attributes of its variable, and the whole model's initialiser."""

    attrs: Mapping[str, str]
    global_init: Callable[..., jax.Array] | None

    def __new__(
        cls,
        name: str,
        attrs: Mapping[str, str] | None = None,
        global_init: Callable[..., jax.Array] | None = None,
        *,
        drawn_as: str | None = None,
    ) -> Self:
        """Return the name, as a string that carries the rest."""
        self = super().__new__(cls, name, drawn_as=drawn_as)
        self.attrs = attrs or {}
        self.global_init = global_init
        return self


RULES = (
    ("", "weight", "_init_weight"),
    ("", "bias", "_init_bias"),
    ("", "gamma", "_init_gamma"),
    ("", "beta", "_init_beta"),
    ("", "min", "_init_zero"),
    ("", "max", "_init_one"),
    ("", "weight_quantize", "_init_quantized_weight"),
    ("", "bias_quantize", "_init_zero"),
)
"""(beginning, ending, method): the first that fits a name decides how it is initialised."""

LEGACY_RULES = (
    ("upsampling", "", "_init_bilinear"),
    ("stn_loc", "weight", "_init_zero"),
    ("stn_loc", "bias", "_init_loc_bias"),
    ("", "bias", "_init_bias"),
    ("", "gamma", "_init_gamma"),
    ("", "beta", "_init_beta"),
    ("", "weight", "_init_weight"),
    ("", "moving_mean", "_init_zero"),
    ("", "moving_var", "_init_one"),
    ("", "moving_inv_var", "_init_zero"),
    ("", "moving_avg", "_init_zero"),
    ("", "min", "_init_zero"),
    ("", "max", "_init_one"),
)
"""The rules for names that come as plain strings."""


class Initializer:
    """The base class: a subclass returns the first values of a weight in `_init_weight(desc, shape, key)`.

    Register a subclass with `@register` to use it by its name in lower case.

    Args:
        kwargs: the parameters, which `dumps` writes.
    """

    def __init__(self, **kwargs: Any):
        self._kwargs = kwargs

    def __call__(
        self, desc: str, shape: Shape, dtype: Any = np.float32, key: jax.Array | int | None = None
    ) -> jax.Array:
        """Return the first value of a parameter: an array of the shape and dtype.

        desc: the parameter's name, an `InitDesc` or a plain string. key: a PRNG key or a seed; a hash of the name
        (`drawn_as`, where it has one) is folded in, so that one key serves all parameters. Raises InitializerError.
        """
        shape = tuple(shape)
        draws = None if key is None else named_key(key, desc)
        initializer, method = self, None
        if isinstance(desc, InitDesc):
            if desc.global_init is None:
                desc.global_init = self
            own_initializer = desc.attrs.get("__init__", "")
            if own_initializer:
                initializer, method = _from_attribute(own_initializer, desc), "_init_weight"
        if method is None:
            method = _method(desc, RULES if isinstance(desc, InitDesc) else LEGACY_RULES)
        value = getattr(initializer, method)(desc, shape, draws)
        try:
            if isinstance(value, jax.Array):
                return jnp.broadcast_to(value, shape).astype(dtype)
            # By NumPy, in JAX's dtypes: JAX would compile a program for every shape.
            value = held(np.asarray(value))
            return jax.device_put(np.broadcast_to(value, shape).astype(jax.dtypes.canonicalize_dtype(dtype)))
        except ValueError:
            raise InitializerError(
                "An initial value does not have its parameter's shape", node=desc, expected=shape, got=value.shape
            ) from None

    def dumps(self) -> str:
        """Return the text that MXNet writes into a variable's `__init__`: JSON of [name, parameters]."""
        self._kwargs = {name: _plain(value) for name, value in self._kwargs.items()}  # arrays become lists, as there
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self.dumps() == other.dumps()

    def __hash__(self) -> int:
        return hash(self.dumps())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._kwargs.items())})"

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        raise InitializerError(f"{type(self).__name__} must define _init_weight(desc, shape, key)", node=desc)

    def _init_bias(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return 0.0

    def _init_gamma(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return 1.0

    def _init_beta(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return 0.0

    def _init_default(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        """Refuse a name without a rule."""
        raise _no_rule(desc)

    def _init_zero(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return 0.0

    def _init_one(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return 1.0

    def _init_loc_bias(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        """Return the identity of a spatial transformer's affine map, (6,)."""
        return np.array([1, 0, 0, 0, 1, 0], np.float32)

    def _init_bilinear(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return bilinear(desc, shape)

    def _init_quantized_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        """Return one whole number in [-127, 127) for all elements, which is what MXNet draws."""
        return draw(jax.random.randint, desc, key, (1,), -127, 127)


def draw(sampler: Callable[..., jax.Array], desc: str, key: jax.Array | None, *args: Any) -> jax.Array:
    """Return `sampler(key, *args)`. Raises InitializerError without a key."""
    if key is None:
        raise InitializerError(
            "An initialiser that draws random numbers needs a key", node=desc, fix="Pass key=jax.random.key(0)."
        )
    return sampler(key, *args)


def bilinear(desc: str, shape: Shape) -> np.ndarray:
    """Return the kernel (n, c, h, w) of bilinear interpolation by a deconvolution; the width decides its centre."""
    if len(shape) != 4:
        raise InitializerError("A bilinear kernel must have four axes", node=desc, expected="(n, c, h, w)", got=shape)
    half = np.ceil(shape[3] / 2.0)
    centre = (2 * half - 1 - half % 2) / (2.0 * half)
    row, column = (1 - np.abs(np.arange(size) / half - centre) for size in shape[2:])
    return np.broadcast_to(np.outer(row, column), shape).astype(np.float32)


def _method(name: str, rules: tuple[tuple[str, str, str], ...]) -> str:
    for beginning, ending, method in rules:
        if name.startswith(beginning) and name.endswith(ending):
            return method
    return "_init_default"


def _no_rule(name: str) -> InitializerError:
    return InitializerError(
        f"Unknown initialization pattern for {name}. Default initialization is now limited to "
        '"weight", "bias", "gamma" (1.0), and "beta" (0.0). Give the variable an initialiser of its own, '
        f"Variable({str(name)!r}, init=lowering.initializer.Zero()), or its value: "
        f"initializer=lowering.initializer.Load({{{str(name)!r}: array}}, default)."
    )


def counts_elements(key: Any) -> bool:
    """Return whether element i drawn from a key is the same however many elements are drawn.

    That is so for JAX's own generator. Without a key, and with a traced one, nothing is drawn ahead.
    """
    if key is None or isinstance(key, Tracer) or not getattr(jax.config, "jax_threefry_partitionable", False):
        return False
    return isinstance(key, np.ndarray) or str(jax.random.key_impl(key)) in ("threefry2x32", "fry")


def named_key(key: jax.Array | int, name: str) -> jax.Array:
    """A parameter's key depends on the name that it draws by and on nothing else: a new layer changes no other's
    numbers."""
    drawn_as = name.drawn_as if isinstance(name, ParameterName) else name
    return folded_in(prng_key(key), zlib.crc32(drawn_as.encode()))


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool | int | float) else np.asarray(value).tolist()


# -- by name ---------------------------------------------------------------------------------------------------------

_CLASSES: dict[str, type[Initializer]] = {}

Class = TypeVar("Class", bound=type[Initializer])


def register(cls: Class) -> Class:
    """Make an initialiser available by its class name, in any case; a decorator."""
    _CLASSES[cls.__name__.lower()] = cls
    return cls


def alias(*names: str) -> Callable[[Class], Class]:
    """Make an initialiser available by further names; a decorator."""

    def register_under(cls: Class) -> Class:
        _CLASSES.update((name.lower(), cls) for name in names)
        return cls

    return register_under


def create(initializer: Any, *args: Any, **kwargs: Any) -> Initializer:
    """Return an initialiser.

    Args:
        initializer: whatever MXNet takes for one: an object, a name, `["xavier", {"magnitude": 2}]`, or the JSON of
            these.
        args: parameters for a name.
        kwargs: parameters for a name.

    Raises:
        InitializerError: a parameter is unknown or wrong.
        UnknownInitializerError: the name is unknown; the error is an AssertionError as well.
    """
    if isinstance(initializer, Initializer):
        return initializer
    if isinstance(initializer, str) and initializer.lstrip()[:1] in ("[", "{"):
        initializer = _parse(initializer)
    if isinstance(initializer, Mapping):
        described = dict(initializer)
        initializer = [described.pop("initializer", None), described]
    if isinstance(initializer, list | tuple) and len(initializer) == 2 and isinstance(initializer[1], Mapping):
        initializer, kwargs = initializer[0], {str(name): value for name, value in initializer[1].items()}
    if not isinstance(initializer, str):
        raise InitializerError("No initialiser", expected='a name, or ["name", {parameters}]', got=initializer)
    cls = _CLASSES.get(initializer.strip().lower())
    if cls is None:
        raise UnknownInitializerError(_unknown(initializer))
    try:
        return cls(*args, **kwargs)
    except TypeError as error:
        raise InitializerError(f"Initialiser {initializer!r} does not take these parameters: {error}.") from None


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InitializerError("The text of an initialiser must be JSON", got=f"{text[:200]!r} ({error})") from None


def _unknown(text: str) -> str:
    described = re.search(r"<(?:[\w.]*\.)?(\w+) object at 0x[0-9a-fA-F]+>", text)
    if described:
        return (
            f"{text[:200]!r} is how Python prints an object: it lacks the parameters of the initialiser "
            f"{described[1][:200]!r}. Set it again, e.g. to '[\"{described[1][:200].lower()}\", {{}}]'"
        )
    near = difflib.get_close_matches(text.lower(), _CLASSES, 1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    return f"{text[:200]!r} is not registered as an initialiser; there are {', '.join(sorted(_CLASSES))}.{guess}"


def _from_attribute(text: str, name: str) -> Initializer:
    """Return the initialiser of a variable's `__init__`. Raises InitializerError that names the variable."""
    try:
        return create(text)
    except InitializerError as error:
        name = str(name)
        raise InitializerError(
            f"The attribute __init__ cannot be read: {error}",
            node=name,
            fix=f'Change it with symbol.get_internals()[{name!r}]._set_attr(__init__=\'["normal", '
            '{"sigma": 0.01}]\'), or give the value itself: initializer=lowering.initializer.Load('
            f"{{{name!r}: array}}, default).",
        ) from None
