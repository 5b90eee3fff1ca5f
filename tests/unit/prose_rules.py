"""Mechanical rules for plain English, which `tests/unit/test_prose.py` counts in names, docstrings, messages and pages.

Each rule is a regular expression over one kind of text.  Most of its matches are sentences that have to be read twice;
some are good English, so each file has an allowance (`prose_allowed.json`) that may only shrink.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

CODE = ("wsemu", "checkers", "patterns")
"""folders of the product's code"""
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/codes/index.md", "checkers/pages/*.md")
"""globs of the Markdown that readers see; the changelog is a record of what was written"""
VISITORS = re.compile(r"(on|of|visit)_[A-Z]")
"""names of methods that are dispatched by the name of a class"""
MAX_WORDS = 35
"""words of a sentence"""
MAX_NEGATIONS, MAX_COMMAS = 2, 5
"""in a sentence"""
FRAGMENT_WORDS = 4
"""words of an attribute's docstring that says too little alone"""

FIRST_WORDS = {
    "docstring begins `The same`": r"the same\b",
    "docstring begins `Of`": r"of\b",
    "docstring begins `What`": r"what\b",
    "docstring begins with a pronoun": r"(those|who|which|some|that)\b",
    "docstring begins `How`": r"how\b",
    "docstring begins `As`": r"as\b",
    "docstring begins `Where` or `When`": r"(where|when)\b",
    "docstring begins `Whether`": r"whether\b",
}
WORDS = {
    "told, tells": r"\b(told|tells?)\b",
    "said, says": r"\b(said|says)\b",
    "stands": r"\bstands?\b(?! for\b)",
    "goes on": r"\bgo(es)? on\b",
    "comes to, comes about": r"\bcomes? (to|into|together|about|again|by)\b",
    "of what, of those": r"\bof (what|those|that)\b",
    "who, whoever": r"\b(for|to|by|of|and) who\b|\bwhoever\b",
    "behind": r"\bbehind\b",
    "is no": r"\b(is|are|be) no\b",
    "hangs on": r"\bhangs? on\b(?! an? [A-Z])",
    "asks": r"\basks?\b|\basked\b",
    "wants": r"\bwants?\b|\bwanted\b",
    "makes a launch": r"\b(makes?|made|making) (an?|the|this|that|each|its|such) (launch|access|run|copy|load|store)\b",
    "way": r"(?<!under )\bways?\b",
    "so many": r"\b(so|as) (many|much)\b",
    ", too": r", too\b",
    "nobody": r"\b(no|some|any)body\b",
    "the one ... the other": r"one (behind|after|beside) the other\b|other way round",
    "anew, at hand": r"\b(anew|at hand|amiss|anyhow|meanwhile)\b",
    "place": r"(?<!\bin )(?<!\bits )\bplaces?\b",
    "mend": r"\bmend(s|ed)?\b",
    "kin, crowd": r"\b(kin|crowds?)\b",
    "refused by name": r"\brefused by name\b",
    "let X do": r"^(= )?let [a-z`]",
}
PAGE_WORDS = {
    "British spelling": r"\b\w*((synchron|initial|recogn|serial|optim)is|neighbour|colour|behaviour|modell)\w*\b",
    "steer": r"\bsteer(s|ed|ing)?\b",
    "under way": r"\bunder way\b",
    "one by one": r"\bone by one\b",
    "unwritten": r"\bunwritten\b",
    "used up": r"\bused up\b",
}
"""words of the glossary's left column, on pages alone"""
NEGATION = re.compile(r"\b(no|not|none|nothing|nobody|never|neither|nor|without|cannot)\b", re.IGNORECASE)
IRREGULAR = frozenset(
    "begun bound brought built caught chosen dealt done drawn driven fed felt forgotten found given gone got grown "
    "heard held hidden hit kept known laid led left lent lost made meant met paid proven put said seen sent shown "
    "shot sold sought spent spoken stolen struck stuck taken taught thought thrown told torn undone "
    "won worn written".split()
)
NO_PARTICIPLES = frozenset("embed exceed feed need proceed put seed speed hit".split())
PREPOSITION = re.compile(r"_(of|at|by|in|on|for|apart|again|behind|before|so|anyhow)$")
LEADING = re.compile(r"^(of|by|in|at|on|without|behind|until|where|how|what|who|which|no|none|so)_")


class Text(NamedTuple):
    """A text of a file, and what it is."""

    kind: str
    """`docstring`, `attribute`, `message`, `name` or `page`"""
    text: str


def counts(root: Path) -> dict[str, Counter[str]]:
    """Return for each rule how often it matches in each file."""
    found: dict[str, Counter[str]] = {rule: Counter() for rule in names()}
    for file, texts in files(root):
        for text in texts:
            for rule in matches(text):
                found[rule][file] += 1
    return found


def names() -> list[str]:
    """Return the names of all rules."""
    shapes = ["long sentence", "three negations", "six commas", "fragment of an attribute"]
    return [
        *FIRST_WORDS,
        *WORDS,
        *PAGE_WORDS,
        *shapes,
        "bare participle",
        "trailing preposition",
        "leading preposition",
    ]


def files(root: Path) -> Iterator[tuple[str, list[Text]]]:
    """Yield each file, relative to the root, with its texts."""
    for folder in CODE:
        for path in sorted((root / folder).rglob("*.py")):
            if not any(part.is_symlink() for part in (path, *path.parents)):
                yield path.relative_to(root).as_posix(), list(code_texts(path.read_text(encoding="utf-8")))
    for pattern in DOCUMENTS:
        for path in sorted(root.glob(pattern)):
            yield (
                path.relative_to(root).as_posix(),
                [Text("page", part) for part in paragraphs(path.read_text(encoding="utf-8"))],
            )


def code_texts(source: str) -> Iterator[Text]:
    """Yield docstrings, docstrings of attributes, strings of several words, and names of functions."""
    tree, documented = ast.parse(source), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not VISITORS.match(node.name):
            yield Text("name", node.name)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            before: ast.stmt | None = None
            for statement in node.body:
                value = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    documented.add(id(value))
                    kind = "attribute" if isinstance(before, ast.Assign | ast.AnnAssign) else "docstring"
                    yield Text(kind, value.value)
                before = statement
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in documented else None
        if isinstance(text, str) and text.count(" ") > 2:
            yield Text("message", text)


def paragraphs(markdown: str) -> Iterator[str]:
    """Yield paragraphs, items of lists and cells of tables, without code."""
    block: list[str] = []
    fenced = False
    for line in [*markdown.split("\n"), ""]:
        fence = line.lstrip().startswith("```")
        code = fenced or fence or line.startswith("    ")
        fenced ^= fence
        item = re.match(r"\s*([-*]|\d+\.) ", line)
        if block and (code or item or not line.strip() or line.startswith(("|", "#"))):
            yield " ".join(block)
            block = []
        if code or re.match(r"#|\[[\w-]+\]: |\s*<", line):  # headings, targets of links, HTML
            continue
        if line.startswith("|"):
            yield from (cell.strip() for cell in line.strip("|").split("|") if cell.count(" ") > 2)
        elif line.strip():
            block.append(line.strip())


def matches(text: Text) -> Iterator[str]:
    """Yield the rules that a text breaks, each as often as it does."""
    if text.kind == "name":
        yield from name_matches(text.text)
        return
    flat = plain(text.text)
    if text.kind in ("docstring", "attribute"):
        yield from (rule for rule, pattern in FIRST_WORDS.items() if re.match(pattern, flat, re.IGNORECASE))
    if (
        text.kind == "attribute"
        and len(flat.split()) <= FRAGMENT_WORDS
        and flat[:1].islower()
        and not re.search("[.;:]", flat)
    ):
        yield "fragment of an attribute"
    tables = (WORDS, PAGE_WORDS) if text.kind == "page" else (WORDS,)
    for rule, pattern in ((rule, pattern) for table in tables for rule, pattern in table.items()):
        yield from [rule] * sum(1 for _ in re.finditer(pattern, flat))
    if text.kind in ("docstring", "page"):
        yield from sentence_matches(sentences(flat), page=text.kind == "page")


def plain(text: str) -> str:
    """Return a text on one line, with code and the targets of links left out."""
    text = re.sub(r"\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])", r"\1", " ".join(text.split()))
    return re.sub(r"``.+?``|`[^`]*`", "X", text)


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[(])", text) if part]


def sentence_matches(parts: Iterable[str], *, page: bool) -> Iterator[str]:
    """Yield the rules about the length and the shape of sentences."""
    for sentence in parts:
        if len(sentence.split()) > MAX_WORDS:
            yield "long sentence"
        if page and len(NEGATION.findall(sentence)) > MAX_NEGATIONS:
            yield "three negations"
        if page and sentence.count(",") > MAX_COMMAS:
            yield "six commas"


def name_matches(name: str) -> Iterator[str]:
    """Yield the rules about a function's name."""
    bare = name.strip("_")
    regular = bare.endswith("ed") and len(bare) > 4 and bare not in NO_PARTICIPLES
    if "_" not in bare and (regular or bare in IRREGULAR - NO_PARTICIPLES):
        yield "bare participle"
    if PREPOSITION.search(bare):
        yield "trailing preposition"
    if LEADING.match(bare):
        yield "leading preposition"
