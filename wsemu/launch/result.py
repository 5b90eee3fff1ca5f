"""The result of one checked launch: a `Report`, and `CheckFailed`, which carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.checkers import causes
from wsemu.evidence.fingerprint import Inputs
from wsemu.launch.hypothesis_example import is_shrinking
from wsemu.model.arch import DEFAULT
from wsemu.model.cure import INTERRUPTED, Cure, Trials
from wsemu.model.errors import UsageError, WsemuError
from wsemu.model.finding import (
    Counters,
    Extent,
    Finding,
    Residency,
    Scope,
    Suppressed,
    Unreached,
    Unused,
    Verdict,
)
from wsemu.model.record import Record

if TYPE_CHECKING:
    from wsemu.launch.attempts import Launched
    from wsemu.launch.replay.witness_file import Witness

EXIT_CODES: dict[Verdict, int] = {"verified": 0, "failed": 1, "incomplete": 3}


class Report(Record):
    """The outcome of one checked launch."""

    kernel: str
    grid: Extent
    block: Extent
    verdict: Verdict
    arch: str = DEFAULT
    dynamic_shared: int = 0
    """dynamic shared memory in bytes"""
    findings: list[Finding] = []
    left_out: int = 0
    """number of findings beyond `--limit`, in JSON; they affect the verdict and the counters"""
    untold: int = 0
    """number of findings at further source locations, beyond the 4,096 that a launch keeps in full"""
    costliest: list[Finding] = []
    """the access with the highest bank conflict degree and the access with the most excess sectors, unless `findings`
    has costlier ones.  They do not justify a warning, but `assert_clean` shows them if a limit is set"""
    suppressed: list[Suppressed] = []
    """findings that do not count because the user accepts them"""
    unused: list[Unused] = []
    """suppressions for this kernel that match no finding"""
    counters: Counters = Counters.model_construct()
    notes: list[str] = []
    """notes on the launch as a whole, such as why it is incomplete"""
    reasons: list[str] = []
    """reasons for the verdict incomplete in one or two words each, for statistics over many launches: `atomics`, `step
    budget`"""
    proof: str = ""
    """proven property of a `verified` launch: `deadlock-free and race-free in every schedule`"""
    unreached: Unreached | None = None
    """synchronization instructions that a completed launch never executed, so that it proves nothing about them; None:
    all were executed"""
    scope: Scope | None = None
    """the other launches for which a `verified` verdict holds, if requested (`every`)"""
    residency: Residency | None = None
    """the CTAs that must be co-resident because some wait for others"""
    inputs: Inputs | None = None
    """inputs of a failed launch, as hashes"""
    seconds: float = 0.0
    """wall-clock time of the check"""
    trials: Trials | None = None
    """results of edits of the kernel, in a report that is displayed; None: none were tried"""
    _launched: Launched | None = None
    """the launch, to run it again"""
    _trials: Trials | None = None
    _whole: Report | None = None
    """the report with all warnings if this one has only the errors"""

    def _check_fields(self) -> None:
        if (self.verdict == "failed") != bool(self.errors) and not self.left_out:
            raise ValueError(f"verdict {self.verdict!r} with {len(self.errors)} errors")

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "warning"]

    def helped(self, budget: float | None = None) -> Report:
        """Return this report for display: with `trials`, and with its findings in the order of their causes.

        Edits of the kernel are tried once, for `budget` seconds (default: the setting).  Without a budget, a verified
        launch, or one that Hypothesis is shrinking, gets no search.
        """
        if self.trials is not None or not self.findings:
            return self
        if self._whole is not None:
            return self._whole.helped(budget)._errors_alone()
        if budget is not None or not (self.verdict == "verified" or is_shrinking()):
            found = self._search(budget)
        else:
            found = self._trials or Trials(groups=causes.group_by_edge(self.findings))
        trials, findings = found.sort_by_group(self.findings)
        return self.model_copy(update={"trials": trials, "findings": findings})

    def _search(self, budget: float | None) -> Trials:
        """Try edits of the kernel, once or with each budget."""
        launched = self._launched
        seconds = budget if budget is not None or launched is None else launched.settings.fix_budget
        if self._trials is None or budget is not None:
            if launched is None or not seconds:
                self._trials = Trials(groups=causes.group_by_edge(self.findings))
            else:
                from wsemu.repair.trials import try_edits

                self._trials = try_edits(self, launched, seconds)
        return self._trials

    def unhelped(self) -> Report:
        """Return this report for display after an interrupted search for edits: without any edits."""
        trials, findings = Trials(groups=causes.group_by_edge(self.findings), stopped=INTERRUPTED).sort_by_group(
            self.findings
        )
        return self.model_copy(update={"trials": trials, "findings": findings})

    def keeps_launch(self) -> bool:
        """Return whether edits can be tried on this launch."""
        return self._launched is not None

    def drop_launch(self) -> Report:
        """Return this report, and drop its launch: the arrays may be large."""
        made = self.model_copy()
        made._launched = None
        return made

    def of_errors(self) -> Report:
        """Return this report without its warnings; edits are tried for the report with all of them."""
        made = self.model_copy(update={"findings": self.errors, "trials": None})
        made._trials, made._whole = None, self if self.warnings else None
        return made

    def _errors_alone(self) -> Report:
        """Return this report in the form that is shown, without its warnings, and without fixes that only concern
        warnings."""
        kept = [number for number, finding in enumerate(self.findings) if finding.severity == "error"]
        trials = self.trials.select_findings(kept) if self.trials is not None else None
        return self.model_copy(update={"findings": self.errors, "trials": trials})

    def cures(self, *, expected: dict[str, Any] | None = None, budget: float | None = None) -> list[Cure]:
        """Edits of the kernel with which this launch is verified, the best one first: each was run.

        They are tried when this is first asked for, `budget` seconds long (default: the setting `fix_budget`, 2).
        `expected` has what arrays should hold after the launch, by the names of the kernel's parameters: edits with
        other results come last.  None are known for a report without findings, one that was read from a file, and for
        kernels of PTX.
        """
        if expected is not None and self._launched is not None:
            self._launched.expect(expected)
            self._trials = None
        if self.trials is None and self.findings and self._whole is None:
            self._search(budget)
        return [] if self._trials is None else [*self._trials.cures]

    def is_cured_by(self, cure: Cure) -> bool:
        """Return whether this launch is also verified with the edits of another launch's fix; False if the launch
        cannot be repeated."""
        if any(edit.kind == "launch" for edit in cure.edits):
            return any(own.says == cure.says and own.changes == cure.changes for own in self.cures())
        return self._launched is not None and self._launched.is_verified_with(cure)

    def breaks_with(self, cure: Cure) -> bool:
        """Return whether this edit breaks another launch of the program, which is verified without it."""
        return self._launched is not None and self._launched.breaks(cure)

    def witness(self, finding: Finding | None = None) -> Witness:
        """Return the schedule of an error (by default the first), with the inputs of the launch, to be saved and
        replayed.  Raise UsageError if there is none."""
        from wsemu.launch.replay.witness_file import Witness, has_witness

        chosen = finding or next(filter(has_witness, self.errors), None)
        if chosen is None:
            raise UsageError(f"`{self.kernel}` has no error with a schedule: no witness")
        return Witness.of(self, chosen)

    @property
    def exit_code(self) -> int:
        """Return 0 for verified, 1 for failed, 3 for incomplete."""
        return EXIT_CODES[self.verdict]

    @property
    def bank_ways(self) -> int | None:
        """Return the highest bank conflict degree of a shared access: 1 means no conflict.  Return None if the check
        was disabled."""
        if not self.counters.bank_conflicts:
            return 1
        factors = [f.factor or 1 for f in (*self.findings, *self.costliest) if f.code == "bank-conflict"]
        return int(max(factors)) if factors else None

    def assert_clean(self, *, bank_ways: int | None = None, coalescing: float | None = None) -> None:
        """Raise CheckFailed, whose text is the diagnostics, unless the launch is verified; an incomplete one is not.

        `bank_ways` is the worst bank conflict allowed, 1 for none; `coalescing` the least share of the sectors moved
        in global memory that must be needed, 0 to 1, over all accesses of the launch.
        """
        __tracebackhide__ = True  # pytest shows the caller of this function
        report = self.held_to(bank_ways=bank_ways, coalescing=coalescing)
        if report.verdict != "verified":
            raise CheckFailed(report)

    def held_to(self, *, bank_ways: int | None = None, coalescing: float | None = None) -> Report:
        """Return this report with accesses beyond the limits of `assert_clean` as errors."""
        if bank_ways is not None and (type(bank_ways) is not int or bank_ways < 1):
            raise UsageError(f"bank_ways is {bank_ways!r}: give the worst bank conflict allowed, 1 for none")
        if coalescing is not None and (type(coalescing) not in (int, float) or not 0 <= coalescing <= 1):
            raise UsageError(f"coalescing is {coalescing!r}: give the share of sectors that must be needed, 0 to 1")
        findings, share = [*self.findings], self.counters.coalesced
        if bank_ways is not None and (self.bank_ways is None or self.bank_ways > bank_ways):
            findings = self._errors(findings, "bank-conflict", f"`bank_ways={bank_ways}` is asked for", bank_ways)
        if coalescing is not None and share is not None and share < coalescing:
            said = f"{share:.4g} of this launch's sectors are needed: `coalescing={coalescing}` is asked for"
            findings = self._errors(findings, "uncoalesced", said, 1)
        if findings == self.findings:
            return self
        findings.sort(key=lambda finding: finding.severity != "error")
        return self.model_copy(
            update={"findings": findings, "verdict": "failed", "reasons": [], "proof": "", "scope": None}
        )

    def _errors(self, findings: list[Finding], code: str, note: str, most: float) -> list[Finding]:
        """Return the findings; those with a certain code and a factor above `most` become errors with a note."""
        known = [finding for finding in findings if finding.code == code]
        costly = [f for f in (*known, *self.costliest) if f.code == code and (f.factor is None or f.factor > most)]
        if not costly:
            raise UsageError(f"{note}, and the checker of `{code}` is off: look for it too, it is what tells where")
        errors = [f.model_copy(update={"severity": "error", "notes": [*f.notes, note]}) for f in costly]
        return [finding for finding in findings if finding not in costly] + errors

    def _repr_html_(self) -> str:
        """Return the report as HTML for a notebook."""
        from wsemu.report.html import report_fragment

        return report_fragment(self)

    def __str__(self) -> str:
        counts = ((len(self.errors), "error"), (len(self.warnings), "warning"))
        return ", ".join([f"{self.kernel}: {self.verdict}", *(f"{n} {what}{'s' * (n != 1)}" for n, what in counts)])


class CheckFailed(WsemuError):
    """A checked launch is not clean; `report` has the reasons.  As text, the diagnostics in 80 columns, without
    color."""

    __module__ = "wsemu"  # users know the class under the name of this module

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.report = report

    def __str__(self) -> str:
        from wsemu.report.terminal import render  # nothing else below `check` formats reports as text

        return render(self.report)
