"""The printer of graphs, as readable text and as LaTeX."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, get_args

from ..core.dtypes import is_foreign
from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT, inputs_of
from ..core.graph.values import encode, encode_array
from ..core.node import Node
from ..core.ops.declare import PUBLIC
from ..core.ops.facets import Binds, Latex
from ..core.ops.op import Op
from ..core.ops.record import OUTPUT
from ..core.spec import Spec
from .numbers import number_text

# The width up to which an expression is written in one line, however often its parts occur.
_WIDTH = 88
# A shared part shorter than this is repeated.
_SHORT = 8
_DEPTH = 40

# The precedence of text: a place in the order of Binds.
_BINDS: Mapping[Binds, int] = {name: place for place, name in enumerate(get_args(Binds))}
_PRODUCT, _POWER, ATOM = _BINDS["product"], _BINDS["power"], _BINDS["atom"]
_GREEK = frozenset(
    {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu"}
    | {"xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta"}
    | {"Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega"}
)


class Piece(NamedTuple):
    """A written expression with its precedence and its depth of nesting."""

    text: str
    binds: int
    depth: int = 0


Show = Callable[[Any, Sequence[Piece]], Piece]


def text(graph: Graph, *, width: int = _WIDTH) -> str:
    """Return the graph as Python expressions: infix, with as few brackets as it takes.

    Parameters
    ----------
    width: an expression that is longer is written in several lines, `t1 = ...` for every part that
        is used more than once, the results last.

    Broadcasts are not shown, as operators broadcast by themselves. :func:`parse` reads it back.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x: -(x + 1) ** 2 / (2 * wg.sin(x)))(wg.spec(()))
    >>> wg.symbolic.text(g)
    '-(x + 1)**2/(2*sin(x))'
    """
    lines, results = _written(graph, _show_text, width, lambda i: f"t{i}")
    return "\n".join([*(f"{name} = {piece.text}" for name, piece in lines), ", ".join(p.text for p in results)])


def latex(graph: Graph, *, width: int = _WIDTH * 4) -> str:
    r"""Return the graph as LaTeX, for math mode; several lines, where it is long, as an `aligned` block.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x: wg.sqrt(x) / (1 + x ** 2))(wg.spec(()))
    >>> print(wg.symbolic.latex(g))
    \frac{\sqrt{x}}{1 + x^{2}}
    """
    lines, results = _written(graph, _show_latex, width, lambda i: f"t_{{{i}}}")
    shown = r",\quad ".join(p.text for p in results)
    if not lines:
        return shown
    rows = [f"{name} &= {piece.text}" for name, piece in lines] + [f"& {shown}"]
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def _written(
    graph: Graph, show: Show, width: int, name_of: Callable[[int], str]
) -> tuple[list[tuple[str, Piece]], list[Piece]]:
    """Return named lines, and the results."""
    whole = _pieces(graph, show, None, name_of, width)
    if whole is not None:
        return [], [whole[0][n] for n in graph.outputs]
    uses = Counter(e for node in graph.nodes for e in inputs_of(node))
    found = _pieces(graph, show, uses, name_of, width)
    assert found is not None
    pieces, lines = found
    return lines, [pieces[n] for n in graph.outputs]


def _pieces(
    graph: Graph, show: Show, uses: Counter[Node] | None, name_of: Callable[[int], str], width: int
) -> tuple[dict[Node, Piece], list[tuple[str, Piece]]] | None:
    """Return every node written; without `uses` in one line, or None where that is too long."""
    pieces: dict[Node, Piece] = {}
    lines: list[tuple[str, Piece]] = []
    taken = {graph.names[n] for n in graph.inputs}
    number = 0
    for node in graph.nodes:
        if node in graph.inputs:
            pieces[node] = _symbol(graph.names[node], show)
            continue
        args = [pieces[e] if isinstance(e, Node) else _literal(e, show) for e in node.inputs]
        piece = show(node, args)
        piece = piece._replace(depth=1 + max((a.depth for a in args), default=0))
        if uses is None:
            if len(piece.text) > width or piece.depth > _DEPTH:
                return None
        elif node.op is not CONSTANT and node.op is not OUTPUT and isinstance(node.spec, Spec):
            shared = uses[node] > 1 and len(piece.text) > _SHORT
            if shared or (uses[node] and (len(piece.text) > 2 * width or piece.depth > _DEPTH)):
                number += 1
                while (name := name_of(number)) in taken:
                    number += 1
                lines.append((name, piece))
                piece = Piece(name, ATOM)
        pieces[node] = piece
    return pieces, lines


def _bracketed(piece: Piece, least: int, left: str = "(", right: str = ")") -> str:
    return piece.text if piece.binds >= least else f"{left}{piece.text}{right}"


def _symbol(name: str, show: Show) -> Piece:
    if show is _show_text:
        return Piece(re.sub(r"\.(\d+)", r"[\1]", name), ATOM)  # as Python writes places in pytrees
    return Piece(_latex_name(name), ATOM)


def _literal(value: Any, show: Show) -> Piece:
    written = number_text(value) if isinstance(value, (bool, int, float)) else encode(value)
    outside = re.sub(r"\([^()]*\)", "", written)
    binds = _PRODUCT if "/" in outside or "*" in outside or written[0] == "-" else ATOM
    return Piece(written if show is _show_text else _latex_number(written), binds)


# -- text


def _show_text(node: Node, args: Sequence[Piece]) -> Piece:
    name = node.op.name
    if node.op is CONSTANT:
        return _constant(node, _show_text)
    if name == "broadcast":
        return args[0]
    if name == "cast":
        return Piece(f"{node.spec.dtype.name}({args[0].text})", ATOM)
    if node.op is OUTPUT:
        return Piece(f"{_bracketed(args[0], ATOM)}[{node.attrs['index']}]", ATOM)
    facets = node.op.facets
    if "prefix" in facets:
        sign = facets["prefix"]
        # A unary minus binds as a product does, as people read it.
        binds = _PRODUCT if sign == "-" else _POWER
        return Piece(sign + _after_sign(args[0], binds), binds)
    if "infix" in facets:
        operator, bound = facets["infix"]
        return _infix(operator, _BINDS[bound], *args)
    if name == "reciprocal":
        return _infix("/", _PRODUCT, Piece("1", ATOM), args[0])
    if name == "square":
        return _infix("**", _POWER, args[0], Piece("2", ATOM))
    inner = [a.text for a in args]
    inner += [f"{key}={encode(value)}" for key, value in node.attrs.items() if _differs(name, key, value)]
    return Piece(f"{name}({', '.join(inner)})", ATOM)


def _after_sign(piece: Piece, least: int) -> str:
    return f"({piece.text})" if piece.text[0] in "-~" else _bracketed(piece, least)


def _infix(operator: str, binds: int, left: Piece, right: Piece) -> Piece:
    # Powers bind to the right, comparisons to neither side, everything else to the left.
    least_left = binds + 1 if operator.strip() == "**" or binds == 0 else binds
    least_right = binds if operator in (" + ",) else binds if operator == "**" else binds + 1
    if operator == "*":
        least_right = binds + (1 if "/" in right.text or "%" in right.text else 0)
    shown = _bracketed(right, least_right)
    if operator == "**" and re.fullmatch(r"-\d+", right.text):
        shown = right.text
    elif right.text[0] == "-" and shown[0] != "(":
        shown = f"({shown})"
    return Piece(f"{_bracketed(left, least_left)}{operator}{shown}", binds)


@cache
def _defaults(name: str) -> dict[str, Any]:
    """Return the defaults of the public function of an op's name."""
    if name not in PUBLIC:
        return {}
    return {p.name: p.default for p in inspect.signature(PUBLIC[name]).parameters.values()}


