"""Compare verdicts with enumeration on random programs.

    python benchmarks/soundness.py [--kind barriers|phases|clusters|atomics|steered|maps|lanes|heap|vectors|recursion|
            undefined|lag|values|inits|slots|windows|groups|guarded|spaces|tmem|loops|requests|turns|counters|claims|
            flows|bits|addresses|collectors|variants|decide|all]
            [--programs 100000] [--seed 0] [--workers N] [--warps N] [--seconds S]

The benchmark generates programs, enumerates the interleavings of each, and compares them with wsemu's report
(tests/properties/agreement.py).  It prints the programs of each family by verdict and by what can go wrong in them, and
every disagreement, with a smaller program that shows it.  The exit code is 1 if there is one.  The programs depend only
on the seed, not on the number of workers.

The kinds of programs follow, each with the fraction that also runs in the reference interpreter:

    barriers   barriers and accesses.  A fifth are abstract programs (programs.py, explorer.py), which the compiled
               engine runs as data of one kernel; 1 in 10 of them also has its own kernel, and 1 in 20 runs in the
               reference interpreter.  In the others, lanes and warps diverge, exit, reduce, loop and use atomics
               (lane_programs.py, lane_explorer.py).  The compiled engine runs the kernel of each; if it has branches on
               lanes, it also runs the kernel with their sides exchanged (1 in 8)
    phases     mbarriers, copies and named barriers (phase_programs.py, phase_explorer.py; 1 in 8)
    clusters   programs of `phases` spread over the CTAs of a cluster
    atomics    strong accesses, fences and flags (strong_programs.py).  Every execution that the PTX memory model allows
               is enumerated (memory_model.py; 1 in 16).  In 1 of 4, CTAs are counted first
    steered    mbarriers and copies, influenced by numbers that threads draw (steered_programs.py).  Interleavings are
               enumerated for all numbers (1 in 8)
    maps       changes of tensor maps, between fences of the tensormap proxy (map_programs.py).  The order that PTX
               guarantees is computed (1 in 8)
    lanes      two to four lanes of one warp that communicate by memory, shuffles and votes, with correct and wrong
               syncwarps and masks, under independent thread scheduling (mate_programs.py).  1 in 5 is a program of
               strong accesses whose threads are such lanes (1 in 8 or 16)
    heap       threads that share blocks of the device's heap (heap_programs.py), 1 in 8 of them in a function that
               calls itself (1 in 2).  1 in 3 programs copies blocks in bulk, through an mbarrier or in groups
               (block_copy_programs.py; 1 in 2)
    vectors    programs of `atomics` in which some loads and stores are of vectors (1 in 16)
    recursion  programs of lanes in a function that calls itself (1 in 8)
    undefined  undefined registers, shared memory and shuffles (undefined_programs.py).  All choices of their bits are
               enumerated (1 in 8)
    lag        mbarriers in warps of two lanes, which are treated as one or as separate (lag_programs.py; 1 in 8)
    values     threads that store known values, and draw numbers (same_value_programs.py; 1 in 8)
    inits      lanes that initialize one mbarrier, together or in turn (init_programs.py; 1 in 8)
    slots      threads that compute locations from numbers that they draw (slot_programs.py).  All assignments of
               numbers are enumerated (1 in 8)
    guarded    a read decides whether a fence comes before a strong write (1 in 16)
    spaces     accesses of all sizes through all state spaces: by one thread, in calls and beyond the ends of variables
               (space_programs.py), and by several threads to the same bytes (byte_programs.py; 1 in 8)
    windows    warps that look back at what CTAs publish (window_programs.py), or threads that do so in CTAs that may
               draw their numbers (walk_programs.py).  All values that their loads may return are enumerated (1 in 8)
    groups     one of the active lanes draws numbers for all (group_programs.py).  All groups and orders are enumerated
               (1 in 8)
    tmem       warps that share slots of tensor memory (column_programs.py).  Products, commits, loads, stores and
               their waits happen in all orders.  Operands come from stages of shared memory (bulk copies, or stores and
               proxy fences), from `tcgen05.cp` or from stores to tensor memory, or are scale factors.  Some programs
               use pairs of CTAs, some request clusters.  False alarms are counted (1 in 24)
    loops      loops of one thread, executed until their state occurs again (wait_programs.py; 1 in 20)
    turns      CTAs that hand a flag on (turn_programs.py).  The method of flags is compared with a search through all
               interleavings (1 in 8)
    counters   CTAs that add to a counter, and wait until it reaches a number (counter_programs.py), compared like
               `turns` (1 in 8)
    claims     threads that claim cells of a table, as insertions into a hash table do (claim_programs.py).  All
               interleavings are enumerated (1 in 8)
    flows      CTAs that keep tickets and other results of atomics in words that are used again (flow_programs.py).  All
               orders of arrivals and exchanges are enumerated (1 in 8)
    bits       threads that draw numbers and lock bits of a word, as pushes to a vector do (bit_programs.py).  All
               interleavings are enumerated (1 in 8)
    addresses  numbers and addresses that go through registers, memory and functions, used as addresses
               (address_programs.py).  An oracle executes the program with the kinds of values (1 in 8)
    collectors products in tensor memory that keep operands in collector buffers (collector_programs.py; 1 in 24)
    requests   persistent loops that request clusters, half of them with a mistake (request_programs.py; 1 in 8)
    variants   programs of barriers, modified without changing their possible behavior (variant_programs.py): warps get
               other numbers, barriers of all warps are added, loops are unrolled, CTAs change places.  The verdict and
               the codes must stay the same
    decide     the kinds whose threads synchronize by atomics and flags, or draw numbers and requests: atomics, vectors,
               guarded, steered, values, slots, groups, counters, turns, claims, flows, bits, windows, requests.  Kinds
               of slow programs have fewer; a program takes 0.04 s of processor time on average
    all        programs of all kinds, fewer of those that take longer; with `--seconds`, none begins after that time

With `--warps`, programs of barriers, phases or clusters run in groups of this many warps, each at its own position
(wide_programs.py); the reference interpreter runs only groups of at most 128.

A `tmem` program takes about 0.07 s of processor time.  On 16 cores, this takes about 8 minutes:

    python benchmarks/soundness.py --kind tmem --programs 100000 --workers 16 --seed 1 --seconds 585
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.properties.address_programs import draw_addresses, judge_addresses
from tests.properties.agreement import LANE_WAYS, WAYS, Judged, judged, judged_lanes
from tests.properties.bit_programs import draw_bits, judge_bits
from tests.properties.block_copy_programs import copy_program, judge_copies, smaller_copies
from tests.properties.byte_programs import byte_program, judge_bytes
from tests.properties.claim_programs import draw_claims, judge_claims
from tests.properties.cluster_programs import CLUSTER_FAMILIES, check_spread, judged_clusters
from tests.properties.collector_programs import draw_collectors, judge_collectors
from tests.properties.column_programs import draw_columns, judge_columns
from tests.properties.counter_programs import draw_counters, judge_counters
from tests.properties.explorer import FAULTS, notation
from tests.properties.flow_programs import draw_flows, judge_flows
from tests.properties.group_programs import draw_groups, judge_groups
from tests.properties.heap_programs import HEAP_FAMILIES, judged_heap, smaller_heap
from tests.properties.init_programs import draw as draw_init
from tests.properties.init_programs import judged_inits
from tests.properties.lag_programs import LAG_FAMILIES, judged_lag
from tests.properties.lane_control import APART
from tests.properties.lane_explorer import CHANCE, LANE_FAULTS
from tests.properties.lane_programs import LANE_FAMILIES, smaller_lanes
from tests.properties.lanes import has_branches, lanes_notation
from tests.properties.map_programs import judged_maps, map_program
from tests.properties.mate_programs import MATE_FAMILIES, judged_mates, smaller_mates
from tests.properties.phase_programs import PHASE_FAMILIES, check_program, judged_phases, smaller_phases
from tests.properties.programs import FAMILIES, check_interpreted, smaller
from tests.properties.request_programs import draw_requests, judge_requests
from tests.properties.same_value_programs import draw as draw_values
from tests.properties.same_value_programs import judged_values
from tests.properties.slot_programs import draw_slots, judge_slots
from tests.properties.space_programs import draw_program, judge_spaces
from tests.properties.steered_programs import STEERED_FAMILIES, judged_steered, smaller_steered
from tests.properties.strong_programs import STRONG_FAMILIES, counting, drawing, judged_strong, space_for
from tests.properties.turn_programs import draw_turns, judge_turns
from tests.properties.undefined_programs import (
    UNDEFINED_FAMILIES,
    judged_undefined,
    smaller_undefined,
    undefined_program,
)
from tests.properties.variant_programs import judged_variants
from tests.properties.wait_programs import draw as draw_loop
from tests.properties.wait_programs import judge as judge_loop
from tests.properties.walk_programs import draw_walks, judge_walks
from tests.properties.wide_programs import MOST_REFERENCE, WARPS, Wide
from tests.properties.window_programs import draw_windows, judge_windows

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

CHUNK = 250
"""number of programs that a worker handles at a time"""
SMALL_CHUNKS = {
    "barriers": 50,
    "steered": 25,
    "atomics": 50,
    "slots": 50,
    "windows": 20,
    "groups": 50,
    "turns": 25,
    "counters": 25,
    "collectors": 25,
    "claims": 25,
    "flows": 25,
    "bits": 25,
    "addresses": 50,
    "tmem": 25,
    "lanes": 50,
    "heap": 5,
    "vectors": 50,
    "recursion": 50,
    "guarded": 25,
    "spaces": 50,
    "variants": 50,
    "phases": 100,
    "clusters": 100,
    "maps": 50,
    "undefined": 100,
    "lag": 100,
    "requests": 50,
}
WIDE_CHUNK = 25
"""number of programs that a worker handles at a time, for kinds whose programs take longer and for wide groups"""
OWN_KERNEL, REFERENCE = 10, 20
"""one program in this many also has its own kernel; one in this many also runs in the reference interpreter"""
REFERENCE_LANES = 8
"""one program of lanes in this many runs in the reference interpreter"""
VARIANTS = {f"{family}, changed": family for family in FAMILIES}
"""families whose programs are modified -> the family of programs.py"""
SHARES = {
    "barriers": {**dict.fromkeys(FAMILIES, 2), **dict.fromkeys(LANE_FAMILIES, 2), "diverged": 4},
    "phases": {"ring": 6, "mixed phases": 2, "leaving": 1, "kept": 3, "renewed": 2},
    "atomics": {"strong": 2, "protocols": 2, "patterns": 1},
    "clusters": {"clustered": 1},
    "steered": {"steered": 1},
    "maps": {"maps": 1},
    "lanes": {"mates": 4, "together": 1},
    "heap": {"heap": 7, "recursive heap": 1, "block copies": 4},
    "vectors": {"vectors": 1},
    "recursion": {"recursive": 1},
    "variants": dict.fromkeys(VARIANTS, 1),
    "undefined": {"trees": 1, "graphs": 1},
    "values": {"values": 1},
    "inits": {"inits": 1},
    "slots": {"slots": 1},
    "guarded": {"guarded": 1},
    "spaces": {"spaces": 1, "bytes": 1},
    "windows": {"windows": 1, "walks": 1},
    "groups": {"groups": 1},
    "tmem": {"tmem": 1},
    "lag": {f"lag {family}": 1 for family in LAG_FAMILIES},
    "loops": {"waiting": 1},
    "requests": {"requests": 1},
    "turns": {"turns": 1},
    "counters": {"counters": 1},
    "collectors": {"collectors": 1},
    "claims": {"claims": 1},
    "flows": {"flows": 1},
    "bits": {"bits": 1},
    "addresses": {"addresses": 1},
}
"""kind -> family -> its weight"""
OF_ALL = {
    "barriers": 24, "phases": 16, "atomics": 16, "clusters": 16, "steered": 10, "maps": 5, "lanes": 16, "heap": 2,
    "vectors": 16, "recursion": 12, "variants": 5, "undefined": 12, "values": 6, "inits": 6, "slots": 8, "guarded": 4,
    "spaces": 10, "windows": 3, "groups": 3, "tmem": 4, "lag": 12, "loops": 3,
    "requests": 2,
    "turns": 2, "counters": 2, "collectors": 1, "claims": 2, "flows": 2, "bits": 2, "addresses": 3,
}  # fmt: skip
"""kind -> its weight among all kinds; kinds with slow programs have low weights"""
OF_DECIDE = {
    "atomics": 14, "vectors": 14, "slots": 14, "groups": 10, "steered": 10, "flows": 8, "guarded": 6, "values": 6,
    "claims": 6, "windows": 6, "requests": 5, "turns": 4, "bits": 4, "counters": 3,
}  # fmt: skip
"""kind -> its weight among the kinds of atomics"""
MIXES: dict[str, dict[str, int]] = {"decide": OF_DECIDE, "all": OF_ALL}
"""names of several kinds -> their weights"""
DRAWN: dict[str, Any] = {
    "slots": (draw_slots, judge_slots), "windows": (draw_windows, judge_windows), "groups": (draw_groups, judge_groups),
    "walks": (draw_walks, judge_walks), "turns": (draw_turns, judge_turns),
    "collectors": (draw_collectors, judge_collectors),
    "counters": (draw_counters, judge_counters), "claims": (draw_claims, judge_claims),
    "flows": (draw_flows, judge_flows),
    "bits": (draw_bits, judge_bits), "addresses": (draw_addresses, judge_addresses),
}  # fmt: skip
"""family -> how its programs are generated and judged"""
HARMLESS = "refused for a harmless expectation"
UNKNOWN = "too many interleavings"
SHRUNK = 2
"""number of disagreements of a part for which a smaller program is searched"""
LOOP_BUDGET = {"vm": 300_000, "reference": 3_000}
"""warp instructions of a loop; with fewer than the patience for waiting loops, an engine decides nothing about them"""
COLUMNS = 3 * REFERENCE_LANES
"""one program in this many of tensor memory runs in the reference interpreter, whose multiplications take long"""
COUNTED = 4
"""in one program of atomics in this many, the CTAs are counted before interleavings are tried"""
SHOWN = 20
"""disagreements that are printed in full"""


class Part(NamedTuple):
    """A chunk of one family: its name, its seed, and the number of programs."""

    family: str
    seed: str
    programs: int
    warps: int
    """number of warps of a group; 0: as many as a program has"""

    def wide(self, k: int) -> Wide | None:
        """Return the position of the k-th program in its group."""
        return Wide(self.warps, f"{self.seed} {k}") if self.warps else None

    def engines(self, k: int) -> tuple[Engine, ...]:
        """Return the engines that run the k-th program of mbarriers."""
        return ("vm", "reference") if k % REFERENCE_LANES == 1 and self.warps <= MOST_REFERENCE else ("vm",)


class Result(NamedTuple):
    """The result of a part."""

    family: str
    found: Counter[str]
    """programs by what can go wrong in them; a program with two errors counts for both"""
    checks: Counter[str]
    """checks by the form in which wsemu received the program"""
    complaints: list[str]


class Abstract:
    """A program of programs.py, and the form in which wsemu receives the k-th one of a part."""

    def __init__(self, part: Part, source: random.Random, k: int) -> None:
        self.program, wide = FAMILIES[part.family](source), part.wide(k)
        self.of = wide.barriers() if wide else WAYS
        own = k % OWN_KERNEL == 0 and not wide
        slow = k % REFERENCE == 1 and part.warps <= MOST_REFERENCE
        self.ways = ["vm", *["vm, own kernel"] * own, *["reference"] * slow]

    def judged(self) -> Judged:
        return judged(self.program, self.ways, self.of)

    def smallest(self) -> str:
        """Return the smallest part of it on which the results still disagree."""
        return notation(smaller(self.program, lambda less: bool(judged(less, self.ways, self.of).complaints)))


class Parted:
    """A program of lane_programs.py, and the form in which wsemu receives the k-th one of a part."""

    def __init__(self, part: Part, source: random.Random, k: int) -> None:
        self.program, wide = LANE_FAMILIES[part.family](source), part.wide(k)
        self.of = wide.lanes() if wide else LANE_WAYS
        self.ways = ["vm, lanes"]
        if has_branches(self.program):
            self.ways.append("vm, mirrored")
        if k % REFERENCE_LANES == 1 and part.warps <= MOST_REFERENCE:
            self.ways.append("reference, lanes" if k % (2 * REFERENCE_LANES) == 1 else "reference, mirrored")

    def judged(self) -> Judged:
        return judged_lanes(self.program, self.ways, self.of)

    def smallest(self) -> str:
        fails = lambda less: bool(judged_lanes(less, self.ways, self.of).complaints)  # noqa: E731
        return lanes_notation(smaller_lanes(self.program, fails))


def work(part: Part) -> Result:
    if part.family in PHASE_FAMILIES:
        return work_phases(part)
    if part.family == "values":
        return work_values(part)
    if part.family == "inits":
        return work_inits(part)
    if part.family in DRAWN:
        return work_drawn(part)
    if part.family in ("spaces", "bytes"):
        return work_spaces(part)
    if part.family == "tmem":
        return work_columns(part)
    if part.family == "waiting":
        return work_loops(part)
    if part.family == "requests":
        return work_requests(part)
    if part.family.startswith("lag "):
        return work_lag(part)
    if part.family in STRONG_FAMILIES:
        return work_strong(part)
    if part.family in MATE_FAMILIES:
        return work_mates(part)
    if part.family in HEAP_FAMILIES:
        return work_heap(part)
    if part.family == "block copies":
        return work_copies(part)
    if part.family in UNDEFINED_FAMILIES:
        return work_undefined(part)
    if part.family == "maps":
        return work_maps(part)
    if part.family in VARIANTS:
        return work_variants(part)
    if part.family in STEERED_FAMILIES:
        return work_steered(part)
    if part.family in CLUSTER_FAMILIES:
        return work_clusters(part)
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    kind = Abstract if part.family in FAMILIES else Parted
    for k in range(part.programs):
        one = kind(part, source, k)
        found = one.judged()
        result.found.update(found.outlook.faults)
        result.found.update(found.outlook.open)
        result.found[" or ".join(sorted(found.outlook.verdicts))] += 1
        result.checks.update(one.ways)
        if found.complaints:
            less = f"\n    smaller: {one.smallest()}" if len(result.complaints) < SHRUNK else ""
            result.complaints.append(f"{part.family}: {found}{less}")
    return result


def work_phases(part: Part) -> Result:
    """Compare verdicts on programs of mbarriers and copies."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        program = PHASE_FAMILIES[part.family](source)
        engines, wide = part.engines(k), part.wide(k)
        check = wide.phases if wide else check_program
        found = judged_phases(program, engines, check)
        result.found.update(found.outlook.faults)
        result.found.update([HARMLESS] * found.harmless)
        result.found[UNKNOWN if not found.outlook.known else "failed" if found.outlook.faults else "verified"] += 1
        result.checks.update(engines)
        if found.complaints:
            less = ""
            if len(result.complaints) < SHRUNK:
                smallest = smaller_phases(program, lambda p: bool(judged_phases(p, engines, check).complaints))  # noqa: B023
                less = f"\n    smaller: {smallest}"
            result.complaints.append(f"{part.family}: {found}{less}")
    return result


