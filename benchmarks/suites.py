"""Run the tests of a package that launches through the driver, module by module, under `wsemu run`, and count them.

    python benchmarks/suites.py --python clients/bin/python numba
    python benchmarks/suites.py --python clients/bin/python cuda-core --folder cuda-python/cuda_core/tests

The tests of numba-cuda are in its wheel; those of cuda.core are in its repository.  Findings of `wsemu` do not fail a
test: the line of a module also shows the verdicts of its launches.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

LIST = """
import pathlib, numba.cuda.tests
root = pathlib.Path(numba.cuda.tests.__file__).parent
for file in sorted(root.glob("*/test_*.py")):
    if file.parent.name not in ("benchmarks", "cudasim"):
        print(f"numba.cuda.tests.{file.parent.name}.{file.stem}")
"""
UNITTEST = re.compile(r"^(?:FAILED|OK)(?: \((.*)\))?$", re.MULTILINE)
RAN = re.compile(r"^Ran (\d+) tests?", re.MULTILINE)
PYTEST = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")
SUMMARY = re.compile(r"\d+ kernels?, [\d,]+ launch(?:es)?: ([^;\n]*)")


def list_modules(python: str, options: argparse.Namespace) -> list[str]:
    """Return the modules or files of tests."""
    if options.suite == "numba":
        done = subprocess.run([python, "-c", LIST], check=True, capture_output=True, text=True)
        return done.stdout.split()
    return [str(path) for path in sorted(options.folder.rglob("test_*.py"))]


def run_module(python: str, module: str, options: argparse.Namespace, folder: str) -> str:
    """Run the tests of a module; return their output."""
    test = ["-m", "numba.runtests", "-v"] if options.suite == "numba" else ["-m", "pytest", "-q", "-x", "--tb=line"]
    if options.suite != "numba":
        test.remove("-x")
    command = [sys.executable, "-m", "wsemu", "run", "--budget", "30000000", "--", python, *test, module]
    ran = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True
    )
    try:
        return ran.communicate(timeout=options.seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)
        return ran.communicate()[0] + "\nout of time\n"


def count_tests(text: str, suite: str) -> Counter[str]:
    """Return how many tests of a module passed, failed and were skipped."""
    if suite != "numba":
        found = PYTEST.findall(text)
        return Counter({word: int(number) for number, word in found})
    ran, ended = RAN.search(text), UNITTEST.search(text)
    if ran is None or ended is None:  # cut off: count those that were printed
        return Counter(passed=len(re.findall(r"\bok$", text, re.MULTILINE)), cut=1)
    parts = dict(part.split("=") for part in (ended[1] or "").split(", ") if "=" in part)
    counts = Counter({name: int(number) for name, number in parts.items()})
    counts["passed"] = int(ran[1]) - sum(
        counts[name] for name in ("failures", "errors", "skipped", "expected failures")
    )
    return counts


def main() -> None:
    """Run the modules and print a line for each, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=("numba", "cuda-core"))
    parser.add_argument("--python", required=True, help="a Python with the package and its test requirements")
    parser.add_argument("--folder", type=Path, help="the tests of cuda.core")
    parser.add_argument("--seconds", type=float, default=120, help="time of a module")
    parser.add_argument("--only", default="", help="a part of the names of modules")
    parser.add_argument("--logs", type=Path, help="a folder for what the modules print")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for module in list_modules(options.python, options):
            if options.only not in module:
                continue
            text = run_module(options.python, module, options, folder)
            if options.logs:
                options.logs.mkdir(parents=True, exist_ok=True)
                (options.logs / f"{Path(module).name}.txt").write_text(text)
            counts = count_tests(text, options.suite)
            total += counts
            summary = SUMMARY.findall(text)
            words = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
            name, verdicts = module.removeprefix("numba.cuda.tests."), summary[-1] if summary else "no launches"
            print(f"{name}: {words or 'no tests'}; {verdicts}", flush=True)
    print(", ".join(f"{number} {word}" for word, number in total.items() if number))


if __name__ == "__main__":
    main()
