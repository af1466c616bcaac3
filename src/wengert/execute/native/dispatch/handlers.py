"""The handlers of the compiled entry (see `code`): one native function for each kind of instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ....core.state.turns import BY_NATIVE, BY_PYTHON
from ..run.driver import CALL_AWAY, CALL_FIRST
from .text import ERROR, FAIL, GO_ON, RETURN, Handler

Handlers = dict[str, Callable[[Handler], None]]
HANDLERS: Handlers = {}
# The microseconds that a call waits between two looks at whether a trace is over.
WAIT_US = 50


def handler(f: Callable[[Handler], None]) -> Callable[[Handler], None]:
    """Declare what an instruction does, by the name of the function that writes it."""
    HANDLERS[f.__name__.removeprefix("_")] = f
    return f


@handler
def _jump(c: Handler) -> None:
    """Fail always, to go on elsewhere."""
    c.do(f"ret i64 {FAIL}")
    c.place("never")


@handler
def _mode(c: Handler) -> None:
    """Check that the mode does not trace, and is as it was.

    Operands: context variable, grad, floats, autocast, engine.
    """
    p = c.new("alloca ptr")
    failed = c.new(f"call i32 @PyContextVar_Get(ptr {c.operand(0)}, ptr null, ptr {p})")
    c.need(c.test("eq", failed, "0", "i32"), ERROR)
    mode = c.field(p, 0)
    places = c.at.mode_grad, c.at.mode_tracing, c.at.mode_floats, c.at.mode_autocast, c.at.mode_engine
    grad, tracing, floats, autocast, engine = (c.field(mode, at) for at in places)
    c.decref(mode)  # the context keeps it
    c.same(grad, c.operand(1))
    c.same(floats, c.operand(2))
    c.same(autocast, c.operand(3))
    c.same(engine, c.operand(4))
    c.same(tracing, c.object("false"))


@handler
def _word(c: Handler) -> None:
    """Check a word of an object. Operands: object, bytes, value."""
    at = c.new(f"getelementptr i8, ptr {c.operand(0)}, i64 {c.operand(1, 'i64')}")
    c.same(c.field(at, 0), c.operand(2))


@handler
def _words(c: Handler) -> None:
    """Check words of objects. Operands: pairs (of each the address, and what has to stand there), count."""
    c.need(c.new(f"call i1 @words_are(ptr {c.operand(0)}, i64 {c.operand(1, 'i64')})"))


@handler
def _item(c: Handler) -> None:
    """Check an item of a dict, by identity. Operands: dict, key, value."""
    c.same(c.new(f"call ptr @PyDict_GetItemWithError(ptr {c.operand(0)}, ptr {c.operand(1)})"), c.operand(2))


@handler
def _element(c: Handler) -> None:
    """Check an entry of a list, by identity. Operands: list, index, value."""
    entries, index = c.operand(0), c.operand(1, "i64")
    c.need(c.test("sgt", c.field(entries, c.at.size, "i64"), index, "i64"))
    found = c.new(f"getelementptr ptr, ptr {c.field(entries, c.at.list_items)}, i64 {index}")
    c.same(c.field(found, 0), c.operand(2))


@handler
def _changed(c: Handler) -> None:
    """Fail where the dict has not changed since its version was recorded. Operands: dict, address of the version."""
    noted = c.field(c.operand(1), 0, "i64")
    c.need(c.test("ne", c.field(c.operand(0), c.at.dict_version, "i64"), noted, "i64"))


@handler
def _note(c: Handler) -> None:
    """Record the dict's version. Operands: dict, address."""
    c.put(c.field(c.operand(0), c.at.dict_version, "i64"), c.operand(1), 0, "i64")


@handler
def _asks(c: Handler) -> None:
    """Check that a callable returns True. Operand: callable."""
    answer = c.new(f"call ptr @PyObject_CallNoArgs(ptr {c.operand(0)})")
    c.there(answer, ERROR)
    c.decref(answer)  # True and False are always there
    c.same(answer, c.object("true"))


# Arguments: the words that hold them are operands, by address.


@handler
def _is(c: Handler) -> None:
    """Check that a word holds an object. Operands: word, object."""
    c.same(c.held_at(0), c.operand(1))