def work_lag(part: Part) -> Result:
    """Compare verdicts on programs of mbarriers whose warps have several lanes."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engines = part.engines(k)
        found = judged_lag(LAG_FAMILIES[part.family.partition(" ")[2]](source), engines)
        result.found[UNKNOWN if not found.known else "failed" if found.fails else "verified"] += 1
        result.found["lane-lag"] += found.known and found.lags
        result.checks.update(engines)
        if found.complaints:
            result.complaints.append(f"{part.family}: {found}")
    return result


def work_values(part: Part) -> Result:
    """Compare verdicts on programs of stores of one value."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engines = part.engines(k)
        found = judged_values(draw_values(source), engines, large=k % 2 == 0)
        result.found["verified" if found.known.good else "failed"] += 1
        result.found["one value"] += found.known.good and not found.known.ordered
        result.checks.update(engines)
        if found.complaints:
            result.complaints.append(f"{part.family}: {found}")
    return result


def work_inits(part: Part) -> Result:
    """Compare verdicts on programs of an mbarrier that several lanes initialize."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engines = part.engines(k)
        found = judged_inits(draw_init(source), engines)
        result.found["failed" if found.fails else "verified"] += 1
        result.found["same-value-init"] += found.same and not found.fails
        result.checks.update(engines)
        if found.complaints:
            result.complaints.append(f"{part.family}: {found}")
    return result


def work_drawn(part: Part) -> Result:
    """Compare verdicts with all assignments of drawn numbers, or with all values that loads of published values may
    return."""
    draw, judge = DRAWN[part.family]
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engines = part.engines(k) if part.family != "collectors" or k % COLUMNS == 1 else ("vm",)
        found = judge(draw(source), engines)
        result.found["can fail" if found.fails else "is right"] += 1
        result.found[found.verdicts[0]] += 1
        result.checks.update(engines)
        if found.complaints:
            result.complaints.append(f"{part.family}: {found}")
    return result


def work_spaces(part: Part) -> Result:
    """Compare what programs of accesses of all sizes do with models of them."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engines = part.engines(k)
        if part.family == "bytes":
            found = judge_bytes(byte_program(source), engines)
            result.found["failed" if found.found.race else "verified"] += 1
            result.found["one value"] += found.found.same and not found.found.race
            complaint = str(found) if found.complaints else ""
        else:
            program = draw_program(source)
            complaint, inside = judge_spaces(program, engines)
            result.found["verified" if inside else "failed"] += 1
        result.checks.update(engines)
        if complaint:
            result.complaints.append(f"{part.family}: {complaint}")
    return result


