"""Check pages in headless Chromium at three widths, light and dark.  No element may be wider than the window, all text
must have the contrast of WCAG 2.1 (4.5; 3 for large text), and the timeline must show when it has the keyboard focus.

The pages are one of `wsemu trace` with findings, the page to try wsemu, and those of the built documentation in the
folder that WSEMU_DOCS names, if it is set.  The tests are skipped if Playwright or Chromium is missing.
"""

from __future__ import annotations

import os
import runpy
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands import wsemu

if TYPE_CHECKING:
    from collections.abc import Iterator

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
DOCS = os.environ.get("WSEMU_DOCS", "")
ROOT = Path(__file__).resolve().parents[2]
LOOK = (Path(__file__).parent / "looked_at.js").read_text(encoding="utf-8")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]
BAD = """<body style="margin: 0; background: white; color: #999"><p>faint</p><p style="color: #555">dark</p>
<div style="width: 3000px">wide</div></body>"""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the files of the pages."""
    folder = tmp_path_factory.mktemp("pages")
    done = wsemu("trace", "-o", f"{folder}/trace.html", "examples/broken/no_empty_wait.py", cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr
    runpy.run_path(str(ROOT / "docs" / "try" / "build.py"))["build"](folder / "try", "pyodide/")
    built = [Path(DOCS, page.stem + ".html") for page in sorted((ROOT / "docs").glob("*.md"))] if DOCS else []
    return [folder / "trace.html", folder / "try" / "index.html", *(page for page in built if page.exists())]


@pytest.mark.parametrize("width", [360, 800, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_their_texts_have_contrast(browser: Any, pages: list[Path], scheme: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = {}
    for file in pages:
        page.goto(file.as_uri(), wait_until="domcontentloaded")
        found[file.name] = page.evaluate(LOOK)
    page.close()
    assert {name: seen for name, seen in found.items() if seen["wide"] or seen["faint"]} == {}


def test_the_look_sees_wide_and_faint_elements(browser: Any) -> None:
    page = browser.new_page(viewport={"width": 800, "height": 600})
    page.set_content(BAD)
    seen = page.evaluate(LOOK)
    page.close()
    assert seen["wide"] == ["3000 > 800", "div"]
    assert [text.partition(" ")[0] for text in seen["faint"]] == ["p", "div"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keyboard_reaches_the_time_line_visibly(browser: Any, pages: list[Path], scheme: str) -> None:
    page = browser.new_page(viewport={"width": 800, "height": 900}, color_scheme=scheme)
    page.goto(pages[0].as_uri())
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "() => { const one = document.activeElement, style = getComputedStyle(one);"
                " return [one.className || one.tagName, style.outlineStyle, parseFloat(style.outlineWidth),"
                " one.getAttribute('aria-label') || '']; }"
            )
        )
        if seen[-1][0] == "view":
            break
    before = page.evaluate("document.querySelector('.extent').style.width")
    page.keyboard.press("+")
    page.wait_for_function("before => document.querySelector('.extent').style.width !== before", arg=before)
    page.close()
    name, style, width, label = seen[-1]
    assert name == "view", seen
    assert style != "none"
    assert width >= 1
    assert label
