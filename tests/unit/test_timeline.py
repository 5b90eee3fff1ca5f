"""Time lines: what they hold, and how a terminal, Perfetto and a page show them."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.commands import Done
from tests.commands import wsemu as typed
from wsemu import cuda, ptx
from wsemu.evidence.labels import GROUPS
from wsemu.launch import tracing
from wsemu.launch.hooks import observers, traceable
from wsemu.launch.roles import SharedUses
from wsemu.launch.timeline import Timeline
from wsemu.model import settings
from wsemu.report.html import FEW_COLUMNS, SHEET, Origin, page, report_fragment, timeline_fragment
from wsemu.report.page_script import POLICY, SCRIPT
from wsemu.report.perfetto import AXIS, chrome_trace
from wsemu.report.terminal import plain
from wsemu.report.timeline_canvas import legend, timeline_data
from wsemu.report.timeline_svg import window
from wsemu.report.timeline_terminal import timeline_lines

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "data" / "timeline"
PROGRAMS = {
    "producer_consumer": ("producer_consumer.py",),
    "no_empty_wait": ("broken/no_empty_wait.py",),
    "both_wait_first": ("broken/both_wait_first.py",),
    "sgemv": ("sgemv.py", "128"),
    "column_walk": ("broken/column_walk.py",),
}
VOID = {"meta", "br"}


@pytest.fixture(autouse=True)
def _in_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)  # paths are shown relative to it


def traced(file: Path, *arguments: str, engine: settings.Engine = "vm") -> Timeline:
    """The time line of a program's first launch, with no wall-clock time in its report."""
    made: list[Timeline] = []
    look, observe = (lambda *launch: made.append(tracing.build(*launch))), (lambda report: None)
    argv = sys.argv
    traceable.append(look)
    observers.append(observe)
    try:
        sys.argv = [str(file), *arguments]
        with settings.using(settings.Settings(engine=engine)):
            runpy.run_path(str(file), run_name="__main__")
    finally:
        sys.argv = argv
        traceable.remove(look)
        observers.remove(observe)
    return replace(made[0], report=made[0].report.model_copy(update={"seconds": 0.0}))


@pytest.fixture(scope="module")
def lines() -> dict[str, Timeline]:
    return {name: traced(ROOT / "examples" / file, *more) for name, (file, *more) in PROGRAMS.items()}


def text(line: Timeline, width: int = 80, first: int | None = None) -> str:
    return plain(timeline_lines(line, width, first))


programs = pytest.mark.parametrize("name", PROGRAMS)


# -- the data ---------------------------------------------------------------------------------------------------------
@programs
def test_a_warp_does_one_thing_at_a_time(lines, name):
    for warp in lines[name].warps:
        own = [step for step in lines[name].steps if step.warp == warp.number]
        for step, following in itertools.pairwise(own):
            assert step.until is not None
            assert step.at < step.until <= following.at
        assert all(step.until is None or step.until <= warp.until for step in own)


@programs
def test_a_generation_begins_when_the_one_before_is_complete(lines, name):
    steps = lines[name].steps
    for one, next_ in itertools.pairwise(lines[name].generations):
        if one.barrier == next_.barrier:
            assert one.until is not None
            assert one.until <= next_.first
    for generation in lines[name].generations:
        own = [steps[n] for n in generation.steps]
        assert {(step.barrier, step.generation) for step in own} == {(generation.barrier, generation.number)}
        assert {step.until for step in own if step.kind == "sync"} <= {generation.until}
        assert generation.until in (None, max(step.at for step in own) + 1)
        assert generation.arrived_threads == 32 * len(own)


@programs
def test_both_engines_give_the_same_time_line(lines, name):
    file, *more = PROGRAMS[name]
    other = traced(ROOT / "examples" / file, *more, engine="reference")
    assert sorted(map(repr, other.steps)) == sorted(map(repr, lines[name].steps))
    assert (other.warps, other.places, other.lines) == (lines[name].warps, lines[name].places, lines[name].lines)
    assert text(other) == text(lines[name])


