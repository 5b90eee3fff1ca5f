"""Compare what a prediction costs with what a check costs: `python benchmarks/time_cost.py [PREFIX ...]`.

Each launch of `time/launches.json.gz` whose name begins with a PREFIX (default: `LAUNCHES`) has a process of its own.
The process predicts the launch twice, checks it twice, and prints the four processor times and the ratio of the second
ones. The first times contain imports and tables that later launches share; reading the PTX is left out of all of them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from time_device import Predictor, arguments_of, collection, identify

if TYPE_CHECKING:
    from collections.abc import Callable

LAUNCHES = (
    "named 1 192 0: named_5_1_16", "bulk4096 1", "cpasync 1", "large 1", "lanes 1", "multicast", "exchange 2",
    "saxpy 69206016 4: cudadma", "sgemv 2048: both_bulk", "stencil 1024 1024 24: halo_only_manual",
    "dgemm 1536: algorithm_3_ring", "gemm 1536", "flash 8", "fft", "hgemm 1024", "any_sum 24: any_sum of 512",
)  # fmt: skip
LIMIT = 240
"""maximum number of seconds of one process"""


def main(words: list[str]) -> None:
    """Run the processes of the chosen launches, or be one of them."""
    made = collection()
    if words[:1] == ["one"]:
        print(measure(made, words[1]), flush=True)
        return
    names = [identify(one) for one in made["launches"]]
    print(f"{'launch':56} {'predict':>8} {'again':>8} {'check':>8} {'again':>8} {'ratio':>6}")
    for prefix in words or LAUNCHES:
        name = next((name for name in names if name.startswith(prefix)), None)
        if name is None:
            print(f"{prefix}: no such launch")
            continue
        try:
            subprocess.run([sys.executable, __file__, "one", name], check=False, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            print(f"{name:56} the check takes more than {LIMIT} s", flush=True)


def measure(made: dict[str, Any], name: str) -> str:
    """Return the line of a launch."""
    import wsemu

    one = next(one for one in made["launches"] if identify(one) == name)
    predictor = Predictor(made["modules"])
    kernel, arguments = predictor.kernel(one["module"], one["entry"]), arguments_of(one)
    grid, dynamic = tuple(one["grid"]), one["dynamic"]
    predictions = [seconds(lambda: predictor.predict(one, 0)) for _ in range(2)]
    checks = [
        seconds(lambda: wsemu.check(kernel, grid, one["block"], kernel.fit(arguments), dynamic_shared=dynamic))
        for _ in range(2)
    ]
    times = " ".join(f"{each:8.2f}" for each in (*predictions, *checks))
    return f"{name:56} {times} {predictions[1] / checks[1]:6.2f}"


def seconds(act: Callable[[], object]) -> float:
    """Return the processor time of an action."""
    started = time.process_time()
    act()
    return time.process_time() - started


if __name__ == "__main__":
    main(sys.argv[1:])
