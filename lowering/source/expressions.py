"""Equations as Python: tables of primitives, and the text that a person would write for those that need more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.source.equations import Atom, Body, ComputedArray, Equation, KnownArray, made, repeated
from lowering.source.literals import dtype_text, number_text, size_text, tuple_text, value_text
from lowering.source.names import Names
from lowering.source.primitives import CALLS, COMPARISONS, HINTS, INFIX, OF_TWO, PREFIX, REDUCTIONS, Level
from lowering.source.templates import CONST, DIM, INPUT, STRING, WORD, marker, replaced
from symjax_nnvm.errors import LoweringError

_INLINE = 46
"""An expression up to this long may stand inside another."""

MANY = 4
"""Outputs of a call up to which each has a name of its own; more are the elements of one list."""

_LARGEST_LIST = 12
"""Elements that a list in the source may have; more are a text of the module."""

_LARGEST_TABLE = 4096
"""Elements that a table in the source may have; of a larger one those that are not zero."""


class Expr(NamedTuple):
    """An expression, and how tightly its outermost operator binds."""

    text: str
    level: Level = Level.ATOM

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
    """An array that is the source's, repeated: its readers decide the text."""

    source: Atom
    dims: tuple[int, ...]
    shape: tuple[Any, ...]

    def axes(self) -> range:
        """Return the axes from the source's first on."""
        return range(self.dims[0] if self.dims else len(self.shape), len(self.shape))

    def subscript(self) -> str:
        """Return the subscript that lets NumPy's rules repeat the source."""
        parts = [":" if axis in self.dims else "None" for axis in self.axes()]
        return f"[{', '.join(parts)}]" if "None" in parts else ""

    def sizes(self) -> tuple[Any, ...]:
        """Return the source's shape under the subscript."""
        sizes = dict(zip(self.dims, self.source.shape, strict=True))
        return tuple(sizes.get(axis, 1) for axis in self.axes())


def print_body(
    body: Body,
    inputs: Sequence[str],
    names: Names,
    where: Callable[[str], LoweringError],
    consts: list[tuple[str, str]],
    hints: Mapping[int, str],
) -> Code:
    """Return the code of a body. inputs: the texts of its inputs. where: makes the error of what is not printed.
    consts: literals of other code beside it, which are numbered first. hints: what values are called."""
    printer = _Printer(Code(consts=consts), names, where, hints)
    printer.known.update(zip(map(id, body.inputs), map(Expr, inputs), strict=True))
    printer.count(body)
    printer.code.results = printer.run(body, "")
    return printer.code


