"""The site's source: every public name and operator is on it, every page in its navigation. `.ci/run` builds it."""

import builtins
import inspect
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lowering
import symjax_nnvm
from docs.tools import draw_pictures
from docs.tools.generate import TARGETS, by_family
from docs.web import operator_pages, reference_pages, staging
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FDeviation, FGradient, FInferShape
from symjax_nnvm.ir.op import Op
from symjax_nnvm.symbol.namespaces import Namespace
from tests.support.pages import ROOT, text_of

GROUPS, CASES = by_family()


def offered(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Public names of a module that say what they hand on: those of `__all__`, else those imported as themselves."""
    names = getattr(module, "__all__", None) or [
        line.rsplit(" ", 1)[-1]
        for line in Path(str(module.__file__)).read_text(encoding="utf-8").splitlines()
        if line.startswith("from ") and " as " in line
    ]
    for name in names:
        value = getattr(module, name)
        if not isinstance(value, types.ModuleType):
            yield f"{module.__name__}.{name}", value


def functions_of_namespaces() -> Iterator[tuple[str, Any]]:
    for name, space in vars(sym).items():
        if isinstance(space, Namespace):
            yield from ((f"sym.{name}.{key}", function) for key, function in space.functions.items())


def test_every_public_name_is_in_the_reference():
    listed = [name for names in reference_pages.parts().values() for name in names]
    documented = [id(reference_pages.found(name)) for name in listed]
    modules = [symjax_nnvm, sym, lowering, lowering.training, lowering.initializer]
    public = [item for module in modules for item in offered(module)] + list(functions_of_namespaces())
    metrics = vars(lowering.training.metrics).items()
    own = [(name, value) for name, value in metrics if getattr(value, "__module__", "").endswith(".metrics")]
    public += [(f"metrics.{name}", value) for name, value in own if not name.startswith("_")]
    assert len(public) > 150
    assert sorted({name for name, value in public if id(value) not in documented}) == []
    assert len(set(listed)) == len(listed)
    assert [name for name in listed if not reference_pages.found(name).__doc__] == []


def documented() -> Iterator[tuple[str, Any]]:
    """Functions, classes and methods of the reference, by name."""
    for name in [name for names in reference_pages.parts().values() for name in names]:
        value = inspect.unwrap(reference_pages.found(name))
        yield name, value
        for key, member in vars(value).items() if inspect.isclass(value) else ():
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and not key.startswith("_"):
                yield f"{name}.{key}", inspect.unwrap(function)


def listed_in(value: Any, section: str) -> list[str]:
    """Return the names that a list of a docstring explains."""
    entries = re.search(rf"^{section}:\n((?: {{4}}.*\n?)+)", inspect.cleandoc(value.__doc__ or ""), re.MULTILINE)
    return re.findall(r"^ {4}(\w+):", entries[1], re.MULTILINE) if entries else []


def exceptions() -> set[str]:
    """Names of the exceptions of Python's and of ours."""
    ours = [module for name, module in sys.modules.items() if name.startswith(("lowering", "symjax_nnvm"))]
    values = [value for module in (builtins, *ours) for value in vars(module).items()]
    return {name for name, value in values if inspect.isclass(value) and issubclass(value, BaseException)}


def test_lists_of_arguments_have_every_parameter_and_lists_of_errors_exceptions():
    checked, errors = 0, exceptions()
    for name, value in documented():
        if arguments := listed_in(value, "Args"):
            assert arguments == [key for key in inspect.signature(value).parameters if key not in ("self", "cls")], name
            checked += 1
        assert set(listed_in(value, "Raises")) <= errors, name
    assert checked > 450


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return operator_pages.pages()


@pytest.mark.slow("writes the pages")
def test_what_the_search_raises_and_lowers_is_on_the_site():
    script = (ROOT / "docs" / "web" / "search_scores.js").read_text(encoding="utf-8")
    folders = re.findall(r'startsWith\("([^"]+)/"\)', script)
    pages = re.findall(r'"([^"]+)"', script[script.index('["') : script.index("].includes")])
    assert folders == ["reference/operators", "reference/api"]
    assert pages == ["reference/changelog", "reference/history", "reference/benchmarks"]
    assert all(operator_pages.path_of(op).startswith(f"{folders[0]}/") for members in GROUPS.values() for op in members)
    assert all(name.startswith(f"{folders[1]}/") for name in reference_pages.pages())
    assert set(pages) <= staging.pages().keys()


def page_of(name: str) -> str:
    return operator_pages.page(Op.get(name), CASES.get(Op.get(name), []))


@pytest.mark.nightly("writes every page, as the site's build does")
def test_every_operator_has_a_page(texts: dict[str, str]):
    ops = [op for members in GROUPS.values() for op in members]
    assert len(ops) > 350
    for op in ops:
        assert f"\n# `{operator_pages.function(op)}`\n" in texts[operator_pages.path_of(op)]
    assert len({path.lower() for path in texts}) == len(texts) == len(ops) + len(GROUPS)
    assert f"](/{operator_pages.path_of(Op.get('Convolution'))}.md)" in texts["reference/operators/nn/convolution"]


@pytest.mark.slow("compiles")
def test_a_page_tells_what_the_card_says():
    text = page_of("FullyConnected")
    for part in (
        "# `sym.FullyConnected`\n\nY = X Wᵀ + b: a dense layer.", "```\nY = X Wᵀ + b\ndX = dY W, dW = dYᵀ X, db = ",
        "num_hidden: int,", "| `flatten` | boolean, optional, default=True |", "weight (h, d)",
        "print(out.infer_shape(data=(4, 5), weight=(3, 5), bias=(3,))[1])\n", "[(4, 3)]\n", "dot(%4, %weight)",
        "`_npx_fully_connected`",
    ):  # fmt: skip
        assert part in text
    for op in [op for members in GROUPS.values() for op in members][::8]:
        text = page_of(op.name)
        assert operator_pages.plain(op.description) in text or f"```\n{op.description.removesuffix('.')}\n" in text
        assert ("- **Unlike MXNet" in text) == (op in FDeviation)
        assert ("**Shapes.**" in text) or not FInferShape.get(op) or not FInferShape[op].__doc__
        assert "- **Gradient.** None" not in text or op not in FGradient


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("relu", ["max(x, 0)"]),
        ("broadcast_hypot", ["√(lhs² + rhs²)"]),
        ("_contrib_quadratic", ["a·data² + b·data + c", "dX = dY (2 a X + b)"]),
        ("where", ["dX = dZ where the condition holds, dY = dZ elsewhere"]),
        ("_contrib_MultiBoxTarget", []),  # prose
        ("Flatten", ["dX = dY in the shape of X"]),  # (n, …) → (n, d) are shapes
    ],
)
def test_formulas_are_told_from_prose(name: str, found: list[str]):
    assert operator_pages.formulas(Op.get(name)) == found


