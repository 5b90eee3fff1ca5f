"""Mutated sequences of CUDA calls: wrong order, freed handles, wild pointers, odd sizes, threads.

    python benchmarks/api_calls.py [--sequences N] [--first N] [--seconds S]

Each sequence is a process of `tests/data/mutated_calls.c` on wsemu's driver.  No process may be ended by a signal, no
call may return a code that CUDA does not have, and the server must answer to the end.  Exit code 1 if anything fails.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from wsemu.native.build import find_libraries
from wsemu.native.compiler import find_compiler

ROOT = Path(__file__).parents[1]
BATCH = 100
"""sequences of one run of the command"""
DATA = ROOT / "tests" / "data"


def build_client(folder: Path) -> Path:
    """Compile the program, and return it."""
    program, driver = folder / "mutated_calls", find_libraries() / "libcuda.so.1"
    words = ["-w", str(DATA / "mutated_calls.c"), str(driver), "-lpthread", "-ldl", "-o", str(program)]
    subprocess.run([str(find_compiler()), *words], check=True)
    return program


def run_sequences(program: Path, first: int, count: int) -> tuple[int, list[str]]:
    """Run sequences; return how many ran, and lines about those that failed."""
    options = ["--fix-budget", "0", "--budget", "1000000"]
    words = [str(program), str(DATA / "driver_client.ptx"), str(first), str(count)]
    command = [sys.executable, "-m", "wsemu", "run", *options, "--", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    text = done.stdout + done.stderr
    bad = re.findall(r"(?m)^(?:sequence \d+: .*|.* none of CUDA's codes|.*internal error.*|Traceback.*)$", text)
    ended = re.search(r"(?m)^(\d+) sequences, \d+ bad$", text)
    if ended is None:
        bad.append(f"sequences {first} to {first + count - 1} did not end: exit code {done.returncode}")
    return int(ended[1]) if ended else 0, bad


def main() -> int:
    """Run all sequences, and print figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=5000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    start, ran, bad = time.monotonic(), 0, list[str]()
    with tempfile.TemporaryDirectory() as place:
        program = build_client(Path(place))
        for first in range(given.first, given.first + given.sequences, BATCH):
            count, found = run_sequences(program, first, min(BATCH, given.first + given.sequences - first))
            ran, bad = ran + count, bad + found
            if time.monotonic() - start > given.seconds:
                break
    print("\n".join(bad))
    print(f"{ran:,} sequences, {len(bad):,} failures, {time.monotonic() - start:.0f} s")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
