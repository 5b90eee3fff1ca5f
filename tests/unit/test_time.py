"""Predicted times: the streams of warps, and what the model of a multiprocessor makes of them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from wsemu.app.time_program import Clock, Wanted
from wsemu.campaign.user_file import import_file
from wsemu.launch.binding import Packed
from wsemu.launch.check import launch
from wsemu.launch.hooks import adding_hook, around
from wsemu.launch.running import bind_launch
from wsemu.model import settings
from wsemu.model.device_memory import DeviceMemory
from wsemu.model.launch_shape import configure
from wsemu.model.work import NOTHING, find_work
from wsemu.patterns import CudaDMASequential
from wsemu.report.terminal import QuietPrinter
from wsemu.report.timing_page import predicted_page
from wsemu.report.timing_trace import predicted_trace
from wsemu.timing.clusters import AMOUNT, EVENT, REMOTE
from wsemu.timing.constants import H200
from wsemu.timing.predict import predict
from wsemu.timing.resolution import RESOLUTION, mark_versions
from wsemu.timing.stall_view import accumulate_stalls
from wsemu.timing.stream import first_cta, follow
from wsemu.timing.time import examine_launch
from wsemu.timing.traffic import IN_SHARED

if TYPE_CHECKING:
    from wsemu.timing.prediction import Prediction

TILE, TILES, CTAS = 4096, 24, 264
HEAD = ".version 8.3\n.target sm_90a\n.address_size 64\n"


def ring(stages: int) -> str:
    """A ring of bulk copies: one thread fills stages, eight warps add one to their tiles."""
    full, empty = TILE * stages, TILE * stages + 8 * stages
    lines = [
        ".extern .shared .align 128 .b8 m[];\n.visible .entry ring(.param .u64 x, .param .u64 y) {",
        ".reg .b64 %d<9>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .pred %p<9>;",
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, m;",
        f"ld.param.u64 %d1, [x];\nld.param.u64 %d2, [y];\nmul.wide.u32 %d3, %r2, {TILES * TILE};",
        "add.s64 %d1, %d1, %d3;\nadd.s64 %d2, %d2, %d3;\nsetp.ne.b32 %p1, %r1, 0;\n@%p1 bra START;",
    ]
    for s in range(stages):
        lines.append(
            f"mbarrier.init.shared.b64 [m+{full + 8 * s}], 1;\nmbarrier.init.shared.b64 [m+{empty + 8 * s}], 8;"
        )
    lines += [
        "fence.mbarrier_init.release.cluster;\nSTART:\nbar.sync 0;\nsetp.ge.u32 %p2, %r1, 256;\n@%p2 bra COPY;",
        "shl.b32 %r4, %r1, 4;\nadd.s32 %r5, %r3, %r4;\nmul.wide.u32 %d4, %r1, 16;\nadd.s64 %d4, %d2, %d4;",
        "and.b32 %r6, %r1, 31;\nsetp.eq.b32 %p3, %r6, 0;",
    ]
    for t in range(TILES):
        s = t % stages
        lines += [
            _wait(f"F{t}", full + 8 * s, t // stages % 2),
            f"ld.shared.v4.f32 {{%f1, %f2, %f3, %f4}}, [%r5+{s * TILE}];\nbar.warp.sync -1;",
            f"@%p3 mbarrier.arrive.shared::cta.b64 _, [m+{empty + 8 * s}];",
            *(f"add.f32 %f{k}, %f{k}, 0f3F800000;" for k in range(1, 5)),
            f"st.global.v4.f32 [%d4+{t * TILE}], {{%f1, %f2, %f3, %f4}};",
        ]
    lines.append("bra END;\nCOPY:\nsetp.ne.b32 %p4, %r1, 256;\n@%p4 bra END;")
    for t in range(TILES):
        s = t % stages
        lines += [
            _wait(f"E{t}", empty + 8 * s, (t // stages + 1) % 2),
            f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [m+{full + 8 * s}], {TILE};",
            f"add.s64 %d5, %d1, {t * TILE};\nadd.s32 %r7, %r3, {s * TILE};\nadd.s32 %r8, %r3, {full + 8 * s};",
            f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%d5], {TILE}, [%r8];",
        ]
    return HEAD + "\n".join(lines) + "\nEND:\nret;\n}\n"


def _wait(label: str, place: int, parity: int) -> str:
    return f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %p5, [m+{place}], {parity};\n@!%p5 bra {label};"


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Stages -> the PTX of their ring."""
    folder = tmp_path_factory.mktemp("rings")
    made = {}
    for stages in (1, 2, 4):
        made[stages] = folder / f"ring{stages}.ptx"
        made[stages].write_text(ring(stages), encoding="utf-8")
    return made


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(CTAS * TILES * TILE // 4, np.float32), np.zeros(CTAS * TILES * TILE // 4, np.float32)


def predicted(path: Path, stages: int, ctas: int = CTAS, **options: Any) -> Prediction:
    kernel = wsemu.load_ptx(path)["ring"]
    return wsemu.time(kernel, ctas, 288, arrays(), dynamic_shared=stages * (TILE + 16), **options)


def test_a_ring_of_the_tests_is_right(rings: dict[int, Path]) -> None:
    x, y = np.zeros(2 * TILES * TILE // 4, np.float32), np.zeros(2 * TILES * TILE // 4, np.float32)
    report = wsemu.check(wsemu.load_ptx(rings[2])["ring"], 2, 288, (x, y), dynamic_shared=2 * (TILE + 16))
    assert report.verdict == "verified"
    assert (y == 1).all()


def test_a_stream_has_all_that_the_warps_execute(rings: dict[int, Path]) -> None:
    kernel = wsemu.load_ptx(rings[2])["ring"]
    configuration = configure(1, 288, dynamic_shared=2 * (TILE + 16))
    bound, _ = bind_launch(kernel, configuration, kernel.fit(arrays()), settings.current())
    stream = follow(bound, 0)
    report = wsemu.check(kernel, 1, 288, arrays(), dynamic_shared=2 * (TILE + 16))
    assert stream.is_whole
    assert stream.executed == report.counters.warp_instructions
    assert (stream.step_of >= 0).all()


def test_a_prediction_is_the_same_each_time_and_leaves_arrays_as_they_are(rings: dict[int, Path]) -> None:
    kernel, (x, y) = wsemu.load_ptx(rings[2])["ring"], arrays()
    one, other = (wsemu.time(kernel, CTAS, 288, (x, y), dynamic_shared=2 * (TILE + 16)) for _ in range(2))
    assert one == other
    assert not y.any()


def test_more_stages_hide_more(rings: dict[int, Path]) -> None:
    found = {stages: predicted(path, stages, resident=1) for stages, path in rings.items()}
    assert found[1].microseconds > 1.3 * found[2].microseconds > 1.3 * found[4].microseconds
    assert found[1].bound_by == f"latency: mbarrier m[{TILE // 8}]"
    assert found[1].hidden is not None
    assert found[4].hidden is not None
    assert found[1].hidden < found[4].hidden


def test_roles_are_those_of_warps_that_do_the_same(rings: dict[int, Path]) -> None:
    found = predicted(rings[2], 2)
    assert [8] in [role.warps for role in found.roles]
    assert sum(role.share for role in found.roles) == pytest.approx(1, abs=0.01)


def test_occupancy_is_limited_by_what_there_is_least_of(rings: dict[int, Path]) -> None:
    few = predicted(rings[2], 2, CTAS * 4, registers=128)
    assert (few.occupancy.ctas, few.occupancy.limited_by) == (1, "registers")
    many = predicted(rings[2], 2, CTAS * 4)
    assert (many.occupancy.ctas, many.occupancy.limited_by) == (7, "threads")


SPINS = (
    HEAD
    + """.visible .entry work(.param .u64 x) {
.reg .f32 %f<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.reg .pred %p1;
mov.u32 %r1, %tid.x;\nmov.f32 %f1, 0f3F800000;\nmov.f32 %f2, %f1;\nmov.f32 %f3, %f1;\nmov.f32 %f4, %f1;
mov.u32 %r2, 0;
LOOP:
"""
    + "".join(f"fma.rn.f32 %f{k}, %f{k}, %f{k}, %f{k};\n" for k in (1, 2, 3, 4) * 8)
    + """add.s32 %r2, %r2, 1;
setp.lt.u32 %p1, %r2, 40;\n@%p1 bra LOOP;
add.f32 %f1, %f1, %f2;\nadd.f32 %f1, %f1, %f3;\nadd.f32 %f1, %f1, %f4;
ld.param.u64 %d1, [x];\nmul.wide.u32 %d2, %r1, 4;\nadd.s64 %d1, %d1, %d2;\nst.global.f32 [%d1], %f1;
ret;
}
"""
)


def test_arithmetic_bounds_what_computes(tmp_path: Path) -> None:
    (tmp_path / "work.ptx").write_text(SPINS, encoding="utf-8")
    found = wsemu.time(wsemu.load_ptx(tmp_path / "work.ptx")["work"], 132, 512, (np.zeros(512, np.float32),))
    assert found.bound_by in ("fma pipe", "issue")
    assert found.use["fma pipe"] > 0.8
    cycles = 40 * 32 * 16 / 4
    assert cycles < found.cycles < 1.25 * cycles + 1500


@pytest.mark.parametrize("block", [32, 96])
def test_sub_partitions_without_warps_are_idle(tmp_path: Path, block: int) -> None:
    (tmp_path / "work.ptx").write_text(SPINS, encoding="utf-8")
    kernel, out = wsemu.load_ptx(tmp_path / "work.ptx")["work"], np.zeros(block, np.float32)
    found, run = examine_launch(kernel, configure(4, block), (out,), "H200")
    assert run.run.is_whole
    assert run.run.executed == run.tables.executed > 0
    assert found.occupancy.warps == block // 32


def test_more_waves_take_longer(tmp_path: Path) -> None:
    (tmp_path / "work.ptx").write_text(SPINS, encoding="utf-8")
    kernel, out = wsemu.load_ptx(tmp_path / "work.ptx")["work"], np.zeros(512, np.float32)
    one, four = (wsemu.time(kernel, 132 * waves, 512, (out,), registers=128) for waves in (1, 4))
    assert (one.occupancy.waves, four.occupancy.waves) == (1, 4)
    assert 3.5 < four.cycles / one.cycles < 4.5


def test_json_is_alone_on_the_output_if_the_program_stops(tmp_path: Path) -> None:
    file = tmp_path / "stops.py"
    file.write_text(f"{RING}\nraise SystemExit('wrong sums')\n", encoding="utf-8")
    done = command("time", "--no-numba-ptx", "--no-run", "--json", file)
    assert len(json.loads(done.stdout)) == 1
    assert done.stderr == "the program stopped: wrong sums\n"


def test_the_command_prints_text_and_json(rings: dict[int, Path]) -> None:
    size = CTAS * TILES * TILE // 4
    words = (
        "time", rings[2], "--grid", CTAS, "--block", 288, "--arg", f"f32[{size}]", "--arg", f"f32[{size}]",
        "--dynamic-shared", 2 * (TILE + 16), "--no-run",
    )  # fmt: skip
    text = command(*words)
    assert text.returncode == 0, text.stderr
    for part in ("bound by", "occupancy", "rings and pipelines are within 15% in 9 of 10 launches", "not modeled"):
        assert part in text.stdout
    (found,) = json.loads(command(*words, "--json").stdout)
    assert found["kernel"] == "ring"
    assert found["low"] < found["microseconds"] < found["high"]
    assert set(found) == set(wsemu.Prediction.model_fields)


def test_an_unknown_gpu_is_refused(rings: dict[int, Path]) -> None:
    done = command("time", rings[2], "--grid", 1, "--block", 288, "--device", "H201")
    assert done.returncode == 2
    assert "unknown device 'H201': use one of H200, H100, A100, RTX4090, B200, C2050" in done.stdout + done.stderr


def test_what_cannot_be_predicted_says_so(rings: dict[int, Path]) -> None:
    kernel = wsemu.load_ptx(rings[2])["ring"]
    with pytest.raises(wsemu.UsageError, match="no CTA 7: the grid has 2"):
        wsemu.time(kernel, 2, 288, arrays(), dynamic_shared=2 * (TILE + 16), cta=7)
    with pytest.raises(wsemu.UsageError, match="give 0 to 255"):
        wsemu.time(kernel, 2, 288, arrays(), dynamic_shared=2 * (TILE + 16), registers=300)


RING = """
import numpy as np
from wsemu import cuda

STAGES = 2
N = 64

@cuda.jit
def copy(x, y):
    tile = cuda.shared.array(STAGES * 32, np.float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    y[i] = tile[i]

copy[1, 32 * STAGES](np.zeros(N, np.float32), np.zeros(N, np.float32))
"""


def test_what_if_changes_a_constant_and_marks_the_best(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING, encoding="utf-8")
    done = command("time", "--no-numba-ptx", "--what-if", "stages=1..3", "ring.py", cwd=tmp_path)
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("   ") and " us " in line]
    assert [(row[0], row[4]) for row in rows] == [("1", "verified"), ("2", "verified"), ("3", "failed")]
    assert sum("<- best" in line for line in done.stdout.splitlines()) == 1
    assert "<- best" not in done.stdout.splitlines()[-1]
    assert (tmp_path / "ring.py").read_text(encoding="utf-8") == RING


def test_what_if_takes_options_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING, encoding="utf-8")
    done = command("time", "--no-numba-ptx", "--no-run", "--json", "--what-if", "ctas=1,2", "ring.py", cwd=tmp_path)
    assert [answer["value"] for answer in json.loads(done.stdout)["answers"]] == [1, 2]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("depth=1..3", "has no constant `depth` at its top level: use one of STAGES, N, ctas, registers"),
        ("STAGES", "write NAME=2..6 or NAME=1,2,4"),
        ("STAGES=a", "`a` is not a number or range"),
        ("STAGES=1..100", "100 values, at most 64"),
    ],
)
def test_what_if_refuses_what_it_cannot_change(tmp_path: Path, question: str, message: str) -> None:
    (tmp_path / "ring.py").write_text(RING, encoding="utf-8")
    done = command("time", "--what-if", question, "ring.py", cwd=tmp_path)
    assert done.returncode == 2
    assert message in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("times", "resolutions", "marks"),
    [
        ([10.0, 10.2, 10.3], [0.02] * 3, ["best", "not distinguished", ""]),
        ([10.0, 10.8, 11.0], [0.02, 0.09, 0.02], ["best", "not distinguished", ""]),
        ([10.0], [0.5], ["best"]),
    ],
)
def test_versions_within_the_resolution_are_not_distinguished(
    times: list[float], resolutions: list[float], marks: list[str]
) -> None:
    assert mark_versions(times, resolutions, 0) == marks


