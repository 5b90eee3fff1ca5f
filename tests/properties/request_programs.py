"""Persistent loops of cluster launch control, and which of them are right.

A CTA stores its tile and requests the next one, until a request fails.  Programs differ in the number of responses that
are in use in turn, of threads, tiles and multiprocessors, in who gets canceled clusters, and in what a round does
besides.  Half of them have one edit that makes some schedule wrong: a wait, a barrier or an initialization's barrier is
left out, a parity stays, or other bytes are expected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random

    from wsemu.model.settings import Assignment, Engine

WRONG = ("no wait", "no barrier", "no first barrier", "parity", "few bytes", "many bytes")
HEAD = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 result)
{
  .shared .align 16 .b8 response[32];
  .shared .align 8 .b64 full[2];
  .reg .b32 %t, %tile, %parity, %slot, %to, %bar, %v, %responses, %phases;
  .reg .pred %first, %done, %p, %q2; .reg .b64 %out, %o;
  .reg .b128 %q;
  ld.param.u64 %out, [result];
  mov.u32 %t, %tid.x; mov.u32 %tile, %ctaid.x; mov.u32 %parity, 0; mov.u32 %slot, 0;
  mov.u32 %responses, response; mov.u32 %phases, full;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared::cta.b64 [full], 1;
  @%first mbarrier.init.shared::cta.b64 [full+8], 1;
  @%first fence.mbarrier_init.release.cluster;
"""


class Requests(NamedTuple):
    """A loop, and how it is launched."""

    slots: int
    threads: int
    tiles: int
    sms: int
    clc: Assignment
    more: int
    """additional barriers in a round"""
    wrong: str
    """the edit, or nothing"""


def draw_requests(source: random.Random) -> Requests:
    """Draw a program."""
    assignments: tuple[Assignment, ...] = ("robin", "one", "reverse")
    return Requests(
        source.choice((1, 1, 2)), source.choice((64, 96, 128)), source.randrange(3, 8), source.choice((1, 2, 3)),
        source.choice(assignments), source.choice((0, 0, 1)), source.choice(WRONG) if source.random() < 0.5 else "",
    )  # fmt: skip


def write_requests(program: Requests) -> str:
    """Return the kernel of a program."""
    wrong = program.wrong
    flip = "xor.b32 %parity, %parity, 1;"
    if program.slots == 2:
        flip = "setp.eq.u32 %q2, %slot, 0; @%q2 xor.b32 %parity, %parity, 1;"
    size = {"few bytes": 8, "many bytes": 32}.get(wrong, 16)
    wait = "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], %parity;\n  @!%done bra WAIT;"
    return (
        HEAD
        + f"""
  {"" if wrong == "no first barrier" else "bar.sync 0;"}
LOOP:
  {"" if wrong == "no barrier" else "bar.sync 0;"}
  {"bar.sync 0;" * program.more}
  mad.lo.u32 %to, %slot, 16, %responses; mad.lo.u32 %bar, %slot, 8, %phases;
  @!%first bra WORK;
  fence.proxy.async.shared::cta;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%to], [%bar];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {size};
WORK:
  mul.wide.u32 %o, %t, 4;
  mad.wide.u32 %o, %tile, {4 * program.threads}, %o;
  add.u64 %o, %o, %out;
  st.global.u32 [%o], %tile;
  {"" if wrong == "no wait" else wait}
  ld.shared.b128 %q, [%to];
  {"xor.b32 %slot, %slot, 1;" if program.slots == 2 else ""}
  {"" if wrong == "parity" else flip}
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %q;
  @%p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%tile, _, _, _}}, %q;
  @%p bra LOOP;
  ret;
}}
"""
    )


def is_right(program: Requests) -> bool:
    """Return whether every schedule and assignment of a program is right.  With one response, the barrier of a round
    separates its request from the reads of the round before; with two, the one of the next round does so as well.  The
    barrier of the first round also publishes what the first thread initializes."""
    if program.wrong == "no barrier":
        return program.more > 0
    return program.wrong in ("", "no first barrier")


def judge_requests(program: Requests, engine: Engine) -> tuple[str, str]:
    """Compare the verdict with what a program is: the verdict, and what is wrong with it."""
    y = np.full(program.tiles * program.threads, -1, np.int32)
    report = wsemu.check(
        wsemu.load_ptx(write_requests(program))["k"], program.tiles, program.threads, (y,), engine=engine,
        sms=program.sms, clc=program.clc,
    )  # fmt: skip
    codes = sorted(finding.code for finding in report.findings)
    if is_right(program):
        if report.verdict != "verified":
            return report.verdict, f"it is right, and {report.verdict}: {codes} {report.notes}"
        if not np.array_equal(y, np.repeat(np.arange(program.tiles), program.threads)):
            return report.verdict, "its results are wrong"
    elif report.verdict != "failed":
        return report.verdict, f"it is wrong, and {report.verdict}: {codes}"
    return report.verdict, ""