def _differs(name: str, key: str, value: Any) -> bool:
    known = _defaults(name).get(key, inspect.Parameter.empty)
    return type(known) is not type(value) or bool(known != value)


def _constant(node: Node, show: Show) -> Piece:
    value = node.attrs["value"]
    if value.ndim == 0 and value.dtype.kind in "biuf":
        return _literal(value.item(), show)
    if value.ndim == 0 and is_foreign(value.dtype):
        return _literal(float(str(value)), show)
    shown = encode_array(value)
    if shown.startswith("["):
        return Piece(shown, ATOM)
    return Piece(f"constant<{node.spec}>", ATOM)


# -- LaTeX


def _show_latex(node: Node, args: Sequence[Piece]) -> Piece:
    name = node.op.name
    if node.op is CONSTANT:
        return _constant(node, _show_latex)
    if name == "broadcast" or name == "cast":
        return args[0]
    if name == "pow" or name == "square":
        exponent = args[1].text if name == "pow" else "2"
        return Piece(f"{_latex_bracketed(args[0], ATOM)}^{{{exponent}}}", _POWER)
    written = latex_of(node.op)
    binds = _BINDS[written.binds]
    if written.how == "prefix":
        shown = _latex_bracketed(args[0], binds)
        return Piece(written.text + (rf"\left({args[0].text}\right)" if args[0].text[0] == "-" else shown), binds)
    if written.how == "form":
        return Piece(written.text.format(*(a.text for a in args)), binds)
    if written.how == "infix":
        return _latex_infix(written.text, binds, *args)
    inner = [a.text for a in args]
    inner += [rf"\mathrm{{{_escaped(k)}={_escaped(encode(v))}}}" for k, v in node.attrs.items() if _differs(name, k, v)]
    return Piece(rf"{written.text}\left({', '.join(inner)}\right)", ATOM)


