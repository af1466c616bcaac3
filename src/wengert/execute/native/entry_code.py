"""The compiled way into a program: a C function of Python's that follows a list of instructions.

A call is checked, fed, run and answered by one native function, the same for all programs; what it
does stands in a program of its own, an array of instructions, each of `WORDS` words: the address of
its handler, where to go on if it fails (0: the call is given up, and the caller tries another way),
and operands: objects, addresses of words that hold objects, entries of the table of addresses.

Whatever array a call reads or writes is *held* (a reference in a word of the instructions' data, given
back at the end) from the moment it was looked at. So an array that is to be written into shows by its
count of references whether anything else, this call included, has to do with it; and threads may do as
they like while the program runs without the interpreter's lock.

Objects are read where CPython and NumPy keep their parts: `entry.py` finds that out and makes sure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from string import Template
from typing import NamedTuple

import numpy as np

from . import kernel, machine
from .types import Target

# Words of an instruction: the handler, where to go on if it fails, operands.
WORDS = 10
# Words of the header, which the function's `self`, an array, begins with: whether a call is under way, the
# number of arguments, where they are put, the first instruction, the held references and their number,
# what is returned for a call that is given up.
HEADER = BUSY, ARGUMENTS, VALUES, FIRST, HELD, HELD_COUNT, MISS = range(7)
# What handlers return.
_FAIL, _GO_ON, _ERROR, _RETURN = range(4)


class Layout(NamedTuple):
    """Where things are in objects: bytes from an object's beginning, and addresses of objects."""

    type: int
    size: int  # of lists and dicts: how many they hold
    list_items: int
    tuple_items: int
    cell_contents: int
    float_value: int
    dict_version: int  # 0: it has none
    array_data: int
    array_nd: int
    array_dims: int
    array_base: int
    array_descr: int
    array_flags: int
    tensor_data: int
    tensor_spec: int
    tensor_node: int
    tensor_grad: int
    mode_grad: int
    mode_tracing: int


# NumPy's flags: in C order and aligned; and writeable and owner of its memory.
_PLAIN = 0x0101
_FREE = 0x0505

_API = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyDict_New()
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @wengert_new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
# Objects that are always there, known to the code by a symbol each.
OBJECTS: dict[str, object] = {
    "none": None,
    "true": True,
    "false": False,
    "float": float,
    "int": int,
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "ndarray": np.ndarray,
}
# What of that NumPy's table of functions has, by its place there.
NUMPY_API = {"wengert_new_array": 94}
PYTHON_API = tuple(
    name for line in _API.splitlines() if (name := line.partition("@")[2].partition("(")[0]).startswith("Py")
)


