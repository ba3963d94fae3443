"""What notebooks show: tables and curves that are well-formed, whatever names a file has; signatures by name."""

import inspect
import math
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

import lowering
import symjax_nnvm as nn
from lowering.training.curves import curves_svg
from lowering.training.diagnosis import Diagnosis
from lowering.training.history import EpochRecord, History
from lowering.verify.reports import GradientReport, GradientRow
from symjax_nnvm import symbol as sym
from symjax_nnvm.drawing.page import in_page, scrolling
from symjax_nnvm.ir.op import Op, list_all_names
from symjax_nnvm.symbol.operator_functions import function_named
from symjax_nnvm.tables import table_html
from tests.lowering.training.networks import classifier

NET = classifier()
HOSTILE = sym.relu(sym.Variable("<script>alert(1)</script>\x1b"), name="<b>&")


class Tags(HTMLParser):
    """The tags that are open after a text, and all texts."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        if tag not in ("rect", "circle", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


HISTORY = History(
    [
        EpochRecord(0, 4, 0.5, {"loss": 2.0, "accuracy": 0.5}, {"loss": 2.5}),
        EpochRecord(1, 4, 0.5, {"loss": math.nan, "accuracy": 0.7}, {"loss": 1.5}),
        EpochRecord(2, 4, 0.5, {"loss": 1.0, "accuracy": 0.8}),
    ]
)

CURVES = curves_svg("loss", {"training": [3.0, 2.0, 1.0], "validation": [2.0] * 3})

SHOWN: dict[str, tuple[Any, list[str]]] = {
    "symbol": (NET, ["fc1", "FullyConnected", "data, fc1_weight, fc1_bias"]),
    "hostile names": (HOSTILE, ["<b>&", r"<script>alert(1)</script>\x1b"]),
    "hostile summary": (nn.summarize(HOSTILE), ["<b>&"]),
    "summary": (nn.summarize(NET, {"data": (4, 3)}), ["(4, 5)", "FullyConnected", "20"]),
    "model": (nn.Model(NET), ["fc2", "SoftmaxOutput"]),
    "check": (nn.check(HOSTILE, {nn.Model(HOSTILE).inputs[0]: (2,)}), ["cost", "note"]),
    "gradients": (
        GradientReport((GradientRow("fc1_weight", (5, 3), 1.0, 0.0, 0.0, None, None, True),), 1e-9, 1e-5),
        ["fc1_weight", "agrees"],
    ),
    "trainer": (
        lowering.Trainer(NET),
        [
            "4: fc1_weight, fc1_bias, fc2_weight, fc2_bias",
            "data, softmax_label",
            "sgd: learning_rate 0.01, momentum 0.0",
        ],
    ),
    "stages": (lowering.explain(NET, data=(4, 3)), ["SimplifyInference", "lowered to 4 steps of one JAX function"]),
    "plan": (lowering.explain(NET).plan, ["SimplifyInference", "stage"]),
    "cost": (nn.estimate(NET, {"data": (4, 3)}), ["arithmetic: 288 FLOPs, 140 FLOPs of it in node 'fc1'"]),
    "match": (nn.match_params(NET, {"fc1_weight": [[1.0]]}), ["inputs: data, softmax_label"]),
    "diagnosis": (Diagnosis(()), [str(Diagnosis(()))]),
    "history": (HISTORY, ["loss", "validation", "0.8", "epoch 2"]),
    "no history": (History(), ["epoch"]),
}


@pytest.mark.parametrize("what", SHOWN)
def test_what_is_shown_is_whole_and_says_what_it_is(what: str):
    value, texts = SHOWN[what]
    found = Tags(value._repr_html_())
    assert found.open == []
    assert [text for text in texts if text not in found.texts] == []
    assert not {"script", "b"} & found.seen


def test_a_check_says_the_same_as_in_print():
    texts = Tags(nn.check(NET)._repr_html_()).texts
    assert str(nn.check(NET)).splitlines()[0] in texts


def test_a_large_symbol_is_shown_in_part():
    net = sym.Variable("x")
    for _ in range(1000):
        net = sym.relu(net)
    text = net._repr_html_()
    assert text.count("<tr>") == 61
    assert "1,000 operators; the first 60 are shown" in text
    assert "× 1000" in text  # it is drawn all the same: as one block


def test_small_networks_are_shown_as_drawings_and_large_ones_as_tables():
    for value in (NET, nn.Model(NET)):
        text = value._repr_html_()
        assert text.startswith("<div")
        assert text.index("<svg") < text.index("<details>") < text.index("<table>")
    assert nn.Model(NET)._repr_html_() == nn.Model(NET).plot().above(table_of(nn.Model(NET)._repr_html_()))
    many = sym.Variable("x")
    for i in range(310):
        many = many + i
    folded = many._repr_html_()
    assert "<svg" not in folded
    table = folded[folded.index("<table>") : folded.index("</table>")]
    assert folded.startswith(scrolling(f"{table}</table>"))
    assert sym.Variable("x")._repr_html_().startswith("<table>")
    assert sym.Group([sym.Variable("x"), sym.Variable("y")])._repr_html_().startswith("<table>")


def test_a_picture_stays_one_where_output_is_not_trusted():
    """A front end then keeps `div` and `img` with inline styles, drops `style`, and of an `svg` leaves the texts."""
    plot = nn.plot_network(NET, {"data": (4, 3)})
    for html, svg in ((plot._repr_mimebundle_()["text/html"], plot.svg()), (in_page(CURVES), CURVES)):
        root = ElementTree.fromstring(html if html.startswith("<div") else f"<div>{html}</div>")
        (style,), (image,) = root.findall("style"), root.findall("img")
        (hidden,) = root.findall("div[@style='display:none']")
        assert f".{hidden.attrib['class']}{{display:inline-block!important}}" in (style.text or "")
        assert "".join(root.itertext()) == (style.text or "") + "".join(hidden.itertext())  # no text but in these
        kind, _, data = image.attrib["src"].partition(",")
        assert kind == "data:image/svg+xml;base64"
        shown = ElementTree.fromstring(b64decode(data))
        tags = [element.tag for element in ElementTree.fromstring(svg).iter() if not element.tag.endswith("}title")]
        assert [element.tag for element in shown.iter()] == tags


def test_what_is_drawn_has_its_own_size_and_is_read_on_black_and_on_white():
    """Front ends shrink what is wider than a cell until it cannot be read; themes are dark or light."""
    assert "max-width:none" in in_page(CURVES)
    drawn = [element.attrib for element in ElementTree.fromstring(CURVES).iter()]
    for colour in {look[key] for look in drawn for key in ("stroke", "fill") if key in look} - {"none"}:
        assert min(contrast(colour, "#ffffff"), contrast(colour, "#111111")) > 2.7, colour


def contrast(a: str, b: str) -> float:
    """The ratio of two colours' luminances, as WCAG 2 has it."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        shares = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_long_tables_scroll_and_short_cells_are_whole():
    short = table_html(("a", "b"), [("(1, 3, 224, 224)", "word " * 20)] * 24)
    assert short.startswith("<table>")
    assert short.count("white-space:nowrap") == 2 + 24
    assert short.count("min-width:20em") == 24
    assert table_html(("a",), [("x",)] * 25).startswith('<div style="overflow:auto;max-height:60em"><table>')