def test_marks_are_the_operations_of_the_finding(lines):
    line = lines["no_empty_wait"]
    marked = {mark.label: line.steps[mark.step] for mark in line.marks}
    assert {label: (step.warp, line.where(step)) for label, step in marked.items()} == {
        "A1": (0, "sync barrier 1 generation 0"),
        "A2": (1, "arrive barrier 1 generation 1"),
        "B1": (1, "store tile[lane]"),
        "B2": (0, "load tile[lane]"),
    }
    assert [f.code for f in line.report.findings] == ["barrier-recycling", "race"]


def test_every_wait_of_a_deadlock_is_marked(lines):
    line = lines["both_wait_first"]
    assert [(line.steps[m.step].warp, line.steps[m.step].until, m.label) for m in line.marks] == [
        (0, None, "A"),
        (1, None, "A"),
    ]
    assert not any(warp.exited for warp in line.warps)
    assert [generation.until for generation in line.generations] == [None, None]


def test_an_access_that_was_left_out_is_marked_where_its_line_is():
    line = traced(ROOT / "examples" / "broken" / "stencil_unpadded.py")
    (mark,) = line.marks
    step = line.steps[mark.step]
    assert (mark.label, step.warp, line.places[step.pc].line) == ("A", 2, line.report.findings[0].sites[0].line)
    assert step.kind == "access"


def test_roles_come_from_the_calls_of_patterns(lines):
    assert [warp.role for warp in lines["sgemv"].warps] == ["compute"] * 2 + ["DMA"] * 5


@cuda.jit
def racing_in_cta_2(x, y):
    tile = cuda.shared.array(64, np.float32)
    thread = cuda.threadIdx.x
    tile[thread] = x[thread]
    if cuda.blockIdx.x != 2:
        cuda.syncthreads()
    y[cuda.blockIdx.x, thread] = tile[63 - thread]


def race(**options: Any) -> Timeline:
    x, y = np.zeros(64, np.float32), np.zeros((4, 64), np.float32)
    return wsemu.trace(racing_in_cta_2, 4, 64, (x, y), **options)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_cta_of_the_first_finding_is_drawn_unless_another_is_wanted(engine):
    assert (race(engine=engine).cta, race(engine=engine).index) == (2, (2, 0, 0))
    assert {step.kind for step in race(engine=engine).steps} == {"access"}
    other = race(engine=engine, cta=3)
    assert (other.cta, other.marks) == (3, ())
    assert [step.kind for step in other.steps].count("sync") == 2
    assert other.report.findings
    with pytest.raises(wsemu.UsageError, match="no CTA 4: the grid has CTAs 0 to 3"):
        race(engine=engine, cta=4)


@cuda.jit
def one_arrives(x):
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(cuda.blockIdx.x + 1, 64)
    elif cuda.blockIdx.x == 0:
        ptx.bar_arrive(1, 64)


def test_a_run_that_stopped_has_no_time_line_behind_that():
    line = wsemu.trace(one_arrives, 3, 64, (np.zeros(1),), cta=2)
    assert (line.steps, line.length, line.cta) == ((), 0, 2)
    assert "CTA 2, no steps: it made no access and met no barrier" in text(line)
    assert wsemu.trace(one_arrives, 3, 64, (np.zeros(1),)).cta == 1
    page(line)
    chrome_trace(line)


def test_a_run_that_stopped_shows_where():
    line = traced(ROOT / "examples" / "broken" / "fft_barrier_id_taken.py")
    (mark,) = line.marks
    step = line.steps[mark.step]
    assert (line.status, line.is_stuck, step.kind, step.warp) == ("fault", False, "stop", 0)
    shown = text(line)
    assert "! the run stops" in shown
    assert "waits for ever" not in shown
    assert "stops at bar.sync" in "".join(Page(page(line)).said)
    assert [e["name"] for e in events(line) if e["ph"] == "X" and e["tid"] == 0][-1] == "stops at bar.sync"


@cuda.jit
def endless(x):
    while x[0] == 0:
        cuda.syncthreads()


