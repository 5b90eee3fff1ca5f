"""CUDA C++ as PTX: `nvcc` compiles a .cu file, and the cache keeps the PTX until a file that it depends on changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.machine import cache
from wsemu.model import settings
from wsemu.model.arch import number_of
from wsemu.model.data import NamedTuple
from wsemu.model.errors import CompileError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUFFIXES = (".cu",)
"""suffixes of files that `nvcc` compiles"""
PACKAGES = "pip install nvidia-cuda-nvcc nvidia-cuda-cccl"
"""the command that installs `nvcc` and CUDA's headers"""
_KEPT = 64
"""compiled files that the cache keeps, the last ones used"""
_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH")
"""environment variables that influence the compilation"""
_HAS_FEATURES = 90
"""the first architecture whose target has a variant with all instructions, `sm_90a`"""
_INSTANTIATED = "--entry"
"""the file that errors of an entry which cannot be instantiated name"""
_TEMPLATE = re.compile(r"\btemplate\s*<[^;{}()]*>[^;{}()]*__global__[^;{}]*?\b(?!__)(\w+)\s*\(", re.S)


class Request(NamedTuple):
    """A file to compile, and how."""

    file: str
    flags: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    """kernel templates with their arguments, which are instantiated"""
    separate: bool = False
    """other files are linked with it"""

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folder of the file and the folders of `-I`: reports show sources below them."""
        return os.path.dirname(self.file), *_find_folders(self.flags)


def is_cuda(source: object) -> bool:
    """Return whether a path names CUDA C++."""
    return isinstance(source, (str, os.PathLike)) and os.fspath(source).lower().endswith(SUFFIXES)


def compile_cuda(request: Request) -> str:
    """Return the PTX of a .cu file; raise UsageError without `nvcc`, or with its messages if it fails."""
    if not os.path.isfile(request.file):
        raise UsageError(f"`{request.file}` cannot be read: no such file")
    compiler = _require_nvcc(request)
    command = [compiler, *_options(request), *request.flags]
    kept = _find_kept(request, command)
    found = _read(kept) if kept is not None else None
    if found is not None:
        return found
    text, inputs = _compile(request, command)
    if kept is not None:
        _keep(kept, text, inputs)
    return text


def compile_program(file: str, flags: Sequence[str], program: str) -> None:
    """Compile CUDA C++ with a `main` to a program; raise UsageError without `nvcc`, or with its messages if it
    fails."""
    request = Request(file, tuple(flags))
    compiler = _require_nvcc(request)
    words = [compiler, *_options(request)[1:], "--no-compress", *flags, "-o", program, file]  # needs no `zstandard`
    done = subprocess.run(words, check=False, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise _failure(request, done)


def _require_nvcc(request: Request) -> str:
    compiler = find_nvcc()
    if compiler is None:
        raise UsageError(
            f"`{os.path.basename(request.file)}` is CUDA C++, and its compiler, `nvcc`, is missing: put it on PATH, "
            f"set CUDA_HOME, or install it with `{PACKAGES}`"
        )
    return compiler


def find_nvcc() -> str | None:
    """Return the path of `nvcc`: on PATH, in CUDA_HOME or CUDA_PATH, or in NVIDIA's packages for Python."""
    return shutil.which("nvcc") or next((path for path in _candidates() if os.access(path, os.X_OK)), None)


def find_templates(file: str) -> list[str]:
    """Return the names of the kernel templates that a file defines itself."""
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [*dict.fromkeys(_TEMPLATE.findall(re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)))]


def _candidates() -> Iterator[str]:
    name = "nvcc.exe" if os.name == "nt" else "nvcc"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield os.path.join(os.environ[variable], "bin", name)
    from importlib.util import find_spec

    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from map(str, sorted(Path(folder).glob(f"*/bin/{name}"), reverse=True))


def _options(request: Request) -> list[str]:
    """Return the options of `nvcc` that the user does not set."""
    options = ["-ptx", "-lineinfo"]
    if not any(re.match(r"--?(arch|gencode|gpu-architecture|gpu-code)\b", flag) for flag in request.flags):
        arch = settings.current().arch
        options.append(f"-arch={arch}{'a' * (number_of(arch) >= _HAS_FEATURES)}")
    if request.separate:
        options.append("-rdc=true")
    return options


def _find_folders(flags: Sequence[str]) -> Iterator[str]:
    """Yield the folders of `-I`."""
    for flag, following in zip(flags, (*flags[1:], ""), strict=False):
        if flag in ("-I", "--include-path"):
            yield os.path.abspath(following)
        elif flag.startswith(("-I", "--include-path=")):
            yield os.path.abspath(flag.removeprefix("--include-path=").removeprefix("-I").removeprefix("="))


# -- a compilation -----------------------------------------------------------------------------------------------------


