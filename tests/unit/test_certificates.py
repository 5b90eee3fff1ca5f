"""Certificates: `wsemu check --certificate` writes them, `proofs/certify.py` and the extracted checker judge them.

The extracted checker is built by `make -C proofs checker`, which needs Coq and OCaml; without it only the port is
tested.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wsemu
from proofs import certify, sizes
from wsemu.launch.certificate import MOST_OPERATIONS, BeyondTheoremError, write_certificate
from wsemu.launch.hooks import traceable

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.outcome import Tracer

ROOT = Path(__file__).resolve().parents[2]
EXTRACTED = ROOT / "proofs" / "ocaml" / "wsemu-certify"


def certificate(body: str, *objects: str, processes: int = 2) -> str:
    """Return a certificate; operations are separated by line ends."""
    head = [certify.HEADER, "# a test", f"processes {processes}", *(f"object {n} {k}" for n, k in enumerate(objects))]
    return "\n".join([*head, *(line.strip() for line in body.strip().split("\n")), "end", ""])


def judged(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code and the output of the port; the extracted checker, if it is built, gives the same."""
    code = certify.main([str(file)])
    shown = capsys.readouterr()
    if EXTRACTED.exists():
        done = subprocess.run([str(EXTRACTED), str(file)], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (code, shown.out, shown.err)
    return code, shown.out + shown.err


HANDED_OVER = """
    0 write shared0 0 16
    0 count 0 1 0 0 0
    1 parity 0 0
    1 read shared0 8 4
"""
INITIALIZED = """
    0 init 0 1
    0 join 1
    1 join 1
    1 passed 1 0
    1 count 0 1 0 0 0
    0 passed 1 0
    0 parity 0 0
"""
COPIED = """
    0 count 0 1 0 16 0
    0 start 2
    2 write shared0 0 16
    2 count 0 0 0 0 16
    1 parity 0 0
    1 read shared0 0 16
"""
ACCEPTED = {
    "an mbarrier": (HANDED_OVER, ["mbarrier 1"]),
    "a named barrier": ("0 write global 0 4\n0 bar 0 2\n1 bar 0 2\n1 passed 0 0\n1 write global 0 4", ["named"]),
    "a group with an exit": ("0 leave 0 0\n1 join 0\n1 passed 0 0", ["group 2"]),
    "an initialized mbarrier": (INITIALIZED, ["mbarrier 0", "group 2"]),
    "a copy": (COPIED, ["mbarrier 1"]),
    "bytes that nothing writes": ("0 read global 0 4\n1 read global 0 4", []),
    "bytes beside each other": ("0 write shared0 0 4\n1 write shared0 4 4\n0 write shared1 4 4", []),
}  # fmt: skip
REFUSED = {
    "race": ("0 count 0 1 0 0 0\n0 write shared0 0 16\n1 parity 0 0\n1 read shared0 8 4; late.py:7", ["mbarrier 1"],
             "`1 read shared0 8 4` (late.py:7): race"),
    "R1": ("0 bar 0 1\n1 bar 0 1", ["named"], "`1 bar 0 1`: R1"),
    "R2": ("0 count 0 1 0 0 0\n0 count 0 1 0 0 0\n1 parity 0 1", ["mbarrier 1"], "`1 parity 0 1`: R2"),
    "R3": ("0 count 0 1 0 0 0\n1 parity 0 0\n0 count 0 1 0 0 0", ["mbarrier 1"], "`1 parity 0 0`: R3"),
    "R4": ("0 init 0 1\n1 parity 0 1", ["mbarrier 0"], "`1 parity 0 1`: R4"),
    "R5": ("0 count 0 0 0 16 0\n0 count 0 0 0 0 16\n1 count 0 1 0 0 0", ["mbarrier 1"], "`0 count 0 0 0 16 0`: R5"),
    "R6": ("0 count 0 1 0 0 16", ["mbarrier 1"], "R6: the phase gets more bytes"),
    "nothing": ("0 count 0 0 0 0 0\n0 count 0 1 0 0 0", ["mbarrier 1"], "adds nothing to its phase"),
    "a wait that does not end": ("0 parity 0 0", ["mbarrier 1"], "no run does this here"),
    "an arrival too many": ("0 count 0 2 0 0 0", ["mbarrier 1"], "no run does this here"),
    "two counts": ("0 bar 0 2\n1 bar 0 3", ["named"], "no run does this here"),
    "a process that nothing starts": ("2 write global 0 4", [], "no run does this here"),
    "a second arrival in a group": ("0 join 0\n0 join 0", ["group 2"], "no run does this here"),
    "an arrival at an mbarrier without an init": ("0 count 0 1 0 0 0", ["mbarrier 0"], "no run does this here"),
}  # fmt: skip
"""what is wrong -> operations, objects, and a part of the message"""


@pytest.mark.parametrize("what", ACCEPTED)
def test_a_trace_that_keeps_the_rules_is_accepted(what, tmp_path, capsys):
    body, objects = ACCEPTED[what]
    file = tmp_path / "a.cert"
    file.write_text(certificate(body, *objects))
    assert judged(file, capsys) == (0, f"accepted: a test: {body.strip().count(chr(10)) + 1} operations\n")


@pytest.mark.parametrize("shape", sizes.SHAPES)
def test_clocks_that_share_their_parts_know_what_happens_before(shape, tmp_path, capsys):
    (tmp_path / "a.cert").write_text(sizes.SHAPES[shape][0](9))
    assert judged(tmp_path / "a.cert", capsys)[0] == 0


@pytest.mark.parametrize("shape", sizes.SHAPES)
def test_without_one_wait_a_trace_of_any_size_is_refused(shape, tmp_path, capsys):
    text = sizes.SHAPES[shape][0](9)
    waits = [line for line in text.splitlines() if " passed " in line or " parity " in line]
    for wait in (waits[0], waits[len(waits) // 2], waits[-1]):
        (tmp_path / "a.cert").write_text(text.replace(f"{wait}\n", "", 1))
        is_needed = wait != waits[-1] or shape in ("ring", "copies")  # accesses follow it
        assert judged(tmp_path / "a.cert", capsys)[0] == is_needed


@pytest.mark.parametrize("what", REFUSED)
def test_a_trace_that_breaks_a_rule_is_refused_for_it(what, tmp_path, capsys):
    body, objects, message = REFUSED[what]
    file = tmp_path / "a.cert"
    file.write_text(certificate(body, *objects))
    code, text = judged(file, capsys)
    assert code == 1
    assert message in text


GOOD = certificate(HANDED_OVER, "mbarrier 1")
MALFORMED = {
    "no certificate": "",
    '1: `wsemu-certificate 1` expected, not "import os"': "import os\n",
    "1: the certificate has no `end`": GOOD.replace("end\n", ""),
    "3: `processes N` is missing": GOOD.replace("processes 2\n", ""),
    "4: objects are numbered from 0": GOOD.replace("object 0", "object 1"),
    "4: an object is `named`, `copy`, `group N` or `mbarrier N`": GOOD.replace("mbarrier 1", "lock"),
    '5: no operation: "erase shared0 0 16"': GOOD.replace("write", "erase"),
    '5: "0x10" is not a number': GOOD.replace("0 16", "0 0x10"),
    '5: "-1" is not a number': GOOD.replace("0 write", "-1 write"),
    "5: an access has 1 or more bytes": GOOD.replace("0 16", "0 0"),
    "5: more than 100,000 processes": GOOD.replace("0 write", "100000 write"),
    '6: "9999999999999999999" is not a number': GOOD.replace("count 0 1", "count 0 9999999999999999999"),
    '7: no operation: "parity 0 2"': GOOD.replace("parity 0 0", "parity 0 2"),
    "8: an empty line": GOOD.replace("1 read shared0 8 4", ""),
    '10: `wsemu-certificate 1` expected, not "more"': GOOD + "more\n",
}
"""message -> text"""


@pytest.mark.parametrize("message", MALFORMED)
def test_a_text_that_is_no_certificate_is_named_with_its_line(message, tmp_path, capsys):
    file = tmp_path / "a.cert"
    file.write_text(MALFORMED[message])
    separator = ": " if message == "no certificate" else ":"
    assert judged(file, capsys) == (2, f"{file}{separator}{message}\n")


def test_a_large_file_is_not_read(tmp_path, capsys):
    file = tmp_path / "a.cert"
    with open(file, "wb") as opened:
        opened.truncate(certify.MOST_BYTES + 1)
    assert judged(file, capsys) == (2, f"{file}: more than 256 MiB\n")


def test_the_worst_of_several_certificates_counts(tmp_path, capsys):
    file = tmp_path / "a.cert"
    file.write_text(GOOD + certificate(*REFUSED["R1"][:1], "named"))
    code, text = judged(file, capsys)
    assert code == 1
    assert text.startswith("accepted: a test: 4 operations\nrefused: a test\n")


class Traced:
    """Gathers the certificates of launches whose run ended, whatever their verdicts are."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.beyond: list[str] = []

    def look(self, report: Report, places: Places, trace_of: Tracer) -> None:
        if places.outcome.status == "done":
            try:
                self.texts.append(write_certificate(report, places, trace_of))
            except BeyondTheoremError as beyond:
                self.beyond.append(str(beyond))


def traced(program: str) -> Traced:
    """Return the certificates of the launches of a program of the tests."""
    found = Traced()
    with traceable.adding_own(found.look):
        try:
            runpy.run_path(str(ROOT / "tests" / program), run_name="__main__")
        except wsemu.CheckFailed:
            assert program.startswith("fail")
    return found


@pytest.mark.parametrize(
    "program",
    [
        "pass/producer_consumer.py", "pass/barriers_of_two_groups.py", "pass/no_empty_wait.py",
        "pass/multicast_into_a_tile_in_use.py", "pass/read_before_the_copy_has_come.py",
        "pass/arrival_before_that_of_its_copies.py", "pass/result_read_after_wait_read.py",
        "pass/leaves_with_a_relaxed_arrive.py", "pass/early_exit_without_count.py", "pass/more_bytes_than_expected.py",
        "pass/every_lane_arrives.py", "pass/a_peers_copy_nobody_awaits.py",
    ],
)  # fmt: skip
def test_certificates_of_correct_programs_are_accepted(program, tmp_path, capsys):
    found = traced(program)
    assert found.texts
    for text in found.texts:
        (tmp_path / "a.cert").write_text(text)
        assert judged(tmp_path / "a.cert", capsys)[0] == 0


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("fail/race/no_loop_back_barrier.py", "race"),
        ("fail/race/read_before_the_copy_has_come.py", "race"),
        ("fail/barrier-recycling/three_warps.py", "R1"),
        ("fail/uncovered-expectation/expected_by_nobody_who_arrives.py", "R5"),
    ],
)
def test_traces_of_wrong_programs_are_refused(program, message, tmp_path, capsys):
    texts = traced(program).texts
    (tmp_path / "a.cert").write_text("".join(texts))
    code, text = judged(tmp_path / "a.cert", capsys)
    assert code == 1
    assert f": {message}: " in text


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("pass/last_block_done.py", "the theorem does not cover atomic and strong accesses"),
        ("pass/slot_used_again_without_inval.py", "the theorem does not cover `mbarrier.inval`"),
        ("pass/zeros_without_a_barrier.py", "the theorem does not cover `bulk.zero`"),
        (
            "pass/initialised_without_a_cluster_fence.py",
            "the theorem does not cover a relaxed `cluster.arrive`, which orders no memory",
        ),
    ],
)
def test_a_launch_beyond_the_theorem_says_which_operation_is(program, reason):
    found = traced(program)
    assert any(reason in one for one in found.beyond), (found.beyond, len(found.texts))


COMPLETES = """
import numpy as np
from wsemu import cuda, ptx

@cuda.jit
def completes(y):
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 16)
    elif t == 32:
        ptx.mbarrier_complete_tx(full, 0, 16)
    ptx.mbarrier_wait_parity(full, 0, 0)
    y[t] = 1

completes[1, 64](np.zeros(64, np.float32))
"""
EXITS = """
import numpy as np
from wsemu import cuda, ptx

@cuda.jit
def exits(y):
    if ptx.cluster_ctarank() == 1:
        return
    ptx.cluster_arrive()
    ptx.cluster_wait()
    y[cuda.grid(1)] = 1

exits[2, 32, 0, 0, 2](np.zeros(64, np.float32))
"""


@pytest.mark.parametrize(
    ("program", "what"),
    [
        (COMPLETES, "`mbarrier.complete_tx`, which orders no memory"),
        (EXITS, "a wait for a phase at which an exit counts, which orders no memory"),
        (EXITS.replace("return", "ptx.cluster_arrive()\n        return"), ""),
    ],
    ids=["complete_tx", "exit in place of an arrive", "exit after an arrive"],
)
def test_what_orders_memory_in_the_theorem_alone_has_no_certificate(program, what, tmp_path):
    (tmp_path / "program.py").write_text(program)
    beyond = traced(str(tmp_path / "program.py")).beyond
    assert [one.partition("does not cover ")[2] for one in beyond] == [what] * bool(what)


def test_a_long_run_has_no_certificate(monkeypatch):
    monkeypatch.setattr("wsemu.launch.certificate.MOST_OPERATIONS", 10)
    assert MOST_OPERATIONS > 10
    assert traced("pass/producer_consumer.py").beyond == ["the run has more than 10 operations; check a smaller launch"]


VERIFIED = """
import numpy as np
from numba import cuda

@cuda.jit
def scale(x):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    x[t] = 2 * tile[63 - t]

scale[1, 64](np.ones(64, np.float32))
"""
RACING = VERIFIED.replace("    cuda.syncthreads()\n", "")
ATOMIC = VERIFIED.replace("x[t] = 2 * tile[63 - t]", "cuda.atomic.add(x, 0, tile[63 - t])")


def check(folder: Path, program: str, certificate_file: str = "a.cert", name: str = "program.py") -> tuple[int, str]:
    """Check a program with `--certificate`; return the exit code and the output."""
    (folder / name).write_text(program)
    command = ["check", name, "--certificate", certificate_file, "--fix-budget", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "wsemu", *command], cwd=folder, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("body", ["0 read global 0 4\n1 read global 0 4", "0 write global 0 4\n1 write global 0 4"])
def test_names_move_no_cursor(tmp_path, capsys, body):
    text = certificate(body).replace("# a test", "# a \x1b[2J\x9btest")
    file = tmp_path / "a.cert"
    file.write_text(text.replace("0 4\nend", "0 4; late\x1b[1A.py:7\nend"), encoding="utf-8")
    _, shown = judged(file, capsys)
    assert "a \ufffd[2J\ufffdtest" in shown
    assert ("late\ufffd[1A.py" in shown) == ("refused" in shown)
    assert not {*shown} & {"\x1b", "\x9b"}


def test_check_writes_the_certificates_of_verified_launches(tmp_path, capsys):
    code, text = check(tmp_path, VERIFIED + "scale[1, 64](np.ones(64, np.float32))\n")
    assert code == 0, text
    assert "2 certificates in `a.cert`: `wsemu-certify a.cert` judges them" in text
    code, text = judged(tmp_path / "a.cert", capsys)
    assert code == 0
    assert text.count("accepted: scale: grid (1, 1, 1), block (64, 1, 1), sm_90: ") == 2


def test_a_launch_that_fails_has_no_certificate(tmp_path):
    code, text = check(tmp_path, RACING)
    assert code == 1
    assert "no certificate: no launch is verified" in text
    assert not (tmp_path / "a.cert").exists()


def test_a_verified_launch_beyond_the_theorem_is_exit_code_3(tmp_path):
    code, text = check(tmp_path, ATOMIC)
    assert code == 3
    assert (
        "no certificate of `scale`: program.py:11: the theorem does not cover atomic and strong accesses"
        in " ".join(text.split())
    )
    assert not (tmp_path / "a.cert").exists()


def test_a_file_that_cannot_be_written_is_exit_code_2(tmp_path):
    code, text = check(tmp_path, VERIFIED, "nowhere/a.cert")
    assert code == 2
    assert "error: `nowhere/a.cert` cannot be written: No such file or directory" in text


def test_a_source_whose_name_has_odd_characters_has_a_certificate(tmp_path, capsys):
    """A line end would begin another operation, and a byte that is not UTF-8 cannot be written."""
    code, text = check(tmp_path, VERIFIED, name=os.fsdecode(b"k\n\xff.py"))
    assert code == 0, text
    assert judged(tmp_path / "a.cert", capsys)[0] == 0
    assert "; k??.py:" in (tmp_path / "a.cert").read_text()


def test_the_port_prints_what_a_terminal_without_utf_8_shows(tmp_path):
    (tmp_path / "a.cert").write_text(
        certificate("0 write global 0 4; caf\u00e9.py:1\n1 read global 0 4; caf\u00e9.py:2"), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, certify.__file__, "a.cert"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "(caf\\xe9.py:2): race" in done.stdout
