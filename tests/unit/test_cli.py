"""`wsemu check FILE`, as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.commands import python, wsemu
from wsemu import cli
from wsemu.app import commands, front_page
from wsemu.app.command_line import app
from wsemu.app.options import Tier
from wsemu.app.program import run
from wsemu.machine.tier import hot
from wsemu.model.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

HEADER = """\
import sys
import numpy as np
from wsemu import cuda, ptx

@cuda.jit
def good(x):
    x[cuda.grid(1)] += 1

@cuda.jit
def stuck(x):
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(1, 64)

x = np.zeros(64, np.float32)
"""


@pytest.fixture
def program(tmp_path):
    """Write a program that starts with HEADER and check it; returns what came of it."""

    def check(body: str, *arguments: object, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "program.py"
        file.write_text(HEADER + body)
        done = wsemu("check", *options, file.name, *arguments, cwd=tmp_path)
        assert done.returncode == 4 or "wsemu/" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done

    return check


def untimed(text: str) -> str:
    return re.sub(r"\d+\.\d\d s", "0.00 s", text)


def test_it_is_a_program_and_a_module(tmp_path):
    (tmp_path / "program.py").write_text(f"{HEADER}stuck[1, 64](x)\ngood[2, 32](x)\n")
    commands_ = ([Path(sys.executable).with_name("wsemu")], [sys.executable, "-m", "wsemu.cli"])
    options = ["run", "--fix-budget", "0", "program.py"]
    said = [subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
            for command in commands_ if Path(command[0]).exists()]  # fmt: skip
    here = wsemu("run", "program.py", cwd=tmp_path)
    assert here.returncode == 1
    assert {(done.returncode, untimed(done.stdout)) for done in said} == {(1, untimed(here.stdout))}


def test_help_and_version():
    assert "check" in wsemu("--help").stdout
    assert wsemu("--version").stdout.startswith("wsemu 0.")
    assert "--no-fma" in wsemu("check", "--help").stdout


def test_without_arguments_the_help_has_lines(capsys):
    with pytest.raises(SystemExit) as ended:
        app([], prog_name="wsemu")
    said = "".join(capsys.readouterr())
    assert ended.value.code == 2
    assert said.startswith("Usage: wsemu [OPTIONS] COMMAND [ARGS]...\n\n")
    assert "\N{REPLACEMENT CHARACTER}" not in said


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], ("numba", "numpy", "pydantic", "rich", "typer")),
        (["check", "--help"], ("numba", "numpy", "rich")),
    ],
)
def test_help_is_fast(arguments, unneeded):
    code = (
        "import atexit, sys, wsemu.cli; sys.argv[1:] = sys.argv[1].split()\n"
        f"atexit.register(lambda: print([m for m in {unneeded} if m in sys.modules]))\n"
        "wsemu.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code, " ".join(arguments)], capture_output=True, text=True)
    assert done.stdout.startswith("Usage: wsemu ")
    assert done.stdout.endswith("\n[]\n")


def test_a_check_of_a_small_program_loads_what_it_needs(tmp_path):
    (tmp_path / "small.py").write_text(
        "import numpy as np\nfrom wsemu import cuda\n\n@cuda.jit\ndef k(x):\n    x[cuda.grid(1)] += 1\n\n"
        "k[1, 32](np.zeros(32))\n"
    )
    unneeded = ("asyncio", "pydantic", "typer", "wsemu.language.ptx_names")
    code = (
        "import atexit, sys, wsemu.cli; sys.argv[1:] = ['check', 'small.py']\n"
        f"atexit.register(lambda: print([m for m in {unneeded} if m in sys.modules]))\n"
        "wsemu.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert "verified" in done.stdout
    assert done.stdout.endswith("\n[]\n")


def test_the_page_of_help_has_the_commands_and_their_options():
    group: Any = get_command(app)
    assert list(front_page.COMMANDS) == list(group.commands)
    context = group.make_context("wsemu", [], resilient_parsing=True)
    options = {name for parameter in group.get_params(context) for name in parameter.opts}
    assert {name for names in front_page.OPTIONS for name in names.split(", ")} == options


@pytest.mark.parametrize("columns", ["30", "50", "63", "80", "200"])
def test_the_page_of_help_fits_the_terminal(columns):
    said = wsemu("--help", COLUMNS=columns).stdout
    assert max(map(len, said.splitlines())) <= max(50, min(int(columns) - 2, 78))
    assert [name for name in front_page.COMMANDS if f"\n  {name} " not in said] == []


def test_a_verified_launch(program):
    done = program("good[2, 32](x)\nprint('sum', int(x.sum()))")
    assert done.returncode == 0
    assert "good[grid 2, block 32]  verified: " in done.stdout
    assert done.stdout.endswith("sum 64\n")
    assert done.stderr == ""


def test_a_failed_launch_is_reported_and_the_program_goes_on(program):
    done = program("stuck[1, 64](x)\ngood[2, 32](x)\nprint('end')")
    assert done.returncode == 1
    assert "error[deadlock]: " in done.stdout
    assert "--> program.py:12:9" in done.stdout
    assert "stuck[grid 1, block 64]  failed: 1 error" in done.stdout
    assert "end\n2 kernels, 2 launches: 1 verified, 1 failed\n" in done.stdout


def test_an_incomplete_launch(program):
    body = "@cuda.jit\ndef endless(x):\n    while True:\n        x[0] += 1\n\ngood[2, 32](x)\nendless[1, 1](x)\n"
    done = program(body, options=("--budget", "1000"))
    assert done.returncode == 3
    assert "endless[grid 1, block 1]  incomplete: " in done.stdout
    assert "1,000 warp instructions" in done.stdout


def test_failed_goes_before_incomplete(program):
    body = "@cuda.jit\ndef endless(x):\n    while True:\n        x[0] += 1\n\nendless[1, 1](x)\nstuck[1, 64](x)\n"
    assert program(body, options=("--budget", "1000")).returncode == 1


@pytest.mark.parametrize(("kernel", "code"), [("good", 0), ("stuck", 1)])
def test_an_incomplete_launch_may_be_allowed_and_a_failed_one_may_not(tmp_path, kernel, code):
    body = f"good[1, 64](x)\n{kernel}[1, 64](x)\n"
    kernels = HEADER.replace("x[cuda.grid(1)] += 1", "for k in range(10**6):\n        x[cuda.grid(1)] += 1")
    (tmp_path / "program.py").write_text(kernels + body)
    command = ("check", "--budget", "1000", "program.py")
    assert wsemu(*command, cwd=tmp_path).returncode == (code or 3)
    done = wsemu(*command, "--allow-incomplete", cwd=tmp_path)
    assert done.returncode == code
    assert "incomplete" in done.stdout
    (tmp_path / "pyproject.toml").write_text("[tool.wsemu]\nallow-incomplete = true\n")
    assert wsemu(*command, cwd=tmp_path).returncode == code
    assert wsemu(*command, "--no-allow-incomplete", cwd=tmp_path).returncode == (code or 3)


def test_arguments_and_path_are_the_programs(program):
    done = program("good[2, 32](x)\nprint(sys.argv, sys.path[0])", "--", "--arch", "a b")
    directory = done.stdout.splitlines()[-1].partition("] ")[2]
    assert "['program.py', '--arch', 'a b']" in done.stdout
    assert Path(directory).name == Path(os.path.realpath(directory)).name
    assert Path(directory).is_absolute()


def test_explain_names_the_page_of_a_rule():
    done = wsemu("explain", "M21")
    text = " ".join(done.stdout.split())
    assert done.returncode == 2
    assert "`M21` is the number of a rule: see" in text
    assert "wsemu explain dangling-phase" in text
    assert "semantics.html" in text
    assert "no finding code 'Z99'" in wsemu("explain", "Z99").stdout


def test_usage_errors(program, tmp_path):
    done = wsemu("check", tmp_path / "none.py")
    assert done.returncode == 2
    assert "none.py` does not exist: give a Python file" in " ".join(done.stdout.split())
    nope = " ".join(wsemu("run", tmp_path / "nope").stdout.split())
    assert "does not exist: give a Python file" in nope
    assert "an executable or a script" in nope
    assert "is a folder, not a program" in " ".join(wsemu("check", tmp_path).stdout.split())
    assert wsemu("check").returncode == 2
    assert wsemu("check", "--budget", "0", tmp_path).returncode == 2
    done = program("print('nothing')")
    assert done.returncode == 2
    assert "`program.py` launched no kernel: call one as `kernel[grid, block](...)`" in done.stdout
    done = program("good[2, 32](x)", options=("--arch", "sm_1"))
    assert done.returncode == 2
    assert "unknown arch 'sm_1': use one of" in done.stdout


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("good[1, 1025](x)", "block of 1,025 threads: at most 1,024 on sm_90"),
        ("good[1, 32]()", "missing `x`"),
        ("good[1, 32]([1, 2])", "list"),
        ("good(x)", "called without a launch configuration"),
    ],
)
def test_a_wrong_launch_has_a_message_and_exit_code_2(program, body, message):
    done = program(body)
    assert done.returncode == 2
    assert message in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("wrong", ["good[1, 2048]", "CudaDMASequential(1, 33, 64, 64, 256)"])
def test_wrong_usage_is_shown_where_the_program_has_it(program, wrong):
    result = program(f"from wsemu.patterns import CudaDMASequential\nused = {wrong}\n")
    assert result.returncode == 2
    assert " --> program.py:" in result.stdout
    assert f"| used = {wrong}\n" in result.stdout


@pytest.mark.parametrize("command", ["check", "run", "trace", "lean"])
def test_the_tier_is_that_of_the_option_here_and_in_processes_that_are_started(tmp_path, command):
    (tmp_path / "program.py").write_text(
        f"{HEADER}import subprocess\nfrom wsemu.machine.tier import hot\n"
        "there = [sys.executable, '-c', 'import os; print(os.environ[\"WSEMU_TIER\"])']\n"
        "print('here', hot.resolve_tier(), 'there', subprocess.run(there, capture_output=True, text=True).stdout)\n"
        "good[2, 32](x)\n"
    )
    done = wsemu(command, "--tier", "off", "program.py", cwd=tmp_path, WSEMU_TIER="always")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "here off there off\n" in done.stdout


def test_programs_get_blocks_at_once_where_that_is_asked_for(tmp_path):
    (tmp_path / "program.py").write_text(f"{HEADER}good[2, 32](x)\n")
    said = {}
    for tier in ("off", "always"):
        done = wsemu("check", "--tier", tier, "program.py", cwd=tmp_path, WSEMU_CACHE_DIR=str(tmp_path / tier))
        said[tier] = untimed(done.stdout)
        assert done.returncode == 0
        assert bool([*(tmp_path / tier).glob("vm-block_*.bin")]) == (tier == "always")
    assert said["off"] == said["always"]


def test_without_the_option_the_tier_is_that_of_the_environment(program, monkeypatch):
    says = "from wsemu.machine.tier import hot\nprint(hot.resolve_tier())\ngood[2, 32](x)"
    for value, meant in (("always", "always"), ("off", "off"), ("", "auto")):
        monkeypatch.setenv("WSEMU_TIER", value)
        assert f"{meant}\n" in program(says).stdout
        assert os.environ["WSEMU_TIER"] == value
    monkeypatch.setenv("WSEMU_TIER", "often")
    assert "off\n" in program(says, options=("--tier", "off")).stdout
    done = program("good[2, 32](x)")
    assert done.returncode == 2
    message = " ".join(done.stdout.split())
    assert "WSEMU_TIER is 'often': set it to one of auto, off, always, restless, or to nothing" in message


@pytest.mark.parametrize("command", ["check", "run", "trace", "lean", "fuzz", "sweep", "mutate"])
def test_a_tier_that_there_is_not_is_wrong_usage(command, tmp_path):
    done = wsemu(command, "--tier", "often", "program.py", cwd=tmp_path, WSEMU_TIER="auto")
    assert done.returncode == 2
    message = " ".join(done.stderr.split())
    assert "error: invalid value for '--tier'" in message
    assert "'often' is not one of 'auto', 'off', 'always', 'restless'" in message


def test_the_tiers_of_the_option_are_those_of_the_machine():
    assert tuple(Tier) == hot.TIERS
    shown = " ".join(wsemu("check", "--help").stdout.split())
    assert "--tier auto|off|always Compile the hot regions" in shown
    assert "`restless` is for tests" in shown


def test_crosscheck_has_the_settings_of_the_project(program, tmp_path):
    program("stuck[1, 64](x)")  # writes the file
    table = tmp_path / "pyproject.toml"
    table.write_text("[tool.wsemu]\nskip = ['deadlock']\n")
    assert "its checker is off" in wsemu("crosscheck", "program.py", cwd=tmp_path).stdout
    table.write_text("[tool.wsemu]\narch = 'sm_1'\n")
    refused = wsemu("crosscheck", "program.py", "--seconds", "1", cwd=tmp_path)
    assert refused.returncode == 2
    assert "unknown arch 'sm_1'" in refused.stdout
    assert "invalid value for '--seconds'" in wsemu("crosscheck", "program.py", "--seconds", "0", cwd=tmp_path).stderr


def test_a_kernel_that_does_not_compile_is_shown_with_its_place(program):
    done = program("@cuda.jit\ndef wrong(x):\n    x[0] = unknown_name\n\nwrong[1, 32](x)")
    assert done.returncode == 2
    assert "--> program.py:17:12\n" in done.stdout
    assert "17 |     x[0] = unknown_name\n   |            ^^^^^^^^^^^^\n" in done.stdout


def test_what_is_not_supported_is_not_clean(program):
    done = program(
        """