def work_loops(part: Part) -> Result:
    """Compare verdicts on loops of one thread with their execution, until a state occurs again."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engine: Engine = "reference" if k % REFERENCE == 1 else "vm"
        loop = draw_loop(source)
        known, verdict, wrong = judge_loop(loop, engine, LOOP_BUDGET[engine])
        result.found[verdict or UNKNOWN] += 1
        result.found["ends" if known.ends else "never ends"] += known.ends is not None
        result.checks[engine] += bool(verdict)
        if wrong:
            result.complaints.append(f"{part.family}: {wrong}\n    {loop}")
    return result


def work_requests(part: Part) -> Result:
    """Compare verdicts on persistent loops that request clusters with the mistakes that were put into them."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        program = draw_requests(source)
        for engine in part.engines(k):
            verdict, wrong = judge_requests(program, engine)
            result.checks[engine] += 1
            if wrong:
                result.complaints.append(f"{part.family}: {engine}: {wrong}\n    {program}")
        result.found[verdict] += 1
        result.found[program.wrong or "nothing is wrong"] += 1
    return result


def work_columns(part: Part) -> Result:
    """Compare verdicts on rings of accumulators in tensor memory with all interleavings."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engines = part.engines(k) if k % COLUMNS == 1 else ("vm",)
        found = judge_columns(draw_columns(source), engines)
        result.found["not enumerated" if found.fails is None else "can fail" if found.fails else "is right"] += 1
        result.found[found.verdicts[0]] += 1
        result.found["false alarm"] += found.fails is False and found.verdicts[0] == "failed"
        result.found["undecided although right"] += found.fails is False and found.verdicts[0] == "incomplete"
        result.checks.update(engines)
        if found.complaints:
            result.complaints.append(f"{part.family}: {found}")
    return result


def work_strong(part: Part) -> Result:
    """Compare verdicts on programs of strong accesses; an `incomplete` one is not compared."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        program = STRONG_FAMILIES[part.family](source)
        engine = "reference" if k % (2 * REFERENCE_LANES) == 1 else "vm"
        space, together = space_for(program, source), part.family == "together"
        with counting() if k % COUNTED == 1 else drawing() if k % COUNTED == 2 else nullcontext():
            found = judged_strong(program, engine, space, together=together)
        result.found[found.can] += 1
        result.found[found.verdict or UNKNOWN] += 1
        if found.verdict:
            result.checks[engine] += 1
        if found.verdict == "incomplete":
            result.found[f"incomplete and {found.can}"] += 1
        if found.complaint:
            result.complaints.append(f"{part.family}: {found}")
    return result