class _Handler:
    """The text of one function of a frame of registers: `%i` is the instruction."""

    def __init__(self, name: str, layout: Layout) -> None:
        self.at = layout
        self.lines = [f"define i64 @{name}(ptr %i) {{"]
        self.count = 0

    def new(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %r{self.count} = {text}")
        return f"%r{self.count}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def place(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def field(self, base: str, offset: int, type: str = "ptr") -> str:
        """What lies so many bytes after an address."""
        return self.new(f"load {type}, ptr {self.new(f'getelementptr i8, ptr {base}, i64 {offset}')}")

    def put(self, value: str, base: str, offset: int = 0, type: str = "ptr") -> None:
        self.do(f"store {type} {value}, ptr {self.new(f'getelementptr i8, ptr {base}, i64 {offset}')}")

    def operand(self, k: int, type: str = "ptr") -> str:
        return self.field("%i", 8 * (2 + k), type)

    def held_at(self, k: int) -> str:
        """The object in the word whose address is an operand."""
        return self.field(self.operand(k), 0)

    def object(self, name: str) -> str:
        """One of the objects that are always there."""
        return f"@wengert_{name}"

    def test(self, op: str, a: str, b: str, type: str = "ptr") -> str:
        return self.new(f"icmp {op} {type} {a}, {b}")

    def need(self, condition: str, otherwise: int = _FAIL) -> None:
        """Go on only where it holds."""
        yes, no = self.label("yes"), self.label("no")
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")
        self.place(no)
        self.do(f"ret i64 {otherwise}")
        self.place(yes)

    def same(self, a: str, b: str, type: str = "ptr") -> None:
        self.need(self.test("eq", a, b, type))

    def there(self, a: str, otherwise: int = _FAIL) -> None:
        self.need(self.test("ne", a, "null"), otherwise)

    def given(self, a: str) -> None:
        """Neither absent nor None."""
        self.there(a)
        self.need(self.test("ne", a, self.object("none")))

    def of_type(self, a: str, type: str) -> None:
        self.same(self.field(a, self.at.type), type)

    def flags(self, array: str, wanted: int) -> str:
        found = self.new(f"and i32 {self.field(array, self.at.array_flags, 'i32')}, {wanted}")
        return self.test("eq", found, str(wanted), "i32")

    def plain(self, array: str) -> None:
        self.there(array)
        self.of_type(array, self.object("ndarray"))
        self.need(self.flags(array, _PLAIN))

    def like(self, array: str, descr: str, nd: str, dims: str) -> None:
        """Whether an array has a dtype and a shape."""
        self.same(self.field(array, self.at.array_descr), descr)
        self.same(self.new(f"zext i32 {self.field(array, self.at.array_nd, 'i32')} to i64"), nd, "i64")
        equal = self.new(f"call i1 @same_words(ptr {self.field(array, self.at.array_dims)}, ptr {dims}, i64 {nd})")
        self.need(equal)

    def incref(self, a: str) -> None:
        self.do(f"call void @Py_IncRef(ptr {a})")

    def decref(self, a: str) -> None:
        self.do(f"call void @Py_DecRef(ptr {a})")

    def feed(self, array: str, entry: int, own: int) -> None:
        """Hold an array, and put its address into the table."""
        self.incref(array)
        self.put(array, self.operand(own))
        self.put(self.field(array, self.at.array_data), self.operand(entry))

    def references(self, a: str) -> str:
        """How many references there are (the low half, which tells 1 from all else on every CPython)."""
        return self.field(a, 0, "i32")

    def free(self, array: str) -> str:
        """Whether an array's memory is its own, and nobody refers to it but one place."""
        alone = self.test("eq", self.references(array), "1", "i32")
        base = self.test("eq", self.field(array, self.at.array_base), "null")
        return self.new(f"and i1 {self.new(f'and i1 {alone}, {base}')}, {self.flags(array, _FREE)}")

    def take(self, array: str, may: str, entry: int, own: int, nbytes: int) -> None:
        """Hold an array that is to be written into, or a copy where something else refers to it.

        The copy is made with the interpreter's lock, which NumPy's own functions may give away meanwhile.
        """
        mine, copy, end = self.label("mine"), self.label("copy"), self.label("taken")
        self.do(f"br i1 {self.new(f'and i1 {may}, {self.free(array)}')}, label %{mine}, label %{copy}")
        self.place(mine)
        self.feed(array, entry, own)
        self.do(f"br label %{end}")
        self.place(copy)
        made = self.array(
            self.field(array, self.at.array_descr),
            self.field(array, self.at.array_nd, "i32"),
            self.field(array, self.at.array_dims),
            "null",
        )
        data = self.field(made, self.at.array_data)
        old, size = self.field(array, self.at.array_data), self.operand(nbytes, "i64")
        self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {data}, ptr {old}, i64 {size}, i1 false)")
        self.put(made, self.operand(own))
        self.put(data, self.operand(entry))
        self.do(f"br label %{end}")
        self.place(end)

    def array(self, descr: str, nd: str, dims: str, strides: str) -> str:
        """A new array."""
        self.incref(descr)  # which the array then has
        made = self.new(
            f"call ptr @wengert_new_array(ptr {self.object('ndarray')}, ptr {descr}, i32 {nd}, ptr {dims}, "
            f"ptr {strides}, ptr null, i32 0, ptr null)"
        )
        self.there(made, _ERROR)
        return made

    def replace(self, value: str, base: str, offset: int) -> None:
        """Put an object into a place of another's, which held one."""
        self.incref(value)
        old = self.field(base, offset)
        self.put(value, base, offset)
        free, end = self.label("free"), self.label("end")
        self.do(f"br i1 {self.test('ne', old, 'null')}, label %{free}, label %{end}")
        self.place(free)
        self.decref(old)
        self.do(f"br label %{end}")
        self.place(end)

    def tensor(self, type: str, array: str, spec: str) -> str:
        """A new tensor."""
        made = self.new(f"call ptr @PyType_GenericAlloc(ptr {type}, i64 0)")
        self.there(made, _ERROR)
        for value, offset in (
            (array, self.at.tensor_data),
            (spec, self.at.tensor_spec),
            (self.object("none"), self.at.tensor_node),
        ):
            self.incref(value)
            self.put(value, made, offset)
        return made

    def text(self) -> str:
        return "\n".join([*self.lines, f"  ret i64 {_GO_ON}", "}"])


