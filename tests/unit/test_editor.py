"""`wsemu debug --dap`: a launch stepped by an editor, which speaks the Debug Adapter Protocol."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.commands import wsemu
from wsemu.app import editor
from wsemu.app.breakpoints import Breakpoint, Breakpoints, statement_lines
from wsemu.app.transport import Transport

PROGRAM = """\
import numpy as np
from numba import cuda

@cuda.jit(device=True)
def twice(v):
    w = v * 2

    return w

@cuda.jit
def fill(x, pair):
    i = cuda.grid(1)
    total = 0.0
    for j in range(4):
        total += twice(x[i] + j)
    x[i] = total

x = np.arange(4.0)
fill[1, 4](x, (1, 2.5))
print(x.sum())
fill[1, 4](x, (1, 2.5))
"""
SUM = 15
WANTED = 20.0  # twice of 2 + (0, 1, 2, 3)


@dataclass
class Client:
    """An editor, as far as a test needs one."""

    incoming: Any
    outgoing: Any
    number: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    """those that nobody has waited for"""
    seen: list[dict[str, Any]] = field(default_factory=list)

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(Transport(self.incoming, self.outgoing).read() or b"")
        if message["type"] == "event":
            self.events.append(message)
            self.seen.append(message)
        return message

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The whole response to a request."""
        self.number += 1
        request = {"seq": self.number, "type": "request", "command": command, "arguments": arguments}
        Transport(self.incoming, self.outgoing).write(json.dumps(request).encode())
        while True:
            message = self.receive()
            if message["type"] == "response":
                assert (message["request_seq"], message["command"]) == (self.number, command)
                return message

    def get(self, command: str, **arguments: Any) -> Any:
        """What a request that succeeds brings."""
        response = self.ask(command, **arguments)
        assert response["success"], response
        return response.get("body")

    def wait(self, event: str) -> dict[str, Any]:
        """The next event of a name."""
        while True:
            for n, message in enumerate(self.events):
                if message["event"] == event:
                    del self.events[: n + 1]
                    body: dict[str, Any] = message.get("body", {})
                    return body
            self.receive()

    def line(self) -> int:
        return int(self.get("stackTrace", threadId=1)["stackFrames"][0]["line"])

    def value(self, expression: str, context: str = "watch") -> Any:
        return self.get("evaluate", expression=expression, frameId=0, context=context)["result"]

    def begin(self, file: Path, points: list[dict[str, Any]], **launch: Any) -> list[dict[str, Any]]:
        """All that comes before the program runs."""
        assert self.get("initialize", adapterID="wsemu", linesStartAt1=True)["supportsConditionalBreakpoints"]
        self.wait("initialized")
        self.get("launch", **launch)
        told: list[dict[str, Any]] = self.get("setBreakpoints", source={"path": str(file)}, breakpoints=points)[
            "breakpoints"
        ]
        self.get("setExceptionBreakpoints", filters=[])
        self.get("configurationDone")
        return told


