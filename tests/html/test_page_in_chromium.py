"""The page of `wsemu trace -o x.html` in headless Chromium: it renders, in light and in dark, wide
and narrow, loads nothing, and its script runs.

Skipped where there is no Chromium.  `pytest tests/html --screenshots FOLDER` keeps the pictures, for a look at them.
"""

from __future__ import annotations

import html
import json
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


def acted(page: Path, act: str, folder: Path, width: int = 900) -> str:
    """Return the title that a script gives a page in a browser."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)  # which forbids what follows
    copy = folder / "acted.html"
    copy.write_text(text.replace("</body>", f"<script>{HELPERS}{act}</script></body>"), encoding="utf-8")
    command = [
        CHROMIUM, *FLAGS, f"--window-size={width},900", f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=20000", "--dump-dom", copy.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    return html.unescape(re.findall(r"<title>([^<]*)", done.stdout)[0])


HELPERS = """
const view = document.querySelector('.view'), said = document.querySelector('.tools output'), log = [];
const canvas = view.querySelector('canvas'), detail = document.querySelector('.detail');
const note = () => log.push(Math.round(parseFloat(view.querySelector('.extent').style.width)) + ':' +
  Math.round(view.scrollLeft));
const press = key => { view.dispatchEvent(new KeyboardEvent('keydown', {key, cancelable: true})); note(); };
const point = (kind, x, y) => view.dispatchEvent(
  new PointerEvent(kind, {pointerType: 'mouse', button: 0, clientX: x, clientY: y, bubbles: true}));
const say = () => document.title = log.join(' ');
"""


def test_keys_buttons_the_wheel_and_dragging_move_the_time_line(pages: Path, tmp_path: Path) -> None:
    act = """
    note(); press('+'); press('+'); press('End'); press('Home'); press('0');
    document.querySelector('.tools button[value="+"]').click(); note();
    view.dispatchEvent(new WheelEvent('wheel', {ctrlKey: true, deltaY: -300, clientX: 700, cancelable: true})); note();
    point('pointerdown', 500, 0); point('pointermove', 450, 0); point('pointerup', 450, 0); note(); say();
    """
    title = acted(pages / "sgemv.html", act, tmp_path)
    (whole, _), _, (larger, at), (_, end), (_, home), (again, _), (button, _), (wheel, before), (_, after) = (
        tuple(map(int, part.split(":"))) for part in title.split()
    )
    assert whole < 900  # all steps first
    assert whole == again < button < wheel
    assert whole < larger
    assert home == 0 < at < end
    assert after == before + 50


def test_a_finding_leads_to_its_bar_and_back(pages: Path, tmp_path: Path) -> None:
    act = """
    document.querySelector('#finding-2 [data-mark]').click();
    log.push(detail.textContent, document.activeElement === view);
    setTimeout(() => {
      const rows = document.querySelectorAll('.row.warp'), bounds = canvas.getBoundingClientRect();
      const scale = parseFloat(view.querySelector('.extent').style.width) / 8;
      const x = bounds.left + 4.5 * scale - view.scrollLeft, y = bounds.top + rows[1].offsetTop + 15;
      point('pointermove', x, y);
      log.push('|', document.querySelector('.tip').textContent, '|');
      point('pointerdown', x, y);
      point('pointerup', x, y);
      log.push(location.hash, document.activeElement.id);
      say();
    }, 200);
    """
    title = acted(pages / "no_empty_wait.html", act, tmp_path)
    jump, tip, back = (part.strip() for part in title.split("|"))
    where = "warp 1, step 4: store tile[lane], examples/broken/no_empty_wait.py:21"
    assert (jump, tip, back) == (f"finding 2 race (1): {where} true", where, "#finding-2 finding-2")


def test_a_long_time_line_draws_its_visible_part(pages: Path, tmp_path: Path) -> None:
    """100,000 steps: a frame draws at most a box for each pixel and row, whatever the zoom."""
    text = (pages / "sgemv.html").read_text(encoding="utf-8")
    element = re.compile(r'(<script type="application/json">)(.*?)(</script>)')
    found = element.search(text)
    assert found is not None
    data = json.loads(found[2])
    length, warps = 14_300, len(data["warps"])
    data["steps"] = [
        field for at in range(length) for warp in range(warps) for field in (warp, at, at + 1, at % 9, 0, -1, -1)
    ]
    data |= {"length": length, "generations": [], "copies": [], "marks": [], "first": None}
    long = tmp_path / "long.html"
    long.write_text(element.sub(lambda match: match[1] + json.dumps(data) + match[3], text), encoding="utf-8")
    act = """
    let boxes = 0;
    window.requestAnimationFrame = draw =>  // a headless page has no frames
      setTimeout(() => { boxes = 0; draw(); log.push(boxes); }, 0);
    const context = canvas.getContext('2d'), fill = context.fillRect.bind(context);
    context.fillRect = (...box) => { boxes++; fill(...box); };
    const frame = () => new Promise(next => setTimeout(next, 20));
    (async () => {
      for (const key of ['0', '+', '+', '+', '+', '+', '+', '+', '+', '+', '+', '+', 'End']) {
        press(key);
        await frame();
      }
      document.title = log.filter(entry => typeof entry === 'number').join(' ');
    })();
    """
    counts = [int(count) for count in acted(long, act, tmp_path).split()]
    assert len(counts) >= 13
    assert 0 < min(counts) <= max(counts) <= 900 * (warps + 1)