def test_related_operators_are_linked():
    convolution, relu = page_of("Convolution"), page_of("relu")
    assert "- `_backward_Convolution_weight`, of its gradient: The adjoint of Convolution" in convolution
    assert (
        "- Similar names: [`sym.Convolution_v1`](/reference/operators/nn/convolution_v1/Convolution_v1.md)"
        in convolution
    )
    assert "- Its gradient is written with [`sym.elemwise_mul`]" in relu
    assert "- Mentioned above: [`sym.SoftmaxOutput`]" in page_of("SoftmaxActivation")
    assert "- Similar names: [`sym._div_scalar`]" in page_of("elemwise_div")
    assert "- Family [elementwise/unary](/reference/operators/elementwise/unary.md)." in relu


def test_the_names_that_people_know():
    known = {
        "dot": {"dot", "mx.sym.dot", "mx.nd.dot", "matmul"},
        "Convolution": {"convolution", "conv2d", "mx.sym.convolution", "npx.convolution"},
        "BatchNorm": {"batchnorm", "batch_norm", "mx.npx.batch_norm", "bn"},
        "FullyConnected": {"fc", "dense"},
        "LeakyReLU": {"gelu", "prelu"},
        "Pooling": {"max_pool", "maxpool", "max_pool_2d", "maxpool2d"},
        "clip": {"relu6"},
        "softmax_cross_entropy": {"softmax_cross_entropy", "crossentropyloss"},
        "RNN": {"lstm", "gru"},
        "_contrib_box_nms": {"box_nms", "boxnms", "_contrib_box_nms", "mx.sym.contrib.box_nms"},
        "elemwise_add": {"add", "_plus", "sym.elemwise_add"},
    }
    for name, names in known.items():
        assert names <= set(operator_pages.known_names(Op.get(name)))
    for op in [op for members in GROUPS.values() for op in members]:
        names = {operator_pages.function(op), op.name, *op.aliases}
        assert {name.lower() for name in names} <= set(operator_pages.known_names(op))