@handler
def _same(c: Handler) -> None:
    """Check that two words hold one object. Operands: word, word."""
    c.same(c.held_at(0), c.held_at(1))


@handler
def _equals(c: Handler) -> None:
    """Check that a value is of an object's type, and equal to it. Operands: word, object."""
    value = c.held_at(0)
    c.of_type(value, c.field(c.operand(1), c.at.type))
    equal = c.new(f"call i32 @PyObject_RichCompareBool(ptr {value}, ptr {c.operand(1)}, i32 2)")
    c.need(c.test("sge", equal, "0", "i32"), ERROR)
    c.same(equal, "1", "i32")


@handler
def _is_bits(c: Handler) -> None:
    """Check that a float or complex number has these bits. Operands: word, type, words, count."""
    value = c.held_at(0)
    c.of_type(value, c.operand(1))
    bits = c.new(f"getelementptr i8, ptr {value}, i64 {c.at.float_value}")
    c.need(c.new(f"call i1 @same_words(ptr {bits}, ptr {c.operand(2)}, i64 {c.operand(3, 'i64')})"))


@handler
def _is_not(c: Handler) -> None:
    """Check that a word does not hold an object. Operands: word, object."""
    c.need(c.test("ne", c.held_at(0), c.operand(1)))


@handler
def _is_method(c: Handler) -> None:
    """Check a method, which is made anew whenever it is asked for. Operands: word, object, function."""
    value = c.held_at(0)
    c.of_type(value, c.object("method"))
    c.same(c.field(value, c.at.method_self), c.operand(1))
    c.same(c.field(value, c.at.method_function), c.operand(2))


@handler
def _has_spec(c: Handler) -> None:
    """Check a tensor's type and spec. Operands: word, type, spec."""
    value = c.held_at(0)
    c.of_type(value, c.operand(1))
    c.same(c.field(value, c.at.tensor_spec), c.operand(2))


@handler
def _is_row_major(c: Handler) -> None:
    """Check that a tensor's elements lie in C order. Operand: word of a tensor."""
    c.plain(_array_of(c, c.held_at(0)))


@handler
def _has_type(c: Handler) -> None:
    """Check a value's type. Operands: word, type."""
    c.of_type(c.held_at(0), c.operand(1))


@handler
def _is_leaf(c: Handler) -> None:
    """Check for a leaf that requires gradients. Operands: word, type of nodes, op of leaves, type of hooks."""
    c.same(c.field(_node(c), c.at.node_op), c.operand(2))


@handler
def _is_computed(c: Handler) -> None:
    """Check for a tracked tensor that is no leaf. Operands: word, type of nodes, op of leaves, type of hooks."""
    c.need(c.test("ne", c.field(_node(c), c.at.node_op), c.operand(2)))


def _node(c: Handler) -> str:
    """Load the node of a tensor that requires gradients, and has no hooks."""
    node = c.field(c.held_at(0), c.at.tensor_node)
    c.there(node)
    c.of_type(node, c.operand(1))
    saved = c.field(node, c.at.node_saved)
    c.there(saved)
    c.need(c.test("ne", c.field(saved, c.at.type), c.operand(3)))
    return node


@handler
def _is_tensor(c: Handler) -> None:
    """Check for a tensor that requires no gradients. Operands: word, type, spec."""
    value = c.held_at(0)
    c.of_type(value, c.operand(1))
    c.same(c.field(value, c.at.tensor_spec), c.operand(2))
    c.same(c.field(value, c.at.tensor_node), c.object("none"))


@handler
def _is_number(c: Handler) -> None:
    """Check for an untracked weak tensor; its array is checked where it is fed. Operands: word, type."""
    value = c.held_at(0)
    c.of_type(value, c.operand(1))
    c.same(c.field(value, c.at.tensor_node), c.object("none"))


@handler
def _is_array(c: Handler) -> None:
    """Check for a NumPy array. Operands: word, dtype, axes, sizes."""
    value = c.held_at(0)
    c.plain(value)
    c.like(value, c.operand(1), c.operand(2, "i64"), c.operand(3))


