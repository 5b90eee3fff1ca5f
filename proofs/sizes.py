"""Time both judges of certificates on traces of growing size.

    make -C proofs checker
    python proofs/sizes.py [SHAPE...]

Each shape is drawn at several sizes.  A line names the shape, its operations, and the CPU seconds of both judges.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from proofs.certify import HEADER  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

JUDGES: Final = {
    "wsemu-certify": [str(ROOT / "proofs" / "ocaml" / "wsemu-certify")],
    "certify.py": [sys.executable, str(ROOT / "proofs" / "certify.py")],
}


def _certificate(processes: int, objects: list[str], lines: list[str]) -> str:
    kinds = [f"object {n} {kind}" for n, kind in enumerate(objects)]
    return "\n".join([HEADER, "# a trace of this size", f"processes {processes}", *kinds, *lines, "end", ""])


def ring(rounds: int) -> str:
    """Return the trace of a ring of one stage, with a copy for each round."""
    lines = []
    for n in range(rounds):
        lines += [f"0 parity 1 {(n - 1) % 2}"] if n else []
        lines += ["0 count 0 1 0 16 0", f"0 start {n + 2}", f"{n + 2} write shared0 0 16", f"{n + 2} count 0 0 0 0 16"]
        lines += [f"1 parity 0 {n % 2}", "1 read shared0 0 16", "1 count 1 1 0 0 0"]
    return _certificate(2, ["mbarrier 1", "mbarrier 1"], lines)


def copies(number: int) -> str:
    """Return the trace of so many copies that complete one phase."""
    agents = range(2, number + 2)
    lines = [f"0 count 0 1 0 {16 * number} 0", *(f"0 start {agent}" for agent in agents)]
    for agent in agents:
        lines += [f"{agent} write shared0 {16 * agent} 16", f"{agent} count 0 0 0 0 16"]
    return _certificate(2, ["mbarrier 1"], [*lines, "1 parity 0 0", *(f"1 read shared0 {16 * a} 16" for a in agents)])


def handover(rounds: int) -> str:
    """Return the trace of two warps that hand a buffer over, and give it back at a barrier."""
    lines = []
    for n in range(rounds):
        lines += ["0 write shared0 0 16", "0 count 0 1 0 0 0", f"1 parity 0 {n % 2}", "1 read shared0 0 16"]
        lines += ["1 join 1", "0 join 1", f"0 passed 1 {n}", f"1 passed 1 {n}"]
    return _certificate(2, ["mbarrier 1", "group 2"], lines)


def _exchange(warps: range, memory: str, first: int, phase: int) -> list[str]:
    """Return what the warps of a CTA do in a phase: write, sync, read what another one has written, sync."""
    shifted = [*warps[1:], warps[0]]
    return [
        *(f"{warp} write {memory} {4 * warp} 4" for warp in warps),
        *(f"{warp} join {first}" for warp in warps),
        *(f"{warp} passed {first} {phase}" for warp in warps),
        *(f"{warp} read {memory} {4 * other} 4" for warp, other in zip(warps, shifted, strict=True)),
        *(f"{warp} join {first + 1}" for warp in warps),
        *(f"{warp} passed {first + 1} {phase}" for warp in warps),
    ]


def ctas(number: int) -> str:
    """Return the trace of CTAs of 4 warps, with 40 barriers each."""
    parts = ((range(4 * n, 4 * n + 4), f"shared{n}", 2 * n, phase) for phase in range(20) for n in range(number))
    return _certificate(4 * number, ["group 4"] * (2 * number), [line for part in parts for line in _exchange(*part)])


def group(warps: int) -> str:
    """Return the trace of one group of so many warps, with 8 barriers."""
    lines = [line for phase in range(4) for line in _exchange(range(warps), "shared0", 0, phase)]
    return _certificate(warps, [f"group {warps}"] * 2, lines)


SHAPES: Final[dict[str, tuple[Callable[[int], str], tuple[int, ...]]]] = {
    "ring": (ring, (1000, 2000, 4000, 8000)),
    "copies": (copies, (1000, 2000, 4000, 8000)),
    "handover": (handover, (2500, 5000, 10000, 20000)),
    "ctas": (ctas, (50, 100, 200, 400)),
    "group": (group, (64, 128, 256, 512)),
}
"""name -> the shape, its sizes"""


def _seconds(command: list[str]) -> float:
    """Return the CPU seconds of a judge that accepts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(shapes: list[str]) -> None:
    """Print a line for each size of each shape."""
    for name in shapes or SHAPES:
        make, sizes = SHAPES[name]
        for size in sizes:
            with tempfile.NamedTemporaryFile("w", suffix=".cert") as file:
                text = make(size)
                file.write(text)
                file.flush()
                times = (f"{judge} {_seconds([*command, file.name]):5.2f} s" for judge, command in JUDGES.items())
                print(f"{name:10} {text.count(chr(10)):8,}", *times, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