def test_a_prediction_has_the_resolution_of_its_class(rings: dict[int, Path], tmp_path: Path) -> None:
    assert predicted(rings[2], 2).resolution == RESOLUTION["rings and pipelines"]
    assert predicted(rings[2], 2, device="H100").resolution == RESOLUTION["other kernels"]
    (tmp_path / "work.ptx").write_text(SPINS, encoding="utf-8")
    kernel, out = wsemu.load_ptx(tmp_path / "work.ptx")["work"], np.zeros(512, np.float32)
    assert wsemu.time(kernel, 132, 512, (out,)).resolution == RESOLUTION["other kernels"]


def test_what_if_marks_versions_that_are_not_distinguished(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING, encoding="utf-8")
    given = ("time", "--no-numba-ptx", "--what-if", "ctas=1..2", "-o", "table.html")
    lines = command(*given, "ring.py", cwd=tmp_path).stdout.splitlines()
    assert [line.endswith("within 50%: not distinguished") for line in lines[-2:]] == [False, True]
    assert "within 50%: not distinguished" in (tmp_path / "table.html").read_text(encoding="utf-8")
    answers = json.loads(command(*given, "--json", "ring.py", cwd=tmp_path).stdout)["answers"]
    assert [answer["marks"] for answer in answers] == [["best"], ["not distinguished"]]


