"""Witnesses: what a file holds, what is refused, and that a replay shows what the finding says."""

from __future__ import annotations

import functools
import json
import random
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as typed
from tests.properties.programs import check_interpreted, free, skeleton
from tests.test_programs import BROKEN, FAIL, INCOMPLETE, ROOT, programs, run
from wsemu import cuda, ptx
from wsemu.cli import main
from wsemu.evidence.readings import format_steps
from wsemu.launch.hooks import observers, starting
from wsemu.launch.replay.machine import ReplayError
from wsemu.launch.replay.run import Replay, follow
from wsemu.launch.replay.witness_file import Saver, Witness, WitnessError, has_witness, load, program_path
from wsemu.launch.result import Report
from wsemu.launch.running import bind_launch
from wsemu.model import settings
from wsemu.model.bound import Bound
from wsemu.model.codes import CODES, NOT_OF_AN_ORDER, NOT_REPLAYED
from wsemu.model.errors import UsageError
from wsemu.model.finding import Finding, Step
from wsemu.model.isa import NAMES
from wsemu.model.launch_shape import configure

if TYPE_CHECKING:
    from collections.abc import Callable

NO_EMPTY_WAIT = ROOT / "examples" / "broken" / "no_empty_wait.py"
DOCS = sorted(path for path in ROOT.glob("docs/programs/*.py") if not path.name.startswith("test_"))


def shown(report: Report) -> list[Finding]:
    """The errors with a witness; the others are of codes that may have none, and say so."""
    for finding in report.errors:
        if not has_witness(finding):
            between_launches = CODES[finding.code].source == "host"
            assert between_launches or finding.code in (*NOT_OF_AN_ORDER, *NOT_REPLAYED)
            with pytest.raises(UsageError, match=f"^`{finding.code}` of `.*` has no schedule: no witness$"):
                report.witness(finding)
    return [*filter(has_witness, report.errors)]


@functools.cache
def replayed(path: Path, engine: settings.Engine = "vm") -> list[tuple[Report, Finding, Replay]]:
    """Every error of a program, replayed before its launch; the tests share what they find."""
    bound: list[Bound] = []
    found: list[tuple[Report, Finding, Replay]] = []

    def keep(launch: Bound) -> None:
        bound[:] = [launch._replace(segments=[(data.copy(), writable) for data, writable in launch.segments])]

    def again(report: Report) -> None:
        for finding in shown(report):
            witness = report.witness(finding)
            witness.check(bound[0])
            found.append((report, finding, follow(bound[0], witness.code, witness.steps)))

    starting.append(keep)
    observers.append(again)
    try:
        run(path, engine)
    finally:
        starting.remove(keep)
        observers.remove(again)
    return found


@programs(FAIL + INCOMPLETE + BROKEN + DOCS)
def test_every_witness_replays_to_the_same_text(path: Path) -> None:
    for _, finding, replay in replayed(path):
        assert format_steps(replay.steps) == format_steps(finding.steps)
        assert finding.schedule in ([], format_steps(replay.steps))


@programs(FAIL + BROKEN + DOCS)
def test_every_witness_shows_the_bug(path: Path) -> None:
    for _, finding, replay in replayed(path):
        if finding.code in ("race", "intra-warp-race", "read-only-written"):
            assert replay.element
            assert [order.marks for order in replay.orders][1] == replay.orders[0].marks[::-1]
        elif finding.code == "deadlock" or all(step.mark == "waits" for step in finding.steps):
            assert replay.end == "deadlock"
            stopped = {*(w.warp for w in replay.waiting), *(w.warp for w in replay.phases), *replay.held}
            assert {step.warp for step in finding.steps if step.mark == "waits"} <= stopped
        elif finding.code == "barrier-recycling":
            second, late = replay.steps[-2:]
            assert (second.mark, late.mark) == ("(2)", "(1) late")
            assert late.generation == (second.generation or 0) + (second.arrived == second.expected)
        else:
            assert replay.codes == [finding.code]


def values(replay: Replay) -> list[list[tuple[str, str, str]]]:
    return [[(made.mark, made.does, made.value) for made in order.made] for order in replay.orders]