# -- what instructions do

Handlers = dict[str, Callable[[_Handler], None]]
HANDLERS: Handlers = {}


def _handler(f: Callable[[_Handler], None]) -> Callable[[_Handler], None]:
    HANDLERS[f.__name__.removeprefix("_")] = f
    return f


@_handler
def _jump(c: _Handler) -> None:
    """Fails always."""
    c.do(f"ret i64 {_FAIL}")
    c.place("never")


@_handler
def _mode(c: _Handler) -> None:
    """The context variable's mode does not trace, and records gradients or does not."""
    p = c.new("alloca ptr")
    failed = c.new(f"call i32 @PyContextVar_Get(ptr {c.operand(0)}, ptr null, ptr {p})")
    c.need(c.test("eq", failed, "0", "i32"), _ERROR)
    mode = c.field(p, 0)
    grad, tracing = c.field(mode, c.at.mode_grad), c.field(mode, c.at.mode_tracing)
    c.decref(mode)  # the context keeps it
    c.same(grad, c.operand(1))
    c.same(tracing, c.object("false"))


@_handler
def _word(c: _Handler) -> None:
    """(object, bytes, value): a word of an object."""
    at = c.new(f"getelementptr i8, ptr {c.operand(0)}, i64 {c.operand(1, 'i64')}")
    c.same(c.field(at, 0), c.operand(2))


@_handler
def _item(c: _Handler) -> None:
    """(dict, key, value): an item of a dict, by identity."""
    c.same(c.new(f"call ptr @PyDict_GetItemWithError(ptr {c.operand(0)}, ptr {c.operand(1)})"), c.operand(2))


@_handler
def _element(c: _Handler) -> None:
    """(list, index, value): an entry of a list, by identity."""
    entries, index = c.operand(0), c.operand(1, "i64")
    c.need(c.test("sgt", c.field(entries, c.at.size, "i64"), index, "i64"))
    found = c.new(f"getelementptr ptr, ptr {c.field(entries, c.at.list_items)}, i64 {index}")
    c.same(c.field(found, 0), c.operand(2))


@_handler
def _changed(c: _Handler) -> None:
    """(dict, address): fails where the dict has not been changed since its version was noted there."""
    noted = c.field(c.operand(1), 0, "i64")
    c.need(c.test("ne", c.field(c.operand(0), c.at.dict_version, "i64"), noted, "i64"))


@_handler
def _note(c: _Handler) -> None:
    """(dict, address): notes the dict's version."""
    c.put(c.field(c.operand(0), c.at.dict_version, "i64"), c.operand(1), 0, "i64")


@_handler
def _asks(c: _Handler) -> None:
    """(callable): whether it returns True."""
    answer = c.new(f"call ptr @PyObject_CallNoArgs(ptr {c.operand(0)})")
    c.there(answer, _ERROR)
    c.decref(answer)  # True and False are always there
    c.same(answer, c.object("true"))


