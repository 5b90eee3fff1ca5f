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