def test_a_race_shows_both_orders_with_their_values() -> None:
    ((_, finding, replay),) = [entry for entry in replayed(NO_EMPTY_WAIT) if entry[1].code == "race"]
    assert finding.message == "write-after-read hazard on shared `tile[lane]`"
    assert replay.element == "tile[0]"
    assert values(replay) == [
        [("(2)", "load", "0.0"), ("(1)", "store", "32.0")],
        [("(1)", "store", "32.0"), ("(2)", "load", "32.0")],
    ]
    assert [order.left for order in replay.orders] == ["32.0", "32.0"]


def test_two_stores_leave_the_value_of_the_later_one() -> None:
    ((_, _, replay),) = replayed(ROOT / "tests/fail/race/ctas_write_one_array.py")
    assert values(replay) == [
        [("(2)", "store", "1"), ("(1)", "store", "0")],
        [("(1)", "store", "0"), ("(2)", "store", "1")],
    ]
    assert [order.left for order in replay.orders] == ["0", "1"]


def test_lanes_of_one_store_are_shown_lane_by_lane() -> None:
    ((_, _, replay),) = replayed(ROOT / "tests/fail/intra-warp-race/lanes_store_different_values.py")
    assert values(replay) == [
        [("lane 0", "store", "0"), ("lane 31", "store", "31")],
        [("lane 31", "store", "31"), ("lane 0", "store", "0")],
    ]


def test_lanes_of_a_warp_are_shown_in_the_order_that_did_not_happen_too() -> None:
    path = ROOT / "tests/fail/intra-warp-race/neighbour_without_syncwarp.py"
    ((_, _, replay),) = replayed(path)
    assert [[made[2] for made in order] for order in values(replay)] == [["1.0", "1.0"], ["0.0", "1.0"]]


def test_an_order_that_only_hardware_can_show_is_told() -> None:
    ((_, _, replay),) = replayed(ROOT / "tests/fail/race/flag_without_fence.py")
    run_, other = replay.orders
    assert not run_.why_not
    assert other.why_not == "warp 0 of CTA (1, 0, 0) waits in a loop for warp 0 of CTA (0, 0, 0)"
    assert [made.value for made in other.made] == ["0", "1"]


def test_a_swapped_generation_ends_in_a_deadlock() -> None:
    ((_, _, replay),) = replayed(ROOT / "tests/fail/barrier-recycling/three_warps.py")
    assert format_steps(replay.steps)[-2:] == [
        "3 warp 2  arrive barrier 0 gen 0  :24  64/64 complete  (2)",
        "4 warp 1  sync   barrier 0 gen 1  :20  (1) late",
    ]
    assert replay.end == "deadlock"
    assert [(w.warp, w.barrier, w.generation, w.arrived, w.expected) for w in replay.waiting] == [(1, 0, 1, 32, 64)]


def test_schedules_hold_synchronisation_and_conflicting_accesses_alone() -> None:
    for path in FAIL:
        for report in run(path):
            for finding in report.errors:
                conflicting = {step.instruction for step in finding.steps if step.mark}
                for step in finding.steps:
                    asynchronous = "." in step.does  # of an mbarrier, or what credits one
                    orders = step.does in ("arrive", "sync", "exit", "atomic") or asynchronous
                    assert orders or step.instruction in conflicting


@programs(FAIL[::3])
def test_both_engines_give_the_same_witness(path: Path) -> None:
    both = [[r.witness(f) for r in run(path, engine) for f in shown(r)] for engine in ("vm", "reference")]
    assert both[0] == both[1]


@pytest.mark.parametrize("family", [free, skeleton])
def test_schedules_of_random_programs_can_be_executed(family: Callable[[Any], Any]) -> None:
    """Whatever barriers are recycled: what the text says is what the launch does."""
    bound: list[Bound] = []

    def keep(launch: Bound) -> None:
        bound[:] = [launch._replace(segments=[(data.copy(), writable) for data, writable in launch.segments])]

    starting.append(keep)
    codes = set()
    try:
        for seed in range(30):
            for finding in check_interpreted(family(random.Random(seed))).errors:
                replay = follow(bound[0], finding.code, finding.steps)
                codes.add(finding.code)
                assert replay.end == "fault" or format_steps(replay.steps) == format_steps(finding.steps), seed
    finally:
        starting.remove(keep)
    assert {"race", "barrier-recycling", "deadlock"} <= codes