# Arguments: the words that hold them are operands, by address.


@_handler
def _is(c: _Handler) -> None:
    """(word, object)"""
    c.same(c.held_at(0), c.operand(1))


@_handler
def _equals(c: _Handler) -> None:
    """(word, object): of one type, and equal."""
    value = c.held_at(0)
    c.of_type(value, c.field(c.operand(1), c.at.type))
    equal = c.new(f"call i32 @PyObject_RichCompareBool(ptr {value}, ptr {c.operand(1)}, i32 2)")
    c.need(c.test("sge", equal, "0", "i32"), _ERROR)
    c.same(equal, "1", "i32")


@_handler
def _is_tensor(c: _Handler) -> None:
    """(word, type, spec): a tensor that requires no gradients."""
    value = c.held_at(0)
    c.of_type(value, c.operand(1))
    c.same(c.field(value, c.at.tensor_spec), c.operand(2))
    c.same(c.field(value, c.at.tensor_node), c.object("none"))


@_handler
def _is_array(c: _Handler) -> None:
    """(word, dtype, axes, sizes): a NumPy array."""
    value = c.held_at(0)
    c.plain(value)
    c.like(value, c.operand(1), c.operand(2, "i64"), c.operand(3))


@_handler
def _float(c: _Handler) -> None:
    """(word, number): a Python float, copied."""
    value = c.held_at(0)
    c.of_type(value, c.object("float"))
    c.put(c.field(value, c.at.float_value, "i64"), c.operand(1), 0, "i64")


@_handler
def _int(c: _Handler) -> None:
    """(word, number): a Python int of 64 bits, copied."""
    value = c.held_at(0)
    c.of_type(value, c.object("int"))
    c.need(c.new(f"call i1 @int_of(ptr {value}, ptr {c.operand(1)})"))


def _unpack(c: _Handler, type: str, items: Callable[[str, str], str]) -> None:
    value, count = c.held_at(0), c.operand(1, "i64")
    c.of_type(value, c.object(type))
    c.same(c.field(value, c.at.size, "i64"), count, "i64")
    c.do(f"call void @copy_words(ptr {c.operand(2)}, ptr {items(value, count)}, i64 {count})")


@_handler
def _tuple(c: _Handler) -> None:
    """(word, count, words): a tuple's items."""
    _unpack(c, "tuple", lambda v, _: c.new(f"getelementptr i8, ptr {v}, i64 {c.at.tuple_items}"))


@_handler
def _list(c: _Handler) -> None:
    """(word, count, words): a list's entries."""
    _unpack(c, "list", lambda v, _: c.field(v, c.at.list_items))


@_handler
def _dict(c: _Handler) -> None:
    """(word, count): a dict with so many items."""
    value = c.held_at(0)
    c.of_type(value, c.object("dict"))
    c.same(c.field(value, c.at.size, "i64"), c.operand(1, "i64"), "i64")


@_handler
def _value(c: _Handler) -> None:
    """(word, key, word): an item of a dict."""
    found = c.new(f"call ptr @PyDict_GetItemWithError(ptr {c.held_at(0)}, ptr {c.operand(1)})")
    c.there(found)
    c.put(found, c.operand(2))


# Feeding: the entry of the table, then the word that holds the array, follow what it is of.


@_handler
def _gradient(c: _Handler) -> None:
    """(word of a leaf, type, spec, word): its gradient, a tensor that requires none itself."""
    found = c.field(c.held_at(0), c.at.tensor_grad)
    c.there(found)
    c.of_type(found, c.operand(1))
    c.same(c.field(found, c.at.tensor_spec), c.operand(2))
    c.same(c.field(found, c.at.tensor_node), c.object("none"))
    c.put(found, c.operand(3))


@_handler
def _has_gradient(c: _Handler) -> None:
    """(word of a leaf): there is a gradient."""
    c.given(c.field(c.held_at(0), c.at.tensor_grad))


