"""The page to try wsemu, in headless Chromium: the link that holds a program, and, with a Pyodide distribution in the
folder that WSEMU_PYODIDE names, a run.

Skipped where Playwright or Chromium is missing.
"""

from __future__ import annotations

import functools
import http.server
import os
import runpy
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PYODIDE = os.environ.get("WSEMU_PYODIDE", "")
ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the page."""
    folder = tmp_path_factory.mktemp("try")
    runpy.run_path(str(ROOT / "docs" / "try" / "build.py"))["build"](folder, "pyodide/")
    if PYODIDE:
        (folder / "pyodide").symlink_to(PYODIDE)
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name of the base class
        pass


@pytest.fixture
def page(address: str) -> Iterator[Any]:
    """The page, with the errors of its scripts in `page.wrong`."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        opened = browser.new_page()
        opened.wrong = []
        opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
        opened.on("console", lambda message: opened.wrong.append(message.text))
        opened.goto(address)
        wait(opened, "ready")
        yield opened
        browser.close()


def wait(page: Any, *states: str) -> None:
    """Wait for a state; the policy of the page forbids to evaluate a condition in it."""
    page.locator(", ".join(f"body[data-state={state}]" for state in states)).wait_for(timeout=240_000)


def test_a_link_holds_the_program(page: Any, address: str) -> None:
    assert page.locator("#example option").count() == 6
    program = "# caf\N{LATIN SMALL LETTER E WITH ACUTE} < > & \N{GREEK SMALL LETTER LAMDA}\nprint('x')\n" * 50
    page.fill("#source", program)
    page.click("#link")
    page.wait_for_url("**#program=*")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.locator("#status", has_text="from the link").wait_for()
    assert page.input_value("#source") == program
    assert page.text_content("#reports") == ""  # no program runs by itself
    page.goto("about:blank")
    page.goto(f"{address}#program=AAAA")
    wait(page, "ready")
    assert "no program" in page.text_content("#status")
    assert "def no_empty_wait" in page.input_value("#source")
    assert page.wrong == []


def test_the_editor_indents_and_can_be_left(page: Any) -> None:
    page.fill("#source", "")
    page.focus("#source")
    page.keyboard.press("Tab")
    assert page.input_value("#source") == "    "
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") != "source"


@pytest.mark.skipif(not PYODIDE, reason="WSEMU_PYODIDE names no Pyodide distribution")
def test_a_program_runs_and_gets_its_report(page: Any) -> None:
    page.select_option("#example", index=2)
    page.click("#run")
    wait(page, "done", "broken")
    assert page.text_content("#status").startswith("1 launch: 1 failed")
    assert "help: proven: insert `cuda.syncthreads()`" in page.text_content("#reports")
    page.fill("#source", "1 / 0\n")
    page.keyboard.press("Control+Enter")
    wait(page, "done", "broken")
    page.locator("#output", has_text="ZeroDivisionError").wait_for()
    page.fill("#source", "while True:\n    pass\n")
    page.click("#run")
    page.click("#stop")
    assert "Stopped" in page.text_content("#status")
    assert page.wrong == []
