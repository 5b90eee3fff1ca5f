"""`wsemu lean FILE`: find barriers, fences and atomics that the proofs of a program's launches do not need."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from wsemu.app import program
from wsemu.app.chosen import resolve_settings
from wsemu.app.exit_codes import INTERRUPTED, USAGE, rank
from wsemu.app.targets import find_targets
from wsemu.launch.hooks import adding_hook, keeping
from wsemu.model.data import dataclass, field
from wsemu.model.errors import UsageError
from wsemu.repair.lean import Layout, Need, Part, layouts, needs, shared_wavefronts
from wsemu.report.diagnostic import plural
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wsemu.launch.attempts import Launched
    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding


_ALL = "barriers, fences and atomics", "barrier, fence or atomic"


class _Quiet(Printer):
    """Prints errors of the program, but no reports on its launches."""

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        pass


@dataclass(slots=True)
class _Kernels:
    """The synchronization that the launches of each kernel need."""

    parts: dict[str, dict[Part, list[Need]]] = field(default_factory=dict)
    launches: dict[str, list[str]] = field(default_factory=dict)
    layouts: dict[str, dict[Layout, list[int]]] = field(default_factory=dict)
    """layouts of the shared arrays that save wavefronts, with the number saved in each launch"""
    in_ptx: dict[str, bool] = field(default_factory=dict)
    """for kernels in PTX, whether their text can be edited; False for several linked files"""

    def observe(self, report: Report, launched: Launched) -> None:
        """Try to remove each part of the synchronization of a verified launch."""
        if report.verdict != "verified":
            return
        x, y, z = report.grid
        a, b, c = report.block
        if launched.is_ptx:
            self.in_ptx[report.kernel] = launched.code() is not None
        self.launches.setdefault(report.kernel, []).append(f"{x * y * z} x {a * b * c} threads")
        known = self.parts.setdefault(report.kernel, {})
        for part, need in needs(launched, report.counters.warp_instructions).items():
            known.setdefault(part, []).append(need)
        if report.bank_ways != 1:
            better = self.layouts.setdefault(report.kernel, {})
            for layout, saved in layouts(launched, shared_wavefronts(report)).items():
                better.setdefault(layout, []).append(saved)

    def tell(self, printer: Printer) -> None:
        """Print the synchronization that no launch of a kernel needs, and the number of operations that launches do
        need."""
        if not self.parts:
            printer.text("no launch is verified: there is no proof to take things from", "warning")
        any_spare = False
        for kernel, parts in self.parts.items():
            sizes = ", ".join(dict.fromkeys(self.launches[kernel]))
            spare = {part: found for part, found in parts.items() if not any(need.needed for need in found)}
            any_spare |= bool(spare)
            count = len(self.launches[kernel])
            of = f"{plural(count, 'verified launch', 'es')} ({sizes})"
            if not self.in_ptx.get(kernel, True):
                printer.text(f"{kernel}: linked from several PTX files: nothing was left out in {of}", "warning")
                continue
            many, one = ("barriers and fences", "barrier or fence") if kernel in self.in_ptx else _ALL
            what = f"{len(parts):,} {many}, left out one by one"
            if len(parts) < 2:
                what = f"{len(parts) or 'no'} {one}{', left out' * len(parts)}"
            printer.text(f"{kernel}: {what} in {of}", "strong")
            for part, found in spare.items():
                saved = sum(need.saved for need in found)
                instead = f", and `{part.becomes}` in its place is enough" if part.becomes else ""
                steps = plural(abs(saved), f"{'fewer' if saved > 0 else 'more'} warp instruction")
                if not saved:
                    steps = "as many warp instructions"
                printer.text(
                    f"  {os.path.basename(part.file)}:{part.line}: `{part.text}` is not needed{instead}: {steps}"
                )
            if parts and not spare:
                printer.text("  all are needed" if len(parts) > 1 else "  it is needed")
            for layout, counts in self.layouts.get(kernel, {}).items():
                where = f"{os.path.basename(layout.file)}:{layout.line}"
                printer.text(f"  {where}: {layout.says}: {plural(sum(counts), 'fewer wavefront')} of shared memory")
        if any_spare:
            printer.text("that holds for these launches: other sizes may need what they do not, and of two things that "
                         "are not needed, one may be")  # fmt: skip


def run(file: Path, arguments: Sequence[str], given: Mapping[str, Any], launch: Mapping[str, Any]) -> int:
    """Run a program and report redundant synchronization; return the exit code of the program's check."""
    printer = _Quiet()
    try:
        targets = find_targets(file, arguments, launch)
        _, settings = resolve_settings(file, given)
    except UsageError as error:
        printer.error(error)
        return USAGE
    kernels, codes = _Kernels(), list[int]()
    with adding_hook(keeping, kernels.observe):
        for one in targets:
            codes.append(program.run(one.file, one.arguments, settings, printer=printer, as_ptx=one.is_ptx))
    code = max(codes, key=rank)
    if code not in (USAGE, INTERRUPTED):
        kernels.tell(printer)
    return code