def work_steered(part: Part) -> Result:
    """Compare verdicts on programs of mbarriers and copies that a counter controls; `incomplete` ones are counted."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        program = STEERED_FAMILIES[part.family](source)
        engines = part.engines(k)
        with drawing() if k % COUNTED == 1 else nullcontext():
            found = judged_steered(program, engines)
        can = "can fail" if found.outlook.faults else "is right"
        result.found[found.verdicts[0] if found.verdicts else UNKNOWN] += 1
        result.found.update([can, *(f"{verdict} and {can}" for verdict in found.verdicts[:1])])
        result.found["goes on in several ways"] += found.outlook.outcomes > 1
        result.checks.update(engines if found.verdicts else ())
        if found.complaints:
            less = ""
            if len(result.complaints) < SHRUNK:
                smallest = smaller_steered(program, lambda p: bool(judged_steered(p, engines).complaints))  # noqa: B023
                less = f"\n    smaller: {smallest}"
            result.complaints.append(f"{part.family}: {found}{less}")
    return result


def work_mates(part: Part) -> Result:
    """Compare verdicts on programs of lanes of one warp."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engine: Engine = "reference" if k % REFERENCE_LANES == 1 else "vm"
        found = judged_mates(MATE_FAMILIES[part.family](source), engine)
        result.found.update([found.verdict, found.can, f"{found.verdict} and {found.can}", *found.faults])
        result.checks[engine] += 1
        if found.complaint:
            fails = lambda p: judged_mates(p, engine).complaint == found.complaint  # noqa: B023, E731
            less = f"\n    smaller: {smaller_mates(found.program, fails)}" if len(result.complaints) < SHRUNK else ""
            result.complaints.append(f"{part.family}: {found}{less}")
    return result