# -- from Python ------------------------------------------------------------------------------------------------------


@cuda.jit
def shift(x, y, n):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    if n > 1:
        y[t] = tile[63 - t]


def arguments(first: float = 1.0, size: int = 64) -> tuple[Any, ...]:
    x = np.arange(size, dtype=np.float32)
    x[0] = first
    return x, np.zeros(64, np.float32), 2


def witness() -> Witness:
    return wsemu.check(shift, 1, 64, arguments()).witness()


def test_a_witness_is_replayed_from_python(tmp_path: Path) -> None:
    file = tmp_path / "shift.wsemu.json"
    witness().save(file)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    given = arguments()
    replay = wsemu.replay(file, shift, given)
    assert replay.element == "tile[63]"
    assert [[made.value for made in order.made] for order in replay.orders] == [["63.0", "63.0"], ["0.0", "63.0"]]
    assert not given[1].any(), "the arguments are used as copies"
    assert wsemu.replay(load(file), shift, given) == replay


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: arguments(first=2.0), r"the contents of argument `x`, float32\[64\], are others now"),
        (lambda: arguments(size=96), r"argument `x` was float32\[64\], and is float32\[96\] now"),
        (lambda: (*arguments()[:2], 3), "argument `n` was 2, and is 3 now"),
    ],
)
def test_other_arguments_are_refused(given: Callable[[], Any], message: str) -> None:
    with pytest.raises(WitnessError, match=message):
        wsemu.replay(witness(), shift, given())


def test_an_unbroken_launch_has_no_witness() -> None:
    report = wsemu.check(shift, 1, 32, arguments())
    assert report.inputs is None or report.errors
    with pytest.raises(UsageError, match="has no error with a schedule"):
        report.model_copy(update={"findings": []}).witness()


def test_a_changed_global_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    body = """\
import numpy as np
from wsemu import cuda
STRIDE = {stride}
@cuda.jit
def same(y):
    y[cuda.threadIdx.x % STRIDE] = cuda.threadIdx.x
same[1, 64](np.zeros(64, np.int32))
"""
    program.write_text(body.format(stride=8))
    files = save(program, tmp_path / "w")
    program.write_text(body.format(stride=4))
    code, text = cli("replay", "--program", program, files[0], cwd=tmp_path)
    assert (code, "a global that it uses, or wsemu, has changed" in " ".join(text.split())) == (2, True)


# -- files ------------------------------------------------------------------------------------------------------------


def cli(*words: object, cwd: Path = ROOT) -> tuple[int, str]:
    done = typed(*words, cwd=cwd)
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout


