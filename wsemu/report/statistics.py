"""`--statistics`: the findings of all launches, counted by code."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from wsemu.model.codes import CODES
from wsemu.model.data import dataclass, field
from wsemu.model.errors import UnsupportedError
from wsemu.report.diagnostic import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.launch.result import Report
    from wsemu.model.errors import WsemuError
    from wsemu.model.launch_shape import LaunchConfiguration


@dataclass(slots=True)
class Statistics:
    """Counts of findings, by code and severity."""

    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    kernels: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    """kernels with findings of each (code, severity)"""
    launches: Counter[str] = field(default_factory=Counter)
    """number of launches by verdict"""
    accepted: int = 0

    def observe(self, report: Report) -> None:
        """Count the findings of a launch."""
        self.launches[report.verdict] += 1
        self.accepted += len(report.suppressed)
        for finding in report.findings:
            key = finding.code, finding.severity
            self.findings[key] += 1
            self.kernels.setdefault(key, {})[report.kernel] = None

    def refuse(self, kernel: Any, configuration: LaunchConfiguration, error: WsemuError) -> bool:
        """Count a launch that needs something that is not modeled.  Its error is reported elsewhere."""
        del kernel, configuration
        self.launches["incomplete"] += isinstance(error, UnsupportedError)
        return False

    def lines(self) -> Iterator[str]:
        """Yield the table: the most frequent code first."""
        verdicts = ", ".join(f"{self.launches[name]:,} {name}" for name in sorted(self.launches))
        accepted = f"; {plural(self.accepted, 'finding')} accepted" if self.accepted else ""
        total = plural(self.findings.total(), "finding")
        yield f"statistics: {total} in {plural(self.launches.total(), 'launch', 'es')} ({verdicts}){accepted}"
        rows = sorted(self.findings, key=lambda key: (-self.findings[key], key))
        names = [f"{severity}[{code}]" for code, severity in rows]
        width = max(map(len, names), default=0)
        for key, name in zip(rows, names, strict=True):
            kernels = plural(len(self.kernels[key]), "kernel")
            yield f"{self.findings[key]:8,}  {name:{width}}  {CODES[key[0]].meaning} ({kernels})"
