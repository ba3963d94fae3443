"""Legal symbol files with hostile meaning, drawn from the registry: `draw_symbol(rng)`.

A file is grown: from nothing, or from files of the table of cases; nodes of any operator are put on top, on shared or
new inputs; then some things are changed that leave the file legal (parameters of any node, shapes, dtypes, hints,
names, wiring, heads, control dependencies). Parameters come from the operators' schemas, so the parser takes most of
them. Whether what it says makes sense is for the library to find out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.attributes import FInputGraph, FMutateInputs
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import Op, list_unique_ops
from tests.fuzz import corpus
from tests.fuzz.grammar_values import draw_hint, draw_int, draw_shape_text, draw_text

__all__ = ["draw_attrs", "draw_symbol"]

JSONNode = dict[str, Any]

_FOREIGN = ("__ctx_group__", "__lr_mult__", "__force_mirroring__", "__profiler_scope__", "__mine__", "__storage_type__")
_HINTS = ("__shape__", "__shape__", "__dtype__", "__init__", "__storage_type__", "__lr_mult__", "__mine__")
_NAMES = ("", "x", "data", "in0", "a/b", "softmax_label", "\u202e", "x" * 4096, "é", "x_mirror", "0", "head_grad")
_COMMON = (
    *(
        "elemwise_add",
        "_mul",
        "broadcast_add",
        "Concat",
        "stack",
        "sum",
        "Reshape",
        "transpose",
        "tile",
        "repeat",
        "slice",
    ),
    *(
        "FullyConnected",
        "Convolution",
        "Pooling",
        "BatchNorm",
        "Activation",
        "dot",
        "batch_dot",
        "take",
        "Embedding",
        "Pad",
    ),
    *("softmax", "SliceChannel", "expand_dims", "broadcast_to", "Cast", "_zeros", "_arange", "where", "topk", "clip"),
)
"""Operators that connect others; a third of what is put on top."""


@cache
def _seeds() -> list[str]:
    return corpus.symbol_texts()


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

    # -- growing -----------------------------------------------------------------------------------------------------

    def add_file(self, text: str) -> None:
        """All nodes of a file behind those that are there; at times some of its variables become what is there."""
        rng, base = self.rng, len(self.nodes)
        document = json.loads(text)
        joined = {
            i: rng.choice(self.open)
            for i, node in enumerate(document["nodes"])
            if node["op"] == "null" and self.open and rng.random() < 0.4
        }

        def moved(entry: list[int]) -> list[int]:
            return list(joined.get(entry[0]) or [entry[0] + base, *entry[1:]])

        for i, node in enumerate(document["nodes"]):
            node["inputs"] = [moved(entry) for entry in node["inputs"]]
            if "control_deps" in node:
                node["control_deps"] = [dep + base for dep in node["control_deps"]]
            self.nodes.append(node)
            if node["op"] == "null" and i not in joined:
                self.open.append([base + i, 0, 0])
        self.heads = [moved(entry) for entry in document["heads"]]
        self.open += self.heads

    def variable(self) -> list[int]:
        """A new variable, which mostly says its shape."""
        rng = self.rng
        attrs = {"__shape__": draw_shape_text(rng)} if rng.random() < 0.7 else {}
        name = rng.choice(_NAMES) if rng.random() < 0.05 else f"v{len(self.nodes)}"
        self.nodes.append({"op": "null", "name": name, "attrs": attrs, "inputs": []})
        self.open.append([len(self.nodes) - 1, 0, 0])
        return self.open[-1]

    def operator(self, op: Op | None = None, params: dict[str, str] | None = None) -> None:
        """A node of any operator, with parameters that parse, on what is there and on new variables."""
        rng = self.rng
        if op is None:
            op = Op.get(rng.choice(_COMMON)) if rng.random() < 0.33 else rng.choice(_operators())
        attrs = draw_attrs(rng, op, len(self.open)) if params is None else _parsed(op, params)
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
                entry = list(self.variable())
                entry[2] = rng.choice([0, 1, 1, 1, 2, 7])
            elif same is not None:
                entry = list(same)
            elif self.open and rng.random() < 0.75:
                entry = list(rng.choice(self.open[-6:]))
            else:
                entry = list(self.variable())
            inputs.append(entry)
        self._append(op.name, attrs.dict, inputs, op.num_outputs(attrs))

    def _append(self, op: str, attrs: dict[str, str], inputs: list[list[int]], outputs: int = 1) -> None:
        number = len(self.nodes)
        self.nodes.append({"op": op, "name": f"n{number}", "attrs": dict(attrs), "inputs": inputs})
        self.open += [[number, i, 0] for i in range(min(outputs, 4))]
        self.heads = [[number, 0, 0]]

    def chain(self, length: int) -> None:
        """One operator after the other, each on the last."""
        rng = self.rng
        entry = rng.choice(self.open) if self.open else self.variable()
        op = rng.choice(["_plus_scalar", "relu", "negative", "_copy", "Reshape", "BlockGrad", "expand_dims", "Dropout"])
        attrs = {"_plus_scalar": {"scalar": "1"}, "Reshape": {"shape": "(-1,)"}, "expand_dims": {"axis": "0"}}.get(
            op, {}
        )
        for _ in range(length):
            self._append(op, attrs, [entry])
            entry = [len(self.nodes) - 1, 0, 0]

    def doublings(self, times: int) -> None:
        """Each node reads the last one twice."""
        rng = self.rng
        entry = rng.choice(self.open) if self.open else self.variable()
        op, attrs = rng.choice(
            [
                ("Concat", {"num_args": "2", "dim": "0"}),
                ("Concat", {"num_args": "2", "dim": "1"}),
                ("elemwise_add", {}),
                ("elemwise_mul", {}),
                ("stack", {"num_args": "2"}),
                ("add_n", {"num_args": "2"}),
                ("dot", {}),
            ]
        )
        for _ in range(times):
            self._append(op, attrs, [list(entry), list(entry)])
            entry = [len(self.nodes) - 1, 0, 0]

    def custom(self) -> None:
        """A node of an operator that users register."""
        self._append("Custom", {"op_type": "fuzz_scale", "factor": "2"}, [self.variable()])

    # -- changes that leave it legal -----------------------------------------------------------------------------------

    def operators(self) -> list[JSONNode]:
        """All operator nodes, those inside subgraphs too."""
        found: list[JSONNode] = []
        pending = [self.nodes]
        while pending:
            for node in pending.pop():
                if node["op"] != "null":
                    found.append(node)
                pending += [graph["nodes"] for graph in node.get("subgraphs", ())]
        return found

    def change_params(self) -> None:
        """Another text for a parameter or two of a node, such that the number of its inputs stays."""
        rng, nodes = self.rng, self.operators()
        if not nodes:
            return
        node = rng.choice(nodes)
        op = Op.get(node["op"]) if Op.exists(node["op"]) else None
        if op is None or op.params is None or not op.params.fields:
            return
        for _ in range(8):
            changed = dict(node.get("attrs", {}))
            for field in rng.sample([*op.params.fields.values()], k=min(rng.choice([1, 1, 2]), len(op.params.fields))):
                changed[field.name] = draw_text(rng, field)
            attrs = _parsed(op, changed)
            if attrs is not None and op.num_inputs(attrs) in (
                None,
                len(node["inputs"]) + len(node.get("subgraphs", ())),
            ):
                node["attrs"] = changed
                return

    def change_hint(self) -> None:
        """Another hint for a variable."""
        variables = [node for node in self.nodes if node["op"] == "null"]
        if variables:
            key = self.rng.choice(_HINTS)
            self.rng.choice(variables).setdefault("attrs", {})[key] = draw_hint(self.rng, key)

    def change_dim(self) -> None:
        """One number of a declared shape becomes an extreme one."""
        rng = self.rng
        declared = [node for node in self.nodes if "__shape__" in node.get("attrs", {})]
        if not declared:
            return
        attrs = rng.choice(declared)["attrs"]
        dims = attrs["__shape__"].strip("()[]").split(",")
        dims[rng.randrange(len(dims))] = str(draw_int(rng, 0.7))
        attrs["__shape__"] = f"({','.join(dims)})"

    def add_foreign(self) -> None:
        """An attribute of somebody else's on any node."""
        if self.nodes:
            key = self.rng.choice(_FOREIGN)
            self.rng.choice(self.nodes).setdefault("attrs", {})[key] = draw_hint(self.rng, key)

    def rewire(self) -> None:
        """An input becomes another entry that comes before it."""
        rng = self.rng
        users = [i for i, node in enumerate(self.nodes) if node["inputs"]]
        if users:
            i = rng.choice(users)
            earlier = [entry for entry in self.open if entry[0] < i]
            if earlier:
                rng.choice([self.nodes[i]["inputs"]])[rng.randrange(len(self.nodes[i]["inputs"]))] = rng.choice(earlier)

    def rename(self) -> None:
        """A name that others have, or that nobody expects."""
        if self.nodes:
            rng = self.rng
            rng.choice(self.nodes)["name"] = rng.choice([*_NAMES, rng.choice(self.nodes)["name"]])

    def add_control_deps(self) -> None:
        """Nodes that must run before another one."""
        if len(self.nodes) > 1:
            i = self.rng.randrange(1, len(self.nodes))
            self.nodes[i]["control_deps"] = [self.rng.randrange(i) for _ in range(self.rng.choice([1, 2, 50]))]

    def change_version(self) -> None:
        """A variable is read after some number of mutations."""
        rng = self.rng
        entries = [entry for node in self.nodes for entry in node["inputs"] if self.nodes[entry[0]]["op"] == "null"]
        if entries:
            entry = rng.choice(entries)
            entry[2:] = [rng.choice([0, 1, 2, 3, (1 << 32) - 1])]

    def change_heads(self) -> None:
        """Many heads, the same one often, every output."""
        rng = self.rng
        if self.open:
            count = rng.choice([1, 2, 3, 10, 1000])
            self.heads = [list(rng.choice(self.open)) for _ in range(count)] + rng.choice([[], self.heads])

    def text(self) -> str:
        """The file, as MXNet 1.9.1 writes it."""
        if not self.heads:
            self.heads = [list(self.open[-1] if self.open else self.variable())]
        variables = [i for i, node in enumerate(self.nodes) if node["op"] == "null"]
        document = {
            "nodes": self.nodes,
            "arg_nodes": variables,
            "heads": self.heads,
            "attrs": {"mxnet_version": ["int", 10901]},
        }
        return json.dumps(document)


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
        params = {field.name: draw_text(rng, field) for field in fields if field.required or rng.random() < share}
        if op.key_var_num_args:
            params[op.key_var_num_args] = str(rng.choice([1, 2, 2, 3, max(1, min(inputs, 60))]))
        attrs = _parsed(op, params)
        if attrs is not None:
            return attrs
    return None