def save(program: Path, folder: Path) -> list[Path]:
    """The witnesses that `wsemu check` saves."""
    _, text = cli("check", "--save-witness", folder, program, cwd=program.parent)
    files = [Path(line.partition("replay: wsemu replay ")[2]) for line in text.splitlines() if "replay: " in line]
    assert sorted(files) == sorted(folder.iterdir())
    return files


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A copy of a broken example, and its witnesses beside it."""
    folder = tmp_path_factory.mktemp("broken")
    program = Path(shutil.copy(NO_EMPTY_WAIT, folder / "no_empty_wait.py"))
    return program, save(program, folder / "w")


def test_check_saves_and_replay_shows(saved: tuple[Path, list[Path]]) -> None:
    program, files = saved
    assert [file.name for file in files] == [
        "no_empty_wait-1-barrier-recycling.wsemu.json",
        "no_empty_wait-2-race.wsemu.json",
    ]
    code, text = cli("replay", files[1], cwd=program.parent)
    assert code == 1
    assert text.startswith("error[race]: write-after-read hazard on shared `tile[lane]`\n  --> no_empty_wait.py:")
    for line in load(files[1]).schedule:
        assert f"       {line}\n" in text
    assert "  (2) before (1): `tile[0]`: (2) loads 0.0, (1) stores 32.0; then it holds 32.0\n" in text
    assert text.endswith("  the order decides what `tile[0]` gives\n")
    assert cli("replay", files[1], cwd=program.parent) == (code, text)


def test_a_file_names_no_folder_of_this_machine(saved: tuple[Path, list[Path]]) -> None:
    program, files = saved
    for file in files:
        assert str(program.parent) not in file.read_text()
        assert load(file).program == "../no_empty_wait.py"


def test_the_same_place_is_saved_once(tmp_path: Path) -> None:
    program = tmp_path / "twice.py"
    text = (ROOT / "tests/fail/race/ctas_write_one_array.py").read_text()
    program.write_text(text + text.splitlines()[-1] + "\n")
    assert len(save(program, tmp_path / "w")) == 1


def test_a_later_launch_is_found_with_its_arguments(tmp_path: Path) -> None:
    program = tmp_path / "later.py"
    text = (ROOT / "tests/fail/race/ctas_write_one_array.py").read_text()
    launch = text.splitlines()[-1]
    program.write_text(text.replace(launch, launch.replace("[4, 64]", "[1, 64]") + f"\nprint('went on')\n{launch}"))
    (file,) = save(program, tmp_path / "w")
    assert load(file).launch == 2
    code, said = cli("replay", file, cwd=tmp_path)
    assert (code, "`y[0]`: (2) stores 1, (1) stores 0; then it holds 0" in said) == (1, True)
    program.write_text(text.replace(launch, launch.replace("[4, 64]", "[1, 64]")))
    code, said = cli("replay", file, "--program", program, cwd=tmp_path)
    assert (code, "is of launch 2 of its program, which made 1 this time" in " ".join(said.split())) == (2, True)


def test_changed_source_is_refused_with_its_line(saved: tuple[Path, list[Path]], tmp_path: Path) -> None:
    program, files = saved
    lines = program.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "bar_arrive" in line)
    lines[number - 1] += "  # edited"
    edited = tmp_path / "no_empty_wait.py"
    edited.write_text("\n".join(lines) + "\n")
    code, text = cli("replay", "--program", edited, files[1])
    assert code == 2
    assert f"no_empty_wait.py:{number} in `no_empty_wait` has changed" in " ".join(text.split())
    edited.write_text("# moved\n" + program.read_text())
    assert cli("replay", "--program", edited, files[1])[0] == 1, "a function that only moved is the same"


def test_a_program_elsewhere_is_not_run(saved: tuple[Path, list[Path]], tmp_path: Path) -> None:
    _, files = saved
    copy = tmp_path / "w" / files[0].name
    copy.parent.mkdir()
    shutil.copy(files[0], copy)
    with pytest.raises(WitnessError, match="outside of its folder and the working folder"):
        program_path(load(copy).model_copy(update={"program": "../../elsewhere.py"}), copy)
    with pytest.raises(WitnessError, match="outside of its folder"):
        program_path(load(copy).model_copy(update={"program": "/etc/hosts"}), copy)
    with pytest.raises(WitnessError, match="names no program"):
        program_path(witness(), copy)


def broken(*_: object) -> None:
    raise OSError(28, "no space left")


def test_a_witness_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.wsemu.json"
    witness().save(file)
    before = file.read_bytes()

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(OSError, match="no space"):
        witness().save(file)
    assert [file.read_bytes(), [path.name for path in tmp_path.iterdir()]] == [before, [file.name]]


STRICT = [path for path in sorted(ROOT.glob("tests/fail/*/*.py")) if CODES[path.parent.name].strict]


@pytest.mark.parametrize("path", STRICT, ids=lambda path: path.stem)
def test_what_strict_makes_an_error_is_replayed_or_has_no_witness(path: Path, tmp_path: Path) -> None:
    _, text = cli("check", "--strict", "--fix-budget", "0", "--save-witness", tmp_path, path)
    saved = sorted(tmp_path.iterdir())
    assert ("replay: " in text) is bool(saved)
    for file in saved:
        code, text = cli("replay", file, "--program", path)
        assert (code, "replayed " in text) == (1, True), text
    assert not any(f"-{code}." in file.name for file in saved for code in NOT_REPLAYED)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, text = cli("check", "--save-witness", tmp_path / "file" / "w", NO_EMPTY_WAIT)
    assert (code, "witnesses cannot be saved in" in text) == (2, True)
    with Saver(str(tmp_path / "file"), NO_EMPTY_WAIT, []) as saver:
        assert saver.error


def test_a_full_disk_is_told_and_the_program_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = wsemu.check(shift, 1, 64, arguments())
    with Saver(str(tmp_path), NO_EMPTY_WAIT, []) as saver:
        monkeypatch.setattr("os.replace", broken)
        assert saver.save(report) == []
        assert saver.error
    assert [*tmp_path.iterdir()] == []


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another version": (lambda d: {**d, "version": 2}, "has version 2, this wsemu reads 1: make it anew"),
    "another format": (
        lambda d: {**d, "format": "other"},
        "is no witness file: `format` is \"other\": give 'wsemu-witness'",
    ),
    "no object": (lambda _: [1, 2], "is no witness file"),
    "an unknown field": (
        lambda d: {**d, "q": "ls"},
        "is no witness file: a witness has no key `q`: the keys are format, version, ",
    ),
    "no steps": (
        lambda d: {**d, "steps": []},
        "is no witness file: `steps` has 0 items: give 1 or more (`wsemu check --save-witness DIR",
    ),
    "a negative warp": (
        lambda d: {**d, "steps": [{**d["steps"][0], "warp": -1}]},
        "is no witness file: `steps[0].warp` is -1: give 0 or more",
    ),
    "a string for a number": (lambda d: {**d, "grid": "wide"}, 'is no witness file: `grid` is "wide": give a list'),
    "a key less": (
        lambda d: {k: v for k, v in d.items() if k != "arch"},
        "is no witness file: it lacks `arch`: its keys",
    ),
    "a step without its warp": (
        lambda d: {**d, "steps": [{k: v for k, v in d["steps"][0].items() if k != "warp"}]},
        "is no witness file: `steps[0]` lacks `warp` (",
    ),
    "a slip of the pen": (lambda d: {**d, "kernl": "k"}, "a witness has no key `kernl`: did you mean `kernel`?"),
    "an infinite number": (lambda d: {**d, "launch": float("inf")}, "`launch` is inf: give a finite number"),
    "a large number": (lambda d: {**d, "launch": 1 << 50}, "give less than 1,099,511,627,776"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_gets_a_message_and_exit_code_2(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = BAD[kind]
    file = tmp_path / "bad.wsemu.json"
    file.write_text(json.dumps(change(json.loads(witness().model_dump_json()))))
    assert in_process(file) == 2
    assert message in " ".join(capsys.readouterr().out.split())


def in_process(file: Path) -> int:
    """The exit code of `wsemu replay`."""
    argv = sys.argv
    sys.argv = ["wsemu", "replay", str(file)]
    try:
        main()
    except SystemExit as exit_:
        return int(exit_.code or 0)
    finally:
        sys.argv = argv
    return 0


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    assert cli("replay", tmp_path / "none.json")[0] == 2
    assert cli("replay", tmp_path)[0] == 2
    assert cli("replay", sys.executable)[0] == 2


def test_a_thousand_damaged_files_are_refused_or_replayed(
    saved: tuple[Path, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Truncated, bytes changed, pieces swapped: a message and exit code 2, unless what is left is a witness still."""
    program, files = saved
    monkeypatch.chdir(program.parent)
    choose = random.Random(1)
    pristine = [file.read_bytes() for file in files]
    codes = set()
    file = tmp_path / "bad.wsemu.json"
    for _ in range(1000):
        data = bytearray(choose.choice(pristine))
        for _ in range(choose.randint(1, 3)):
            at, kind = choose.randrange(len(data) or 1), choose.randrange(4)
            if kind == 0:
                del data[at:]
            elif kind == 1:
                data[at : at + 1] = bytes([choose.randrange(256)])
            elif kind == 2:
                del data[at : at + choose.randrange(1, 40)]
            else:
                data[at:at] = choose.choice([b"-1", b"99999999999", b"null", b"[[[[", b'"\x1b[2J"', b"1e999", b"{}"])
        file.write_bytes(data)
        try:
            found = load(file)
        except WitnessError:
            codes.add("refused")
            continue
        codes.add("read")
        try:
            bound = _bound()
            found.check(bound)
            follow(bound, found.code, found.steps, 20_000)
        except UsageError:
            codes.add("another")
    assert {"refused", "read"} <= codes