@_handler
def _feed_tensor(c: _Handler) -> None:
    """(word of a tensor, entry, word)"""
    array = c.field(c.held_at(0), c.at.tensor_data)
    c.plain(array)
    c.feed(array, 1, 2)


@_handler
def _feed_array(c: _Handler) -> None:
    """(word of an array that was looked at, entry, word)"""
    c.feed(c.held_at(0), 1, 2)


@_handler
def _feed_item(c: _Handler) -> None:
    """(dict, key, entry, word, dtype, axes, sizes)"""
    array = c.new(f"call ptr @PyDict_GetItemWithError(ptr {c.operand(0)}, ptr {c.operand(1)})")
    c.plain(array)
    c.like(array, c.operand(4), c.operand(5, "i64"), c.operand(6))
    c.feed(array, 2, 3)


@_handler
def _feed_call(c: _Handler) -> None:
    """(callable, entry, word, dtype, axes, sizes): an array that Python gives."""
    array = c.new(f"call ptr @PyObject_CallNoArgs(ptr {c.operand(0)})")
    c.there(array, _ERROR)
    c.put(array, c.operand(2))
    c.plain(array)
    c.like(array, c.operand(3), c.operand(4, "i64"), c.operand(5))
    c.put(c.field(array, c.at.array_data), c.operand(1))


@_handler
def _take_tensor(c: _Handler) -> None:
    """(word of a tensor, entry, word, bytes): to be written into."""
    array = c.field(c.held_at(0), c.at.tensor_data)
    c.plain(array)
    c.take(array, "true", 1, 2, 3)


@_handler
def _take_gradient(c: _Handler) -> None:
    """(word of a gradient, entry, word, bytes): the same, if nothing but the leaf refers to the gradient."""
    tensor = c.held_at(0)
    array = c.field(tensor, c.at.tensor_data)
    c.plain(array)
    c.take(array, c.test("eq", c.references(tensor), "1", "i32"), 1, 2, 3)


@_handler
def _take_item(c: _Handler) -> None:
    """(dict, key, entry, word, dtype, axes, sizes, bytes): to be written into."""
    array = c.new(f"call ptr @PyDict_GetItemWithError(ptr {c.operand(0)}, ptr {c.operand(1)})")
    c.plain(array)
    c.like(array, c.operand(4), c.operand(5, "i64"), c.operand(6))
    c.take(array, "true", 2, 3, 7)


@_handler
def _all_equal(c: _Handler) -> None:
    """(numbers, count): whether they are all like the first."""
    first = c.new(f"getelementptr i64, ptr {c.operand(0)}, i64 1")
    rest = c.new(f"sub i64 {c.operand(1, 'i64')}, 1")
    c.need(c.new(f"call i1 @same_words(ptr {first}, ptr {c.operand(0)}, i64 {rest})"))


# Results


@_handler
def _reuse(c: _Handler) -> None:
    """(word of a gradient, entry, word): its array for the new one, if nothing refers to either."""
    tensor = c.held_at(0)
    c.same(c.references(tensor), "1", "i32")
    array = c.field(tensor, c.at.tensor_data)
    c.plain(array)
    c.need(c.free(array))
    c.feed(array, 1, 2)


@_handler
def _fresh(c: _Handler) -> None:
    """(dtype, axes, sizes, strides, entry, word): a new array."""
    axes = c.new(f"trunc i64 {c.operand(1, 'i64')} to i32")
    made = c.array(c.operand(0), axes, c.operand(2), c.operand(3))
    c.put(made, c.operand(5))
    c.put(c.field(made, c.at.array_data), c.operand(4))


@_handler
def _run(c: _Handler) -> None:
    """(driver, call): run the program, with the interpreter's lock."""
    c.do(f"call i64 {c.operand(0)}(ptr {c.operand(1)})")


@_handler
def _run_free(c: _Handler) -> None:
    """(driver, call): run the program, without the lock."""
    state = c.new("call ptr @PyEval_SaveThread()")
    c.do(f"call i64 {c.operand(0)}(ptr {c.operand(1)})")
    c.do(f"call void @PyEval_RestoreThread(ptr {state})")


