"""Compare `wsemu` with the checker that Coq extracts, on random programs: if `wsemu` verifies one, so must the checker.

    make -C proofs checker
    python proofs/compare.py --programs 10000 --seed 1 --workers 2 --seconds 200 [--family clusters]
    python proofs/compare.py --total 1000000 --workers 16 --results compare.jsonl

Families: named barriers (`barriers`), mbarriers and copies (`phases`), the same in a cluster (`clusters`), clusters and
asynchronous agents (`ring`, `groups`, `mixed`; agents.py), `wgmma` groups (`wgmma`).  `--total` divides a number of
programs among all families but `wgmma`, by `SHARES`.  The programs depend on the seed alone.

The checker judges every program.  What `wsemu` does depends on the answer:

refused       The engine runs it.  If the run fails or has a finding that is an error, the verdict cannot be `verified`,
              and no report is made; for one of `--sample` such programs it is, and must agree.  Otherwise the program
              is checked as by `wsemu.check`.
proven        One of `--sample` programs is checked as by `wsemu.check`; the others cannot be contradictions.
out of reach  As proven.

A program that `wsemu` verifies and the checker refuses is a contradiction; exit code 1.  The first table counts
programs by both verdicts, the second one the sampled programs that `wsemu` rejects and the checker proves, by the codes
of `wsemu`.  It also rejects programs for reasons that the theorem does not need: proxies, copies that outlive their
CTA, leftover bytes.  The third one counts sampled ones that the model cannot express, by feature.

`--results FILE` appends the result of each part of the programs to a file; a later run with the same options goes on
from there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
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
from wsemu.launch import examined  # noqa: E402
from wsemu.model.codes import CODES  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import wsemu
    from tests.properties import explorer, phase_explorer

CERTIFY: Final = ROOT / "proofs" / "ocaml" / "certify"
CHUNK: Final = 100
"""programs that a worker takes at a time"""
BOTH_VERIFY, BOTH_REFUSE, STRICTER, BEYOND, UNSAMPLED, CONTRADICTION = (
    "both verify",
    "both refuse",
    "wsemu alone refuses",
    "out of reach",
    "proven, not sampled",
    "contradictions",
)
OUTCOMES: Final = (BOTH_VERIFY, BOTH_REFUSE, STRICTER, BEYOND, UNSAMPLED, CONTRADICTION)
SHARES: Final = {"barriers": 1, "phases": 3, "clusters": 2, "ring": 2, "groups": 1, "mixed": 1}
"""family -> its share of `--total`"""


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
    sample: int = 1
    """one of so many programs that need no report gets one"""


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


class EngineRefusesError(Exception):
    """The run of a program fails or has errors, so its verdict is not `verified`."""


@contextlib.contextmanager
def screening() -> Iterator[None]:
    """Raise EngineRefusesError for launches inside that the engine refuses, before a report is made."""
    judge = examined.judge_run

    def judge_run(kernel: Any, bound: Any, notes: Any, run: Any, *more: Any, **options: Any) -> examined.Examined:
        outcome = run[0]
        if outcome.status != "done" or any(CODES[raw.code].severity == "error" for raw in outcome.findings):
            raise EngineRefusesError
        return judge(kernel, bound, notes, run, *more, **options)

    examined.judge_run = judge_run
    try:
        yield
    finally:
        examined.judge_run = judge


def is_refused(family: Family, program: Any) -> bool:
    """Return whether the engine refuses a program; if not, the program has to be checked."""
    with screening():
        try:
            family.check(program)
        except EngineRefusesError:
            return True
    return False


def compare(part: Part) -> Result:
    """Compare both verdicts on the programs of a part."""
    family, source = COMPARED[part.family], random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), Counter(), [])
    programs = [family.draw(source) for _ in range(part.programs)]
    lines = [family.write(program) for program in programs]
    for n, (program, line, proof) in enumerate(zip(programs, lines, certify(lines), strict=True)):
        proven, sampled = proof == "verified", n % part.sample == 0
        feature = proof.removeprefix("out of reach: ") if proof.startswith("out of reach") else ""
        if proven or feature:
            if not sampled:
                result.outcomes[UNSAMPLED if proven else BEYOND] += 1
                continue
        elif is_refused(family, program):
            if sampled and family.check(program).verdict == "verified":
                result.contradictions.append(f"{part.family}: verified with errors of the engine: {line}")
            result.outcomes[BOTH_REFUSE] += 1
            continue
        _compare_reports(result, family.check(program), proof, feature, line)
    return result


def _compare_reports(result: Result, report: wsemu.Report, proof: str, feature: str, line: str) -> None:
    """Count a program of which there is a report."""
    verified, proven = report.verdict == "verified", proof == "verified"
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
        result.contradictions.append(f"{result.family}: the checker refuses ({proof}): {line}")
    result.outcomes[outcome] += 1


def parts(programs: dict[str, int], seed: int, sample: int) -> list[Part]:
    """Return all that is to be done: a part of each family in turn; `programs` is how many there are of each."""
    found = [
        (start, Part(family, f"{family} {seed} {start}", min(CHUNK, number - start), sample))
        for family, number in programs.items()
        for start in range(0, number, CHUNK)
    ]
    return [part for _, part in sorted(found, key=lambda one: one[0])]


def read_results(file: Path | None) -> dict[str, Result]:
    """Return the results in a file of `--results`, by the parts that they are of; the last line may be cut off."""
    found: dict[str, Result] = {}
    if file is None or not file.exists():
        return found
    for line in file.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            part, family, outcomes, stricter, beyond, contradictions = json.loads(line)
            found[part] = Result(family, Counter(outcomes), Counter(stricter), Counter(beyond), contradictions)
    return found


def compare_named(part: Part) -> tuple[str, Result]:
    """Compare a part; return its name and its result."""
    return _name(part), compare(part)


def _name(part: Part) -> str:
    return f"{part.seed}, {part.programs} programs, sample {part.sample}"


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
    reported = total.outcomes[BOTH_VERIFY] + total.outcomes[STRICTER]
    print(f"\nproven, refused by wsemu: {total.outcomes[STRICTER]:,} of {reported:,} sampled programs that are proven")
    for codes, number in total.stricter.most_common():
        print(f"{number:9,} {number / max(reported, 1):7.2%}  {codes}")
    print(f"\nout of reach: {total.outcomes[BEYOND]:,}, of which {total.beyond.total():,} were sampled")
    for feature, number in total.beyond.most_common():
        print(f"{number:9,}  {feature}")


def main() -> int:
    """Run the comparison of the command line; return 1 if there is a contradiction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=COMPARED, action="append", help="a family (all); may be repeated")
    parser.add_argument("--programs", type=int, default=10000, metavar="N", help="programs of a family (10000)")
    parser.add_argument("--total", type=int, default=0, metavar="N", help="programs of all families, by their shares")
    parser.add_argument("--sample", type=int, default=10, metavar="N", help="report one of N that need none (10)")
    parser.add_argument("--seed", type=int, default=1, help="of the programs (1)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (1)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append results there, and go on from those there")
    options = parser.parse_args()
    if min(options.programs, options.workers, options.sample) < 1 or options.total < 0:
        parser.error("give 1 or more programs, workers, and programs of a sample")
    if not CERTIFY.exists():
        parser.error("there is no checker: run 'make -C proofs checker'")
    shares = {family: SHARES.get(family, 0) for family in options.family or SHARES}
    numbers = (
        {family: options.total * share // max(1, sum(shares.values())) for family, share in shares.items()}
        if options.total
        else dict.fromkeys(options.family or COMPARED, options.programs)
    )
    done = read_results(options.results)
    todo = parts(numbers, options.seed, options.sample)
    results = [done[_name(part)] for part in todo if _name(part) in done]
    begun, rest = time.perf_counter(), [part for part in todo if _name(part) not in done]
    check_interpreted(((), ()))  # the engine is compiled once, before there are workers to do it twice
    with (
        multiprocessing.get_context("spawn").Pool(options.workers) as pool,
        options.results.open("a", encoding="utf-8") if options.results else contextlib.nullcontext() as file,
    ):
        for name, result in pool.imap_unordered(compare_named, rest):
            results.append(result)
            if file is not None:
                print(json.dumps([name, *result]), file=file, flush=True)
            for contradiction in result.contradictions:
                print(contradiction, flush=True)
            if time.perf_counter() - begun > options.seconds:
                break
    show(results)
    seconds = time.perf_counter() - begun
    print(f"\n{seconds:.0f} s, {options.workers} workers, seed {options.seed}, {len(results)} of {len(todo)} parts")
    return 1 if any(result.contradictions for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
