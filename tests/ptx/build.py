"""Makes the PTX of this folder and of examples: `python tests/ptx/build.py [--check] [NAME ...]`.

nvcc makes NAME.sm_90.ptx with line information, NAME.sm_75.ptx, NAME.sm_80.ptx and NAME.sm_90a.ptx for other targets,
NAME.sm_90.plain.ptx without lines and NAME.sm_90.debug.ptx without optimisation from the CUDA C++ in NAME.cu; Triton,
where it is installed, makes triton_NAME.sm_90.ptx from triton_kernels.py.
With --check nothing is written, and the exit code is 1 where the files differ from what the compilers make now.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"


class Variant(NamedTuple):
    """One PTX file of a source: the end of its name, and what nvcc is told."""

    suffix: str
    options: tuple[str, ...]


LINES = Variant("sm_90", ("-arch=sm_90", "-lineinfo"))
OLDER = Variant("sm_75", ("-arch=sm_75", "-lineinfo"))
PLAIN = Variant("sm_90.plain", ("-arch=sm_90",))
AMPERE = Variant("sm_80", ("-arch=sm_80", "-lineinfo"))
HOPPER = Variant("sm_90a", ("-arch=sm_90a", "-lineinfo"))
BROKEN = Variant("broken.sm_90a", ("-arch=sm_90a", "-lineinfo", "-DBROKEN"))
BROKEN_AMPERE = Variant("broken.sm_80", ("-arch=sm_80", "-lineinfo", "-DBROKEN"))
BLACKWELL = Variant("sm_100a", ("-arch=sm_100a", "-lineinfo"))
BROKEN_BLACKWELL = Variant("broken.sm_100a", ("-arch=sm_100a", "-lineinfo", "-DBROKEN"))
DEBUG = Variant("sm_90.debug", ("-arch=sm_90", "-G"))

EXACT = ("-fmad=false",)
"""every operation rounds, as it is written"""

VARIANTS: dict[str, tuple[Variant, ...]] = {
    "producer_consumer": (LINES, OLDER),
    "reduction": (LINES, OLDER),
    "transpose": (LINES, PLAIN),
    "control": (LINES, OLDER, DEBUG),
    "functions": (LINES, PLAIN),
    "integers": (LINES, OLDER, DEBUG),
    "mbarriers": (LINES, AMPERE),
    "bulk": (HOPPER,),
    "swizzled": (HOPPER,),
    "addresses": (LINES, DEBUG),
    "pointers": (LINES, DEBUG),
    "clusters": (HOPPER,),
    "tensor_copies": (HOPPER,),
    "sorting": (LINES, DEBUG),
    "wmma": (HOPPER,),
    "wgmma": (HOPPER,),
    "wgmma_ring": (HOPPER,),
    "ampere/gemm": (AMPERE, BROKEN_AMPERE),
    "blackwell/flash": (BLACKWELL, BROKEN_BLACKWELL),
    "blackwell/fp4": (BLACKWELL, BROKEN_BLACKWELL),
    "blackwell/gemm": (BLACKWELL, BROKEN_BLACKWELL),
    "hopper/flash": (HOPPER, BROKEN),
    "hopper/gemm": (HOPPER, BROKEN),
}
"""of sources that are compiled more than once; all others are (LINES,)"""

OPTIONS: dict[str, tuple[str, ...]] = {"floating": EXACT, "programs": EXACT}
"""what nvcc is told about a source besides"""

FOLDER = re.compile(r'^(\s*\.file\s+\d+ )"[^"]*/([^"/]+)"', re.MULTILINE)
"""a `.file` directive: the folders before the name are those of the machine"""

SECTIONS = re.compile(r"^\t\.section\t\.debug_(abbrev|info|loc)\s*\{.*?^\t*\}\n", re.MULTILINE | re.DOTALL)
"""the sections for a debugger, which hold those folders too"""

INTERNAL = re.compile(rb"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}(_\w+?_cu_)[0-9a-f]{8}")
"""names of what a file has for itself: the digits are made of its path"""

BYTES = re.compile(r"(?:^\.b8 \d+(?:,\d+)+\n)+", re.MULTILINE)
"""a name for a debugger, as numbers"""

TRITON = "triton_"
"""start of the names of what Triton makes"""


def sources() -> list[str]:
    """Names of all that can be made: CUDA C++ files without their extension, and kernels of Triton."""
    kernels = re.findall(r"^def (\w+)\(.*tl\.constexpr", (HERE / "triton_kernels.py").read_text("utf-8"), re.MULTILINE)
    return sorted([*(path.stem for path in HERE.glob("*.cu")), *(TRITON + name for name in kernels)])


def examples() -> list[str]:
    """Those of examples: `hopper/gemm`."""
    return sorted(f"{path.parent.name}/{path.stem}" for path in EXAMPLES.glob("*/*.cu"))


def folder_of(source: str) -> Path:
    """Where a source lies, and what is made of it."""
    return EXAMPLES if "/" in source else HERE


def variants(source: str) -> tuple[Variant, ...]:
    """What is made of a source."""
    return VARIANTS.get(source, (LINES,))


def compiled(source: str, variant: Variant) -> str:
    """The PTX of a source: files are named without folders, and the sections for a debugger are left out."""
    text = by_triton(source) if source.startswith(TRITON) else by_nvcc(source, variant)
    text = SECTIONS.sub("", FOLDER.sub(r'\1"\2"', text))
    return anywhere(BYTES.sub(lambda lines: numbers(anywhere(spelled(lines[0]))), text))


def anywhere(text: str) -> str:
    """Names without what the path of the file made of them."""
    return INTERNAL.sub(rb"\g<1>00000000\g<2>00000000", text.encode()).decode()


def spelled(lines: str) -> str:
    """`.b8 95,90,...`, in one or more lines, as text."""
    return bytes(int(number) for number in re.findall(r"\b\d+\b", lines.replace(".b8", ""))).decode("latin-1")


def numbers(text: str) -> str:
    """Text as lines of `.b8`, 40 characters each."""
    codes = [str(code) for code in text.encode("latin-1")]
    return "".join(f".b8 {','.join(codes[first : first + 40])}\n" for first in range(0, len(codes), 40))


def by_nvcc(source: str, variant: Variant) -> str:
    command = ["nvcc", "-ptx", *variant.options, *OPTIONS.get(source, ()), f"{source}.cu", "-o", "-"]
    done = subprocess.run(command, cwd=folder_of(source), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def by_triton(source: str) -> str:
    specification = importlib.util.spec_from_file_location("triton_kernels", HERE / "triton_kernels.py")
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return str(module.compiled(source.removeprefix(TRITON)))


def missing(source: str) -> str:
    """The compiler that a source needs, if it is not there."""
    if source.startswith(TRITON):
        return "" if importlib.util.find_spec("triton") else "Triton"
    return "" if shutil.which("nvcc") else "nvcc"


def main() -> int:
    parser = argparse.ArgumentParser(description="makes the PTX of this folder")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a source without its extension; default: all")
    arguments = parser.parse_args()
    known = [*sources(), *examples()]
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"no source named {', '.join(unknown)}: the sources are {', '.join(known)}")
    differ = 0
    for source in arguments.names or known:
        if missing(source):
            print(f"{source}: left out, there is no {missing(source)}")
            continue
        for variant in variants(source):
            path = folder_of(source) / f"{source}.{variant.suffix}.ptx"
            text = compiled(source, variant)
            same = path.is_file() and path.read_text(encoding="utf-8") == text
            differ += not same
            if not same and not arguments.check:
                path.write_text(text, encoding="utf-8")
            print(f"{path.name}: {'as it was' if same else 'differs' if arguments.check else 'written'}")
    return 1 if arguments.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
