"""Compare the CPU time of launches that one run decides, in this checkout and in another one.

    python benchmarks/against.py OTHER_CHECKOUT [--rounds 7]

Each checkout has its own process, which first runs each launch once to compile it.  The two processes take turns, round
by round.  The table has the minimum CPU time of a launch in each checkout, in milliseconds, and the ratio of the two.
Launches that one of the checkouts does not support are left out there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

WORK = """
import sys, time
sys.path.insert(0, sys.argv[1])
sys.stdout, out = sys.stderr, sys.stdout
exec(compile(open(sys.argv[2]).read(), sys.argv[2], "exec"))
for line in sys.stdin:
    try:
        launch, times = LAUNCHES[line.strip()]
        run = launch()
        started = time.process_time()
        for _ in range(times):
            run()
        print((time.process_time() - started) / times * 1e3, file=out, flush=True)
    except Exception as error:
        print(type(error).__name__, str(error).partition(chr(10))[0][:60], file=out, flush=True)
"""
KERNELS = Path(__file__).with_name("against_kernels.py")


class Checkout:
    """A process that launches kernels with the wsemu of a checkout."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-c", WORK, str(root), str(KERNELS)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.least: dict[str, float] = {}
        self.said: dict[str, str] = {}

    def time(self, name: str, *, keep: bool) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        try:
            value = float(answer)
        except ValueError:
            self.said[name] = answer
            return
        if keep:
            self.least[name] = min(value, self.least.get(name, value))


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare what launches cost in two checkouts.")
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=7, help="(7)")
    options = parser.parse_args()
    names = [
        line.split('"')[1] for line in KERNELS.read_text(encoding="utf-8").splitlines() if line.startswith('    "')
    ]
    here, there = (Checkout(root.resolve()) for root in (Path(__file__).parents[1], options.other))
    for n in range(options.rounds + 1):
        for name in names:
            for checkout in (here, there) if n % 2 else (there, here):
                checkout.time(name, keep=n > 0)
    print(f"{'launch':24} {'here, ms':>10} {'other, ms':>10} {'ratio':>7}")
    for name in names:
        one, other = here.least.get(name), there.least.get(name)
        if one is None or other is None:
            print(f"{name:24} {here.said.get(name) or one} | {there.said.get(name) or other}")
        else:
            print(f"{name:24} {one:10.2f} {other:10.2f} {one / other:7.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