def work_heap(part: Part) -> Result:
    """Compare verdicts on programs of threads that share blocks of the heap."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engines: tuple[Engine, ...] = ("vm", "reference") if k % 2 else ("vm",)
        found = judged_heap(HEAP_FAMILIES[part.family](source), engines, generic=k % 3 == 0)
        verdict = found.verdicts[0] if found.verdicts else UNKNOWN
        result.found.update([verdict, found.can, f"{verdict} and {found.can}", *found.outlook.faults])
        result.checks.update(engines if found.verdicts else ())
        if found.complaint:
            fails = lambda p: judged_heap(p, engines).complaint == found.complaint  # noqa: B023, E731
            less = f"\n    smaller: {smaller_heap(found.program, fails)}" if len(result.complaints) < SHRUNK else ""
            result.complaints.append(f"{part.family}: {found}{less}")
    return result


def work_copies(part: Part) -> Result:
    """Compare verdicts on programs of threads that copy blocks of the heap in bulk."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engines: tuple[Engine, ...] = ("vm", "reference") if k % 2 else ("vm",)
        found = judge_copies(copy_program(source), engines)
        verdict = found.verdicts[0] if found.verdicts else UNKNOWN
        outlook = found.outlook
        result.found.update([verdict, found.can, f"{verdict} and {found.can}", *outlook.faults, *outlook.warnings])
        result.checks.update(engines if found.verdicts else ())
        if found.complaint:
            fails = lambda p: judge_copies(p, engines).complaint == found.complaint  # noqa: B023, E731
            less = f"\n    smaller: {smaller_copies(found.program, fails)}" if len(result.complaints) < SHRUNK else ""
            result.complaints.append(f"{part.family}: {found}{less}")
    return result


