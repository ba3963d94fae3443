"""The registry of passes: Graph → Graph functions by name, with their requirements and results (NNVM's `pass.h`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from symjax_nnvm.errors import GraphError, PassError
from symjax_nnvm.ir.check_graph import check_graph
from symjax_nnvm.ir.graph import Graph

G = TypeVar("G", bound=Graph)

_passes: dict[str, PassInfo] = {}
_checking: ContextVar[bool] = ContextVar("checking", default=False)


@dataclass(frozen=True)
class PassInfo:
    """A registered pass.

    body: Graph → Graph. change_graph: whether the structure may change. op_attr_dependency: operator attributes it
    reads. graph_attr_dependency: graph attributes that must be set. graph_attr_targets: graph attributes it writes.
    """

    name: str
    body: Callable[[Graph], Graph]
    description: str = ""
    change_graph: bool = False
    op_attr_dependency: tuple[str, ...] = ()
    graph_attr_dependency: tuple[str, ...] = ()
    graph_attr_targets: tuple[str, ...] = ()


def register_pass(
    name: str,
    *,
    requires: Sequence[str] = (),
    provides: Sequence[str] = (),
    op_attrs: Sequence[str] = (),
    change_graph: bool = False,
) -> Callable[[Callable[[Graph], Graph]], Callable[[Graph], Graph]]:
    """Register the decorated function as a pass; it replaces a pass of the same name.

    Args:
        name: the name of the pass.
        requires: graph attributes that the pass needs.
        provides: graph attributes that its result has.
        op_attrs: attributes of operators that it reads.
        change_graph: whether its result has another structure than its argument.
    """

    def register(body: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
        _passes[name] = PassInfo(
            name, body, (body.__doc__ or "").strip(), change_graph, tuple(op_attrs), tuple(requires), tuple(provides)
        )
        return body

    return register


def get_pass(name: str) -> PassInfo:
    """Return the pass of a name. Raises PassError."""
    function = _passes.get(name)
    if function is None:
        raise PassError(f"Cannot find pass {name} in the registry. Registered are {', '.join(sorted(_passes))}.")
    return function


def list_passes() -> list[str]:
    """Return names of all passes, sorted."""
    return sorted(_passes)


def apply_passes(graph: G, names: Sequence[str]) -> G:
    """Apply passes in order; the argument is not changed.

    Args:
        graph: the graph.
        names: names of the passes; all are looked up before the first one runs.

    Raises:
        PassError: a pass is unknown, or a graph attribute that it requires is missing.
    """
    infos = [get_pass(name) for name in names]
    result = graph.derive()
    for info in infos:
        for key in info.graph_attr_dependency:
            if key not in result.attrs:
                provider = next((p.name for p in _passes.values() if key in p.graph_attr_targets), None)
                raise PassError(
                    f"Graph attr dependency {key} is required by pass {info.name} but is not available",
                    got=f"attributes {sorted(result.attrs)}",
                    fix=f"The attribute is provided by pass {provider}" if provider else None,
                )
        result = info.body(result)
        if info.change_graph and _checking.get():
            _check_result(info, result)
    return result  # type: ignore[return-value]  # passes derive from the graph they are given


@contextmanager
def checking_passes(on: bool = True) -> Iterator[None]:
    """Check every graph that a pass in this context (thread) returns, and name the pass that broke it: GraphError."""
    token = _checking.set(on)
    try:
        yield
    finally:
        _checking.reset(token)


def _check_result(info: PassInfo, result: Graph) -> None:
    try:
        check_graph(result.outputs)
    except GraphError as error:
        raise GraphError(f"After pass {info.name}: {error}") from error


def apply_pass(graph: G, name: str) -> G:
    """Apply one pass, as `apply_passes` does several."""
    return apply_passes(graph, [name])