def test_a_run_out_of_budget_is_drawn_up_to_there():
    line = wsemu.trace(endless, 1, 64, (np.zeros(1),), budget=500)
    assert (line.report.verdict, line.status, line.is_stuck) == ("incomplete", "budget", False)
    assert 10 < line.length < 500
    assert "x waits" not in text(line)
    Page(page(line)).check_is_alone()


@cuda.jit
def counts(x):
    cuda.atomic.add(x, 0, 1)
    cuda.syncwarp()
    cuda.threadfence()


def test_atomics_on_one_address_keep_their_order():
    line = wsemu.trace(counts, 1, 96, (np.zeros(1, np.int32),))
    assert [(step.warp, step.at) for step in line.steps if step.kind == "atomic"] == [(0, 0), (1, 1), (2, 2)]
    assert [step.kind for step in line.steps if step.warp == 2] == ["atomic", "warp", "fence"]
    assert "*~|" in text(line)


def test_costs_by_line_add_up_to_the_counters(lines):
    for line in lines.values():
        counters = line.report.counters
        assert sum(c.wavefronts for c in line.lines) == (
            counters.shared_load_wavefronts + counters.shared_store_wavefronts + counters.shared_atomic_wavefronts
        )
        assert sum(c.sectors for c in line.lines) == counters.global_load_sectors + counters.global_store_sectors
        assert all(c.ideal_sectors <= c.sectors and c.ideal_wavefronts <= c.wavefronts for c in line.lines)


def test_the_picture_of_banks_has_each_lane_and_its_bank(lines):
    (picture,) = lines["column_walk"].banks
    assert (picture.text, picture.wavefronts, picture.ideal, picture.executions) == ("load tile[lane, k]", 32, 1, 32)
    assert [(cell.lane, cell.bank, cell.ways) for cell in picture.cells] == [(lane, 0, 32) for lane in range(32)]
    assert len({cell.word for cell in picture.cells}) == 32
    assert not lines["sgemv"].banks


@cuda.jit
def wide(x):
    tile = cuda.shared.array(256, np.float64)
    lane = cuda.threadIdx.x
    tile[lane * 4] = x[lane]


def test_lanes_of_one_pass_conflict_in_the_picture_of_banks():
    (picture,) = wsemu.trace(wide, 1, 32, (np.zeros(32),)).banks
    assert (picture.wavefronts, picture.ideal) == (8, 2)
    assert len(picture.cells) == 64  # two words each
    assert {cell.ways for cell in picture.cells} == {4}  # 16 lanes are served together


# -- in a terminal ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["producer_consumer", "no_empty_wait", "both_wait_first", "sgemv"])
def test_the_picture_in_a_terminal(lines, name, bless):
    file = GOLDEN / f"{name}.txt"
    shown = text(lines[name]) + "\n"
    if bless:
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown)
    assert shown == file.read_text()
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_long_picture_can_begin_anywhere(lines):
    line = lines["sgemv"]
    assert "steps 280 to 292 of 293" in text(line, first=280)
    assert "steps 292 to 292 of 293" in text(line, first=10**9)
    assert "`--from 0` shows the start" in text(line, first=280)
    assert "`--from 240` goes on" in text(line)
    assert max(map(len, text(line, 40).splitlines()[4:])) <= 40


def test_a_full_trace_says_so(monkeypatch):
    monkeypatch.setattr(tracing, "MOST_EVENTS", 20)
    line = traced(ROOT / "examples" / "producer_consumer.py")
    assert not line.complete
    assert "later steps are left out" in text(line)
    assert "later steps are left out" in page(line)
    assert json.loads(chrome_trace(line))["otherData"]["complete"] is False


# -- for Perfetto -----------------------------------------------------------------------------------------------------
def events(line: Timeline) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(chrome_trace(line))["traceEvents"]
    return found