@_handler
def _run_python(c: _Handler) -> None:
    """(callable): run the program by a function."""
    c.there(c.new(f"call ptr @PyObject_CallNoArgs(ptr {c.operand(0)})"), _ERROR)  # None, which is always there


@_handler
def _decided(c: _Handler) -> None:
    """(address, bits): a decision."""
    c.same(c.field(c.operand(0), 0, "i64"), c.operand(1, "i64"), "i64")


@_handler
def _write_tensor(c: _Handler) -> None:
    """(tensor, word of an array)"""
    c.replace(c.held_at(1), c.operand(0), c.at.tensor_data)


@_handler
def _write_item(c: _Handler) -> None:
    """(dict, key, word of an array)"""
    failed = c.new(f"call i32 @PyDict_SetItem(ptr {c.operand(0)}, ptr {c.operand(1)}, ptr {c.held_at(2)})")
    c.need(c.test("eq", failed, "0", "i32"), _ERROR)


@_handler
def _write_copied(c: _Handler) -> None:
    """(dict, key, word of an array that was taken from there): nothing to do, but for a copy."""
    array = c.held_at(2)
    there, copied = c.label("there"), c.label("copied")
    c.do(f"br i1 {c.test('eq', c.references(array), '1', 'i32')}, label %{copied}, label %{there}")
    c.place(there)
    c.do(f"ret i64 {_GO_ON}")
    c.place(copied)
    failed = c.new(f"call i32 @PyDict_SetItem(ptr {c.operand(0)}, ptr {c.operand(1)}, ptr {array})")
    c.need(c.test("eq", failed, "0", "i32"), _ERROR)


@_handler
def _write_int(c: _Handler) -> None:
    """(dict, key, number)"""
    _write_number(c, c.new(f"call ptr @PyLong_FromLongLong(i64 {c.field(c.operand(2), 0, 'i64')})"))


@_handler
def _write_float(c: _Handler) -> None:
    """(dict, key, number)"""
    _write_number(c, c.new(f"call ptr @PyFloat_FromDouble(double {c.field(c.operand(2), 0, 'double')})"))


def _write_number(c: _Handler, made: str) -> None:
    c.there(made, _ERROR)
    failed = c.new(f"call i32 @PyDict_SetItem(ptr {c.operand(0)}, ptr {c.operand(1)}, ptr {made})")
    c.decref(made)
    c.need(c.test("eq", failed, "0", "i32"), _ERROR)


@_handler
def _write_call(c: _Handler) -> None:
    """(callable, word of an array): Python puts it where it belongs."""
    answer = c.new(f"call ptr @PyObject_CallOneArg(ptr {c.operand(0)}, ptr {c.held_at(1)})")
    c.there(answer, _ERROR)
    c.decref(answer)


@_handler
def _write_gradient(c: _Handler) -> None:
    """(leaf, type, spec, word of an array): a gradient, if it is not there already."""
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
    c.replace(made, leaf, c.at.tensor_grad)
    c.decref(made)
    c.do(f"br label %{done}")
    c.place(done)


@_handler
def _write_none(c: _Handler) -> None:
    """(leaf): no gradient."""
    c.replace(c.object("none"), c.operand(0), c.at.tensor_grad)


@_handler
def _keep(c: _Handler) -> None:
    """(word, word): hold an object that is looked at again after the run."""
    value = c.held_at(0)
    c.incref(value)
    c.put(value, c.operand(1))


@_handler
def _kill(c: _Handler) -> None:
    """(word of a tensor, type, text): a donated tensor has another type, and a text instead of a value."""
    tensor = c.held_at(0)
    c.replace(c.operand(1), tensor, c.at.type)
    c.replace(c.operand(2), tensor, c.at.tensor_data)


@_handler
def _made(c: _Handler) -> None:
    """(type, spec, word of an array, word): a tensor."""
    c.put(c.tensor(c.operand(0), c.held_at(2), c.operand(1)), c.operand(3))


