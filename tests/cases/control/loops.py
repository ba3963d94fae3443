"""Cases of loops over subgraphs; the graphs are written once, for MXNet and for us."""

from typing import Any

from tests.cases import Case, T


def _recurrent(sym: Any, data: Any, state: Any, weight: Any) -> Any:
    """An output and a state at each step, and a weight and an outer node that stay.

    Both are factors: MXNet's gradient is wrong where one is added, for it sums up in the memory of the sum's gradient.
    """
    scale = weight * 2

    def body(x: Any, s: Any) -> Any:
        new = sym.broadcast_mul(sym.tanh(x + s), scale) * weight
        return new * new, new

    outputs, final = sym.contrib.foreach(body, data, state)
    return sym.Group([outputs, final])


def _several(sym: Any, a: Any, b: Any, s: Any, t: Any) -> Any:
    """Lists of data, outputs and states; one state does not change the other."""
    outputs, states = sym.contrib.foreach(
        lambda xs, ss: ([xs[0] * ss[0], xs[1] + ss[1]], [ss[0] + xs[1], ss[1] * xs[0]]), [a, b], [s, t]
    )
    return sym.Group([*outputs, *states])


def _no_states(sym: Any, data: Any) -> Any:
    """A plain map; the slices of a vector have one axis."""
    outputs, _ = sym.contrib.foreach(lambda x, s: (sym.exp(x), []), data, [])
    return outputs


def _nested(sym: Any, data: Any, state: Any) -> Any:
    """A loop in the body of a loop."""

    def body(x: Any, s: Any) -> Any:
        outputs, last = sym.contrib.foreach(lambda y, r: (y * r, r + y), x, s)
        return sym.sum(outputs, axis=0), sym.tanh(last)

    outputs, final = sym.contrib.foreach(body, data, state)
    return sym.Group([outputs, final])


def _indices(sym: Any, indices: Any, table: Any, state: Any) -> Any:
    """Integer data."""
    outputs, final = sym.contrib.foreach(lambda i, s: (sym.take(table, i) * s, s + 1), indices, state)
    return sym.Group([outputs, final])


def _layers(sym: Any, data: Any, state: Any, weight: Any, bias: Any) -> Any:
    """A cell made of layers."""

    def body(x: Any, s: Any) -> Any:
        joined = sym.concat(x, s, dim=1)
        new = sym.Activation(sym.FullyConnected(joined, weight, bias, num_hidden=3), act_type="tanh")
        return new, new

    outputs, final = sym.contrib.foreach(body, data, state)
    return sym.Group([outputs, final])


def _while(sym: Any, count: Any, value: Any, weight: Any) -> Any:
    """Stops early; the condition reads one variable, the body all of them."""
    outputs, variables = sym.contrib.while_loop(
        lambda i, a: i < 3,
        lambda i, a: ([a * weight], [i + 1, sym.sin(a) + a * weight]),
        [count, value],
        max_iterations=5,
    )
    return sym.Group([sym.slice_axis(outputs[0], axis=0, begin=0, end=3), *variables])


def _while_to_the_end(sym: Any, count: Any, value: Any) -> Any:
    """Stops at max_iterations."""
    outputs, variables = sym.contrib.while_loop(
        lambda i, a: i < 100, lambda i, a: ([a * i, a], [i + 1, a * a]), [count, value], max_iterations=3
    )
    return sym.Group([*outputs, *variables])


def _while_tail(sym: Any, count: Any, value: Any) -> Any:
    """All rows of the stacked output, those after the stop included."""
    outputs, _ = sym.contrib.while_loop(
        lambda i, a: i < 2, lambda i, a: ([a * i], [i + 1, a * a]), [count, value], max_iterations=4
    )
    return outputs[0]


CASES = [
    Case("_foreach", (T(3, 2), T(2), T(2)), tag="recurrent", graph=_recurrent),
    Case("_foreach", (T(3, 2), T(2), T(2)), tag="recurrent", graph=_recurrent, is_train=False),
    Case("_foreach", (T(2, 3), T(2, 3), T(3), T(3)), tag="several", graph=_several),
    Case("_foreach", (T(4),), tag="no_states", graph=_no_states),
    Case("_foreach", (T(2, 3, 2), T(2)), tag="nested", graph=_nested),
    Case(
        "_foreach",
        (T(3, 2, low=0, high=4, kind="integers"), T(4, 3), T(2, 3)),
        wrt=(1, 2),
        tag="indices",
        graph=_indices,
    ),
    Case("_foreach", (T(3, 2, 2), T(2, 3), T(3, 5), T(3)), tag="layers", graph=_layers),
    Case(
        "_foreach",
        (T(3, 2, dtype="float64"), T(2, dtype="float64"), T(2, dtype="float64")),
        tag="recurrent",
        graph=_recurrent,
    ),
    # The condition's variable has no derivative where the number of steps changes: 0.3 is between.
    Case("_while_loop", (T(1, low=0.2, high=0.4), T(2), T(2)), tag="stops", graph=_while),
    Case("_while_loop", (T(1, low=0.2, high=0.4), T(2), T(2)), tag="stops", graph=_while, is_train=False),
    Case("_while_loop", (T(1), T(1)), tag="to_the_end", graph=_while_to_the_end),
    Case(
        "_while_loop",
        (T(1, low=0.2, high=0.4), T(1)),
        tag="tail",
        graph=_while_tail,
        no_mxnet="leaves the rows after the stop undefined; ours are zero",
    ),
]
