"""The inference engine: applies operator rules over a graph until nothing more can be learnt.

Operator rules *propose* what inputs and outputs are, from what is known of them; the engine merges proposals into its
values and words the contradictions, so that every operator reports errors alike. One sweep goes over all nodes forward;
nodes that are still incomplete then go through a work list, last node first, and come back whenever one of their
entries becomes better known. A value can only become better known, so the whole takes time linear in nodes + edges,
where sweeping to and fro (NNVM's way to the same fixed point) may take quadratic time.

What the readers of an operator's output propose for it, beyond the operator's own proposal, is a guess: a loss head
takes its label to be like its data. A guess helps to infer missing shapes. If the operator cannot produce it, the guess
is dropped for good without an error, and the operator's own proposal is checked against all readers again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from symjax_nnvm.errors import InferenceError, NNVMError, OpenSizeError
from symjax_nnvm.ir.attributes import FGradient, FListInputNames, TIsBackward
from symjax_nnvm.ir.indexed_graph import IndexedGraph, IndexedNode
from symjax_nnvm.ir.node import NodeAttrs, NodeEntry, create_variable_node
from symjax_nnvm.ir.op import Op, OpMap
from symjax_nnvm.ir.rules.size_symbols import are_undecided, is_open, needed
from symjax_nnvm.passes.infer.quantity import SHAPE, Quantity

_NOTHING: tuple[int, ...] = ()
_SHOWN = 20  # inputs in one message


class InferenceEngine:
    """The state of one inference: a value per entry, and which nodes may still learn something.

    `values` is completed in place. decides: apply, in the end, the operators' last rules to what nothing else decided.
    """

    def __init__(
        self, index: IndexedGraph, quantity: Quantity, values: list[Any], ask_always: bool, decides: bool = True
    ):
        self.index = index
        self.quantity = quantity
        self.values = values
        self.ask_always = ask_always
        self.decides = decides
        self._rule_of: dict[Op, Callable[..., Any] | None] = {}
        self._backward: dict[int, list[tuple[int, int]]] = {}
        self._asked: dict[int, tuple[list[Any], list[Any]]] = {}
        self._guesses: dict[int, Any] = {}  # values of an operator's entries before its readers' guesses
        self._guesser: dict[int, int] = {}  # the first of those readers
        self._refused: set[int] = set()  # entries whose readers make no more guesses

    def apply_hints(self, hints: Mapping[NodeEntry, Any]) -> None:
        """Merge what the caller knows of entries inside the graph; hints for other graphs' nodes are ignored."""
        for entry, value in hints.items():
            if self.index.exist(entry.node):
                eid = self.index.entry_id(entry)
                try:
                    self.values[eid] = self.quantity.merge(self.values[eid], value)
                except ValueError:
                    raise InferenceError(
                        self.quantity.conflict(self.values[eid], value),
                        node=entry.node,
                        expected=f"{self.quantity.show(value)}, as hinted for output {entry.index}",
                        got=self.quantity.show(self.values[eid]),
                    ) from None

    def run(self) -> None:
        """Infer until nothing more can be learnt."""
        self._check_initial_values()
        refused = -1
        while refused < len(self._refused):  # a second time when guesses were dropped
            refused = len(self._refused)
            pending: list[int] = []
            for nid, inode in enumerate(self.index.nodes):
                if inode.source.attrs.op is not None:
                    _, is_open = self._visit(nid, inode)
                    if is_open:
                        pending.append(nid)
            if pending:
                self._settle(pending)

    def _check_initial_values(self) -> None:
        """Refuse impossible values that callers or variables gave."""
        for eid, value in enumerate(self.values):
            problem = None if value is None else self.quantity.problem(value)
            if problem is not None:
                node = self.index.nodes[bisect_right(self.index.entry_rptr, eid) - 1].source
                raise InferenceError(f"Error in the given {self.quantity.name}: {problem}", node.name, node=node)

    def _settle(self, pending: list[int]) -> None:
        """Visit incomplete nodes, last first, then again whenever one of their entries becomes better known.

        Then let operators decide what nothing else does, first node first, and follow each decision.
        """
        users: dict[int, list[int]] = {}
        for nid in pending:
            for eid in self._entries(nid):
                users.setdefault(eid, []).append(nid)
        complete: set[int] = set()
        self._follow(reversed(pending), users, complete)
        if self.decides and self.quantity.last_rules is not None:
            for nid in pending:
                if nid not in complete:
                    changed = self._decide(nid, self.quantity.last_rules)
                    self._follow((user for eid in changed for user in users[eid]), users, complete)

    def _follow(self, start: Iterable[int], users: Mapping[int, list[int]], complete: set[int]) -> None:
        """Visit nodes, and the users of what they learn, until nothing more can be learnt."""
        queue = deque(dict.fromkeys(nid for nid in start if nid not in complete))
        queued = set(queue)
        while queue:
            nid = queue.popleft()
            queued.discard(nid)
            changed, is_open = self._visit(nid, self.index.nodes[nid])
            if not is_open:
                complete.add(nid)
            for eid in changed:
                for user in users[eid]:
                    if user not in queued and user not in complete:
                        queued.add(user)
                        queue.append(user)

    def _decide(self, nid: int, last_rules: OpMap[Any]) -> Sequence[int]:
        """Apply one node's last rule. The entries that became better known."""
        inode = self.index.nodes[nid]
        rule = last_rules.get(inode.source.attrs.op)
        if rule is None:
            return _NOTHING
        first, last = self.index.entry_rptr[nid : nid + 2]
        ins = [self.index.entry_rptr[source] + i for source, i, _ in inode.inputs]
        outs = range(first, last)
        values = [self.values[eid] for eid in ins], [self.values[eid] for eid in outs]
        return self._merge(nid, [*ins, *outs], self._proposals(rule, inode, *values))

    def _entries(self, nid: int) -> list[int]:
        """Return the entries whose values a visit of the node reads."""
        rptr = self.index.entry_rptr
        entries = [rptr[source] + i for source, i, _ in self.index.nodes[nid].inputs]
        entries += range(rptr[nid], rptr[nid + 1])
        entries += [eid for eid, _ in self._backward.get(nid, ())]
        return entries

    def _visit(self, nid: int, inode: IndexedNode) -> tuple[Sequence[int], bool]:
        """Apply one node's rule. The entries that became better known, and whether the node is worth another visit."""
        values, rptr, quantity = self.values, self.index.entry_rptr, self.quantity
        attrs = inode.source.attrs
        op = attrs.op
        eids = [rptr[source] + i for source, i, _ in inode.inputs]
        first = rptr[nid]
        ins = [values[eid] for eid in eids]
        outs = values[first : rptr[nid + 1]]
        if not self.ask_always and quantity.all_known(ins) and quantity.all_known(outs):
            return _NOTHING, False
        try:
            rule = self._rule_of[op]  # type: ignore[index]  # only operator nodes are visited
        except KeyError:
            rule = self._rule_of[op] = self._find_rule(op)  # type: ignore[index,arg-type]
        eids.extend(range(first, rptr[nid + 1]))
        if rule is not None:
            # A rule returns the same for the same: a second call doubles the time at each level of nested loops.
            if self._asked.get(nid) == (ins, outs):
                return _NOTHING, True
            changed = self._learn(nid, inode, eids, rule, ins, outs)
        elif inode.control_deps and TIsBackward.get(op):
            changed = self._copy_from_forward(nid, inode)
        else:
            return _NOTHING, False
        is_open = not quantity.all_known([values[eid] for eid in eids])
        if is_open:
            self._asked[nid] = (ins, outs)
        return changed, is_open

    def _learn(
        self, nid: int, inode: IndexedNode, eids: list[int], rule: Callable[..., Any], ins: list[Any], outs: list[Any]
    ) -> Sequence[int]:
        """Merge what the rule proposes. Where the operator cannot produce what is guessed of its outputs, without these
        guesses; and where that does not do, without what it concluded from them for its inputs."""
        dropped = 0
        while True:
            try:
                return self._merge(nid, eids, self._proposals(rule, inode, ins, outs))
            except InferenceError:
                concluded = {eid for eid in eids[: len(ins)] if self._guesser.get(eid) == nid and eid in self._guesses}
                guesses = {eid for eid in eids[len(ins) :] if eid in self._guesses} if dropped == 0 else concluded
                if dropped == 2 or not guesses | concluded:
                    raise
            dropped += 1
            self._refused.update(guesses)
            for eid in guesses:
                self.values[eid] = self._guesses.pop(eid)
            ins[:], outs[:] = ([self.values[eid] for eid in part] for part in (eids[: len(ins)], eids[len(ins) :]))

    def _find_rule(self, op: Op) -> Callable[..., Any] | None:
        """Return the operator's own rule, or the default one; None for backward operators that leave it to theirs."""
        rule = self.quantity.rules.get(op)
        return self.quantity.default_rule if rule is None and op.is_registered and not TIsBackward.get(op) else rule

    def _proposals(self, rule: Callable[..., Any], inode: IndexedNode, ins: list[Any], outs: list[Any]) -> list[Any]:
        """Return the values that the rule proposes for inputs and outputs, in one list."""
        node = inode.source
        try:
            new_ins, new_outs = rule(node.attrs, ins, outs)
        except OpenSizeError as error:
            raise needed(error.condition, op=node.op, node=node) from error
        except (TypeError, AttributeError, *are_undecided()) as error:
            if self.quantity.name != SHAPE.name or not any(
                is_open(size) for shape in (*ins, *outs) for size in shape or ()
            ):
                raise
            first, *_ = str(error).splitlines() or [""]
            raise self._refusal(inode, f"it has to know a size that was left open: {first.rstrip('.')}") from error
        except (NNVMError, ValueError, OverflowError) as error:
            raise self._refusal(inode, str(error)) from error
        except ZeroDivisionError as error:  # MXNet has no empty arrays: there 0 is an unknown size
            raise self._refusal(inode, "it does not take arrays with an empty axis") from error
        proposed = [*new_ins, *new_outs]
        if len(proposed) != len(ins) + len(outs):
            raise InferenceError(
                f"Error in operator {node.name}: its {self.quantity.name} rule does not fit the node",
                op=node.op,
                node=node,
                expected=f"{len(ins)} inputs and {len(outs)} outputs",
                got=f"{len(proposed)} proposed {self.quantity.name}s in all",
            )
        return proposed

    def _merge(self, nid: int, eids: list[int], proposed: list[Any]) -> Sequence[int]:
        """Merge what is proposed for the entries, all or nothing. Returns the entries that are better known now."""
        values = self.values
        better: dict[int, Any] = {}
        for slot, value in enumerate(proposed):
            eid = eids[slot]
            # Two inputs may be the same entry.
            current = better.get(eid, values[eid]) if better else values[eid]
            if value is None or value is current or value == current:
                continue
            try:
                merged = self.quantity.merge(current, value)
            except ValueError:
                raise self._conflict(nid, slot, current, value) from None
            if merged != current:
                problem = self.quantity.problem(merged)
                if problem is not None:
                    raise self._refusal(self.index.nodes[nid], problem)
                better[eid] = merged
        first, last = self.index.entry_rptr[nid : nid + 2]
        for eid in [eid for eid in better if not first <= eid < last]:
            if eid in self._refused:
                del better[eid]
            else:
                self._guesses.setdefault(eid, values[eid])
                self._guesser.setdefault(eid, nid)
        for eid, value in better.items():
            values[eid] = value
        return list(better)

    def _refusal(self, inode: IndexedNode, problem: str) -> InferenceError:
        node = inode.source
        shown = ", ".join(self.quantity.show(self.values[self.index.entry_id(e)]) for e in inode.inputs[:_SHOWN])
        got = f"input {self.quantity.name}s {shown}"
        return InferenceError(f"Error in operator {node.name}: {problem}", node.name, op=node.op, node=node, got=got)

    def _conflict(self, nid: int, slot: int, current: Any, proposed: Any) -> InferenceError:
        inode = self.index.nodes[nid]
        node, show = inode.source, self.quantity.show
        is_input = slot < len(inode.inputs)
        number = slot if is_input else slot - len(inode.inputs)
        what = f"{number}-th {'input' if is_input else 'output'}"
        if is_input:
            source = self.index.nodes[inode.inputs[number].node_id].source
            origin = f"{show(current)} from {'variable' if source.is_variable else 'node'} {source.name!r}"
        else:
            origin = f"{show(current)} for output {number}, from the nodes that use it"
        return InferenceError(
            f"Error in operator {node.name}: {self.quantity.conflict(current, proposed, node.name, what)}",
            node.name,
            op=node.op,
            node=node,
            input=_input_name(node.attrs, number) if is_input else None,
            expected=show(proposed),
            got=origin,
        )

    # -- backward operators that have no rule of their own ---------------------------------------------------------

    def _copy_from_forward(self, nid: int, inode: IndexedNode) -> Sequence[int]:
        """NNVM's treatment of TIsBackward: a gradient is like its input, a head gradient like its head."""
        pairs = self._backward.get(nid)
        if pairs is None:
            pairs = self._backward[nid] = _forward_pairs(self.index, nid, inode)
        changed: list[int] = []
        for source, target in pairs:
            value, current = self.values[source], self.values[target]
            if value is None or value == current:
                continue
            try:
                merged = self.quantity.merge(current, value)
            except ValueError:
                node = inode.source
                raise InferenceError(
                    f"Error in operator {node.name}: Backward {self.quantity.name} inconsistent with the forward "
                    f"{self.quantity.name}",
                    op=node.op,
                    node=node,
                    expected=self.quantity.show(value),
                    got=self.quantity.show(current),
                ) from None
            if merged != current:
                self.values[target] = merged
                changed.append(target)
        return changed