def test_what_if_does_not_mark_versions_with_errors(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING, encoding="utf-8")
    done = command("time", "--no-numba-ptx", "--json", "--what-if", "stages=2..3", "ring.py", cwd=tmp_path)
    assert [answer["marks"] for answer in json.loads(done.stdout)["answers"]] == [["best"], [""]]


def test_what_if_has_no_time_line(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING, encoding="utf-8")
    done = command("time", "--what-if", "ctas=1", "-o", "waits.json", "ring.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "write its table to FILE.html" in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("device", ["H100", "A100", "RTX 4090", "B200", "C2050"])
def test_gpus_that_were_not_measured_say_so(rings: dict[int, Path], device: str) -> None:
    found = wsemu.time(
        wsemu.load_ptx(rings[2])["ring"], CTAS, 288, arrays(), dynamic_shared=2 * (TILE + 16), device=device
    )
    assert not found.measured_constants
    assert found.source
    assert found.accuracy == f"predicted for a {found.device} from published constants: unmeasured"
    assert found.high / found.low == pytest.approx(4)


def test_a_gpu_with_less_bandwidth_takes_longer(rings: dict[int, Path]) -> None:
    kernel = wsemu.load_ptx(rings[4])["ring"]
    times = [
        wsemu.time(kernel, CTAS * 8, 288, large, dynamic_shared=4 * (TILE + 16), device=device).microseconds
        for large in [tuple(np.zeros(CTAS * 8 * TILES * TILE // 4, np.float32) for _ in range(2))]
        for device in ("B200", "H200", "A100", "C2050")
    ]
    assert times == sorted(times)


def test_a_trace_has_the_waits_of_all_warps_in_cycles(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING, encoding="utf-8")
    done = command("time", "--no-numba-ptx", "--no-run", "-o", "waits.json", "ring.py", cwd=tmp_path)
    assert done.returncode == 0
    trace = json.loads((tmp_path / "waits.json").read_text(encoding="utf-8"))
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {event["tid"] for event in slices} == {0, 1}
    assert {"long_scoreboard", "barrier", "issue"} <= {event["name"] for event in slices}
    assert "not measured" in trace["otherData"]["axis"]
    for warp in (0, 1):
        own = [event for event in slices if event["tid"] == warp]
        assert all(a["ts"] <= b["ts"] for a, b in itertools.pairwise(own))


def test_a_page_has_a_row_for_each_warp_and_barrier(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING, encoding="utf-8")
    done = command("time", "--no-numba-ptx", "--no-run", "-o", "waits.html", "ring.py", cwd=tmp_path)
    assert done.returncode == 0
    page = (tmp_path / "waits.html").read_text(encoding="utf-8")
    for text in (">warp 0<", ">warp 1<", ">barrier ", "why-long_scoreboard", "generation (no. 1 of this row), cycles "):
        assert text in page
    assert "<script" not in page


def test_a_page_escapes_the_names_of_a_kernel(rings: dict[int, Path]) -> None:
    kernel = wsemu.load_ptx(rings[2])["ring"]
    prediction, found = examine_launch(
        kernel, configure(CTAS, 288, dynamic_shared=2 * (TILE + 16)), arrays(), "H200", spans=1000
    )
    page = predicted_page(found, prediction.model_copy(update={"kernel": "<script>x</script>&"}))
    assert "<script" not in page
    assert page.count("&lt;script&gt;x&lt;/script&gt;&amp;") >= 2
    assert f": m[{2 * TILE // 8}]<" in page
    assert "phase (no. 2 of this row), cycles " in page


def test_a_page_and_a_trace_say_that_waits_are_left_out(rings: dict[int, Path]) -> None:
    kernel = wsemu.load_ptx(rings[2])["ring"]
    for spans, is_cut in ((10, True), (100_000, False)):
        prediction, found = examine_launch(
            kernel, configure(CTAS, 288, dynamic_shared=2 * (TILE + 16)), arrays(), "H200", spans=spans
        )
        assert ("The list of waits is full" in predicted_page(found, prediction)) == is_cut
        other = json.loads(predicted_trace(found, prediction))["otherData"]
        assert ("The list of waits is full" in other.get("note", "")) == is_cut


SLOW_RING = Path(__file__).parents[2] / "docs" / "programs" / "slow_ring.py"


def test_mbarriers_have_the_names_of_the_source(tmp_path: Path) -> None:
    """They were `mbarrier at 0x2000`, and no name was in the text."""
    done = command("time", "--no-numba-ptx", "--no-run", "-o", "waits.html", SLOW_RING, cwd=tmp_path)
    assert "bound by   latency: mbarrier full[0]\n" in done.stdout, done.stderr
    page = (tmp_path / "waits.html").read_text(encoding="utf-8")
    assert ">full[0]<" in page
    assert ">empty[0]<" in page
    assert "mbarrier at" not in page


def test_barriers_of_a_cluster_in_cuda_have_the_names_of_the_source() -> None:
    """The barrier of the cluster was `mbarrier at 0xfffffe`."""
    kernel, grid, given = product("gemm_pair")
    configuration = configure(grid, 384, dynamic_shared=GEMM_SHARED)
    prediction, found = examine_launch(kernel, configuration, given, "H200", spans=20_000)
    page = predicted_page(found, prediction)
    for name in ("m.full[0]", "m.full[3]", "m.empty[0]", "cluster barrier", "barrier 1"):
        assert f">{name}<" in page
    assert "mbarrier at" not in page


def test_a_plan_has_the_time_of_its_transfer() -> None:
    def cycles(threads: int, alignment: int, engine: str) -> float:
        pattern = CudaDMASequential(1, threads, 64, 64, 8192, alignment=alignment, engine=engine)
        plan = pattern.plan(time=True)
        assert f"{plan.cycles:,.0f} cycles from L2, predicted" in str(plan)
        return float(plan.cycles)

    assert cycles(32, 16, "bulk") < cycles(32, 16, "cp.async") < cycles(32, 16, "warps") < cycles(32, 4, "warps")
    assert cycles(128, 16, "warps") < cycles(32, 16, "warps")
    assert CudaDMASequential(1, 32, 64, 64, 8192).plan().cycles == 0


HOPPER = Path(__file__).parents[2] / "examples" / "hopper" / "gemm.sm_90a.ptx"
GEMM_SHARED = 4 * 2 * 128 * 64 * 2 + 128 * 128 * 2 + 64


def product(name: str, n: int = 512) -> tuple[Any, Any, list[Any]]:
    """Return the kernel of a product of halves, its grid and its arguments."""
    rows = (128, 64 if name == "gemm_pair" else 128)
    maps = [wsemu.TensorMap(np.zeros((n, n), np.float16), [one, 64], swizzle="128B") for one in rows]
    maps.append(wsemu.TensorMap(np.zeros((n, n), np.float16), [64, 64], swizzle="128B"))
    return wsemu.load_ptx(HOPPER)[name], (n // 128, n // 128), [*maps, np.int32(n)]


def test_a_cluster_is_one_cta_and_what_the_others_do_to_it() -> None:
    kernel, grid, arguments = product("gemm_pair")
    configuration = kernel.apply_cluster(configure(grid, 384, dynamic_shared=GEMM_SHARED))
    bound, _ = bind_launch(kernel, configuration, kernel.fit(arguments), settings.current())
    stream = follow(bound, first_cta(bound))
    assert stream.member is not None
    assert stream.member.members == 2
    assert set(stream.warp.tolist()) == set(range(12))
    copied = stream.events[stream.events[:, 0] == EVENT["credit"]]
    assert copied[:, AMOUNT].sum() == 2 * 128 * 64 * 2 * (512 // 64)  # all that its mbarriers expect
    assert copied[copied[:, REMOTE] == 1, AMOUNT].sum() == 64 * 64 * 2 * (512 // 64)


def test_clusters_are_predicted() -> None:
    alone, pair = (
        wsemu.time(kernel, grid, 384, arguments, dynamic_shared=GEMM_SHARED)
        for kernel, grid, arguments in map(product, ("gemm", "gemm_pair"))
    )
    assert 0.7 < pair.microseconds / alone.microseconds < 2.5
    assert "membar" in pair.reasons
    assert "membar" not in alone.reasons
    assert not any("wait for each other" in note for note in pair.notes)
    assert any("cluster" in line for line in pair.not_modeled)
    assert not any("cluster" in line for line in alone.not_modeled)


def test_an_arrival_without_a_scope_waits_for_no_earlier_accesses(tmp_path: Path) -> None:
    """ptxas puts a MEMBAR before `mbarrier.arrive.release.cluster` alone."""
    path = tmp_path / "pair.ptx"
    text = HOPPER.read_text(encoding="utf-8")
    assert "mbarrier.arrive.release.cluster.shared::cluster" in text
    changed = text.replace("mbarrier.arrive.release.cluster.shared::cluster", "mbarrier.arrive.shared::cluster")
    path.write_text(changed, encoding="utf-8")
    kernel, grid, arguments = product("gemm_pair")
    slow, fast = (
        wsemu.time(one, grid, 384, arguments, dynamic_shared=GEMM_SHARED)
        for one in (kernel, wsemu.load_ptx(path)["gemm_pair"])
    )
    assert fast.reasons.get("membar", 0) < slow.reasons["membar"] / 2  # the cluster's barrier at both ends has the rest
    assert fast.microseconds < slow.microseconds


@pytest.mark.parametrize(
    ("fence", "waits"),
    [
        ("fence.proxy.async;", True),
        ("fence.proxy.async.global;", True),
        ("membar.gl;", True),
        ("fence.acq_rel.gpu;", True),
        ("fence.proxy.async.shared::cta;", False),
        ("membar.cta;", False),
    ],
)
def test_fences_of_gpu_scope_wait_for_earlier_accesses(tmp_path: Path, fence: str, waits: bool) -> None:
    path = tmp_path / "ring.ptx"
    text = ring(2)
    assert text.count("bar.warp.sync -1;") == TILES
    path.write_text(text.replace("bar.warp.sync -1;", f"bar.warp.sync -1;\n{fence}"), encoding="utf-8")
    assert ("membar" in predicted(path, 2).reasons) == waits


COUNTED = (
    HEAD
    + """.visible .entry counted(.param .u64 count, .param .u64 y) {
.reg .b64 %d<3>;\n.reg .b32 %r<4>;\n.reg .pred %p<2>;
ld.param.u64 %d1, [count];\nld.param.u64 %d2, [y];\nld.global.u32 %r1, [%d1];\nmov.u32 %r2, 0;
LOOP:\nadd.s32 %r2, %r2, %r1;\nxor.b32 %r2, %r2, 5;\nadd.s32 %r1, %r1, -1;\nsetp.gt.s32 %p1, %r1, 0;\n@%p1 bra LOOP;
st.global.u32 [%d2], %r2;\nret;\n}\n"""
)


def test_a_launch_in_device_memory_is_predicted_with_its_contents(tmp_path: Path) -> None:
    (tmp_path / "counted.ptx").write_text(COUNTED, encoding="utf-8")
    kernel = wsemu.load_ptx(tmp_path / "counted.ptx")["counted"]
    clock = Clock(Wanted(as_json=True, runs=False), QuietPrinter())
    for count in (8, 20_000):
        memory = DeviceMemory()
        turns, y = memory.allocate(4), memory.allocate(4)
        memory.write(turns, np.array([count], np.uint32))
        with adding_hook(around, clock):
            launch(kernel, configure(1, 32), tuple(Packed(one.to_bytes(8, "little")) for one in (turns, y)), memory)
    few, many = clock.found
    assert many.microseconds > 10 * few.microseconds


def test_bulk_stores_write(tmp_path: Path) -> None:
    path, tiles = tmp_path / "store.ptx", 8
    lines = [
        ".visible .entry store(.param .u64 y) {\n.shared .align 128 .b8 m[4096];\n.reg .b64 %d<4>;\n.reg .b32 %r<4>;",
        ".reg .pred %p<2>;\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, m;\nsetp.ne.b32 %p1, %r1, 0;",
        f"@%p1 bra END;\nld.param.u64 %d1, [y];\nmul.wide.u32 %d2, %r2, {tiles * TILE};\nadd.s64 %d1, %d1, %d2;",
        *(
            f"add.s64 %d3, %d1, {t * TILE};\ncp.async.bulk.global.shared::cta.bulk_group [%d3], [%r3], {TILE};"
            for t in range(tiles)
        ),
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:\nret;\n}\n",
    ]
    path.write_text(HEAD + "\n".join(lines), encoding="utf-8")
    kernel, y = wsemu.load_ptx(path)["store"], np.zeros(CTAS * tiles * TILE // 4, np.float32)
    bound, _ = bind_launch(kernel, configure(CTAS, 32), kernel.fit((y,)), settings.current())
    found = predict(bound, H200)
    assert found.found.written_bytes == y.nbytes
    assert not found.found.read_bytes


def test_a_ratio_is_to_a_prediction_of_the_same_model(rings: dict[int, Path], tmp_path: Path) -> None:
    file = tmp_path / "ring.json"
    slow, fast = predicted(rings[1], 1), predicted(rings[4], 4)
    assert slow.ratio_to(file) == 1.0
    assert slow.ratio_to(file) == 1.0
    assert fast.ratio_to(file) == fast.microseconds / slow.microseconds
    with pytest.raises(wsemu.UsageError, match=r"has device `H200`, not `A100`: delete it"):
        predicted(rings[4], 4, device="A100").ratio_to(file)
    file.write_text(file.read_text(encoding="utf-8").replace(slow.version, "1-0"), encoding="utf-8")
    with pytest.raises(wsemu.UsageError, match="has version `1-0`"):
        slow.ratio_to(file)
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(wsemu.UsageError, match="is not a stored prediction"):
        slow.ratio_to(file)
    slow.model_copy(update={"microseconds": 0.0}).ratio_to(tmp_path / "zero.json")
    with pytest.raises(wsemu.UsageError, match=r"it has 0\.0 microseconds"):
        slow.ratio_to(tmp_path / "zero.json")


@pytest.mark.parametrize("name", ["missing/ring.json", "ring.json/ring.json"])
def test_a_prediction_that_cannot_be_stored_leaves_no_file(rings: dict[int, Path], tmp_path: Path, name: str) -> None:
    (tmp_path / "ring.json").write_text("{}", encoding="utf-8")
    with pytest.raises(wsemu.UsageError, match=r"ring.json` cannot be written: "):
        predicted(rings[1], 1).ratio_to(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["ring.json"]


STALLS = """
import numpy as np
from wsemu import cuda

@cuda.jit
def scale(x, y):
    tile = cuda.shared.array(32, np.float64)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    value = tile[31 - i]
    y[i] = value * value

scale[1, 32](np.zeros(32), np.zeros(32))
"""


def test_stalls_of_a_warp_by_the_latencies_of_fermi(tmp_path: Path) -> None:
    file = tmp_path / "scale.py"
    file.write_text(STALLS, encoding="utf-8")
    done = command("time", "--no-run", "--no-numba-ptx", "--stalls", "0", file)
    lines = done.stdout.partition("no time of a GPU")[2].splitlines()
    rows = {line.split("  ")[-1]: line.split() for line in lines if "scale.py:" in line}
    raw = {text: int(row[0]) for text, row in rows.items()}
    assert 332 - 60 <= raw["tile[i] = x[i]"] <= 332 + 60  # the store waits for the global load
    assert 0 < raw["y[i] = value * value"] <= 38 + 24  # the product for its load, the store for the product
    wrong = command("time", "--no-run", "--no-numba-ptx", "--stalls", "7", file)
    assert "no warp 7 in a CTA of `scale`: give a number below 1" in wrong.stdout + wrong.stderr


def test_the_mix_of_the_third_algorithm_is_that_of_the_paper() -> None:
    """Table 3 of "Fast Implementation of DGEMM on Fermi GPU": 4 dfma for each load of 16 bytes from shared memory, and
    16 of these for each from global memory. The stalls order the algorithms as the paper does."""
    module = import_file(Path(__file__).parents[2] / "examples" / "dgemm.py")
    found = {}
    for kernel, threads in module.KERNELS[:3]:
        arguments = module.arguments(np.zeros((64, 256), order="F"), np.zeros((256, 64), order="F"))
        bound, _ = bind_launch(kernel, configure(1, threads), arguments, settings.current())
        found[kernel.py_func.__name__] = predict(bound, H200, room=1 << 20)
    third = found["algorithm_3"]
    chosen = third.stream.warp == 0
    names = np.array([one.name for one in third.code.instructions])[third.stream.pc[chosen]]
    loads, shared = names == "ld.v2.b64", third.found.space[chosen] == IN_SHARED
    assert (names == "fma.f64").sum() == 4 * (loads & shared).sum() == 4 * 16 * (loads & ~shared).sum()
    stalls = [sum(one.raw + one.war for one in accumulate_stalls(found[f"algorithm_{n}"], 0)) for n in (1, 2, 3)]
    assert stalls[0] > stalls[1] > stalls[2]


@pytest.mark.parametrize("name", ["spread.x1", "spread.x4", "spread.x2.trans", "collect.x4"])
def test_matrices_between_registers_and_shared_memory_cost_their_access_alone(name: str) -> None:
    assert find_work(name) == NOTHING


def cycles_of(tmp_path: Path, body: str) -> float:
    """Return the predicted cycles of one warp that executes PTX; `%d1` is its address in 4 MB, `m` is shared memory."""
    path = tmp_path / "one.ptx"
    head = ".visible .entry one(.param .u64 x) {\n.reg .b64 %d<4>;\n.reg .b32 %r<99>;\n.reg .f32 %f<99>;\n"
    head += ".shared .align 16 .b8 m[16384];\nld.param.u64 %d1, [x];\nmov.u32 %r1, %tid.x;\n"
    head += "mov.u32 %r3, m;\nmul.wide.u32 %d2, %r1, 4;\nadd.s64 %d1, %d1, %d2;\n"
    path.write_text(HEAD + head + body + "\nret;\n}\n", encoding="utf-8")
    return wsemu.time(wsemu.load_ptx(path)["one"], 1, 32, (np.zeros(1 << 20, np.float32),)).cycles


@pytest.mark.parametrize(("registers", "each"), [(1, 6), (2, 8), (4, 12)])
def test_a_warp_alone_stores_more_slowly_than_a_multiprocessor(tmp_path: Path, registers: int, each: int) -> None:
    """Measured on an H200: one warp stores 4, 8 and 16 bytes a lane every 5.9, 7.8 and 11.8 cycles."""
    shape, values = {1: ("f32", "%f1"), 2: ("v2.f32", "{%f1, %f1}"), 4: ("v4.f32", "{%f1, %f1, %f1, %f1}")}[registers]
    begin = f"mov.f32 %f1, 0f00000000;\nmad.lo.u32 %r4, %r1, {4 * registers}, %r3;\n"
    few, many = (cycles_of(tmp_path, begin + f"st.shared.{shape} [%r4], {values};\n" * n) for n in (10, 74))
    assert 0.9 * each < (many - few) / 64 < 1.1 * each


def test_loads_after_the_third_share_a_scoreboard(tmp_path: Path) -> None:
    """ptxas has six scoreboards: a use of the fourth load waits for the fifth one too."""
    last = "ld.global.f32 %f4, [%d1];\nld.global.f32 %f5, [%d1+1048576];\n"
    work = (
        "add.f32 %f6, %f1, %f2;\nadd.f32 %f6, %f6, %f3;\nadd.f32 %f6, %f6, %f4;\n"
        + "fma.rn.f32 %f6, %f6, %f6, %f6;\n" * 200
    )
    end = "fma.rn.f32 %f5, %f5, %f5, %f5;\n" * 140 + "add.f32 %f6, %f6, %f5;\nst.global.f32 [%d1], %f6;"
    moves, loads = (
        "".join(f"{one};\n".format(n) for n in (1, 2, 3)) for one in ("mov.f32 %f{}, %f9", "ld.global.f32 %f{}, [%d1]")
    )
    hit = "ld.global.f32 %f9, [%d1];\nst.shared.f32 [%r3], %f9;\nbar.sync 0;\n"
    alone, shared = (cycles_of(tmp_path, hit + some + last + work + end) for some in (moves, loads))
    assert shared > alone + 150


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    done = command("time", "missing.py", "--what-if", "STAGES=1,2", cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (2, "error: cannot read `missing.py`: No such file or directory")
