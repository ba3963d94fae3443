"""What docs/models.md shows is what happens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "models.md"


def test_examples_print_what_the_page_says():
    names: dict[str, Any] = {}
    printed = expected = ""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for language, text in blocks:
        if language == "python":
            assert printed == expected
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, PAGE.name, "exec", dont_inherit=True), names)
            printed, expected = out.getvalue(), ""
        else:
            expected = text
            assert printed == expected
    assert len(blocks) > 12
