"""The page of `wsemu trace -o x.html` in headless Chromium: it renders, in light and in dark, wide
and narrow, loads nothing, and its script runs.

Skipped where there is no Chromium.  `pytest tests/html --screenshots FOLDER` keeps the pictures, for a look at them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.commands import wsemu

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
PROGRAMS = {
    "no_empty_wait": ("broken/no_empty_wait.py",),
    "both_wait_first": ("broken/both_wait_first.py",),
    "column_walk": ("broken/column_walk.py",),
    "sgemv": ("sgemv.py", "128"),
}
PAGE = {"light": (255, 255, 255), "dark": (20, 23, 28)}
"""the background as the style sheet has it"""
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr",
]  # fmt: skip
DARK = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")


def first_pixel(png: bytes) -> tuple[int, ...]:
    """Red, green and blue of the upper left pixel of an RGB or RGBA picture of 8 bits."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data = 8, b""
    while at < len(png):
        length, kind = int.from_bytes(png[at : at + 4], "big"), png[at + 4 : at + 8]
        data += png[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return tuple(zlib.decompress(data)[1:4])  # no filter changes the first pixel of the first row


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page of each program."""
    folder = tmp_path_factory.mktemp("pages")
    for name, (file, *arguments) in PROGRAMS.items():
        done = wsemu("trace", "-o", f"{folder}/{name}.html", f"examples/{file}", *arguments, cwd=ROOT)
        assert done.returncode in (0, 1), done.stdout + done.stderr
    return folder


@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [*zip(PROGRAMS, ["light", "dark", "light", "dark"], [1440, 375, 375, 1440], strict=True)],
)
def test_a_page_renders(
    name: str, scheme: str, width: int, pages: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    keep = request.config.getoption("--screenshots")
    folder = Path(keep or tmp_path).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{name}-{scheme}-{width}.png"
    more = [
        f"--window-size={width},1600",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--screenshot={picture}",
        *(DARK if scheme == "dark" else []),
    ]
    command = [CHROMIUM, *FLAGS, *more, (pages / f"{name}.html").as_uri()]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"CONSOLE|Content Security Policy|ERR_", done.stderr), done.stderr
    png = picture.read_bytes()
    assert first_pixel(png) == PAGE[scheme]
    assert len(png) > 20_000  # more than a blank page


def test_the_script_shows_all_steps_first(pages: Path, tmp_path: Path) -> None:
    command = [CHROMIUM, *FLAGS, "--window-size=600,900", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, (pages / "sgemv.html").as_uri()], check=False, capture_output=True, text=True, timeout=120
    )
    (style,) = re.findall(r'<svg[^>]* style="([^"]*)"', done.stdout)
    assert 200 < float(re.findall(r"width: ([\d.]+)px", style)[0]) < 600
    assert "--shrink" in style
    assert re.search(r'<p class="tools">', done.stdout)  # no longer hidden


ACT = """
const view = document.querySelector('.timeline .scroll'), said = document.querySelector('.tools output');
const log = [], note = () => log.push(said.value.split(' ')[0] + ':' + Math.round(view.scrollLeft));
const press = key => { view.dispatchEvent(new KeyboardEvent('keydown', {key, cancelable: true})); note(); };
const point = (kind, x) =>
  view.dispatchEvent(new PointerEvent(kind, {pointerType: 'mouse', button: 0, clientX: x, bubbles: true}));
note(); press('+'); press('+'); press('End'); press('Home'); press('0');
document.querySelector('.tools button[value="+"]').click(); note();
view.dispatchEvent(new WheelEvent('wheel', {ctrlKey: true, deltaY: -300, clientX: 700, cancelable: true})); note();
point('pointerdown', 500); point('pointermove', 450); point('pointerup', 450); note();
document.title = log.join(' ');
"""


def test_keys_buttons_the_wheel_and_dragging_move_the_time_line(pages: Path, tmp_path: Path) -> None:
    text = (pages / "sgemv.html").read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)  # which forbids what follows
    page = tmp_path / "acted.html"
    page.write_text(text.replace("</body>", f"<script>{ACT}</script></body>"), encoding="utf-8")
    command = [CHROMIUM, *FLAGS, "--window-size=900,900", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run([*command, page.as_uri()], check=False, capture_output=True, text=True, timeout=120)
    title = re.findall(r"<title>([^<]*)", done.stdout)[0]
    (whole, _), _, (larger, at), (_, end), (_, home), (again, _), (button, _), (wheel, before), (_, after) = (
        tuple(map(int, part.split(":"))) for part in title.split()
    )
    assert whole == again < button < wheel
    assert whole < larger
    assert home == 0 < at < end
    assert after == before + 50
