"""The handlers of instructions for programs of XLA's, whose arrays the host sees: see `execute/xla/memory`.

An array that a program is given *is there* if its base holds an array of JAX's on the program's device. The program
is a function of Python's, written in C, as are the functions that wait and tell addresses; from the call to the last
write no code of Python's runs, but for the end of the block that it runs in. So a signal's handler, which may raise,
finds state that was taken with its new values.
"""

from __future__ import annotations

from .handlers import HANDLERS, handler
from .text import ERROR, FAIL, GO_ON, Handler

# The integers that a program's inputs are checked for.
INTEGERS = {"int8": ("i8", "sext"), "int16": ("i16", "sext"), "int32": ("i32", "sext"), "int64": ("i64", ""),
            "uint8": ("i8", "zext"), "uint16": ("i16", "zext"), "uint32": ("i32", "zext")}  # fmt: skip


@handler
def _array_of(c: Handler) -> None:
    """Load a tensor's array. Operands: word of a tensor, word."""
    array = c.field(c.held_at(0), c.at.tensor_data)
    c.there(array)
    c.put(array, c.operand(1))


@handler
def _settle_there(c: Handler) -> None:
    """Give a tensor to a callable unless a device has its array. Operands: word of a tensor, callable."""
    tensor = c.held_at(0)
    array = c.field(tensor, c.at.tensor_data)
    c.plain(array)
    ask, end = c.label("ask"), c.label("end")
    c.do(f"br i1 {c.test('eq', c.base_type(array), c.object('held'))}, label %{end}, label %{ask}")
    c.place(ask)
    answer = c.new(f"call ptr @PyObject_CallOneArg(ptr {c.operand(1)}, ptr {tensor})")
    c.there(answer, ERROR)
    c.decref(answer)
    c.do(f"br label %{end}")
    c.place(end)


@handler
def _hold_array(c: Handler) -> None:
    """Hold an array. Operands: word of the array, word, dtype, axes, sizes."""
    array = _checked(c)
    c.incref(array)
    c.put(array, c.operand(1))


def _checked(c: Handler) -> str:
    array = c.held_at(0)
    c.plain(array)
    c.like(array, c.operand(2), c.operand(3, "i64"), c.operand(4))
    return array


@handler
def _own_array(c: Handler) -> None:
    """Hold an array that is to be taken, or a copy. Operands: word of the array, word, dtype, axes, sizes, bytes."""
    c.own(_checked(c), "true", 1, 5)


@handler
def _own_array_of(c: Handler) -> None:
    """Do the same; make a copy where anything else refers to its tensor. Operands: those of `own_array`, its word."""
    c.own(_checked(c), c.test("eq", c.references(c.held_at(6)), "1", "i32"), 1, 5)


@handler
def _is_there(c: Handler) -> None:
    """Load what a device has of an array. Operands: word of the array, word, device."""
    base = c.field(c.held_at(0), c.at.array_base)
    c.there(base)
    c.of_type(base, c.object("held"))
    c.same(c.field(base, c.at.held_where), c.operand(2))
    c.put(c.field(base, c.at.held_array), c.operand(1))


@handler
def _give_there(c: Handler) -> None:
    """Load what a device has of an array, or the array. Operands: those of `is_there`, address of whether it moves."""
    array = c.held_at(0)
    c.put(array, c.operand(1))
    c.put("1", c.operand(3), type="i64")
    base = c.field(array, c.at.array_base)
    with c.attempt():
        c.need_here(c.test("ne", base, "null"))
        c.need_here(c.test("eq", c.field(base, c.at.type), c.object("held")))
        c.need_here(c.test("eq", c.field(base, c.at.held_where), c.operand(2)))
        c.put(c.field(base, c.at.held_array), c.operand(1))
        c.put("0", c.operand(3), type="i64")
        c.do(f"ret i64 {GO_ON}")


@handler
def _give_number(c: Handler) -> None:
    """Load Python's numbers as an array, or as what a device has of them where they are as in the call before.

    Operands: words of an array and for what is loaded, numbers, those of the call before, how many, list of what the
    device has of them or None, address of whether they move, callable that brings an array there.
    """
    array, last, count, kept = c.held_at(0), c.operand(3), c.operand(4, "i64"), c.field(c.operand(5), c.at.list_items)
    c.put(array, c.operand(1))
    c.put("1", c.operand(6), type="i64")
    before = c.field(kept, 0)
    same, other, there, bring, done = (c.label(stem) for stem in ("same", "other", "there", "bring", "done"))
    equal = c.new(f"call i1 @same_words(ptr {c.operand(2)}, ptr {last}, i64 {count})")
    c.do(f"br i1 {equal}, label %{same}, label %{other}")
    c.place(other)
    c.do(f"call void @copy_words(ptr {last}, ptr {c.operand(2)}, i64 {count})")
    c.incref(c.object("none"))
    c.put(c.object("none"), kept)
    c.decref(before)
    c.do(f"ret i64 {GO_ON}")
    c.place(same)
    c.do(f"br i1 {c.test('eq', before, c.object('none'))}, label %{bring}, label %{there}")
    c.place(bring)
    made = c.new(f"call ptr @PyObject_CallOneArg(ptr {c.operand(7)}, ptr {array})")
    c.there(made, ERROR)
    c.put(made, c.field(c.operand(5), c.at.list_items))
    c.decref(before)
    c.do(f"br label %{done}")
    c.place(there)
    c.do(f"br label %{done}")
    c.place(done)
    c.put(c.field(c.field(c.operand(5), c.at.list_items), 0), c.operand(1))
    c.put("0", c.operand(6), type="i64")


