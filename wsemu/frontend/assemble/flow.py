"""Control flow of a kernel: reachable blocks, predecessors, immediate post-dominators, live ranges.

A block is identified by its index.  Sets of registers that live across blocks are Python integers used as bit sets, so
that a pass costs a few machine words per block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.compound import COMPOUND
from wsemu.frontend.assemble.graph import Block, Register
from wsemu.model.isa import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

EXIT = -1
"""the virtual block that follows every exit and trap"""

ALU = frozenset((*COMPOUND, *(name for name, operation in OPERATIONS.items() if operation.kind == "alu")))
"""operations without side effects, which may be dropped if their result is unused"""
_WRITES_LAST = ALU | {name for name, operation in OPERATIONS.items() if operation.kind == "matrix"}
"""operations whose operands no checker reads after the execution"""

Ranges = dict[Register, list[tuple[int, int]]]
"""register -> half-open ranges of positions at which its value is still needed, in order"""


def reachable(blocks: Mapping[int, Block]) -> set[int]:
    """Return the indices of the blocks that control can reach from block 0."""
    seen = {0}
    stack = [0]
    while stack:
        for successor in blocks[stack.pop()].successors:
            if successor not in seen:
                seen.add(successor)
                stack.append(successor)
    return seen


def predecessors(blocks: Mapping[int, Block]) -> dict[int, list[int]]:
    """Map each block to its predecessors in layout order; a branch with two equal targets counts twice."""
    result: dict[int, list[int]] = {index: [] for index in blocks}
    for index, block in blocks.items():
        for successor in block.successors:
            result[successor].append(index)
    return result


def immediate_post_dominators(successors: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Map each block to the first block that every path to the end must pass, or to EXIT if there is none.

    A loop that cannot end gets an imaginary exit at the end of an iteration, so that branches inside still have a
    reconvergence point: at the latest, the head of the loop.
    """
    successors = {index: tuple(following) or (EXIT,) for index, following in successors.items()}
    backwards: dict[int, list[int]] = {EXIT: [], **{index: [] for index in successors}}
    for index, following in successors.items():
        for successor in following:
            backwards[successor].append(index)
    rounds: dict[int, int] = {}
    ending = _reachable_blocks(EXIT, backwards)
    stuck = [index for index in successors if index not in ending]
    for head, loop in _endless_loops(stuck, successors, backwards):
        over = EXIT - 1 - len(rounds)
        rounds[over] = head
        latches = [index for index in backwards[head] if index in loop]
        for index in latches:
            successors[index] = tuple(over if other == head else other for other in successors[index])
        backwards[head] = [*(index for index in backwards[head] if index not in loop), over]
        successors[over], backwards[over] = (head, EXIT), latches
        backwards[EXIT].append(over)
    nearest = _immediate_dominators(EXIT, backwards, successors)
    return {
        index: rounds.get(meets, meets) for index, meets in nearest.items() if index != EXIT and index not in rounds
    }


def _endless_loops(
    stuck: Sequence[int], successors: Mapping[int, Sequence[int]], backwards: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, set[int]]]:
    """Yield the head and the blocks of each loop that control never leaves; every path from the `stuck` blocks ends in
    such a loop.

    The head is the first block through which control enters the loop.
    """
    place = {index: n for n, index in enumerate(stuck)}
    for component in strong_components(stuck, successors):
        loop = set(component)
        if all(loop.issuperset(successors[index]) for index in component):
            entered = (index for index in component if not loop.issuperset(backwards[index]))
            yield min(entered, key=place.__getitem__, default=min(loop)), loop