def test_a_report_has_no_empty_columns():
    assert "what to do" not in Tags(nn.check(NET)._repr_html_()).texts
    assert (
        "what to do"
        in Tags(nn.check(sym.CTCLoss(sym.Variable("x"), sym.Variable("y")), target="onnx")._repr_html_()).texts
    )


def table_of(html: str) -> str:
    return html[html.index("<table>") : html.index("</details>")]


def test_drawings_say_all_of_a_node_to_who_points_at_it():
    root = ElementTree.fromstring(nn.plot_network(NET, {"data": (4, 3)}).svg())
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert (titles[0], root.attrib["role"]) == ("plot", "img")
    said = next(title for title in titles if title and title.startswith("FullyConnected fc1\n"))
    assert {"num_hidden = 5", "← data 4×3", "← fc1_weight 5×3", "→ 4×5"} <= set(said.split("\n"))


def test_curves_have_gaps_where_numbers_are_not_finite():
    root = ElementTree.fromstring(
        curves_svg("loss <", {"training": [3.0, 2.0, math.inf, 1.0], "validation": [2.0] * 4})
    )
    paths = [path.attrib["d"] for path in root.iter("{http://www.w3.org/2000/svg}path")]
    assert [(d.count("M"), d.count("L")) for d in paths] == [(2, 1), (1, 3)]
    assert paths[0].startswith("M62.0 26.0L146.0 100.0M314.0 174.0")
    assert ElementTree.fromstring(curves_svg("none", {})) is not None
    assert ElementTree.fromstring(curves_svg("one", {"training": [1.0]})) is not None


def test_signatures_have_the_real_names():
    signature = inspect.signature(sym.Convolution)
    assert list(signature.parameters)[:4] == ["data", "weight", "bias", "kernel"]
    assert signature.parameters["kernel"].default is inspect.Parameter.empty
    assert signature.parameters["no_bias"].default is False
    assert signature.return_annotation is nn.Symbol
    assert inspect.signature(sym.concat).parameters["data"].kind is inspect.Parameter.VAR_POSITIONAL
    assert (
        "lhs" in inspect.signature(sym.linalg.gemm2).parameters or "A" in inspect.signature(sym.linalg.gemm2).parameters
    )


@pytest.mark.slow("reads the whole project")
def test_every_operator_has_a_signature_with_its_inputs_and_parameters():
    for name in list_all_names():
        op, found = Op.get(name), inspect.signature(function_named(name)).parameters
        missing = {*op.inputs, *(op.params.fields if op.params is not None else ())} - set(found) - {"name"}
        assert not missing, f"{name}: {missing}"
