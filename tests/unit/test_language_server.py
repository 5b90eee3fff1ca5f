"""`wsemu lsp` by a client that speaks the protocol to the server's process: diagnostics, fixes, costs, code lenses."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wsemu.app.editor_results import CheckResult, defined_kernels
from wsemu.app.language_server import to_path
from wsemu.app.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 400
RACE = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def turned(x, y):
    tile = cuda.shared.array(64, np.float32)
    \u00e4 = cuda.threadIdx.x
    tile[\u00e4] = x[\u00e4]
    y[\u00e4] = tile[63 - \u00e4]

@cuda.jit(device=True)
def helper(x):
    return x

x = np.zeros(64, np.float32)
turned[1, 64](x, x.copy())
"""
SLOW = "import numpy as np\nfrom wsemu import cuda\nimport time\ntime.sleep(600)\n# cuda.jit\n"


class Client:
    """An editor that talks to a server's process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.transport = Transport(process.stdout, process.stdin)  # type: ignore[arg-type]
        self.number = 0
        self.unread: list[dict[str, Any]] = []
        """notifications and requests that no test has waited for"""

    def notify(self, method: str, **params: Any) -> None:
        self.transport.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def receive(self) -> dict[str, Any]:
        """The next message; requests of the server are answered."""
        text = self.transport.read()
        assert text is not None, "the server ended"
        message: dict[str, Any] = json.loads(text)
        if "id" in message and "method" in message:
            self.transport.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": None}).encode())
        assert "could not run" not in str(message), message
        if "method" in message:
            self.unread.append(message)
        return message

    def get(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.transport.write(json.dumps(request).encode())
        while True:
            message = self.receive()
            if message.get("id") == self.number and "method" not in message:
                assert "error" not in message, message
                return message.get("result")

    def wait(self, method: str) -> Any:
        """The parameters of the next notification or request of a name."""
        while True:
            for number, message in enumerate(self.unread):
                if message["method"] == method:
                    return self.unread.pop(number).get("params")
            self.receive()

    def open(self, file: Path) -> str:
        uri = file.as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": file.read_text(encoding="utf-8")}
        self.notify("textDocument/didOpen", textDocument=document)
        return uri

    def save(self, uri: str) -> None:
        self.notify("textDocument/didSave", textDocument={"uri": uri})

    def actions(self, uri: str, line: int) -> list[dict[str, Any]]:
        place = {"line": line, "character": 0}
        found: list[dict[str, Any]] = self.get(
            "textDocument/codeAction", textDocument={"uri": uri}, range={"start": place, "end": place},
            context={"diagnostics": []},
        )  # fmt: skip
        return found


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Client]:
    pytest.importorskip("pygls")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "wsemu", "lsp"], cwd=folder, env=environment, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    client = Client(process)
    watchdog = threading.Timer(SECONDS, process.kill)  # a test that waits in vain fails
    watchdog.start()
    try:
        refresh = {"workspace": {"codeLens": {"refreshSupport": True}}}
        abilities = client.get("initialize", processId=None, rootUri=folder.as_uri(), capabilities=refresh)
        assert abilities["capabilities"]["hoverProvider"]
        assert set(abilities["capabilities"]["executeCommandProvider"]["commands"]) == {"wsemu.check", "wsemu.time"}
        client.notify("initialized")
        yield client
        client.get("shutdown")
        client.notify("exit")
        assert process.wait(60) == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]


def test_a_saved_file_gets_diagnostics_fixes_costs_and_lenses(tmp_path: Path) -> None:
    file = tmp_path / "turned.py"
    file.write_text(RACE, encoding="utf-8")
    with serving(tmp_path) as client:
        uri = client.open(file)
        lenses = client.get("textDocument/codeLens", textDocument={"uri": uri})
        assert [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in lenses] == [
            (3, "check"), (3, "time"), (3, "debug"),
        ]  # fmt: skip
        assert lenses[2]["command"]["command"] == "wsemu.debug"
        assert client.actions(uri, 8) == []
        client.save(uri)
        published = client.wait("textDocument/publishDiagnostics")
        assert published["uri"] == uri
        race, *_ = (entry for entry in published["diagnostics"] if entry["code"] == "race")
        assert (race["severity"], race["source"], race["codeDescription"]["href"][-15:]) == (
            1,
            "wsemu",
            "codes/race.html",
        )
        assert race["message"].startswith("read-after-write hazard on shared `tile[63 - \u00e4]`")
        line = race["range"]["start"]["line"]
        source = RACE.splitlines()[line]
        marked = source[race["range"]["start"]["character"] : race["range"]["end"]["character"]]
        assert marked in ("tile[63 - \u00e4]", "tile[\u00e4]")
        assert race["relatedInformation"][0]["location"]["uri"] == uri
        client.wait("workspace/codeLens/refresh")

        action, *_ = client.actions(uri, 8)
        assert action["isPreferred"]
        assert "cuda.syncthreads()" in action["title"]
        edited = apply(RACE, action["edit"]["changes"][uri])
        file.write_text(edited, encoding="utf-8")
        change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": edited}]}
        client.notify("textDocument/didChange", **change)
        assert client.actions(uri, 8) == []  # of another text
        client.save(uri)
        assert client.wait("textDocument/publishDiagnostics") == {"uri": uri, "diagnostics": []}
        client.wait("workspace/codeLens/refresh")
        lenses = client.get("textDocument/codeLens", textDocument={"uri": uri})
        assert lenses[0]["command"]["title"] == "check: verified"
        hover = client.get("textDocument/hover", textDocument={"uri": uri}, position={"line": 7, "character": 6})
        assert "| shared memory wavefronts | 2 |" in hover["contents"]["value"]
        assert client.get("textDocument/hover", textDocument={"uri": uri}, position={"line": 0, "character": 0}) is None


def apply(text: str, edits: list[dict[str, Any]]) -> str:
    """The text with edits; all characters here are one unit of UTF-16."""
    lines = [len(line) for line in text.splitlines(keepends=True)]

    def offset(place: dict[str, int]) -> int:
        return sum(lines[: place["line"]]) + place["character"]

    for edit in sorted(edits, key=lambda edit: -offset(edit["range"]["start"])):
        text = text[: offset(edit["range"]["start"])] + edit["newText"] + text[offset(edit["range"]["end"]) :]
    return text


def test_commands_check_and_predict(tmp_path: Path) -> None:
    file = tmp_path / "turned.py"
    file.write_text(RACE, encoding="utf-8")
    with serving(tmp_path) as client:
        uri = client.open(file)
        client.get("workspace/executeCommand", command="wsemu.time", arguments=[uri, "turned"])
        said = client.wait("window/showMessage")["message"]
        assert said.startswith("turned: ")
        assert "bound by" in said
        client.wait("workspace/codeLens/refresh")
        lenses = client.get("textDocument/codeLens", textDocument={"uri": uri})
        assert lenses[1]["command"]["title"].startswith("time: ")
        client.get("workspace/executeCommand", command="wsemu.check", arguments=[uri, "turned"])
        assert client.wait("textDocument/publishDiagnostics")["diagnostics"]
        client.notify("textDocument/didClose", textDocument={"uri": uri})
        assert client.wait("textDocument/publishDiagnostics") == {"uri": uri, "diagnostics": []}


def test_the_server_answers_while_a_check_runs_and_a_newer_one_replaces_it(tmp_path: Path) -> None:
    file = tmp_path / "turned.py"
    file.write_text(SLOW, encoding="utf-8")
    with serving(tmp_path) as client:
        uri = client.open(file)
        client.save(uri)
        assert client.get("textDocument/codeLens", textDocument={"uri": uri}) == []
        file.write_text(RACE, encoding="utf-8")
        client.save(uri)
        assert client.wait("textDocument/publishDiagnostics")["diagnostics"]


def test_a_program_that_does_not_compile_has_a_diagnostic(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(RACE.replace("63 -", "63 +-+*"), encoding="utf-8")
    with serving(tmp_path) as client:
        uri = client.open(file)
        client.save(uri)
        (entry,) = client.wait("textDocument/publishDiagnostics")["diagnostics"]
        assert (entry["severity"], entry["range"]["start"]["line"]) == (1, 8)


# -- without pygls -----------------------------------------------------------------------------------------------------
def test_without_the_extra_the_command_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.commands import wsemu

    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    done = wsemu("lsp")
    assert (done.returncode, done.stdout) == (
        2, "error: `wsemu lsp` needs `pygls`: run `pip install 'wsemu[editor]'`\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "kernels"),
    [
        ("a.py", RACE, [("turned", 3)]),
        ("a.py", "@jit\ndef f(x): pass\n", [("f", 0)]),
        ("a.py", "def f(:\n", []),
        ("a.ptx", "// .entry no\n.visible .entry fill(\n", [("fill", 1)]),
        ("a.cu", "template <int N>\n__global__ void copy(float *) {}\n__global__ void __launch_bounds__(64) f() {}\n", [
            ("copy", 1), ("f", 2),
        ]),
        ("a.txt", "__global__ void copy()", []),
    ],
)  # fmt: skip
def test_kernels_of_a_file(name: str, text: str, kernels: list[tuple[str, int]]) -> None:
    assert [(kernel.name, kernel.line) for kernel in defined_kernels(name, text)] == kernels


def test_columns_count_units_of_utf_16(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    result = CheckResult(str(file), {str(file): "x = '\U0001f600\u00e4' + y\n"}, {"reports": [], "messages": []})
    column = len("x = '\U0001f600\u00e4' + ".encode()) + 1
    assert result.position(str(file), 1, column) == {"line": 0, "character": 12}


def test_uris_are_paths(tmp_path: Path) -> None:
    file = tmp_path / "a b\u00e4.py"
    assert to_path(file.as_uri()) == os.path.realpath(file)


def test_invalid_messages_do_not_end_the_server(tmp_path: Path) -> None:
    pytest.importorskip("pygls")
    bodies = [b"5", b"null", b"[1, 2]", b"[" * 100_000, b"\xff{", b'{"jsonrpc": "2.0", "id": 3}']
    bodies += [b'{"jsonrpc": "2.0", "method": "textDocument/didSave", "params": 5}']
    bodies += [b'{"jsonrpc": "2.0", "id": 9, "method": "shutdown"}', b'{"jsonrpc": "2.0", "method": "exit"}']
    done = _run_server(b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies), tmp_path)
    assert (done.returncode, b'"id":9' in done.stdout.replace(b" ", b"")) == (0, True)
    assert b"internal error" not in done.stderr


def test_a_message_without_an_end_is_not_read(tmp_path: Path) -> None:
    pytest.importorskip("pygls")
    done = _run_server(b"Content-Length: 999999999999\r\n\r\n{", tmp_path)
    assert (done.returncode, b"at most 268,435,456" in done.stderr) == (0, True)


def _run_server(messages: bytes, folder: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "wsemu", "lsp"]
    return subprocess.run(command, input=messages, check=False, capture_output=True, timeout=SECONDS, cwd=folder)
