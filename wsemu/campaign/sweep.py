"""Try a function that launches kernels with many sizes: report the sizes that hold, and the smallest that fails.

    @wsemu.sweep(n=..., tile=(16, 32))
    def scaled(n, tile):
        x = np.ones(n, np.float32)
        scale[-(-n // tile), tile](n, x)
        assert (x == 2).all()

For `...`, sizes are chosen from the numbers with which the kernels compare (`sizes`).  A size holds if every launch is
verified and the function returns.  It fails if a launch fails or the function's assertion does.  It is rejected if the
function raises another exception, or a launch is impossible, such as a block of 0 threads.  The sizes, and so the
report, are the same in every run: limits are counted in bytes and in warp instructions, not in seconds.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import random
import time
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal

from wsemu.campaign.sizes import Reading, edges, limit_sizes, read, smaller
from wsemu.launch.hooks import observers, starting
from wsemu.launch.result import CheckFailed, Report
from wsemu.model.data import dataclass, field
from wsemu.model.errors import UnsupportedError, UsageError, WsemuError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wsemu.model.bound import Bound

Sizes = tuple[int, ...]
"""values of the swept parameters, in their order"""
Came = Literal["holds", "fails", "incomplete", "refused"]
MOST = 4096
"""maximum chosen size, except for the largest size that memory allows"""
TRIES = 200
"""maximum number of tried sizes, without shrinking"""
OF_EACH = 48
"""maximum number of sizes of one parameter"""
MEMORY = 1 << 28
"""if the arrays of a launch have more bytes, no larger size is tried"""
WORK = 4_000_000
"""if the launches of a size execute more warp instructions, no larger size is tried"""
_SEED = 2027


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of one size."""

    sizes: Sizes
    came: Came
    why: str = ""
    """reason, in one line, if the size does not hold"""
    launches: int = 0
    report: str = ""
    """report of the first launch that failed, as JSON"""
    bytes: int = 0
    """bytes of the arrays of its largest launch"""
    work: int = 0
    """warp instructions of all launches"""
    microseconds: float = 0.0
    """predicted time of all launches; 0: not predicted"""
    resolution: float = 0.0
    """share by which predicted times must differ to be distinguished"""


@dataclass(slots=True)
class Swept:
    """The outcomes of all sizes."""

    name: str
    parameters: tuple[str, ...]
    tried: dict[Sizes, Tried] = field(default_factory=dict)
    smallest: Tried | None = None
    """smallest size that fails, shrunk"""
    limits: list[str] = field(default_factory=list)
    """reasons why no larger sizes were tried"""
    stopped: str = ""
    """reason why not all sizes were tried: interrupted, or the time limit"""
    chosen: int = 0
    """number of selected sizes, before sizes from the search for the largest size and from the shrinking; 0 if no sizes
    were tried yet"""

    def of(self, came: Came) -> list[Tried]:
        return [tried for tried in self.tried.values() if tried.came == came]

    def text(self, sizes: Sizes) -> str:
        """Return a text such as `n=33, tile=32`."""
        return ", ".join(f"{name}={n:,}" for name, n in zip(self.parameters, sizes, strict=True))

    @property
    def exit_code(self) -> int:
        """Return 1 if a size fails; 3 if one is incomplete, or none holds; 130 if stopped before all were tried; else
        0."""
        if self.of("fails"):
            return 1
        if self.of("incomplete") or (not self.of("holds") and not self.stopped):
            return 3
        return 130 if self.stopped else 0