@handler
def _float(c: Handler) -> None:
    """Copy a Python float. Operands: word, number."""
    value = c.held_at(0)
    c.of_type(value, c.object("float"))
    c.put(c.field(value, c.at.float_value, "i64"), c.operand(1), 0, "i64")


@handler
def _complex(c: Handler) -> None:
    """Copy a Python complex number. Operands: word, two words."""
    value = c.held_at(0)
    c.of_type(value, c.object("complex"))
    for at in (0, 8):
        c.put(c.field(value, c.at.float_value + at, "i64"), c.operand(1), at, "i64")


@handler
def _int(c: Handler) -> None:
    """Copy a Python int of 64 bits. Operands: word, number."""
    value = c.held_at(0)
    c.of_type(value, c.object("int"))
    c.need(c.new(f"call i1 @int_of(ptr {value}, ptr {c.operand(1)})"))


@handler
def _uint(c: Handler) -> None:
    """Copy a Python int of 64 bits that is not negative. Operands: word, number."""
    value = c.held_at(0)
    c.of_type(value, c.object("int"))
    c.need(c.new(f"call i1 @unsigned_of(ptr {value}, ptr {c.operand(1)})"))


def _unpack(c: Handler, type: str, items: Callable[[str, str], str]) -> None:
    value, count = c.held_at(0), c.operand(1, "i64")
    c.of_type(value, c.object(type))
    c.same(c.field(value, c.at.size, "i64"), count, "i64")
    c.do(f"call void @copy_words(ptr {c.operand(2)}, ptr {items(value, count)}, i64 {count})")


@handler
def _tuple(c: Handler) -> None:
    """Load a tuple's items. Operands: word, count, words."""
    _unpack(c, "tuple", lambda v, _: c.new(f"getelementptr i8, ptr {v}, i64 {c.at.tuple_items}"))


@handler
def _list(c: Handler) -> None:
    """Load a list's entries. Operands: word, count, words."""
    _unpack(c, "list", lambda v, _: c.field(v, c.at.list_items))


@handler
def _dict(c: Handler) -> None:
    """Check for a dict with so many items. Operands: word, count."""
    value = c.held_at(0)
    c.of_type(value, c.object("dict"))
    c.same(c.field(value, c.at.size, "i64"), c.operand(1, "i64"), "i64")


@handler
def _value(c: Handler) -> None:
    """Load an item of a dict. Operands: word, key, word."""
    found = c.new(f"call ptr @PyDict_GetItemWithError(ptr {c.held_at(0)}, ptr {c.operand(1)})")
    c.there(found)
    c.put(found, c.operand(2))


# Feeding: the entry of the table, then the word that holds the array, follow what it is of.


@handler
def _gradient(c: Handler) -> None:
    """Load a leaf's gradient, a tensor that requires none itself. Operands: word of a leaf, type, spec, word."""
    found = c.field(c.held_at(0), c.at.tensor_grad)
    c.there(found)
    c.of_type(found, c.operand(1))
    c.same(c.field(found, c.at.tensor_spec), c.operand(2))
    c.same(c.field(found, c.at.tensor_node), c.object("none"))
    c.put(found, c.operand(3))


@handler
def _has_gradient(c: Handler) -> None:
    """Check that a leaf has a gradient. Operand: word of a leaf."""
    c.given(c.field(c.held_at(0), c.at.tensor_grad))


def _array_of(c: Handler, tensor: str) -> str:
    own, window = c.field(tensor, c.at.tensor_data), c.field(tensor, c.at.tensor_window)
    return c.new(f"select i1 {c.test('eq', own, 'null')}, ptr {window}, ptr {own}")


@handler
def _alone(c: Handler) -> None:
    """Check that a tensor's memory is its own, and nobody refers to its array. Operand: word of a tensor."""
    array = c.field(c.held_at(0), c.at.tensor_data)
    c.plain(array)
    c.need(c.free(array))


@handler
def _gradient_alone(c: Handler) -> None:
    """Check a leaf's gradient for the same. Operands: word of a leaf, type of the gradient."""
    found = c.field(c.held_at(0), c.at.tensor_grad)
    c.there(found)
    c.of_type(found, c.operand(1))
    array = c.field(found, c.at.tensor_data)
    c.plain(array)
    c.need(c.free(array))


