"""Compare `wsemu` with the checker that Coq extracts, on random programs: if `wsemu` verifies one, so must the checker.

    make -C proofs checker
    python proofs/compare.py --programs 10000 --seed 1 --workers 2 --seconds 200 [--family clusters]

Families: named barriers (`barriers`), mbarriers and copies (`phases`), the same in a cluster (`clusters`), clusters and
asynchronous agents (`ring`, `groups`, `mixed`; agents.py), `wgmma` groups (`wgmma`).  The first table counts programs
by both verdicts.  The second command counts the programs that `wsemu` rejects and the checker proves, by the codes of
`wsemu`.  It also rejects programs for reasons that the theorem does not need: proxies, copies that outlive their CTA,
leftover bytes.  The third one counts those that the model cannot express, by feature.

A program that `wsemu` verifies and the checker refuses is a contradiction; exit code 1.  The programs depend on the
seed alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from proofs.agents import AGENT_FAMILIES, check_launch, check_ring, ring_line  # noqa: E402
from tests.properties.cluster_programs import Spread, check_spread, clustered  # noqa: E402
from tests.properties.phase_programs import PHASE_FAMILIES, check_program  # noqa: E402
from tests.properties.programs import FAMILIES, check_interpreted  # noqa: E402
from tests.properties.test_warpgroup_rings import Ring  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    import wsemu
    from tests.properties import explorer, phase_explorer

CERTIFY: Final = ROOT / "proofs" / "ocaml" / "certify"
CHUNK: Final = 100
"""programs that a worker takes at a time"""
BOTH_VERIFY, BOTH_REFUSE, STRICTER, BEYOND, CONTRADICTION = (
    "both verify",
    "both refuse",
    "wsemu alone refuses",
    "out of reach",
    "contradictions",
)
OUTCOMES: Final = (BOTH_VERIFY, BOTH_REFUSE, STRICTER, BEYOND, CONTRADICTION)


class Family(NamedTuple):
    """A family of programs: how they are drawn, written for the checker, and checked by `wsemu`."""

    draw: Callable[[random.Random], Any]
    write: Callable[[Any], str]
    check: Callable[[Any], wsemu.Report]


class Part(NamedTuple):
    """A chunk of programs of a family."""

    family: str
    seed: str
    programs: int


class Result(NamedTuple):
    """The result of a part of the programs."""

    family: str
    outcomes: Counter[str]
    stricter: Counter[str]
    """programs that `wsemu` alone refuses, by its codes"""
    beyond: Counter[str]
    """programs out of reach, by feature and by the verdict of `wsemu`"""
    contradictions: list[str]


def draw_barriers(source: random.Random) -> explorer.Program:
    """Return a program of named barriers."""
    return FAMILIES[source.choice(sorted(FAMILIES))](source)


def draw_phases(source: random.Random) -> phase_explorer.Program:
    """Return a program of mbarriers and copies."""
    return PHASE_FAMILIES[source.choice(("ring", "ring", "ring", "mixed phases"))](source)


def barrier_line(program: explorer.Program) -> str:
    """Return a program of named barriers in the notation of `ocaml/main.ml`; counts are in warps."""
    lines = [
        " ".join(f"{o.kind}({o.place},{o.threads // 32})" if o.kind in "SA" else f"{o.kind}({o.place})" for o in warp)
        for warp in program
    ]
    return "| " + " | ".join(f"t{w}: {line}" for w, line in enumerate(lines))


def spread_line(spread: Spread) -> str:
    """Return a program of a cluster in the notation of `ocaml/main.ml`: its meetings are barriers of the cluster."""
    program = spread.program
    threads = (
        f"t{t}: {' '.join('Y y' if step.kind in 'SZ' else str(step) for step in steps)}"
        for t, steps in enumerate(program.threads)
    )
    return f"{' '.join(map(str, program.counts))} | {' | '.join(threads)}"


COMPARED: Final = {
    "barriers": Family(draw_barriers, barrier_line, check_interpreted),
    "phases": Family(draw_phases, str, check_program),
    "clusters": Family(clustered, spread_line, check_spread),
    **{name: Family(draw, str, check_launch) for name, draw in AGENT_FAMILIES.items()},
    "wgmma": Family(Ring.drawn, ring_line, check_ring),
}


def certify(lines: list[str]) -> list[str]:
    """Return the verdict of the extracted checker for each line."""
    done = subprocess.run([str(CERTIFY)], input="\n".join(lines) + "\n", text=True, capture_output=True, check=True)
    return done.stdout.splitlines()


def compare(part: Part) -> Result:
    """Compare both verdicts on the programs of a part."""
    family, source = COMPARED[part.family], random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), Counter(), [])
    programs = [family.draw(source) for _ in range(part.programs)]
    lines = [family.write(program) for program in programs]
    for program, line, proof in zip(programs, lines, certify(lines), strict=True):
        report = family.check(program)
        verified, proven = report.verdict == "verified", proof == "verified"
        feature = proof.removeprefix("out of reach: ") if proof.startswith("out of reach") else ""
        if any(finding.code == "same-value-store" for finding in report.findings):
            feature = "stores of one value"
        if feature:
            outcome = BEYOND
            result.beyond[f"{feature} (wsemu: {report.verdict})"] += 1
        elif verified:
            outcome = BOTH_VERIFY if proven else CONTRADICTION
        else:
            outcome = STRICTER if proven else BOTH_REFUSE
        if outcome == STRICTER:
            codes = {finding.code for finding in report.findings if finding.severity == "error"}
            result.stricter[", ".join(sorted(codes)) or report.verdict] += 1
        elif outcome == CONTRADICTION:
            result.contradictions.append(f"{part.family}: the checker refuses ({proof}): {line}")
        result.outcomes[outcome] += 1
    return result


def parts(families: list[str], programs: int, seed: int) -> list[Part]:
    """Return all that is to be done: a part of each family in turn."""
    starts = range(0, programs, CHUNK)
    return [
        Part(family, f"{family} {seed} {start}", min(CHUNK, programs - start))
        for start in starts
        for family in families
    ]


def show(results: list[Result]) -> None:
    """Print the three tables."""
    total = Result("all", Counter(), Counter(), Counter(), [])
    of = {result.family: Result(result.family, Counter(), Counter(), Counter(), []) for result in results}
    for result in results:
        for whole in (of[result.family], total):
            whole.outcomes.update(result.outcomes)
            whole.stricter.update(result.stricter)
            whole.beyond.update(result.beyond)
    print(f"{'family':10} {'programs':>9}", *(f"{outcome:>20}" for outcome in OUTCOMES))
    for whole in (*(of[name] for name in COMPARED if name in of), total):
        counted = whole.outcomes
        print(f"{whole.family:10} {counted.total():>9,}", *(f"{counted[outcome]:>20,}" for outcome in OUTCOMES))
    refused = total.outcomes[STRICTER] + total.outcomes[BOTH_REFUSE]
    print(f"\nrefused by wsemu, proven by the checker: {total.outcomes[STRICTER]:,} of {refused:,} that wsemu refuses")
    for codes, number in total.stricter.most_common():
        print(f"{number:9,} {number / max(refused, 1):7.2%}  {codes}")
    print(f"\nout of reach: {total.outcomes[BEYOND]:,}")
    for feature, number in total.beyond.most_common():
        print(f"{number:9,}  {feature}")


def main() -> int:
    """Run the comparison of the command line; return 1 if there is a contradiction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=COMPARED, action="append", help="a family (all); may be repeated")
    parser.add_argument("--programs", type=int, default=10000, metavar="N", help="programs of a family (10000)")
    parser.add_argument("--seed", type=int, default=1, help="of the programs (1)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (1)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    options = parser.parse_args()
    if options.programs < 1 or options.workers < 1:
        parser.error("give 1 or more programs and workers")
    if not CERTIFY.exists():
        parser.error("there is no checker: run 'make -C proofs checker'")
    check_interpreted(((), ()))  # the engine is compiled once, before there are workers to do it twice
    begun, results = time.perf_counter(), list[Result]()
    todo = parts(options.family or list(COMPARED), options.programs, options.seed)
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for result in pool.imap_unordered(compare, todo):
            results.append(result)
            for contradiction in result.contradictions:
                print(contradiction, flush=True)
            if time.perf_counter() - begun > options.seconds:
                break
    show(results)
    seconds = time.perf_counter() - begun
    print(f"\n{seconds:.0f} s, {options.workers} workers, seed {options.seed}")
    return 1 if any(result.contradictions for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