def _forward_pairs(index: IndexedGraph, nid: int, inode: IndexedNode) -> list[tuple[int, int]]:
    """Return (entry of the forward node, entry of the backward node) of equal shape and dtype, found by asking
    FGradient.

    The forward node's gradient is built again over placeholder head gradients: the node of this operator in it shows
    which output is which input's gradient, and which inputs are head gradients.
    """
    node = inode.source
    rptr = index.entry_rptr
    forward = index.nodes[inode.control_deps[0]] if inode.control_deps else None
    gradient = None if forward is None else FGradient.get(forward.source.op)
    pairs: list[tuple[int, int]] = []
    generated = None
    if forward is not None and gradient is not None:
        placeholder = create_variable_node("head_gradient")
        heads = [NodeEntry(placeholder, i, 0) for i in range(forward.source.num_outputs())]
        for i, grad in enumerate(gradient(forward.source, heads)):
            if grad is None or grad.node.op is not node.op or generated not in (None, grad.node):
                continue
            generated = grad.node
            source, output, _ = forward.inputs[i]
            pairs.append((rptr[source] + output, rptr[nid] + grad.index))
        inputs = () if generated is None else generated.inputs
        for (source, i, _), built in zip(inode.inputs, inputs, strict=False):
            if built.node is placeholder:
                pairs.append((rptr[inode.control_deps[0]] + built.index, rptr[source] + i))
    if generated is None:
        raise InferenceError(
            f"Cannot find matching backward op for {node.name}",
            op=node.op,
            node=node,
            expected="control_deps[0] to be the forward node, whose FGradient makes this operator",
            got="no control dependency" if forward is None else f"node {forward.source.name!r}",
            fix="Register a rule for the backward operator itself.",
        )
    return pairs


def _input_name(attrs: NodeAttrs, number: int) -> object:
    list_names = FListInputNames.get(attrs.op)
    names = [] if list_names is None else list(list_names(attrs))
    return names[number] if number < len(names) else number
