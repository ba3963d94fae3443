"""The pages for people, and the code that stands in them."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]

_CODE = re.compile(
    r"^```(?P<language>\w*)\n(?P<fenced>.*?)^```$|(?:\A|(?<=\n\n))(?P<indented>(?:^    [^\n]+\n|^\n(?=    ))+)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """Code in a page. language: that of its fence, "" for none, "indented" for a block that is indented instead."""

    page: str
    language: str
    text: str

    @property
    def digest(self) -> str:
        """Changes with the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def text_of(page: str) -> str:
    """The page's text."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    """All blocks of code of a page, in order."""
    return [
        Block(page, "indented", re.sub(r"^    ", "", found["indented"], flags=re.MULTILINE))
        if found["indented"]
        else Block(page, found["language"], found["fenced"])
        for found in _CODE.finditer(text_of(page))
    ]


def blocks(page: str, language: str) -> list[str]:
    """The texts of a page's blocks of one language, in order."""
    return [block.text for block in blocks_of(page) if block.language == language]


def commands(block: Block) -> list[str]:
    """The lines of a shell, without comments; one that ends in a backslash goes on in the next."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [stripped for line in lines if (stripped := re.sub(r"(^|\s+)# .*", "", line).strip())]


def of_mxnet(page: str) -> list[Block]:
    """The blocks of a page that MXNet runs, in order: fenced as `py`, and the network, which is written for both."""
    return [b for b in blocks_of(page) if b.language == "py" or (b.language == "python" and "def network()" in b.text)]


def names_of_mxnet() -> set[str]:
    """The dotted names that begin with `mx.`, on all pages."""
    return {name for page in PAGES for name in re.findall(r"(?<![\w.])mx(?:\.[A-Za-z_]\w*)+", text_of(page))}