@cuda.jit
def tries(x):
    try:
        x[0] = 1
    except ValueError:
        pass

tries[1, 32](x)
"""
    )
    assert done.returncode == 3
    assert "unsupported: " in done.stdout
    assert "--> program.py:18:" in done.stdout


def test_a_program_that_raises(program):
    done = program("good[2, 32](x)\ndef helper():\n    raise ValueError('odd')\nhelper()")
    assert done.returncode == 1
    assert "the program raised an exception:\n" in done.stdout
    assert done.stdout.endswith("    raise ValueError('odd')\nValueError: odd\n")


def test_a_program_that_raises_after_a_failed_launch(program):
    done = program("stuck[1, 64](x)\nassert x.sum() == 64, 'wrong sum'")
    assert done.returncode == 1
    assert "the program raised an exception after 1 failed launch: " in done.stdout
    assert done.stdout.endswith("AssertionError: wrong sum\n")


def test_a_program_that_stops(program):
    assert program("good[2, 32](x)\nsys.exit()").returncode == 0
    done = program("good[2, 32](x)\nsys.exit('sums differ')")
    assert done.returncode == 1
    assert "the program stopped: sums differ\n" in done.stdout
    done = program("sys.exit('n must be even')")
    assert done.returncode == 2
    assert "the program stopped before it launched a kernel: n must be even" in done.stdout


ODD = {
    "raise BaseException('odd')": "BaseException: odd",
    "class Mine(BaseException): pass\nraise Mine('odd')": "Mine: odd",
    "raise GeneratorExit": "GeneratorExit",
    "raise BrokenPipeError('odd')": "BrokenPipeError: odd",
    "class Bad(Exception):\n    def __str__(self): return 3\nraise Bad": "Bad",
    "good.nothing": "AttributeError: kernel `good` has no attribute `nothing`",
}


@pytest.mark.parametrize("body", ODD)
def test_whatever_a_program_raises_is_its_own(tmp_path, capsys, body):
    file = tmp_path / "program.py"
    file.write_text(f"{HEADER}good[2, 32](x)\n{body}\n")
    assert run(file, [], Settings()) == 1
    out = capsys.readouterr().out
    assert "the program raised an exception:\n" in out
    assert f'program.py", line {(HEADER + body).count(chr(10)) + 2}, in <module>' in out
    assert ODD[body] in out.splitlines()[-1]


def test_a_program_that_stops_with_what_has_no_text(tmp_path, capsys):
    file = tmp_path / "program.py"
    file.write_text("class Bad:\n    def __str__(self): raise ValueError\nraise SystemExit(Bad())\n")
    assert run(file, [], Settings()) == 2
    assert "an object of type Bad, whose text raises an exception" in " ".join(capsys.readouterr().out.split())


def test_of_a_deep_recursion_a_few_calls_are_shown(tmp_path, capsys):
    file = tmp_path / "program.py"
    file.write_text("def one(n): return two(n)\ndef two(n): return one(n)\none(0)\n")
    assert run(file, [], Settings()) == 2
    out = capsys.readouterr().out
    assert re.search(r"line 3, in <module>\n    one\(0\)\n(    .*\n)?  \.\.\. \d+ calls more\n", out)
    assert len(out.splitlines()) < 25


@pytest.mark.parametrize("taken", ["sys.stdout.close()", "sys.stdout = None"])
@pytest.mark.parametrize("format_", ["text", "json"])
def test_a_program_that_takes_its_output_away(tmp_path, taken, format_):
    (tmp_path / "program.py").write_text(f"{HEADER}{taken}\ngood[2, 32](x)\n")
    done = wsemu("check", "--format", format_, "program.py", cwd=tmp_path)
    assert done.returncode == 0
    assert "verified" in done.stdout + done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a shell and the devices of a Unix")
@pytest.mark.parametrize(("where", "code", "words"), [
    ("> /dev/full", 2, "error: the output: No space left on device\n"), (">&-", 0, ""), (">&- 2>&-", 0, ""),
])  # fmt: skip
def test_output_that_cannot_be_written(tmp_path, where, code, words):
    (tmp_path / "program.py").write_text(f"{HEADER}good[2, 32](x)\n")
    command = f"'{sys.executable}' -m wsemu.cli check program.py {where}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, words)


def test_an_error_outside_of_a_program_is_told(capsys):
    with pytest.raises(ValueError, match="odd") as raised:
        raise ValueError("odd \x1b[2J")
    assert commands.report_unexpected_error(raised.value) == 4
    assert re.match(r"internal error: ValueError: odd .\[2J \(test_cli\.py:\d+\)\n", capsys.readouterr().err)
    assert commands.report_unexpected_error(FileNotFoundError(2, "No such file or directory", "gone")) == 2
    assert capsys.readouterr().err == "error: `gone`: No such file or directory\n"


def test_wrong_options_are_told_without_control_characters(tmp_path):
    done = wsemu("doctor", "\u202e\x1b[2J", cwd=tmp_path)
    assert done.returncode == 2
    assert all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr)


def test_a_syntax_error_in_the_program(program):
    done = program("good[2, 32](x\n")
    assert done.returncode == 2
    assert "SyntaxError: '[' was never closed" in done.stdout or "SyntaxError: '(' was never closed" in done.stdout


def test_a_device_function_that_raises_on_the_host_is_the_programs(program):
    done = program("@cuda.jit(device=True)\ndef half(v):\n    return v / 0\ngood[2, 32](x)\nhalf(1)\n")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stdout


@pytest.mark.parametrize("wrong", ["wsemu.check_transfer(3, no_such=1)", "wsemu.no_such", "cuda.no_such"])
def test_a_wrong_name_is_no_error_of_wsemu(program, wrong):
    done = program(f"import wsemu\n{wrong}\n")
    assert done.returncode == 2
    assert "the program raised an exception before it launched a kernel:" in done.stdout
    assert "no_such" in done.stdout
    assert "internal error" not in done.stdout


def test_an_error_of_wsemu_itself_asks_for_a_report(program, monkeypatch):
    monkeypatch.setattr("wsemu.launch.kernel.configure", None)
    done = program("good[2, 32](x)\n")
    assert done.returncode == 4
    assert "internal error: TypeError: " in done.stdout
    assert "please report it" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_an_interrupted_run_says_what_is_known(tmp_path):
    file = tmp_path / "slow.py"
    file.write_text(HEADER + "good[2, 32](x)\nimport time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "wsemu.cli", "check", str(file)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    lines = [line for line in iter(process.stdout.readline, "ready\n") if line]
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=20)
    assert "verified" in "".join(lines)
    assert "interrupted after 1 launches" in rest or "interrupted after 1 launch" in rest
    assert process.returncode == 130


@pytest.mark.parametrize(("name", "size"), [("sgemv", 128), ("saxpy", 2048)])
def test_examples_are_verified(name, size):
    done = wsemu("check", EXAMPLES / f"{name}.py", size)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified" in done.stdout
    assert "bit for bit" in done.stdout


def test_an_example_is_verified_on_the_reference_engine(monkeypatch):
    from wsemu.reference import run

    ran, before = [], run.run

    def noted(*given, **options):
        ran.append(given)
        return before(*given, **options)

    monkeypatch.setattr(run, "run", noted)
    done = wsemu("check", "--engine", "reference", EXAMPLES / "producer_consumer.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified" in done.stdout
    assert ran


@pytest.mark.parametrize("name", ["both_wait_first", "early_exit", "no_start"])
def test_broken_examples_deadlock(name):
    done = wsemu("check", EXAMPLES / "broken" / f"{name}.py")
    assert done.returncode == 1
    assert "error[deadlock]: " in done.stdout
    assert f"examples{os.sep}broken{os.sep}{name}.py:" in done.stdout


def test_an_example_says_which_sizes_it_takes():
    done = wsemu("check", EXAMPLES / "sgemv.py", 1000)
    assert done.returncode == 2
    assert "n is 1000: give a positive multiple of 128" in " ".join(done.stdout.split())


def test_an_example_runs_as_a_plain_program():
    done = subprocess.run([sys.executable, EXAMPLES / "sgemv.py", "256"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "sgemv: 256 x 256, equal to NumPy's float32 in the kernel's order, bit for bit\n"


def test_a_broken_example_raises_as_a_plain_program():
    file = EXAMPLES / "broken" / "both_wait_first.py"
    done = python(file)
    assert done.returncode == 1
    assert "wsemu.CheckFailed: error[deadlock]: " in done.stderr


SLOW = """
import numpy as np
from wsemu import cuda

