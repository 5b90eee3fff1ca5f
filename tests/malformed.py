"""Malformed inputs by kind, each made from a seed and a number: what `wsemu` is run on, and with which arguments.

    make("witness-tree", seed=0, number=17, saved)

gives the same `Input` every time.  `saved` are witness files with their programs, which `samples` has the emulator
write.
"""

from __future__ import annotations

import functools
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests import malformed_kernels as kernels

PROGRAM = "program.py"
WITNESS = "witness.wsemu.json"
TABLE = "pyproject.toml"
BUDGET = "5000"
"""warp instructions of a launch or of a replay"""


class Input(NamedTuple):
    """Files of a folder, and the command that is run there."""

    files: dict[str, bytes]
    arguments: list[str]
    codes: tuple[int, ...] = (0, 1, 2, 3)
    """exit codes that are allowed"""
    links: dict[str, str] = {}
    """name -> target of a symbolic link"""
    pipes: tuple[str, ...] = ()
    environment: dict[str, str] = {}


class Saved(NamedTuple):
    """A program with a bug, and a witness of it."""

    program: bytes
    witness: bytes


# -- bytes -------------------------------------------------------------------------------------------------------------
_PIECES = [
    b"-1", b"99999999999999999999", b"null", b"[[[[", b'"\\u001b[2J"', b"1e999", b"{}", b"\0", b"\x1b[2J", b"\xff",
    b"NaN",
    b'"\\ud800"', b"<b>", b"//", b",", b"\xef\xbb\xbf", b"''", b"%0A::error::", b"true", b"1979-05-27", b"\r", b'"""',
]  # fmt: skip


def truncated(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) or 1)]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with one to four bytes or pieces removed, changed, doubled or inserted."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randrange(len(made) or 1), chance.randrange(1, 40)
        match chance.randrange(5):
            case 0:
                made[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del made[at : at + length]
            case 2:
                made[at:at] = chance.choice(_PIECES)
            case 3:
                made[at:at] = made[at : at + length]
            case _:
                other = chance.randrange(len(made) or 1)
                made[at : at + length] = made[other : other + length]
    return bytes(made)


# -- trees -------------------------------------------------------------------------------------------------------------
class Raw(str):
    """Text that is written into JSON or TOML unchanged."""


_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**40, 2**63, 2**64, -(2**63), 10**30, 1.5, float("nan"), float("inf"), "",
    "x", "race",
    "\x1b[2J<b>", "a\nb", "%0A::error::x", "../../../etc/passwd", "/", "sm_1", "*", "[", "\u202e", "a\0b",
    "[x](http://example.org)",
    [], {}, [[]], [None], [1, "a"], {"": 0}, {"a": {"b": []}}, Raw("1" * 400), Raw("1" * 6000), Raw("1e99999"),
    Raw("0x1F"),
    Raw("[" * 300 + "]" * 300), Raw('{"a":' * 200 + "1" + "}" * 200), Raw("[" * 20_000), Raw('"\\ud800"'), "a" * 5000,
]  # fmt: skip


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all nodes of a tree except its root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = []
    for key, value in items:
        found += [(*path, key), *places(value, (*path, key))]
    return found


def changed(tree: Any, chance: random.Random) -> Any:
    """Return the tree with one to three nodes replaced, removed, doubled, renamed or moved."""
    tree = json.loads(json.dumps(tree))
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        known = places(tree)
        if not known:
            return tree
        top = [path for path in known if len(path) <= 2]
        _change(tree, chance.choice(top if chance.random() < 0.4 else known), chance)
    return tree


def _change(tree: Any, path: tuple[Any, ...], chance: random.Random) -> None:
    *way, key = path
    node = tree
    for step in way:
        node = node[step]
    value = node[key]
    match chance.randrange(6):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[chance.choice(["x", "", f"{key}s", str(key).upper(), "\x1b[2J"])] = value
        case 1:
            node.insert(0, value)
        case 2 if isinstance(value, (int, float)) and not isinstance(value, bool):
            node[key] = chance.choice([value + 1, value - 1, -value, value * 1000, str(value), float(value), [value]])
        case 2 if isinstance(value, str):
            node[key] = chance.choice([value + "x", value[:-1], value * 50, [value], value.upper(), f"\x1b[2J{value}"])
        case 2 if isinstance(value, list):
            node[key] = chance.choice([value[::-1], value * 2, value[:1], dict.fromkeys("ab", value)])
        case _:
            node[key] = chance.choice(_VALUES)