def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: Any) -> None:
    """A session in which `edit(client, file)` is the editor."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    pipes = (*os.pipe(), *os.pipe())
    streams: Any = [os.fdopen(end, how) for end, how in zip(pipes, ("rb", "wb") * 2, strict=True)]
    to_us, from_editor, to_editor, from_us = streams
    client = Client(to_editor, from_editor)
    failed: list[BaseException] = []

    def play() -> None:
        try:
            edit(client, file)
        except BaseException as error:
            failed.append(error)
        finally:
            from_editor.close()

    monkeypatch.setattr(editor, "standard_stream_adapter", lambda: editor.Adapter(to_us, from_us))
    player = threading.Thread(target=play)
    player.start()
    done = wsemu("debug", "--dap", file)
    player.join(60)
    for stream in (to_us, to_editor, from_us):
        stream.close()
    if failed:
        raise failed[0]
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_launch_is_stepped_forward_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(client: Client, file: Path) -> None:
        client.begin(file, [], stopOnEntry=True, thread=2)
        assert client.wait("stopped")["reason"] == "entry"
        assert client.line() == 12
        assert client.get("threads")["threads"] == [{"id": 1, "name": "fill, thread 2 of CTA 0"}]
        for wanted in (13, 14, 15):
            client.get("next", threadId=1)
            assert client.wait("stopped")["reason"] == "step"
            assert client.line() == wanted
        client.get("stepIn", threadId=1)
        client.wait("stopped")
        frames = client.get("stackTrace", threadId=1)["stackFrames"]
        assert [(frame["name"], frame["line"]) for frame in frames] == [("twice", 6), ("fill", 15)]
        assert frames[0]["source"]["path"] == os.path.realpath(file)
        assert client.get("scopes", frameId=1)["scopes"] == []
        client.get("stepBack", threadId=1)
        client.wait("stopped")
        assert client.line() == 15
        client.get("stepIn", threadId=1)
        client.wait("stopped")
        client.get("stepOut", threadId=1)
        client.wait("stopped")
        assert (client.line(), client.value("j")) == (15, "1")
        client.get("continue", threadId=1)
        client.wait("stopped")  # the second launch
        assert client.line() == 12
        client.get("disconnect")
        assert client.wait("exited")["exitCode"] == 0
        client.wait("terminated")

    session(tmp_path, monkeypatch, edit)


def test_variables_are_shown_with_their_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(client: Client, file: Path) -> None:
        client.begin(file, [{"line": SUM}], thread="2")
        assert client.wait("stopped")["reason"] == "breakpoint"
        (scope,) = client.get("scopes", frameId=0)["scopes"]
        found = {
            v["name"]: v for v in client.get("variables", variablesReference=scope["variablesReference"])["variables"]
        }
        assert {name: found[name]["value"] for name in ("i", "j", "total", "pair")} == {
            "i": "2", "j": "0", "total": "0.0", "pair": "(np.int64(1), np.float64(2.5))",
        }  # fmt: skip
        assert found["x"]["type"] == "float64[4]"
        parts = client.get("variables", variablesReference=found["x"]["variablesReference"])["variables"]
        assert [(part["name"], part["value"]) for part in parts][2] == ("[2]", "2.0")
        parts = client.get("variables", variablesReference=found["pair"]["variablesReference"])["variables"]
        assert [part["value"] for part in parts] == ["1", "2.5"]
        assert client.value("x[i] * 10", "hover") == "20.0"
        assert client.value("x.sum()", "repl") == "6.0"
        wrong = client.ask("evaluate", expression="nothing", context="watch")
        assert (wrong["success"], wrong["message"]) == (False, "NameError: name 'nothing' is not defined")
        assert client.ask("gotoTargets")["message"] == "`gotoTargets` is not supported"
        client.get("evaluate", expression="thread 3", context="repl")
        client.wait("stopped")  # where the launch begins
        client.get("continue", threadId=1)
        client.wait("stopped")
        assert client.value("i") == "3"
        client.get("disconnect")
        client.wait("terminated")

    session(tmp_path, monkeypatch, edit)


def test_breakpoints_have_conditions_and_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(client: Client, file: Path) -> None:
        points: list[dict[str, Any]] = [
            {"line": 7, "logMessage": "w is {w}, not {what}"}, {"line": SUM, "condition": "j == 2"}, {"line": 100},
        ]  # fmt: skip
        told = client.begin(file, points, thread=2)
        assert [point["verified"] for point in told] == [True, True, False]
        assert told[0]["line"] == 8  # where a statement begins
        client.wait("stopped")
        assert (client.line(), client.value("j"), client.value("total")) == (SUM, "2", "10.0")
        said = [event["body"]["output"] for event in client.seen if event["event"] == "output"]
        nothing = "NameError: name 'what' is not defined"
        assert said == [f"w is {w}, not {nothing}\n" for w in ("4.0", "6.0")]
        client.get("reverseContinue", threadId=1)
        client.wait("stopped")
        assert client.line() == 12  # no breakpoint before: the begin
        client.get("setBreakpoints", source={"path": str(file)}, breakpoints=[{"line": 20}])
        client.get("continue", threadId=1)
        output = []
        while (event := client.wait("output"))["category"] != "stdout":
            output.append(event["output"])
        assert "fill has ended\n" in output
        assert float(event["output"]) == 4 * 12 + 8 * 6
        client.wait("terminated")

    session(tmp_path, monkeypatch, edit)


def test_an_editor_that_goes_away_leaves_the_program_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(client: Client, file: Path) -> None:
        client.begin(file, [], stopOnEntry=True)
        client.wait("stopped")

    session(tmp_path, monkeypatch, edit)


def test_breakpoints_are_of_a_file_or_of_all() -> None:
    points = Breakpoints.at_lines([3])
    points.replace_in_file("/a.py", [Breakpoint(5, "/a.py"), Breakpoint(4, "/a.py", "x > 1")])
    assert str(points) == "3, 4 if x > 1, 5"
    points.replace_in_file("/a.py", [])
    assert str(points) == "3"


def test_statements_begin_at_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = (1,\n     2)\n\nif x:\n    pass\n")
    assert statement_lines(str(file)) == [1, 4, 5]
    assert statement_lines(str(tmp_path / "none.py")) == []
