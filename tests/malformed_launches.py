"""Launch files, arguments, cache files and folder layouts that are wrong, or hostile: kinds of `malformed`.

`tests/data/hostile/` has the seeds: `launches.txt` a launch file a line, `arguments.txt` an argument a line.  What is
located in `outside/` or has `SECRET` in it is shown by no command, and what is called `PWNED` is made by none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import struct
from pathlib import Path
from typing import Any

from tests.malformed import Input, as_json, changed, mutated, truncated

DATA = Path(__file__).parent / "data" / "hostile"
SEEDS = [json.loads(line) for line in (DATA / "launches.txt").read_text(encoding="utf-8").splitlines()]
ARGUMENTS = (DATA / "arguments.txt").read_text(encoding="utf-8").splitlines()
PTX = b"""\
.version 8.0
.target sm_90
.address_size 64
.visible .entry store(.param .u64 x)
{
.reg .b32 %r<4>; .reg .b64 %d<4>;
.loc 1 1 1
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [x]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;
st.global.u32 [%d0], %r0;
ret;
}
.file 1 "outside/secret.env"
"""
PAYLOAD = b'open("PWNED", "w").write("run")\n'
_ARRAY = (
    b"\x93NUMPY\1\0\x76\0" + b"{'descr': '<u4', 'fortran_order': False, 'shape': (32,)}".ljust(117) + b"\n" + bytes(128)
)
FILES = {
    "launches/store.ptx": PTX, "launches/payload.txt": PAYLOAD, "launches/payload.py": PAYLOAD,
    "launches/x.npy": _ARRAY, "outside/store.ptx": PTX, "outside/x.npy": _ARRAY, "outside/secret.env": b"a SECRET\n",
}  # fmt: skip
LINKS = {"launches/out": "../outside", "launches/out.ptx": "../outside/store.ptx", "launches/self.ptx": "self.ptx"}
_COMMANDS = (["check"], ["check"], ["check"], ["run"], ["trace"], ["lean"])
_FORMATS: tuple[list[str], ...] = ([], [], ["--format", "json"], ["--format", "github"], ["--format", "sarif"])


def _run(chance: random.Random, launch: bytes, more: dict[str, bytes] | None = None) -> Input:
    command = chance.choice(_COMMANDS)
    options = chance.choice(_FORMATS) if command[0] in ("check", "run") else []
    target = chance.choice(["launches/a.json", "launches/a.json", "launches"])
    words = [target, *options] if chance.random() < 0.5 else [*options, target]
    return Input({**FILES, "launches/a.json": launch, **(more or {})}, [*command, *words], links=LINKS)


def launch_tree(chance: random.Random, _: Any) -> Input:
    """Return a launch file with nodes changed, or with values of others."""
    tree = dict(chance.choice(SEEDS))
    for key in chance.sample([*tree], min(len(tree), chance.randint(0, 2))):
        tree[key] = chance.choice(SEEDS).get(key, tree[key])
    return _run(chance, as_json(changed(tree, chance) if chance.random() < 0.6 else tree))


def launch_bytes(chance: random.Random, _: Any) -> Input:
    """Return a launch file with its own text, its PTX or its array truncated or changed in some bytes."""
    launch, change = as_json(chance.choice(SEEDS)), chance.choice([mutated, mutated, truncated])
    name = chance.choice(["launches/a.json", "launches/a.json", "launches/x.npy", "launches/store.ptx"])
    if name == "launches/a.json":
        return _run(chance, change(launch, chance))
    return _run(chance, as_json(SEEDS[chance.randrange(2)]), {name: change(FILES[name], chance)})


def arguments(chance: random.Random, _: Any) -> Input:
    """Return arguments on the command line: the seeds, with pieces of others, and with bytes changed."""
    words = ["check", "launches/store.ptx", "--grid", "1", "--block", "32"]
    for _number in range(chance.randint(1, 2)):
        words += [chance.choice(["--arg", "--arg", "--arg", "--set", "--link", "--like"]), changed_argument(chance)]
    return Input(dict(FILES), words, links=LINKS)


def changed_argument(chance: random.Random) -> str:
    """Return an argument of the seeds, changed."""
    text = chance.choice(ARGUMENTS)
    for _ in range(chance.choice([0, 1, 1, 2])):
        other, at = chance.choice(ARGUMENTS), chance.randrange(len(text) + 1)
        match chance.randrange(4):
            case 0:
                text = text[:at] + other + text[at:]
            case 1:
                text = f"{chance.choice('{[')}{text}, {other}{chance.choice('}]')}"
            case 2:
                text = mutated(text.encode(), chance).decode("utf-8", "replace")
            case _:
                text = text[:at] * chance.choice([1, 2, 40]) + text[at:]
    return text.replace("\0", "")[:3000] or "0"


def layout(chance: random.Random, _: Any) -> Input:
    """Return a folder of launch files with other entries among them: folders, pipes, links to themselves and
    elsewhere."""
    made = _run(chance, as_json(chance.choice(SEEDS)))
    names = [f"launches/{n}.json" for n in "bcd"] + ["launches/x.npy", "launches/store.ptx"]
    odd = chance.choice(names)
    kept = {name: data for name, data in made.files.items() if name != odd}
    match chance.randrange(5):
        case 0:
            return made._replace(files={**kept, f"{odd}/inside": b""})
        case 1:
            return made._replace(files=kept, pipes=(odd,))
        case 2:
            return made._replace(files=kept, links={**LINKS, odd: Path(odd).name})
        case 3:
            target = chance.choice(
                ["/dev/zero", "/proc/self/environ", "../outside/secret.env", "../outside", "/", "nothing"]
            )
            return made._replace(files=kept, links={**LINKS, odd: target})
        case _:
            return made._replace(files={**kept, odd: chance.choice([b"", b"\0" * 9, PAYLOAD, b"[" * 9999])})


LONG = b"""\
import numpy as np
from wsemu import cuda

