"""Compare `wsemu` with the checker that Coq extracts, on random programs: if `wsemu` verifies one, so must the checker.

    make -C proofs checker
    python proofs/compare.py --programs 10000 --seed 1

The reverse does not hold: `wsemu` also rejects programs for reasons that the theorem does not need (proxies, copies
that outlive their CTA, unobserved phases, leftover bytes).  The table counts programs by both verdicts and by the codes
of `wsemu`.  The theorem does not cover stores of one value (`same-value-store`).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.properties import programs as barrier_programs  # noqa: E402
from tests.properties.phase_programs import PHASE_FAMILIES, check_program  # noqa: E402
from tests.properties.programs import FAMILIES, check_interpreted  # noqa: E402

CERTIFY = ROOT / "proofs" / "ocaml" / "certify"


def barrier_line(program: barrier_programs.Program) -> str:
    """Return a program of named barriers in the notation of `ocaml/main.ml`; counts are in warps."""
    lines = [
        " ".join(f"{o.kind}({o.place},{o.threads // 32})" if o.kind in "SA" else f"{o.kind}({o.place})" for o in warp)
        for warp in program
    ]
    return "| " + " | ".join(f"t{w}: {line}" for w, line in enumerate(lines))


def certify(lines: list[str]) -> list[str]:
    """Return the verdict of the extracted checker for each line."""
    done = subprocess.run([str(CERTIFY)], input="\n".join(lines) + "\n", text=True, capture_output=True, check=True)
    return done.stdout.splitlines()


def compare(count: int, seed: int) -> int:
    """Compare on `count` programs each of mbarriers and of named barriers; return the number of contradictions."""
    source = random.Random(seed)
    phases = [PHASE_FAMILIES[source.choice(("ring", "ring", "ring", "mixed"))](source) for _ in range(count)]
    barriers = [FAMILIES[source.choice(sorted(FAMILIES))](source) for _ in range(count)]
    lines = [*map(str, phases), *map(barrier_line, barriers)]
    table: Counter[str] = Counter()
    contradictions = 0
    for n, (line, proof) in enumerate(zip(lines, certify(lines), strict=True)):
        kind = "phases" if n < count else "barriers"
        if proof.startswith("unsupported"):
            table[f"{kind}: {proof}"] += 1
            continue
        report = check_program(phases[n]) if n < count else check_interpreted(barriers[n - count])
        if any(finding.code == "same-value-store" for finding in report.findings):
            table[f"{kind}: wsemu {report.verdict} (same-value-store), not covered"] += 1
            continue
        proven, verified = proof == "verified", report.verdict == "verified"
        codes = ", ".join(sorted({finding.code for finding in report.findings if finding.severity == "error"}))
        reason = f" ({codes})" if proven and not verified else ""
        table[f"{kind}: wsemu {report.verdict}{reason}, proof {'verified' if proven else 'refuses'}"] += 1
        if verified and not proven:
            contradictions += 1
            print(f"contradiction: the proof refuses {proof}: {line}")
    for row, number in sorted(table.items()):
        print(f"{number:8,}  {row}")
    return contradictions


def main() -> None:
    """Run the comparison of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(1 if compare(options.programs, options.seed) else 0)


if __name__ == "__main__":
    main()