_CHANGES: list[tuple[Callable[[_Draft], None], int]] = [
    (_Draft.change_params, 12),
    (_Draft.change_dim, 4),
    (_Draft.change_hint, 4),
    (_Draft.rewire, 3),
    (_Draft.rename, 1),
    (_Draft.add_foreign, 1),
    (_Draft.add_control_deps, 1),
    (_Draft.change_version, 1),
    (_Draft.change_heads, 2),
]


def draw_symbol(rng: random.Random) -> bytes:
    """One file."""
    draft = _Draft(rng)
    start = rng.random()
    if start < 0.7:
        draft.add_file(rng.choice(_seeds()))
    if start < 0.15:
        draft.add_file(rng.choice(_seeds()))
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 4, 10]) if start < 0.7 else rng.choice([1, 2, 3, 5, 12])):
        draft.operator()
    special = rng.random()
    if special < 0.02:
        draft.chain(rng.choice([10, 60, 200, 3000]))
    elif special < 0.05:
        draft.doublings(rng.choice([3, 8, 16, 31, 31, 62, 64, 100]))
    elif special < 0.06:
        draft.custom()
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 5])):
        change = rng.choices([f for f, _ in _CHANGES], [weight for _, weight in _CHANGES])[0]
        change(draft)
    return draft.text().encode("utf-8", "surrogatepass")
