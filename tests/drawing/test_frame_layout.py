"""Drawings of random graphs: no boxes overlap, arrows go down to their boxes and through none, frames hold theirs."""

import random
import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations, pairwise

import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.drawing.description import Arrow, Border, Box, Drawing
from symjax_nnvm.drawing.dot import dot_text
from symjax_nnvm.drawing.frame_layout import FrameLayout, Rectangle, lay_out
from symjax_nnvm.drawing.long_arrows import uncrowded
from symjax_nnvm.drawing.ranks import ranks
from symjax_nnvm.drawing.rows import RowPiece
from symjax_nnvm.drawing.svg import svg_text
from symjax_nnvm.drawing.text_width import shortened, text_width
from symjax_nnvm.errors import GraphError


def random_drawing(seed: int) -> Drawing:
    """Up to 40 boxes of several sizes in up to 5 nested frames, each a stretch of the order that arrows keep."""
    rng = random.Random(seed)
    count = rng.randrange(1, 40)
    frames: list[Border] = []
    stretches: list[tuple[int, int]] = []
    for _ in range(rng.randrange(6)):
        start = rng.randrange(count)
        stretch = start, rng.randrange(start, count) + 1
        around = [n for n, (a, b) in enumerate(stretches) if a <= stretch[0] and stretch[1] <= b]
        crosses = any(a < stretch[1] and stretch[0] < b and n not in around for n, (a, b) in enumerate(stretches))
        if not crosses and all(stretches[n] != stretch for n in around):
            parent = min(around, key=lambda n: stretches[n][1] - stretches[n][0], default=None)
            frames.append(Border(("a label of a frame",) * rng.randrange(3), parent))
            stretches.append(stretch)

    def frame_of(i: int) -> int | None:
        inside = [n for n, (a, b) in enumerate(stretches) if a <= i < b]
        return min(inside, key=lambda n: stretches[n][1] - stretches[n][0], default=None)

    boxes = []
    for i in range(count):
        lines = tuple("w" * rng.randrange(1, 20) for _ in range(rng.randrange(1, 4)))
        boxes.append(Box(f"n{i}", lines, "#ffffff", "", rng.random() < 0.2, rng.random() < 0.2, frame_of(i)))
    arrows = []
    for i in range(1, count):
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            source = i - 1 - min(int(rng.expovariate(0.4)), i - 1)
            arrows.append(Arrow(f"n{source}", f"n{i}", rng.choice(["", "", "1×64×7×7", "2"]), rng.random() < 0.1))
    return Drawing("random", tuple(boxes), tuple(frames), tuple(arrows))


def overlap(a: Rectangle, b: Rectangle) -> bool:
    across = min(a.left + a.width, b.left + b.width) - max(a.left, b.left)
    down = min(a.top + a.height, b.top + b.height) - max(a.top, b.top)
    return across > 1e-6 and down > 1e-6


def within(inner: Rectangle, outer: Rectangle) -> bool:
    right, bottom = inner.left + inner.width, inner.top + inner.height
    at_left, at_top = outer.left <= inner.left + 1e-6, outer.top <= inner.top + 1e-6
    return at_left and at_top and right <= outer.left + outer.width + 1e-6 and bottom <= outer.top + outer.height + 1e-6


def points(piece: RowPiece) -> list[tuple[float, float]]:
    """Points along a piece of a line."""
    found = [(piece.x1, piece.y1 + (piece.y2 - piece.y1) * t / 2) for t in range(3)]
    for t in (0.25, 0.5, 0.75):
        ease = 3 * t * t * (1 - t) + t**3  # of a cubic whose inner points are above and below its ends
        y = (1 - t) ** 3 * piece.y2 + t**3 * piece.y3 + 3 * t * (1 - t) * (piece.y2 + piece.y3) / 2
        found.append((piece.x1 + (piece.x2 - piece.x1) * ease, y))
    return found + [(piece.x2, piece.y3 + (piece.y4 - piece.y3) * t / 2) for t in range(3)]


def rounded(x: float, y: float) -> tuple[float, float]:
    """As `svg.py` rounds: halves of a thousandth are common, and must not be where the rounding divides."""
    return round(x + 1e-6, 3), round(y + 1e-6, 3)


