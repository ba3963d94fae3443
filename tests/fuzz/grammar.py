"""Legal symbol files with hostile meaning, drawn from the registry: `draw_symbol(rng)`.

A file is grown: from nothing, or from files of the table of cases; nodes of any operator are put on top, on shared or
new inputs; then some things are changed that leave the file legal (parameters of any node, shapes, dtypes, hints,
names, wiring, heads, control dependencies). Parameters come from the operators' schemas, so the parser takes most of
them and they meet the shape rules, the gradient rules and the lowering.
"""

import json
import random
import types
import typing
from functools import cache
from typing import Any, Literal, get_args, get_origin

from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.attributes import FInputGraph, FMutateInputs
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.ir.params import ParamField, value_to_text
from symjax_nnvm.ir.types import DTYPE_CODES
from tests.fuzz import corpus
from tests.fuzz.mutate import NUMBERS, TEXTS

__all__ = ["draw_attrs", "draw_symbol"]

JSONNode = dict[str, Any]

_SMALL = (0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 7, 8, 16)
_FLOATS = (
    "0 -0.0 1 -1 0.5 2.5 1e-30 1e30 -1e30 3.4e38 1.7e308 5e-324 1e-320 nan inf -inf 1.0f +.5e+5 00000.1 1e-0001 255"
)
_FLOATS = [*_FLOATS.split(), "1e9", "2147483648", "0." + "1" * 900, "1" * 300]
_FOREIGN = ("__ctx_group__", "__lr_mult__", "__force_mirroring__", "__profiler_scope__", "__mine__", "__storage_type__")
_HINTS = ("__shape__", "__shape__", "__dtype__", "__init__", "__storage_type__", "__lr_mult__", "__mine__")
_NAMES = ("", "x", "data", "in0", "a/b", "softmax_label", "\u202e", "x" * 4096, "é", "x_mirror", "0", "head_grad")
_COMMON = "elemwise_add _mul broadcast_add Concat stack sum Reshape transpose tile repeat slice FullyConnected topk"
_COMMON += " Convolution Pooling BatchNorm Activation dot batch_dot take Embedding Pad softmax SliceChannel expand_dims"
_COMMON = [*_COMMON.split(), "clip", "broadcast_to", "Cast", "_zeros", "_arange", "where"]
"""Operators that connect others; a third of the nodes that are put on top."""

# -- texts of parameters and hints -------------------------------------------------------------------------------------


def _draw_int(rng: random.Random, wild: float) -> int:
    return rng.choice(NUMBERS if rng.random() < wild else _SMALL)


def _draw_text(rng: random.Random, field: ParamField) -> str:
    """A text that the field's parser and bounds take; the default's when none was found."""
    wild = rng.choice([0.0, 0.1, 0.5, 1.0])
    for _ in range(12):
        text = _draw(rng, field.annotation, wild)
        try:
            if field.admits(field.parse(text.strip() if field.annotation is not str else text)):
                return text
        except ValueError:
            continue
    return "1" if field.required else value_to_text(field.default)


def _draw(rng: random.Random, annotation: Any, wild: float) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return rng.choice(args)
    if origin in (typing.Union, types.UnionType):
        inner = next(arg for arg in args if arg is not type(None))
        return "None" if rng.random() < 0.15 else _draw(rng, inner, wild)
    if origin is tuple:
        draw, count = rng.random(), rng.choice([0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5, 8, 33])
        if draw < 0.03:
            return "(" + ", ".join(["1"] * rng.choice([33, 64, 65, 1000, 20000])) + ")"
        same = draw < 0.4  # kernels, pads and repetitions often are
        items = [_draw(rng, args[0], wild) for _ in range(min(count, 1) if same else count)] * (count if same else 1)
        return rng.choice(items or ["()"]) if draw > 0.98 else f"({', '.join(items)}{',' if count == 1 else ''})"
    if annotation is bool:
        return rng.choice(["True", "False", "0", "1", "true"])
    if annotation is int:
        return str(_draw_int(rng, wild))
    return rng.choice(_FLOATS if annotation is float else TEXTS)


