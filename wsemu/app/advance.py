"""Progress of a long launch on standard error: a line of a terminal that is rewritten, or lines of JSON."""

from __future__ import annotations

import sys
import time

PATIENCE = 1.0
"""seconds after which the progress of a launch is shown"""
APART = 0.2
"""seconds between two lines of progress"""


class Advance:
    """The progress display of the running launch; `how`: `bar` on a terminal, `json` or `none`."""

    def __init__(self, how: str = "bar") -> None:
        self._how = (
            how if how == "json" or (how == "bar" and sys.stderr is not None and sys.stderr.isatty()) else "none"
        )
        self._width = 0
        self.begin()

    def begin(self) -> None:
        """Record that a launch begins."""
        self._began = self._last = time.monotonic()
        self._done = self._total = 0

    def __call__(self, name: str, done: int, total: int) -> None:
        """Show that `done` of `total` CTAs of a launch have run."""
        self._done, self._total = done, total
        now = time.monotonic()
        if self._how == "none" or now - self._last < APART or now - self._began < PATIENCE:
            return
        self._last = now
        rate = done / (now - self._began)
        eta = (total - done) / rate if rate else 0.0
        if self._how == "json":
            import json

            line = {"what": name, "done": done, "total": total, "unit": "CTAs", "rate": round(rate, 2)}
            print(json.dumps(line | {"eta": round(eta, 1)}), file=sys.stderr, flush=True)
        else:
            left = f", {eta:,.0f} s left" if rate else ""
            self._write(f"{name}: {done:,} of {total:,} CTAs, {rate:,.1f} a second{left}")

    def end(self) -> None:
        """End the progress line: the launch is over."""
        if self._width:
            self._write("")
            print("\r", end="", file=sys.stderr, flush=True)
            self._width = 0

    def _write(self, text: str) -> None:
        print(f"\r{text:{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def __str__(self) -> str:
        """Return ` (1,203 of 4,000 CTAs)`, or nothing if the numbers are unknown."""
        return f" ({self._done:,} of {self._total:,} CTAs)" if self._total else ""
