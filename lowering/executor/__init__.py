"""MXNet's executor is a graph bound to arrays, run forward and backward."""

from lowering.executor.bind import bind as bind
from lowering.executor.bind import simple_bind as simple_bind
from lowering.executor.bound_graph import Executor as Executor

__all__ = ["Executor", "bind", "simple_bind"]
