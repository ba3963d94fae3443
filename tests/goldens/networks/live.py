"""Hold our files against a running MXNet 1.9.1, both in one process. Run by hand, in MXNet's environment:

    mxnet-env/bin/python -m tests.goldens.networks.live [--graphs 1000] [--zoo resnet18_v1 ...]

Symbols: what we save, MXNet loads and saves again: every operator case of the suite, the golden networks, and random
graphs. The cases are also composed by both. Arrays: random ones of every dtype and storage, saved by each and saved
again by the other. Model zoo: each Gluon model's `save_parameters` file, matched to its export. Everything is compared
byte for byte; the exit code is 1 when something differs.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from tests.cases import Case
from tests.goldens.make import compose
from tests.support.ladder import all_cases, build

HERE = Path(__file__).parent


NOT_IN_FILES = "_backward_"
"""How operators begin that no symbol function makes: MXNet's of these names have other outputs than ours."""


OTHERWISE = {
    "_cond:outer:(1,)x(2,3)x(2,3)": "both branches read one outer node, which MXNet passes twice",
    "_cond:outer:(1,)x(2,3)x(2,3):eval": "the same",
    "_random_uniform:low=1.5,high=1.5,shape=(2,2),dtype=None": "MXNet's function makes dtype None float64",
}
"""Cases that MXNet's Python functions compose in another way, and why."""


class Tally:
    """How often something was the same, and the names of what was not."""

    def __init__(self, what: str):
        self.what, self.same = what, 0
        self.different: list[str] = []
        self.skipped: list[str] = []

    def add(self, name: str, ours: object, theirs: object) -> None:
        """Count a comparison."""
        if ours == theirs:
            self.same += 1
        else:
            self.different.append(name)

    def __str__(self) -> str:
        lines = [f"{self.what}: {self.same} byte-identical, {len(self.different)} different"]
        lines[0] += f", {len(self.skipped)} that MXNet does not take" if self.skipped else ""
        return "\n".join([*lines, *(f"  DIFFERENT {name}" for name in self.different[:20])])


def resaved(what: str, texts: Iterator[tuple[str, str]]) -> Tally:
    """Our symbol files, through MXNet."""
    tally = Tally(what)
    for name, text in texts:
        try:
            theirs = mx.sym.load_json(text).tojson()
        except mx.MXNetError as error:
            tally.skipped.append(f"{name}: {str(error).strip().splitlines()[-1]}")
            continue
        tally.add(name, text, theirs)
    return tally


def composed() -> Tally:
    """Every case, composed by MXNet and by us."""
    tally = Tally("cases composed by both")
    for _, case in all_cases():
        if case.op.startswith(NOT_IN_FILES) or case.id in OTHERWISE:
            continue
        try:
            theirs = _composed_by_mxnet(case)
        except (mx.MXNetError, AttributeError, TypeError, ValueError) as error:
            tally.skipped.append(f"{case.id}: {error}")
            continue
        tally.add(case.id, build(case).tojson(), theirs)
    return tally


def _composed_by_mxnet(case: Case) -> str:
    mx.AttrScope._subgraph_names.clear()  # or the names of loops count on from case to case
    with mx.name.NameManager():
        return compose(case, [mx.sym.Variable(f"in{i}") for i in range(len(case.inputs))]).tojson()


# -- random graphs ---------------------------------------------------------------------------------------------------

Maker = Callable[[np.random.RandomState, list[Any]], Any]

UNARY = ("relu", "sigmoid", "exp", "sqrt", "Flatten", "BlockGrad", "softmax", "negative", "make_loss", "identity")
BINARY = ("elemwise_add", "broadcast_mul", "broadcast_maximum", "dot", "elemwise_sub", "broadcast_power")


def _pick(rng: np.random.RandomState, pool: list[Any]) -> Any:
    return pool[rng.randint(len(pool))]


MAKERS: tuple[Maker, ...] = (
    lambda rng, pool: getattr(sym, UNARY[rng.randint(len(UNARY))])(_pick(rng, pool)),
    lambda rng, pool: getattr(sym, BINARY[rng.randint(len(BINARY))])(_pick(rng, pool), _pick(rng, pool)),
    lambda rng, pool: _pick(rng, pool) * float(rng.randint(-9, 9)) + 1.5,
    lambda rng, pool: sym.FullyConnected(
        _pick(rng, pool), num_hidden=int(rng.randint(1, 99)), no_bias=bool(rng.randint(2))
    ),
    lambda rng, pool: sym.Convolution(
        _pick(rng, pool), kernel=(3,) * int(rng.randint(1, 4)), num_filter=int(rng.randint(1, 9)), attr={"lr_mult": "2"}
    ),
    lambda rng, pool: sym.BatchNorm(_pick(rng, pool), fix_gamma=bool(rng.randint(2)), eps=float(rng.rand())),
    lambda rng, pool: sym.Pooling(_pick(rng, pool), kernel=(2, 2), pool_type=("max", "avg", "sum")[rng.randint(3)]),
    lambda rng, pool: sym.Concat(*(_pick(rng, pool) for _ in range(rng.randint(1, 14))), dim=int(rng.randint(3))),
    lambda rng, pool: sym.SliceChannel(_pick(rng, pool), num_outputs=int(rng.randint(2, 12)))[1],
    lambda rng, pool: sym.Reshape(_pick(rng, pool), shape=tuple(int(n) for n in rng.randint(0, 9, rng.randint(1, 6)))),
    lambda rng, pool: sym.mean(_pick(rng, pool), axis=(None, 1, (0, 2))[rng.randint(3)], keepdims=True),
    lambda rng, pool: sym.LeakyReLU(_pick(rng, pool), act_type=("prelu", "leaky", "elu")[rng.randint(3)]),
    lambda rng, pool: sym.Dropout(_pick(rng, pool), p=float(rng.rand()), axes=(0, 1)),
    lambda rng, pool: sym.RNN(_pick(rng, pool), state_size=4, num_layers=2, mode="lstm", state_outputs=True)[1],
    lambda rng, pool: sym.LayerNorm(_pick(rng, pool), axis=-1),
    lambda rng, pool: sym.topk(_pick(rng, pool), k=3, ret_typ="both")[1],
    lambda rng, pool: sym.contrib.foreach(lambda x, s: (x + s, s * x), _pick(rng, pool), _pick(rng, pool))[0],
    lambda rng, pool: sym.SoftmaxOutput(
        _pick(rng, pool), grad_scale=float(rng.rand()), name=f"softmax ü{rng.randint(3)}"
    ),
    lambda rng, pool: sym.Variable(
        f'v"{rng.randint(50)}\\\n', shape=(0, 3), lr_mult=0.5, dtype="float32", init="zeros", __mood__="angry"
    ),
)


