"""Write certificates of random programs that `wsemu` verifies; both judges must accept each.

    make -C proofs checker
    python proofs/random_certificates.py --programs 100000 --seed 1 --workers 2 [--seconds 600]

The programs are those of compare.py, in equal numbers of each family.  The table counts for each family the programs
that are verified and the certificates that both judges accept; the list below it, launches beyond the theorem.  A
refused certificate is printed; exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from proofs import certify  # noqa: E402
from proofs.compare import CHUNK, COMPARED, EngineRefusesError, Part, parts, screening  # noqa: E402
from tests.properties.programs import check_interpreted  # noqa: E402
from wsemu.launch.certificate import BeyondTheoremError, write_certificate  # noqa: E402
from wsemu.launch.hooks import traceable  # noqa: E402

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.outcome import Tracer

EXTRACTED: Final = ROOT / "proofs" / "ocaml" / "wsemu-certify"


class Judged(NamedTuple):
    """The result of a chunk of programs."""

    family: str
    programs: int
    verified: int
    accepted: int
    beyond: Counter[str]
    refused: list[str]
    """certificates that a judge refuses"""


class _Written:
    """Gathers the certificates of verified launches."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.beyond: Counter[str] = Counter()

    def look(self, report: Report, places: Places, trace_of: Tracer) -> None:
        if report.verdict == "verified":
            try:
                self.texts.append(write_certificate(report, places, trace_of))
            except BeyondTheoremError as beyond:
                self.beyond[str(beyond)] += 1


def judge_part(part: Part) -> Judged:
    """Check the programs of a part, and judge the certificates of those that are verified."""
    family, source, written = COMPARED[part.family], random.Random(part.seed), _Written()
    with traceable.adding_own(written.look), screening():
        for _ in range(part.programs):
            with contextlib.suppress(EngineRefusesError):
                family.check(family.draw(source))
    refused = [text for text in written.texts if certify.judge(certify.parse(text)[0])]
    refused += _refused_by_extracted(written.texts)
    verified = len(written.texts) + written.beyond.total()
    return Judged(part.family, part.programs, verified, len(written.texts) - len({*refused}), written.beyond, refused)


def _refused_by_extracted(texts: list[str]) -> list[str]:
    """Return the certificates that the extracted checker does not accept."""
    if not texts:
        return []
    with tempfile.NamedTemporaryFile("w", suffix=".cert", encoding="utf-8") as file:
        file.write("".join(texts))
        file.flush()
        said = subprocess.run([str(EXTRACTED), file.name], capture_output=True, text=True, check=False).stdout
    verdicts = [line for line in said.splitlines() if line.startswith(("accepted", "refused"))]
    if len(verdicts) != len(texts):
        return texts
    return [text for text, verdict in zip(texts, verdicts, strict=True) if verdict.startswith("refused")]


def main() -> int:
    """Judge as many certificates as the command line says; return 1 if one is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10000, metavar="N", help="programs in all (10000)")
    parser.add_argument("--seed", type=int, default=1, help="of the programs (1)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (1)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    options = parser.parse_args()
    if not EXTRACTED.exists():
        parser.error("there is no checker: run 'make -C proofs checker'")
    families = [name for name in COMPARED if name != "wgmma"]  # the theorem does not cover the operations of wgmma
    todo = parts(dict.fromkeys(families, max(CHUNK, options.programs // len(families))), options.seed, 1)
    rows = {name: Counter[str]() for name in (*families, "all")}
    beyond, is_refused, begun = Counter[str](), False, time.perf_counter()
    check_interpreted(((), ()))  # the engine is compiled once, before there are workers to do it twice
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for judged in pool.imap_unordered(judge_part, todo):
            counted = Counter(programs=judged.programs, verified=judged.verified, accepted=judged.accepted)
            for name in (judged.family, "all"):
                rows[name].update(counted)
            beyond.update(judged.beyond)
            for text in judged.refused:
                is_refused = True
                print(f"{judged.family}: refused:\n{text}", flush=True)
            if time.perf_counter() - begun > options.seconds:
                break
    print(f"{'family':10} {'programs':>9} {'verified':>9} {'accepted':>9}")
    for name, row in rows.items():
        print(f"{name:10} {row['programs']:>9,} {row['verified']:>9,} {row['accepted']:>9,}")
    for reason, number in beyond.most_common():
        print(f"{number:9,}  {reason}")
    print(f"{time.perf_counter() - begun:.0f} s, {options.workers} workers, seed {options.seed}")
    return int(is_refused)


if __name__ == "__main__":
    sys.exit(main())
