"""Make the page to try wsemu: `python docs/try/build.py FOLDER [URL]`.

URL is that of a Pyodide distribution, with a slash at its end: by default that of its content delivery network; a path
such as `pyodide/` is a folder beside the page.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYODIDE = "https://cdn.jsdelivr.net/pyodide/v0.27.7/full/"
"""the release with which the page is tested: Python 3.12, NumPy 2.0"""
EXAMPLES = {
    "a consumer that gives nothing back": "examples/broken/no_empty_wait.py",
    "two warps that wait for each other": "examples/broken/both_wait_first.py",
    "a load before the barrier": "docs/programs/too_soon.py",
    "a pipeline that is never started": "examples/broken/ring_not_started.py",
    "a bank conflict": "examples/broken/column_walk.py",
    "a producer and a consumer, verified": "examples/producer_consumer.py",
}
LEFT_OUT = ("app", "backends", "campaign", "native", "timing")
"""packages that the page does not need"""


def build(folder: Path, pyodide: str = PYODIDE) -> None:
    """Write the page, its script, its examples and the package into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    address = urlsplit(pyodide)
    origin = f"{address.scheme}://{address.netloc}" if address.netloc else ""
    for source, target in (("page.html", "index.html"), ("page.js", "page.js"), ("page.css", "page.css"),
                           ("worker.js", "worker.js"), ("run.py", "run.py")):  # fmt: skip
        text = (HERE / source).read_text(encoding="utf-8")
        for name, value in (("origin", origin), ("pyodide", pyodide), ("host", address.netloc or "this site")):
            text = text.replace(f"{{{name}}}", value) if source in ("page.html", "worker.js") else text
        (folder / target).write_text(text, encoding="utf-8")
    examples = [{"title": title, "text": (ROOT / file).read_text(encoding="utf-8")} for title, file in EXAMPLES.items()]
    (folder / "examples.json").write_text(json.dumps(examples), encoding="utf-8")
    _pack(folder / "wsemu.zip")


def _pack(archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, file in sorted(_files()):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes from the same sources
            info.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(info, file.read_bytes())


def _files() -> list[tuple[str, Path]]:
    """Return the name in the archive, and the file, of each module."""
    found = []
    folders = {"wsemu": "wsemu", "wsemu/patterns": "patterns", "wsemu/checkers": "checkers"}
    for name, folder in folders.items():
        place = ROOT / folder
        for file in place.rglob("*.py"):
            inside = file.relative_to(place)
            is_out = name == "wsemu" and inside.parts[0] in (*LEFT_OUT, "patterns", "checkers")
            if not is_out and "__pycache__" not in inside.parts:
                found.append((f"{name}/{inside.as_posix()}", file))
    return found


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:3])