@handler
def _feed_tensor(c: Handler) -> None:
    """Feed a tensor's array, which a storage may have. Operands: word of a tensor, entry, word, dtype, axes, sizes."""
    array = _array_of(c, c.held_at(0))
    c.plain(array)
    c.like(array, c.operand(3), c.operand(4, "i64"), c.operand(5))
    c.feed(array, 1, 2)


@handler
def _feed_array(c: Handler) -> None:
    """Feed an array that was checked. Operands: word of the array, entry, word."""
    c.feed(c.held_at(0), 1, 2)


@handler
def _feed_item(c: Handler) -> None:
    """Feed an array in a dict. Operands: dict, key, entry, word, dtype, axes, sizes."""
    array = c.new(f"call ptr @PyDict_GetItemWithError(ptr {c.operand(0)}, ptr {c.operand(1)})")
    c.plain(array)
    c.like(array, c.operand(4), c.operand(5, "i64"), c.operand(6))
    c.feed(array, 2, 3)


@handler
def _feed_call(c: Handler) -> None:
    """Feed an array that Python gives. Operands: callable, entry, word, dtype, axes, sizes."""
    array = c.new(f"call ptr @PyObject_CallNoArgs(ptr {c.operand(0)})")
    c.there(array, ERROR)
    c.put(array, c.operand(2))
    c.plain(array)
    c.like(array, c.operand(3), c.operand(4, "i64"), c.operand(5))
    c.put(c.field(array, c.at.array_data), c.operand(1))


@handler
def _take_tensor(c: Handler) -> None:
    """Take a tensor's array, to be written into. Operands: word of a tensor, entry, word, dtype, axes, sizes, bytes."""
    array = c.field(c.held_at(0), c.at.tensor_data)
    c.plain(array)
    c.like(array, c.operand(3), c.operand(4, "i64"), c.operand(5))
    c.take(array, "true", 1, 2, 6)


@handler
def _take_gradient(c: Handler) -> None:
    """Take a gradient's array, if only the leaf refers to it. Operands: its word, then those of `_take_tensor`."""
    tensor = c.held_at(0)
    array = c.field(tensor, c.at.tensor_data)
    c.plain(array)
    c.like(array, c.operand(3), c.operand(4, "i64"), c.operand(5))
    c.take(array, c.test("eq", c.references(tensor), "1", "i32"), 1, 2, 6)


@handler
def _take_item(c: Handler) -> None:
    """Take an array in a dict, to be written into. Operands: dict, key, entry, word, dtype, axes, sizes, bytes."""
    array = c.new(f"call ptr @PyDict_GetItemWithError(ptr {c.operand(0)}, ptr {c.operand(1)})")
    c.plain(array)
    c.like(array, c.operand(4), c.operand(5, "i64"), c.operand(6))
    c.take(array, "true", 2, 3, 7)


@handler
def _take_array(c: Handler) -> None:
    """Take a copy of a caller's array, which was checked. Operands: word of the array, entry, word, bytes."""
    c.take(c.held_at(0), "false", 1, 2, 3)


@handler
def _all_equal(c: Handler) -> None:
    """Check that all numbers equal the first. Operands: numbers, count."""
    first = c.new(f"getelementptr i64, ptr {c.operand(0)}, i64 1")
    rest = c.new(f"sub i64 {c.operand(1, 'i64')}, 1")
    c.need(c.new(f"call i1 @same_words(ptr {first}, ptr {c.operand(0)}, i64 {rest})"))


# Results


@handler
def _reuse(c: Handler) -> None:
    """Take a gradient's array for the new one, if nothing else refers to it. Operands: word, entry, word, dtype, axes,
    sizes.
    """
    tensor = c.held_at(0)
    c.same(c.references(tensor), "1", "i32")
    array = c.field(tensor, c.at.tensor_data)
    c.plain(array)
    c.like(array, c.operand(3), c.operand(4, "i64"), c.operand(5))
    c.need(c.free(array))
    c.feed(array, 1, 2)