def reached(layout: FrameLayout, dashed: bool) -> dict[tuple[float, float], set[tuple[float, float]]]:
    """Where lines lead from each of their points, one piece on; a branch begins on a piece's straight end."""
    pieces = [piece for style, line in layout.lines if style == dashed for piece in line]
    leads = defaultdict(set)
    for piece in pieces:
        end = rounded(piece.x2, piece.y4)
        leads[rounded(piece.x1, piece.y1)].add(end)
        leads[rounded(piece.x1, piece.y2)].add(end)
        leads[rounded(piece.x1, piece.y1)].add(rounded(piece.x1, piece.y2))
    return leads


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("seed", range(25))
def test_a_layout_is_in_order(seed: int):
    drawing = random_drawing(seed)
    layout = lay_out(drawing)
    assert layout.boxes.keys() == {box.key for box in drawing.boxes}
    whole = Rectangle(0, 0, layout.width, layout.height)
    assert all(within(r, whole) for r in (*layout.boxes.values(), *layout.frames.values()))
    assert [(a, b) for a, b in combinations(layout.boxes, 2) if overlap(layout.boxes[a], layout.boxes[b])] == []
    ancestors: dict[int | None, set[int]] = {None: set()}
    for number, frame in enumerate(drawing.frames):
        ancestors[number] = {number} | ancestors[frame.parent]
        assert frame.parent is None or within(layout.frames[number], layout.frames[frame.parent])
    for box in drawing.boxes:
        for number, rectangle in layout.frames.items():
            inside = number in ancestors[box.frame]
            assert within(layout.boxes[box.key], rectangle) == overlap(layout.boxes[box.key], rectangle) == inside
    for a, b in combinations(layout.frames, 2):
        assert overlap(layout.frames[a], layout.frames[b]) == (a in ancestors[b] or b in ancestors[a])


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("seed", range(25))
def test_arrows_go_down_to_their_boxes_and_through_none(seed: int):
    drawing = random_drawing(seed)
    layout = lay_out(drawing)
    inner = [Rectangle(r.left + 1, r.top + 1, r.width - 2, r.height - 2) for r in layout.boxes.values()]
    for _, line in layout.lines:
        for piece in line:
            assert piece.y1 <= piece.y2 + 1e-6 <= piece.y3 + 2e-6 <= piece.y4 + 3e-6
            for x, y in points(piece):
                assert not any(r.left < x < r.left + r.width and r.top < y < r.top + r.height for r in inner)
    leads = {dashed: reached(layout, dashed) for dashed in (False, True)}
    for arrow in drawing.arrows:
        source, target = layout.boxes[arrow.source], layout.boxes[arrow.target]
        below = source.top + source.height
        assert below < target.top
        ring = 3.0 * next(box.head for box in drawing.boxes if box.key == arrow.target)
        goal = rounded(target.left + target.width / 2, target.top - ring)
        starts = [p for p in leads[arrow.dashed] if source.left <= p[0] <= source.left + source.width]
        seen = {p for p in starts if below - 0.01 <= p[1] <= below + 3.01}
        pending = list(seen)
        while pending:
            new = leads[arrow.dashed].get(pending.pop(), set()) - seen
            seen |= new
            pending += new
        assert goal in seen
        assert any(abs(x - goal[0]) < 0.01 and abs(y - goal[1]) < 0.01 for x, y in layout.tips)


def test_a_drawing_is_the_same_every_time():
    drawing = random_drawing(7)
    assert svg_text(drawing) == svg_text(random_drawing(7))
    assert dot_text(drawing) == dot_text(random_drawing(7))


def backwards(layers: int, reach: int) -> Drawing:
    """A chain down, and one back up again of which each reads its counterpart, as gradients do."""
    keys = [f"n{i}" for i in range(2 * layers)]
    chain = [Arrow(a, b) for a, b in pairwise(keys)]
    kept = [Arrow(keys[i], keys[min(i + reach, 2 * layers - 1 - i)], "4") for i in range(layers - 1)]
    return Drawing("backwards", tuple(Box(key, (key,), "#ffffff") for key in keys), (), (*chain, *kept))


def test_of_many_long_arrows_each_begins_at_a_copy_of_its_sources_name():
    drawing = uncrowded(backwards(100, 200))
    new = drawing.boxes[200:]
    arrows = {(arrow.source, arrow.target, arrow.label) for arrow in drawing.arrows}
    rows = {box.key: i for i, box in enumerate(backwards(100, 200).boxes)}
    assert [box.lines for box in new] == [(f"↑ n{i}",) for i in reversed(range(92))]
    assert all((box.key, f"n{199 - i}", "4") in arrows for box, i in zip(new, reversed(range(92)), strict=True))
    assert all(rows[a.target] - rows[a.source] <= 16 for a in drawing.arrows if a.source in rows)
    assert len(drawing.arrows) == 199 + 99
    layout = lay_out(drawing)
    middles = [r.left + r.width / 2 for key, r in layout.boxes.items() if key in rows]
    assert max(middles) - min(middles) < 60  # copies stand aside: the chain goes straight down


def test_a_copy_of_a_name_serves_readers_that_are_near():
    chain = backwards(100, 200)
    near = [Arrow("n0", f"n{i}") for i in range(180, 200)]
    drawing = uncrowded(Drawing("near", chain.boxes, (), (*chain.arrows, *near)))
    copies = [box for box in drawing.boxes if box.lines == ("↑ n0",)]
    assert [sum(arrow.source == box.key for arrow in drawing.arrows) for box in copies] == [17, 4]


def test_readable_drawings_keep_their_arrows():
    for drawing in (*map(random_drawing, range(10)), backwards(100, 2), backwards(8, 200)):
        assert uncrowded(drawing) is drawing


def test_what_has_no_arrows_does_not_widen_a_drawing():
    boxes = tuple(Box(f"n{i}", ("alone",), "#ffffff") for i in range(100))
    layout = lay_out(Drawing("alone", boxes, (), ()))
    assert layout.width < 4 * 80
    assert len({r.top for r in layout.boxes.values()}) == 25


