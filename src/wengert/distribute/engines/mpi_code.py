"""The native code of collectives: state machines that MPI's own C functions move on, as LLVM IR.

A *line* is a table of words that has what differs between implementations of MPI and between communicators: addresses
of functions, handles, the place of this rank. A *flight* is a collective on its way, a table too: what it was given,
how far it is, its requests. `begin` posts messages, `advance` looks whether some have come, adds up what is there, and
posts what follows from it; no wait is needed for a flight to go on, only calls. Every flight has tags of its own, so
that messages of several do not meet.

A handle of 32 bits goes into a register as one of 64 does, so that calls are alike for all implementations; only arrays
of requests have their width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from string import Template

# The words of a line and of a flight, in order.
LINE = (
    "isend", "irecv", "testall", "yield", "idle", "comm", "byte", "own", "ranks", "width", "spins", "yields", "tag",
    "active", "flag", "statuses", "rows",
)  # fmt: skip
FLIGHT = (
    "line", "begin", "advance", "number", "x", "out", "scratch", "count", "part", "piece", "pieces", "requests",
    "source", "target", "fixed", "tag", "state", "failed", "done", "spoke",
)  # fmt: skip
# The tags of flights, two for each; those of handshakes are the first ones.
FIRST_TAG, LAST_TAG = 1024, 32000
# The LLVM types of numbers that are added, and their bytes.
KINDS = {"float": 4, "double": 8, "i32": 4, "i64": 8}
# The results of `advance`.
ON_ITS_WAY, DONE, FAILED = 0, 1, 2


class _Function:
    """A function of IR in the making; values are its names for registers."""

    def __init__(self, head: str) -> None:
        self.lines = [f"define {head} {{", "entry:"]
        self.block = "entry"
        self.count = 0

    def text(self) -> str:
        return "\n".join([*self.lines, "}"]) + "\n"

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def do(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def value(self, expression: str) -> str:
        name = f"%{self.fresh()}"
        self.do(f"{name} = {expression}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def word(self, names: tuple[str, ...], table: str, name: str, kind: str = "i64") -> str:
        at = self.value(f"getelementptr i64, ptr {table}, i64 {names.index(name)}")
        return self.value(f"load {kind}, ptr {at}")

    def line(self, table: str, name: str, kind: str = "i64") -> str:
        return self.word(LINE, table, name, kind)

    def flight(self, table: str, name: str, kind: str = "i64") -> str:
        return self.word(FLIGHT, table, name, kind)

    def put(self, table: str, name: str, value: str, kind: str = "i64") -> None:
        at = self.value(f"getelementptr i64, ptr {table}, i64 {FLIGHT.index(name)}")
        self.do(f"store {kind} {value}, ptr {at}")

    def add(self, a: str, b: str) -> str:
        return self.value(f"add i64 {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        return self.value(f"sub i64 {a}, {b}")

    def mul(self, a: str, b: str | int) -> str:
        return self.value(f"mul i64 {a}, {b}")

    def least(self, a: str, b: str) -> str:
        return self.value(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def offset(self, base: str, nbytes: str) -> str:
        return self.value(f"getelementptr i8, ptr {base}, i64 {nbytes}")

    @contextmanager
    def loop(self, first: str, stop: str) -> Iterator[str]:
        """Write a loop over a number from `first` to before `stop`."""
        head, body, done, i = (self.fresh() for _ in range(4))
        before = self.block
        self.do(f"br label %{head}")
        self.label(head)
        at = len(self.lines)
        self.lines.append("")
        more = self.value(f"icmp slt i64 %{i}, {stop}")
        self.do(f"br i1 {more}, label %{body}, label %{done}")
        self.label(body)
        yield f"%{i}"
        following = self.add(f"%{i}", "1")
        self.do(f"br label %{head}")
        self.lines[at] = f"  %{i} = phi i64 [{first}, %{before}], [{following}, %{self.block}]"
        self.label(done)

    @contextmanager
    def when(self, condition: str, returns: str = "") -> Iterator[None]:
        """Write what is done where a condition holds; it may end in a `ret`."""
        then, after = self.fresh(), self.fresh()
        self.do(f"br i1 {condition}, label %{then}, label %{after}")
        self.label(then)
        yield
        self.do(f"ret {returns}" if returns else f"br label %{after}")
        self.label(after)

    def slot(self, rank: str, own: str) -> str:
        """Return the number of another rank among the others."""
        behind = self.value(f"icmp sgt i64 {rank}, {own}")
        return self.sub(rank, self.value(f"zext i1 {behind} to i64"))

    def length(self, total: str, at: str, most: str) -> str:
        """Return how much is left of `total` from `at` on, `most` at most, and not below nothing."""
        left = self.least(self.sub(total, at), most)
        return self.value(f"call i64 @llvm.smax.i64(i64 {left}, i64 0)")


_DECLARED = """
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.cttz.i64(i64, i1 immarg)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)
"""


def _message(name: str, function: str) -> str:
    """Return IR of `send` or `receive`: bytes to or from a rank, as the request of a number of a flight."""
    f = _Function(f"internal void @{name}(ptr %f, i64 %index, ptr %x, i64 %nbytes, i64 %rank, i64 %tag)")
    line = f.flight("%f", "line", "ptr")
    call, comm, byte = f.line(line, function, "ptr"), f.line(line, "comm"), f.line(line, "byte")
    request = f.offset(f.flight("%f", "requests", "ptr"), f.mul("%index", f.line(line, "width")))
    count, rank, tag = (f.value(f"trunc i64 {x} to i32") for x in ("%nbytes", "%rank", "%tag"))
    rc = f.value(f"call i32 {call}(ptr %x, i32 {count}, i64 {byte}, i32 {rank}, i32 {tag}, i64 {comm}, ptr {request})")
    failed = f.value(f"or i64 {f.flight('%f', 'failed')}, {f.value(f'zext i32 {rc} to i64')}")
    f.put("%f", "failed", failed)
    f.do("ret void")
    return f.text()


def _came() -> str:
    """Return IR of `came`: whether so many requests of a flight have come to their end, as `advance` tells it."""
    f = _Function("internal i64 @came(ptr %f, i64 %first, i64 %count)")
    line = f.flight("%f", "line", "ptr")
    call, flag, statuses = (f.line(line, name, "ptr") for name in ("testall", "flag", "statuses"))
    requests = f.offset(f.flight("%f", "requests", "ptr"), f.mul("%first", f.line(line, "width")))
    count = f.value("trunc i64 %count to i32")
    rc = f.value(f"call i32 {call}(i32 {count}, ptr {requests}, ptr {flag}, ptr {statuses})")
    bad = f.value(f"or i64 {f.flight('%f', 'failed')}, {f.value(f'zext i32 {rc} to i64')}")
    with f.when(f.value(f"icmp ne i64 {bad}, 0"), f"i64 {FAILED}"):
        f.put("%f", "failed", "1")
    told = f.value(f"load i32, ptr {flag}")
    is_set = f.value(f"icmp ne i32 {told}, 0")
    f.do(f"ret i64 {f.value(f'zext i1 {is_set} to i64')}")
    return f.text()


def _running() -> str:
    """Return IR of what moves flights on and waits for them, and of the steps of programs that do."""
    f = _Function("internal i64 @look(ptr %line)")  # all that have started; 1 where one has failed
    active = f.line("%line", "active", "ptr")
    count = f.value(f"load i64, ptr {active}")
    kept = f.value("alloca i64")
    f.do(f"store i64 0, ptr {kept}")
    with f.loop("0", count) as i:
        at = f.value(f"getelementptr i64, ptr {active}, i64 {f.add(i, '1')}")
        flight = f.value(f"load ptr, ptr {at}")
        advance = f.flight(flight, "advance", "ptr")
        told = f.value(f"call i64 {advance}(ptr {flight})")
        done = f.value(f"icmp eq i64 {told}, {DONE}")
        f.put(flight, "done", f.value(f"zext i1 {done} to i64"))
        place = f.add(f.value(f"load i64, ptr {kept}"), "1")
        f.do(f"store ptr {flight}, ptr {f.value(f'getelementptr i64, ptr {active}, i64 {place}')}")
        following = f.value(f"select i1 {done}, i64 {f.sub(place, '1')}, i64 {place}")
        f.do(f"store i64 {following}, ptr {kept}")
    f.do(f"store i64 {f.value(f'load i64, ptr {kept}')}, ptr {active}")
    f.do("ret i64 0")
    texts = [f.text()]

    f = _Function("void @wengert_mpi_begin(ptr %f)")
    line = f.flight("%f", "line", "ptr")
    tag_at = f.value(f"getelementptr i64, ptr {line}, i64 {LINE.index('tag')}")
    tag, fixed = f.value(f"load i64, ptr {tag_at}"), f.flight("%f", "fixed")
    free = f.value(f"icmp eq i64 {fixed}, 0")
    f.put("%f", "tag", f.value(f"select i1 {free}, i64 {tag}, i64 {fixed}"))
    following = f.add(tag, "2")
    last = f.value(f"icmp sgt i64 {following}, {LAST_TAG}")
    following = f.value(f"select i1 {last}, i64 {FIRST_TAG}, i64 {following}")
    f.do(f"store i64 {f.value(f'select i1 {free}, i64 {following}, i64 {tag}')}, ptr {tag_at}")
    for name in ("state", "failed", "done", "spoke"):
        f.put("%f", name, "0")
    f.do(f"call void {f.flight('%f', 'begin', 'ptr')}(ptr %f)")
    active = f.line(line, "active", "ptr")
    count = f.add(f.value(f"load i64, ptr {active}"), "1")
    f.do(f"store i64 {count}, ptr {active}")
    f.do(f"store ptr %f, ptr {f.value(f'getelementptr i64, ptr {active}, i64 {count}')}")
    f.do("ret void")
    texts.append(f.text())
    texts.append(_FINISH)

    f = _Function("internal ptr @argument(ptr %table, ptr %record, i64 %index)")  # the array of two words of a record
    entry = f.value(f"load i64, ptr {f.value('getelementptr i64, ptr %record, i64 %index')}")
    more = f.add("%index", "1")
    offset = f.value(f"load i64, ptr {f.value(f'getelementptr i64, ptr %record, i64 {more}')}")
    base = f.value(f"load ptr, ptr {f.value(f'getelementptr ptr, ptr %table, i64 {entry}')}")
    f.do(f"ret ptr {f.offset(base, offset)}")
    texts.append(f.text())

    step = "(ptr %table, ptr %record, i64 %lo, i64 %hi, i64 %thread)"
    f = _Function(f"void @wengert_mpi_start{step}")
    flight = f.value("load ptr, ptr %record")
    for word, name in ((1, "x"), (3, "out"), (5, "scratch")):
        f.put(flight, name, f.value(f"call ptr @argument(ptr %table, ptr %record, i64 {word})"), "ptr")
    f.do(f"call void @wengert_mpi_begin(ptr {flight})")
    f.do("ret void")
    texts.append(f.text())

    f = _Function(f"void @wengert_mpi_look{step}")
    flight = f.value("load ptr, ptr %record")
    f.value(f"call i64 @look(ptr {f.flight(flight, 'line', 'ptr')})")
    f.do("ret void")
    texts.append(f.text())

    f = _Function(f"void @wengert_mpi_wait{step}")
    flight = f.value("load ptr, ptr %record")
    told = f.value(f"call i64 @wengert_mpi_finish(ptr {flight})")
    f.do(f"store i64 {told}, ptr {f.value('call ptr @argument(ptr %table, ptr %record, i64 1)')}")
    f.do("ret void")
    texts.append(f.text())

    f = _Function(f"void @wengert_mpi_nothing{step}")  # the start, and the look, of what nobody moves
    f.do("ret void")
    texts.append(f.text())
    # Its wait: the operand is what came, so many times a number of bytes. The record's first word is where these stand.
    f = _Function(f"void @wengert_mpi_alone{step}")
    given = f.value("load ptr, ptr %record")
    times = f.value(f"load i64, ptr {given}")
    nbytes = f.value(f"load i64, ptr {f.value(f'getelementptr i64, ptr {given}, i64 1')}")
    state, x, out = (f.value(f"call ptr @argument(ptr %table, ptr %record, i64 {word})") for word in (1, 3, 5))
    with f.loop("0", times) as i:
        at = f.offset(out, f.mul(i, nbytes))
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {at}, ptr {x}, i64 {nbytes}, i1 false)")
    f.do(f"store i64 0, ptr {state}")
    f.do("ret void")
    texts.append(f.text())
    return "".join(texts)


# A wait moves all flights on. It polls, yields the processor, and then asks `idle`, a function of Python's, again and
# again: that one sleeps, listens to the other ranks, and says by a number that is not 0 when to give up.
_FINISH = """
define i64 @wengert_mpi_finish(ptr %f) {
entry:
  %line = load ptr, ptr %f
  %done.at = getelementptr i64, ptr %f, i64 $done
  %failed.at = getelementptr i64, ptr %f, i64 $failed
  %spoke.at = getelementptr i64, ptr %f, i64 $spoke
  %number.at = getelementptr i64, ptr %f, i64 $number
  %number = load i64, ptr %number.at
  %yield.at = getelementptr i64, ptr %line, i64 $yield
  %yield = load ptr, ptr %yield.at
  %idle.at = getelementptr i64, ptr %line, i64 $idle
  %idle = load ptr, ptr %idle.at
  %spins.at = getelementptr i64, ptr %line, i64 $spins
  %spare = load i64, ptr %spins.at
  %yields.at = getelementptr i64, ptr %line, i64 $yields
  %yields = load i64, ptr %yields.at
  %late = add i64 %spare, %yields
  %was = load i64, ptr %done.at
  %ended.before = icmp ne i64 %was, 0
  br i1 %ended.before, label %ended, label %poll
poll:
  %spins = phi i64 [0, %entry], [%more, %pause], [%more, %yielded], [%more, %asked]
  call i64 @look(ptr %line)
  %is = load i64, ptr %done.at
  %done = icmp ne i64 %is, 0
  br i1 %done, label %told, label %look
look:
  %failed = load i64, ptr %failed.at
  %bad = icmp ne i64 %failed, 0
  br i1 %bad, label %stopped, label %pause
pause:
  %more = add i64 %spins, 1
  %soon = icmp ult i64 %more, %spare
  br i1 %soon, label %poll, label %longer
longer:
  %still = icmp ult i64 %more, %late
  br i1 %still, label %yielded, label %asked
yielded:
  call i32 %yield()
  br label %poll
asked:
  store i64 1, ptr %spoke.at
  %stop = call i32 %idle(i64 %number, i32 0)
  %stops = icmp ne i32 %stop, 0
  br i1 %stops, label %stopped, label %poll
told:
  %spoke = load i64, ptr %spoke.at
  %has = icmp ne i64 %spoke, 0
  br i1 %has, label %tell, label %ended
tell:
  call i32 %idle(i64 %number, i32 1)
  br label %ended
ended:
  ret i64 0
stopped:
  ret i64 1
}
"""


def _rows(f: _Function, others: str, stride: str, own_row: str, ranks: str, own: str, line: str) -> str:
    """Write the table of addresses of all ranks' rows: its own, and those of the others, `stride` bytes apart."""
    rows = f.line(line, "rows", "ptr")
    with f.loop("0", ranks) as p:
        row = f.offset(others, f.mul(f.slot(p, own), stride))
        is_own = f.value(f"icmp eq i64 {p}, {own}")
        row = f.value(f"select i1 {is_own}, ptr {own_row}, ptr {row}")
        f.do(f"store ptr {row}, ptr {f.value(f'getelementptr ptr, ptr {rows}, i64 {p}')}")
    return rows