@pytest.mark.slow("starts processes")
def test_the_search_has_these_names(tmp_path: Path):
    pytest.importorskip("sphinx_copybutton", reason="the extra `docs` is not installed")
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "_static").mkdir(parents=True)
    (source / "index.md").write_text("# Two operators\n")
    for name in ("dot", "Convolution"):
        (source / f"{name}.md").write_text(page_of(name))
    command = [sys.executable, "-m", "sphinx", "-Q", "-c", str(ROOT / "docs" / "web"), str(source), str(target)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=120)
    text = (target / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    for query, page in {"mx.sym.dot": "dot", "conv2d": "Convolution", "convolution": "Convolution"}.items():
        assert [index["docnames"][number] for number, *_ in index["indexentries"][query]] == [page]


def test_what_a_page_calls_an_operator_does_not_depend_on_earlier_calls():
    """`sym` keeps the functions that it has made."""
    assert callable(sym.elemwise_add)
    assert operator_pages.function(Op.get("elemwise_add")) == "sym.elemwise_add"
    assert operator_pages.function(Op.get("_split_v2")) == "sym._split_v2"  # `sym.split_v2` is written out


def test_examples_name_functions_of_the_operator():
    """They have run when the sections were written; here, that the name is the operator's and most have one."""
    examples = {op: operator_pages.example(op, cases) for op, cases in CASES.items()}
    assert sum(map(bool, examples.values())) > 0.95 * len(examples)
    for op in [op for members in GROUPS.values() for op in members]:
        path = operator_pages.function(op).split(".")[1:]
        value: Any = sym
        for part in path:
            value = getattr(value, part)
        assert Op.get(f"_{path[0]}_{path[1]}" if len(path) > 1 else path[0]) is op
        assert callable(value)


def test_signs_of_markdown_in_our_texts_mean_nothing():
    assert operator_pages.plain("x_i * [y] | <z> `a|b_c`") == r"x\_i \* \[y\] \| \<z\> `a\|b_c`"


# -- pages -------------------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation():
    """Every name in the list is a page, too."""
    groups = staging.navigation()
    assert list(groups) == ["Tutorial", "Guide", "Reference", "Internals"]
    assert sorted([name for names in groups.values() for name in names]) == sorted(staging.pages().keys() - {"index"})


def test_a_new_page_comes_last_in_its_group(monkeypatch: pytest.MonkeyPatch):
    pages = staging.pages()
    monkeypatch.setattr(staging, "pages", lambda: {**pages, "guide/a_page": ROOT / "docs" / "guide" / "a_page.md"})
    assert staging.navigation()["Guide"][-1] == "guide/a_page"


def test_links_lead_to_pages_and_files_of_the_site(tmp_path: Path):
    texts = {name: staging.linked(name, source, tmp_path) for name, source in staging.pages().items()}
    assert "](architecture.md)" in texts["internals/contributing"]
    assert "](internals/contributing.md)" in texts["index"]
    assert "](../internals/contributing.md)" in texts["guide/onnx"]
    assert "](../files/docs/pictures/loop.svg)" in texts["tutorial/gallery"]
    assert (tmp_path / "files" / "docs" / "pictures" / "loop.svg").is_file()


def test_the_front_page_begins_as_the_readme_does():
    """For whom and why, the one line to change, what was tried, the speed; and the two commands of a newcomer."""
    head = text_of("README.md").partition("## Begin")[0]
    assert text_of("docs/index.md").startswith(head.replace("](docs/", "]("))
    assert head.index("from lowering import mx") < 500 < head.index("Does it work?") < head.index("![")
    commands = [line for line in text_of("README.md").splitlines() if line.startswith("    python3 -m venv")]
    assert len(commands) == 2
    assert [command for command in commands if command not in text_of("docs/index.md").splitlines()] == []


@pytest.mark.parametrize("name", draw_pictures.PICTURES)
def test_a_picture_is_what_would_be_drawn_now(name: str):
    text = (draw_pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert text == draw_pictures.drawn(name).svg(), "run python docs/tools/draw_pictures.py"
    assert len(text) < 80_000


def test_the_benchmarks_begin_with_the_chart_of_their_table():
    first = text_of("docs/reference/benchmarks.md").split("\n\n")[1]
    assert re.fullmatch(r"!\[.*\]\(\.\./pictures/zoo\.svg\)", first)
    assert "docs/pictures/zoo.svg" in TARGETS


def test_every_picture_is_drawn_by_a_script_and_shown():
    texts = [source.read_text(encoding="utf-8") for source in staging.pages().values()]
    shown = {target for text in texts for target in re.findall(r"\]\([./]*pictures/(\w+)\.svg\)", text)}
    charts = {Path(target).stem for target in TARGETS if target.endswith(".svg")} | {"scaling", "training_parity"}
    assert shown == draw_pictures.PICTURES.keys() | charts == {path.stem for path in draw_pictures.FOLDER.iterdir()}