@cuda.jit
def quick(x):
    x[0] = 1

@cuda.jit
def endless(x):
    while x[0] < 2:
        x[1] += 3

x = np.zeros(2, np.int32)
quick[1, 1](x)
endless[1, 1](x)
"""


def test_a_time_limit_says_what_was_decided_and_names_the_kernel(tmp_path, capsys):
    import signal

    from wsemu.app import program
    from wsemu.launch import hooks
    from wsemu.model.settings import Settings

    def soon(bound):
        if bound.program.name == "endless":
            signal.setitimer(signal.ITIMER_REAL, 0.1)

    hooks.starting.append(soon)
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    try:
        assert program.run(file, [], Settings(), time_limit=1000) == 3
    finally:
        hooks.starting.remove(soon)
    said = capsys.readouterr().out
    assert "quick[grid 1, block 1]  verified" in said
    assert "the time limit of 1000 s is reached in `endless`, after 1 launch" in " ".join(said.split())


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        ("check a.py", True), ("run a.py 1 b", True), ("check", False), ("check --every a.py", False),
        ("check a.py -x", False), ("check -- a.py", False), ("trace a.py", False), ("", False),
    ],
)  # fmt: skip
def test_without_options_nothing_that_reads_them_is_loaded(words, plain):
    assert cli._is_plain(words.split()) is plain


def test_completion_is_left_to_what_completes(monkeypatch):
    monkeypatch.setenv("_WSEMU_COMPLETE", "bash_complete")
    assert not cli._is_plain(["check", "a.py"])


@pytest.mark.parametrize("words", [("check", "missing.py"), ("run", "missing.py", "x"), ("check", "a.ptx", "x")])
def test_said_with_options_and_without_them_is_the_same(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    said = []
    for options in ((), ("--no-strict",)):
        monkeypatch.setattr(sys, "argv", ["wsemu", words[0], *options, *words[1:]])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        said.append((stopped.value.code, *capsys.readouterr()))
    assert said[0] == said[1]


def test_options_of_every_command_may_follow_the_file(program, tmp_path):
    program("good[2, 32](x)\nprint(sys.argv[1:])")
    done = wsemu("trace", "program.py", "-o", "page.html", "--launch", "1", "-m", "7", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "page.html").exists()) == (0, True), done.stdout
    assert "['-m', '7']" in done.stdout
    for name, option in (("check", "budget"), ("run", "budget"), ("lean", "budget"), ("crosscheck", "launches")):
        assert "invalid value for" in wsemu(name, "program.py", f"--{option}", "0", cwd=tmp_path).stderr
        done = wsemu(name, "program.py", f"--{option}", cwd=tmp_path)
        assert (done.returncode, f"option '--{option}' requires an argument" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--arch", "--", "program.py"), ("check", "program.py", "--arch", "--"),
        ("check", "program.py", "--arch"), ("check", "--arch", "--strict", "program.py"),
        ("check", "--arch=", "program.py"), ("run", "program.py", "--arch="),
        ("check", "program.py", "--arch", ""), ("lean", "--arch", "", "program.py"), ("fuzz", "program.py", "--seed"),
        ("fuzz", "--seed", "--seed", "program.py"), ("sweep", "program.py::f", "--size="),
        ("mutate", "program.py", "--kind", "--"),
    ],
)  # fmt: skip
def test_an_option_takes_no_option_and_nothing_empty_for_its_value(words, program, tmp_path):
    program("good[2, 32](x)")
    option = next(word.rstrip("=") for word in words if word.startswith("--"))
    done = wsemu(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert f"option '{option}' requires an argument" in done.stderr


def test_a_file_without_a_name_is_missing(tmp_path):
    for words in (("check", ""), ("check", "--strict", ""), ("run", "")):
        done = wsemu(*words, cwd=tmp_path)
        assert (done.returncode, "missing argument 'FILE'" in done.stderr) == (2, True), words


LATE = """
import sys
from wsemu import cli

def command():
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        sys.exit(130)

cli._command = command
cli.main()
"""


def test_an_interrupt_that_was_handled_leaves_the_exit_code_alone(tmp_path: Path) -> None:
    """Python remembers an interrupt that leaves a text which it executes, and then ends `python -m` by SIGINT."""
    (tmp_path / "late.py").write_text(LATE)
    done = subprocess.run([sys.executable, "-m", "late"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 130