@handler
def _fresh(c: Handler) -> None:
    """Make an array. Operands: dtype, axes, sizes, strides, entry, word."""
    _hold_new(c, _new_array(c))


@handler
def _pooled(c: Handler) -> None:
    """Make an array, or take one of an earlier call's that nothing refers to. Operands: those of `_fresh`, list.

    The list keeps the arrays of the last two calls that made one: a caller may hold one result while it asks for the
    next.
    """
    for array in _tried(c):
        _need_free_like(c, array)
        c.feed(array, 4, 5)
    made = _new_array(c)
    _remember(c, made, 6)
    _hold_new(c, made)


@handler
def _pooled_tensor(c: Handler) -> None:
    """Make the array of a tensor to be. Operands: dtype, axes, sizes, strides, entry, word, list, type, spec, word.

    It is the array of a tensor of an earlier call's that nothing refers to (which the last word holds then), or new.
    """
    for tensor in _tried(c):
        c.need_here(c.test("eq", c.field(tensor, c.at.type), c.operand(7)))
        c.need_here(c.unused(tensor, c.operand(8)))
        array = c.field(tensor, c.at.tensor_data)
        _need_free_like(c, array)
        c.feed(array, 4, 5)
        c.incref(tensor)
        c.put(tensor, c.operand(9))
    _hold_new(c, _new_array(c))


def _tried(c: Handler) -> Iterator[str]:
    """Yield the objects of the list, to try each: the first with which nothing is missing is enough."""
    pool = c.field(c.operand(6), c.at.list_items)
    for place in (0, 8):
        found = c.field(pool, place)
        with c.attempt():
            c.need_here(c.test("ne", found, c.object("none")))
            yield found
            c.do(f"ret i64 {GO_ON}")


def _need_free_like(c: Handler, array: str) -> None:
    """Go on in an attempt only with an array that nobody refers to, of the dtype and sizes of the new one."""
    c.need_here(c.test("eq", c.field(array, c.at.type), c.object("ndarray")))
    c.need_here(c.free(array))
    c.need_here(c.test("eq", c.field(array, c.at.array_descr), c.operand(0)))
    axes = c.operand(1, "i64")
    c.need_here(c.test("eq", c.axes(array), axes, "i64"))
    c.need_here(c.same_sizes(array, axes, c.operand(2)))


def _remember(c: Handler, made: str, k: int) -> None:
    """Put a new object into the list of an operand, instead of the older one."""
    pool = c.field(c.operand(k), c.at.list_items)
    c.incref(made)
    oldest = c.field(pool, 8)
    c.put(c.field(pool, 0), pool, 8)
    c.put(made, pool)
    c.decref(oldest)


def _new_array(c: Handler) -> str:
    axes = c.new(f"trunc i64 {c.operand(1, 'i64')} to i32")
    return c.array(c.operand(0), axes, c.operand(2), c.operand(3))


def _hold_new(c: Handler, made: str) -> None:
    c.put(made, c.operand(5))
    c.put(c.field(made, c.at.array_data), c.operand(4))


@handler
def _run(c: Handler) -> None:
    """Run the program's steps, with the interpreter's lock. Operands: driver, call, count, callable."""
    _drive(c, lambda: c.new(f"call i64 {c.operand(0)}(ptr {c.operand(1)})"))


@handler
def _run_free(c: Handler) -> None:
    """Run the program's steps without the interpreter's lock. Operands: driver, call, count, callable."""

    def drive() -> str:
        c.put("1", c.operand(1), 8 * CALL_AWAY, "i64")
        state = c.new("call ptr @PyEval_SaveThread()")
        at = c.new(f"call i64 {c.operand(0)}(ptr {c.operand(1)})")
        c.do(f"call void @PyEval_RestoreThread(ptr {state})")
        c.put("0", c.operand(1), 8 * CALL_AWAY, "i64")
        return at

    _drive(c, drive)