@_handler
def _constant(c: _Handler) -> None:
    """(object, word)"""
    c.incref(c.operand(0))
    c.put(c.operand(0), c.operand(1))


def _pack(c: _Handler, kind: str) -> None:
    made = c.new(f"call ptr @Py{kind}_New(i64 {c.operand(0, 'i64')})")
    c.there(made, _ERROR)
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


@_handler
def _pack_tuple(c: _Handler) -> None:
    """(count, words, word): a tuple of what is in the words."""
    _pack(c, "Tuple")


@_handler
def _pack_list(c: _Handler) -> None:
    """(count, words, word): a list of what is in the words."""
    _pack(c, "List")


@_handler
def _pack_dict(c: _Handler) -> None:
    """(word): an empty dict."""
    made = c.new("call ptr @PyDict_New()")
    c.there(made, _ERROR)
    c.put(made, c.operand(0))


@_handler
def _add_item(c: _Handler) -> None:
    """(word of a dict, key, word)"""
    failed = c.new(f"call i32 @PyDict_SetItem(ptr {c.held_at(0)}, ptr {c.operand(1)}, ptr {c.held_at(2)})")
    c.need(c.test("eq", failed, "0", "i32"), _ERROR)


@_handler
def _convert(c: _Handler) -> None:
    """(callable, word, word): what it makes of a value."""
    made = c.new(f"call ptr @PyObject_CallOneArg(ptr {c.operand(0)}, ptr {c.held_at(1)})")
    c.there(made, _ERROR)
    c.put(made, c.operand(2))


@_handler
def _return(c: _Handler) -> None:
    c.do(f"ret i64 {_RETURN}")
    c.place("never")


