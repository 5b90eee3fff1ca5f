"""`wsemu debug --dap FILE`: the debugger for editors, by the Debug Adapter Protocol on standard input and output.

An editor starts the command as its adapter and sends `launch` with any of `stopOnEntry`, `thread` and `cta`.  The
protocol has one thread, which is the GPU thread that is being stepped; `thread T [CTA]` in the editor's console selects
another GPU thread.  (Microsoft, "Debug Adapter Protocol", 1.68; https://microsoft.github.io/debug-adapter-protocol.)
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import queue
import threading
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

import numpy as np

from wsemu.app.breakpoints import Breakpoint, Breakpoints, evaluate, evaluate_as_text, format_value, statement_lines
from wsemu.app.debugger import Here, Quit, Session
from wsemu.app.transport import Transport, standard_transport
from wsemu.model.data import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.app.debugger import Debugger
    from wsemu.model.program import Span
    from wsemu.reference.warp import WarpRun

Message = dict[str, Any]
THREAD = 1
"""number of the stepped thread in the protocol"""
MOST = 256
"""maximum number of elements of an array that are shown"""
ABILITIES = (
    "supportsConfigurationDoneRequest supportsConditionalBreakpoints supportsLogPoints supportsStepBack "
    "supportsEvaluateForHovers supportsTerminateRequest supportTerminateDebuggee"
).split()
STEPS = {"next": "n", "stepIn": "s", "stepOut": "o", "continue": "c"}
"""request -> command of the session"""


class Adapter:
    """The connection to the editor: messages in both directions, breakpoints, and the thread that waits for
    requests."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self.transport = Transport(incoming, outgoing)
        self.debugger: Debugger | None = None
        self.points = Breakpoints()
        self.requests: queue.Queue[Message] = queue.Queue()
        """requests that only a stopped thread can answer"""
        self.configured = threading.Event()
        self.left = self.pausing = False
        self.name = "GPU thread"
        self.first = 1
        """number of the first line, as the editor counts"""
        self._number = 0
        self._lock = threading.Lock()

    # -- messages -----------------------------------------------------------------------------------------------------
    def send(self, kind: str, **fields: Any) -> None:
        """Send a message to the editor."""
        with self._lock:
            self._number += 1
            self.transport.write(json.dumps({"seq": self._number, "type": kind, **fields}).encode())

    def event(self, name: str, **body: Any) -> None:
        """Send an event to the editor."""
        self.send("event", event=name, body=body)

    def answer(self, request: Message, body: Any = None, error: str = "") -> None:
        """Send the response to a request."""
        given = {"request_seq": request.get("seq", 0), "command": request.get("command", ""), "success": not error}
        more: dict[str, Any] = {"message": error} if error else {} if body is None else {"body": body}
        self.send("response", **given, **more)

    def write(self, text: str) -> None:
        """Print a line in the editor's console."""
        self.event("output", category="console", output=f"{text}\n")

    def listen(self) -> None:
        """Receive messages until the connection ends."""
        while (text := self.transport.read()) is not None:
            with contextlib.suppress(ValueError):
                self._handle_request(json.loads(text))
        self._leave()

    def _handle_request(self, request: Any) -> None:
        if not isinstance(request, dict) or request.get("type") != "request":
            return
        at_once = self.AT_ONCE.get(request.get("command", ""))
        if at_once is None:
            self.requests.put(request)
            return
        try:
            self.answer(request, at_once(self, request.get("arguments") or {}))
        except (KeyError, TypeError, ValueError) as error:
            self.answer(request, error=f"`{request['command']}`: {type(error).__name__}: {error}")
            return
        if request["command"] == "initialize":
            self.event("initialized")

    # -- requests that are answered at any time -----------------------------------------------------------------------
    def _initialize(self, given: Message) -> Message:
        self.first = 1 if given.get("linesStartAt1", True) else 0
        return dict.fromkeys(ABILITIES, True)

    def _launch(self, given: Message) -> None:
        if self.debugger is not None:
            self.debugger.waits = "s" if given.get("stopOnEntry") else "c"
            self.debugger.thread = str(given.get("thread", self.debugger.thread))
            self.debugger.cta = str(given.get("cta", self.debugger.cta))

    def _breakpoints(self, given: Message) -> Message:
        file = given["source"].get("path", "")
        lines = statement_lines(file)
        points: list[Breakpoint] = []
        told: list[Message] = []
        for one in given.get("breakpoints") or ():
            asked = one["line"] + 1 - self.first
            line = next((n for n in lines if n >= asked), None)
            if line is None:
                told.append({"verified": False, "message": "no statement begins there"})
                continue
            points.append(
                Breakpoint(line, os.path.realpath(file), one.get("condition") or "", one.get("logMessage") or "")
            )
            told.append({"verified": True, "line": line - 1 + self.first})
        self.points.replace_in_file(os.path.realpath(file), points)
        return {"breakpoints": told}

    def _handle_configuration_done(self, given: Message) -> None:
        self.configured.set()

    def _threads(self, given: Message) -> Message:
        return {"threads": [{"id": THREAD, "name": self.name}]}

    def _pause(self, given: Message) -> None:
        self.pausing = True

    def _leave(self, given: Message | None = None) -> None:
        self.left = True
        self.configured.set()
        self.requests.put({"command": "disconnect"})

    def _empty_breakpoints(self, given: Message) -> Message:
        return {"breakpoints": []}

    AT_ONCE: ClassVar[dict[str, Callable[[Adapter, Message], Message | None]]] = {
        "initialize": _initialize, "launch": _launch, "attach": _launch, "setBreakpoints": _breakpoints,
        "setExceptionBreakpoints": _empty_breakpoints, "setFunctionBreakpoints": _empty_breakpoints,
        "configurationDone": _handle_configuration_done,
        "threads": _threads, "pause": _pause, "disconnect": _leave, "terminate": _leave,
    }  # fmt: skip

    # -- called by the program's thread -------------------------------------------------------------------------------
    @contextlib.contextmanager
    def running(self, debugger: Debugger) -> Iterator[None]:
        """Run the program inside the block: it begins when the editor is ready, and its output goes to the editor."""
        self.debugger = debugger
        debugger.points = self.points
        debugger.write = self.write
        debugger.session = functools.partial(EditorSession, adapter=self)
        threading.Thread(target=self.listen, daemon=True).start()
        self.configured.wait()
        with contextlib.redirect_stdout(_Output(self, "stdout")), contextlib.redirect_stderr(_Output(self, "stderr")):
            yield

    def report_end(self, code: int) -> None:
        """Tell the editor that the program has ended."""
        self.event("exited", exitCode=code)
        self.event("terminated")