class _Printer:
    def __init__(self, code: Code, names: Names, where: Callable[[str], LoweringError], hints: Mapping[int, str]):
        self.code, self.names, self.where, self.hints = code, names, where, hints
        self.known: dict[int, Expr | _Broadcast] = {}
        self.uses: Counter[int] = Counter()
        self.indent = ""
        self.returned: set[int] = set()
        self.tables: dict[int, Expr] = {}

    # -- statements --------------------------------------------------------------------------------------------------

    def count(self, body: Body) -> None:
        """Count the readers of each value; a broadcast's readers are its source's. What a body reads of the body around
        it is read more than once; what nothing reads of a scan's results and arrays is left out."""
        for atom in body.results:
            self.uses[id(atom)] += 1
        for e in reversed(body.equations()):
            if e.name == "broadcast_in_dim":
                (source,), dims = e.inputs, e.params["broadcast_dimensions"]
                subscript = len(dims) > 0 and len(e.outputs[0].shape) - dims[0] > len(dims)
                named = subscript and isinstance(source, ComputedArray) and source.made_by is not None
                self.uses[id(source)] += self.uses[id(e.outputs[0])] + named
                continue
            if e.name == "scan":
                (inner,), carried = e.bodies, e.params["num_carry"]
                read = [i for i, v in enumerate(e.outputs) if i < carried or self.uses[id(v)]]
                e.outputs = [e.outputs[i] for i in read]
                inner.results = [inner.results[i] for i in read]
                self.count(inner)
                read = [i for i, v in enumerate(inner.inputs) if i < carried or self.uses[id(v)]]
                e.inputs = [e.inputs[i] for i in read] + e.inputs[len(inner.inputs) :]
                inner.inputs = [inner.inputs[i] for i in read]
            else:
                for inner in e.bodies:
                    self.count(inner)
            if e.bodies:
                own = 1 if e.name == "cond" else len(e.bodies[0].inputs)
                e.inputs[own:] = [atom for atom in e.inputs[own:] if self.uses[id(atom)]]
            for atom in e.inputs:
                self.uses[id(atom)] += 2 if e.bodies or id(atom) in body.outer else 1

    def run(self, body: Body, indent: str) -> list[str]:
        """Write the statements of a body; return its results."""
        before, self.indent = (self.indent, self.tables), indent
        self.tables = dict(self.tables)  # what it names is not known outside of it
        self.returned |= set(map(id, body.results))
        for equation in body.equations():
            self.equation(equation)
        results = [self.text(atom).text for atom in body.results]
        self.indent, self.tables = before
        return results

    def equation(self, e: Equation) -> None:
        """Write an equation, or keep its expression for the one place that reads it."""
        if e.name == "broadcast_in_dim":
            out = e.outputs[0]
            self.known[id(out)] = _Broadcast(e.inputs[0], tuple(e.params["broadcast_dimensions"]), out.shape)
            return
        if e.name == "scan":
            self.scan(e)
            return
        if e.bodies:
            self.assign(e.outputs, self.cond(e) if e.name == "cond" else self.while_loop(e), "loop")
            return
        expr, out = self.expression(e), e.outputs[0]
        if len(e.outputs) > 1:
            # The function svd returns its results in another order than the primitive.
            order = (1, 0, 2) if e.name == "svd" else range(len(e.outputs))
            self.assign([e.outputs[place] for place in order], expr.text, e.name)
            return
        uses = self.uses[id(out)]
        if (uses <= 1 and (len(_plain(expr.text)) <= _INLINE or id(out) in self.returned)) or (
            uses <= 2 and expr.text.isidentifier()
        ):
            self.known[id(out)] = expr
        else:
            self.assign([out], expr.text, self.hints.get(id(out)) or HINTS.get(e.name, e.name.rsplit(".", 1)[-1]))

    def assign(self, values: Sequence[ComputedArray], text: str, hint: str) -> None:
        """Write `names = text`."""
        self.write(f"{', '.join(self.targets(values, hint))} = {text}")

    def targets(self, values: Sequence[ComputedArray], hint: str) -> list[str]:
        """Return what values are assigned to: each its name, or many one list."""
        if len(values) <= MANY:
            return self.named(values, hint)
        several = self.names.new(hint)
        self.code.lists[several] = len(values)
        self.known.update((id(value), Expr(f"{several}[{i}]")) for i, value in enumerate(values))
        return [several]

    def named(self, values: Sequence[ComputedArray], hint: str) -> list[str]:
        """Return new names of values, which are known by them; "_" for what nothing reads."""
        names = [self.names.new(hint) if self.uses[id(value)] else "_" for value in values]
        self.known.update((id(value), Expr(name)) for value, name in zip(values, names, strict=True))
        return names

    def write(self, line: str) -> None:
        """Write a statement."""
        self.code.statements.append(self.indent + line)

    # -- parts of expressions ----------------------------------------------------------------------------------------

    def literal(self, hint: str, text: str) -> str:
        """Return the place of a literal, which may become a parameter of a function."""
        self.code.consts.append((hint, text))
        return marker(CONST, len(self.code.consts) - 1)

    def const(self, hint: str, value: Any) -> str:
        """Return the place of a value."""
        return self.literal(hint, value_text(value, self.size))

    def size(self, size: Any) -> str:
        """Return an open size."""
        return size_text(size, lambda name: marker(DIM, name))

    def text(self, atom: Atom, *, strong: bool = True) -> Expr:
        """Return an atom. strong: a number is written with its dtype, because no operand beside it has one."""
        if isinstance(atom, KnownArray):
            printed = self.tables.get(id(atom)) or self.constant(atom.array, strong)
            if atom.array.ndim and not printed.text.isidentifier() and (atom.array.size > 4 or self.uses[id(atom)] > 1):
                printed = self.tables[id(atom)] = Expr(self.numbers(printed))
            return printed
        form = self.known[id(atom)]
        return form if isinstance(form, Expr) else Expr(self.repeated(form, atom.dtype))

    def numbers(self, table: Expr) -> str:
        """Write a table; return its name."""
        name = self.names.new("numbers")
        self.write(f"{name} = {table.text}")
        return name

    def texts(self, atoms: Sequence[Atom]) -> list[str]:
        """Return atoms as arguments."""
        return [self.text(atom).text for atom in atoms]

    def repeated(self, form: _Broadcast, dtype: Any) -> str:
        """Return a broadcast that nothing beside it makes."""
        source, shape = form.source, form.shape
        if isinstance(source, KnownArray) and not source.shape:
            fill = {"0": "zeros", "1": "ones"}.get(number_text(source.array).removesuffix(".0"))
            parts = [self.const("shape", shape), *([] if fill else [self.text(source, strong=False).text])]
            return f"jnp.{fill or 'full'}({', '.join([*parts, dtype_text(dtype)])})"
        inner = self.text(source)
        sizes = dict(zip(form.dims, source.shape, strict=True))
        if form.dims and all(_is(sizes.get(axis, 1), size) for axis, size in enumerate(shape)):
            parts = [":" if axis in form.dims else "None" for axis in range(len(shape))]
            while parts[-1] == ":":
                parts.pop()
            return f"{inner.within(Level.ATOM)}[{', '.join(parts)}]"
        if (places := made(source, "iota")) and not inner.text.isidentifier():
            axis = self.const("axis", form.dims[0])
            return f"lax.broadcasted_iota({dtype_text(places.params['dtype'])}, {self.const('shape', shape)}, {axis})"
        index = form.subscript()
        array = inner.within(Level.ATOM) + index if index else inner.text
        return f"jnp.broadcast_to({array}, {self.const('shape', shape)})"

    def constant(self, array: np.ndarray, strong: bool) -> Expr:
        """Return a number, or a table."""
        dtype = dtype_text(array.dtype)
        if not array.shape:
            text = number_text(array)
            if strong or (array.dtype.kind == "u" and int(array) > 2**31 - 1):
                return Expr(f"{dtype}({self.literal('value', text)})")
            return Expr(self.literal("value", text), Level.SIGNED if text.startswith("-") else Level.ATOM)
        if array.size and (array == array.flat[0]).all():
            return Expr(f"jnp.full({self.const('shape', array.shape)}, {number_text(array.flat[0])}, {dtype})")
        flat = array.reshape(-1)
        shaped = f".reshape({self.const('shape', array.shape)})" if array.ndim > 1 else ""
        if array.size > _LARGEST_TABLE:
            places = flat.nonzero()[0].astype(np.int32)
            if len(places) > _LARGEST_TABLE:
                raise self.where(f"its rule has a table of {array.size} numbers, too large for a source file")
            index, numbers = (self.numbers(self.constant(part, True)) for part in (places, flat[places]))
            return Expr(f"jnp.zeros({self.const('size', array.size)}, {dtype}).at[{index}].set({numbers}){shaped}")
        if array.ndim == 1 and array.dtype.kind in "iu" and np.array_equal(flat, np.arange(array.size) + flat[0]):
            span = f"{flat[0]}, {flat[0] + array.size}" if flat[0] else str(array.size)
            return Expr(f"jnp.arange({self.literal('places', span)}, dtype={dtype})")
        if array.size > _LARGEST_LIST and array.dtype.kind in "fiu":
            text = self.names.table(" ".join(number_text(number).replace("jnp.", "") for number in flat))
            return Expr(f"jnp.asarray(np.array({self.literal('table', text)}.split(), np.{array.dtype.name}){shaped})")
        numbers = f"[{', '.join(map(number_text, flat))}]"
        return Expr(f"jnp.array({self.literal('table', numbers)}, {dtype}){shaped}")

    def operands(self, e: Equation) -> list[Expr]:
        """Return the operands of an elementwise operation that broadcasts as NumPy does."""
        atoms = e.inputs[1:] + e.inputs[:1] if e.name == "select_n" else e.inputs
        forms = [None if isinstance(a, KnownArray) else self.known[id(a)] for a in atoms]
        shapes = [k.sizes() if isinstance(k, _Broadcast) else a.shape for k, a in zip(forms, atoms, strict=True)]
        for place, one in enumerate(forms):
            if isinstance(one, _Broadcast) and not _covers(shapes, e.outputs[0].shape):
                shapes[place], forms[place] = one.shape, None
        texts: list[Expr] = []
        # All say a dtype but numbers and broadcast numbers.
        weak = all(
            isinstance(a, KnownArray) or (isinstance(k, _Broadcast) and isinstance(k.source, KnownArray))
            for a, k in zip(atoms[:2], forms[:2], strict=True)
        )
        for atom, one in zip(atoms, forms, strict=True):
            if isinstance(one, _Broadcast):
                source, index = self.text(one.source, strong=weak), one.subscript()
                texts.append(Expr(source.within(Level.ATOM) + index) if index else source)
            else:
                texts.append(self.text(atom, strong=weak))
        return texts

    # -- expressions -------------------------------------------------------------------------------------------------

    def expression(self, e: Equation) -> Expr:
        """Return the expression of an equation that has no bodies."""
        name = e.name
        special = getattr(self, f"_{name}", self.indexed if name.startswith("scatter") else None)
        if special is not None:
            result = special(e)
            return result if isinstance(result, Expr) else Expr(result)
        if name in INFIX:
            return self.infix(e, *INFIX[name])
        if name in PREFIX:
            return self.signed(PREFIX[name], e)
        if name in OF_TWO:
            return self.call(OF_TWO[name], (), *(expr.text for expr in self.operands(e)))
        if "." in name:  # an idiom
            return self.call(name, e.inputs, **e.params)
        if name in REDUCTIONS:
            return self.reduction(e)
        if name in CALLS:
            return self.by_table(e, *CALLS[name].split())
        if hasattr(lax, name) and all(value is None or key in _MEANINGLESS for key, value in e.params.items()):
            return self.call(f"lax.{name}", e.inputs)
        raise self.where(f"its rule uses JAX's primitive {name}, which this version does not print")

    def call(self, function: str, atoms: Sequence[Atom], *more: str, **options: Any) -> Expr:
        """Return the call of a function of JAX's."""
        words = (f"{key}={self.const(key, value)}" for key, value in options.items())
        return Expr(f"{function}({', '.join([*self.texts(atoms), *more, *words])})")

    def by_table(self, e: Equation, function: str, *parameters: str) -> Expr:
        """Return a call as a row of the table describes it."""
        texts, options = self.texts(e.inputs), dict[str, Any]()
        for word, equals, key in (parameter.partition("=") for parameter in parameters):
            if word in ("[]", "()"):
                texts = [f"[{', '.join(texts)}]" if word == "[]" else tuple_text(texts)]
            elif not equals:
                value = e.params[word]
                texts.append(self.const(word.removeprefix("new_").split("_")[0], value[0] if word == "axes" else value))
            elif (value := False if key == "False" else e.params.get(key or word)) is not None:
                options[word] = value
        if function.startswith("."):
            function, texts = self.text(e.inputs[0]).within(Level.ATOM) + function, texts[1:]
        is_one_of_several = e.is_several and len(e.outputs) == 1 and e.name != "svd"
        return Expr(self.call(function, (), *texts, **options).text + "[0]" * is_one_of_several)

    def infix(self, e: Equation, sign: str, level: Level) -> Expr:
        """Return two operands with a sign between them."""
        left, right = self.operands(e)
        return Expr(f"{left.within(level + (level == Level.COMPARED))} {sign} {right.within(level + 1)}", level)

    def _eq(self, e: Equation) -> Expr:
        if e.inputs[1].dtype == np.bool_ and (truth := _repeated_number(e.inputs[1])) is not None:
            left = self.text(e.inputs[0])
            return left if bool(truth) == (e.name == "eq") else self.signed("~", e)
        return self.infix(e, *INFIX[e.name])

    _ne = _eq

    def _div(self, e: Equation) -> Expr:
        is_exact = not jnp.issubdtype(e.outputs[0].dtype, jnp.inexact)
        return self.call("lax.div", e.inputs) if is_exact else self.infix(e, *INFIX["div"])

    def signed(self, sign: str, e: Equation) -> Expr:
        """Return the first operand with a sign before it."""
        return Expr(sign + self.text(e.inputs[0]).within(Level.SIGNED if sign == "~" else Level.ATOM), Level.SIGNED)

    def _select_n(self, e: Equation) -> Expr:
        if e.inputs[0].dtype != np.bool_ or len(e.inputs) > 3:
            return self.call("lax.select_n", e.inputs)
        otherwise, chosen, which = (expr.text for expr in self.operands(e))
        return self.call("jnp.where", (), which, chosen, otherwise)

    def reduction(self, e: Equation) -> Expr:
        """Return a reduction: jnp's, unless that would compute in another dtype."""
        (data,), axes = e.inputs, tuple(e.params["axes"])
        widened = e.name in ("reduce_sum", "reduce_prod") and data.dtype.name not in _SUMMED
        if widened or any(_is(size, 0) for size in data.shape):
            return self.call(f"lax.{e.name}", e.inputs, self.const("axis", axes))
        options = {} if len(axes) == len(data.shape) else {"axis": axes[0] if len(axes) == 1 else axes}
        if e.name in ("reduce_sum", "reduce_prod") and data.dtype.kind == "i":
            options["dtype"] = data.dtype
        return self.call(f"jnp.{REDUCTIONS[e.name]}", e.inputs, **options)

    def method(self, e: Equation, name: str, hint: str, value: Any) -> str:
        """Return the call of a method of the first operand."""
        return f"{self.text(e.inputs[0]).within(Level.ATOM)}.{name}({self.const(hint, value)})"

    def _reshape(self, e: Equation) -> str:
        sizes = e.params["new_sizes"]
        fixed = [size for size in sizes if isinstance(size, int)]
        if 0 not in fixed and 0 not in e.inputs[0].shape and len(fixed) == len(sizes) - (len(sizes) > 1) != 0:
            if len(sizes) == 1:
                return f"{self.text(e.inputs[0]).within(Level.ATOM)}.reshape(-1)"
            sizes = tuple(size if isinstance(size, int) else -1 for size in sizes)
        return self.method(e, "reshape", "shape", sizes)

    def _transpose(self, e: Equation) -> str:
        order = tuple(e.params["permutation"])
        plain = f"{self.text(e.inputs[0]).within(Level.ATOM)}.T"
        return plain if order == (1, 0) else self.method(e, "transpose", "axes", order)

    def _squeeze(self, e: Equation) -> str:
        axes = e.params["dimensions"]
        return self.method(e, "squeeze", "axis", axes[0] if len(axes) == 1 else axes)

    def _slice(self, e: Equation) -> str:
        p, data = e.params, e.inputs[0]
        parts: list[str] = []
        steps, axes = p["strides"] or (1,) * len(data.shape), p.get("axes", ())
        bounds = zip(data.shape, p["start_indices"], p["limit_indices"], steps, strict=True)
        for axis, (size, low, high, step) in enumerate(bounds):
            if axis in axes:
                parts.append(value_text(low, self.size))
                continue
            low, high = (0, 0) if low == high else (low, high)
            ends = ["" if _is(low, 0) else low, "" if _is(high, size) else high, *([] if step == 1 else [step])]
            parts.append(":".join(end if end == "" else value_text(end, self.size) for end in ends))
        while parts and parts[-1] == ":":
            parts.pop()
        return f"{self.text(data).within(Level.ATOM)}[{', '.join(parts) or '...'}]"

    _index = _slice

    def _iota(self, e: Equation) -> str:
        (size,), dtype = e.params["shape"], dtype_text(e.params["dtype"])
        return f"jnp.arange({self.const('size', size)}, dtype={dtype})"

    def _dim_as_value(self, e: Equation) -> str:
        return f"{dtype_text(e.outputs[0].dtype)}({self.const('size', e.params['dim'])})"

    def _le_to(self, e: Equation) -> Expr:
        """Return a comparison in which NaN is the largest number; JAX makes all zeros and all NaN one before it."""
        left, right = (self.text(atom).within(Level.COMPARED + 1) for atom in e.inputs)
        plain, is_nan = f"{left} {COMPARISONS[e.name.removesuffix('_to')]} {right}", f"jnp.isnan({right})"
        if not jnp.issubdtype(e.inputs[0].dtype, jnp.inexact):
            return Expr(plain, Level.COMPARED)
        before = {"le_to": "", "lt_to": f"~jnp.isnan({left})", "eq_to": f"jnp.isnan({left})"}[e.name]
        return Expr(f"({plain}) | {f'({before} & {is_nan})' if before else is_nan}", Level.OR)

    _lt_to = _eq_to = _le_to

    def _dot_general(self, e: Equation) -> Expr:
        (left, right), p, dtype = e.inputs, e.params, e.outputs[0].dtype
        (across, down), (batch, others) = (tuple(map(tuple, pair)) for pair in p["dimension_numbers"])
        is_usual = left.dtype == right.dtype == dtype
        options = _unusual(p, precision=None, preferred_element_type=dtype if is_usual else None)
        count, last = len(batch), len(left.shape) - 1
        if (
            (not options and is_usual)
            and (batch == others == tuple(range(count)) and across == (last,) and last >= count)
            and (len(right.shape) == count + 2 and (not count or last == count + 1) and len(down) == 1)
        ):
            first, second = self.text(left).within(Level.MULTIPLIED), self.text(right)
            if down == (count,):
                return Expr(f"{first} @ {second.within(Level.SIGNED)}", Level.MULTIPLIED)
            turned = f".swapaxes({count}, {count + 1})" if count else ".T"
            return Expr(f"{first} @ {second.within(Level.ATOM)}{turned}", Level.MULTIPLIED)
        numbers = self.const("dims", ((across, down), (batch, others)))
        return self.call("lax.dot_general", e.inputs, numbers, **options)

    def _conv_general_dilated(self, e: Equation) -> Expr:
        p, ones, numbers = e.params, (1,) * len(e.params["window_strides"]), e.params["dimension_numbers"]
        specs = zip((numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec), ("NC", "OI", "NC"), strict=True)
        options = _unusual(p, lhs_dilation=ones, rhs_dilation=ones)
        options["dimension_numbers"] = tuple(_axes_of(*pair) for pair in specs)
        dtype = e.outputs[0].dtype if e.inputs[0].dtype == e.outputs[0].dtype else None
        options |= _unusual(p, feature_group_count=1, batch_group_count=1, precision=None, preferred_element_type=dtype)
        return self.call("lax.conv_general_dilated", e.inputs, *self.moves(p), **options)

    def moves(self, p: Mapping[str, Any]) -> tuple[str, str]:
        """Return the strides and the padding of windows."""
        is_valid = not any(map(any, p["padding"])) and set(p.get("lhs_dilation") or (1,)) == {1}
        padding = "VALID" if is_valid else p["padding"]  # JAX wants numbers beside a dilation
        return self.const("strides", p["window_strides"]), self.const("padding", padding)

    def _reduce_window_sum(self, e: Equation) -> Expr:
        p, dtype, name = e.params, e.inputs[0].dtype, e.name.removeprefix("reduce_window_")
        ones, is_float = (1,) * len(e.inputs[0].shape), jnp.issubdtype(dtype, jnp.floating)
        lowest = "-jnp.inf" if is_float else str(jnp.iinfo(dtype).min)
        first = number_text(np.zeros((), dtype)) if name == "sum" else lowest
        function, window = f"lax.{'add' if name == 'sum' else name}", self.const("window", p["window_dimensions"])
        options = _unusual(p, base_dilation=ones, window_dilation=ones)
        return self.call("lax.reduce_window", e.inputs, first, function, window, *self.moves(p), **options)

    _reduce_window_max = _reduce_window_sum

    def _gather(self, e: Equation) -> Expr:
        p, n, (data, places) = e.params, e.params["dimension_numbers"], e.inputs
        cut = [axis for axis, size in enumerate(data.shape) if not _is(p["slice_sizes"][axis], size)]
        along = tuple(n.start_index_map)
        if (
            len(along) == 1
            and along == n.collapsed_slice_dims
            and not n.operand_batching_dims
            and cut in ([], [*along])
        ):
            (axis,), number = along, _repeated_number(places)
            if places.shape == (1,) and number is not None and number >= 0 and isinstance(data.shape[axis], int):
                index = self.const("places", min(number, data.shape[axis] - 1))
                return Expr(f"{self.text(data).within(Level.ATOM)}[{':, ' * axis}{index}]")
        return self.indexed(e, self.const("sizes", p["slice_sizes"]), **_unusual(p, fill_value=None))

    def indexed(self, e: Equation, *more: str, **options: Any) -> Expr:
        """Return a gather or scatter."""
        p, numbers = e.params, e.params["dimension_numbers"]
        dims = ((key, value) for key, value in numbers._asdict().items() if value or "batching" not in key)
        texts = (f"{key}={value_text(tuple(value), str)}" for key, value in dims if key != "mode")
        mode = (
            {}
            if p["mode"] is None
            else {"mode": lax.GatherScatterMode(p["mode"]).name.lower().removesuffix("_or_drop")}
        )
        options = _unusual(p, indices_are_sorted=False, unique_indices=False) | mode | options
        numbered = f"lax.{type(numbers).__name__}({', '.join(texts)})"
        return self.call(f"lax.{e.name.replace('-', '_')}", e.inputs, numbered, *more, **options)

    def starts(self, atoms: Sequence[Atom]) -> str:
        """Return the places where a slice starts, all of one dtype."""
        is_known = all(isinstance(atom, KnownArray) for atom in atoms)
        return tuple_text([self.text(atom, strong=not is_known).text for atom in atoms])

    def _dynamic_slice(self, e: Equation) -> Expr:
        sizes = self.const("sizes", e.params["slice_sizes"])
        return self.call("lax.dynamic_slice", e.inputs[:1], self.starts(e.inputs[1:]), sizes)

    def _dynamic_update_slice(self, e: Equation) -> Expr:
        return self.call("lax.dynamic_update_slice", e.inputs[:2], self.starts(e.inputs[2:]))

    def drawn(self, e: Equation, function: str, *more: str) -> str:
        """Return the call of a function of a key: for an array of keys, for each of them."""
        axes = len(e.inputs[0].shape)
        if axes and more:
            key = self.names.new("each_key")
            function, more = f"lambda {key}: {function}({', '.join([key, *more])})", ()
        return self.call("jax.vmap(" * axes + function + ")" * axes, e.inputs, *more).text

    def _random_bits(self, e: Equation) -> str:
        shape = self.const("shape", e.params["shape"])
        return self.drawn(e, "jax.random.bits", shape, f"jnp.uint{e.params['bit_width']}")

    def _random_split(self, e: Equation) -> str:
        return self.drawn(e, "jax.random.split", self.const("count", e.params["shape"]))

    def _random_fold_in(self, e: Equation) -> str:
        return self.drawn(e, "jax.random.fold_in")

    # -- control flow ------------------------------------------------------------------------------------------------

    def function(
        self, body: Body, hint: str, unpacked: Mapping[str, Sequence[ComputedArray]], result: Callable[[list[str]], str]
    ) -> str:
        """Write a function inside this one; return its name. unpacked: values by arguments."""
        name = self.names.new(hint)
        self.write(f"def {name}({', '.join(unpacked)}):")
        indent = self.indent + "    "
        for argument, values in unpacked.items():
            parts = [self.names.new("part") for _ in values] if len(values) > 1 else [argument] * len(values)
            self.known.update((id(value), Expr(text)) for value, text in zip(values, parts, strict=True))
            if len(parts) > 1:
                self.code.statements.append(f"{indent}{', '.join(parts)} = {argument}")
        results = self.run(body, indent)
        self.code.statements += [f"{indent}return {result(results)}", ""]
        return name

    def cond(self, e: Equation) -> str:
        """Write the branches of a condition as functions; return the call."""
        branches = [self.function(body, "branch", {}, _grouped) for body in e.bodies]
        which = self.text(e.inputs[0]).text
        if len(branches) == 2:
            return f"lax.cond({which} == 1, {branches[1]}, {branches[0]})"
        return f"lax.switch({which}, [{', '.join(branches)}])"

    def while_loop(self, e: Equation) -> str:
        """Write the test and the step of a loop as functions; return the call."""
        carry, (test, body) = self.names.new("carry"), e.bodies
        tested = self.function(test, "goes_on", {carry: test.inputs}, lambda results: results[0])
        initial = _grouped(self.texts(e.inputs[: len(test.inputs)]))
        axes = len(test.results[0].shape)

        def chosen(results: Sequence[str]) -> str:
            """Return the new values of the samples that go on, of the others the old ones."""
            if not axes:
                return _grouped(results)
            more = [len(value.shape) - axes for value in body.inputs]
            index = [f"[{', '.join([':'] * axes + ['None'] * count)}]" if count else "" for count in more]
            values = zip(index, results, self.texts(body.inputs), strict=True)
            return _grouped([f"jnp.where({tested}({carry}){i}, {new}, {old})" for i, new, old in values])

        step = self.function(body, "step", {carry: body.inputs}, chosen)
        tested = f"lambda {carry}: jnp.any({tested}({carry}))" if axes else tested
        return f"lax.while_loop({tested}, {step}, {initial})"

    def scan(self, e: Equation) -> None:
        """Write a scan, with its step as a function."""
        p, (body,) = e.params, e.bodies
        carried, count = p["num_carry"], len(body.inputs)
        initial, sequences = self.texts(e.inputs[:carried]), self.texts(e.inputs[carried:count])
        carry, item = self.names.new("carry"), self.names.new("item") if sequences else "_"
        unpacked = {carry: body.inputs[:carried], item: body.inputs[carried:]}
        step = self.function(body, "step", unpacked, lambda r: f"{_grouped(r[:carried])}, {_grouped(r[carried:])}")
        options = [] if sequences else [f"length={self.const('length', p['length'])}"]
        options += ["reverse=True"] if p["reverse"] else []
        names = self.targets(e.outputs[:carried], "last"), self.targets(e.outputs[carried:], "outputs")
        left, right = (_grouped(part) if set(part) - {"_"} else "_" for part in names)
        call = f"lax.scan({', '.join([step, _grouped(initial), _grouped(sequences), *options])})"
        self.write(f"{left}, {right} = {call}")