def as_json(tree: Any) -> bytes:
    """Return a tree as JSON, with `Raw` unchanged."""
    if isinstance(tree, Raw):
        return tree.encode()
    if isinstance(tree, dict):
        return (
            b"{" + b", ".join(json.dumps(key).encode() + b": " + as_json(value) for key, value in tree.items()) + b"}"
        )
    if isinstance(tree, list):
        return b"[" + b", ".join(map(as_json, tree)) + b"]"
    return json.dumps(tree).encode()


def as_toml(tree: Any) -> bytes:
    """Return a tree as one value of TOML; null, which TOML does not have, is written nevertheless."""
    if isinstance(tree, dict):
        return (
            b"{" + b", ".join(json.dumps(key).encode() + b" = " + as_toml(value) for key, value in tree.items()) + b"}"
        )
    if isinstance(tree, list):
        return b"[" + b", ".join(map(as_toml, tree)) + b"]"
    if isinstance(tree, float) and tree in (float("inf"), -float("inf")):
        return b"inf"
    return as_json(tree).replace(b"NaN", b"nan")


# -- kinds: witnesses --------------------------------------------------------------------------------------------------
def _replay(chance: random.Random, saved: Saved, witness: bytes, program: bytes | None = None) -> Input:
    files = {PROGRAM: saved.program if program is None else program, WITNESS: witness}
    return Input(files, ["replay", "--budget", BUDGET, WITNESS])


def _witness_truncated(chance: random.Random, all_saved: list[Saved]) -> Input:
    saved = chance.choice(all_saved)
    return _replay(chance, saved, truncated(saved.witness, chance))


def _witness_bytes(chance: random.Random, all_saved: list[Saved]) -> Input:
    saved = chance.choice(all_saved)
    return _replay(chance, saved, mutated(saved.witness, chance))


def _witness_tree(chance: random.Random, all_saved: list[Saved]) -> Input:
    saved = chance.choice(all_saved)
    return _replay(chance, saved, as_json(changed(json.loads(saved.witness), chance)))


def _witness_steps(chance: random.Random, all_saved: list[Saved]) -> Input:
    """Return a witness that is well formed, with another schedule."""
    saved = chance.choice(all_saved)
    tree = json.loads(saved.witness)
    for _ in range(chance.randint(1, 3)):
        steps = tree["steps"]
        step = chance.choice(steps)
        match chance.randrange(4):
            case 0:
                chance.shuffle(steps)
            case 1:
                steps.append(dict(step))
            case 2 if len(steps) > 1:
                steps.remove(step)
            case _:
                key = chance.choice(
                    ["warp", "instruction", "nth", "mark", "does", "cta", "barrier", "generation", "line"]
                )
                numbers = [0, 1, 2, 3, 7, 2**31, 2**63, 2**70]
                others = {"mark": ["", "(1)", "(2)", "waits", "lane 0"], "does": ["sync", "arrive", "load", "x"]}
                others["cta"] = [[0, 0, 1], [1, 0, 0], [2**40, 0, 0], [-1, 0, 0]]  # type: ignore[list-item]
                step[key] = chance.choice(others.get(key, numbers))
    tree["code"] = chance.choice([tree["code"]] * 4 + ["race", "intra-warp-race", "deadlock", "barrier-recycling", "x"])
    return _replay(chance, saved, as_json(tree))


def _witness_version(chance: random.Random, all_saved: list[Saved]) -> Input:
    """Return witnesses of other versions, and JSON that is not a witness."""
    saved = chance.choice(all_saved)
    tree = json.loads(saved.witness)
    version = chance.choice([0, 2, 3, 10, 999_999_999, -1, 1.0, "1", None, True, Raw("1" * 5000), [1], Raw("01")])
    texts = [b"", b"null", b"[]", b"{}", b"3", b'"x"', b"{" * 5000, b"[" * 100_000, b"\xff\xfe", b"\0" * 100, b"NaN"]
    if chance.random() < 0.3:
        return _replay(chance, saved, chance.choice(texts))
    format_ = chance.choice(["wsemu-witness", "wsemu-witness", "other", 3, ""])
    made = {"format": format_, "version": version, **{k: v for k, v in tree.items() if k not in ("format", "version")}}
    return _replay(chance, saved, as_json(made))


def _witness_source(chance: random.Random, all_saved: list[Saved]) -> Input:
    """Return a witness with another program than its own, possibly with the hash of that program."""
    saved = chance.choice(all_saved)
    other = chance.choice(all_saved).program
    source = saved.program.decode()
    lines = saved.program.splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    made = [b"".join(lines), other, kernels.changed_kernels(source, chance).encode(), mutated(saved.program, chance)]
    program = chance.choice(made)
    tree = json.loads(saved.witness)
    if chance.random() < 0.8:
        tree["program_sha256"] = hashlib.sha256(program).hexdigest()
    return _replay(chance, saved, as_json(tree), program)


