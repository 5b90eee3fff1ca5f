"""What reads text of a stranger, as functions of bytes: each returns, or raises an error of wsemu.

`benchmarks/coverage_fuzz.py` feeds them what atheris finds; `tests/unit/test_fuzz_targets.py` the files of
`tests/fuzz_corpora/TARGET`, of which those named `found-*` once ended otherwise.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.app.launch_file import LaunchFile, launches
from wsemu.app.ptx_launch import argument
from wsemu.frontend.ptx import compile_entry
from wsemu.launch.ptx.reading import read
from wsemu.model.errors import WsemuError

if TYPE_CHECKING:
    from collections.abc import Callable

CORPORA = Path(__file__).parent / "fuzz_corpora"
ROOM = 1 << 22
"""bytes of arrays that a text of `--arg` may request; a fuzzer finds larger ones at once, and learns nothing from
them"""


def read_ptx(data: bytes) -> None:
    """Parse PTX and lower each of its kernels with numbers as arguments."""
    with contextlib.suppress(WsemuError):
        module = read(".version 8.6\n.target sm_90a\n.address_size 64\n" + data.decode(errors="replace"))
        for entry in list(module.entries.values())[:2]:
            with contextlib.suppress(WsemuError):
                kinds = ["address" if parameter.type == "u64" else "value" for parameter in entry.parameters]
                compile_entry(module, entry, kinds)  # type: ignore[arg-type]


def read_argument(data: bytes) -> None:
    """Make the argument that a text of `--arg` describes."""
    text = data.decode(errors="replace")
    if _bytes_asked_for(text) <= ROOM:
        with contextlib.suppress(WsemuError):
            argument(text)


def _bytes_asked_for(text: str) -> int:
    """Return a bound on the bytes that the extents in a text request, from its digits."""
    return 1 << min(40, 4 * sum(character.isdigit() for character in text.split("[", 1)[-1].split("]", 1)[0]))


def read_launch_file(data: bytes) -> None:
    """Read a launch file, and find the files that it names."""
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(WsemuError):
        file = Path(folder) / "launch.json"
        file.write_bytes(data)
        LaunchFile.read(file)
        launches(Path(folder))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "ptx": read_ptx,
    "argument": read_argument,
    "launch_file": read_launch_file,
}
