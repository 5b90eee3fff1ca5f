"""Graphs of programs as they are, made node by node: conditions, memory, changes after they are instantiated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wsemu.native.build import find_libraries
from wsemu.native.compiler import find_compiler, find_platform_problem

DATA = Path(__file__).resolve().parents[1] / "data"
pytestmark = pytest.mark.skipif(
    bool(find_platform_problem()) or find_compiler() is None, reason="needs Linux on x86-64 and a C compiler"
)


def build(name, folder):
    """Compile a program of the tests' data."""
    libraries, program = find_libraries(), folder / "client"
    source, driver = str(DATA / name), str(libraries / "libcuda.so.1")
    subprocess.run([str(find_compiler()), "-w", source, driver, "-o", str(program)], check=True)
    return program


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The program of `graph_client.c`."""
    return build("graph_client.c", tmp_path_factory.mktemp("client"))


@pytest.mark.parametrize(
    ("what", "x", "launches"),
    [
        ("while", 4, 4),  # 3 rounds, and one more in the second launch, in which the limit is reached at once
        ("captured", 4, 4),
        ("switch", 2, 2),
        ("plain", 2, 2),
        ("parameters", 3, 2),
        ("disabled", 1, 1),
        ("update", 3, 2),
    ],
)
def test_nodes_run_as_on_a_gpu(client, what, x, launches):
    command = [sys.executable, "-m", "wsemu", "run", "--", str(client), str(DATA / "graph_client.ptx"), what]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert f"x = {x}\n" in done.stdout, done.stdout + done.stderr
    assert f"1 kernel, {launches} launch{'es' * (launches > 1)}: {launches} verified" in done.stdout
    assert done.returncode == 0


def test_memory_of_a_graph_is_uninitialized(client):
    command = [sys.executable, "-m", "wsemu", "run", "--", str(client), str(DATA / "graph_client.ptx"), "memory"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "error[uninitialized-read]" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("what", "races"), [("per thread", 1), ("legacy", 0)])
def test_the_default_stream_of_a_thread_is_no_legacy_stream(client, what, races):
    command = [sys.executable, "-m", "wsemu", "run", "--", str(client), str(DATA / "graph_client.ptx"), what]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout.count("error[stream-race]") == races, done.stdout + done.stderr


SAID = """
edges 4
first 1 1
dependent 1 1
type 4
nodes 5
parameter 1
circle 1
missing edge 1
x 7, copied 6
x 16, copied 15
x 7, copied 6
another topology 910
destroyed 0, then 7
foreign handle 1
looped to 10
advice 0 -1 -2
"""


def test_graphs_of_the_driver_are_as_their_nodes_and_edges_say(tmp_path):
    program = build("node_client.c", tmp_path)
    command = [sys.executable, "-m", "wsemu", "run", "--", str(program), str(DATA / "graph_client.ptx")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("launch ", "2 kernels", "3 more"))]
    assert lines == SAID.split("\n")[1:-1], done.stdout + done.stderr
    assert done.returncode == 0


RULES = """
disabled 6
begun twice 401
ended elsewhere 903
captured 6
edges 2
joined 7
capturing 0
destroyed 0, then 7
twice before 1
edge twice 1
programmatic edge 801
updated by kernels 801
disabled event 1
same edges 0, other edges 910
moved child 801
another child 1
circle in a child 1
memory of the host 1, clone 801
advice about device memory 1
no copy 1
2048 threads 1
unloaded 400
ended 1
"""


def test_nodes_keep_their_order_and_what_is_unknown_is_refused(tmp_path):
    program = build("graph_rules.c", tmp_path)
    command = [sys.executable, "-m", "wsemu", "run", "--", str(program), str(DATA / "graph_client.ptx")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    names = {line.split(" ")[0] for line in RULES.split("\n")[1:-1]}
    said = [line for line in done.stdout.splitlines() if line.split(" ")[0] in names]
    assert said == RULES.split("\n")[1:-1], done.stdout + done.stderr
    assert "add: 2 of 5 launches failed (out-of-bounds)" in done.stdout, done.stdout


def test_pinned_memory_beside_many_device_allocations_has_its_own_place(tmp_path):
    source = tmp_path / "client.c"
    source.write_text("""
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(void **, unsigned long), cuMemHostAlloc(void **, unsigned long, unsigned);
int main(void) {
    void *context, *address;
    cuInit(0); cuDevicePrimaryCtxRetain(&context, 0); cuCtxSetCurrent(context);
    for (int n = 0; n < 200; n++) if (cuMemAlloc_v2(&address, 4096)) return 3;
    for (int n = 0; n < 200; n++) { if (cuMemHostAlloc(&address, 4096, 0)) return 4; *(int *)address = n; }
    return cuMemAlloc_v2(&address, 4096);
}
""")
    program = tmp_path / "client"
    driver = str(find_libraries() / "libcuda.so.1")
    subprocess.run([str(find_compiler()), "-w", str(source), driver, "-o", str(program)], check=True)
    command = [sys.executable, "-m", "wsemu", "run", "--", str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "launched no kernel" in done.stdout, done.stdout + done.stderr
    assert "ended with exit code" not in done.stdout


@pytest.fixture(scope="module")
def branches(tmp_path_factory):
    """The program of `branch_client.c`."""
    return build("branch_client.c", tmp_path_factory.mktemp("branches"))


@pytest.mark.parametrize(
    ("what", "races"),
    [
        ("branches", True), ("without streams", True), ("edge", False), ("apart", False), ("diamond", False),
        ("host", True), ("child", True), ("child in order", False), ("twice", False), ("other graph", True),
        ("elsewhere", True), ("afterwards", False), ("captured", True), ("captured in order", False),
        ("captured apart", False), ("captured released", True),
    ],
)  # fmt: skip
def test_nodes_that_no_edge_orders_may_run_at_once(branches, what, races):
    command = [sys.executable, "-m", "wsemu", "run", "--", str(branches), str(DATA / "driver_client.ptx"), what]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert ("error[stream-race]" in done.stdout) == races, done.stdout + done.stderr
    assert done.returncode == races, done.stdout + done.stderr
    if what == "branches":
        assert "hint: add an edge from the launch of `add` (1) in graph 1 to the launch of" in done.stdout, done.stdout
    if what == "captured apart":
        assert "edges 2\n" in done.stdout, done.stdout


def test_a_capture_with_work_that_is_not_joined_is_no_graph(branches):
    words = [str(branches), str(DATA / "driver_client.ptx"), "captured unjoined"]
    command = [sys.executable, "-m", "wsemu", "run", "--", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "ended 904 1\n" in done.stdout, done.stdout + done.stderr


EDGES = """
#include <stddef.h>
#include <stdio.h>
int cudaGraphCreate(void **, unsigned), cudaGraphAddEmptyNode(void **, void *, void **, size_t);
int cudaGraphGetEdges(), cudaGraphNodeGetDependencies(), cudaGraphNodeGetDependentNodes();
int main() {
    void *graph, *nodes[2];
    size_t edges = 9, before = 9, after = 9;
    cudaGraphCreate(&graph, 0);
    cudaGraphAddEmptyNode(&nodes[0], graph, NULL, 0);
    cudaGraphAddEmptyNode(&nodes[1], graph, nodes, 1);
#if VERSION < 13
    cudaGraphGetEdges(graph, NULL, NULL, &edges);
    cudaGraphNodeGetDependencies(nodes[1], NULL, &before);
    cudaGraphNodeGetDependentNodes(nodes[1], NULL, &after);
#else
    cudaGraphGetEdges(graph, NULL, NULL, NULL, &edges);
    cudaGraphNodeGetDependencies(nodes[1], NULL, NULL, &before);
    cudaGraphNodeGetDependentNodes(nodes[1], NULL, NULL, &after);
#endif
    printf("edges %zu, before %zu, after %zu\\n", edges, before, after);
    return 0;
}
"""
LINKED = """
#define FUNCTION(name) __attribute__((noinline)) int name() { for (volatile int n = 0; n < 9; n++) {} return 801; }
FUNCTION(cudaGraphCreate) FUNCTION(cudaGraphAddEmptyNode) FUNCTION(cudaGraphGetEdges)
FUNCTION(cudaGraphNodeGetDependencies) FUNCTION(cudaGraphNodeGetDependentNodes)
#if VERSION >= 13
FUNCTION(cudaMemDiscardBatchAsync)
#endif
"""


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("shared", [True, False])
def test_functions_about_edges_have_the_parameters_of_the_runtime_that_the_program_was_linked_with(
    tmp_path, version, shared
):
    program, source, runtime = tmp_path / "client", tmp_path / "client.c", tmp_path / "runtime.c"
    source.write_text(EDGES)
    runtime.write_text(LINKED)
    linked = str(find_libraries() / f"libcudart.so.{version}") if shared else str(runtime)
    words = ["-w", "-std=gnu11", f"-DVERSION={version}", "-Wl,--no-as-needed", str(source), linked]
    driver = str(find_libraries() / "libcuda.so.1")
    subprocess.run([str(find_compiler()), *words, driver, "-o", str(program)], check=True)
    command = [sys.executable, "-m", "wsemu", "run", "--", str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "edges 1, before 1, after 0\n" in done.stdout, done.stdout + done.stderr