# -- kinds: configuration and suppressions -----------------------------------------------------------------------------
SMALL = b"""\
import numpy as np
from wsemu import cuda

@cuda.jit
def first_come(x, y):
    y[0] = x[cuda.threadIdx.x]  # wsemu: ignore[intra-warp-race] any will do
    y[1] = 1

first_come[1, 64](np.arange(64), np.zeros(64, np.int64))
"""
CONFIGURATION: dict[str, Any] = {
    "arch": "sm_80", "fma": False, "budget": 100_000, "engine": "vm", "only": ["race", "bank-conflict"],
    "skip": ["deadlock"],
    "lockstep": True, "fail-on": ["uncoalesced"], "kernel": ["first*"], "limit": 3, "format": "text",
    "save-witness": "",
    "suppress": [
        {"code": "race", "file": "*.py", "reason": "any value will do"},
        {"code": "race", "file": "other.py", "line": 12, "function": "slow", "array": "x", "reason": "slow"},
    ],
}  # fmt: skip
FORMATS = ("text", "text", "json", "github", "sarif")


def toml(tree: Any) -> bytes:
    """Return `[tool.wsemu]` with these keys."""
    if isinstance(tree, dict):
        lines = (_key(key) + b" = " + as_toml(value) + b"\n" for key, value in tree.items() if key != "suppress")
        entries = tree.get("suppress", [])
        if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
            blocks = (b"".join(_key(k) + b" = " + as_toml(v) + b"\n" for k, v in entry.items()) for entry in entries)
            tables = b"".join(b"\n[[tool.wsemu.suppress]]\n" + block for block in blocks)
        else:
            tables = b"suppress = " + as_toml(entries) + b"\n"
        return b"[tool.wsemu]\n" + b"".join(lines) + tables
    return b"[tool]\nwsemu = " + as_toml(tree) + b"\n"


def _key(key: str) -> bytes:
    return key.encode() if key.replace("-", "").isalnum() and key.isascii() else json.dumps(key).encode()


def _configured(chance: random.Random, table: bytes, program: bytes = SMALL) -> Input:
    command = chance.choice(["check", "check", "run", "trace"])
    format_ = ["--format", chance.choice(FORMATS)] if command != "trace" and chance.random() < 0.5 else []
    return Input({PROGRAM: program, TABLE: table}, [command, *format_, PROGRAM])


def _config_truncated(chance: random.Random, saved: list[Saved]) -> Input:
    return _configured(chance, truncated(toml(CONFIGURATION), chance))


def _config_bytes(chance: random.Random, saved: list[Saved]) -> Input:
    return _configured(chance, mutated(toml(CONFIGURATION), chance))


def _config_tree(chance: random.Random, saved: list[Saved]) -> Input:
    return _configured(chance, toml(changed(CONFIGURATION, chance)))


def _suppress(chance: random.Random, saved: list[Saved]) -> Input:
    """Return entries and comments that accept findings and are partly correct."""
    entry = {"code": "race", "file": "*.py", "reason": "known", "line": 6, "function": "first_come", "array": "y"}
    tree = {
        "suppress": [changed(entry, chance) if chance.random() < 0.6 else entry for _ in range(chance.randint(1, 2))]
    }
    comment = mutated(b"# wsemu: ignore[intra-warp-race] any will do", chance)
    program = SMALL.replace(b"# wsemu: ignore[intra-warp-race] any will do", comment)
    return _configured(chance, toml(tree), program if chance.random() < 0.5 else SMALL)


# -- kinds: programs ---------------------------------------------------------------------------------------------------
def _run(chance: random.Random, program: bytes, codes: tuple[int, ...] = (0, 1, 2, 3), name: str = PROGRAM) -> Input:
    """Return a program for one of the commands that run programs, in any format."""
    command = chance.choice(["check"] * 5 + ["run", "trace"])
    options = ["--budget", BUDGET]
    if command == "trace":
        output = chance.choice([[], ["-o", "made.html"], ["-o", "made.json"]])
        return Input({name: program}, [command, *options, *output, name], codes)
    options += ["--format", chance.choice(FORMATS)]
    options += chance.choice([[], [], [], ["--engine", "reference"], ["--save-witness", "made"], ["--lockstep"]])
    return Input({name: program}, [command, *options, name], codes)


def _grammar(chance: random.Random, saved: list[Saved]) -> Input:
    return _run(chance, kernels.of_grammar(chance).encode())


def _changed(chance: random.Random, saved: list[Saved]) -> Input:
    source = chance.choice(kernels.SOURCES).read_text(encoding="utf-8")
    return _run(chance, kernels.changed_kernels(source, chance).encode())


def _launches(chance: random.Random, saved: list[Saved]) -> Input:
    return _run(chance, kernels.of_launches(chance).encode())


