"""`wsemu lsp`: the language server, on standard input and output (Language Server Protocol 3.17, by `pygls`).

A check runs when a file is saved, or when its code lens is used.  It runs in a separate process, so that the server
stays responsive, and a newer check replaces it.  Nothing runs when a file is opened, because a check executes the
program.  The debug adapter uses the same transport.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse
from urllib.request import url2pathname

from wsemu.app.check_process import CheckProcess
from wsemu.app.editor_results import CheckResult, defined_kernels, read_result, to_uri
from wsemu.app.program_file import has_kernels
from wsemu.model.errors import UsageError
from wsemu.model.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.app.transport import Transport

SECONDS = 0.05
"""interval in seconds between two polls of a process"""
SUFFIXES = (".py", ".ptx", ".cu")
"""suffixes of files that are checked when they are saved"""
CHECK, TIME, DEBUG = "wsemu.check", "wsemu.time", "wsemu.debug"
"""commands of code lenses; the editor itself executes the last one"""


class Editor:
    """The state of the server: running checks, their results, the predicted times."""

    def __init__(self, server: Any, types: Any) -> None:
        self.server, self.types = server, types
        self.results: dict[str, CheckResult] = {}
        """checked file -> its last result"""
        self.times: dict[tuple[str, str], float] = {}
        """(file, kernel) -> predicted microseconds"""
        self.running: dict[str, CheckProcess] = {}
        self.shown: dict[str, set[str]] = {}
        """checked file -> files that have diagnostics of its check"""
        self._lock = threading.Lock()

    # -- requests of the editor ---------------------------------------------------------------------------------------
    def handle_save(self, params: Any) -> None:
        """Check a saved file if it may contain kernels."""
        file = to_path(params.text_document.uri)
        if file.endswith(SUFFIXES) and has_kernels(file):
            self.check(file)

    def handle_close(self, params: Any) -> None:
        """Stop the check of a file that is closed, and remove its diagnostics."""
        file = to_path(params.text_document.uri)
        self._replace(file, None)
        self.results.pop(file, None)
        for path in self.shown.pop(file, set()):
            self._publish(path)

    def code_lenses(self, params: Any) -> list[Any]:
        """Return the lenses of each kernel of a file."""
        file = to_path(params.text_document.uri)
        result = self.results.get(file)
        verdicts = result.verdicts() if result else {}
        lenses = []
        for kernel in defined_kernels(file, self._text(params.text_document.uri)):
            place = {"start": {"line": kernel.line, "character": 0}, "end": {"line": kernel.line, "character": 0}}
            verdict = verdicts.get(kernel.name)
            predicted = self.times.get((file, kernel.name))
            titles = {
                CHECK: f"check: {verdict}" if verdict else "check",
                TIME: f"time: {predicted:.4g} us" if predicted is not None else "time",
                DEBUG: "debug",
            }
            arguments = [params.text_document.uri, kernel.name]
            lenses += [
                {"range": place, "command": {"title": title, "command": command, "arguments": arguments}}
                for command, title in titles.items()
            ]
        return [self._to_type(lens, self.types.CodeLens) for lens in lenses]

    def code_actions(self, params: Any) -> list[Any]:
        """Return the proven fixes of the findings in a range."""
        path, text = to_path(params.text_document.uri), self._text(params.text_document.uri)
        first, last = params.range.start.line, params.range.end.line
        actions = [a for result in [*self.results.values()] for a in result.actions(path, first, last, text)]
        return [self._to_type(action, self.types.CodeAction) for action in actions]

    def hover(self, params: Any) -> Any:
        """Return the costs of a line."""
        path = to_path(params.text_document.uri)
        texts = (result.hover_text(path, params.position.line) for result in [*self.results.values()])
        found = next(filter(None, texts), "")
        hover = {"contents": {"kind": "markdown", "value": found}}
        return self._to_type(hover, self.types.Hover) if found else None

    def run_check(self, uri: str, kernel: str = "") -> None:
        """Check a file, for its code lens."""
        del kernel  # a check always runs the whole program
        self.check(to_path(uri))

    def run_time(self, uri: str, kernel: str = "") -> None:
        """Predict the time of a kernel, for its code lens."""
        file = to_path(uri)
        options = ["--format", "json", *(["--kernel", kernel] if kernel else [])]
        self._start(file, ["time", *options, file], lambda output, _: self._show_times(file, output))

    # -- checks -------------------------------------------------------------------------------------------------------
    def check(self, file: str) -> None:
        """Start a check of a file, which replaces a running one."""
        texts = {file: Path(file).read_text(encoding="utf-8", errors="replace")} if os.path.isfile(file) else {}

        def finish(output: str, costs: str) -> None:
            self.show(read_result(file, texts, output, costs))

        self._start(file, None, finish)

    def _start(self, file: str, words: list[str] | None, finish: Callable[[str, str], None]) -> None:
        """Run a command on a file that no check occupies, and pass its output to `finish`."""
        folder = tempfile.TemporaryDirectory(prefix="wsemu-lsp-")
        output, costs = (Path(folder.name, name) for name in ("output", "costs"))
        module = "wsemu" if words is not None else "wsemu.app.editor_check"
        command = words if words is not None else [str(costs), file]
        with output.open("wb") as stream:
            process = CheckProcess(command, os.path.dirname(file), stream, module=module)
        self._replace(file, process)

        def wait() -> None:
            with folder:
                while process.code is None:
                    time.sleep(SECONDS)
                process.close()
                with self._lock:
                    current = self.running.get(file) is process
                    if current:
                        del self.running[file]
                if current:
                    self._finish(finish, output, costs)

        threading.Thread(target=wait, daemon=True).start()

    def _finish(self, finish: Callable[[str, str], None], output: Path, costs: Path) -> None:
        try:
            finish(output.read_text(encoding="utf-8"), costs.read_text(encoding="utf-8") if costs.exists() else "")
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._message(f"wsemu could not run: {error}", self.types.MessageType.Error)

    def _replace(self, file: str, process: CheckProcess | None) -> None:
        """Stop the running check of a file, if any, and register another process."""
        with self._lock:
            before = self.running.pop(file, None)
            if process is not None:
                self.running[file] = process
        if before is not None:
            before.stop()

    def stop(self) -> None:
        """Stop all checks."""
        for file in [*self.running]:
            self._replace(file, None)

    # -- answers ------------------------------------------------------------------------------------------------------
    def show(self, result: CheckResult) -> None:
        """Publish the diagnostics of a check, and update the titles of code lenses."""
        self.results[result.file] = result
        before = self.shown.get(result.file, set())
        self.shown[result.file] = {*result.diagnostics()}
        for path in sorted(before | self.shown[result.file]):
            self._publish(path)
        self._refresh_lenses()

    def _publish(self, path: str) -> None:
        """Publish the diagnostics of a file, which several checks may have found."""
        found = [entry for result in [*self.results.values()] for entry in result.diagnostics().get(path, ())]
        params = {"uri": to_uri(path), "diagnostics": found}
        self.server.text_document_publish_diagnostics(self._to_type(params, self.types.PublishDiagnosticsParams))

    def _show_times(self, file: str, output: str) -> None:
        predictions = json.loads(output)
        for entry in predictions:
            self.times[file, entry["kernel"]] = entry["microseconds"]
        texts = [
            f"{entry['kernel']}: {entry['microseconds']:.4g} us ({entry['low']:.4g} to {entry['high']:.4g}) on "
            f"{entry['device']}, bound by {entry['bound_by']}"
            for entry in predictions
        ]
        self._message("\n".join(texts) or "no launch is predicted", self.types.MessageType.Info)
        self._refresh_lenses()

    def _refresh_lenses(self) -> None:
        workspace = self.server.client_capabilities.workspace
        if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
            self.server.workspace_code_lens_refresh(None)

    def _message(self, text: str, kind: Any) -> None:
        self.server.window_show_message(self.types.ShowMessageParams(type=kind, message=text))

    def _text(self, uri: str) -> str:
        return str(self.server.workspace.get_text_document(uri).source)

    def _to_type(self, data: dict[str, Any], kind: Any) -> Any:
        """Return data of the protocol as the library's type."""
        return self.server.protocol._converter.structure(data, kind)