def _drive(c: Handler, drive: Callable[[], str]) -> None:
    """Run steps; where the driver stops at one of Python's, call the callable, and go on unless it returns False.

    The last steps run in native code, as does what follows here: no signal's handler comes between what they write
    into arrays and what is written after them.
    """
    again, stopped, done = c.label("again"), c.label("stopped"), c.label("done")
    # The call begins with its first step, wherever a signal may have ended the last one.
    c.put("0", c.operand(1), 8 * CALL_FIRST, "i64")
    c.do(f"br label %{again}")
    c.place(again)
    at = drive()
    c.do(f"br i1 {c.test('eq', at, c.operand(2, 'i64'), 'i64')}, label %{done}, label %{stopped}")
    c.place(stopped)
    step = c.new(f"call ptr @PyLong_FromLongLong(i64 {at})")
    c.there(step, ERROR)
    answer = c.new(f"call ptr @PyObject_CallOneArg(ptr {c.operand(3)}, ptr {step})")
    c.decref(step)
    c.there(answer, ERROR)
    c.decref(answer)
    c.need(c.test("ne", answer, c.object("false")))
    c.do(f"br label %{again}")
    c.place(done)


@handler
def _call(c: Handler) -> None:
    """Call a callable. Operand: callable."""
    answer = c.new(f"call ptr @PyObject_CallNoArgs(ptr {c.operand(0)})")
    c.there(answer, ERROR)
    c.decref(answer)


# Turns: see `core.state.turns`. The header says how many the call holds, and where the addresses of their words are.


@handler
def _enter(c: Handler) -> None:
    """Hold a turn, if nobody does. Operands: words of a turn, word of how many are held, word of their addresses."""
    words = c.operand(0)
    for word in (BY_PYTHON, BY_NATIVE):
        c.same(c.field(words, 8 * word, "i64"), "0", "i64")
    c.put(c.new("call i64 @PyThread_get_thread_ident()"), words, 8 * BY_NATIVE, "i64")
    entered, turns = c.operand(1), c.held_at(2)
    count = c.field(entered, 0, "i64")
    c.put(words, c.new(f"getelementptr ptr, ptr {turns}, i64 {count}"))
    c.put(c.new(f"add i64 {count}, 1"), entered, type="i64")


@handler
def _leave(c: Handler) -> None:
    """Give back all turns that are held. Operand: header."""
    c.do(f"call void @leave(ptr {c.operand(0)})")


@handler
def _settle(c: Handler) -> None:
    """Wait until the number is even: no thread traces, and would undo what is written. Operand: list of a number."""
    again, wait, done = c.label("again"), c.label("wait"), c.label("done")
    c.do(f"br label %{again}")
    c.place(again)
    number = c.field(c.field(c.operand(0), c.at.list_items), 0)
    odd = c.new(f"and i64 {c.new(f'call i64 @PyLong_AsLongLong(ptr {number})')}, 1")
    c.do(f"br i1 {c.test('eq', odd, '0', 'i64')}, label %{done}, label %{wait}")
    c.place(wait)
    state = c.new("call ptr @PyEval_SaveThread()")
    # Nobody gives that lock back: this waits for a while.
    c.do(f"call i32 @PyThread_acquire_lock_timed(ptr {c.object('never')}, i64 {WAIT_US}, i32 0)")
    c.do(f"call void @PyEval_RestoreThread(ptr {state})")
    c.do(f"br label %{again}")
    c.place(done)


@handler
def _decided(c: Handler) -> None:
    """Check a decision. Operands: address, bits."""
    c.same(c.field(c.operand(0), 0, "i64"), c.operand(1, "i64"), "i64")


@handler
def _decided_byte(c: Handler) -> None:
    """Check a decision by a boolean in an array. Operands: address of the array's address, bits."""
    found = c.new(f"zext i8 {c.field(c.field(c.operand(0), 0), 0, 'i8')} to i64")
    c.same(found, c.operand(1, "i64"), "i64")


@handler
def _write_tensor(c: Handler) -> None:
    """Write a tensor's value. Operands: tensor, word of an array, word for the old one."""
    c.replace(c.held_at(1), c.operand(0), c.at.tensor_data, 2)


