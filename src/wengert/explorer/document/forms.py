"""The written forms of operations: symbols, formulas and sentences, by op or from its facts.

`FORMS` has a symbol, a formula, local derivatives and a sentence for the ops that people write down with
signs. Everything else follows from the op table: the pattern of the backward step from an op's declared facts
(the patterns are those of :func:`wengert.explain.flow`), a sentence from the pattern, and the name is the symbol.

Formulas are templates: {0} is the first operand, {out} the result; `^` raises and `_` lowers what follows. A `|` in
`local` separates the operands. Derivatives are textbook ones (Abramowitz and Stegun, chapters 3, 4, 6, 7) and are
tested against the facts.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from ...core.ops.op import Joint, Linear, Op, Partial, Route, Vjp, find_op

Pattern = Literal["distribute", "swap", "route", "accumulate", "scale", "custom", "none"]

# How tightly formulas bind.
LOOSEST, SUM, PRODUCT, SIGN, POWER, ATOM = 0, 1, 2, 3, 4, 9


class Form(NamedTuple):
    """The written form of one op: in a node, as a formula, and its derivative in each operand."""

    symbol: str
    form: str = ""
    precedence: int = ATOM
    local: str = ""
    say: str = ""


FORMS: Mapping[str, Form] = {
    "add": Form("+", "{0} + {1}", SUM, "1|1", "Addition copies what arrives to *every* input."),
    "subtract": Form(
        "−",
        "{0} − {1}",
        SUM,
        "1|−1",
        "Subtraction copies what arrives; for what is taken away the sign turns.",
    ),
    "multiply": Form("×", "{0} · {1}", PRODUCT, "{1}|{0}", "Multiplication hands each input the *other* one's value."),
    "divide": Form(
        "÷",
        "{0} / {1}",
        PRODUCT,
        "1 / {1}|−{0} / {1}²",
        "Division scales what arrives by 1 over the divisor; the divisor gets it with the sign turned.",
    ),
    "negative": Form("−", "−{0}", SIGN, "−1", "A minus sign turns the sign of what arrives."),
    "positive": Form("+", "+{0}", SIGN, "1", "A plus sign hands on what arrives."),
    "reciprocal": Form("1/v", "1 / {0}", PRODUCT, "−{out}²", "A reciprocal scales what arrives by −1 over the square."),
    "pow": Form(
        "vⁿ",
        "{0}^{1}",
        POWER,
        "{1} · {0}^({1} − 1)|{out} · ln {0}",
        "A power scales what arrives by the exponent times the power below.",
    ),
    "square": Form("v²", "{0}²", POWER, "2 · {0}", "A square scales what arrives by *twice* the input."),
    "sqrt": Form("√", "√{0}", SIGN, "1 / (2 · {out})", "A root scales what arrives by 1 over *twice the root*."),
    "rsqrt": Form(
        "1/√", "1 / √{0}", PRODUCT, "−{out}³ / 2", "It scales what arrives by minus half the cube of the result."
    ),
    "hypot": Form("hypot", "√({0}² + {1}²)", SIGN, "{0} / {out}|{1} / {out}"),
    "exp": Form("eˣ", "e^({0})", POWER, "{out}", "An exponential scales what arrives by its *own value*."),
    "expm1": Form("eˣ−1", "e^({0}) − 1", SUM, "{out} + 1", "It scales what arrives by the exponential of the input."),
    "log": Form("ln", "ln {0}", SIGN, "1 / {0}", "A logarithm scales what arrives by *1 over* its input."),
    "log1p": Form("ln 1+", "ln(1 + {0})", ATOM, "1 / (1 + {0})"),
    "log2": Form("log₂", "log₂ {0}", SIGN, "1 / ({0} · ln 2)"),
    "log10": Form("log₁₀", "log₁₀ {0}", SIGN, "1 / ({0} · ln 10)"),
    "logaddexp": Form("ln Σe", "ln(e^({0}) + e^({1}))", ATOM, "e^({0} − {out})|e^({1} − {out})"),
    "sigmoid": Form(
        "σ",
        "σ({0})",
        ATOM,
        "{out} · (1 − {out})",
        "A sigmoid scales what arrives by σ · (1 − σ): a quarter at most, almost nothing far from 0.",
    ),
    "sin": Form("sin", "sin({0})", ATOM, "cos({0})", "A sine scales what arrives by the *cosine*."),
    "cos": Form("cos", "cos({0})", ATOM, "−sin({0})", "A cosine scales what arrives by minus the *sine*."),
    "tan": Form("tan", "tan({0})", ATOM, "1 + {out}²"),
    "asin": Form("asin", "asin({0})", ATOM, "1 / √(1 − {0}²)"),
    "acos": Form("acos", "acos({0})", ATOM, "−1 / √(1 − {0}²)"),
    "atan": Form("atan", "atan({0})", ATOM, "1 / (1 + {0}²)"),
    "atan2": Form("atan2", "atan2({0}, {1})", ATOM, "{1} / ({0}² + {1}²)|−{0} / ({0}² + {1}²)"),
    "sinh": Form("sinh", "sinh({0})", ATOM, "cosh({0})"),
    "cosh": Form("cosh", "cosh({0})", ATOM, "sinh({0})"),
    "tanh": Form(
        "tanh",
        "tanh({0})",
        ATOM,
        "1 − {out}²",
        "A tanh scales what arrives by 1 − tanh²: all of it at 0, almost nothing far from 0.",
    ),
    "asinh": Form("asinh", "asinh({0})", ATOM, "1 / √({0}² + 1)"),
    "acosh": Form("acosh", "acosh({0})", ATOM, "1 / √({0}² − 1)"),
    "atanh": Form("atanh", "atanh({0})", ATOM, "1 / (1 − {0}²)"),
    "erf": Form("erf", "erf({0})", ATOM, "2 / √π · e^(−{0}²)"),
    "erfc": Form("erfc", "erfc({0})", ATOM, "−2 / √π · e^(−{0}²)"),
    "abs": Form(
        "|v|", "|{0}|", ATOM, "sign({0})", "An absolute value hands on what arrives with the sign of its input."
    ),
    "maximum": Form("max", "max({0}, {1})", ATOM, "", "The larger input gets everything, the other nothing."),
    "minimum": Form("min", "min({0}, {1})", ATOM, "", "The smaller input gets everything, the other nothing."),
    "relu": Form("relu", "relu({0})", ATOM, "", "Where the input was positive all passes; elsewhere nothing does."),
    "clip": Form("clip", "clip({0}, {1}, {2})", ATOM, "", "Between the bounds all passes; outside the bound gets it."),
    "where": Form(
        "where", "where({0}, {1}, {2})", ATOM, "", "Each element's gradient goes to the one that was chosen."
    ),
    "floor": Form("⌊v⌋", "⌊{0}⌋", ATOM, "0", "A whole part does not move with its input: nothing passes."),
    "ceil": Form("⌈v⌉", "⌈{0}⌉", ATOM, "0", "A whole part does not move with its input: nothing passes."),
    "round": Form("round", "round({0})", ATOM, "0", "Rounding does not move with its input: nothing passes."),
    "trunc": Form("trunc", "trunc({0})", ATOM, "0", "A whole part does not move with its input: nothing passes."),
    "sign": Form("sign", "sign({0})", ATOM, "0", "A sign does not move with its input: nothing passes."),
    "floor_divide": Form(
        "⌊÷⌋", "⌊{0} / {1}⌋", ATOM, "0|0", "A whole quotient does not move with its inputs: nothing passes."
    ),
    "remainder": Form("mod", "{0} mod {1}", PRODUCT, "1|−⌊{0} / {1}⌋"),
    "lgamma": Form("ln Γ", "ln Γ({0})", ATOM, "ψ({0})"),
    "digamma": Form("ψ", "ψ({0})", ATOM, "ψ_1({0})"),
    "xlogy": Form("x ln y", "{0} · ln {1}", PRODUCT, "ln {1}|{0} / {1}"),
    "xlog1py": Form("x ln 1+y", "{0} · ln(1 + {1})", PRODUCT, "ln(1 + {1})|{0} / (1 + {1})"),
    "equal": Form("=", "{0} = {1}", LOOSEST),
    "not_equal": Form("≠", "{0} ≠ {1}", LOOSEST),
    "less": Form("<", "{0} < {1}", LOOSEST),
    "less_equal": Form("≤", "{0} ≤ {1}", LOOSEST),
    "greater": Form(">", "{0} > {1}", LOOSEST),
    "greater_equal": Form("≥", "{0} ≥ {1}", LOOSEST),
    "logical_and": Form("∧", "{0} ∧ {1}", LOOSEST),
    "logical_or": Form("∨", "{0} ∨ {1}", LOOSEST),
    "logical_xor": Form("⊻", "{0} ⊻ {1}", LOOSEST),
    "logical_not": Form("¬", "¬{0}", SIGN),
    "bitwise_and": Form("&", "{0} & {1}", LOOSEST),
    "bitwise_or": Form("|", "{0} | {1}", LOOSEST),
    "bitwise_xor": Form("⊕", "{0} ⊕ {1}", LOOSEST),
    "bitwise_invert": Form("~", "~{0}", SIGN),
    "bitwise_left_shift": Form("≪", "{0} ≪ {1}", LOOSEST),
    "bitwise_right_shift": Form("≫", "{0} ≫ {1}", LOOSEST),
    "conj": Form("v̄", "conj({0})"),
    "real": Form("Re", "Re({0})"),
    "imag": Form("Im", "Im({0})"),
    "stop_gradient": Form("stop", "stop({0})", ATOM, "0", "The gradient stops here, as the program says."),
    "matmul": Form(
        "@",
        "{0} {1}",
        PRODUCT,
        "{1}ᵀ|{0}ᵀ",
        "A product of matrices hands each the gradient times the *other*, transposed.",
    ),
    "matvec": Form(
        "@", "{0} {1}", PRODUCT, "{1}|{0}ᵀ", "Matrix and vector each get the gradient times the *other* one's values."
    ),
    "vecmat": Form(
        "@", "{0} {1}", PRODUCT, "{1}ᵀ|{0}", "Vector and matrix each get the gradient times the *other* one's values."
    ),
    "dot": Form("·", "{0} · {1}", PRODUCT, "{1}|{0}", "A dot product hands each vector the *other* one, scaled."),
    "einsum": Form("Σ", "", ATOM, "", "Each operand gets the gradient summed with the *others* over their letters."),
    "linear": Form(
        "xWᵀ", "", ATOM, "", "Input and weight each get the gradient times the *other*; the bias gets its sum."
    ),
    "sum": Form("Σ", "Σ {0}", PRODUCT, "1", "A sum copies what arrives to *every* element."),
    "mean": Form("mean", "mean({0})", ATOM, "1 / n", "A mean gives every element an equal *share* of what arrives."),
    "max": Form("max", "max({0})", ATOM, "", "The largest element gets everything; equals share."),
    "min": Form("min", "min({0})", ATOM, "", "The smallest element gets everything; equals share."),
    "prod": Form(
        "Π", "Π {0}", PRODUCT, "{out} / {0}", "Each element gets what arrives times the product of all *others*."
    ),
    "var": Form("var", "var({0})", ATOM, "", "Each element gets its distance from the mean, scaled."),
    "l2_norm": Form("‖v‖", "‖{0}‖", ATOM, "{0} / {out}", "A length sends what arrives along the vector's *direction*."),
    "softmax": Form(
        "softmax",
        "softmax({0})",
        ATOM,
        "",
        "Each score gets its probability times how far its gradient is from the average.",
    ),
    "logsumexp": Form(
        "ln Σe", "ln Σ e^({0})", SIGN, "softmax({0})", "Each element gets its *softmax share* of what arrives."
    ),
    "cross_entropy": Form("CE", "", ATOM, "", "Each score gets its probability, less 1 for the right class."),
    "mse": Form("mse", "", ATOM, "", "Each prediction gets twice its error, divided by their number."),
    "dropout": Form("drop", "", ATOM, "", "What was kept passes, scaled up; what was dropped gets nothing."),
    "reshape": Form("reshape", "", ATOM, "", "Gradients go back to where their elements were."),
    "broadcast": Form(
        "copy", "", ATOM, "", "One value was used in many places: what arrives from all of them *adds up*."
    ),
    "permute": Form("ᵀ", "", ATOM, "", "Gradients go back to where their elements were."),
    "cast": Form("cast", "", ATOM, "", "Only the number format changes; what arrives passes."),
    "slice": Form("[ ]", "", ATOM, "", "The picked elements get what arrives; the others get nothing."),
    "index": Form("[ ]", "", ATOM, "", "Each picked element gets what arrives; picked twice, it *adds up*."),
    "gather": Form("[ ]", "", ATOM, "", "Each picked element gets what arrives; picked twice, it *adds up*."),
    "concat": Form("⧺", "", ATOM, "", "Each part gets its own piece of what arrives."),
    "stack": Form("⧺", "", ATOM, "", "Each part gets its own piece of what arrives."),
    "attention": Form("attn", "", ATOM, "", "Queries, keys and values each get their part, weighted by the attention."),
    "layer_norm": Form(
        "norm", "", ATOM, "", "Each element gets what is left after its mean and its scale are taken out."
    ),
    "rms_norm": Form("norm", "", ATOM, "", "Each element gets what is left after its scale is taken out."),
    "batch_norm": Form(
        "norm", "", ATOM, "", "Each element gets what is left after the batch's mean and scale are taken out."
    ),
    "output": Form("#", "", ATOM, "", "One of several results: its gradient goes back to the operation."),
}

_SAID: Mapping[Pattern, str] = {
    "distribute": "{} hands what arrives to each input.",
    "swap": "{} hands each input what arrives times the *other* one's values.",
    "route": "{} sends what arrives back to where the values came from.",
    "accumulate": "{} used values several times: what arrives adds up.",
    "scale": "{} scales what arrives by its slope.",
    "custom": "A rule of the program's own says what goes back through {}.",
    "none": "{} has no slope: nothing goes back through it.",
}
# Linear ops with coefficients 0 and 1, by what happens to elements: several become one, or one becomes several. The
# others move them.
_MERGE = frozenset({"sum", "mean", "sum_runs"})
_COPY = frozenset({"broadcast", "tile", "repeat", "cumulative_sum", "spread_pool", "sum_pool"})


def pattern(op: Op, operands: int, numbers: frozenset[int] = frozenset()) -> Pattern:
    """Return what happens to gradients at an op of so many operands, of which `numbers`, by position, are plain.

    Of ops that move elements only the op is asked, not the values: an index may pick one twice.
    """
    if find_op(op.name) is not op:
        return "custom"
    if op.kind == "leaf":
        return "none"
    if isinstance(op.joint, Joint):
        return "scale"
    facts = {i: op.fact(i) for i in range(operands) if op.fact(i).differentiable}
    if not facts and op.body is not None:
        return "scale"  # by what is inside it
    followed = [f for i, f in facts.items() if i not in numbers]
    if not followed:
        return "none" if op.name != "output" else "route"
    if any(isinstance(f, Route) for f in followed) or _picks(op, followed):
        return "route"
    if all(isinstance(f, Linear) and f.selects for f in followed):
        return "distribute" if op.name in _MERGE else "accumulate" if op.name in _COPY else "route"
    if (len(facts) < 2 and not op.variadic) or not all(
        isinstance(f, (Linear, Partial)) and not f.needs_out for f in facts.values()
    ):
        return "scale"
    if not any(f.needs for f in facts.values()):
        return "distribute"
    others = all(i not in f.needs or op.variadic for i, f in facts.items())
    return "swap" if others and operands - len(numbers) > 1 else "scale"


def _picks(op: Op, facts: Sequence[Any]) -> bool:
    """Return whether a general rule hands everything on, to the elements that were picked: a maximum, not a norm."""
    return len(facts) == 1 and isinstance(facts[0], Vjp) and facts[0].present is not None and op.name in _PICKS


_PICKS = frozenset({"max", "min", "max_pool"})
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclass(frozen=True)
class Shown:
    """An op as shown, with the numbers among its operands written in."""

    symbol: str
    pattern: Pattern
    form: str
    precedence: int
    local: tuple[str, ...]
    say: str


def shown(op: Op, operands: int, literals: Mapping[int, Any] | None = None) -> Shown:
    """Return how an op with so many operands is shown; `literals` are those that are plain numbers, by position."""
    literals = literals or {}
    form = FORMS.get(op.name, Form(_word(op.name)))
    text, local, symbol, precedence = (
        form.form,
        form.local.split("|") if form.local else [],
        form.symbol,
        form.precedence,
    )
    found = pattern(op, operands, frozenset(literals))
    said = form.say or _of_formulas(op) or _SAID[found].format(_word(op.name))
    if op.name == "pow" and 1 in literals:
        text, local, symbol, said = _power(literals[1])
    elif op.name == "multiply" and literals:
        said = "It scales what arrives by a *fixed number*."
    local = [_filled(part, literals) for part in local]
    local += [""] * (operands - len(local))
    return Shown(symbol, found, _filled(text, literals), precedence, tuple(local[:operands]), said)


def _of_formulas(op: Op) -> str:
    """Return a sentence on an op that is declared by a formula."""
    if not op.formulas:
        return ""
    whole = f"a {op.combine} of elements: of one it is" if op.combine else "" if len(op.formulas) > 1 else "short for"
    return " ".join(
        f"{_word(op.name)} is {whole} {' and '.join(op.formulas)}; its slope is by the chain rule of these.".split()
    )


def _power(exponent: Any) -> tuple[str, list[str], str, str]:
    """Return the form of a power with a number for exponent: {0}², slope 2 · {0}."""
    less = number(exponent - 1)
    raised = _raised("{0}", exponent - 1)
    slope = {"1": "1", "0": "0"}.get(number(exponent)) or (f"{number(exponent)} · {raised}" if less != "0" else "1")
    said = f"A power scales what arrives by its slope, {slope.format('v')}."
    return _raised("{0}", exponent), [slope, ""], _raised("v", exponent), said


def _raised(base: str, exponent: Any) -> str:
    text = number(exponent).replace("−", "-")
    if text == "1":
        return base
    small = text.lstrip("-").isdigit()
    return base + (text.translate(_SUPERSCRIPT) if small else f"^({number(exponent)})")


def number(value: Any) -> str:
    """Return a number as formulas have it: 2, 0.5, −1, 1e−05."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    text = str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return text.replace("-", "−")


def _filled(template: str, literals: Mapping[int, Any]) -> str:
    """Return a template with the numbers among the operands written in; other holes stay."""
    for index, value in literals.items():
        text = number(value)
        hole = "{" + str(index) + "}"
        if text.startswith("−") and not template.startswith(hole):
            text = f"({text})"
        template = template.replace(hole, text)
    return template


@cache
def _word(name: str) -> str:
    return name.replace("_", " ")


def holes(template: str) -> set[str]:
    """Return the names of the holes in a template."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