def _draw_shape(rng: random.Random) -> str:
    """A `__shape__`: known, partly known, empty, enormous."""
    rank, wild = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 9, 33, 64]), rng.choice([0.0, 0.0, 0.0, 0.2, 0.7])
    least = rng.choice([1, -(1 << 64)])
    dims = [max(_draw_int(rng, wild), least) for _ in range(rank)]
    return rng.choice([*[value_to_text(tuple(dims))] * 2, str(dims), "None"][: 3 + (rank < 2)])


def _draw_hint(rng: random.Random, key: str) -> str:
    """A variable's hint: what MXNet's attributes of that name hold, and what they could."""
    match key:
        case "__shape__":
            return _draw_shape(rng)
        case "__dtype__":
            return rng.choice([*DTYPE_CODES, *map(str, DTYPE_CODES.values()), "-1"])
        case "__init__":
            known = ['["zero", {}]', '["constant", {"value": 1e308}]', "zero", "[]", '["xavier"]', "{}", "\0"]
            return rng.choice(known)
        case "__storage_type__":
            return rng.choice(["-1", "0", "1", "2", "default", "csr", "row_sparse"])
        case "__lr_mult__" | "__wd_mult__":
            return rng.choice(_FLOATS)
    return rng.choice([*TEXTS, *_FLOATS, "True", "(2, 3)"])


def _parsed(op: Op, params: dict[str, str]) -> NodeAttrs | None:
    """The attributes, parsed; None when the operator refuses them."""
    attrs = NodeAttrs(op, "op", dict(params))
    try:
        attrs.parse()
        op.num_outputs(attrs)
    except NNVMError:
        return None
    return attrs


def draw_attrs(rng: random.Random, op: Op, inputs: int) -> NodeAttrs | None:
    """Parameters of an operator: all that are required, and some others; None when it refuses all that was drawn."""
    fields = [*op.params.fields.values()] if op.params is not None else []
    for _ in range(6):
        share = rng.choice([0.0, 0.2, 0.6])
        params = {field.name: _draw_text(rng, field) for field in fields if field.required or rng.random() < share}
        if op.key_var_num_args:
            params[op.key_var_num_args] = str(rng.choice([1, 2, 2, 3, max(1, min(inputs, 60))]))
        attrs = _parsed(op, params)
        if attrs is not None:
            return attrs
    return None


# -- files -------------------------------------------------------------------------------------------------------------

_CHAINED: list[tuple[str, dict[str, str]]] = [
    *(("_plus_scalar", {"scalar": "1"}), ("Reshape", {"shape": "(-1,)"}), ("expand_dims", {"axis": "0"})),
    *((op, {}) for op in ("relu", "negative", "_copy", "BlockGrad", "Dropout")),
]
_DOUBLED: list[tuple[str, dict[str, str]]] = [
    *(("Concat", {"num_args": "2", "dim": "0"}), ("Concat", {"num_args": "2", "dim": "1"}), ("dot", {})),
    *(("elemwise_add", {}), ("elemwise_mul", {}), ("stack", {"num_args": "2"}), ("add_n", {"num_args": "2"})),
]


@cache
def _operators() -> list[Op]:
    return [op for op in list_unique_ops() if not op.name.startswith("_test_")]


