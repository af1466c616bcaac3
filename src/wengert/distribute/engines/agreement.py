"""The agreement of ranks: before every run of a program all know that they run the same one, on the same values.

Each rank makes a digest of what it is about to run: the program, and the values that ranks were given whole. The
digests meet in one small message. Only where one differs do ranks look for what it is, together: the first node of the
programs, or the first value.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.elsewhere import Elsewhere, as_data
from ...core.errors import GraphError, fail, user_location
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.spec import show
from ...ops.collective.definitions import all_gather
from ...ops.collective.group import entered
from ..mesh import Mesh, OnMesh
from ..pipeline.program import Pipelined
from ..placing.partition import Partitioned
from ..placing.placement import spec_of_placement

_DIGEST = 32
# Every so many runs a program's state is compared too, where it is what the last run left.
EVERY = 100
# Values of at most so many bytes are compared whole in every run: rates, counts, scales.
SMALL = 64
# As many words of a large value are part of its checksum by themselves, so that its order counts.
_SAMPLES = 64


class Agreement:
    """A rank's side of the comparison: it tells what it is about to run, and hears whether others do too.

    A digest has the program, every value that is new since the last run (a batch, a rate, a parameter that was set from
    outside) and, in every hundredth run, all state. What the last run left is the same on all ranks if its inputs were.
    """

    def __init__(self, group: OnMesh, program: Partitioned | Pipelined) -> None:
        self.group, self.program = group, program
        placed = repr((list(program.mesh.axes.items()), program.inputs, program.outputs, _acts(program)))
        self.identity = hashlib.sha256(f"{program.graph.structural_hash} {placed}".encode()).digest()
        self.runs = 0
        self.known: dict[int, weakref.ref[Any]] = {}

    def left(self, values: Sequence[Any]) -> None:
        """Note the whole values that a run has given: fed to the next one, they are no news."""
        self.known = {id(v): weakref.ref(v) for v in values if isinstance(v, np.ndarray) and v.nbytes > SMALL}

    def seek(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """Meet the other ranks before a run. Raises GraphError where one is about to run something else."""
        known = self.known if self.runs % EVERY else {}
        seen = [self.identity]
        for x in arrays:
            ref = known.get(id(x))
            if ref is not None and ref() is x:
                seen.append(b"left")
            elif isinstance(x := as_data(x), Elsewhere):  # every rank has its own parts
                seen.append(b"parts")
            else:
                seen.append(_checksum(x))
        digest = hashlib.blake2b(b"".join(seen), digest_size=16).digest()
        self.runs += 1
        name = self.program.graph.name or "a program"
        what = f"{name} on {self.program.mesh}"
        others = self.group.transport.compare(digest, lambda: f"{what} at {user_location()}")
        if others:
            agree(self.group, self.program, self.identity)
            agree_on_values(self.group, names, arrays, name)


def _checksum(x: Any) -> bytes:
    """Return a few bytes that differ where arrays of one shape do: a sum of all words, and some of them in order."""
    if x.nbytes <= SMALL:
        return bytes(x.tobytes())
    flat = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    words = flat[: flat.size // 8 * 8].view(np.uint64)
    total = np.add.reduce(words, dtype=np.uint64)
    step = max(1, words.size // _SAMPLES)
    return b"".join((total.tobytes(), words[::step].tobytes(), flat[words.size * 8 :].tobytes()))


def _line(group: OnMesh) -> tuple[OnMesh, dict[str, Any]]:
    """Return all ranks of a job in one line, and the attributes of a gathering over it."""
    size = group.transport.size
    return OnMesh(Mesh(ranks=size), group.transport), {"over": "ranks", "ranks": size, "replicated": True}


def _acts(program: Partitioned | Pipelined) -> str:
    return f"{program.options}: {program.identity}" if isinstance(program, Pipelined) else ""


def agree(group: OnMesh, program: Partitioned | Pipelined, identity: bytes) -> None:
    """Raise GraphError unless all ranks are about to run this program: the first node that differs, and its line."""
    line, attrs = _line(group)
    with entered(line):
        own = np.frombuffer(identity, np.uint8)
        all_own = all_gather.forward(own, axis=-1, **attrs).reshape(-1, len(identity))
        if (all_own == all_own[0]).all():
            return
        text = "\n".join(_lines(program)).encode()
        longest = int(all_gather.forward(np.array([len(text)]), axis=-1, **attrs).max())
        padded = np.frombuffer(text.ljust(longest), np.uint8)
        texts = [
            bytes(row).decode().rstrip() for row in all_gather.forward(padded, axis=-1, **attrs).reshape(-1, longest)
        ]
    other = next(i for i, row in enumerate(all_own) if (row != all_own[0]).any())
    a, b = texts[0].split("\n"), texts[other].split("\n")
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if _node(x) != _node(y)), min(len(a), len(b)))
    first, second = (rows[at] if at < len(rows) else "its end" for rows in (a, b))
    fail(
        GraphError,
        f"ranks 0 and {other} are to run different programs: rank 0 has {_shown(first)}, rank {other} has "
        f"{_shown(second)}",
        "All ranks run the same program on parts of one shape: what differs between them is no part of its code.",
    )


def agree_on_values(group: OnMesh, names: Sequence[str], arrays: Sequence[Any], program: str) -> None:
    """Raise GraphError unless all ranks have the same whole values, bit for bit: the first one that differs.

    Each rank has its own copy of what is shared; ranks whose copies differ would train different models.
    """
    whole = [(name, np.asarray(a)) for name, a in zip(names, arrays, strict=True) if not isinstance(a, Elsewhere)]
    names, arrays = [name for name, _ in whole], [a for _, a in whole]
    rows = [hashlib.sha256(np.ascontiguousarray(a).tobytes()).digest() for a in arrays]
    own = np.frombuffer(b"".join(rows), np.uint8).reshape(1, len(rows), _DIGEST)
    line, attrs = _line(group)
    with entered(line):
        found = all_gather.forward(own, axis=-3, **attrs)
    for i, name in enumerate(names):
        for rank, row in enumerate(found):
            if (row[i] != found[0, i]).any():
                value = arrays[i]
                what = f"{name}, {show(value.shape, value.dtype)}"
                if value.size == 1:
                    with entered(line):
                        theirs = all_gather.forward(value.reshape(1), axis=-1, **attrs)
                    told = f"{what}, is {theirs[rank]} on rank {rank} and {theirs[0]} on rank 0"
                else:
                    told = f"{what}, is another one on rank {rank} than on rank 0"
                fail(
                    GraphError,
                    f"{told}, in {program}",
                    "Every rank has the same state, and is given the whole batch: seed the generators alike "
                    "(wg.manual_seed), set rates and parameters on all ranks, or give each rank its part, as "
                    "wg.distribute.place makes them.",
                )


def _lines(program: Partitioned | Pipelined) -> list[str]:
    """Return a line for every node: what it is, and where the user wrote it; then where inputs and outputs are."""
    graph: Graph = program.graph
    found = []
    for node in graph.nodes:
        inputs = " ".join(graph.names[e] if isinstance(e, Node) else repr(e) for e in node.inputs)
        attrs = ", ".join(f"{k}={_short(v)}" for k, v in sorted(node.attrs.items()))
        place = node.source
        where = f"{place.file}:{place.line}" if place is not None else ""
        text = f"{graph.names[node]}: {node.spec} = {node.op.name}[{attrs}] {inputs}".replace("\n", " ")
        found.append(f"{text}\t{where}")
    found.append(f"its outputs {' '.join(graph.names[n] for n in graph.outputs)}")
    for what, placements in (("inputs", program.inputs), ("outputs", program.outputs)):
        named = (repr(spec_of_placement(p, program.mesh)) for p in placements)
        found.append(f"its {what} on {program.mesh} as {', '.join(named)}")
    if isinstance(program, Pipelined):
        found.append(f"the stages of {_acts(program)}")
    return found


def _short(value: Any) -> str:
    """Return an attribute in a few words that differ where values do."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size <= 4:
        return repr(value.tolist())
    return f"array {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:12]}"


def _node(line: str) -> str:
    return line.partition("\t")[0]


def _shown(line: str) -> str:
    node, _, where = line.partition("\t")
    return f"{node} ({where})" if where else node