def strong_components(nodes: Iterable[int], edges: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components of the nodes reachable from `nodes`, in reverse topological order.

    Tarjan, "Depth-first search and linear graph algorithms" (1972), without recursion.
    """
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    components: list[list[int]] = []
    for start in nodes:
        stack: list[tuple[int, Iterator[int]]] = [] if start in number else [(start, iter(edges[start]))]
        while stack:
            node, following = stack[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                path.append(node)
                on_path.add(node)
            for other in following:
                if other not in number:
                    stack.append((other, iter(edges[other])))
                    break
                if other in on_path:
                    lowest[node] = min(lowest[node], number[other])
            else:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == number[node]:
                    component = [path.pop()]
                    while component[-1] != node:
                        component.append(path.pop())
                    on_path.difference_update(component)
                    components.append(component)
    return components


def repeated_blocks(blocks: Sequence[Block]) -> set[int]:
    """Return the indices of the blocks that are in loops."""
    edges = {block.index: block.successors for block in blocks}
    components = strong_components(edges, edges)
    return {node for nodes in components for node in nodes if len(nodes) > 1 or node in edges[node]}


def _reachable_blocks(start: int, edges: Mapping[int, Sequence[int]]) -> set[int]:
    """Return the nodes that `start` reaches, itself included."""
    found, waiting = {start}, [start]
    while waiting:
        for other in edges[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def _immediate_dominators(
    root: int, edges: Mapping[int, Sequence[int]], backwards: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    """Return the immediate dominator of each node that `root` reaches; `root` is its own.

    Semi-NCA: Georgiadis, Tarjan, Werneck, "Finding dominators in practice" (2006), section 2.3; nearly linear for
    deeply nested control flow.  Nodes are identified by their number in a depth-first search.
    """
    order, parent = _depth_first(root, edges)
    number = {node: n for n, node in enumerate(order)}
    semi = list(range(len(order)))
    label = list(range(len(order)))
    ancestor = list(parent)
    for n in range(len(order) - 1, 0, -1):
        for other in backwards[order[n]]:
            if other in number:
                semi[n] = min(semi[n], semi[_lowest(number[other], n, ancestor, label, semi)])
    dominator = list(parent)
    for n in range(1, len(order)):
        while dominator[n] > semi[n]:
            dominator[n] = dominator[dominator[n]]
    return {node: order[dominator[n]] for n, node in enumerate(order)}


def _lowest(node: int, linked: int, ancestor: list[int], label: list[int], semi: list[int]) -> int:
    """Return the node with the lowest semidominator on the path of linked nodes from `node` up; compress the path."""
    if node <= linked:
        return node
    path = [node]
    while ancestor[path[-1]] > linked:
        path.append(ancestor[path[-1]])
    top = path.pop()
    for below in reversed(path):
        if semi[label[ancestor[below]]] < semi[label[below]]:
            label[below] = label[ancestor[below]]
        ancestor[below] = ancestor[top]
    return label[node]


def _depth_first(root: int, edges: Mapping[int, Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the nodes in the order of a depth-first search, and the number of the parent of each."""
    order, parent = [root], [0]
    seen = {root}
    stack = [(0, iter(edges[root]))]
    while stack:
        above, following = stack[-1]
        for node in following:
            if node not in seen:
                seen.add(node)
                stack.append((len(order), iter(edges[node])))
                order.append(node)
                parent.append(above)
                break
        else:
            stack.pop()
    return order, parent


class Liveness:
    """The positions at which each register is live.

    `fixed` registers (constants, parameters, ...) have rows of their own and are excluded.  A block with n instructions
    starts at position `start[block]`, where its phis are defined.  Instruction k reads at start + 1 + 2k and, if it is
    an ALU or matrix operation, writes at the position after that.  Other operations write where they read, so that a
    result never shares a row with an operand: a checker may look at the address afterwards.  Phi operands are read at
    the end.
    """

    def __init__(self, blocks: Sequence[Block], fixed: set[Register], reassigned: set[Register]) -> None:
        self.blocks = blocks
        self.fixed = fixed
        self.reassigned = reassigned
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        position = 0
        for block in blocks:
            self.start[block.index] = position
            position += 2 * len(block.instructions) + 3
            self.end[block.index] = position
        self._bit: dict[Register, int] = {}
        self._registers: list[Register] = []
        self._exposed: dict[int, int] = {}
        self._defined: dict[int, int] = {}
        self.out: dict[int, int] = {}
        """block -> bit set of registers needed after it, phi operands included"""
        self._summarise()
        self._solve()

    def _number(self, registers: Iterable[Register]) -> int:
        """Return the bit set of `registers`."""
        bits = 0
        for register in registers:
            bit = self._bit.get(register)
            if bit is None:
                bit = self._bit[register] = 1 << len(self._registers)
                self._registers.append(register)
            bits |= bit
        return bits

    def _summarise(self) -> None:
        """Compute, for each block, the registers that are read before they are written there, and the registers written
        there."""
        fixed, reassigned = self.fixed, self.reassigned
        exposed: dict[int, set[Register]] = {}
        defined: dict[int, set[Register]] = {}
        across: set[Register] = set()
        for block in self.blocks:
            read: set[Register] = set()
            written = {phi.result for phi in block.phis}
            for instruction in block.instructions:
                for register in instruction.operands:
                    if register not in written:
                        read.add(register)
                guard = instruction.guard
                if guard and guard not in written:
                    read.add(guard)
                for register in instruction.results:
                    if guard and register in reassigned and register not in written:
                        read.add(register)
                    written.add(register)
            if block.predicate not in written:
                read.add(block.predicate)
            read -= fixed
            exposed[block.index], defined[block.index] = read, written
            across |= read
        for block in self.blocks:
            for phi in block.phis:
                across.update(phi.incoming.values())
        across -= fixed
        self._number(sorted(across))
        for block in self.blocks:
            self._exposed[block.index] = self._number(exposed[block.index])
            self._defined[block.index] = self._number(defined[block.index] & across)

    def _solve(self) -> None:
        """Run the backward data flow over the blocks until nothing changes."""
        passed: dict[tuple[int, int], int] = {}
        for block in self.blocks:
            for phi in block.phis:
                for source, register in phi.incoming.items():
                    edge = (source, block.index)
                    passed[edge] = passed.get(edge, 0) | self._bit.get(register, 0)
        entry = dict.fromkeys(self.start, 0)
        self.out = dict.fromkeys(self.start, 0)
        changed = True
        while changed:
            changed = False
            for block in reversed(self.blocks):
                index = block.index
                out = 0
                for successor in block.successors:
                    out |= entry[successor] | passed.get((index, successor), 0)
                if out != self.out[index] or not entry[index]:
                    self.out[index] = out
                    before = self._exposed[index] | (out & ~self._defined[index])
                    if before != entry[index]:
                        entry[index] = before
                        changed = True

    def before(self, index: int) -> list[Register]:
        """Return the registers that are live at the start of block `index`."""
        return self._members(self._exposed[index] | (self.out[index] & ~self._defined[index]))

    def before_all(self, registers: set[Register]) -> dict[int, list[Register]]:
        """Map each block to those of `registers` that are live at its start."""
        mask = self._number(register for register in registers if register in self._bit)
        return {
            index: self._members((self._exposed[index] | (self.out[index] & ~self._defined[index])) & mask)
            for index in self.start
        }

    def _members(self, bits: int) -> list[Register]:
        found = []
        while bits:
            low = bits & -bits
            found.append(self._registers[low.bit_length() - 1])
            bits ^= low
        return found

    def ranges(self) -> Ranges:
        """Return the live ranges of all registers that are not fixed."""
        result: Ranges = {}
        for block in reversed(self.blocks):
            self._block_ranges(block, result)
        for stretches in result.values():
            stretches.reverse()
        return result

    def _block_ranges(self, block: Block, result: Ranges) -> None:
        """Walk one block backwards; ranges are appended in reverse order, and adjacent ones are merged."""
        start, end = self.start[block.index], self.end[block.index]
        fixed, reassigned = self.fixed, self.reassigned
        needed: dict[Register, int] = {}  # register -> end of its range that contains this point
        bits = self.out[block.index]
        while bits:
            low = bits & -bits
            needed[self._registers[low.bit_length() - 1]] = end
            bits ^= low
        position = end - 2
        if block.predicate not in fixed:
            needed.setdefault(block.predicate, position + 1)
        for instruction in reversed(block.instructions):
            position -= 2
            guard = instruction.guard
            write = position + 1 if instruction.operation in _WRITES_LAST else position
            for register in instruction.results:
                if guard and register in reassigned:  # lanes whose guard is false keep the old value
                    needed.setdefault(register, position + 2)
                else:
                    _close(result, register, write, needed.pop(register, write + 1))
            for register in instruction.operands:
                if register not in needed and register not in fixed:
                    needed[register] = position + 1
            if guard and guard not in needed and guard not in fixed:
                needed[guard] = position + 1
        for phi in block.phis:
            _close(result, phi.result, start, needed.pop(phi.result, start + 1))
        for register, stop in needed.items():
            _close(result, register, start, stop)


def _close(result: Ranges, register: Register, start: int, stop: int) -> None:
    """Add the range [start, stop) before the ranges already there."""
    stretches = result.get(register)
    if stretches is None:
        result[register] = [(start, stop)]
    elif stretches[-1][0] <= stop:
        stretches[-1] = (start, stretches[-1][1])
    else:
        stretches.append((start, stop))
