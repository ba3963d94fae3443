"""Equations as Python: a table of primitives, each with the text that a person would write for it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.source.equations import Atom, Body, Constant, Equation, Value
from lowering.source.names import Names
from lowering.source.templates import marker, replaced
from symjax_nnvm.errors import LoweringError

__all__ = ["CONST", "DIM", "INPUT", "MANY", "STRING", "Code", "dtype_text", "number_text", "print_body", "tuple_text"]
__all__ += ["value_text"]

INPUT, STRING, CONST, DIM = "i", "s", "c", "d"
"""Kinds of markers in templates: an array, a parameter's name, a literal, an open size."""

_QUOTIENT = re.compile(r"(floordiv|mod)\(([A-Za-z_]\w*), ([0-9]+)\)")
_NAME = re.compile(r"[A-Za-z_]\w*")

_INLINE = 46
"""An expression up to this long may stand inside another."""

MANY = 4
"""Outputs of a call up to which each has a name of its own; more are the elements of one list."""

_LARGEST_LIST = 32
"""Elements that a list in the source may have; more are a text of the module."""

_LARGEST_TABLE = 4096
"""Elements that a table in the source may have."""

_COMPARED, _OR, _XOR, _AND, _ADDED, _MULTIPLIED, _SIGNED, _ATOM = range(8)

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INFIX = {
    "add": ("+", _ADDED),
    "add_any": ("+", _ADDED),
    "sub": ("-", _ADDED),
    "mul": ("*", _MULTIPLIED),
    "div": ("/", _MULTIPLIED),
    "and": ("&", _AND),
    "or": ("|", _OR),
    "xor": ("^", _XOR),
    **{name: (sign, _COMPARED) for name, sign in _COMPARISONS.items()},
}
_BROADCASTING = {"max": "jnp.maximum", "min": "jnp.minimum", "atan2": "jnp.arctan2", "select_n": "jnp.where"}
_FUNCTIONS = {
    **{name: f"jnp.{name}" for name in ("exp", "exp2", "log", "log1p", "expm1", "sqrt", "square", "sin", "cos", "tan")},
    **{name: f"jnp.{name}" for name in ("sinh", "cosh", "tanh", "floor", "ceil", "real", "imag", "cbrt")},
    "abs": "jnp.abs",
    "is_finite": "jnp.isfinite",
    "logistic": "jax.nn.sigmoid",
    "regularized_incomplete_beta": "lax.betainc",
    "random_seed": "jax.random.key",
    "random_unwrap": "jax.random.key_data",
    "random_wrap": "jax.random.wrap_key_data",
}
_REDUCTIONS = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "all",
    "reduce_or": "any",
}
_HINTS = {
    "add": "shifted",
    "sub": "difference",
    "mul": "scaled",
    "div": "ratio",
    "max": "larger",
    "min": "smaller",
    "eq": "equal",
    "ne": "unequal",
    "lt": "less",
    "le": "at_most",
    "gt": "greater",
    "ge": "at_least",
    "and": "both",
    "or": "either",
    "not": "without",
    "square": "squares",
    "integer_pow": "power",
    "sqrt": "root",
    "exp": "powers",
    "reduce_sum": "total",
    "reduce_max": "largest",
    "reduce_min": "smallest",
    "reduce_window_sum": "sums",
    "reduce_window_max": "maxima",
    "dot_general": "product",
    "rsqrt": "scale",
    "select_n": "chosen",
    "stop_gradient": "fixed",
    "random_bits": "bits",
    "random_fold_in": "subkey",
    "iota": "places",
    "conv_general_dilated": "convolved",
    "convert_element_type": "cast",
    "concatenate": "together",
    "slice": "part",
    "pad": "padded",
    "reshape": "reshaped",
    "transpose": "turned",
    "gather": "picked",
    "sort": "ordered",
}


class Expr(NamedTuple):
    """An expression, and how tightly its outermost operator binds."""

    text: str
    level: int = _ATOM

    def within(self, level: int) -> str:
        """Return the text for an operand of an operator."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass
class Code:
    """Statements with their indentation, the results' expressions, and literals: (what it is, text)."""

    statements: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    consts: list[tuple[str, str]] = field(default_factory=list)
    lists: dict[str, int] = field(default_factory=dict)
    """Names of lists of arrays, with their lengths."""


class _Broadcast(NamedTuple):
    """An array that is the source's, repeated: the text is decided by who reads it."""

    source: Atom
    dims: tuple[int, ...]
    shape: tuple[Any, ...]

    def subscript(self) -> str:
        """Return the subscript that lets NumPy's rules repeat the source."""
        if not self.dims:
            return ""
        parts = [":" if axis in self.dims else "None" for axis in range(self.dims[0], len(self.shape))]
        return f"[{', '.join(parts)}]" if "None" in parts else ""

    def sizes(self) -> tuple[Any, ...]:
        """Return the source's shape under the subscript."""
        sizes = dict(zip(self.dims, self.source.shape, strict=True))
        return tuple(sizes.get(axis, 1) for axis in range(self.dims[0], len(self.shape))) if self.dims else ()


def print_body(
    body: Body,
    inputs: Sequence[str],
    names: Names,
    where: Callable[[str], LoweringError],
    consts: list[tuple[str, str]] | None = None,
) -> Code:
    """Return the code of a body. inputs: the texts of its inputs. where: makes the error of what is not printed.
    consts: literals of other code beside it, which are numbered first."""
    printer = _Printer(Code(consts=[] if consts is None else consts), names, where)
    printer.known.update(zip(map(id, body.inputs), map(Expr, inputs), strict=True))
    printer.count(body)
    printer.code.results = printer.run(body, "")
    return printer.code