@cuda.jit
def count(x):
    for i in range(x.size):
        x[i] += cuda.threadIdx.x * 0 + 1

count[1, 1](np.zeros(64, np.int64))
"""
"""a program that gets a block"""


def cache(chance: random.Random, _: Any) -> Input:
    """Return the block of a program as something else: under another name, truncated, changed, with fields that do not
    fit."""
    blocks = _blocks()
    name, data = chance.choice(sorted(blocks.items()))
    match chance.randrange(5):
        case 0:
            data = truncated(data, chance)
        case 1:
            data = mutated(data, chance)
        case 2:
            data = chance.choice([*blocks.values(), b"", b"\x7fELF" * 99, PAYLOAD])
        case 3:
            data = sealed([bytes(chance.randrange(256) for _ in range(chance.randrange(40)))] * chance.randrange(8))
        case _:
            other = chance.choice(sorted(blocks))
            name = name.replace("block_", f"block_{chance.choice('0f')}") if other == name else other
    files = {"program.py": LONG, f"cache/{name}": data}
    words = ["check", "--tier", "always", "program.py"]
    return Input(files, words, (0,), environment={"WSEMU_CACHE_DIR": "cache"})


def sealed(fields: list[bytes]) -> bytes:
    """Return a file of machine code with these fields and a matching digest."""
    from wsemu.machine.cache import MAGIC

    body = MAGIC + b"".join(struct.pack("<Q", len(field)) + field for field in fields)
    return body + hashlib.sha256(body).digest()


_BLOCKS: dict[str, bytes] = {}


def _blocks() -> dict[str, bytes]:
    """Return the blocks of `LONG` as wsemu stores them, made once."""
    if not _BLOCKS:
        from tests.malformed_runs import folder, run

        with folder() as place:
            given = Input({"program.py": LONG}, ["check", "--tier", "always", "program.py"])
            run(given._replace(environment={"WSEMU_CACHE_DIR": "cache"}), place)
            for file in (place / "cache").glob("vm-block_*.bin"):
                _BLOCKS[file.name] = file.read_bytes()
        if not _BLOCKS:
            raise RuntimeError("a program gave no block")
    return _BLOCKS


def lay_out(given: Input, folder: Path) -> None:
    """Make the files, links and pipes of an input below a folder."""
    import os

    for name, data in given.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    for name, target in given.links.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(target)
    for name in given.pipes:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(folder / name)