@programs
def test_flows_lead_from_an_arrive_to_a_sync(lines, name):
    found = events(lines[name])
    starts = {e["id"]: e for e in found if e["ph"] == "s"}
    ends = {e["id"]: e for e in found if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == sum(e["ph"] == "s" for e in found) == len(lines[name].edges())
    slices = [e for e in found if e["ph"] == "X"]
    for number, start in starts.items():
        end = ends[number]
        assert start["ts"] <= end["ts"]
        assert end["bp"] == "e"
        for flow, kind in ((start, "arrive"), (end, "sync")):
            around = [s["name"] for s in slices if s["tid"] == flow["tid"] and within(flow, s)]
            assert any(title.startswith(f"{kind} {flow['name']} ") for title in around)


def within(flow: dict[str, Any], slice_: dict[str, Any]) -> bool:
    return bool(slice_["ts"] <= flow["ts"] <= slice_["ts"] + slice_["dur"])


@programs
def test_slices_of_a_track_ascend_and_nest(lines, name):
    found = events(lines[name])
    named = {e["tid"] for e in found if e["name"] == "thread_name"}
    timed = [e for e in found if e["ph"] != "M"]
    assert [e["ts"] for e in timed] == sorted(e["ts"] for e in timed)
    assert {e["tid"] for e in timed} <= named
    for track in named:
        open_: list[float] = []
        for event in (e for e in timed if e["tid"] == track and e["ph"] == "X"):
            while open_ and open_[-1] <= event["ts"]:
                open_.pop()
            assert event["dur"] > 0
            assert not open_ or event["ts"] + event["dur"] <= open_[-1]
            open_.append(event["ts"] + event["dur"])


def test_the_tracks_say_that_the_axis_has_steps(lines):
    document = json.loads(chrome_trace(lines["sgemv"]))
    names = {e["args"]["name"] for e in document["traceEvents"] if e["name"] in ("process_name", "thread_name")}
    assert f"sgemv CTA (0, 0, 0) ({AXIS})" in names
    assert {"warp 0 (compute)", "warp 4 (DMA)", "barrier 5"} <= names
    assert "steps, not cycles" in document["otherData"]["axis"]
    marks = [e["name"] for e in events(lines["no_empty_wait"]) if e["ph"] == "i"]
    assert "B2 error[race]: write-after-read hazard on shared `tile[lane]`" in marks


FIELDS = {
    "X": {"name", "pid", "tid", "ts", "dur"},
    "i": {"name", "pid", "tid", "ts", "s"},
    "s": {"name", "pid", "tid", "ts", "id", "cat"},
    "f": {"name", "pid", "tid", "ts", "id", "cat", "bp"},
    "M": {"name", "pid", "tid", "args"},
}
"""phase of an event -> what Perfetto's importer reads of it ("Trace Event Format")"""


@programs
def test_perfetto_gets_what_its_importer_reads(lines, name, tmp_path):
    """By structure, and by trace_processor itself where it is installed, which no package index has."""
    found = events(lines[name])
    tracks = {event["tid"] for event in found if event["ph"] == "M" and event["name"] == "thread_name"}
    for event in found:
        assert FIELDS[event["ph"]] <= event.keys()
        assert event["ph"] == "M" or event["tid"] in tracks
        assert all(isinstance(event[key], (int, float)) and event[key] >= 0 for key in ("ts", "dur") if key in event)
    processor = shutil.which("trace_processor_shell")
    if processor:
        file = tmp_path / "trace.json"
        file.write_text(chrome_trace(lines[name]))
        query = "select count(*) as slices from slice where dur > 0"
        done = subprocess.run([processor, "-Q", query, file], check=True, capture_output=True, text=True)
        assert str(sum(event["ph"] == "X" for event in found)) in done.stdout.split()


SECTIONS = ["Time line", "Findings", "Costs by line", "Bank conflicts"]


# -- as a page --------------------------------------------------------------------------------------------------------
class Page(HTMLParser):
    """A page that was read back: elements must be closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    def check_is_alone(self) -> None:
        """Nothing is loaded, nothing runs but our script, and that where its hash is allowed; links lead to places of
        the page."""
        policies = [given["content"] for _, given in self.elements if given.get("http-equiv")]
        scripts = [given for name, given in self.elements if name == "script"]
        assert all(given in ({}, {"type": "application/json"}) for given in scripts)
        assert scripts.count({}) == len(policies)
        assert not policies or policies == [POLICY]
        ids = {given["id"] for _, given in self.elements if "id" in given}
        for name, given in self.elements:
            assert name not in ("link", "img", "iframe", "object", "use", "image")
            for attribute, value in given.items():
                assert not attribute.startswith("on")
                assert attribute not in ("src", "style", "action", "xlink:href")
                if attribute == "href":
                    assert value is not None
                    assert value.startswith("#")
                    assert value[1:] in ids
        sheet = "".join(self.said)
        assert not any(word in sheet for word in ("url(", "@import", "http:", "https:"))


@programs
def test_a_page_stands_alone(lines, name):
    found = Page(page(lines[name]))
    found.check_is_alone()
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" == POLICY
    assert f"<script>{SCRIPT}</script>" in page(lines[name])
    assert not re.search(r"fetch|XMLHttp|import\b|eval|innerHTML|https?:", SCRIPT)
    assert len(SCRIPT.splitlines()) <= 320
    said = "".join(found.said)
    assert "steps, not cycles" in said
    assert "@media print" in said
    assert "prefers-color-scheme: dark" in said
    assert page(lines[name]) == page(lines[name])


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2)."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_that_readers_need(scheme):
    sheet = SHEET.partition("@media")[0 if scheme == "light" else 2].partition("body.wsemu")[0]
    colours = {name: luminance(value) for name, value in re.findall(r"--([\w-]+): (#\w{6})", sheet)}

    def contrast(text: str, ground: str) -> float:
        low, high = sorted((colours[text], colours[ground]))
        return (high + 0.05) / (low + 0.05)

    assert contrast("text", "page") >= 7
    for text_, ground in itertools.product(("muted", "error", "warning", "good", "frame", "text"), ("page", "panel")):
        assert contrast(text_, ground) >= 4.5, (text_, ground)
    for ground in ("error", "warning", "good", "stuck", *GROUPS):
        assert contrast("on", ground) >= 4.5, ground
    assert contrast("text", "generation") >= 4.5
    for group in GROUPS:
        assert contrast(group, "page") >= 3, group
    for shape in ("run", "wait-line", "error", "needed", "excess", "edge"):
        assert contrast(shape, "page") >= 1.6, shape


def test_a_page_has_findings_marks_and_costs(lines):
    said = "".join(Page(page(lines["no_empty_wait"])).said)
    assert "error[race]: write-after-read hazard on shared `tile[lane]`" in said
    assert "= hint: warp 0: arrive on an empty-buffer barrier after line 16" in said
    assert "warp 0, step 0: sync barrier 1 generation 0  line 15, waits to step 2" in said
    assert all(
        f"{n + 1} {code} ({part})" in said for n, code in enumerate(("barrier-recycling", "race")) for part in (1, 2)
    )
    costs = "".join(Page(page(lines["column_walk"])).said)
    assert "1,024, ideal 32" in costs
    assert "32 wavefronts, ideal 1; the worst of 32 executions, CTA 0" in costs
    assert "lane 31: word 992, bank 0; the pass wants 32 different words of it" in costs
    assert "waits for ever" in "".join(Page(page(lines["both_wait_first"])).said)


def test_a_page_describes_its_launch(lines):
    origin = Origin("wsemu trace 'a b.py'", "2026-11-29 12:00:00 +0000")
    made = Page(page(lines["no_empty_wait"], origin=origin))
    said = made.said[made.said.index("Launch: grid 1, block 64, sm_90, 3 arguments") :]
    assert dict(zip(said[1:19:2], said[2:19:2], strict=True)) == {
        "grid": "1 x 1 x 1", "block": "64 x 1 x 1", "architecture": "sm_90", "argument x": "float32[64]",
        "argument y": "float32[32]", "argument a": "2.0", "command": origin.command, "date": origin.date,
        "version": f"wsemu {wsemu.__version__}",
    }  # fmt: skip


def test_warps_have_roles_by_what_they_do(lines):
    roles = {name: [warp.does for warp in line.warps] for name, line in lines.items()}
    assert roles["no_empty_wait"] == ["consumer", "producer"]
    assert roles["sgemv"] == ["consumer"] * 2 + ["producer"] * 5
    assert roles["both_wait_first"] == ["", ""]  # they use no shared memory


def test_roles_are_for_specialized_warps_alone():
    alike, apart = SharedUses(), SharedUses()
    for warp in (0, 1):
        alike.enter(warp, 4096 + 128 * warp, 128, writes=True)
        alike.enter(warp, 4096, 256, writes=False)
    assert alike.roles(range(2)) == {0: "", 1: ""}
    apart.enter(0, 4096, 512, writes=True)
    apart.enter(1, 4480, 4, writes=False)
    apart.enter(1, 8192, 4, writes=True)
    apart.enter(2, 8192, 4, writes=False)
    assert apart.roles(range(4)) == {0: "producer", 1: "producer and consumer", 2: "consumer", 3: ""}


def test_the_legend_has_what_the_time_line_has(lines):
    assert Page(legend(lines["both_wait_first"])).said == [
        "sync, or wait for a phase",
        "waits for ever",
        "generation or phase, from its first operation on",
        "never complete",
        "operation of a finding",
    ]
    assert Page(legend(lines["column_walk"])).said[:2] == ["load", "store"]


def test_a_page_has_the_data_of_all_steps(lines):
    line = lines["sgemv"]
    data = timeline_data(line, 7)
    assert (data["length"], data["first"], data["stuck"]) == (line.length, 7, False)
    groups = [data["groups"][n] for n in data["steps"][3::7]]
    assert groups == [line.places[step.pc].group for step in line.steps]
    assert {"load", "store", "arrive", "wait"} == {*groups}
    read = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', page(line, 7))[0])
    assert read == data


def test_the_time_line_comes_before_the_findings_and_the_costs(lines):
    headings = [word for word in Page(page(lines["no_empty_wait"])).said if word in SECTIONS]
    assert headings == SECTIONS


def test_who_does_not_see_the_picture_is_told(lines):
    """Every control, region and mark has a name; the lanes are told as a table."""
    found = Page(page(lines["both_wait_first"]))
    for tag, given in found.elements:
        if tag in ("button", "article") or "tabindex" in given or str(given.get("href")).startswith("#finding"):
            assert given.get("aria-label"), (tag, given)
        if tag == "svg":
            assert given.keys() & {"aria-label", "aria-hidden", "role"}, given
    said = " ".join(found.said)
    assert "The time line in words" in said
    assert "waits for ever: sync barrier 3 generation 0  line 13" in said
    assert "generation 0 is not complete" in said
    words = " ".join(Page(page(lines["sgemv"])).said)
    assert "warp 4 (DMA, producer)" in words
    assert "warp 0 (compute, consumer)" in words


def test_a_narrow_window_has_text_of_its_own(lines):
    made = page(lines["no_empty_wait"])
    narrow = re.findall(r'<pre class="narrow error">(.*?)</pre>', made, re.DOTALL)
    assert len(narrow) == 2
    texts = ["".join(Page(part).said) for part in narrow]
    assert max(len(line) for text in texts for line in text.splitlines()) <= FEW_COLUMNS + 4
    assert made.count('id="finding-1"') == 1
    fragment = report_fragment(lines["no_empty_wait"].report)  # a notebook may be shown without its styles
    assert fragment.count("write-after-read hazard") == 1


def test_names_are_escaped(tmp_path):
    file = tmp_path / "a\"'><script>alert(1)<b>&amp;\x1b[31m.py"
    source = (ROOT / "examples" / "broken" / "no_empty_wait.py").read_text()
    source = source.replace("no_empty_wait[", "no_empty_wait.__name__ = '<script>x</script>'\nno_empty_wait[")
    file.write_text(source.replace("acc += a * tile[lane]", "acc += a * tile[lane]  # </pre><script>alert(2)</script>"))
    line = traced(file)
    line = replace(line, report=line.report.model_copy(update={"kernel": "<script>alert(3)</script>\x1b[2J"}))
    for made in (page(line), timeline_fragment(line), report_fragment(line.report)):
        found = Page(made)
        found.check_is_alone()
        said = "".join(found.said)
        assert "<script>alert(3)</script>" in said
        assert "\x1b" not in made
    said = "".join(Page(page(line)).said)
    assert "a\"'><script>alert(1)<b>&amp;\N{REPLACEMENT CHARACTER}[31m.py" in said
    assert "# </pre><script>alert(2)</script>" in said
    assert "\x1b" not in text(line)
    assert json.loads(chrome_trace(line))["otherData"]["kernel"].startswith("<script>")


def test_a_large_launch_is_cut_to_a_part(monkeypatch, lines):
    line = lines["sgemv"]
    for name, value in (("MOST_STEPS", 100), ("MOST_OPERATIONS", 300), ("MOST_ARROWS", 5)):
        monkeypatch.setattr(f"wsemu.report.timeline_svg.{name}", value)
    monkeypatch.setattr("wsemu.report.html.MOST_ARROWS", 5)
    part = window(line)
    assert part.first == 0
    assert part.end <= 100
    said = "".join(Page(timeline_fragment(line)).said)
    assert f"steps 0 to {part.end - 1} of 293" in said
    assert "`--from STEP` moves it" in said
    assert "Only 5 arrows are drawn." in said
    assert window(line, 250).first == 250


def test_reports_and_time_lines_show_in_notebooks(lines):
    report = lines["no_empty_wait"].report
    for fragment in (report._repr_html_(), lines["no_empty_wait"]._repr_html_()):
        found = Page(fragment)
        assert found.elements[0] == ("div", {"class": "wsemu"})
        assert "write-after-read hazard" in "".join(found.said)
    found.check_is_alone()
    assert "verified" in "".join(Page(lines["producer_consumer"].report._repr_html_()).said)


def test_a_report_imports_its_page_only_when_it_is_shown():
    code = "import sys, wsemu.model.finding; print([m for m in sys.modules if m.startswith('wsemu.report')])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


# -- the command ------------------------------------------------------------------------------------------------------
def command(*arguments: object, cwd: Path = ROOT) -> Done:
    return typed("trace", *arguments, cwd=cwd)


def test_trace_draws_in_the_terminal():
    done = command("examples/broken/no_empty_wait.py")
    assert done.returncode == 1
    picture = (GOLDEN / "no_empty_wait.txt").read_text().splitlines()
    assert done.stdout.splitlines()[3:] == picture[3:]  # before that, the seconds


@pytest.mark.parametrize(("name", "start"), [("x.html", "<!DOCTYPE html>"), ("x.json", '{"displayTimeUnit"')])
def test_trace_writes_a_file(tmp_path, name, start):
    done = command("-o", name, ROOT / "examples" / "producer_consumer.py", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.endswith(f"{name}: CTA 0 of `producer_consumer`, 48 steps, 0 findings\n")
    assert (tmp_path / name).read_text().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_trace_draws_the_launch_that_failed(tmp_path):
    file = tmp_path / "program.py"
    source = (ROOT / "examples" / "broken" / "no_empty_wait.py").read_text()
    two = "\nfine = cuda.jit(lambda x: None)\nfine[1, 32](x)\n"
    start, end = source.split("no_empty_wait[1")
    file.write_text(f"{start}{two}no_empty_wait[1{end}{two}")
    done = command(file)
    assert "launch 2 of 3; `--launch N` draws another one" in done.stdout
    assert "no_empty_wait[grid 1, block 64]  failed" in done.stdout
    assert "launch 3 of 3" in command("--launch", 3, file).stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "x.txt"], "error: `x.txt` is neither .html nor .json"),
        (["-o", "missing/x.json"], "error: cannot write `missing/x.json`: No such file or directory"),
        (["--launch", "7"], "error: no launch 7: the program made 1"),
        (["--cta", "1"], "error: no CTA 1: the grid has CTA 0 alone"),
        (["--kernel", "other"], "launched no kernel named `other`"),
        (["--arch", "sm_1"], "unknown arch"),
    ],
)
def test_what_cannot_be_drawn_is_a_usage_error(options, message):
    done = command(*options, "examples/producer_consumer.py")
    assert done.returncode == 2
    assert message in " ".join(done.stdout.split())