def work_undefined(part: Part) -> Result:
    """Compare programs with undefined values."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engine: Engine = "reference" if k % REFERENCE_LANES == 1 else "vm"
        found = judged_undefined(undefined_program(source, part.family), engine)
        result.found.update([found.verdict, f"{found.verdict} and the result {'differs' * found.depends or 'is one'}"])
        result.checks[engine] += 1
        if found.complaint:
            fails = lambda p: bool(judged_undefined(p, engine).complaint)  # noqa: B023, E731
            less = (
                f"\n    smaller: {smaller_undefined(found.program, fails)}" if len(result.complaints) < SHRUNK else ""
            )
            result.complaints.append(f"{part.family}: {found}{less}")
    return result


def work_variants(part: Part) -> Result:
    """Compare verdicts on modified programs whose possible executions are unchanged."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engine: Engine = "reference" if k % REFERENCE == 1 else "vm"
        found = judged_variants(VARIANTS[part.family], source, engine)
        result.found[found.verdict] += 1
        result.checks[engine] += 1
        if found.complaints:
            result.complaints.append(f"{part.family}: {found}")
    return result


def work_maps(part: Part) -> Result:
    """Compare verdicts on programs that change tensor maps."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engine: Engine = "reference" if k % REFERENCE_LANES == 1 else "vm"
        found = judged_maps(map_program(source), engine)
        result.found.update([found.verdict, *(f"not {what}" for what in {*found.lacks})])
        result.checks[engine] += 1
        if found.complaint:
            result.complaints.append(f"{part.family}: {found.complaint}\n{found.program}")
    return result


def work_clusters(part: Part) -> Result:
    """Compare verdicts on programs of mbarriers spread over the CTAs of a cluster."""
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        engines, wide = part.engines(k), part.wide(k)
        found = judged_clusters(CLUSTER_FAMILIES[part.family](source), engines, wide.clusters if wide else check_spread)
        result.found.update(found.outlook.faults)
        result.found.update([HARMLESS] * found.harmless)
        result.found[UNKNOWN if not found.outlook.known else "failed" if found.outlook.faults else "verified"] += 1
        result.checks.update(engines)
        if found.complaints:
            result.complaints.append(f"{part.family}: {found}")
    return result


def parts(kind: str, programs: int, seed: int, warps: int) -> list[Part]:
    """Return all parts in an order in which each family has made equal progress, whenever the run ends."""
    shares = MIXES.get(kind, {kind: 1})
    weights = {
        (one, family): Fraction(share * weight, sum(SHARES[one].values()))
        for one, share in shares.items()
        for family, weight in SHARES[one].items()
    }
    whole, given, placed = sum(weights.values()), Fraction(0), list[tuple[float, Part]]()
    for (one, family), weight in weights.items():
        mine = int(programs * (given + weight) / whole) - int(programs * given / whole)
        given += weight
        chunk = WIDE_CHUNK if warps else SMALL_CHUNKS.get(one, CHUNK)
        for start in range(0, mine, chunk):
            count = min(chunk, mine - start)
            placed.append(((start + count / 2) / mine, Part(family, f"{family} {seed} {start}", count, warps)))
    return [part for _, part in sorted(placed)]


VERDICTS = ("verified", "failed", "incomplete", "failed or incomplete", UNKNOWN)
"""verdicts that the interleavings of a program allow"""


def show(family: str, found: Counter[str], programs: int) -> None:
    total = sum(found[verdict] for verdict in VERDICTS)
    said = ", ".join(f"{found[v]:,} {v} ({found[v] / max(total, 1):.0%})" for v in VERDICTS if found[v])
    kinds: tuple[str, ...] = FAULTS if family in FAMILIES else (*LANE_FAULTS, APART, CHANCE)
    if family not in (*FAMILIES, *LANE_FAMILIES):
        kinds = (*sorted(found.keys() - {*VERDICTS}),)
    print(f"{family:10} {total:>7,} programs ({total / max(programs, 1):.0%} of all): {said}")
    print(f"{'':10} {'':>7} can show: {', '.join(f'{fault} {found[fault]:,}' for fault in kinds)}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare wsemu's verdicts with enumeration of all interleavings.")
    parser.add_argument("--kind", choices=[*SHARES, *MIXES], default="barriers", help="of the programs (barriers)")
    parser.add_argument("--programs", type=int, default=100_000, metavar="N", help="random programs (100000)")
    parser.add_argument("--seed", type=int, default=0, help="of the programs (0)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    parser.add_argument("--warps", type=int, default=0, choices=WARPS, help="of a group that programs run in")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no more programs after this long")
    options = parser.parse_args()
    if options.warps and options.kind not in ("barriers", "phases", "clusters"):
        parser.error("--warps is of the kinds barriers, phases and clusters")
    if options.programs < 1 or options.workers < 1:
        parser.error("give 1 or more programs and workers")
    check_interpreted(((), ()))  # the engine is compiled once, before several workers would each compile it
    kinds = MIXES.get(options.kind, [options.kind])
    started = time.perf_counter()
    found = {family: Counter[str]() for kind in kinds for family in SHARES[kind]}
    checks: Counter[str] = Counter()
    complaints: list[str] = []
    in_turn = parts(options.kind, options.programs, options.seed, options.warps)
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for result in pool.imap_unordered(work, in_turn):
            found[result.family].update(result.found)
            checks.update(result.checks)
            complaints += result.complaints
            for complaint in result.complaints if len(complaints) <= SHOWN else ():
                print(complaint, flush=True)
            if time.perf_counter() - started > options.seconds:
                pool.terminate()
                break
    seconds = time.perf_counter() - started
    programs = sum(counted[verdict] for counted in found.values() for verdict in VERDICTS)
    for family, counted in found.items():
        show(family, counted, programs)
    left_out = sum(counted[UNKNOWN] for counted in found.values())
    print(f"left out for {UNKNOWN}, before they were checked: {left_out:,} ({left_out / max(programs, 1):.2%})")
    print("checks:", ", ".join(f"{number:,} {way}" for way, number in checks.items()))
    print(
        f"{len(complaints):,} disagreements of {programs:,} programs in {seconds:.1f} s, {options.workers} workers, "
        f"seed {options.seed}"
    )
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
