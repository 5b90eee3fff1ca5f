"""Campaigns on other processes and machines: the same answers, each once, whoever dies."""

from __future__ import annotations

import functools
import json
import os
import signal
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from wsemu.campaign import fuzz, spread, sweep_command
from wsemu.campaign.watch import State, showing_progress
from wsemu.model.errors import UsageError

PROGRAM = """
import numpy as np
from wsemu import cuda
import other_sizes

@cuda.jit
def fill(n, x):
    i = cuda.grid(1)
    if i < n:
        x[i + (n == other_sizes.BAD)] = 1

def run(n):
    fill[2, 32](n, np.zeros(n, np.int32))

def dies(n):
    if n == 3:
        import os
        os._exit(7)
"""
TEST = """
from hypothesis import given, strategies as st

@given(st.integers(0, 10_000))
def test_small(n):
    assert n < 9_990
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of the program; what runs it is started once."""
    made = tmp_path_factory.mktemp("spread")
    (made / "fill_sizes.py").write_text(PROGRAM)
    (made / "other_sizes.py").write_text("BAD = 33\n")
    (made / "fuzzed.py").write_text(TEST)
    yield made
    spread.dismiss()


@pytest.fixture
def program(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return Path("fill_sizes.py")


class Unreliable(Executor):
    """Loses every third request, after it has been answered."""

    def __init__(self):
        self.threads = ThreadPoolExecutor(2)
        self.count = 0

    def submit(self, call, /, *args, **kwargs):
        self.count += 1
        lost: Future[None] = Future()
        if self.count % 3:
            return self.threads.submit(call, *args, **kwargs)
        self.threads.submit(call, *args, **kwargs).add_done_callback(lambda _: lost.set_exception(OSError("lost")))
        return lost


@functools.cache
def bundle_of(kind, file, function):
    process = spread.Process(spread.Bundle(kind, file, function))
    hello = process.hello()
    process.end()
    return spread.pack_sources(spread.Bundle(kind, file, function), hello), hello


def test_answers_come_once_whoever_is_lost(program, monkeypatch):
    monkeypatch.setattr(spread, "PAUSE", 0.0)
    bundle, hello = bundle_of("sweep", "fill_sizes.py", "run")
    assert [name for name, _ in bundle.files] == ["fill_sizes.py", "other_sizes.py"]
    requests = {n: {"n": n} for n in range(30, 36)}
    found = list(spread.answers(Unreliable(), bundle, requests, hello["stamp"]))
    assert sorted(n for n, _ in found) == [*requests]
    assert [n for n, answer in sorted(found) if answer["came"] == "fails"] == [33]


def test_other_sources_are_refused(program):
    bundle, _ = bundle_of("sweep", "fill_sizes.py", "run")
    with pytest.raises(UsageError, match="other sources or versions"):
        list(spread.answers(ThreadPoolExecutor(1), bundle, {1: {"n": 1}}, "another"))


def test_a_request_at_which_processes_die_is_told(program):
    bundle, hello = bundle_of("sweep", "fill_sizes.py", "dies")
    found = dict(spread.answers(ThreadPoolExecutor(1), bundle, {n: {"n": n} for n in (2, 3)}, hello["stamp"]))
    assert found[2]["came"] == "holds"
    assert found[3] == {"died": "exit code 7"}


def test_a_sweep_is_the_same_by_one_process_and_by_several(program, capsys):
    told = []
    for jobs in (1, 2):
        assert sweep_command.command("fill_sizes.py::run", ["n=28:36"], {}, json_format=True, jobs=jobs) == 1
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]


def test_a_campaign_is_the_same_by_its_processes_and_by_an_executor(program, tmp_path):
    class Nobody:
        def show(self, progress):
            pass

    campaign = fuzz.Campaign.of("fuzzed.py::test_small", 60, 20, 0)
    here = fuzz.run(campaign, 1, tmp_path / "here.sqlite", Nobody())
    there = fuzz.run(campaign, 1, tmp_path / "there.sqlite", Nobody(), executor=ThreadPoolExecutor(2))
    assert here.outcomes == there.outcomes
    assert here.finished_examples == 60


def test_sources_outside_of_the_working_folder_are_not_sent(tmp_path, monkeypatch):
    (tmp_path / "fill_sizes.py").write_text(PROGRAM)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with pytest.raises(UsageError, match="outside of the working folder"):
        spread.pack_sources(spread.Bundle("sweep", "../fill_sizes.py", "run"), {"files": []})
    with pytest.raises(UsageError, match="outside of the working folder"):
        spread._unpack_sources(spread.Bundle("sweep", "x.py", "run", (("../x.py", b""),)))


@pytest.mark.parametrize("address", ["host:8786", "http://host"])
def test_an_address_is_that_of_a_scheduler(address):
    with pytest.raises(UsageError, match="tcp://"), spread.on(address):
        pass


def test_progress_as_lines_of_json(capsys):
    with showing_progress("json") as show:
        show(State("run", 1, 4, "sizes"))
        show(State("run", 4, 4, "sizes", {"failed": 1}))
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (line["done"], line["total"], line["unit"], line["failed"]) == (4, 4, "sizes", 1)
    assert line["eta"] == 0


def test_a_dask_cluster_whose_workers_are_killed_gives_the_same(program, capsys):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        stop = threading.Event()

        def kill():
            for _ in range(2):
                if stop.wait(2.0):
                    return
                workers = [w.pid for w in cluster.workers.values() if getattr(w, "pid", None)]
                if workers:
                    os.kill(workers[0], signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        try:
            options = {"json_format": True, "on": cluster.scheduler_address}
            assert sweep_command.command("fill_sizes.py::run", ["n=0:40"], {}, **options) == 1
        finally:
            stop.set()
            killer.join()
        afar = json.loads(capsys.readouterr().out)
    assert sweep_command.command("fill_sizes.py::run", ["n=0:40"], {}, json_format=True) == 1
    assert json.loads(capsys.readouterr().out) == afar
