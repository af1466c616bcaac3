"""Graphs as text, in the spirit of a jaxpr, and back.

    graph f(x: f32[3,4], w: f32[4] parameter) -> f32[3,4]
      a: f32[3,4] = broadcast[shape=(3, 4)] w
      b: f32[3,4] = multiply x a
      return b

One line per node: its name, what it is (dtype and shape), the op with its attributes, and its
inputs: names, or literals. The text holds constants too, small ones as nested lists of numbers,
larger ones as compressed bytes. A graph within an attribute stands between braces. `#` begins a
comment. A graph with ops that users declared by a formula begins with their declarations:

    op "log_cosh(x) = logaddexp(x, -x) - log(2)"

A text may come from anywhere. Each node in it is what its op could have recorded, the graphs inside others too, or the
text is refused with a GraphError that says where; reading takes time and memory by the length of the text.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..dims import Dim, has_dims
from ..errors import DTypeError, GraphError, ShapeError, fail, first_line
from ..node import Node
from ..spec import Spec, check_size, from_short_name, is_short_name, spec_of
from .checked import checked_node
from .closed import ClosedGraph
from .declared import declarations, declared_op
from .snapshot import CONSTANT, PARAMETER, constant_node, input_node
from .values import MOST_DIGITS, encode, encode_array, from_numbers, is_too_large, shortened, unpack

_WIDTH = 100


class Parsed(NamedTuple):
    """The parts that a graph is made from: its name, its input nodes, the nodes of its results."""

    name: str
    inputs: list[Node]
    outputs: list[Node]


# -- printing


def format_graph(graph: ClosedGraph, source: bool = False) -> str:
    """Return the text of a graph; with `source`, comments say where each node came from."""
    names = graph.names
    lines = [*(f"op {encode(said)}" for said in declarations(graph.nodes)), _header(graph)]
    for node in graph.nodes[len(graph.inputs) :]:
        line = f"  {names[node]}: {_spec_text(node.spec)} = {_right_side(graph, node)}"
        comment = _comment(node) if source else ""
        lines.append(f"{line}  # {comment}" if comment else line)
    lines.append(f"  return {', '.join(names[n] for n in graph.outputs)}".rstrip())
    return "\n".join(lines)


def _header(graph: ClosedGraph) -> str:
    params = [
        f"{graph.names[n]}: {_spec_text(n.spec)}{' parameter' if n.op is PARAMETER else ''}" for n in graph.inputs
    ]
    results = [_spec_text(n.spec) for n in graph.outputs]
    arrow = results[0] if len(results) == 1 else f"({', '.join(results)})"
    start = f"graph {graph.name}(" if graph.name else "graph("
    line = f"{start}{', '.join(params)}) -> {arrow}"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"    {p},\n" for p in params)
    return f"{start}\n{inner}) -> {arrow}"


def _spec_text(spec: Any) -> str:
    return f"({', '.join(map(repr, spec))},)" if isinstance(spec, tuple) else repr(spec)


def _right_side(graph: ClosedGraph, node: Node) -> str:
    if node.op is CONSTANT:
        return f"constant {encode_array(node.attrs['value'])}"
    attrs = ", ".join(f"{k}={encode(v)}" for k, v in node.attrs.items())
    inputs = [graph.names[e] if isinstance(e, Node) else encode(e) for e in node.inputs]
    return " ".join([f"{node.op.name}[{attrs}]" if attrs else node.op.name, *inputs])


def _comment(node: Node) -> str:
    parts = [node.path] if node.path else []
    source = node.source
    if source is not None:
        parts.append(str(source))
        if source.text:
            parts.append(f"({source.text})")
    return "  ".join(parts).replace("\n", " ")


# -- names

# Words of the text format that no node may be called.
_RESERVED = frozenset({"graph", "return", "parameter", "constant", "inf", "nan", "None", "True", "False", "complex"})


def name_nodes(nodes: Sequence[Node], inputs: Sequence[Node]) -> dict[Node, str]:
    """Return a name for every node: inputs keep theirs, the others are called a, b, ..., z, aa, ..."""
    names: dict[Node, str] = {}
    used = set(_RESERVED)
    for i, node in enumerate(inputs):
        prefix = "p" if node.op is PARAMETER else "x"
        names[node] = found = _unique(_clean_name(node.attrs["name"]) or f"{prefix}{i}", used)
        used.add(found)
    letters = (name for name in _letters() if name not in used)
    for node in nodes:
        if node not in names:
            names[node] = next(letters)
    return names


def _clean_name(name: str) -> str:
    out = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in name).strip(".")
    return f"_{out}" if out[:1].isdigit() else out


def _unique(name: str, used: set[str]) -> str:
    found, i = name, 1
    while found in used:
        i += 1
        found = f"{name}_{i}"
    return found


def _letters() -> Iterator[str]:
    """Yield a, b, ..., z, aa, ab, ..."""
    width = 0
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    names = [""]
    while True:
        width += 1
        names = [head + tail for head in names for tail in alphabet]
        yield from names


# -- parsing


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    first: bool  # on its line


_TOKENS = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*)
      |(?P<arrow>->)
      |(?P<number>-?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf(?![\w.])|nan(?![\w.])))
      |(?P<name>[A-Za-z_][A-Za-z0-9_.]*)
      |(?P<string>"(?:[^"\\\n]|\\.)*")
      |(?P<mark>//|[(){}\[\]:,=+*-])""",
    re.VERBOSE | re.ASCII,
)