def _compile(request: Request, command: Sequence[str]) -> tuple[str, list[str]]:
    """Return the PTX, and the files that it was compiled from."""
    with tempfile.TemporaryDirectory(prefix="wsemu-nvcc-") as place:
        source, made, listed = request.file, Path(place, "made.ptx"), Path(place, "made.d")
        if request.entries:
            source = os.path.join(place, os.path.basename(request.file))
            Path(source).write_text(_write_uses(request), encoding="utf-8")
        words = [*command, "-MD", "-MF", str(listed), "-o", str(made), source]
        done = subprocess.run(words, check=False, capture_output=True, encoding="utf-8", errors="replace")
        if done.returncode or not made.is_file():
            raise _failure(request, done)
        inputs = [path for path in _dependencies(listed) if os.path.dirname(path) != place]
        return made.read_text(encoding="utf-8", errors="replace"), inputs


def _write_uses(request: Request) -> str:
    """Write text that includes the file and uses its templates; a `# 1` directive makes errors in these uses refer to
    the option."""
    path = request.file.replace("\\", "\\\\").replace('"', '\\"')
    uses = [f"static auto *const wsemu_entry_{n} = &{entry};" for n, entry in enumerate(request.entries)]
    return "\n".join([f'#include "{path}"', f'# 1 "{_INSTANTIATED}"', *uses, ""])


def _failure(request: Request, done: subprocess.CompletedProcess[str]) -> CompileError:
    """Return the error of a failed compilation, with the messages of `nvcc`."""
    text = (done.stderr.strip() or done.stdout.strip()).replace("\r", "")
    folder = os.getcwd() + os.sep
    output = "\n".join(line.removeprefix(folder) for line in text.split("\n"))
    what = f"`{os.path.basename(request.file)}` does not compile"
    if f"{_INSTANTIATED}(" in text:
        what += f" with {', '.join(f'`--entry {entry}`' for entry in request.entries)}"
    remedy = ": install a C++ compiler, such as `apt install g++`" if "host compiler" in text else ""
    return CompileError(f"{what}: `nvcc` ended with exit code {done.returncode}{remedy}", output)


def _dependencies(listed: Path) -> list[str]:
    """Return the files of a rule for `make`."""
    try:
        text = listed.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    names = re.findall(r"(?:\\.|[^\s\\])+", text.partition(" : ")[2].replace("\\\n", " "))
    return [os.path.abspath(re.sub(r"\\(.)", r"\1", name)) for name in names]


# -- what is kept ------------------------------------------------------------------------------------------------------


def _find_kept(request: Request, command: Sequence[str]) -> Path | None:
    """Return the cache file for a compilation; None without a cache."""
    place = cache.folder()
    if place is None:
        return None
    state = [_state(os.path.realpath(command[0])), *(os.environ.get(name, "") for name in _VARIABLES), os.getcwd()]
    key = json.dumps([*state, *command, *request])
    return place / f"cuda-{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _state(file: str) -> list[int]:
    """Return the modification time and size of a file, which show whether it changed; empty if it is missing."""
    try:
        found = os.stat(file)
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_size]


def _read(kept: Path) -> str | None:
    """Return the PTX from the cache if the files from which it was compiled have not changed."""
    try:
        found = json.loads(kept.read_text(encoding="utf-8"))
        if all(_state(file) == state for file, state in found["inputs"].items()):
            os.utime(kept)
            return str(found["ptx"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _keep(kept: Path, text: str, inputs: Sequence[str]) -> None:
    """Write a file of the cache as a whole, and remove the oldest ones."""
    if not inputs:
        return
    data = json.dumps({"inputs": {file: _state(file) for file in inputs}, "ptx": text})
    with contextlib.suppress(OSError):
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=kept.parent, prefix="cuda-", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(data)
            os.replace(temporary, kept)
        except OSError:
            os.unlink(temporary)
            raise
        old = sorted(kept.parent.glob("cuda-*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in old[_KEPT:]:
            file.unlink()


# -- flags from the command line, and from files that others may have written ------------------------------------------

_HARMLESS = re.compile(
    r"-D.*|-U.*|--?std=.*|-O[0-3]|--?use_fast_math|--?(ftz|fmad|prec-div|prec-sqrt|maxrregcount|rdc|arch)=[\w]+"
    r"|--?(extended|expt-extended)-lambda|--?expt-relaxed-constexpr|--?diag-suppress=[\d,]+|-w|-lineinfo"
)
_FOLDER = re.compile(r"(?:-I|--include-path=|-isystem=)(.*)")


def split_flags(text: str) -> tuple[str, ...]:
    """Return the words of `--nvcc`; raise UsageError if a quotation mark is not closed."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"`--nvcc {text}` cannot be split into flags: {str(error).lower()}") from None


def check_flags(text: str, folder: Path, naming: str) -> str:
    """Return the flags in a file, with full paths of its header folders.

    Raise UsageError for flags that read files or start programs, which only the command line may give.
    """
    words: list[str] = []
    rest = iter(split_flags(text))
    for word in rest:
        found = _FOLDER.fullmatch(word if word not in ("-I", "-isystem", "--include-path") else f"-I{next(rest, '')}")
        if found is not None:
            words += ["-isystem", os.path.normpath(os.path.join(os.path.abspath(folder), found[1]))]
        elif word in ("-D", "-U", "-std", "--std"):
            words += [word, next(rest, "")]
        elif _HARMLESS.fullmatch(word):
            words.append(word)
        else:
            raise UsageError(
                f"{naming} gives `nvcc` the flag `{word}`: give that on the command line, as `--nvcc '{word}'`"
            )
    return shlex.join(words)