def _moves() -> str:
    """Return IR of collectives that add nothing up: `share`, `swap`, `spread`, `hand_on`; `count` counts bytes."""
    texts = []
    for name in ("share", "swap"):
        f = _Function(f"void @wengert_mpi_begin_{name}(ptr %f)")
        line = f.flight("%f", "line", "ptr")
        own, ranks, tag = f.line(line, "own"), f.line(line, "ranks"), f.flight("%f", "tag")
        x, out, nbytes = f.flight("%f", "x", "ptr"), f.flight("%f", "out", "ptr"), f.flight("%f", "count")
        others = f.sub(ranks, "1")
        with f.loop("0", ranks) as p, f.when(f.value(f"icmp ne i64 {p}, {own}")):
            slot, row = f.slot(p, own), f.mul(p, nbytes)
            f.do(f"call void @receive(ptr %f, i64 {slot}, ptr {f.offset(out, row)}, i64 {nbytes}, i64 {p}, i64 {tag})")
            sent = x if name == "share" else f.offset(x, row)
            f.do(f"call void @send(ptr %f, i64 {f.add(slot, others)}, ptr {sent}, i64 {nbytes}, i64 {p}, i64 {tag})")
        place = f.mul(own, nbytes)
        kept = x if name == "share" else f.offset(x, place)
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {f.offset(out, place)}, ptr {kept}, i64 {nbytes}, i1 false)")
        f.do("ret void")
        texts.append(f.text())
        f = _Function(f"i64 @wengert_mpi_advance_{name}(ptr %f)")
        others = f.sub(f.line(f.flight("%f", "line", "ptr"), "ranks"), "1")
        f.do(f"ret i64 {f.value(f'call i64 @came(ptr %f, i64 0, i64 {f.mul(others, 2)})')}")
        texts.append(f.text())
    f = _Function("void @wengert_mpi_begin_spread(ptr %f)")
    line = f.flight("%f", "line", "ptr")
    own, ranks, root, tag = f.line(line, "own"), f.line(line, "ranks"), f.flight("%f", "source"), f.flight("%f", "tag")
    x, out, nbytes = f.flight("%f", "x", "ptr"), f.flight("%f", "out", "ptr"), f.flight("%f", "count")
    with f.when(f.value(f"icmp ne i64 {root}, {own}")):
        f.do(f"call void @receive(ptr %f, i64 0, ptr {out}, i64 {nbytes}, i64 {root}, i64 {tag})")
        f.put("%f", "state", "1")
    with f.when(f.value(f"icmp eq i64 {root}, {own}")):
        with f.loop("0", ranks) as p, f.when(f.value(f"icmp ne i64 {p}, {own}")):
            f.do(f"call void @send(ptr %f, i64 {f.slot(p, own)}, ptr {x}, i64 {nbytes}, i64 {p}, i64 {tag})")
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {out}, ptr {x}, i64 {nbytes}, i1 false)")
        f.put("%f", "state", f.sub(ranks, "1"))
    f.do("ret void")
    texts.append(f.text())
    f = _Function("void @wengert_mpi_begin_hand_on(ptr %f)")
    source, target, nbytes, tag = (f.flight("%f", name) for name in ("source", "target", "count", "tag"))
    own = f.line(f.flight("%f", "line", "ptr"), "own")
    x, out = f.flight("%f", "x", "ptr"), f.flight("%f", "out", "ptr")
    is_own = f.value(f"icmp eq i64 {source}, {own}")
    with f.when(is_own, "void"):
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {out}, ptr {x}, i64 {nbytes}, i1 false)")
    with f.when(f.value(f"icmp slt i64 {source}, 0")):
        f.do(f"call void @llvm.memset.p0.i64(ptr {out}, i8 0, i64 {nbytes}, i1 false)")
    with f.when(f.value(f"icmp sge i64 {source}, 0")):
        f.do(f"call void @receive(ptr %f, i64 0, ptr {out}, i64 {nbytes}, i64 {source}, i64 {tag})")
        f.put("%f", "state", "1")
    with f.when(f.value(f"icmp sge i64 {target}, 0")):
        count = f.flight("%f", "state")
        f.do(f"call void @send(ptr %f, i64 {count}, ptr {x}, i64 {nbytes}, i64 {target}, i64 {tag})")
        f.put("%f", "state", f.add(count, "1"))
    f.do("ret void")
    texts.append(f.text())
    for name in ("spread", "hand_on"):
        f = _Function(f"i64 @wengert_mpi_advance_{name}(ptr %f)")
        posted = f.flight("%f", "state")
        f.do(f"ret i64 {f.value(f'call i64 @came(ptr %f, i64 0, i64 {posted})')}")
        texts.append(f.text())
    return "".join(texts)


