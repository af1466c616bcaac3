"""What is known of an op stands beside its declaration: no other module has a table keyed by op names.

A table is a display (dict, set, list, tuple, `"...".split()`) of strings most of which are names of ops. Tables that
are left stand here with the reason, and so do displays whose strings only happen to be names of ops.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import wengert as wg
from wengert.core.ops.op import DEFERRED, TABLE

SOURCE = Path(wg.__file__).parent
NAMES = {*TABLE, *DEFERRED}

# Where, under which name (or with which first entry), and why it is left.
TABLES = {
    "execute/native/scalar/emitters.py: _UNARY": "native code of functions: LLVM is known to the compiler alone",
    "execute/native/scalar/emitters.py: _BINARY": "the same, of two operands",
    "execute/native/scalar/emitters.py: _SYMBOLS": "LLVM's words for comparisons",
    "execute/native/scalar/emitters.py: _CODE_ATTRS": "which attributes an emitter writes into the code",
    "execute/native/scalar/combine.py: _WAYS": "native code of what combines two elements",
    "execute/native/rewrite/canonical.py: _RULES": "a rewrite of one op, and of its transpose",
    "execute/native/rewrite/canonical.py: _MOVED": "the two views that this rewrite knows how to move",
    "execute/native/rewrite/views.py: VIEWS": "a rewrite of one op, and of its transpose",
    "execute/native/rewrite/pairs.py: _ALIKE": "ops that treat both parts of complex numbers alike, in this rewrite",
    "execute/native/rewrite/loops/invariants.py: _LOOPS": "loops that this rewrite knows how to write anew",
    "transforms/derivatives/squares.py: POWERS": "the three ops that an even power may be written with",
    "explorer/findings/programs.py: _LOGARITHMS": "advice on pairs of ops: knowledge of neither alone",
    "explorer/findings/programs.py: _TWICE": "advice on pairs of ops",
    "symbolic/functions.py: ARITHMETIC": "constructors of the normal form, which consists of these ops",
    "symbolic/tidy.py: _QUOTIENTS": "identities between functions",
    "symbolic/tidy.py: _SUMS_TO_ONE": "identities between functions",
    "transforms/control/rules.py: switch ...": "rules of the four control ops, which graphs as attributes make long",
    "transforms/jacobians/sparsity.py: _CONTROL": "rules of the four control ops",
}
# Displays whose strings are not about ops, though ops have such names.
HOMONYMS = {
    "__init__.py: all_gather ...": "which module declares ops that are loaded when first used",
    "__init__.py: partial_scan ...": "which module declares ops that are loaded when first used",
    "deploy/web.py: names": "roles of a call's fields",
    "core/graph/closed.py: NodeKind": "kinds of nodes",
    "core/ops/facets.py: over_parts": "values of a facet",
    "execute/native/run/guard.py: input ...": "kinds of buffers",
    "execute/native/scalar/math/library.py: __all__": "functions of the module",
    "explain/gradients/flow.py: _LEAVES": "kinds of nodes",
    "explain/pictures/dot.py: _SHAPES": "kinds of boxes",
    "explain/pictures/draw.py: _LEAF_KINDS": "kinds of boxes",
    "explain/pictures/draw.py: outline": "kinds of boxes",
    "explain/pictures/draw.py: slant": "kinds of boxes",
    "explorer/document/stats.py: out": "statistics of an array",
    "explorer/playground/protocol.py: parameter ...": "fields of a message",
    "explorer/playground/network.py: ACTIVATIONS": "choices that a visitor has",
    "interop/onnx/operators/index.py: _REDUCTIONS": "values of an ONNX attribute",
    "interop/onnx/operators/index.py: combine": "values of an ONNX attribute",
    "interop/onnx/operators/normalize.py: none ...": "values of an ONNX attribute",
    "interop/tensorboard.py: min ...": "fields of a record",
    "nn/functions/sparse.py: sum ...": "values of an argument, which are PyTorch's",
    "nn/layers/attention.py: _ACTIVATIONS": "values of an argument, which are PyTorch's",
    "passes/strategies.py: sum ...": "values of a facet",
    "special.py: __all__": "functions of the module",
}


def strings(node: ast.AST) -> list[str]:
    """The keys or elements of a display that are text."""
    if isinstance(node, ast.Dict):
        entries: list[ast.expr | None] = list(node.keys)
    elif isinstance(node, (ast.Set, ast.List, ast.Tuple)):
        entries = list(node.elts)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        text = node.func.value
        return text.value.split() if isinstance(text, ast.Constant) and isinstance(text.value, str) else []
    else:
        return []
    return [e.value for e in entries if isinstance(e, ast.Constant) and isinstance(e.value, str)]


def is_table(node: ast.AST) -> bool:
    found = strings(node)
    of_ops = sum(name in NAMES for name in found)
    return of_ops >= 2 and of_ops >= 0.6 * len(found)


def tables(text: str) -> Iterator[str]:
    """The tables in a module, each by the name that it is bound to, or by its first entry."""
    stack: list[tuple[ast.AST, str]] = [(ast.parse(text), "")]
    while stack:
        node, name = stack.pop()
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = ast.unparse(target) if isinstance(target, ast.Name) else ""
        elif isinstance(node, ast.stmt):
            name = ""
        if is_table(node):
            yield name or f"{strings(node)[0]} ..."
            continue  # what is inside belongs to it
        if isinstance(node, ast.Compare):
            # `x in ("a", "b")` compares twice.
            pairs = [c for c in node.comparators if isinstance(c, ast.Tuple) and len(c.elts) == 2]
            stack += [(child, name) for child in ast.iter_child_nodes(node) if child not in pairs]
        else:
            stack += [(child, name) for child in ast.iter_child_nodes(node)]


def found_tables() -> set[str]:
    # `torch` is made of lists of PyTorch's names, many of which are an op's too.
    elsewhere = ("ops", "torch")
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in elsewhere]
    return {f"{path.relative_to(SOURCE).as_posix()}: {name}" for path in paths for name in tables(path.read_text())}


def test_a_table_is_found() -> None:
    assert list(tables('_COSTS = {"exp": 15, "log": 15}')) == ["_COSTS"]
    assert list(tables('if op.name in {"exp", "log", "sin"}: pass')) == ["exp ..."]
    assert list(tables('names = frozenset("exp log".split()) | other')) == ["names"]
    assert list(tables('x = {"exp": ("sin", "cos"), "log": 1}')) == ["x"]
    assert not list(tables('x = ("exp", "a word", "another")'))
    assert not list(tables('if name in ("exp", "log"): pass'))


def test_op_names_are_keys_of_no_other_table() -> None:
    found = found_tables()
    known = {*TABLES, *HOMONYMS}
    assert not found - known, f"say it beside the ops' declarations, as a facet: {sorted(found - known)}"
    assert not known - found, f"no longer there: {sorted(known - found)}"


def test_few_are_left() -> None:
    assert len(TABLES) < 20