def _bound() -> Bound:
    return bind_launch(shift, configure(1, 64), arguments(), settings.Settings())[0]


@cuda.jit
def meet(y):
    ptx.bar_sync(1, 64)
    y[cuda.threadIdx.x] = 1


@pytest.mark.parametrize("code", ["race", "intra-warp-race"])
def test_barrier_operations_are_no_race(code: str) -> None:
    bound = bind_launch(meet, configure(1, 64), (np.zeros(64),), settings.Settings())[0]
    at = next(n for n, row in enumerate(bound.program.code) if NAMES[int(row[0])] == "bar.sync")
    place: dict[str, Any] = {"cta": (0, 0, 0), "instruction": at, "nth": 1, "line": 1, "barrier": 1, "generation": 0}
    steps = [Step(warp=warp, does="sync", mark=f"({warp + 1})", **place) for warp in (0, 1)]
    with pytest.raises(ReplayError, match="marks no two accesses"):
        follow(bound, code, steps)


def test_a_witness_of_an_unknown_code_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bad.wsemu.json"
    file.write_text(witness().model_dump_json().replace('"code":"race"', '"code":"rase"'))
    with pytest.raises(WitnessError, match='is no witness file: `code` is "rase": no finding code'):
        load(file)


def test_a_program_whose_name_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WitnessError, match="is no name of a file"):
        program_path(witness().model_copy(update={"program": "a\0b"}), tmp_path / "bad.wsemu.json")