def _tokens(text: str) -> Iterator[_Token]:
    position, first = 0, True
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            _fail_at(text, position, f"{text[position]!r} does not belong here")
        position = match.end()
        if match.lastgroup == "space":
            first = first or "\n" in match[0]
        else:
            yield _Token(str(match.lastgroup), match[0], match.start(), first)
            first = False
    yield _Token("end", "the end of the text", position, first)


def _fail_at(text: str, position: int, what: str) -> NoReturn:
    line = text.count("\n", 0, position) + 1
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    shown = text[start : end if end >= 0 else len(text)].strip()
    fail(GraphError, f"line {line}, column {position - start + 1}: {what}", f"In: {shown[:200]}" if shown else "")


Make = Callable[[Parsed], Any]  # from what was parsed to the graph that stands in an attribute


# Brackets and graphs inside one another, so many at most: deeper ones would be too deep for Python.
MOST_NESTED = 50


def parse_graph(text: str, make: Make) -> Parsed:
    """Return the nodes that a graph's text describes. Raises GraphError with line and column."""
    if not isinstance(text, str):
        fail(GraphError, f"a graph's text is a string, not a {type(text).__name__}")
    parser = _Parser(text, make)
    try:
        return parser.graph()
    except RecursionError:
        parser.fail("nested too deep for the Python stack that is left")


def parse_size(text: str) -> Any:
    """Return a size from its formula. Raises GraphError."""
    parser = _Parser(text, lambda parsed: parsed)
    found = parser.size()
    if parser.token.kind != "end":
        parser.fail(f"{parser.token.text!r} after the end of the size")
    return found