def _grouped(texts: Sequence[str]) -> str:
    """Return arrays as one argument: None, the array alone, or a tuple."""
    return "None" if not texts else texts[0] if len(texts) == 1 else tuple_text(texts)


_MEANINGLESS = ("accuracy", "sharding", "out_sharding", "impl")
_SUMMED = ("float32", "float64", "int32", "int64")
"""Dtypes in which jnp.sum computes; of integers with dtype=, without which it may take 64 bits."""


def _unusual(params: Mapping[str, Any], **usual: Any) -> dict[str, Any]:
    """Return the parameters that are neither None nor as usual."""
    return {key: params[key] for key, value in usual.items() if params[key] is not None and params[key] != value}


def _repeated_number(atom: Atom) -> int | None:
    """Return the number that is each element of an array, where it is one."""
    atom = repeated(atom)
    if isinstance(atom, KnownArray) and atom.array.size and (atom.array == atom.array.flat[0]).all():
        return int(atom.array.flat[0])
    return None


def _plain(text: str) -> str:
    """Return a text with placeholders as long as its parts will be, about."""
    lengths = {STRING: 20, CONST: 8, INPUT: 5, DIM: 5, WORD: 1}
    return replaced(text, {kind: lambda _, n=n: "…" * n for kind, n in lengths.items()})


def _is(size: Any, other: Any) -> bool:
    return size is other or bool(size == other)


def _covers(shapes: Sequence[tuple[Any, ...]], shape: tuple[Any, ...]) -> bool:
    """Return whether NumPy's broadcasting of the shapes gives the shape."""
    return any(len(s) >= len(shape) for s in shapes) and all(
        _is(size, 1) or any(len(s) >= place and _is(s[-place], size) for s in shapes)
        for place, size in enumerate(reversed(shape), start=1)
    )


def _axes_of(spec: Sequence[int], pair: str) -> str:
    """Return axes as letters: where samples, channels and each spatial axis are."""
    letters = dict(zip(spec, pair + "DHW"[5 - len(spec) :], strict=True))
    return "".join(letters[axis] for axis in range(len(spec)))