def test_labels_lie_on_nothing():
    for seed in range(20):
        layout = lay_out(random_drawing(seed))
        labels = [Rectangle(x, y - 8, text_width(text, 9.5), 9) for x, y, text in layout.labels]
        assert not any(overlap(a, b) for a, b in combinations(labels, 2))
        assert not any(overlap(label, box) for label in labels for box in layout.boxes.values())


def test_a_chain_is_straight_and_a_residual_branch_goes_beside_it():
    boxes = tuple(Box(f"n{i}", ("w" * (3 + 5 * (i % 3)),), "#fff") for i in range(9))
    arrows = (*(Arrow(f"n{i}", f"n{i + 1}") for i in range(8)), Arrow("n2", "n6"))
    layout = lay_out(Drawing("chain", boxes, (), arrows))
    middles = {round(r.left + r.width / 2, 3) for r in layout.boxes.values()}
    assert len(middles) == 1
    beside = {round(piece.x2, 3) for _, line in layout.lines for piece in line} - middles
    assert len(beside) == 1  # one straight line past three boxes
    assert not beside & {x for r in layout.boxes.values() for x in (r.left, r.left + r.width)}


def test_a_joint_stands_amid_its_branches():
    net = sym.Variable("x")
    branches = [sym.relu(net, name=f"a{i}") for i in range(4)]
    branches[0] = sym.relu(sym.relu(branches[0]))
    drawing = nn.plot_network(sym.concat(*branches, dim=1, name="joint")).drawing
    layout = lay_out(drawing)
    at = {box.lines[-1]: layout.boxes[box.key] for box in drawing.boxes}
    middle = [at[name].left + at[name].width / 2 for name in ("x", "joint")]
    ends = [r.left + r.width / 2 for name, r in at.items() if name not in ("x", "joint")]
    assert min(ends) + 20 < min(middle)
    assert max(middle) < max(ends) - 20


def test_rows():
    assert ranks(4, [(0, 1), (1, 2), (0, 2), (3, 2)]) == [0, 1, 2, 1]  # 3 is near to what reads it
    assert ranks(3, [(0, 1), (1, 2)], first=[0], last=[2]) == [0, 1, 2]
    assert ranks(3, [(0, 2)], first=[0], last=[2]) == [0, 1, 2]
    assert ranks(0, []) == []
    with pytest.raises(GraphError, match="cycle"):
        ranks(2, [(0, 1), (1, 0)])


def calls(function, *args) -> int:
    """How many of our functions a call calls: work, whatever else the machine does."""
    count = 0

    def profile(frame, event, arg):
        nonlocal count
        count += event == "call" and "drawing" in frame.f_code.co_filename

    sys.setprofile(profile)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return count


def chain_with_long_lines(count: int, reach: int) -> Drawing:
    boxes = tuple(Box(f"n{i}", ("relu",), "#fff") for i in range(count))
    near = [Arrow(f"n{i}", f"n{i + 1}") for i in range(count - 1)]
    far = [Arrow(f"n{i}", f"n{i + reach}") for i in range(0, count - reach, 5)]
    return Drawing("chain", boxes, (), (*near, *far))


@pytest.mark.slow("has many cases")
def test_work_is_linear_in_what_is_drawn():
    small, large = (calls(lay_out, chain_with_long_lines(count, 10)) for count in (50, 200))
    assert large < 4.5 * small
    assert large < 130_000


@pytest.mark.slow("computes much")
def test_a_network_of_thousands_of_layers_needs_no_deep_stack():
    assert len(lay_out(chain_with_long_lines(1500, 4)).boxes) == 1500


def test_widths_of_text():
    assert text_width("iii", 10) < text_width("mmm", 10)
    assert text_width("日本", 10) == 20
    assert text_width("e\u0301", 10) == text_width("e", 10)
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghijk", 10) == "abcd…ghijk"


def test_a_text_is_as_wide_whatever_the_order_of_its_letters():
    """Sums of floats are rounded once, as Python's own `sum` does from 3.12 on and not before."""
    letters = "il ftckCDGABmM%@0—é漢" * 3
    shuffled = ["".join(random.Random(seed).sample(letters, len(letters))) for seed in range(20)]
    assert {text_width(text, 11.0) for text in shuffled} == {text_width(letters, 11.0)}


def test_no_layout_depends_on_how_python_adds_floats(monkeypatch: pytest.MonkeyPatch):
    """`math.fsum` is the same on every version; `sum` is compensated from 3.12 on."""

    def of_whole_numbers(values: Iterable[int], start: int = 0) -> int:
        found = list(values)
        assert all(isinstance(value, int) for value in found)
        return sum(found, start)

    for module in [module for name, module in sys.modules.items() if name.startswith("symjax_nnvm.drawing.")]:
        monkeypatch.setattr(module, "sum", of_whole_numbers, raising=False)
    for seed in range(10):
        svg_text(random_drawing(seed))