def _add(kind: str) -> str:
    """Return IR of `add_KIND`: the sum of rows, whose addresses are a table, as `summed` of the collectives defines it.

    Up to three rows are added one after another. Of more the sums of pairs, of fours and so on wait in a table, one of
    each length, as the digits of a binary counter do: a row that comes carries as far as there are some.
    """
    size = KINDS[kind]
    add = "add" if kind[0] == "i" else "fadd"

    def start(name: str, t: str, first: str, last: str, after: str) -> str:
        return f"""{name}:
  %{name}.i = phi i64 [{first}], [%{name}.next, %{name}.stored]
  %{name}.go = icmp ult i64 %{name}.i, {last}
  br i1 %{name}.go, label %{name}.begin, label %{after}
"""

    def load(name: str, t: str, value: str, row: str) -> str:
        return f"""  %{value}.at = getelementptr ptr, ptr %rows, i64 {row}
  %{value}.row = load ptr, ptr %{value}.at
  %{value}.p = getelementptr {kind}, ptr %{value}.row, i64 %{name}.i
  %{value} = load {t}, ptr %{value}.p, align {size}
"""

    def store(name: str, t: str, step: int, value: str) -> str:
        return f"""{name}.stored:
  %{name}.to = getelementptr {kind}, ptr %out, i64 %{name}.i
  store {t} {value}, ptr %{name}.to, align {size}
  %{name}.next = add i64 %{name}.i, {step}
  br label %{name}
"""

    def few(name: str, t: str, step: int, first: str, last: str, after: str) -> str:
        return f"""{start(name, t, first, last, after)}{name}.begin:
{load(name, t, f"{name}.x0", "0")}  br label %{name}.row
{name}.row:
  %{name}.r = phi i64 [1, %{name}.begin], [%{name}.r1, %{name}.row]
  %{name}.s = phi {t} [%{name}.x0, %{name}.begin], [%{name}.s1, %{name}.row]
{load(name, t, f"{name}.x", f"%{name}.r")}  %{name}.s1 = {add} {t} %{name}.s, %{name}.x
  %{name}.r1 = add i64 %{name}.r, 1
  %{name}.more = icmp ult i64 %{name}.r1, %ranks
  br i1 %{name}.more, label %{name}.row, label %{name}.stored
{store(name, t, step, f"%{name}.s1")}"""

    def many(name: str, t: str, step: int, first: str, last: str, after: str) -> str:
        def waiting(value: str, level: str) -> str:
            return f"""  %{value}.at = getelementptr {t}, ptr %{name}.sums, i64 {level}
  %{value} = load {t}, ptr %{value}.at, align {size}
"""

        n = name
        return f"""{start(n, t, first, last, after)}{n}.begin:
  br label %{n}.row
{n}.row:
  %{n}.r = phi i64 [0, %{n}.begin], [%{n}.r1, %{n}.kept]
{load(n, t, f"{n}.x", f"%{n}.r")}  br label %{n}.carry
{n}.carry:
  %{n}.level = phi i64 [0, %{n}.row], [%{n}.level1, %{n}.carried]
  %{n}.sum = phi {t} [%{n}.x, %{n}.row], [%{n}.sum1, %{n}.carried]
  %{n}.bits = lshr i64 %{n}.r, %{n}.level
  %{n}.bit = trunc i64 %{n}.bits to i1
  br i1 %{n}.bit, label %{n}.carried, label %{n}.kept
{n}.carried:
{waiting(f"{n}.other", f"%{n}.level")}  %{n}.sum1 = {add} {t} %{n}.other, %{n}.sum
  %{n}.level1 = add i64 %{n}.level, 1
  br label %{n}.carry
{n}.kept:
  %{n}.slot = getelementptr {t}, ptr %{n}.sums, i64 %{n}.level
  store {t} %{n}.sum, ptr %{n}.slot, align {size}
  %{n}.r1 = add i64 %{n}.r, 1
  %{n}.more = icmp ult i64 %{n}.r1, %ranks
  br i1 %{n}.more, label %{n}.row, label %{n}.rest
{n}.rest:
  %{n}.least = call i64 @llvm.cttz.i64(i64 %ranks, i1 true)
{waiting(f"{n}.last", f"%{n}.least")}  %{n}.above = add i64 %{n}.least, 1
  br label %{n}.fold
{n}.fold:
  %{n}.l = phi i64 [%{n}.above, %{n}.rest], [%{n}.l1, %{n}.folded]
  %{n}.total = phi {t} [%{n}.last, %{n}.rest], [%{n}.total2, %{n}.folded]
  %{n}.left = lshr i64 %ranks, %{n}.l
  %{n}.none = icmp eq i64 %{n}.left, 0
  br i1 %{n}.none, label %{n}.stored, label %{n}.look
{n}.look:
  %{n}.has = trunc i64 %{n}.left to i1
  br i1 %{n}.has, label %{n}.joined, label %{n}.folded
{n}.joined:
{waiting(f"{n}.longer", f"%{n}.l")}  %{n}.total1 = {add} {t} %{n}.longer, %{n}.total
  br label %{n}.folded
{n}.folded:
  %{n}.total2 = phi {t} [%{n}.total, %{n}.look], [%{n}.total1, %{n}.joined]
  %{n}.l1 = add i64 %{n}.l, 1
  br label %{n}.fold
{store(n, t, step, f"%{n}.total")}"""

    # Vectors as registers have them for few rows; for many, which go through memory, eight times as long.
    narrow, wide = 32 // size, 256 // size
    short, long = f"<{narrow} x {kind}>", f"<{wide} x {kind}>"
    levels = 32
    return f"""
define internal void @add_{kind}(ptr %rows, i64 %ranks, ptr %out, i64 %count) {{
entry:
  %long.sums = alloca [{levels} x {long}]
  %single.sums = alloca [{levels} x {kind}]
  %are.few = icmp ult i64 %ranks, 4
  %in.short = and i64 %count, {-narrow}
  %in.long = and i64 %count, {-wide}
  br i1 %are.few, label %short, label %long
{few("short", short, narrow, "0, %entry", "%in.short", "one")}{
        few("one", kind, 1, "%in.short, %short", "%count", "end")
    }{many("long", long, wide, "0, %entry", "%in.long", "single")}{
        many("single", kind, 1, "%in.long, %long", "%count", "end")
    }end:
  ret void
}}
"""