def random_graphs(count: int) -> Iterator[tuple[str, str]]:
    """Graphs of 1 to 60 nodes, with shared parts, several heads, odd names, hidden attributes, subgraphs."""
    for seed in range(count):
        rng = np.random.RandomState(seed)
        with sym.NameManager():
            pool: list[Any] = [sym.Variable(name) for name in "abc"]
            for _ in range(rng.randint(1, 60)):
                with sym.AttrScope(**({"ctx_group": f"dev{rng.randint(3)}"} if rng.randint(4) == 0 else {})):
                    pool.append(MAKERS[rng.randint(len(MAKERS))](rng, pool))
            heads = [pool[-1], *(_pick(rng, pool) for _ in range(rng.randint(4)))]
        yield f"random graph {seed}", sym.Group(heads).tojson()


# -- arrays ----------------------------------------------------------------------------------------------------------


def random_arrays(rng: np.random.RandomState) -> dict[str, Any]:
    """Arrays of every dtype of MXNet 1.x and both sparse storages."""
    found: dict[str, Any] = {}
    for i in range(rng.randint(1, 12)):
        dtype = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")[rng.randint(8)]
        shape = tuple(int(n) for n in rng.randint(1, 6, rng.randint(1, 6)))
        found[f"{('arg:', 'aux:', '')[rng.randint(3)]}ü{i}"] = mx.nd.array(rng.randint(0, 9, shape), dtype=dtype)
    dense = mx.nd.array(rng.rand(5, 4) * (rng.rand(5, 1) > 0.5) * (rng.rand(5, 4) > 0.3))
    return found | {"rows": dense.tostype("row_sparse"), "csr": dense.tostype("csr")}


def arrays(count: int) -> Tally:
    """Array files: MXNet's through us, and ours through MXNet."""
    tally = Tally("array files, each way")
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours, again = (Path(folder) / name for name in ("theirs", "ours", "again"))
        for seed in range(count):
            made = random_arrays(np.random.RandomState(seed))
            mx.nd.waitall()  # or it saves storage shapes that are not known yet
            mx.nd.save(str(theirs), made)
            nn.save_arrays(ours, nn.load_arrays(theirs))
            tally.add(f"arrays {seed}, through us", theirs.read_bytes(), ours.read_bytes())
            loaded = mx.nd.load(str(ours))
            mx.nd.waitall()
            mx.nd.save(str(again), loaded)
            tally.add(f"arrays {seed}, through MXNet", ours.read_bytes(), again.read_bytes())
    return tally


# -- Gluon's model zoo -----------------------------------------------------------------------------------------------


def zoo(names: list[str]) -> Tally:
    """Structural names of real models, matched to their exports; every array has values of its own."""
    tally = Tally("model zoo arrays matched by structure")
    for name in names:
        net = mx.gluon.model_zoo.vision.get_model(name)
        net.initialize()
        net.hybridize()
        size = 299 if "inception" in name else 224
        net(mx.nd.zeros((1, 3, size, size)))
        for value in net.collect_params().values():
            value.set_data(mx.nd.random.normal(shape=value.shape))
        with tempfile.TemporaryDirectory() as folder:
            prefix = Path(folder) / name
            net.export(str(prefix))
            net.save_parameters(f"{prefix}.params")
            symbol, args, aux = nn.load_checkpoint(prefix, 0)
            structural = nn.load_arrays(f"{prefix}.params")
            assert isinstance(structural, dict)
            match = nn.match_params(symbol, structural, {"data": (1, 3, size, size)})
            found = match.args | match.aux
            for parameter, value in (args | aux).items():
                tally.add(f"{name} {parameter}", True, parameter in found and np.array_equal(found[parameter], value))
    return tally


def main() -> int:
    """Run every comparison; returns 1 when something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--zoo", nargs="*", default=["resnet18_v1", "resnet50_v2", "mobilenetv2_0.25", "densenet121"])
    chosen = parser.parse_args()
    networks = [path.name.removesuffix("-symbol.json") for path in sorted(HERE.glob("*-symbol.json"))]
    tallies = (
        resaved("cases", ((c.id, build(c).tojson()) for _, c in all_cases() if not c.op.startswith(NOT_IN_FILES))),
        composed(),
        resaved("networks", ((n, sym.load(HERE / f"{n}-symbol.json").tojson()) for n in networks)),
        resaved("random graphs", random_graphs(chosen.graphs)),
        arrays(200),
        zoo(chosen.zoo),
    )
    for tally in tallies:
        print(tally)
    return int(any(tally.different for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
