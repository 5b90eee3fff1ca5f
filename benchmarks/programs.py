"""Run the programs in a folder unmodified, and print a table: exit codes, own messages of success, verdicts, seconds.

    python benchmarks/programs.py built --seconds 60 --words benchmarks/samples.txt

A program is an executable file in the folder, or one in a subfolder of the same name.  It runs in its own folder under
`wsemu run`.  A file of words has a line for each program: its name, then its arguments.  Options of `wsemu run` come
before the arguments and end with `--`.  Nothing is downloaded.  Build the programs first, each in its folder, such as
NVIDIA's cuda-samples:

    nvcc -gencode arch=compute_90a,code=compute_90a -lineinfo -I ../../../Common -I . *.cu *.cpp -o NAME
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

PASSED = re.compile(
    r"\bPASS(ED)?\b|\bSUCCESS(FUL(LY)?)?\b|completed,? returned OK|Test passed|^OK\b|results? (match|ok)|: OK\b",
    re.IGNORECASE | re.MULTILINE,
)
FAILED = re.compile(r"\bFAIL(ED|URE)?\b|CUDA error|returned ERROR", re.MULTILINE)
SUMMARY = re.compile(r"\d+ kernels?, [\d,]+ launch(?:es)?: ([^;\n]*)")
CODES = re.compile(r"^error\[([\w-]+)\]", re.MULTILINE)


class Result(NamedTuple):
    """How a program ended."""

    name: str
    code: str
    passed: str
    verdict: str
    seconds: float
    cpu: float
    why: str


def find_programs(folder: Path) -> list[Path]:
    """Return the executables in a folder, and those in its subfolders that have the name of their subfolder."""
    found = [path / path.name if path.is_dir() else path for path in sorted(folder.iterdir())]
    return [path for path in found if path.is_file() and os.access(path, os.X_OK)]


def run_program(program: Path, command: list[str], extra: list[str], options: argparse.Namespace) -> Result:
    """Run the command of a program under `wsemu run` with extra options, for a time."""
    wsemu = [sys.executable, "-m", "wsemu", "run", "--budget", str(options.budget), *extra, "--"]
    start, before = time.perf_counter(), measure_cpu()
    ran = subprocess.Popen(
        [*wsemu, *command], cwd=program.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        output, code = ran.communicate(timeout=options.seconds)[0], str(ran.returncode)
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)
        output, code = ran.communicate()[0], "time"
    seconds, cpu = time.perf_counter() - start, measure_cpu() - before
    text = output.decode(errors="replace")
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
        (options.logs / f"{program.name}.txt").write_text(text)
    return describe_run(program.name, code, text, (seconds, cpu))


def measure_cpu() -> float:
    """Return the CPU seconds of all processes that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def describe_run(name: str, code: str, text: str, seconds: tuple[float, float]) -> Result:
    """Return the row of a program that printed `text`."""
    lines = [line for line in text.splitlines() if not line.startswith(("launch ", "error[", " ", "wsemu"))]
    own = "\n".join(line for line in lines if not SUMMARY.match(line))
    passed = "yes" if PASSED.search(own) and not FAILED.search(own) else "no" if FAILED.search(own) else "-"
    summaries = SUMMARY.findall(text)
    codes = ", ".join(dict.fromkeys(CODES.findall(text)))
    missing = dict.fromkeys(re.findall(r"the program calls `(\w+)`", text))
    why = ", ".join(filter(None, [codes, *missing]))
    return Result(name, code, passed, summaries[-1] if summaries else "-", *seconds, why)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all tables."""
    parser.add_argument("--only", nargs="*", default=[], help="names of programs, or their beginnings")
    parser.add_argument("--seconds", type=float, default=60, help="time of a program")
    parser.add_argument("--budget", type=int, default=300_000_000, help="warp instructions of a launch")
    parser.add_argument("--logs", type=Path, help="a folder for the output of programs")


def print_table(
    commands: Mapping[Path, list[str]], options: argparse.Namespace, extra: Mapping[str, list[str]] | None = None
) -> None:
    """Run programs by their commands, with extra options of `wsemu run` by name, and print the table."""
    results = []
    print("| program | exit code | passed | verdict | seconds | CPU | |\n|---|---|---|---|---|---|---|")
    for program, command in commands.items():
        if options.only and not program.name.startswith(tuple(options.only)):
            continue
        done = run_program(program, command, (extra or {}).get(program.name, []), options)
        results.append(done)
        row = (done.name, done.code, done.passed, done.verdict, f"{done.seconds:.1f}", f"{done.cpu:.1f}", done.why)
        print(f"| {' | '.join(row)} |", flush=True)
    ended = sum(one.code in ("0", "1", "3") for one in results)
    verified = sum(one.code == "0" for one in results)
    passed = sum(one.passed == "yes" and one.code != "time" for one in results)
    print(f"\n{len(results)} programs: {passed} print that they passed, {verified} verified, {ended} ended in time")


def main() -> None:
    """Run the programs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--words", type=Path, help="a file of arguments, a line for a program; it selects the programs")
    add_options(parser)
    options = parser.parse_args()
    rows = [shlex.split(line) for line in options.words.read_text().splitlines() if line] if options.words else []
    commands, extra = {}, {}
    words = {name: given for name, *given in rows}
    for program in find_programs(options.folder):
        if options.words and program.name not in words:
            continue
        given = words.get(program.name, [])
        if "--" in given:
            end = given.index("--")
            extra[program.name], given = given[:end], given[end + 1 :]
        commands[program] = [str(program), *given]
    print_table(commands, options, extra)


if __name__ == "__main__":
    main()