@handler
def _write_item(c: Handler) -> None:
    """Write an item of a dict. Operands: dict, key, word of an array, word for the old one."""
    old = c.new(f"call ptr @PyDict_GetItemWithError(ptr {c.operand(0)}, ptr {c.operand(1)})")
    c.there(old)
    c.incref(old)
    c.put(old, c.operand(3))
    failed = c.new(f"call i32 @PyDict_SetItem(ptr {c.operand(0)}, ptr {c.operand(1)}, ptr {c.held_at(2)})")
    c.need(c.test("eq", failed, "0", "i32"), ERROR)


@handler
def _write_copied(c: Handler) -> None:
    """Write an item that was taken, which is only needed for a copy. Operands: dict, key, word of an array, word."""
    array = c.held_at(2)
    there, copied = c.label("there"), c.label("copied")
    c.do(f"br i1 {c.test('eq', c.references(array), '1', 'i32')}, label %{copied}, label %{there}")
    c.place(there)
    c.do(f"ret i64 {GO_ON}")
    c.place(copied)
    failed = c.new(f"call i32 @PyDict_SetItem(ptr {c.operand(0)}, ptr {c.operand(1)}, ptr {array})")
    c.need(c.test("eq", failed, "0", "i32"), ERROR)


@handler
def _write_int(c: Handler) -> None:
    """Write a Python int. Operands: dict, key, number."""
    _write_number(c, c.new(f"call ptr @PyLong_FromLongLong(i64 {c.field(c.operand(2), 0, 'i64')})"))


@handler
def _write_float(c: Handler) -> None:
    """Write a Python float. Operands: dict, key, number."""
    _write_number(c, c.new(f"call ptr @PyFloat_FromDouble(double {c.field(c.operand(2), 0, 'double')})"))


def _write_number(c: Handler, made: str) -> None:
    c.there(made, ERROR)
    failed = c.new(f"call i32 @PyDict_SetItem(ptr {c.operand(0)}, ptr {c.operand(1)}, ptr {made})")
    c.decref(made)
    c.need(c.test("eq", failed, "0", "i32"), ERROR)


@handler
def _write_uint(c: Handler) -> None:
    """Write a Python int that is not negative. Operands: dict, key, number."""
    _write_number(c, c.new(f"call ptr @PyLong_FromUnsignedLongLong(i64 {c.field(c.operand(2), 0, 'i64')})"))


@handler
def _write_gradient(c: Handler) -> None:
    """Write a gradient, unless it is there. Operands: leaf, type, spec, word of an array, word for the old one."""
    leaf, array = c.operand(0), c.held_at(3)
    old = c.field(leaf, c.at.tensor_grad)
    look, make, done = c.label("look"), c.label("make"), c.label("done")
    known = c.label("known")
    c.do(f"br i1 {c.test('ne', old, 'null')}, label %{look}, label %{make}")
    c.place(look)
    tensor = c.test("eq", c.field(old, c.at.type), c.operand(1))
    c.do(f"br i1 {tensor}, label %{known}, label %{make}")
    c.place(known)
    there = c.test("eq", c.field(old, c.at.tensor_data), array)
    c.do(f"br i1 {there}, label %{done}, label %{make}")
    c.place(make)
    made = c.tensor(c.operand(1), array, c.operand(2))
    c.replace(made, leaf, c.at.tensor_grad, 4)
    c.decref(made)
    c.do(f"br label %{done}")
    c.place(done)


@handler
def _write_into_gradient(c: Handler) -> None:
    """Write the value of a gradient that there is. Operands: leaf, word of an array, word for the old one."""
    c.replace(c.held_at(1), c.field(c.operand(0), c.at.tensor_grad), c.at.tensor_data, 2)


@handler
def _write_none(c: Handler) -> None:
    """Take away a gradient. Operands: leaf, word for the old one."""
    c.replace(c.object("none"), c.operand(0), c.at.tensor_grad, 1)


@handler
def _keep(c: Handler) -> None:
    """Hold an object that is looked at again after the run. Operands: word, word."""
    value = c.held_at(0)
    c.incref(value)
    c.put(value, c.operand(1))


@handler
def _kill(c: Handler) -> None:
    """End a donated tensor: another type, and a text for a value. Operands: word of a tensor, type, text, words.

    The words are for the old ones.
    """
    tensor = c.held_at(0)
    c.replace(c.operand(1), tensor, c.at.type, 3)
    c.replace(c.operand(2), tensor, c.at.tensor_data, 4)