class _Printer:
    def __init__(self, code: Code, names: Names, where: Callable[[str], LoweringError]):
        self.code, self.names, self.where = code, names, where
        self.known: dict[int, Expr | _Broadcast] = {}
        self.uses: Counter[int] = Counter()
        self.indent = ""
        self.returned: set[int] = set()
        self.tables: dict[tuple[int, str], Expr] = {}

    # -- statements --------------------------------------------------------------------------------------------------

    def count(self, body: Body) -> None:
        """Count the readers of each value; a broadcast's readers are its source's. What a body reads of the body around
        it is read more than once; what nothing reads of the steps of a scan is left out."""
        for atom in body.results:
            self.uses[id(atom)] += 1
        for equation in reversed(body.equations()):
            if equation.name == "broadcast_in_dim":
                (source,), dims = equation.inputs, equation.params["broadcast_dimensions"]
                subscript = len(dims) > 0 and len(equation.outputs[0].shape) - dims[0] > len(dims)
                named = subscript and isinstance(source, Value) and source.made_by is not None
                self.uses[id(source)] += self.uses[id(equation.outputs[0])] + named
                continue
            if equation.name == "scan":
                (inner,), carried = equation.bodies, equation.params["num_carry"]
                read = [i for i, v in enumerate(equation.outputs) if i < carried or self.uses[id(v)]]
                equation.outputs = [equation.outputs[i] for i in read]
                inner.results = [inner.results[i] for i in read]
            for atom in equation.inputs:
                self.uses[id(atom)] += 2 if equation.bodies or id(atom) in body.outer else 1
            for inner in equation.bodies:
                self.count(inner)

    def run(self, body: Body, indent: str) -> list[str]:
        """Write the statements of a body; return its results."""
        before, self.indent = self.indent, indent
        self.returned |= set(map(id, body.results))
        for equation in body.equations():
            self.equation(equation)
        results = [self.text(atom).text for atom in body.results]
        self.indent = before
        return results

    def equation(self, equation: Equation) -> None:
        """Write an equation, or keep its expression for the one place that reads it."""
        if equation.name == "broadcast_in_dim":
            out = equation.outputs[0]
            self.known[id(out)] = _Broadcast(
                equation.inputs[0], tuple(equation.params["broadcast_dimensions"]), out.shape
            )
            return
        if equation.name == "scan":
            self.scan(equation)
            return
        if equation.bodies:
            self.assign(equation.outputs, self.control(equation), "loop")
            return
        expr = self.expression(equation)
        if len(equation.outputs) > 1:
            order = _ORDER.get(equation.name, range(len(equation.outputs)))
            self.assign([equation.outputs[place] for place in order], expr.text, equation.name)
            return
        (out,) = equation.outputs
        uses = self.uses[id(out)]
        alone = uses <= 1 and (len(_plain(expr.text)) <= _INLINE or id(out) in self.returned)
        if alone or (uses <= 2 and expr.text.isidentifier()):
            self.known[id(out)] = expr
        else:
            named = equation.params["text"].split("(")[0] if equation.name == "idiom" else equation.name
            self.assign([out], expr.text, _HINTS.get(named, named.rsplit(".", 1)[-1]))

    def assign(self, values: Sequence[Value], text: str, hint: str) -> None:
        """Write `names = text`."""
        if len(values) > MANY:
            several = self.names.new(hint)
            self.code.lists[several] = len(values)
            self.known.update((id(value), Expr(f"{several}[{i}]")) for i, value in enumerate(values))
            self.write(f"{several} = {text}")
            return
        names = [self.names.new(hint) if self.uses[id(value)] else "_" for value in values]
        self.known.update((id(value), Expr(name)) for value, name in zip(values, names, strict=True))
        self.write(f"{', '.join(names)} = {text}")

    def write(self, line: str) -> None:
        """Write a statement."""
        self.code.statements.append(self.indent + line)

    # -- parts of expressions ----------------------------------------------------------------------------------------

    def const(self, hint: str, text: str) -> str:
        """Return the place of a literal, which may become a parameter of a function."""
        self.code.consts.append((hint, text))
        return marker(CONST, len(self.code.consts) - 1)

    def size(self, size: Any) -> str:
        """Return a size, which may be open."""
        if isinstance(size, (int, np.integer)):
            return str(int(size))
        text = str(size)
        text = _QUOTIENT.sub(lambda q: f"[{q[2]} {'//' if q[1] == 'floordiv' else '%'} {q[3]}]", text)
        if "(" in text or "^" in text:
            raise self.where(f"its arrays have the open size {text}, which has no short form in Python")
        text = text.replace("*", " * ").replace("[", "(").replace("]", ")")
        return _NAME.sub(lambda word: marker(DIM, word[0]), text)

    def sizes(self, hint: str, sizes: Sequence[Any]) -> str:
        """Return a tuple of sizes as a literal."""
        return self.const(hint, tuple_text(list(map(self.size, sizes))))

    def text(self, atom: Atom, *, strong: bool = True) -> Expr:
        """Return an atom. strong: a number has its dtype, as nothing beside it says it."""
        if isinstance(atom, Constant):
            found = self.tables.get((id(atom), self.indent)) or self.constant(atom.array, strong)
            if atom.array.ndim and not found.text.isidentifier() and atom.array.size > 4:
                name = self.names.new("numbers")
                self.write(f"{name} = {found.text}")
                found = self.tables[id(atom), self.indent] = Expr(name)
            return found
        known = self.known[id(atom)]
        if isinstance(known, Expr):
            return known
        return Expr(self.repeated(known, atom.dtype))

    def repeated(self, known: _Broadcast, dtype: Any) -> str:
        """Return a broadcast that nothing beside it makes."""
        source, shape = known.source, known.shape
        if isinstance(source, Constant) and not source.shape:
            fill = {0: "jnp.zeros", 1: "jnp.ones"}.get(_number(source.array))
            if fill is not None:
                return f"{fill}({self.sizes('shape', shape)}, {dtype_text(dtype)})"
            return (
                f"jnp.full({self.sizes('shape', shape)}, {self.text(source, strong=False).text}, {dtype_text(dtype)})"
            )
        inner = self.text(source)
        if known.dims and sorted(map(str, source.shape)) == sorted(map(str, (s for s in shape if s != 1))):
            parts = [":" if axis in known.dims else "None" for axis in range(len(shape))]
            while parts[-1] == ":":
                parts.pop()
            return f"{inner.within(_ATOM)}[{', '.join(parts)}]"
        return f"jnp.broadcast_to({inner.within(_ATOM) + known.subscript() if known.subscript() else inner.text}, " + (
            f"{self.sizes('shape', shape)})"
        )

    def constant(self, array: np.ndarray, strong: bool) -> Expr:
        """Return a number, or a table."""
        if not array.shape:
            text = number_text(array)
            if strong or (array.dtype.kind == "u" and int(array) > 2**31 - 1):
                return Expr(f"{dtype_text(array.dtype)}({self.const('value', text)})")
            return Expr(self.const("value", text), _SIGNED if text.startswith("-") else _ATOM)
        if array.size and (array == array.flat[0]).all():
            return Expr(
                f"jnp.full({self.sizes('shape', array.shape)}, {number_text(array.flat[0])}, {dtype_text(array.dtype)})"
            )
        if array.size > _LARGEST_TABLE:
            raise self.where(f"its rule has a table of {array.size} numbers, too large for a source file")
        flat = array.reshape(-1)
        if array.ndim == 1 and array.dtype.kind in "iu" and np.array_equal(flat, np.arange(array.size) + flat[0]):
            span = f"{flat[0]}, {flat[0] + array.size}" if flat[0] else str(array.size)
            return Expr(f"jnp.arange({self.const('places', span)}, dtype={dtype_text(array.dtype)})")
        shaped = f".reshape({self.sizes('shape', array.shape)})" if array.ndim > 1 else ""
        if array.size > _LARGEST_LIST and array.dtype.kind in "fiu":
            text = self.names.table(" ".join(number_text(number).replace("jnp.", "") for number in flat))
            split = f"np.array({self.const('table', text)}.split(), np.{array.dtype.name})"
            return Expr(f"jnp.asarray({split}{shaped})")
        numbers = f"[{', '.join(map(number_text, flat))}]"
        return Expr(f"jnp.array({self.const('table', numbers)}, {dtype_text(array.dtype)}){shaped}")

    def operands(self, equation: Equation, shape: tuple[Any, ...]) -> list[Expr]:
        """Return the operands of an elementwise operation that broadcasts as NumPy does."""
        atoms = equation.inputs[1:] + equation.inputs[:1] if equation.name == "select_n" else equation.inputs
        known = [None if isinstance(a, Constant) else self.known[id(a)] for a in atoms]
        seen = [k.sizes() if isinstance(k, _Broadcast) else a.shape for k, a in zip(known, atoms, strict=True)]
        for place, one in enumerate(known):
            if isinstance(one, _Broadcast) and not _covers(seen, shape):
                seen[place], known[place] = one.shape, None
        texts: list[Expr] = []
        is_array = any(isinstance(a, Value) and _is_array(k) for a, k in zip(atoms[:2], known[:2], strict=True))
        for atom, one in zip(atoms, known, strict=True):
            if isinstance(one, _Broadcast):
                source, index = self.text(one.source, strong=not is_array), one.subscript()
                texts.append(Expr(source.within(_ATOM) + index) if index else source)
            else:
                texts.append(self.text(atom, strong=not is_array))
        return texts

    # -- expressions -------------------------------------------------------------------------------------------------

    def expression(self, equation: Equation) -> Expr:
        """Return the expression of an equation that has no bodies."""
        name, params, outputs = equation.name, equation.params, equation.outputs
        if name == "idiom":
            texts = [self.text(atom).text for atom in equation.inputs]
            return Expr(params["text"].format(*texts, **{k: self.const(k, v) for k, v in params["consts"].items()}))
        shape, dtype = outputs[0].shape, outputs[0].dtype
        if name in ("eq", "ne") and equation.inputs[1].dtype == np.bool_:
            truth, left = _repeated_number(equation.inputs[1]), self.text(equation.inputs[0])
            if truth is not None:
                return left if bool(truth) == (name == "eq") else Expr(f"~{left.within(_SIGNED)}", _SIGNED)
        if name in _INFIX and not (name == "div" and not jnp.issubdtype(dtype, jnp.inexact)):
            (left, right), (sign, level) = self.operands(equation, shape), _INFIX[name]
            own = level + 1 if level == _COMPARED else level
            return Expr(f"{left.within(own)} {sign} {right.within(level + 1)}", level)
        if name in _BROADCASTING and len(equation.inputs) <= 3:
            if name == "select_n" and equation.inputs[0].dtype != np.bool_:
                return self.call("lax.select_n", equation.inputs)
            texts = [expr.text for expr in self.operands(equation, shape)]
            if name == "select_n":
                otherwise, chosen, which = texts
                texts = [which, chosen, otherwise]
            return Expr(f"{_BROADCASTING[name]}({', '.join(texts)})")
        special = self._scatter if name.startswith("scatter") else getattr(self, f"_{name}", None)
        if special is not None:
            result = special(equation)
            return result if isinstance(result, Expr) else Expr(result)
        if name in _REDUCTIONS:
            return self.reduction(equation)
        if name == "neg":
            return Expr(f"-{self.text(equation.inputs[0]).within(_ATOM)}", _SIGNED)
        if name == "not":
            return Expr(f"~{self.text(equation.inputs[0]).within(_SIGNED)}", _SIGNED)
        function = _FUNCTIONS.get(name)
        if function is not None:
            return self.call(function, equation.inputs)
        if name in _PARAMETERS:
            places, words = _PARAMETERS[name]
            texts = [self.text(atom).text for atom in equation.inputs]
            given = [*texts, *(self.const(key.split("_")[0], value_text(params[key])) for key in places)]
            options = {key: params[key] for key in words if params.get(key) is not None}
            options |= {"symmetrize_input": False} if name in ("cholesky", "eigh") else {}
            function = f"lax.linalg.{name}" if hasattr(lax.linalg, name) else f"lax.{name}"
            alone = "[0]" if name == "eig" and len(outputs) == 1 else ""
            return Expr(self.call(function, (), *given, **options).text + alone)
        if hasattr(lax, name) and all(v is None or k in _MEANINGLESS for k, v in params.items()):
            return self.call(f"lax.{name}", equation.inputs)
        raise self.where(f"its rule uses JAX's primitive {name}, which this version does not print")

    def call(self, function: str, atoms: Sequence[Atom], *more: str, **options: Any) -> Expr:
        """Return the call of a function of JAX's."""
        texts = [self.text(atom).text for atom in atoms]
        parts = [*texts, *more, *(f"{key}={self.const(key, value_text(value))}" for key, value in options.items())]
        return Expr(f"{function}({', '.join(parts)})")

    def reduction(self, equation: Equation) -> Expr:
        """Return a reduction: jnp's, unless that would compute in another dtype."""
        name, (data,), axes = equation.name, equation.inputs, tuple(equation.params["axes"])
        if name in ("reduce_sum", "reduce_prod") and data.dtype not in (np.float32, np.float64, np.int32, np.int64):
            return Expr(f"lax.{name}({self.text(data).text}, {self.axes(axes, keep=True)})")
        if math.prod(s for s in data.shape if isinstance(s, int)) == 0:
            return Expr(f"lax.{name}({self.text(data).text}, {self.axes(axes, keep=True)})")
        whole = "" if len(axes) == len(data.shape) else f", axis={self.axes(axes)}"
        return Expr(f"jnp.{_REDUCTIONS[name]}({self.text(data).text}{whole})")

    def axes(self, axes: Sequence[int], keep: bool = False) -> str:
        """Return axes: one as a number."""
        return self.const("axis", str(axes[0]) if len(axes) == 1 and not keep else tuple_text(list(map(str, axes))))

    def _reshape(self, e: Equation) -> str:
        source, sizes = self.text(e.inputs[0]).within(_ATOM), e.params["new_sizes"]
        fixed = [size for size in sizes if isinstance(size, int)]
        if 0 not in fixed and 0 not in e.inputs[0].shape and len(fixed) == len(sizes) - (len(sizes) > 1) != 0:
            if len(sizes) == 1:
                return f"{source}.reshape(-1)"
            shape = tuple_text([size if isinstance(size, int) else -1 for size in sizes])
            return f"{source}.reshape({self.const('shape', shape)})"
        return f"{source}.reshape({self.sizes('shape', sizes)})"

    def _transpose(self, e: Equation) -> str:
        source, order = self.text(e.inputs[0]).within(_ATOM), tuple(e.params["permutation"])
        return f"{source}.T" if order == (1, 0) else f"{source}.transpose({self.const('axes', tuple_text(order))})"

    def _squeeze(self, e: Equation) -> str:
        source = self.text(e.inputs[0]).within(_ATOM)
        return f"{source}.squeeze({self.axes(e.params['dimensions'])})"

    def _convert_element_type(self, e: Equation) -> str:
        source, dtype = self.text(e.inputs[0]), dtype_text(e.params["new_dtype"])
        if jnp.issubdtype(e.inputs[0].dtype, jnp.complexfloating):
            return f"lax.convert_element_type({source.text}, {dtype})"
        return f"{source.within(_ATOM)}.astype({dtype})"

    def _slice(self, e: Equation) -> str:
        p, data = e.params, e.inputs[0]
        steps = p["strides"] or (1,) * len(data.shape)
        parts: list[str] = []
        for size, low, high, step in zip(data.shape, p["start_indices"], p["limit_indices"], steps, strict=True):
            if low == high:
                low = high = 0
            first = "" if _is(low, 0) else self.size(low)
            last = "" if _is(high, size) else self.size(high)
            parts.append(f"{first}:{last}" + ("" if step == 1 else f":{step}"))
        while parts and parts[-1] == ":":
            parts.pop()
        return f"{self.text(data).within(_ATOM)}[{', '.join(parts) or '...'}]"

    def _concatenate(self, e: Equation) -> str:
        parts = ", ".join(self.text(atom).text for atom in e.inputs)
        axis = e.params["axis" if e.name == "stack" else "dimension"]
        return f"jnp.{e.name}([{parts}], axis={self.const('axis', str(axis))})"

    _stack = _concatenate

    def _unstack(self, e: Equation) -> str:
        several = f"jnp.unstack({self.text(e.inputs[0]).text}, axis={self.const('axis', str(e.params['axis']))})"
        return several + self.unpacked(e)

    def _iota(self, e: Equation) -> str:
        shape, axis, dtype = e.params["shape"], e.params["dimension"], dtype_text(e.params["dtype"])
        if len(shape) == 1:
            return f"jnp.arange({self.const('size', self.size(shape[0]))}, dtype={dtype})"
        return f"lax.broadcasted_iota({dtype}, {self.sizes('shape', shape)}, {self.const('axis', str(axis))})"

    def _dim_as_value(self, e: Equation) -> str:
        return f"{dtype_text(e.outputs[0].dtype)}({self.const('size', self.size(e.params['dim']))})"

    def _argmax(self, e: Equation) -> str:
        axis = self.const("axis", str(e.params["axes"][0]))
        dtype = dtype_text(e.params["index_dtype"])
        return f"lax.{e.name}({self.text(e.inputs[0]).text}, {axis}, {dtype})"

    _argmin = _argmax

    def _sort(self, e: Equation) -> str:
        texts = [self.text(atom).text for atom in e.inputs]
        several = tuple_text(texts)
        p = e.params
        return (
            f"lax.sort({several}, dimension={self.const('axis', str(p['dimension']))}, "
            f"is_stable={p['is_stable']}, num_keys={p['num_keys']})" + ("[0]" if len(texts) == 1 else "")
        )

    def _total_order(self, e: Equation) -> Expr:
        """Return a comparison in which NaN is the largest number; JAX makes all zeros and all NaN one before it."""
        left, right = (self.text(atom).within(_COMPARED + 1) for atom in e.inputs)
        plain, is_nan = f"{left} {_COMPARISONS[e.name.removesuffix('_to')]} {right}", f"jnp.isnan({right})"
        if not jnp.issubdtype(e.inputs[0].dtype, jnp.inexact):
            return Expr(plain, _COMPARED)
        alike = {
            "le_to": is_nan,
            "lt_to": f"(~jnp.isnan({left}) & {is_nan})",
            "eq_to": f"(jnp.isnan({left}) & {is_nan})",
        }
        return Expr(f"({plain}) | {alike[e.name]}", _OR)

    _le_to = _lt_to = _eq_to = _total_order

    def _dot_general(self, e: Equation) -> Expr:
        (left, right), p = e.inputs, e.params
        (across, down), (batch, others) = (tuple(map(tuple, pair)) for pair in p["dimension_numbers"])
        plain = p["precision"] is None and p.get("preferred_element_type") in (None, e.outputs[0].dtype)
        plain = plain and left.dtype == right.dtype == e.outputs[0].dtype
        first, second = self.text(left), self.text(right)
        count = len(batch)
        if plain and batch == others == tuple(range(count)) and len(across) == len(down) == 1:
            last = len(left.shape) - 1
            rows = len(right.shape) == count + 2 and (not count or last == count + 1)
            if across == (last,) and rows and last > count - 1:
                if down == (count,):
                    return Expr(f"{first.within(_MULTIPLIED)} @ {second.within(_SIGNED)}", _MULTIPLIED)
                if down == (count + 1,):
                    turned = ".T" if not count else f".swapaxes({count}, {count + 1})"
                    return Expr(f"{first.within(_MULTIPLIED)} @ {second.within(_ATOM)}{turned}", _MULTIPLIED)
        options = {} if p["precision"] is None else {"precision": p["precision"]}
        if p.get("preferred_element_type") is not None and not plain:
            options["preferred_element_type"] = p["preferred_element_type"]
        return self.call(
            "lax.dot_general", e.inputs, self.const("dims", value_text(((across, down), (batch, others)))), **options
        )

    def _conv_general_dilated(self, e: Equation) -> Expr:
        p, options = e.params, {}
        ndim = len(p["window_strides"])
        numbers = p["dimension_numbers"]
        names = [("N", "C"), ("O", "I"), ("N", "C")]
        specs = tuple(
            _layout(spec, pair)
            for spec, pair in zip((numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec), names, strict=True)
        )
        for key in ("lhs_dilation", "rhs_dilation"):
            if p[key] is not None and tuple(p[key]) != (1,) * ndim:
                options[key] = tuple(p[key])
        options["dimension_numbers"] = specs
        for key in ("feature_group_count", "batch_group_count"):
            if p[key] != 1:
                options[key] = p[key]
        if p["precision"] is not None:
            options["precision"] = p["precision"]
        if p["preferred_element_type"] not in (None, e.outputs[0].dtype) or e.inputs[0].dtype != e.outputs[0].dtype:
            options["preferred_element_type"] = p["preferred_element_type"]
        padding = list(map(tuple, p["padding"]))
        steps, pads = (
            self.const("strides", value_text(tuple(p["window_strides"]))),
            self.const("padding", self.pairs(padding)),
        )
        return self.call("lax.conv_general_dilated", e.inputs, steps, pads, **options)

    def pairs(self, pairs: Sequence[Sequence[Any]]) -> str:
        """Return a list of pairs of sizes."""
        return f"[{', '.join(tuple_text(list(map(self.size, pair))) for pair in pairs)}]"

    def window(self, e: Equation, initial: str, function: str) -> Expr:
        """Return a reduce-window."""
        p = e.params
        ones = (1,) * len(e.inputs[0].shape)
        options = {}
        for key in ("base_dilation", "window_dilation"):
            if tuple(p[key]) != ones:
                options[key] = tuple(p[key])
        padding = "VALID" if not any(map(any, p["padding"])) else None
        pads = '"VALID"' if padding else self.pairs(p["padding"])
        places = (
            self.const("window", value_text(tuple(p["window_dimensions"]))),
            self.const("strides", value_text(tuple(p["window_strides"]))),
            self.const("padding", pads),
        )
        return self.call("lax.reduce_window", e.inputs[:1], initial, function, *places, **options)

    def _reduce_window_sum(self, e: Equation) -> Expr:
        return self.window(e, number_text(np.zeros((), e.inputs[0].dtype)), "lax.add")

    def _reduce_window_max(self, e: Equation) -> Expr:
        return self.window(e, _lowest(e.inputs[0].dtype), "lax.max")

    def _reduce_window_min(self, e: Equation) -> Expr:
        return self.window(e, _highest(e.inputs[0].dtype), "lax.min")

    def _reduce_window(self, e: Equation) -> Expr:
        data, initial = e.inputs
        inner = e.params["jaxpr"].eqns
        function = f"lax.{inner[0].primitive.name}" if len(inner) == 1 else ""
        if not hasattr(lax, function.removeprefix("lax.")):
            raise self.where("its rule reduces windows by a function of its own, which this version does not print")
        e = Equation(e.name, [data], e.outputs, e.params)
        return self.window(e, self.text(initial).text, function)

    def _gather(self, e: Equation) -> Expr:
        p, n, (data, places) = e.params, e.params["dimension_numbers"], e.inputs
        one_axis = n.start_index_map == n.collapsed_slice_dims and len(n.start_index_map) == 1
        whole = [axis for axis, size in enumerate(data.shape) if not _is(p["slice_sizes"][axis], size)]
        axis = (
            n.start_index_map[0]
            if one_axis and not n.operand_batching_dims and whole in ([], [*n.start_index_map])
            else -1
        )
        number = _repeated_number(places)
        if (
            axis >= 0
            and places.shape == (1,)
            and number is not None
            and number >= 0
            and isinstance(data.shape[axis], int)
        ):
            index = self.const("places", str(min(number, data.shape[axis] - 1)))
            return Expr(f"{self.text(data).within(_ATOM)}[{':, ' * axis}{index}]")
        offsets = tuple(range(len(places.shape) - 1, len(e.outputs[0].shape)))
        column = self.made_column(places)
        if axis == 0 and n.offset_dims == offsets and column is not None and p["mode"] == lax.GatherScatterMode.CLIP:
            return self.call("jnp.take", [data, column], axis=0, mode="clip")
        names = ("offset_dims", "collapsed_slice_dims", "start_index_map")
        batching = ("operand_batching_dims", "start_indices_batching_dims")
        options = self.indexing(p)
        if p["fill_value"] is not None:
            options["fill_value"] = p["fill_value"]
        return self.call(
            "lax.gather",
            e.inputs,
            self.numbers(n, names, batching),
            self.sizes("sizes", p["slice_sizes"]),
            **options,
        )

    def made_column(self, atom: Atom) -> Atom | None:
        """Return what an array repeats with another axis at its end, if it does."""
        made = self.known.get(id(atom))
        is_column = isinstance(made, _Broadcast) and made.dims == tuple(range(len(made.shape) - 1))
        if isinstance(made, _Broadcast) and is_column and made.source.shape == made.shape[:-1]:
            return made.source
        return None

    def numbers(self, numbers: Any, names: Sequence[str], batching: Sequence[str]) -> str:
        """Return the dimension numbers of a gather or scatter."""
        names = (*names, *(batching if numbers.operand_batching_dims else ()))
        texts = [f"{name}={value_text(tuple(getattr(numbers, name)))}" for name in names]
        return f"lax.{type(numbers).__name__}({', '.join(texts)})"

    def indexing(self, p: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that gather and scatter share."""
        options: dict[str, Any] = {key: True for key in ("indices_are_sorted", "unique_indices") if p[key]}
        if p["mode"] is not None:
            options["mode"] = lax.GatherScatterMode(p["mode"]).name.lower().removesuffix("_or_drop")
        return options

    def _scatter(self, e: Equation) -> Expr:
        p, n = e.params, e.params["dimension_numbers"]
        names = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
        numbers = self.numbers(n, names, ("operand_batching_dims", "scatter_indices_batching_dims"))
        function = f"lax.{e.name.replace('-', '_')}"
        return self.call(function, e.inputs, numbers, **self.indexing(p))

    def _dynamic_slice(self, e: Equation) -> Expr:
        data, *starts = e.inputs
        places = tuple_text([self.text(start, strong=False).text for start in starts])
        return self.call("lax.dynamic_slice", [data], places, self.sizes("sizes", e.params["slice_sizes"]))

    def _dynamic_update_slice(self, e: Equation) -> str:
        data, update, *starts = (self.text(atom, strong=place < 2).text for place, atom in enumerate(e.inputs))
        return f"lax.dynamic_update_slice({data}, {update}, {tuple_text(starts)})"

    def drawn(self, e: Equation, function: str, *more: str) -> str:
        """Return the call of a function of a key: for an array of keys, for each of them."""
        axes = len(e.inputs[0].shape)
        if axes:
            key = self.names.new("each_key")
            function = "jax.vmap(" * axes + f"lambda {key}: {function}({', '.join([key, *more])})" + ")" * axes
        return self.call(function, e.inputs, *() if axes else more).text

    def _random_bits(self, e: Equation) -> str:
        return self.drawn(
            e, "jax.random.bits", self.sizes("shape", e.params["shape"]), f"jnp.uint{e.params['bit_width']}"
        )

    def _random_split(self, e: Equation) -> str:
        return self.drawn(e, "jax.random.split", self.sizes("count", e.params["shape"]))

    def _random_fold_in(self, e: Equation) -> Expr:
        axes = len(e.inputs[0].shape)
        return self.call("jax.vmap(" * axes + "jax.random.fold_in" + ")" * axes, e.inputs)

    def _random_gamma(self, e: Equation) -> Expr:
        key, alpha = e.inputs
        name = "loggamma" if e.params["log_space"] else "gamma"
        alphas = self.text(alpha).text
        return self.call(f"jax.random.{name}", [key], alphas, f"dtype={dtype_text(alpha.dtype)}")

    # -- control flow ------------------------------------------------------------------------------------------------

    def function(
        self, body: Body, hint: str, unpacked: Mapping[str, Sequence[Value]], result: Callable[[list[str]], str]
    ) -> str:
        """Write a function inside this one; return its name. unpacked: values by arguments."""
        name = self.names.new(hint)
        self.define(f"def {name}({', '.join(unpacked)}):")
        indent = self.indent + "    "
        for argument, values in unpacked.items():
            parts = [self.names.new("part") for _ in values]
            self.known.update((id(value), Expr(text)) for value, text in zip(values, parts, strict=True))
            if parts:
                self.code.statements.append(
                    f"{indent}{tuple_text(parts) if len(parts) == 1 else ', '.join(parts)} = {argument}"
                )
        results = self.run(body, indent)
        self.code.statements += [f"{indent}return {result(results)}", ""]
        return name

    def control(self, e: Equation) -> str:
        """Write the bodies of a loop or a condition as functions; return the call."""
        if e.name == "cond":
            branches = [self.function(b, "branch", {}, tuple_text) for b in e.bodies]
            index = e.inputs[0]
            which = self.text(index).text
            several = self.unpacked(e)
            if len(branches) == 2:
                return f"lax.cond({which} == 1, {branches[1]}, {branches[0]}){several}"
            return f"lax.switch({which}, [{', '.join(branches)}]){several}"
        p = e.params
        if e.name == "while":
            first = p["cond_nconsts"] + p["body_nconsts"]
            carry = self.names.new("carry")
            test, body = e.bodies
            tested = self.function(test, "goes_on", {carry: test.inputs}, lambda r: r[0])
            initial = tuple_text([self.text(atom).text for atom in e.inputs[first:]])
            axes = len(test.results[0].shape)

            def chosen(results: Sequence[str]) -> str:
                """Return the new values of the samples that go on, of the others the old ones."""
                if not axes:
                    return tuple_text(results)
                more = [len(value.shape) - axes for value in body.inputs]
                index = [f"[{', '.join([':'] * axes + ['None'] * count)}]" if count else "" for count in more]
                values = zip(index, results, (self.text(value).text for value in body.inputs), strict=True)
                return tuple_text([f"jnp.where({tested}({carry}){i}, {new}, {old})" for i, new, old in values])

            step = self.function(body, "step", {carry: body.inputs}, chosen)
            tested = f"lambda {carry}: jnp.any({tested}({carry}))" if axes else tested
            return f"lax.while_loop({tested}, {step}, {initial}){self.unpacked(e)}"
        raise AssertionError(e.name)

    def scan(self, e: Equation) -> None:
        """Write a scan, with its step as a function."""
        p, (body,) = e.params, e.bodies
        consts, carried = p["num_consts"], p["num_carry"]
        given = [self.text(atom).text for atom in e.inputs[consts:]]
        carry, item = self.names.new("carry"), self.names.new("item")
        unpacked = {carry: body.inputs[:carried], item: body.inputs[carried:]}

        def returned(results: list[str]) -> str:
            return f"{tuple_text(results[:carried])}, {tuple_text(results[carried:]) if results[carried:] else None}"

        name = self.function(body, "step", unpacked, returned)
        options = [] if given[carried:] else [f"length={self.const('length', self.size(p['length']))}"]
        options += ["reverse=True"] if p["reverse"] else []
        sequences = tuple_text(given[carried:]) if given[carried:] else "None"
        call = f"lax.scan({', '.join([name, tuple_text(given[:carried]), sequences, *options])})"
        names = [
            self.names.new("last" if i < carried else "each") if self.uses[id(v)] else "_"
            for i, v in enumerate(e.outputs)
        ]
        self.known.update((id(value), Expr(text)) for value, text in zip(e.outputs, names, strict=True))
        left, right = (tuple_text(part) if set(part) - {"_"} else "_" for part in (names[:carried], names[carried:]))
        self.write(f"{left}, {right} = {call}")

    def define(self, line: str) -> None:
        """Write the first line of a function inside this one."""
        last = self.code.statements[-1:]
        if last and last[0] and not last[0].lstrip().startswith("def "):
            self.code.statements.append("")
        self.write(line)

    def unpacked(self, e: Equation) -> str:
        """Return what takes the one result out of a tuple of one."""
        return "[0]" if len(e.outputs) == 1 else ""


_CUMULATIVE: tuple[tuple[str, ...], tuple[str, ...]] = ((), ("axis", "reverse"))
_PARAMETERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), _CUMULATIVE),
    "integer_pow": (("y",), ()),
    "bitcast_convert_type": (("new_dtype",), ()),
    "clamp": ((), ()),
    "pad": (("padding_config",), ()),
    "rev": (("dimensions",), ()),
    "tile": (("reps",), ()),
    "split": (("sizes", "axis"), ()),
    "top_k": (("k",), ("axis",)),
    "round": (("rounding_method",), ()),
    "reduce_precision": (("exponent_bits", "mantissa_bits"), ()),
    "fft": (("fft_type", "fft_lengths"), ()),
    "cholesky": ((), ()),
    "triangular_solve": ((), ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")),
    "householder_product": ((), ()),
    "lu": ((), ()),
    "eigh": ((), ("lower", "sort_eigenvalues")),
    "eig": ((), ("compute_left_eigenvectors", "compute_right_eigenvectors")),
    "qr": ((), ("full_matrices", "pivoting")),
    "svd": ((), ("full_matrices", "compute_uv")),
}
"""Primitives that are functions of `lax` or `lax.linalg`: their parameters by place, and by name."""

_ORDER = {"svd": (1, 0, 2)}
"""Places of the primitive's outputs in the order in which the function returns them."""

_MEANINGLESS = ("accuracy", "sharding", "out_sharding", "impl")


# -- texts -------------------------------------------------------------------------------------------------------------


def tuple_text(parts: Sequence[object]) -> str:
    """Return a tuple of texts."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(map(str, parts))})"


def dtype_text(dtype: Any) -> str:
    """Return a dtype as a name of jax.numpy."""
    name = np.dtype(dtype).name
    return "jnp.bool_" if name == "bool" else f"jnp.{name}"


def number_text(number: Any) -> str:
    """Return a number as Python writes it, which gives the same number in its dtype."""
    array = np.asarray(number)
    if array.dtype.kind == "b":
        return str(bool(array))
    if array.dtype.kind in "iu":
        return str(int(array))
    if array.dtype.kind == "c":
        return repr(complex(array))
    value = float(array)
    if math.isnan(value):
        return "jnp.nan"
    if math.isinf(value):
        return "jnp.inf" if value > 0 else "-jnp.inf"
    short = float(str(array)) if array.dtype.kind == "f" else value
    return repr(short if np.asarray(short, array.dtype) == array else value)


def value_text(value: Any) -> str:
    """Return a parameter of a primitive: numbers, words and tuples of such."""
    if isinstance(value, (tuple, list)) and len(value) > 2 * MANY and len(set(value)) == 1:
        return f"({value_text(value[0])},) * {len(value)}"
    if isinstance(value, (tuple, list)):
        return tuple_text(list(map(value_text, value)))
    if isinstance(value, Enum):
        return f"lax.{type(value).__name__}.{value.name}"
    if isinstance(value, (bool, type(None))):
        return repr(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (int, float, np.integer, np.floating)):
        return number_text(value)
    return dtype_text(value)


def _number(array: np.ndarray) -> Any:
    return array.item() if array.dtype.kind in "fiu" and not (array == 0 and np.signbit(array)) else None


def _repeated_number(atom: Atom) -> int | None:
    """Return the number that is each element of an array, where the array says it."""
    while isinstance(atom, Value) and atom.made_by and atom.made_by.name == "broadcast_in_dim":
        (atom,) = atom.made_by.inputs
    if isinstance(atom, Constant) and atom.array.size and (atom.array == atom.array.flat[0]).all():
        return int(atom.array.flat[0])
    return None


def _lowest(dtype: Any) -> str:
    return "-jnp.inf" if jnp.issubdtype(dtype, jnp.floating) else str(jnp.iinfo(dtype).min)


def _highest(dtype: Any) -> str:
    return "jnp.inf" if jnp.issubdtype(dtype, jnp.floating) else str(jnp.iinfo(dtype).max)


def _plain(text: str) -> str:
    return replaced(text, {kind: lambda _, n=n: "…" * n for kind, n in _LENGTHS.items()})


_LENGTHS = {STRING: 20, CONST: 8, INPUT: 5, DIM: 5, "w": 1}
"""How long the parts of a template are, about."""


def _is(size: Any, other: Any) -> bool:
    return size is other or bool(size == other)


def _is_array(known: Expr | _Broadcast | None) -> bool:
    """Return whether an operand says a dtype: all do but broadcast numbers."""
    return not (isinstance(known, _Broadcast) and isinstance(known.source, Constant))


def _covers(shapes: Sequence[tuple[Any, ...]], shape: tuple[Any, ...]) -> bool:
    """Return whether NumPy's broadcasting of the shapes gives the shape."""
    return all(
        _is(size, 1) or any(len(s) >= place and _is(s[-place], size) for s in shapes)
        for place, size in enumerate(reversed(shape), start=1)
    ) and any(len(s) >= len(shape) for s in shapes)


def _layout(spec: Sequence[int], pair: tuple[str, str]) -> str:
    """Return axes as letters: where samples, channels and each spatial axis are."""
    spatial = "DHW"[-len(spec) + 2 :] if len(spec) > 2 else ""
    letters = dict(zip(spec, (*pair, *spatial), strict=True))
    return "".join(letters[axis] for axis in range(len(spec)))