class _Output(io.TextIOBase):
    """A stream whose text goes to the editor."""

    def __init__(self, adapter: Adapter, category: str) -> None:
        self._adapter, self._category = adapter, category

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if text:
            self._adapter.event("output", category=self._category, output=text)
        return len(text)


def standard_stream_adapter() -> Adapter:
    """Return an adapter on standard input and output; other output to standard output goes to standard error."""
    transport = standard_transport()
    return Adapter(transport.incoming, transport.outgoing)


@dataclass(slots=True)
class EditorSession(Session):
    """A launch that an editor steps through."""

    adapter: Adapter | None = None
    held: list[Any] = field(default_factory=list)
    """composite values, by the number that the editor uses for them, from 2"""

    def handle_stop(self, run: WarpRun, fields: list[int], lanes: int) -> None:
        """Handle a stop as `Session` does, and handle requests of the editor to disconnect or pause."""
        assert self.adapter is not None
        if self.adapter.left:
            raise Quit
        if self.adapter.pausing and self.waits == "c":
            self.waits = "s"
        Session.handle_stop(self, run, fields, lanes)

    def talk(self, here: Here) -> None:
        """Answer the editor until it lets the thread continue."""
        adapter = self.adapter
        assert adapter is not None
        hit = bool(self.hits) and self.hits[-1] == self.count
        reason = "breakpoint" if hit else "pause" if adapter.pausing else "entry" if self.count == 1 else "step"
        self.depth, adapter.pausing, adapter.name = here.depth, False, f"{self.program.name}, {self.who}"
        self.held = []
        adapter.event("stopped", reason=reason, threadId=THREAD, allThreadsStopped=True, text=adapter.name)
        while True:
            request = adapter.requests.get()
            if request["command"] == "disconnect":
                raise Quit
            if self._answer_request(adapter, request, here):
                return

    def _answer_request(self, adapter: Adapter, request: Message, here: Here) -> bool:
        """Answer one request; return whether the thread continues."""
        name, given = request["command"], request.get("arguments") or {}
        if name in STEPS:
            self.waits = STEPS[name]
            adapter.answer(request, {"allThreadsContinued": True} if name == "continue" else None)
            return True
        if name in ("stepBack", "reverseContinue"):
            adapter.answer(request)
            before = [count for count in self.hits if count < self.count] if name == "reverseContinue" else []
            self.again(before[-1] if before else 1 if name == "reverseContinue" else max(1, self.count - 1))
        if name == "evaluate":
            self._evaluate(adapter, request, given, here)
            return False
        look = self.LOOKS.get(name)
        if look is None:
            adapter.answer(request, error=f"`{name}` is not supported")
        else:
            adapter.answer(request, look(self, given, here))
        return False

    def _evaluate(self, adapter: Adapter, request: Message, given: Message, here: Here) -> None:
        text = str(given.get("expression", ""))
        if given.get("context") == "repl" and text.split()[:1] == ["thread"]:
            adapter.answer(request, {"result": "", "variablesReference": 0})
            self.go_to(text.partition("thread")[2])
            return
        try:
            value = evaluate(text, here.variables)
        except Exception:
            adapter.answer(request, error=evaluate_as_text(text, here.variables))
            return
        adapter.answer(request, {key: part for key, part in self._variable_message("", value).items() if key != "name"})

    def _frames(self, given: Message, here: Here) -> Message:
        assert self.adapter is not None
        names = [here.stop.function, *["device function"] * (here.depth - 1), *[self.program.name] * bool(here.depth)]
        spans: list[Span] = [here.span, *reversed(here.calls)]
        frames = [
            {
                "id": number, "name": name, "line": span.line - 1 + self.adapter.first, "column": self.adapter.first,
                "source": {"name": os.path.basename(span.file), "path": os.path.realpath(span.file)},
            }
            for number, (name, span) in enumerate(zip(names, spans, strict=True))
        ]  # fmt: skip
        begin = given.get("startFrame") or 0
        return {"stackFrames": frames[begin : begin + (given.get("levels") or len(frames))], "totalFrames": len(frames)}

    def _scopes(self, given: Message, here: Here) -> Message:
        """Return the variables, only of the innermost function: those of its callers are not available."""
        scopes = [{"name": "Locals", "presentationHint": "locals", "variablesReference": 1, "expensive": False}]
        return {"scopes": scopes if given.get("frameId", 0) == 0 else []}

    def _variables(self, given: Message, here: Here) -> Message:
        number = given["variablesReference"]
        if number == 1:
            return {"variables": [self._variable_message(name, value) for name, value in here.variables.items()]}
        held = self.held[number - 2] if 2 <= number < 2 + len(self.held) else ()
        parts = [self._variable_message(f"[{n}]", part) for n, part in zip(range(MOST), held, strict=False)]
        return {"variables": parts}

    def _variable_message(self, name: str, value: Any) -> Message:
        number = 0
        if isinstance(value, tuple) or (isinstance(value, np.ndarray) and value.ndim):
            self.held.append(value)
            number = len(self.held) + 1
        text = format_value(value)
        kind = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
        return {"name": name, "value": text, "result": text, "type": kind, "variablesReference": number}

    LOOKS: ClassVar[dict[str, Callable[[EditorSession, Message, Here], Message]]] = {
        "stackTrace": _frames, "scopes": _scopes, "variables": _variables,
    }  # fmt: skip