def _latex_bracketed(piece: Piece, least: int) -> str:
    return _bracketed(piece, least, r"\left(", r"\right)")


def latex_of(op: Op) -> Latex:
    """Return the way an op is written in LaTeX: as declared, or as a function by its name."""
    return op.facets.get("latex", Latex(rf"\operatorname{{{_escaped(op.name)}}}"))


def _latex_infix(operator: str, binds: int, left: Piece, right: Piece) -> Piece:
    shown = _latex_bracketed(right, binds + (operator in (" - ", r" \bmod ")))
    if right.text[0] == "-" and not shown.startswith(r"\left("):
        shown = rf"\left({shown}\right)"
    if operator == " " and shown[0].isdigit():
        operator = r" \cdot "
    return Piece(f"{_latex_bracketed(left, binds)}{operator}{shown}", binds)


def _latex_name(name: str) -> str:
    if len(name) == 1:
        return name
    if name in _GREEK:
        return f"\\{name}"
    head, _, tail = name.partition("_")
    if head and tail:
        return f"{_latex_name(head)}_{{{_escaped(tail)}}}"
    if len(name) > 1 and name[0].isalpha() and name[1:].isdigit():
        return f"{name[0]}_{{{name[1:]}}}"
    return rf"\mathrm{{{_escaped(name)}}}"


def _latex_number(written: str) -> str:
    written = re.sub(r"sqrt\(([^()]*)\)", r"\\sqrt{\1}", written)
    for plain, shown in (("log(2)", r"\log 2"), ("log(10)", r"\log 10"), ("pi", r"\pi"), ("inf", r"\infty")):
        written = written.replace(plain, shown)
    mantissa, e, exponent = written.partition("e")
    if e and mantissa and exponent.lstrip("+-").isdigit():
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
    over = re.fullmatch(r"(-?)([^/]*)/(.*)", written.replace("*", " "))
    return written.replace("*", " ") if over is None else rf"{over[1]}\frac{{{over[2]}}}{{{over[3]}}}"


def _escaped(name: str) -> str:
    return name.replace("_", r"\_").replace("<", r"\langle ").replace(">", r"\rangle ")
