"""The text of the compiled entry's handlers, and the helpers that write one.

A handler is a native function of one instruction (see `code`). It returns whether to go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

# The results of handlers.
FAIL, GO_ON, ERROR, RETURN = range(4)


class Layout(NamedTuple):
    """The places of things in objects: bytes from an object's beginning, and addresses of objects."""

    type: int
    size: int  # of lists and dicts: how many they hold
    set_size: int
    list_items: int
    tuple_items: int
    cell_contents: int
    float_value: int  # of complex numbers too: where the real part begins
    method_self: int
    method_function: int
    dict_version: int  # 0: it has none
    type_version: int  # 0: it is not known
    function_code: int
    function_defaults: int
    array_data: int
    array_nd: int
    array_dims: int
    array_base: int
    array_descr: int
    array_flags: int
    array_weakrefs: int
    tensor_data: int
    tensor_spec: int
    tensor_node: int
    tensor_grad: int
    tensor_base: int
    tensor_window: int
    tensor_weakrefs: int
    node_op: int
    node_saved: int
    mode_grad: int
    mode_tracing: int
    mode_floats: int
    mode_autocast: int
    mode_engine: int
    held_array: int  # of what owns the memory of a device's array that the host sees
    held_where: int
    held_pointer: int
    # True where references are counted in the first word, of every object, and nowhere else.
    plain_counts: bool


# NumPy's flags: in C order and aligned; and writeable and owner of its memory.
_PLAIN = 0x0101
_FREE = 0x0505
# Writeable, in the order of C and aligned, over memory that is another's.
_SHOWN = 0x0501