def test_what_has_no_end_is_no_witness() -> None:
    if Path("/dev/zero").exists():
        with pytest.raises(WitnessError, match="it is a device, no ordinary file"):
            load("/dev/zero")


def test_steps_of_another_launch_are_refused() -> None:
    bound, steps = _bound(), witness().steps
    for change in (
        {"warp": 31}, {"instruction": 10_000}, {"cta": (7, 0, 0)}, {"does": "sync"}, {"barrier": 99}, {"does": "x"},
    ):  # fmt: skip
        with pytest.raises(ReplayError, match="is none of this launch"):
            follow(bound, "race", [step.model_copy(update=change) for step in steps])
    with pytest.raises(ReplayError, match="no steps"):
        follow(bound, "race", [])
    with pytest.raises(ReplayError, match="ends before it reaches line"):
        follow(bound, "race", [step.model_copy(update={"nth": 7}) for step in steps])
    with pytest.raises(ReplayError, match="marks no two accesses"):
        follow(bound, "race", steps[:1])
    with pytest.raises(ReplayError, match="instructions are used up"):
        follow(bound, "race", steps, 3)
    with pytest.raises(ReplayError, match="without `out-of-bounds`"):
        follow(bound, "out-of-bounds", steps[-1:])


@cuda.jit
def ahead(x):
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(1, 64)
        x[0] = 1
    else:
        x[0] = 2
        ptx.bar_arrive(1, 64)


def test_a_step_that_a_barrier_holds_back_is_told() -> None:
    from wsemu.launch.running import bind_launch
    from wsemu.model.launch_shape import configure

    x = np.zeros(1, np.int32)
    bound = bind_launch(ahead, configure(1, 64), (x,), settings.Settings())[0]
    store = next(pc for pc, span in enumerate(bound.program.span_of) if bound.program.array_of[pc] == "x")
    step = witness().steps[0].model_copy(update={"warp": 0, "instruction": store, "nth": 1, "does": "store"})
    with pytest.raises(ReplayError, match=r"warp 0 waits for barrier 1 generation 0 at line \d+ before it reaches"):
        follow(bound, "race", [step, step])
