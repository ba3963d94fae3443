"""Long statements are broken into lines."""

import ast
import itertools

import pytest

from lowering.source.line_breaks import COLUMNS, laid_out
from tests.support.printed import well_formed

NAMES = ", ".join(f"name_{i}" for i in range(12))
LONG = "word_" * 30
PARTS, QUOTED = LONG.replace("_", "{name_2}_"), LONG.replace("_", "'_")
SUM = " + ".join(f"number_{i}" for i in range(20))


@pytest.mark.parametrize(
    "statement",
    [
        f"x = jnp.array([{NAMES}]).reshape((3, 4))",
        f"x = {SUM}",
        f"x = first({NAMES}) + second({NAMES}) + third({NAMES})",
        f"return {SUM}, f({NAMES})[0]",
        f'x = params["{"name " * 14}"] + params["{"other " * 14}"]',
        f"a, b = {NAMES.replace(', ', ' * ')}",
        f"{NAMES[:86]} = function_of_one(argument)",
        f"{NAMES} = {NAMES.replace('name', 'other')}",
        f"""x = (('"a" for b in c', {NAMES}), ("it's", {NAMES}), ('say "no"', "yes"))""",
        f'x = f(params, "{LONG}", f"{PARTS}")["{QUOTED}"]',
        f"x = ({SUM}).astype(jnp.float32) * ({SUM}).reshape(({NAMES}))",
    ],
)
def test_the_lines_are_short_and_the_same_statement(statement: str):
    lines = laid_out(statement)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= COLUMNS
    assert _tree(text) == _tree(statement)


def test_calls_in_a_row_are_broken_as_ruff_does():
    starts, sizes = ("x", "x.T", "f(x)", 'p["weight"]'), ("(1, 2)", "(100000000, 200000000, 300000000, 4000000)")
    lines = ["def several(x, f, p):"]
    for start, size, count in itertools.product(starts, sizes, (0, 1, 2)):
        methods = f".reshape({size})" * count + f".reshape(({', '.join(['100000000'] * (8 - count))}))"
        lines += laid_out(f"x = {start}{methods}", "    ")
    well_formed("\n".join([*lines, "    return x", ""]))


def test_a_loop_over_many_variables_has_its_targets_in_lines():
    lines = laid_out(f"for {NAMES} in (({NAMES}), ({NAMES})):")
    assert max(map(len, lines)) <= COLUMNS
    assert lines[0] == "for ("
    ast.parse("\n".join([*lines, "    pass"]))


def _tree(text: str) -> str:
    return ast.dump(ast.parse(f"def f():\n    {text.replace(chr(10), chr(10) + '    ')}"))