def _between(name: str, type: str, widen: str) -> None:
    def write(c: Handler) -> None:
        """Check integers. Operands: word of an array, how many, the lowest, the first that is too high."""
        data = c.field(c.held_at(0), c.at.array_data)
        count, low, high = (c.operand(k, "i64") for k in (1, 2, 3))
        first, loop, body, end = (c.label(stem) for stem in ("first", "loop", "body", "end"))
        c.do(f"br label %{first}")
        c.place(first)
        c.do(f"br label %{loop}")
        c.place(loop)
        c.do(f"%k = phi i64 [ 0, %{first} ], [ %k.next, %{body} ]")
        c.do(f"%all = phi i1 [ true, %{first} ], [ %all.next, %{body} ]")
        c.do(f"br i1 {c.test('slt', '%k', count, 'i64')}, label %{body}, label %{end}")
        c.place(body)
        found = c.new(f"load {type}, ptr {c.new(f'getelementptr {type}, ptr {data}, i64 %k')}")
        number = c.new(f"{widen} {type} {found} to i64") if widen else found
        inside = c.all(c.test("sge", number, low, "i64"), c.test("slt", number, high, "i64"))
        c.do(f"%all.next = and i1 %all, {inside}")
        c.do("%k.next = add i64 %k, 1")
        c.do(f"br label %{loop}")
        c.place(end)
        c.need("%all")

    HANDLERS[f"between_{name}"] = write


for name, kind in INTEGERS.items():
    _between(name, *kind)


def _call_method(c: Handler, name: str, *operands: str) -> str:
    words = c.new(f"alloca [{len(operands)} x ptr]")
    for k, x in enumerate(operands):
        c.put(x, words, 8 * k)
    return c.new(
        f"call ptr @PyObject_VectorcallMethod(ptr {c.object(name)}, ptr {words}, i64 {len(operands)}, ptr null)"
    )


def _end(c: Handler, block: str, k: int) -> None:
    """End a block; where a signal's handler comes before its end, again, and the three words have what that raised."""
    none, again, done = c.object("none"), c.label("again"), c.label("done")
    ended = c.label("ended")
    first = _call_method(c, "end", block, none, none, none)
    c.do(f"br i1 {c.test('eq', first, 'null')}, label %{again}, label %{ended}")
    c.place(again)
    _drop_words(c, k)
    _keep_error(c, k)
    second = _call_method(c, "end", block, none, none, none)
    c.there(second, ERROR)
    c.decref(second)
    c.do(f"br label %{done}")
    c.place(ended)
    c.decref(first)
    c.do(f"br label %{done}")
    c.place(done)


def _drop_words(c: Handler, k: int) -> None:
    """Give back what three words hold."""
    words = c.operand(k)
    for i in range(3):
        part = c.field(words, 8 * i)
        c.put("null", words, 8 * i)
        c.release(part)


def _keep_error(c: Handler, k: int) -> None:
    """Put the error that is on its way into three words."""
    first = c.operand(k)
    places = [first, *(c.new(f"getelementptr ptr, ptr {first}, i64 {i}") for i in (1, 2))]
    c.do(f"call void @PyErr_Fetch({', '.join(f'ptr {p}' for p in places)})")


@handler
def _call_there(c: Handler) -> None:
    """Begin a block, and call a program. Operands: block, program, words of arguments, count, word, three words.

    Where it raises, the block is ended, and the last words hold the error.
    """
    block = c.operand(0)
    begun = _call_method(c, "begin", block)
    c.there(begun, ERROR)
    c.decref(begun)
    arguments, count = c.operand(2), c.operand(3, "i64")
    found = c.new(f"call ptr @PyObject_Vectorcall(ptr {c.operand(1)}, ptr {arguments}, i64 {count}, ptr null)")
    c.put(found, c.operand(4))
    failed, done = c.label("failed"), c.label("done")
    c.do(f"br i1 {c.test('eq', found, 'null')}, label %{failed}, label %{done}")
    c.place(failed)
    _keep_error(c, 5)
    _end(c, block, 5)
    c.do(f"ret i64 {FAIL}")
    c.place(done)


@handler
def _part(c: Handler) -> None:
    """Load an item of a tuple. Operands: word of the tuple, bytes from its beginning, word."""
    at = c.new(f"getelementptr i8, ptr {c.held_at(0)}, i64 {c.operand(1, 'i64')}")
    c.put(c.field(at, 0), c.operand(2))


def _entry(c: Handler) -> str:
    """Load an entry of a list. Operands: word of the list, index."""
    items = c.field(c.held_at(0), c.at.list_items)
    return c.field(c.new(f"getelementptr ptr, ptr {items}, i64 {c.operand(1, 'i64')}"), 0)