class Handler:
    """The text of one function of a frame of registers: `%i` is the instruction."""

    def __init__(self, name: str, layout: Layout) -> None:
        self.at = layout
        self.lines = [f"define i64 @{name}(ptr %i) {{"]
        self.count = 0
        self.behind = ""

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
        """Load the value so many bytes after an address."""
        return self.new(f"load {type}, ptr {self.new(f'getelementptr i8, ptr {base}, i64 {offset}')}")

    def put(self, value: str, base: str, offset: int = 0, type: str = "ptr") -> None:
        self.do(f"store {type} {value}, ptr {self.new(f'getelementptr i8, ptr {base}, i64 {offset}')}")

    def operand(self, k: int, type: str = "ptr") -> str:
        return self.field("%i", 8 * (2 + k), type)

    def held_at(self, k: int) -> str:
        """Load the object in the word whose address is an operand."""
        return self.field(self.operand(k), 0)

    def object(self, name: str) -> str:
        """Return one of the objects that are always there."""
        return f"@wengert_{name}"

    def test(self, op: str, a: str, b: str, type: str = "ptr") -> str:
        return self.new(f"icmp {op} {type} {a}, {b}")

    def need(self, condition: str, otherwise: int = FAIL) -> None:
        """Go on only where it holds."""
        yes, no = self.label("yes"), self.label("no")
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")
        self.place(no)
        self.do(f"ret i64 {otherwise}")
        self.place(yes)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Try what is written within: the first condition that does not hold goes on behind it."""
        self.behind = self.label("behind")
        yield
        self.place(self.behind)

    def need_here(self, condition: str) -> None:
        """Go on in an attempt only where it holds."""
        yes = self.label("yes")
        self.do(f"br i1 {condition}, label %{yes}, label %{self.behind}")
        self.place(yes)

    def same(self, a: str, b: str, type: str = "ptr") -> None:
        """Go on only where both are one."""
        self.need(self.test("eq", a, b, type))

    def there(self, a: str, otherwise: int = FAIL) -> None:
        self.need(self.test("ne", a, "null"), otherwise)

    def given(self, a: str) -> None:
        """Go on only where it is neither absent nor None."""
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
        """Go on only where an array has a dtype and a shape."""
        self.same(self.field(array, self.at.array_descr), descr)
        self.same(self.axes(array), nd, "i64")
        self.need(self.same_sizes(array, nd, dims))

    def axes(self, array: str) -> str:
        return self.new(f"zext i32 {self.field(array, self.at.array_nd, 'i32')} to i64")

    def same_sizes(self, array: str, nd: str, dims: str) -> str:
        return self.new(f"call i1 @same_words(ptr {self.field(array, self.at.array_dims)}, ptr {dims}, i64 {nd})")

    def incref(self, a: str) -> None:
        if not self.at.plain_counts:
            self.do(f"call void @Py_IncRef(ptr {a})")
            return
        count = self.new(f"load i64, ptr {a}")
        self.put(self.new(f"add i64 {count}, 1"), a, type="i64")

    def decref(self, a: str) -> None:
        if not self.at.plain_counts:
            self.do(f"call void @Py_DecRef(ptr {a})")
            return
        count = self.new(f"load i64, ptr {a}")
        last, others, end = self.label("last"), self.label("others"), self.label("end")
        self.do(f"br i1 {self.test('eq', count, '1', 'i64')}, label %{last}, label %{others}")
        self.place(last)
        self.do(f"call void @Py_DecRef(ptr {a})")
        self.do(f"br label %{end}")
        self.place(others)
        self.put(self.new(f"sub i64 {count}, 1"), a, type="i64")
        self.do(f"br label %{end}")
        self.place(end)

    def release(self, a: str) -> None:
        """Give back a reference, if there is one."""
        there, end = self.label("there"), self.label("end")
        self.do(f"br i1 {self.test('ne', a, 'null')}, label %{there}, label %{end}")
        self.place(there)
        self.decref(a)
        self.do(f"br label %{end}")
        self.place(end)

    def feed(self, array: str, entry: int, own: int) -> None:
        """Hold an array, and put its address into the table."""
        self.incref(array)
        self.put(array, self.operand(own))
        self.put(self.field(array, self.at.array_data), self.operand(entry))

    def references(self, a: str) -> str:
        """Load the count of references (the low half, which tells 1 from all else on every CPython)."""
        return self.field(a, 0, "i32")

    def free(self, array: str) -> str:
        """Test whether an array's memory is its own, and nobody refers to it but one place."""
        return self.all(
            self.test("eq", self.references(array), "1", "i32"),
            self.test("eq", self.field(array, self.at.array_base), "null"),
            self.test("eq", self.field(array, self.at.array_weakrefs), "null"),
            self.flags(array, _FREE),
        )

    def unused(self, tensor: str, spec: str) -> str:
        """Test whether a tensor is as it was made, and nobody refers to it but one place."""
        return self.all(
            self.test("eq", self.references(tensor), "1", "i32"),
            self.test("eq", self.field(tensor, self.at.tensor_spec), spec),
            self.test("eq", self.field(tensor, self.at.tensor_node), self.object("none")),
            self.test("eq", self.field(tensor, self.at.tensor_grad), "null"),
            self.test("eq", self.field(tensor, self.at.tensor_weakrefs), "null"),
        )

    def all(self, first: str, *more: str) -> str:
        for condition in more:
            first = self.new(f"and i1 {first}, {condition}")
        return first

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

    def base_type(self, array: str) -> str:
        """Load the type of an array's base; of one without, its own."""
        base = self.field(array, self.at.array_base)
        none = self.test("eq", base, "null")
        return self.field(self.new(f"select i1 {none}, ptr {array}, ptr {base}"), self.at.type)

    def own(self, array: str, may: str, own: int, nbytes: int) -> None:
        """Hold an array that is to be taken, over its own memory or a device's, or a copy: see `take`."""
        mine, copy, end = self.label("mine"), self.label("copy"), self.label("taken")
        none = self.test("eq", self.field(array, self.at.array_base), "null")
        shown = self.all(self.test("eq", self.base_type(array), self.object("held")), self.flags(array, _SHOWN))
        has = self.new(f"or i1 {shown}, {self.all(none, self.flags(array, _FREE))}")
        alone = self.test("eq", self.references(array), "1", "i32")
        unseen = self.test("eq", self.field(array, self.at.array_weakrefs), "null")
        self.do(f"br i1 {self.all(may, alone, unseen, has)}, label %{mine}, label %{copy}")
        self.place(mine)
        self.incref(array)
        self.put(array, self.operand(own))
        self.do(f"br label %{end}")
        self.place(copy)
        made = self.array(
            self.field(array, self.at.array_descr),
            self.field(array, self.at.array_nd, "i32"),
            self.field(array, self.at.array_dims),
            "null",
        )
        data, old = self.field(made, self.at.array_data), self.field(array, self.at.array_data)
        self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {data}, ptr {old}, i64 {self.operand(nbytes, 'i64')}, i1 false)")
        self.put(made, self.operand(own))
        self.do(f"br label %{end}")
        self.place(end)

    def array(self, descr: str, nd: str, dims: str, strides: str, data: str = "null") -> str:
        """Make an array, in memory of its own or over other memory."""
        self.incref(descr)  # which the array then has
        flags = 0 if data == "null" else _SHOWN
        made = self.new(
            f"call ptr @wengert_new_array(ptr {self.object('ndarray')}, ptr {descr}, i32 {nd}, ptr {dims}, "
            f"ptr {strides}, ptr {data}, i32 {flags}, ptr null)"
        )
        self.there(made, ERROR)
        return made

    def replace(self, value: str, base: str, offset: int, old: int) -> None:
        """Put an object into a place of another's; what it held is held by a word (an operand) from then on.

        So it is not freed in between: that may run code of users', which is to find the state as a whole.
        """
        self.incref(value)
        self.put(self.field(base, offset), self.operand(old))
        self.put(value, base, offset)

    def tensor(self, type: str, array: str, spec: str | None, node: str | None = None) -> str:
        """Make a tensor, with a spec or without, with a node or without."""
        made = self.new(f"call ptr @PyType_GenericAlloc(ptr {type}, i64 0)")
        self.there(made, ERROR)
        for value, offset in (
            (array, self.at.tensor_data),
            *([(spec, self.at.tensor_spec)] if spec is not None else []),
            (node or self.object("none"), self.at.tensor_node),
            (self.object("none"), self.at.tensor_base),
        ):
            self.incref(value)
            self.put(value, made, offset)
        return made

    def text(self) -> str:
        return "\n".join([*self.lines, f"  ret i64 {GO_ON}", "}"])