def to_path(uri: str) -> str:
    """Return the real path of a file's URI."""
    return os.path.realpath(url2pathname(unquote(urlparse(uri).path)))


def make_server() -> tuple[Any, Editor]:
    """Return the server with its features and its state; UsageError without `pygls`."""
    try:
        from lsprotocol import types
        from pygls.lsp.server import LanguageServer
    except ImportError:
        raise UsageError("`wsemu lsp` needs `pygls`: run `pip install 'wsemu[editor]'`") from None
    server = LanguageServer("wsemu", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
    editor = Editor(server, types)
    kinds = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    features: list[tuple[str, Any, Any]] = [
        (types.TEXT_DOCUMENT_DID_SAVE, editor.handle_save, None),
        (types.TEXT_DOCUMENT_DID_CLOSE, editor.handle_close, None),
        (types.TEXT_DOCUMENT_CODE_LENS, editor.code_lenses, None),
        (types.TEXT_DOCUMENT_CODE_ACTION, editor.code_actions, kinds),
        (types.TEXT_DOCUMENT_HOVER, editor.hover, None),
    ]
    for name, handler, options in features:
        server.feature(name, options)(_plain_function(handler))
    server.command(CHECK)(_plain_function(editor.run_check))
    server.command(TIME)(_plain_function(editor.run_time))
    return server, editor


def _plain_function(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method: the library sets attributes on registered functions."""

    def call(*arguments: Any) -> Any:
        return method(*arguments)

    return call


def serve(transport: Transport) -> int:
    """Serve an editor until it exits; return the exit code."""
    server, editor = make_server()
    protocol = server.protocol
    protocol.set_writer(transport, include_headers=False)
    try:
        while (text := transport.read()) is not None:
            try:
                protocol.handle_message(json.loads(text, object_hook=protocol.structure_message))
            except Exception as error:  # an invalid message: the library's errors have no common class
                print(f"wsemu lsp: a message is not understood: {type(error).__name__}: {error}", file=sys.stderr)
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        editor.stop()
    return 0


def run() -> int:
    """Run `wsemu lsp`: serve on standard input and output."""
    from wsemu.app.exit_codes import USAGE
    from wsemu.app.transport import standard_transport
    from wsemu.report.terminal import Printer

    try:
        make_server()
    except UsageError as error:
        Printer().error(error)
        return USAGE
    return serve(standard_transport())