@handler
def _renew_there(c: Handler) -> None:
    """Let an array show an entry of a list, whose memory was its. Operands: list, index, word of the array, word.

    The last word is for what it showed before.
    """
    c.replace(_entry(c), c.field(c.held_at(2), c.at.array_base), c.at.held_array, 3)


@handler
def _end_there(c: Handler) -> None:
    """Wait for a program, and end the block. Operands: list, index of what is waited for, block, three words.

    What a signal's handler raises is kept in the words until everything is written.
    """
    waited = _call_method(c, "wait_for", _entry(c))
    missing, look, end = c.label("missing"), c.label("look"), c.label("end")
    kept = c.label("kept")
    c.do(f"br i1 {c.test('eq', waited, 'null')}, label %{missing}, label %{look}")
    c.place(look)
    c.decref(waited)
    c.do(f"br i1 {c.test('eq', c.new('call i32 @PyErr_CheckSignals()'), '0', 'i32')}, label %{end}, label %{kept}")
    c.place(kept)
    _keep_error(c, 3)
    c.do(f"br label %{end}")
    c.place(missing)
    _keep_error(c, 3)
    _end(c, c.operand(2), 3)
    c.do(f"ret i64 {FAIL}")
    c.place(end)
    _end(c, c.operand(2), 3)


@handler
def _raise_kept(c: Handler) -> None:
    """Raise the error that three words hold, if there is one. Operands: words."""
    words = c.operand(0)
    parts = [c.field(words, 8 * k) for k in range(3)]
    none, some = c.label("none"), c.label("some")
    c.do(f"br i1 {c.test('eq', parts[0], 'null')}, label %{none}, label %{some}")
    c.place(some)
    for k in range(3):
        c.put("null", words, 8 * k)
    c.do(f"call void @PyErr_Restore({', '.join(f'ptr {p}' for p in parts)})")
    c.do(f"ret i64 {ERROR}")
    c.place(none)


@handler
def _drop_kept(c: Handler) -> None:
    """Forget the error that three words hold. Operands: words."""
    _drop_words(c, 0)


@handler
def _show_there(c: Handler) -> None:
    """Make an array over an entry's memory. Operands: list, index, word, dtype, axes, sizes, device."""
    entry = _entry(c)
    pointer = _call_method(c, "pointer_of", entry)
    c.there(pointer, ERROR)
    axes = c.new(f"trunc i64 {c.operand(4, 'i64')} to i32")
    made = c.array(c.operand(3), axes, c.operand(5), "null", _address(c, pointer))
    c.put(made, c.operand(2))
    holder = c.new(f"call ptr @PyType_GenericAlloc(ptr {c.object('held')}, i64 0)")
    c.there(holder, ERROR)
    device = c.operand(6)
    c.incref(entry)
    c.put(entry, holder, c.at.held_array)
    c.incref(device)
    c.put(device, holder, c.at.held_where)
    c.put(pointer, holder, c.at.held_pointer)
    c.put(holder, made, c.at.array_base)


def _address(c: Handler, number: str) -> str:
    return c.new(f"inttoptr i64 {c.new(f'call i64 @PyLong_AsUnsignedLongLong(ptr {number})')} to ptr")


@handler
def _copy_there(c: Handler) -> None:
    """Copy an entry's numbers. Operands: list, index, address, bytes."""
    pointer = _call_method(c, "pointer_of", _entry(c))
    c.there(pointer, ERROR)
    data, size = _address(c, pointer), c.operand(3, "i64")
    c.decref(pointer)
    c.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {c.operand(2)}, ptr {data}, i64 {size}, i1 false)")


@handler
def _is_right(c: Handler) -> None:
    """Check that a boolean of a device's is not set. Operand: word of an array of JAX's."""
    pointer = _call_method(c, "pointer_of", c.held_at(0))
    c.there(pointer, ERROR)
    wrong = c.field(_address(c, pointer), 0, "i8")
    c.decref(pointer)
    c.same(wrong, "0", "i8")


@handler
def _call_with(c: Handler) -> None:
    """Call a callable. Operands: callable, words of arguments, count, word for the result."""
    arguments, count = c.operand(1), c.operand(2, "i64")
    found = c.new(f"call ptr @PyObject_Vectorcall(ptr {c.operand(0)}, ptr {arguments}, i64 {count}, ptr null)")
    c.there(found, ERROR)
    c.put(found, c.operand(3))


@handler
def _hold_entry(c: Handler) -> None:
    """Hold an entry of a list instead of what a word held. Operands: word of the list, index, word."""
    entry, word = _entry(c), c.operand(2)
    c.incref(entry)
    old = c.field(word, 0)
    c.put(entry, word)
    c.release(old)


@handler
def _copy_numbers(c: Handler) -> None:
    """Copy an array's numbers. Operands: word of the array, address, bytes."""
    data, size = c.field(c.held_at(0), c.at.array_data), c.operand(2, "i64")
    c.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {c.operand(1)}, ptr {data}, i64 {size}, i1 false)")