def _raised_by_wsemu(error: Exception) -> bool:
    """Return whether an error arose in wsemu itself, independent of the size."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and str(at.tb_frame.f_globals.get("__name__", "")).startswith("wsemu.")


# -- one size --------------------------------------------------------------------------------------------------------
def attempt(
    function: Callable[..., Any], arguments: Mapping[str, int], reading: Reading | None = None, device: str = ""
) -> Tried:
    """Call the function with these sizes; `reading` collects the sizes that its launches suggest.  If a `device` is
    named, the times of the launches on it are predicted."""
    sizes = tuple(arguments.values())
    reports: list[Report] = []
    most = [0]
    times: list[tuple[float, float] | None] = []

    def start(bound: Bound) -> None:
        most[0] = max(most[0], sum(data.nbytes for data, _ in bound.segments))
        if reading is not None:
            reading.add(read(bound.program, bound.configuration))
        if device:
            times.append(_predict(bound, device))

    starting.append(start)
    observers.append(reports.append)
    came: Came = "holds"
    why = ""
    try:
        function(**arguments)
    except CheckFailed as error:
        reports.append(error.report)
    except UnsupportedError as error:
        came, why = "incomplete", str(error)
    except UsageError as error:
        came, why = "refused", _line(error)
    except AssertionError as error:
        came, why = "fails", f"the function asserts otherwise: {_line(error)}"
    except Exception as error:
        if _raised_by_wsemu(error):
            raise
        came, why = "refused", f"{type(error).__name__}: {_line(error)}"
    finally:
        starting.remove(start)
        observers.remove(reports.append)
    failed = next((report for report in reports if report.verdict == "failed"), None)
    undecided = next((report for report in reports if report.verdict == "incomplete"), None)
    if failed is not None:
        came, why = "fails", f"{failed.kernel}: {', '.join(dict.fromkeys(f.code for f in failed.errors))}"
    elif came == "holds" and undecided is not None:
        came, why = "incomplete", f"{undecided.kernel}: {', '.join(undecided.reasons)}"
    work = sum(report.counters.warp_instructions for report in reports)
    shown = failed.model_copy(update={"seconds": 0.0}).model_dump_json() if failed else ""
    known = [one for one in times if one is not None]
    total = sum(time for time, _ in known) if len(known) == len(times) else 0.0
    resolution = max((share for _, share in known), default=0.0)
    return Tried(sizes, came, why, len(reports), shown, most[0], work, total, resolution)


def _predict(bound: Bound, device: str) -> tuple[float, float] | None:
    """Return the predicted microseconds of a launch, and their resolution; None if it cannot be predicted."""
    from wsemu.timing.constants import device_named
    from wsemu.timing.resolution import RESOLUTION, UNKNOWN, classify_launch
    from wsemu.timing.time import predict_bound

    try:
        found = predict_bound(bound, device_named(device))
    except WsemuError:
        return None
    # a Python function is predicted from wsemu's code of it
    class_ = UNKNOWN if bound.source is None else classify_launch(found)
    return found.seconds * 1e6, RESOLUTION[class_]


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# -- all sizes -------------------------------------------------------------------------------------------------------
class Sweep:
    """A function with its swept parameters; calling it without arguments raises if a size fails."""

    def __init__(
        self, function: Callable[..., Any], given: Mapping[str, EllipsisType | Iterable[int]], most: int = MOST
    ) -> None:
        self.function, self.most = function, most
        self.given = {name: _check_sizes(name, sizes) for name, sizes in given.items()}
        _check_names(function, self.given)
        functools.update_wrapper(self, function)
        left = [p for name, p in inspect.signature(function).parameters.items() if name not in self.given]
        self.__signature__ = inspect.Signature(left)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        bound = functools.partial(self.function, *args, **kwargs)
        functools.update_wrapper(bound, self.function)
        swept = Sweep(bound, self.given, self.most).run()
        if swept.smallest is not None:
            raise SweepFailed(swept)
        undecided = swept.of("incomplete")
        if undecided or not swept.of("holds"):
            first = next(iter(undecided or swept.of("refused")), None)
            why = f": {swept.text(first.sizes)}: {first.why}" if first else ""
            raise UsageError(f"`{swept.name}` holds for no size" if not undecided else f"incomplete{why}")

    def run(
        self,
        tries: int = TRIES,
        time_limit: float | None = None,
        each: Callable[[Swept, int], None] = lambda swept, total: None,
        attempts: Callable[[Sequence[Sizes]], Iterator[Tried]] | None = None,
        device: str = "",
    ) -> Swept:
        """Try sizes, at most `tries` before the failure is shrunk; end early on KeyboardInterrupt and after
        `time_limit` seconds.  `each` is called after each size; `attempts` tries many sizes, in other processes.
        If a `device` is named, times on it are predicted."""
        return _Run(self, tries, time_limit, each, attempts, device).run()


def sweep(**given: EllipsisType | Iterable[int]) -> Callable[[Callable[..., Any]], Sweep]:
    """Try a function that launches kernels with many sizes of its parameters: `...` chooses sizes from the comparisons
    of its kernels; otherwise give the sizes.

    The decorated function takes the remaining parameters, if any (pytest's fixtures), tries all sizes and raises
    SweepFailed with the smallest failing one; `wsemu sweep FILE::function` reports on all of them.
    """
    if not given:
        raise UsageError("sweep() names no parameter: `@wsemu.sweep(n=...)`")
    return lambda function: Sweep(function, given)


class SweepFailed(WsemuError):
    """A size fails; `swept` has all outcomes, and the text describes the smallest failing size with its diagnostics."""

    __module__ = "wsemu"

    def __init__(self, swept: Swept) -> None:
        super().__init__(swept)
        self.swept = swept

    def __str__(self) -> str:
        from wsemu.campaign.sweep_report import plain

        return plain(self.swept)


def of(function: Any) -> Sweep:
    """Return the sweep of a function: as decorated, or over all its parameters without a default."""
    if isinstance(function, Sweep):
        return function
    if not inspect.isfunction(function):
        raise UsageError(
            "it is no function that makes launches: write one that takes the sizes and launches the kernel"
        )
    free = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    if not free:
        raise UsageError(
            f"`{function.__name__}` takes no sizes: give it parameters, such as `def {function.__name__}(n)`"
        )
    return Sweep(function, dict.fromkeys(free, ...))


class _Run:
    """One sweep in progress."""

    def __init__(
        self, what: Sweep, tries: int, time_limit: float | None, each: Any, attempts: Any, device: str
    ) -> None:
        self.what, self.each, self.tries, self.device = what, each, tries, device
        self.names = tuple(what.given)
        self.swept = Swept(what.function.__name__, self.names)
        self.reading = Reading()
        self.ends = None if time_limit is None else time.monotonic() + time_limit
        self.attempts = attempts or self._try_locally
        self.total = tries

    def run(self) -> Swept:
        try:
            self._first()
            self._list_combinations()
            self.swept.chosen = len(self.swept.tried)
            self._find_largest()
            self._shrink()
        except KeyboardInterrupt:
            self.swept.stopped = "interrupted"
            self._smallest()
        except TimeoutError:
            self.swept.stopped = "the time limit is reached"
            self._smallest()
        return self.swept

    def _try_locally(self, wanted: Sequence[Sizes]) -> Iterator[Tried]:
        for sizes in wanted:
            yield self._try_sizes(sizes)

    def _try_sizes(self, sizes: Sizes) -> Tried:
        return attempt(self.what.function, dict(zip(self.names, sizes, strict=True)), self.reading, self.device)

    def _try(self, wanted: Iterable[Sizes], *, counts: bool = True) -> None:
        """Try those of the given sizes that have not been tried yet."""
        left = [sizes for sizes in dict.fromkeys(wanted) if sizes not in self.swept.tried]
        if counts:
            left = left[: max(0, self.tries - len(self.swept.tried))]
        for tried in self.attempts(left):
            self._keep(tried)

    def _keep(self, tried: Tried) -> None:
        self.swept.tried[tried.sizes] = tried
        self.each(self.swept, self.total)
        if self.ends is not None and time.monotonic() > self.ends:
            raise TimeoutError

    # -- choice of sizes --
    def _first(self) -> None:
        """Try a few sizes in this process; their launches show which kernels to analyze."""
        lists = [sizes if sizes is not ... else (1, 32, 64) for sizes in self.what.given.values()]
        picks = [[sizes[len(sizes) // 2], sizes[0], sizes[-1]] for sizes in map(tuple, lists)]
        for wanted in itertools.islice(itertools.product(*picks), 9):
            if wanted not in self.swept.tried and len(self.swept.tried) < self.tries:
                self._keep(self._try_sizes(wanted))

    def _lists(self) -> list[list[int]]:
        chosen = limit_sizes(edges(self.reading, self.what.most), self.reading, OF_EACH)
        return [chosen if sizes is ... else list(sizes) for sizes in self.what.given.values()]

    def _list_combinations(self) -> None:
        """Return all combinations if there are few.  Otherwise, vary each parameter over all its sizes, with small and
        usual sizes of the others, and add random pairs."""
        lists = self._lists()
        count = 1
        for sizes in lists:
            count *= len(sizes)
        if count <= self.tries:
            self._try(_smallest_first(itertools.product(*lists)))
            return
        usual = [self._usual_size(n, sizes) for n, sizes in enumerate(lists)]
        wanted: dict[Sizes, None] = {}
        for base in (usual, [sizes[min(1, len(sizes) - 1)] for sizes in lists]):
            for n, sizes in enumerate(lists):
                wanted.update(((*base[:n], size, *base[n + 1 :]), None) for size in sizes)
        draw = random.Random(_SEED)
        while len(lists) > 1 and len(wanted) < self.tries:
            wanted[tuple(draw.choice(sizes) for sizes in lists)] = None
        self.total = min(self.tries, len(wanted) + len(self.swept.tried))
        self._try(_smallest_first(wanted))

    def _usual_size(self, n: int, sizes: list[int]) -> int:
        """Return a size that held and is neither small nor large, if there is one."""
        held = sorted({tried.sizes[n] for tried in self.swept.of("holds")})
        return held[len(held) // 2] if held else sizes[len(sizes) // 2]

    def _find_largest(self) -> None:
        """Double each chosen size until memory or work is exhausted, or the size is rejected."""
        held = self.swept.of("holds")
        if self.swept.of("fails") or not held:
            return
        for n, sizes in enumerate(self.what.given.values()):
            if sizes is ...:
                self._double_size(n, max(held, key=lambda tried: (tried.sizes[n], tried.work, tried.sizes)))

    def _double_size(self, n: int, tried: Tried) -> None:
        name = self.names[n]
        while True:
            if tried.bytes * 2 > MEMORY or tried.work * 2 > WORK or tried.sizes[n] > 1 << 30:
                memory = f"{tried.bytes:,} bytes of arrays"
                figure = memory if tried.bytes * 2 > MEMORY else f"{tried.work:,} warp instructions"
                self.swept.limits.append(f"{name} up to {tried.sizes[n]:,}, with {figure}; twice that is too much")
                return
            larger = self._replace_size(tried.sizes, n, max(1, tried.sizes[n] * 2))
            found = self._look(larger)
            if found.came == "refused":
                self._bisect(n, tried.sizes, larger)
                return
            if found.came != "holds":
                return
            tried = found

    def _bisect(self, n: int, good: Sizes, bad: Sizes) -> None:
        """Find the largest size of a parameter that is not rejected."""
        low, high = good[n], bad[n]
        while high - low > 1:
            middle = (low + high) // 2
            if self._look(self._replace_size(good, n, middle)).came == "refused":
                high = middle
            else:
                low = middle
        why = self.swept.tried[self._replace_size(good, n, high)].why
        self.swept.limits.append(f"{self.names[n]} up to {low:,}: {self.names[n]}={high:,} is refused: {why}")

    @staticmethod
    def _replace_size(sizes: Sizes, n: int, size: int) -> Sizes:
        return (*sizes[:n], size, *sizes[n + 1 :])

    def _look(self, sizes: Sizes) -> Tried:
        self._try([sizes], counts=False)
        return self.swept.tried[sizes]

    # -- failures ----
    def _smallest(self) -> None:
        failed = self.swept.of("fails")
        self.swept.smallest = min(failed, key=lambda tried: _weight(tried.sizes), default=None)

    def _shrink(self) -> None:
        """Reduce the sizes of the smallest failure one at a time, as long as it still fails."""
        self._smallest()
        best = self.swept.smallest
        grows = best is not None
        while grows and best is not None:
            grows = False
            for n, sizes in enumerate(self.what.given.values()):
                for size in smaller(best.sizes[n]) if sizes is ... else sorted(s for s in sizes if s < best.sizes[n]):
                    found = self._look(self._replace_size(best.sizes, n, size))
                    if found.came == "fails":
                        best, grows = found, True
                        break
        self.swept.smallest = best


def _weight(sizes: Sizes) -> tuple[int, Sizes]:
    return sum(sizes), sizes


def _smallest_first(wanted: Iterable[Sizes]) -> list[Sizes]:
    return sorted(wanted, key=_weight)


def _check_sizes(name: str, sizes: EllipsisType | Iterable[int]) -> Any:
    """Return given sizes as a tuple; `...` is unchanged."""
    if sizes is ...:
        return ...
    try:
        found = tuple(sorted(set(sizes)))
    except TypeError:
        raise UsageError(f"{name} is {sizes!r}: give sizes, or `...` for those that are chosen") from None
    if not found or not all(type(n) is int and n >= 0 for n in found):
        raise UsageError(f"{name} is {sizes!r}: give whole numbers, 0 or more")
    return found


def _check_names(function: Callable[..., Any], given: Iterable[str]) -> None:
    parameters = inspect.signature(function).parameters
    for name in given:
        if name not in parameters:
            raise UsageError(
                f"`{function.__name__}` has no parameter `{name}`: it has {', '.join(parameters) or 'none'}"
            )