def _sums(kind: str) -> str:
    """Return IR of the sums of one kind of numbers, which `count`, `part` and `piece` count.

    `whole` sends all to all. `reduce` lets each rank add up a part and send it to the others; `scatter` leaves parts
    where they were added up. All move pieces, so that one is added up while others are on their way.
    """
    size = KINDS[kind]
    texts = []

    f = _Function(f"void @wengert_mpi_begin_whole_{kind}(ptr %f)")
    line = f.flight("%f", "line", "ptr")
    own, ranks, tag = f.line(line, "own"), f.line(line, "ranks"), f.flight("%f", "tag")
    x, scratch = f.flight("%f", "x", "ptr"), f.flight("%f", "scratch", "ptr")
    count, piece, pieces = (f.flight("%f", name) for name in ("count", "piece", "pieces"))
    others = f.sub(ranks, "1")
    room = f.mul(others, pieces)
    with f.loop("0", pieces) as k, f.loop("0", ranks) as p, f.when(f.value(f"icmp ne i64 {p}, {own}")):
        slot, at = f.slot(p, own), f.mul(k, piece)
        nbytes = f.mul(f.length(count, at, piece), size)
        number = f.add(f.mul(k, others), slot)
        into = f.offset(scratch, f.mul(f.add(f.mul(slot, count), at), size))
        f.do(f"call void @receive(ptr %f, i64 {number}, ptr {into}, i64 {nbytes}, i64 {p}, i64 {tag})")
        sent = f.offset(x, f.mul(at, size))
        f.do(f"call void @send(ptr %f, i64 {f.add(number, room)}, ptr {sent}, i64 {nbytes}, i64 {p}, i64 {tag})")
    f.do("ret void")
    texts.append(f.text())

    f = _Function(f"i64 @wengert_mpi_advance_whole_{kind}(ptr %f)")
    line = f.flight("%f", "line", "ptr")
    own, ranks = f.line(line, "own"), f.line(line, "ranks")
    x, out, scratch = (f.flight("%f", name, "ptr") for name in ("x", "out", "scratch"))
    count, piece, pieces = (f.flight("%f", name) for name in ("count", "piece", "pieces"))
    others = f.sub(ranks, "1")
    room = f.mul(others, pieces)
    with f.loop(f.flight("%f", "state"), pieces) as k:
        told = f.value(f"call i64 @came(ptr %f, i64 {f.mul(k, others)}, i64 {others})")
        with f.when(f.value(f"icmp ne i64 {told}, {DONE}"), f"i64 {told}"):
            pass
        at = f.mul(k, piece)
        place, n = f.mul(at, size), f.length(count, at, piece)
        rows = _rows(f, f.offset(scratch, place), f.mul(count, size), f.offset(x, place), ranks, own, line)
        f.do(f"call void @add_{kind}(ptr {rows}, i64 {ranks}, ptr {f.offset(out, place)}, i64 {n})")
        f.put("%f", "state", f.add(k, "1"))
    f.do(f"ret i64 {f.value(f'call i64 @came(ptr %f, i64 {room}, i64 {room})')}")
    texts.append(f.text())

    for name in ("reduce", "scatter"):
        returns = name == "reduce"
        f = _Function(f"void @wengert_mpi_begin_{name}_{kind}(ptr %f)")
        line = f.flight("%f", "line", "ptr")
        own, ranks, tag = f.line(line, "own"), f.line(line, "ranks"), f.flight("%f", "tag")
        x, out, scratch = (f.flight("%f", name, "ptr") for name in ("x", "out", "scratch"))
        count, part, piece, pieces = (f.flight("%f", name) for name in ("count", "part", "piece", "pieces"))
        others, again = f.sub(ranks, "1"), f.add(tag, "1")
        room = f.mul(others, pieces)
        with f.loop("0", pieces) as k, f.loop("0", ranks) as p, f.when(f.value(f"icmp ne i64 {p}, {own}")):
            slot, at = f.slot(p, own), f.mul(k, piece)
            number = f.add(f.mul(k, others), slot)
            here, there = (
                f.mul(f.length(f.least(f.sub(count, f.mul(r, part)), part), at, piece), size) for r in (own, p)
            )
            into = f.offset(scratch, f.mul(f.add(f.mul(slot, part), at), size))
            f.do(f"call void @receive(ptr %f, i64 {number}, ptr {into}, i64 {here}, i64 {p}, i64 {tag})")
            place = f.mul(f.add(f.mul(p, part), at), size)
            number = f.add(number, room)
            f.do(f"call void @send(ptr %f, i64 {number}, ptr {f.offset(x, place)}, i64 {there}, i64 {p}, i64 {tag})")
            if returns:
                number = f.add(number, room)
                into = f.offset(out, place)
                f.do(f"call void @receive(ptr %f, i64 {number}, ptr {into}, i64 {there}, i64 {p}, i64 {again})")
        f.do("ret void")
        texts.append(f.text())

        f = _Function(f"i64 @wengert_mpi_advance_{name}_{kind}(ptr %f)")
        line = f.flight("%f", "line", "ptr")
        own, ranks, again = f.line(line, "own"), f.line(line, "ranks"), f.add(f.flight("%f", "tag"), "1")
        x, out, scratch = (f.flight("%f", name, "ptr") for name in ("x", "out", "scratch"))
        count, part, piece, pieces = (f.flight("%f", name) for name in ("count", "part", "piece", "pieces"))
        others = f.sub(ranks, "1")
        room, begin, stride = f.mul(others, pieces), f.mul(own, part), f.mul(part, size)
        length = f.least(f.sub(count, begin), part)
        with f.loop(f.flight("%f", "state"), pieces) as k:
            told = f.value(f"call i64 @came(ptr %f, i64 {f.mul(k, others)}, i64 {others})")
            with f.when(f.value(f"icmp ne i64 {told}, {DONE}"), f"i64 {told}"):
                pass
            at = f.mul(k, piece)
            n, place = f.length(length, at, piece), f.mul(f.add(begin, at), size)
            rows = _rows(f, f.offset(scratch, f.mul(at, size)), stride, f.offset(x, place), ranks, own, line)
            result = f.offset(out, place if returns else f.mul(at, size))
            f.do(f"call void @add_{kind}(ptr {rows}, i64 {ranks}, ptr {result}, i64 {n})")
            if returns:
                first = f.add(f.mul(room, 3), f.mul(k, others))
                with f.loop("0", ranks) as p, f.when(f.value(f"icmp ne i64 {p}, {own}")):
                    number = f.add(first, f.slot(p, own))
                    nbytes = f.mul(n, size)
                    f.do(f"call void @send(ptr %f, i64 {number}, ptr {result}, i64 {nbytes}, i64 {p}, i64 {again})")
            f.put("%f", "state", f.add(k, "1"))
        f.do(f"ret i64 {f.value(f'call i64 @came(ptr %f, i64 {room}, i64 {f.mul(room, 3 if returns else 1)})')}")
        texts.append(f.text())
    return "".join(texts)


def text(triple: str) -> str:
    """Return the module."""
    numbers = {name: i for words in (FLIGHT, LINE) for i, name in enumerate(words)}
    parts = [_message("send", "isend"), _message("receive", "irecv"), _came(), Template(_running()).substitute(numbers)]
    return "".join([f'target triple = "{triple}"\n', _DECLARED, *parts, _moves(), *(_add(k) + _sums(k) for k in KINDS)])


def names() -> list[str]:
    """Return the module's functions, without what all of them begin with."""
    kinds = ["share", "swap", "spread", "hand_on", *(f"{n}_{k}" for n in ("whole", "reduce", "scatter") for k in KINDS)]
    common = ["begin", "finish", "start", "look", "wait", "nothing", "alone"]
    return [*common, *(f"{w}_{k}" for k in kinds for w in ("begin", "advance"))]