def _host(chance: random.Random, saved: list[Saved]) -> Input:
    program = kernels.of_host(chance)
    also = [code for words, code in kernels.ALSO.items() if words in program]
    return _run(chance, program.encode(), (0, 1, 2, 3, *also))


def _text(chance: random.Random, saved: list[Saved]) -> Input:
    return _run(chance, kernels.of_text(chance))


HOSTILE = (
    "\x1b[2J<b>",
    "a\n::error::b",
    "%0A::error file=x::y",
    "[x](javascript:1)",
    "\u202efdp",
    "<script>alert(1)</script>",
)
"""names that would speak to a terminal, to GitHub, to a page"""


def _names(chance: random.Random, saved: list[Saved]) -> Input:
    """Return correct and wrong inputs, with names of files and kernels that terminals could interpret."""
    name = chance.choice(HOSTILE).replace("/", "_") + ".py"
    rename = f"first_come.__name__ = first_come.py_func.__name__ = {chance.choice(HOSTILE)!r}\n"
    wrong = chance.choice(
        [
            "",
            "",
            "first_come[1, 1]()\n",
            "raise ValueError(__file__)\n",
            "def f(:\n",
            "import sys; sys.exit(__file__)\n",
        ]
    )
    reason = chance.choice(HOSTILE).replace("\n", " ").encode()
    program = SMALL.replace(b"\nfirst_come[", b"\n" + rename.encode() + b"first_come[").replace(b"any will do", reason)
    made = _run(chance, program + wrong.encode(), name=name)
    entry = {"code": chance.choice(["race", "rase"]), "file": "*", "reason": chance.choice(HOSTILE)}
    return made._replace(files={**made.files, TABLE: toml({"suppress": [entry]})})


_WORDS = (
    "",
    "race",
    "rase",
    "x" * 3000,
    "-1",
    "0",
    "1e9",
    "9" * 30,
    "sm_1",
    "sm_90",
    "vm",
    "json",
    "*",
    "[",
    "..",
    "/dev/null",
    *HOSTILE,
)
_OPTIONS = (
    "--arch --budget --engine --only --skip --fail-on --kernel --limit --format --save-witness --launch --cta "
    "--from -o --program --nothing "
    "--help --lockstep --version --examples --seed"
).split()


def _options(chance: random.Random, saved: list[Saved]) -> Input:
    """Return commands with options and arguments that they do not have."""
    command = chance.choice("check run trace replay explain explain fuzz doctor nothing".split())
    words = [word for word in (*_WORDS, PROGRAM, WITNESS, f"{PROGRAM}::f") if "\0" not in word]
    given = [command]
    for _ in range(chance.randint(0, 3)):
        option = chance.choice(_OPTIONS)
        given += [chance.choice([option, f"{option}={chance.choice(words)}", f"--{chance.choice(words)}"])]
        given += [chance.choice(words)] * chance.randint(0, 1)
    given += [PROGRAM] if command in ("check", "run", "trace") else [chance.choice(words)]
    return Input({PROGRAM: SMALL, WITNESS: chance.choice(saved).witness}, given)


LAUNCHES = {"launch-tree": 300, "launch-bytes": 150, "arguments": 300, "layout": 150, "cache": 150}
"""kinds of `malformed_launches`"""


def _of_launches(kind: str, chance: random.Random, saved: list[Saved]) -> Input:
    from tests import malformed_launches

    made: Input = getattr(malformed_launches, kind.replace("-", "_"))(chance, saved)
    return made


KINDS: dict[str, tuple[int, Callable[[random.Random, list[Saved]], Input]]] = {
    "witness-truncated": (60, _witness_truncated),
    "witness-bytes": (100, _witness_bytes),
    "witness-tree": (150, _witness_tree),
    "witness-steps": (150, _witness_steps),
    "witness-version": (60, _witness_version),
    "witness-source": (80, _witness_source),
    "config-truncated": (60, _config_truncated),
    "config-bytes": (100, _config_bytes),
    "config-tree": (200, _config_tree),
    "suppress": (100, _suppress),
    "kernel-grammar": (400, _grammar),
    "kernel-changed": (400, _changed),
    "launch": (200, _launches),
    "host": (200, _host),
    "text": (100, _text),
    "names": (100, _names),
    "options": (150, _options),
    **{kind: (count, functools.partial(_of_launches, kind)) for kind, count in LAUNCHES.items()},
}
"""kind -> number of inputs in a run of the benchmark, and the function that makes one"""


def make(kind: str, seed: int, number: int, saved: list[Saved]) -> Input:
    """Return the input of this kind, seed and number."""
    return KINDS[kind][1](random.Random(f"{seed}/{kind}/{number}"), saved)