@handler
def _made(c: Handler) -> None:
    """Make a tensor. Operands: type, spec, word of an array, word."""
    c.put(c.tensor(c.operand(0), c.held_at(2), c.operand(1)), c.operand(3))


@handler
def _made_of(c: Handler) -> None:
    """Make a tensor with a node. Operands: type, spec, word of an array, word, node."""
    c.put(c.tensor(c.operand(0), c.held_at(2), c.operand(1), c.operand(4)), c.operand(3))


@handler
def _made_number(c: Handler) -> None:
    """Make a weak tensor, which has no spec. Operands: type, word of an array, word."""
    c.put(c.tensor(c.operand(0), c.held_at(1), None), c.operand(2))


@handler
def _made_again(c: Handler) -> None:
    """Take the tensor found for the array, or make one. Operands: type, spec, word of an array, word, word, list."""
    found, again, new = c.held_at(4), c.label("again"), c.label("new")
    c.do(f"br i1 {c.test('ne', found, 'null')}, label %{again}, label %{new}")
    c.place(again)
    c.put(found, c.operand(3))
    c.put("null", c.operand(4))
    c.do(f"ret i64 {GO_ON}")
    c.place(new)
    made = c.tensor(c.operand(0), c.held_at(2), c.operand(1))
    c.put(made, c.operand(3))
    _remember(c, made, 5)


@handler
def _constant(c: Handler) -> None:
    """Store an object. Operands: object, word."""
    c.incref(c.operand(0))
    c.put(c.operand(0), c.operand(1))


def _pack(c: Handler, kind: str) -> None:
    made = c.new(f"call ptr @Py{kind}_New(i64 {c.operand(0, 'i64')})")
    c.there(made, ERROR)
    c.put(made, c.operand(2))
    count = c.operand(0, "i64")
    before = c.label("before")
    loop, body, end = c.label("loop"), c.label("body"), c.label("end")
    c.do(f"br label %{before}")
    c.place(before)
    c.do(f"br label %{loop}")
    c.place(loop)
    c.do(f"%k = phi i64 [ 0, %{before} ], [ %k.next, %{body} ]")
    c.do(f"br i1 {c.test('slt', '%k', count, 'i64')}, label %{body}, label %{end}")
    c.place(body)
    from_ = c.new(f"getelementptr ptr, ptr {c.operand(1)}, i64 %k")
    part = c.field(from_, 0)
    c.put("null", from_)
    c.do(f"call i32 @Py{kind}_SetItem(ptr {made}, i64 %k, ptr {part})")  # which has the reference then
    c.do("%k.next = add i64 %k, 1")
    c.do(f"br label %{loop}")
    c.place(end)


@handler
def _pack_tuple(c: Handler) -> None:
    """Make a tuple of what the words hold. Operands: count, words, word."""
    _pack(c, "Tuple")


@handler
def _pack_list(c: Handler) -> None:
    """Make a list of what the words hold. Operands: count, words, word."""
    _pack(c, "List")


@handler
def _pack_dict(c: Handler) -> None:
    """Make an empty dict. Operand: word."""
    made = c.new("call ptr @PyDict_New()")
    c.there(made, ERROR)
    c.put(made, c.operand(0))


@handler
def _add_item(c: Handler) -> None:
    """Put an item into a dict. Operands: word of a dict, key, word."""
    failed = c.new(f"call i32 @PyDict_SetItem(ptr {c.held_at(0)}, ptr {c.operand(1)}, ptr {c.held_at(2)})")
    c.need(c.test("eq", failed, "0", "i32"), ERROR)


@handler
def _convert(c: Handler) -> None:
    """Call a callable on a value. Operands: callable, word, word."""
    made = c.new(f"call ptr @PyObject_CallOneArg(ptr {c.operand(0)}, ptr {c.held_at(1)})")
    c.there(made, ERROR)
    c.put(made, c.operand(2))


@handler
def _return(c: Handler) -> None:
    c.do(f"ret i64 {RETURN}")
    c.place("never")
