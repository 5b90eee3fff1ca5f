"""Names, docstrings, messages and pages keep the mechanical rules of plain English, file by file.

`prose_allowed.json` lists how often each file may still break a rule.  The numbers only shrink: a change that adds a
match fails, and `pytest --bless tests/unit/test_prose.py` writes the lower numbers after one that removes some.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit import prose_rules
from tests.unit.prose_rules import Text

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = Path(__file__).with_name("prose_allowed.json")
SLACK = 0.03
"""the part of a rule's allowance that may be unused before it has to be written anew"""

Counts = dict[str, dict[str, int]]


@pytest.fixture(scope="module")
def found() -> Counts:
    return {rule: dict(sorted(files.items())) for rule, files in sorted(prose_rules.counts(ROOT).items()) if files}


def allowed() -> Counts:
    counts: Counts = json.loads(ALLOWED.read_text(encoding="utf-8"))
    return counts


def test_no_file_breaks_a_rule_more_often_than_it_may(found: Counts, bless: bool) -> None:
    """`--bless` writes the present numbers: a moved file keeps its allowance, but no rule's sum may grow."""
    before = allowed()
    if bless:
        grown = [rule for rule in found if sum(found[rule].values()) > sum(before.get(rule, {}).values())]
        assert not grown, "more matches than before: reword them"
        ALLOWED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return
    more = {
        f"{file}: {rule}": f"{number}, allowed {before.get(rule, {}).get(file, 0)}"
        for rule, files in found.items()
        for file, number in files.items()
        if number > before.get(rule, {}).get(file, 0)
    }
    assert not more, f"reword what you added: {more}"


def test_the_allowance_shrinks_with_what_is_found(found: Counts) -> None:
    for rule, files in allowed().items():
        unused = sum(files.values()) - sum(found.get(rule, {}).values())
        assert unused <= 10 + SLACK * sum(files.values()), f"{rule}: run `pytest --bless tests/unit/test_prose.py`"


@pytest.mark.parametrize(
    ("kind", "text", "rules"),
    [
        ("docstring", "The same with a step.", ["docstring begins `The same`"]),
        ("docstring", "Return the offset of a field.", []),
        ("attribute", "that one", ["docstring begins with a pronoun", "fragment of an attribute"]),
        ("message", "the branch of what is read", ["of what, of those"]),
        ("message", "let warp 2 wait for warp 1", ["let X do"]),
        ("page", "A copy is under way, too.", [", too", "under way"]),
        ("page", "`told` is code, and [told](told.md) is not.", ["told, tells"]),
        ("page", "No warp has nothing without a barrier.", ["three negations"]),
        ("page", " ".join(["word"] * 36) + ".", ["long sentence"]),
        ("name", "_told", ["bare participle"]),
        ("name", "park_lanes", []),
        ("name", "of_copies_apart", ["trailing preposition", "leading preposition"]),
    ],
)
def test_a_rule_finds_what_it_is_for(kind: str, text: str, rules: list[str]) -> None:
    assert sorted(prose_rules.matches(Text(kind, text))) == sorted(rules)


def test_code_and_headings_of_a_page_are_left_out() -> None:
    code = "    told = 1\n\n```text\ntold\n```\n"
    page = f"# Told\n\nOne\nparagraph.\n\n{code}\n- an item\n- another\n\n| a | cell with four words |\n"
    assert list(prose_rules.paragraphs(page)) == ["One paragraph.", "- an item", "- another", "cell with four words"]