class _Parser:
    """A recursive-descent parser over the tokens; only tuples, lists of numbers and graphs within attributes nest."""

    def __init__(self, text: str, make: Make) -> None:
        self.text = text
        self.make = make
        self.stream = _tokens(text)
        self.token = next(self.stream)
        self.nodes: dict[str, Node] = {}
        self.declared: set[str] = set()
        self.depth = 0

    # tokens

    def fail(self, what: str, token: _Token | None = None) -> NoReturn:
        _fail_at(self.text, (token or self.token).start, what)

    def advance(self) -> _Token:
        token = self.token
        if token.kind != "end":
            self.token = next(self.stream)
        return token

    def at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind != "string"

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> _Token:
        if not self.at(text):
            self.fail(f"expected {text!r}, found {self.token.text!r}")
        return self.advance()

    def name(self, what: str) -> _Token:
        if self.token.kind != "name":
            self.fail(f"expected {what}, found {self.token.text!r}")
        return self.advance()

    def enter(self) -> None:
        """Enter one more pair of brackets; `leave` ends it."""
        self.depth += 1
        if self.depth > MOST_NESTED:
            self.fail(f"nested more than {MOST_NESTED} deep")

    def leave(self) -> None:
        self.depth -= 1

    # the grammar

    def nested_graph(self) -> Any:
        outside = self.nodes, self.declared
        self.nodes, self.declared = {}, set()
        start = self.token
        self.enter()
        parsed = self.graph(nested=True)
        self.leave()
        self.nodes, self.declared = outside
        self.expect("}")
        return self.made(parsed, start)

    def made(self, parsed: Parsed, start: _Token) -> Any:
        """Return a graph that stands inside this one."""
        try:
            return self.make(parsed)
        except GraphError as e:
            self.fail(first_line(e), start)

    def graph(self, nested: bool = False) -> Parsed:
        self.declarations()
        self.expect("graph")
        name = "" if self.at("(") else self.name("the graph's name or '('").text
        inputs = self.inputs()
        self.expect("->")
        start = self.token
        results = self.result_specs()
        while not self.at("return"):
            self.statement()
        self.advance()
        outputs = [] if self.token.kind == "end" or self.at("}") else self.separated_nodes()
        if self.token.kind != "end" and not (nested and self.at("}")):
            self.fail(f"{self.token.text!r} after the end of the graph")
        found = [n.spec for n in outputs]
        if found != results:
            self.fail(f"the header promises {shortened(results)}, the graph returns {shortened(found)}", start)
        return Parsed(name, inputs, outputs)

    def declarations(self) -> None:
        while self.accept("op"):
            token = self.token
            said = self.value()
            if not isinstance(said, str):
                self.fail(f"expected how an op is declared, found {token.text!r}", token)
            try:
                self.declared.add(declared_op(said))
            except GraphError as e:
                self.fail(first_line(e), token)

    def inputs(self) -> list[Node]:
        out: list[Node] = []
        self.expect("(")
        while not self.accept(")"):
            token = self.name("an input's name")
            self.expect(":")
            spec = self.spec()
            node = input_node(spec, token.text, self.accept("parameter"))
            self.define(token, node)
            out.append(node)
            if not self.at(")"):
                self.expect(",")
        return out

    def result_specs(self) -> list[Spec]:
        return list(self.several_specs()) if self.at("(") else [self.spec()]

    def several_specs(self) -> tuple[Spec, ...]:
        specs = []
        self.expect("(")
        while not self.accept(")"):
            specs.append(self.spec())
            if not self.at(")"):
                self.expect(",")
        return tuple(specs)

    def spec(self) -> Spec:
        token = self.name("a dtype such as f32")
        dtype = self.dtype(token)
        self.expect("[")
        shape = []
        while not self.accept("]"):
            shape.append(self.size())
            if not self.at("]"):
                self.expect(",")
        try:
            check_size(tuple(shape))
        except ShapeError as e:
            self.fail(first_line(e), token)
        return spec_of(tuple(shape), dtype)

    def dtype(self, token: _Token) -> np.dtype[Any]:
        if not is_short_name(token.text):
            self.fail(f"{token.text!r} is not a dtype", token)
        try:
            return from_short_name(token.text)
        except DTypeError as e:  # of a package that is not installed
            self.fail(first_line(e), token)

    def define(self, token: _Token, node: Node) -> None:
        if token.text in self.nodes:
            self.fail(f"{token.text!r} is defined twice", token)
        self.nodes[token.text] = node

    def statement(self) -> None:
        target = self.name("a node's name or 'return'")
        self.expect(":")
        spec: Any = self.several_specs() if self.at("(") else self.spec()
        self.expect("=")
        op = self.name("an op")
        if op.text == "constant":
            self.define(target, self.constant(spec))
            return
        attrs = self.attrs() if self.at("[") else {}
        inputs = []
        while not self.statement_ends():
            inputs.append(self.operand())
        try:
            node = checked_node(op.text, tuple(inputs), attrs, spec, declared=self.declared)
        except GraphError as e:
            self.fail(first_line(e), op)
        self.define(target, node)

    def statement_ends(self) -> bool:
        # Operands do not cross a line: the next statement begins on one of its own.
        return self.token.kind == "end" or self.token.first

    def attrs(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        self.expect("[")
        while not self.accept("]"):
            key = self.name("an attribute's name")
            if key.text in out:
                self.fail(f"the attribute {key.text!r} stands here twice", key)
            self.expect("=")
            out[key.text] = self.value()
            if not self.at("]"):
                self.expect(",")
        return out

    def operand(self) -> Any:
        token = self.token
        if token.kind == "name" and token.text not in _WORDS:
            return self.lookup(self.advance())
        return self.primary()

    def lookup(self, token: _Token) -> Node:
        found = self.nodes.get(token.text)
        if found is None:
            self.fail(f"{token.text!r} is not defined above", token)
        return found

    def separated_nodes(self) -> list[Node]:
        out = [self.lookup(self.name("a node's name"))]
        while self.accept(","):
            out.append(self.lookup(self.name("a node's name")))
        return out

    # values

    def size(self) -> Any:
        """Return a size: a number, or a formula of unknown sizes."""
        token = self.token
        found = self.value()
        if (type(found) is not int and not isinstance(found, Dim)) or (type(found) is int and found < 0):
            self.fail(f"expected a size, found {token.text!r}", token)
        return found

    def value(self) -> Any:
        """Return a value; unknown sizes may be added, multiplied and divided."""
        out = self.product()
        while self.at("+") or self.at("-"):
            sign = self.advance()
            right = self.product()
            out = self.computed(sign, out, right)
        return out

    def product(self) -> Any:
        out = self.primary()
        while self.at("*") or self.at("//"):
            sign = self.advance()
            right = self.primary()
            out = self.computed(sign, out, right)
        return out

    def computed(self, sign: _Token, left: Any, right: Any) -> Any:
        if any(type(v) is not int and not isinstance(v, Dim) for v in (left, right)) or (
            sign.text == "//" and right == 0
        ):
            self.fail(f"{sign.text!r} stands only between sizes", sign)
        try:
            found = _ARITHMETIC[sign.text](left, right)
        except GraphError as e:
            self.fail(first_line(e), sign)
        if is_too_large(found):
            self.fail("a number that is too large for a graph", sign)
        return found

    def primary(self) -> Any:
        token = self.advance()
        if token.kind == "number":
            return self.number(token)
        if token.kind == "string":
            return self.string(token)
        if token.text == "(":
            return self.tuple_or_group()
        if token.text == "{":
            return self.nested_graph()
        if token.text == "complex":
            return self.complex(token)
        if token.kind != "name":
            self.fail(f"expected a value, found {token.text!r}", token)
        if token.text in _WORDS:
            return _WORDS[token.text]
        return from_short_name(token.text) if is_short_name(token.text) else Dim.named(token.text)

    def tuple_or_group(self) -> Any:
        """Return `(a, b)`, `(a,)`, `()` or the formula `(a)`."""
        out: list[Any] = []
        group = False
        self.enter()
        while not self.accept(")"):
            out.append(self.value())
            if not self.accept(","):
                self.expect(")")
                group = len(out) == 1
                break
        self.leave()
        return out[0] if group else tuple(out)

    def number(self, token: _Token) -> int | float:
        digits = token.text.lstrip("-")
        if not digits.isdigit():
            found = float(token.text)
            if math.isinf(found) and digits != "inf":
                self.fail(f"{shortened(token.text)} is more than a float holds", token)
            return found
        if len(digits) > MOST_DIGITS:
            self.fail("a number that is too large for a graph", token)
        return int(token.text)

    def complex(self, token: _Token) -> complex:
        self.expect("(")
        parts = self.sequence(")")
        if len(parts) != 2 or not all(isinstance(p, float) for p in parts):
            self.fail("expected complex(real, imaginary)", token)
        return complex(*parts)

    def string(self, token: _Token) -> str:
        try:
            return str(json.loads(token.text))
        except json.JSONDecodeError:
            self.fail("a string that is not valid JSON", token)

    def sequence(self, end: str) -> tuple[Any, ...]:
        out = []
        self.enter()
        while not self.accept(end):
            out.append(self.sequence("]") if end == "]" and self.accept("[") else self.value())
            if not self.at(end):
                self.expect(",")
        self.leave()
        return tuple(out)

    def constant(self, spec: Any) -> Node:
        token = self.token
        if isinstance(spec, tuple) or has_dims(spec.shape):
            self.fail(f"a constant of {shortened(spec)}", token)
        try:
            if token.kind == "string":
                return constant_node(unpack(self.string(self.advance()), spec))
            numbers = self.sequence("]") if self.accept("[") else self.value()
            return constant_node(from_numbers(numbers, spec))
        except GraphError:
            raise
        except ValueError as e:
            self.fail(f"not a constant of {spec}: {e}", token)


_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "complex": complex}


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
}