class _Draft:
    """A symbol file that grows. open: entries [node, output, version] that nodes on top may read."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.nodes: list[JSONNode] = []
        self.heads: list[list[int]] = []
        self.open: list[list[int]] = []

    def add_file(self, text: str) -> None:
        """All nodes of a file behind those that are there; at times some of its variables become earlier entries."""
        rng, base, document = self.rng, len(self.nodes), json.loads(text)
        variables = [i for i, node in enumerate(document["nodes"]) if node["op"] == "null"]
        joined = {i: rng.choice(self.open) for i in variables if self.open and rng.random() < 0.4}

        def moved(entry: list[int]) -> list[int]:
            return list(joined.get(entry[0]) or [entry[0] + base, *entry[1:]])

        for node in document["nodes"]:
            node["inputs"] = [moved(entry) for entry in node["inputs"]]
            if "control_deps" in node:
                node["control_deps"] = [dep + base for dep in node["control_deps"]]
            self.nodes.append(node)
        self.heads = [moved(entry) for entry in document["heads"]]
        self.open += [[base + i, 0, 0] for i in variables if i not in joined] + self.heads

    def variable(self) -> list[int]:
        """A new variable, which mostly says its shape."""
        rng = self.rng
        attrs = {"__shape__": _draw_shape(rng)} if rng.random() < 0.7 else {}
        name = rng.choice(_NAMES) if rng.random() < 0.05 else f"v{len(self.nodes)}"
        self.nodes.append({"op": "null", "name": name, "attrs": attrs, "inputs": []})
        self.open.append([len(self.nodes) - 1, 0, 0])
        return list(self.open[-1])

    def operator(self) -> None:
        """A node of any operator, with parameters that parse, on earlier entries and on new variables."""
        rng = self.rng
        op = Op.get(rng.choice(_COMMON)) if rng.random() < 0.33 else rng.choice(_operators())
        attrs = draw_attrs(rng, op, len(self.open))
        if attrs is None or op in FInputGraph:
            return
        count = op.num_inputs(attrs)
        count = rng.choice([1, 2, 3]) if count is None else count
        if count > 200:
            return
        mutates = FMutateInputs.get(op)
        states = set(() if mutates is None else mutates(attrs))
        same = rng.choice(self.open) if self.open and rng.random() < 0.4 else None
        inputs: list[list[int]] = []
        for i in range(count):
            if i in states:
                inputs.append([*self.variable()[:2], rng.choice([0, 1, 1, 1, 2, 7])])
            elif same is not None:
                inputs.append(list(same))
            else:
                recent = self.open[-6:] if rng.random() < 0.75 else []
                inputs.append(list(rng.choice(recent)) if recent else self.variable())
        self.append(op.name, attrs.dict, inputs, op.num_outputs(attrs))

    def append(self, op: str, attrs: dict[str, str], inputs: list[list[int]], outputs: int = 1) -> list[int]:
        """A node, which is the new head."""
        number = len(self.nodes)
        self.nodes.append({"op": op, "name": f"n{number}", "attrs": dict(attrs), "inputs": inputs})
        self.open += [[number, i, 0] for i in range(min(outputs, 4))]
        self.heads = [[number, 0, 0]]
        return [number, 0, 0]

    def repeated(self, kinds: list[tuple[str, dict[str, str]]], times: int, reads: int) -> None:
        """One operator after the other, each of which reads the last one so often."""
        op, attrs = self.rng.choice(kinds)
        entry = self.rng.choice(self.open) if self.open else self.variable()
        for _ in range(times):
            entry = self.append(op, attrs, [list(entry) for _ in range(reads)])

    def change(self) -> None:
        """One change that leaves the file legal."""
        rng, nodes = self.rng, self.nodes
        kinds = ["parameters", "dimension", "hint", "wiring", "name", "foreign", "dependencies", "version", "heads"]
        variables = [node for node in nodes if node["op"] == "null"]
        match rng.choices(kinds, [12, 4, 4, 3, 1, 1, 1, 1, 2])[0]:
            case "parameters":
                self.change_parameters()
            case "dimension" if declared := [node for node in variables if "__shape__" in node.get("attrs", {})]:
                attrs = rng.choice(declared)["attrs"]
                dims = attrs["__shape__"].strip("()[]").split(",")
                dims[rng.randrange(len(dims))] = str(_draw_int(rng, 0.7))
                attrs["__shape__"] = f"({','.join(dims)})"
            case "hint" if variables:
                key = rng.choice(_HINTS)
                rng.choice(variables).setdefault("attrs", {})[key] = _draw_hint(rng, key)
            case "wiring" if users := [i for i, node in enumerate(nodes) if node["inputs"]]:
                i = rng.choice(users)
                earlier = [entry for entry in self.open if entry[0] < i]
                if earlier:
                    nodes[i]["inputs"][rng.randrange(len(nodes[i]["inputs"]))] = list(rng.choice(earlier))
            case "name" if nodes:
                rng.choice(nodes)["name"] = rng.choice([*_NAMES, rng.choice(nodes)["name"]])
            case "foreign" if nodes:
                key = rng.choice(_FOREIGN)
                rng.choice(nodes).setdefault("attrs", {})[key] = _draw_hint(rng, key)
            case "dependencies" if len(nodes) > 1:
                i = rng.randrange(1, len(nodes))
                nodes[i]["control_deps"] = [rng.randrange(i) for _ in range(rng.choice([1, 2, 50]))]
            case "version":
                entries = [entry for node in nodes for entry in node["inputs"] if nodes[entry[0]]["op"] == "null"]
                if entries:
                    rng.choice(entries)[2:] = [rng.choice([0, 1, 2, 3, (1 << 32) - 1])]
            case "heads" if self.open:
                heads = [list(rng.choice(self.open)) for _ in range(rng.choice([1, 2, 3, 10]))]
                self.heads = heads * rng.choice([1, 1, 1, 100]) + rng.choice([[], self.heads])

    def change_parameters(self) -> None:
        """Another text for a parameter or two of a node, in subgraphs too, such that the number of its inputs stays."""
        rng, pending, operators = self.rng, [self.nodes], []
        while pending:
            for node in pending.pop():
                operators += [node] if node["op"] != "null" and Op.exists(node["op"]) else []
                pending += [graph["nodes"] for graph in node.get("subgraphs", ())]
        node = rng.choice(operators) if operators else None
        op = None if node is None else Op.get(node["op"])
        if node is None or op is None or op.params is None or not op.params.fields:
            return
        fields = [*op.params.fields.values()]
        for _ in range(8):
            changed = dict(node.get("attrs", {}))
            for field in rng.sample(fields, k=min(rng.choice([1, 1, 2]), len(fields))):
                changed[field.name] = _draw_text(rng, field)
            attrs = _parsed(op, changed)
            count = len(node["inputs"]) + len(node.get("subgraphs", ()))
            if attrs is not None and op.num_inputs(attrs) in (None, count):
                node["attrs"] = changed
                return

    def text(self) -> str:
        """The file, as MXNet 1.9.1 writes it."""
        if not self.heads:
            self.heads = [list(self.open[-1] if self.open else self.variable())]
        variables = [i for i, node in enumerate(self.nodes) if node["op"] == "null"]
        document = {"nodes": self.nodes, "arg_nodes": variables, "heads": self.heads}
        return json.dumps(document | {"attrs": {"mxnet_version": ["int", 10901]}})


def draw_symbol(rng: random.Random) -> bytes:
    """One file."""
    draft, start, special = _Draft(rng), rng.random(), rng.random()
    for _ in range((start < 0.7) + (start < 0.15)):
        draft.add_file(rng.choice(corpus.symbol_texts()))
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 4, 10]) if start < 0.7 else rng.choice([1, 2, 3, 5, 12])):
        draft.operator()
    if special > 0.98:  # not where it is 0, which Hypothesis draws often
        draft.repeated(_CHAINED, rng.choice([10, 60, 200, 3000]), 1)
    elif special > 0.95:
        draft.repeated(_DOUBLED, rng.choice([3, 8, 16, 31, 31, 62, 64, 100]), 2)
    elif special > 0.94:
        draft.append("Custom", {"op_type": "fuzz_scale", "factor": "2"}, [draft.variable()])
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 5])):
        draft.change()
    return draft.text().encode("utf-8", "surrogatepass")
