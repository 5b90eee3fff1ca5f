"""The example notebook, executed as Jupyter does: its outputs are drawn, and places are cells by their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook with its outputs; a cell that fails raises."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return notebook


def shown(executed: Any, kind: str) -> list[str]:
    outputs = (output for cell in executed.cells if cell.cell_type == "code" for output in cell.outputs)
    return [output.data[kind] for output in outputs if kind in output.get("data", {})]


@pytest.mark.filterwarnings("ignore")  # of Jupyter
def test_the_notebook_runs_and_draws(executed):
    wrong, line, right = shown(executed, "text/html")
    assert "error[race]" in wrong.replace('<span class="t-error">', "").replace("</span>", "")
    assert "<svg" in line
    assert ">verified<" in right


@pytest.mark.filterwarnings("ignore")
def test_places_are_cells_by_their_numbers(executed):
    (wrong, *_) = shown(executed, "text/html")
    assert "cell In[2]:13:" in wrong
    assert "ipykernel" not in wrong
    assert ".py" not in wrong


def test_the_notebook_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


CELL = """%%wsemu --trace
@cuda.jit
def alone(x):
    x[0] = 1
    x[1] = x[0]

alone[1, 32](np.zeros(4, np.float32))
5 + 6"""


WRONG = {
    "--arch sm_999": "unknown arch 'sm_999'",
    "--engine foo": "`--engine foo`: give vm or reference",
    "--arch": "`--arch` needs a value",
    "--arch 'x": "no closing quotation",
}
"""options of the magic that are wrong -> their message"""


@pytest.fixture(scope="module")
def magic() -> list[Any]:
    """The outputs of cells with the magic: one that is right but for its lanes, one with a wrong option, one that
    raises, and a prediction."""
    sources = [
        "import numpy as np\nimport wsemu\nfrom wsemu import cuda\n%load_ext wsemu",
        CELL,
        "%%wsemu --tracing\n1",
        *(f"%%wsemu {options}\n1" for options in WRONG),
        "%%wsemu\n\n1 / 0",
        "wsemu.time(alone, 1, 32, (np.zeros(4, np.float32),), device='h100')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    return [
        [output for output in cell.outputs if output.output_type != "stream" or output.text.startswith("UsageError")]
        for cell in notebook.cells
    ]


@pytest.mark.filterwarnings("ignore")
def test_the_magic_displays_reports_time_lines_and_the_value(magic):
    report, line, value = magic[1]
    assert "intra-warp-race" in report.data["text/html"]
    assert "cell In[2]:5:" in report.data["text/html"]  # the magic's line counts
    assert "<svg" in line.data["text/html"]
    assert "Costs by line" in line.data["text/html"]
    assert value.data["text/plain"] == "11"


@pytest.mark.filterwarnings("ignore")
def test_the_magic_reports_wrong_options_and_errors_of_the_cell(magic):
    assert [output.text for output in magic[2]] == [
        "UsageError: %%wsemu has no option `--tracing`: --trace, --strict, --every, --arch, --engine\n"
    ]
    (raised,) = magic[3 + len(WRONG)]
    assert raised.ename == "ZeroDivisionError"


@pytest.mark.filterwarnings("ignore")
def test_the_magic_reports_wrong_values_without_a_traceback(magic):
    for outputs, message in zip(magic[3:], WRONG.values(), strict=False):
        (wrong,) = outputs
        assert (wrong.output_type, message in wrong.text) == ("stream", True)


@pytest.mark.filterwarnings("ignore")
def test_a_prediction_displays_itself(magic):
    (made,) = magic[-1]
    assert "bound by" in made.data["text/html"]


NUMBA = """from numba.cuda import grid, jit
@cuda.jit(device=True)
def twice(v):
    return 2 * v

@jit
def mirror(x):
    s = cuda.shared.array(64, numba.float32)
    i = grid(1)
    s[i] = twice(x[i])
    x[i] = s[63 - i]"""
PLAIN = """%%wsemu
from numba import cuda
@cuda.jit
def ones(x):
    x[cuda.grid(1)] = 1

ones[1, 32](x)"""
LAUNCH = "%%wsemu --trace\nx = np.zeros(64, np.float32)\nmirror[1, 64](x)"


def run_cells(*sources: str) -> list[Any]:
    """Return the outputs of each cell: texts, names of errors, and HTML."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    return [
        [
            one.get("text") or one.get("ename") or one.data.get("text/html") or one.data["text/plain"]
            for one in cell.outputs
            if one.get("name") != "stderr"
        ]
        for cell in notebook.cells
    ]


@pytest.mark.filterwarnings("ignore")
def test_cells_with_numba_cuda_run_without_a_gpu():
    pytest.importorskip("numba.cuda")
    _, _, (note,), (report, line), (after,), (raised,), (module,), (simple,), unloaded = run_cells(
        "import numpy as np\nimport numba\nfrom numba import cuda",
        NUMBA,
        "import wsemu.app.notebook as app\napp.has_gpu = lambda: False\n%load_ext wsemu",
        LAUNCH,
        "float(x[0])",
        "mirror[1, 64](cuda.to_device(x))",
        "(numba.cuda.__name__, jit.__module__, type(mirror).__module__)",
        PLAIN,
        "%unload_ext wsemu\nassert (cuda.__name__, numba.cuda) == ('numba.cuda', cuda), cuda\n"
        "assert type(mirror).__module__.startswith('numba.cuda') and jit is cuda.jit",
    )
    assert note == (
        "note: no GPU here: from now on `numba.cuda` is `wsemu.cuda` in this notebook, until `%unload_ext wsemu`\n"
    )
    assert "cell In[2]:10:" in report
    assert "<svg" in line
    assert "Costs by line" in line
    assert (after, raised) == ("0.0", "CheckFailed")
    assert module == "('wsemu.cuda', 'wsemu.cuda', 'wsemu.launch.kernel')"
    assert ">verified<" in simple
    assert unloaded == []


@pytest.mark.filterwarnings("ignore")
def test_with_a_gpu_only_cells_of_the_magic_run_on_wsemu():
    pytest.importorskip("numba.cuda")
    *_, loaded, (report, _), (names,), (simple,), (again,) = run_cells(
        "import numpy as np\nimport numba\nfrom numba import cuda",
        NUMBA,
        "import wsemu.app.notebook as app\napp.has_gpu = lambda: True\n%load_ext wsemu",
        LAUNCH,
        "(cuda.__name__, numba.cuda is cuda, type(mirror).__module__.partition('.')[0])",
        PLAIN,
        "%%wsemu\nones[1, 32](x)",
    )
    assert loaded == []
    assert "cell In[2]:10:" in report
    assert names == "('numba.cuda', True, 'numba')"
    assert ">verified<" in simple
    assert ">verified<" in again