# The function itself. What it returns is the first of the held references.
_ENTRY = """
define internal i1 @int_of(ptr %object, ptr %to) {
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  store i64 %value, ptr %to
  %odd = icmp eq i64 %value, -1
  br i1 %odd, label %ask, label %right
ask:
  %error = call ptr @PyErr_Occurred()
  %wrong = icmp ne ptr %error, null
  br i1 %wrong, label %clear, label %right
clear:
  call void @PyErr_Clear()
  ret i1 false
right:
  ret i1 true
}

define ptr @wengert_entry(ptr %self, ptr %args, i64 %count) {
  %header.p = getelementptr i8, ptr %self, i64 $ARRAY_DATA
  %header = load ptr, ptr %header.p
  %busy = load i64, ptr %header
  %wanted.p = getelementptr i64, ptr %header, i64 $ARGUMENTS
  %wanted = load i64, ptr %wanted.p
  %idle = icmp eq i64 %busy, 0
  %right = icmp eq i64 %count, %wanted
  %begin = and i1 %idle, %right
  br i1 %begin, label %start, label %give.up
start:
  store i64 1, ptr %header
  %values.p = getelementptr i64, ptr %header, i64 $VALUES
  %values = load ptr, ptr %values.p
  call void @copy_words(ptr %values, ptr %args, i64 %count)
  %first.p = getelementptr i64, ptr %header, i64 $FIRST
  %first = load ptr, ptr %first.p
  br label %next
next:
  %i = phi ptr [ %first, %start ], [ %following, %go.on ], [ %other, %failed ]
  %handler = load ptr, ptr %i
  %answer = call i64 %handler(ptr %i)
  switch i64 %answer, label %end [ i64 1, label %go.on
                                   i64 0, label %failed ]
go.on:
  %following = getelementptr i64, ptr %i, i64 $WORDS
  br label %next
failed:
  %other.p = getelementptr i64, ptr %i, i64 1
  %other = load ptr, ptr %other.p
  %none = icmp eq ptr %other, null
  br i1 %none, label %end, label %next
end:
  %held.p = getelementptr i64, ptr %header, i64 $HELD
  %held = load ptr, ptr %held.p
  %held.count.p = getelementptr i64, ptr %header, i64 $HELD_COUNT
  %held.count = load i64, ptr %held.count.p
  %returned = icmp eq i64 %answer, 3
  %made = load ptr, ptr %held
  %result = select i1 %returned, ptr %made, ptr null
  br i1 %returned, label %keep, label %drop
keep:
  store ptr null, ptr %held
  br label %drop
drop:
  call void @drop(ptr %held, i64 %held.count)
  store i64 0, ptr %header
  %miss = icmp eq i64 %answer, 0
  br i1 %miss, label %give.up, label %done
done:
  ret ptr %result
give.up:
  %miss.p = getelementptr i64, ptr %header, i64 $MISS
  %missed = load ptr, ptr %miss.p
  call void @Py_IncRef(ptr %missed)
  ret ptr %missed
}

define internal void @drop(ptr %words, i64 %count) {
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %skip ], [ %k.next2, %free ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %look, label %done
look:
  %p = getelementptr ptr, ptr %words, i64 %k
  %object = load ptr, ptr %p
  %there = icmp ne ptr %object, null
  br i1 %there, label %free, label %skip
free:
  store ptr null, ptr %p
  call void @Py_DecRef(ptr %object)
  %k.next2 = add i64 %k, 1
  br label %next
skip:
  %k.next = add i64 %k, 1
  br label %next
done:
  ret void
}

define internal void @copy_words(ptr %to, ptr %from, i64 %count) {
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %copy ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %copy, label %done
copy:
  %from.p = getelementptr i64, ptr %from, i64 %k
  %word = load i64, ptr %from.p
  %to.p = getelementptr i64, ptr %to, i64 %k
  store i64 %word, ptr %to.p
  %k.next = add i64 %k, 1
  br label %next
done:
  ret void
}

define internal i1 @same_words(ptr %a, ptr %b, i64 %count) {
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k.next, %same ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %look, label %equal
look:
  %a.p = getelementptr i64, ptr %a, i64 %k
  %a.word = load i64, ptr %a.p
  %b.p = getelementptr i64, ptr %b, i64 %k
  %b.word = load i64, ptr %b.p
  %is.same = icmp eq i64 %a.word, %b.word
  br i1 %is.same, label %same, label %other
same:
  %k.next = add i64 %k, 1
  br label %next
other:
  ret i1 false
equal:
  ret i1 true
}
"""


class _Source(NamedTuple):
    """The module's text, as :func:`wengert.execute.native.kernel.code` takes it."""

    ir: str
    target: Target
    effort: int = 2

    @property
    def name(self) -> str:
        return "entry" + hashlib.sha256(f"{self.ir}\n{self.target.identity}".encode()).hexdigest()[:24]


def ir(layout: Layout, target: Target) -> str:
    """The text of the module: the entry function, and a handler for every kind of instruction."""
    parts = [f'target triple = "{target.triple}"', _API]
    parts += [f"@wengert_{name} = external global i8" for name in OBJECTS]
    words = {name: value for name, value in globals().items() if name in ("ARGUMENTS", "VALUES", "FIRST", "MISS")}
    parts.append(
        Template(_ENTRY).substitute(words, HELD=HELD, HELD_COUNT=HELD_COUNT, WORDS=WORDS, ARRAY_DATA=layout.array_data)
    )
    for name, write in HANDLERS.items():
        handler = _Handler(f"wengert_on_{name}", layout)
        write(handler)
        parts.append(handler.text())
    return "\n".join(parts)


def load(layout: Layout, symbols: dict[str, int]) -> dict[str, int]:
    """The addresses of the handlers, and of the "entry", with the functions and objects at these addresses."""
    for name, address in symbols.items():
        machine.llvm().add_symbol(name, address)
    code, _ = kernel.code(_Source(ir(layout, machine.host()), machine.host()))
    names = ["wengert_entry", *(f"wengert_on_{name}" for name in HANDLERS)]
    return dict(zip(["entry", *HANDLERS], machine.load_all([code], names)))
