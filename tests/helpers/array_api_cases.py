"""The special cases of the Array API standard 2024.12, as tables, and the meanings of their words.

A line is `condition ... result`: one condition for a unary function of reals, two for a binary one or
for the parts (a, b) of a complex argument, whose result has two words. Conditions name sets of sample
values. In results `|` separates alternatives that the standard allows, `~` marks an approximation, `?`
a sign that is unspecified.

Source: https://data-apis.org/array-api/2024.12/API_specification/elementwise_functions.html
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

INF, NAN = math.inf, math.nan


def samples(dtype: Any) -> dict[str, list[float]]:
    """Return the sets of sample values that conditions name, for a real floating dtype."""
    info = np.finfo(dtype)
    small = [float(info.smallest_subnormal), float(info.tiny), 0.25, 0.5]
    large = [1.5, 2.0, 3.0, 1024.0, float(info.max)]
    pos = [*small, 1.0, *large]
    neg = [-v for v in pos]
    zero = [0.0, -0.0]
    return {
        "nan": [NAN],
        "inf": [INF],
        "-inf": [-INF],
        "±inf": [INF, -INF],
        "+0": [0.0],
        "-0": [-0.0],
        "0": zero,
        "1": [1.0],
        "-1": [-1.0],
        "±1": [1.0, -1.0],
        "pos": pos,
        "neg": neg,
        "nonzero": pos + neg,
        "finite": pos + neg + zero,
        "positive": [*pos, INF],
        "negative": [*neg, -INF],
        "number": [*pos, *neg, *zero, INF, -INF],
        "any": [*pos, *neg, *zero, INF, -INF, NAN],
        "not0": [*pos, *neg, INF, -INF],
        "not1": [-1.0, 0.0, -0.0, 0.5, 2.0, INF, -INF, NAN],
        ">1": [*large, INF],
        "<-1": [*(-v for v in large), -INF],
        "<1": [*small, *neg, *zero, -INF],
        "±>1": [*large, *(-v for v in large), INF, -INF],
        "±<1": [*small, *(-v for v in small), *zero],
        "odd>0": [1.0, 3.0],
        "odd<0": [-1.0, -3.0],
        "even>0": [0.5, 2.0, 1024.0, 2.5, INF],
        "even<0": [-0.5, -2.0, -1024.0, -2.5, -INF],
        "fraction": [0.5, -0.5, 1.5, -2.5],
        "integer": [1.0, -2.0, 3.0, 1024.0],
        "finitenan": [1.0, -2.0, 0.0, NAN],
        # In complex exponentials the other part must not overflow by itself.
        "modest": [0.25, 1.0, 2.0, -0.25, -1.0, -2.0],
        "modest>0": [0.25, 1.0, 2.0],
    }


UNARY = {
    "abs": "nan nan; -0 +0; -inf inf; neg -x",
    "acos": "nan nan; >1 nan; <-1 nan; 1 +0",
    "acosh": "nan nan; <1 nan; 1 +0; inf inf",
    "asin": "nan nan; >1 nan; <-1 nan; +0 +0; -0 -0",
    "asinh": "nan nan; +0 +0; -0 -0; inf inf; -inf -inf",
    "atan": "nan nan; +0 +0; -0 -0; inf ~pi/2; -inf ~-pi/2",
    "atanh": "nan nan; <-1 nan; >1 nan; -1 -inf; 1 inf; +0 +0; -0 -0",
    "ceil": "integer x; inf inf; -inf -inf; +0 +0; -0 -0; nan nan",
    "conj": "number x; nan nan",
    "cos": "nan nan; 0 1; ±inf nan",
    "cosh": "nan nan; 0 1; ±inf inf",
    "exp": "nan nan; 0 1; inf inf; -inf +0",
    "expm1": "nan nan; +0 +0; -0 -0; inf inf; -inf -1",
    "floor": "integer x; inf inf; -inf -inf; +0 +0; -0 -0; nan nan",
    "isfinite": "±inf false; nan false; finite true",
    "isinf": "±inf true; finite false; nan false",
    "isnan": "nan true; number false",
    "log": "nan nan; negative nan; 0 -inf; 1 +0; inf inf",
    "log1p": "nan nan; <-1 nan; -1 -inf; -0 -0; +0 +0; inf inf",
    "log2": "nan nan; negative nan; 0 -inf; 1 +0; inf inf",
    "log10": "nan nan; negative nan; 0 -inf; 1 +0; inf inf",
    "negative": "number -x; nan nan",
    "positive": "number x; nan nan",
    "real": "number x; nan nan",
    "reciprocal": "nan nan; +0 inf; -0 -inf; inf +0; -inf -0; 1 1",
    "round": "integer x; inf inf; -inf -inf; +0 +0; -0 -0; nan nan",
    "sign": "negative -1; 0 0; positive 1; nan nan",
    "signbit": "+0 false; -0 true; inf false; -inf true; pos false; neg true",
    "sin": "nan nan; +0 +0; -0 -0; ±inf nan",
    "sinh": "nan nan; +0 +0; -0 -0; inf inf; -inf -inf",
    "square": "nan nan; ±inf inf; 0 +0; 1 1",
    "sqrt": "nan nan; negative nan; +0 +0; -0 -0; inf inf",
    "tan": "nan nan; +0 +0; -0 -0; ±inf nan",
    "tanh": "nan nan; +0 +0; -0 -0; inf 1; -inf -1",
    "trunc": "integer x; inf inf; -inf -inf; +0 +0; -0 -0; nan nan",
}

_QUOTIENT = """
    nan any nan; any nan nan; ±inf ±inf nan; 0 0 nan;
    +0 positive +0; -0 positive -0; +0 negative -0; -0 negative +0;
    positive +0 inf; positive -0 -inf; negative +0 -inf; negative -0 inf
"""

BINARY = {
    "add": """
        nan any nan; any nan nan; inf -inf nan; -inf inf nan; inf inf inf; -inf -inf -inf;
        inf finite inf; -inf finite -inf; finite inf inf; finite -inf -inf;
        -0 -0 -0; -0 +0 +0; +0 -0 +0; +0 +0 +0; 0 nonzero y; nonzero 0 x
    """,
    "subtract": """
        nan any nan; any nan nan; inf inf nan; -inf -inf nan; inf -inf inf; -inf inf -inf;
        inf finite inf; -inf finite -inf; finite inf -inf; finite -inf inf;
        -0 +0 -0; -0 -0 +0; +0 +0 +0; +0 -0 +0; 0 nonzero -y; nonzero 0 x
    """,
    "atan2": """
        nan any nan; any nan nan; positive 0 ~pi/2; +0 positive +0; +0 +0 +0; +0 -0 ~pi; +0 negative ~pi;
        -0 positive -0; -0 +0 -0; -0 -0 ~-pi; -0 negative ~-pi; negative 0 ~-pi/2;
        pos inf +0; pos -inf ~pi; neg inf -0; neg -inf ~-pi; inf finite ~pi/2; -inf finite ~-pi/2;
        inf inf ~pi/4; inf -inf ~3pi/4; -inf inf ~-pi/4; -inf -inf ~-3pi/4
    """,
    "copysign": "number negative -abs; number -0 -abs; number +0 abs; number positive abs; nan number nan",
    "divide": f"""{_QUOTIENT};
        inf pos inf; inf neg -inf; -inf pos -inf; -inf neg inf;
        pos inf +0; pos -inf -0; neg inf -0; neg -inf +0;
        pos pos sign+; neg neg sign+; pos neg sign-; neg pos sign-
    """,
    "equal": """
        nan any false; any nan false; inf inf true; -inf -inf true; 0 0 true; inf finite false;
        inf -inf false; pos neg false; ±inf finite false
    """,
    "not_equal": "nan any true; any nan true; inf -inf true; -inf inf true; inf inf false; 0 0 false; pos neg true",
    "less": "nan any false; any nan false; neg pos true; 0 0 false; finite inf true; -inf finite true",
    "less_equal": "nan any false; any nan false; neg pos true; 0 0 true; inf inf true; inf finite false",
    "greater": "nan any false; any nan false; pos neg true; 0 0 false; inf finite true; finite inf false",
    "greater_equal": "nan any false; any nan false; pos neg true; 0 0 true; -inf -inf true; finite inf false",
    # Where an operand is infinite the standard allows floor(x / y) and Python's results.
    "floor_divide": f"""{_QUOTIENT};
        inf pos inf|nan; inf neg -inf|nan; -inf pos -inf|nan; -inf neg inf|nan;
        pos inf +0; pos -inf -0|-1; neg inf -0|-1; neg -inf +0
    """,
    "hypot": """
        ±inf any inf; any ±inf inf; 0 number absy; number 0 abs; finitenan nan nan; nan finitenan nan
    """,
    "logaddexp": "nan any nan; any nan nan; inf number inf; number inf inf; -inf nonzero y",
    "maximum": "nan any nan; any nan nan; inf number inf; -inf number y; neg pos y",
    "minimum": "nan any nan; any nan nan; -inf number -inf; inf number y; neg pos x",
    "multiply": """
        nan any nan; any nan nan; ±inf 0 nan; 0 ±inf nan; inf inf inf; -inf inf -inf; inf -inf -inf; -inf -inf inf;
        inf pos inf; inf neg -inf; -inf pos -inf; -inf neg inf; pos inf inf; neg inf -inf; pos -inf -inf; neg -inf inf;
        pos pos sign+; neg neg sign+; pos neg sign-; neg pos sign-; +0 pos +0; +0 neg -0; -0 pos -0; -0 neg +0
    """,
    "nextafter": "nan any nan; any nan nan; -0 +0 +0; +0 -0 -0",
    "pow": """
        not1 nan nan; any 0 1; nan not0 nan; ±>1 inf inf; ±>1 -inf +0; ±1 ±inf 1; 1 number 1;
        ±<1 inf +0; ±<1 -inf inf; inf positive inf; inf negative +0;
        -inf odd>0 -inf; -inf even>0 inf; -inf odd<0 -0; -inf even<0 +0;
        +0 positive +0; +0 negative inf; -0 odd>0 -0; -0 even>0 +0; -0 odd<0 -inf; -0 even<0 inf;
        neg fraction nan
    """,
    "remainder": """
        nan any nan; any nan nan; ±inf ±inf nan; 0 0 nan; 0 positive +0; 0 negative -0; not0 0 nan;
        ±inf nonzero nan; pos inf x; pos -inf y; neg inf y; neg -inf x
    """,
}

# Parts (a, b) of the argument, parts of the result. Every function but sqrt, whose page has two lines
# that contradict C99 (and its own branch), stands as in the standard.
COMPLEX = {
    "acos": """
        0 +0 ~pi/2 -0; 0 nan ~pi/2 nan; finite inf ~pi/2 -inf; nonzero nan nan nan; -inf pos ~pi -inf;
        inf pos +0 -inf; -inf inf ~3pi/4 -inf; inf inf ~pi/4 -inf; ±inf nan nan ?inf; nan finite nan nan;
        nan inf nan -inf; nan nan nan nan
    """,
    "acosh": """
        0 +0 +0 ~pi/2; finite inf inf ~pi/2; nonzero nan nan nan; +0 nan nan ?pi/2; -inf pos inf ~pi; inf pos inf +0;
        -inf inf inf ~3pi/4; inf inf inf ~pi/4; ±inf nan inf nan; nan finite nan nan; nan inf inf nan; nan nan nan nan
    """,
    "asinh": """
        +0 +0 +0 +0; pos inf inf ~pi/2; finite nan nan nan; inf pos inf +0; inf inf inf ~pi/4; nan +0 nan +0;
        nan nonzero nan nan; nan inf ?inf nan; nan nan nan nan
    """,
    "atanh": """
        +0 +0 +0 +0; +0 nan +0 nan; 1 +0 inf +0; pos inf +0 ~pi/2; nonzero nan nan nan; inf pos +0 ~pi/2;
        inf inf +0 ~pi/2; inf nan +0 nan; nan finite nan nan; nan inf ?0 ~pi/2; nan nan nan nan
    """,
    "cosh": """
        +0 +0 1 ?0; +0 inf nan ?0; +0 nan nan ?0; modest inf nan nan; nonzero nan nan nan; inf +0 inf +0;
        inf modest cis cis; inf inf ?inf nan; inf nan inf nan; nan 0 nan ?0; nan nonzero nan nan; nan nan nan nan
    """,
    "exp": """
        0 +0 1 +0; finite inf nan nan; finite nan nan nan; inf +0 inf +0; -inf modest 0cis 0cis; inf modest cis cis;
        -inf inf ?0 ?0; inf inf ?inf nan; -inf nan ?0 ?0; inf nan ?inf nan; nan +0 nan +0; nan not0 nan nan;
        nan nan nan nan
    """,
    "expm1": """
        0 +0 ?0 +0; finite inf nan nan; finite nan nan nan; inf +0 inf +0; -inf modest -1 0cis; inf modest cis cis;
        -inf inf -1 ?0; inf inf ?inf nan; -inf nan -1 ?0; inf nan ?inf nan; nan +0 nan +0; nan not0 nan nan;
        nan nan nan nan
    """,
    "log": """
        -0 +0 -inf ~pi; +0 +0 -inf +0; finite inf inf ~pi/2; finite nan nan nan; -inf pos inf ~pi; inf pos inf +0;
        -inf inf inf ~3pi/4; inf inf inf ~pi/4; ±inf nan inf nan; nan finite nan nan; nan inf inf nan; nan nan nan nan
    """,
    "log1p": """
        -1 +0 -inf +0; finite inf inf ~pi/2; finite nan nan nan; -inf pos inf ~pi; inf pos inf +0;
        -inf inf inf ~3pi/4; inf inf inf ~pi/4; ±inf nan inf nan; nan finite nan nan; nan inf inf nan; nan nan nan nan
    """,
    "sinh": """
        +0 +0 +0 +0; +0 inf ?0 nan; +0 nan ?0 nan; modest>0 inf nan nan; pos nan nan nan; inf +0 inf +0;
        inf modest>0 cis cis; inf inf ?inf nan; inf nan ?inf nan; nan +0 nan +0; nan nonzero nan nan; nan nan nan nan
    """,
    "sqrt": """
        0 +0 +0 +0; any inf inf inf; finite nan nan nan; -inf pos +0 inf; inf pos inf +0; -inf nan nan ?inf;
        inf nan inf nan; nan finite nan nan; nan nan nan nan
    """,
    "tanh": """
        +0 +0 +0 +0; modest inf nan nan; +0 inf +0|nan nan; modest nan nan nan; +0 nan +0|nan nan; inf pos 1 ?0;
        inf inf 1 ?0; inf nan 1 ?0; nan +0 nan +0; nan nonzero nan nan; nan nan nan nan
    """,
    "sign": "0 0 0 0; nan any nan nan; any nan nan nan",
    "round": "integer integer x x; inf nan inf nan; -inf +0 -inf +0; nan -0 nan -0",
    "abs": """
        ±inf any inf; any ±inf inf; 0 number absy; number 0 abs; nan finite nan; finite nan nan; nan nan nan
    """,
    "isfinite": "nan any false; any nan false; ±inf any false; any ±inf false; finite finite true",
    "isinf": "±inf any true; finitenan ±inf true; finite finite false; nan finite false; nan nan false",
    "isnan": "nan any true; any nan true; number number false",
}

_VALUES = {
    "nan": NAN,
    "inf": INF,
    "-inf": -INF,
    "+0": 0.0,
    "-0": -0.0,
    "1": 1.0,
    "-1": -1.0,
    "true": True,
    "false": False,
    "pi": math.pi,
    "pi/2": math.pi / 2,
    "pi/4": math.pi / 4,
    "3pi/4": 3 * math.pi / 4,
}


def lines(text: str) -> list[list[str]]:
    """Return a table's lines as lists of words."""
    return [line.split() for line in text.replace("\n", " ").split(";") if line.strip()]


def wanted(word: str, x: float, y: float, part: str = "real") -> list[Callable[[Any], bool]]:
    """Return the tests, one of which the result must pass, that a result's word stands for."""
    return [_wanted(w, x, y, part) for w in word.split("|")]


def _wanted(word: str, x: float, y: float, part: str) -> Callable[[Any], bool]:
    own = {
        "x": x if part == "real" else y,
        "-x": -x,
        "y": y,
        "-y": -y,
        "abs": abs(x),
        "-abs": -abs(x),
        "absy": abs(y),
    }
    if word in own:
        return lambda r: _same(r, own[word])
    if word == "0":
        return lambda r: bool(r == 0)
    if word.startswith("sign"):
        return lambda r: bool(np.isnan(r)) or bool(np.signbit(r)) == (word == "sign-")
    if word in ("cis", "0cis"):
        direction = math.cos(y) if part == "real" else math.sin(y)
        return lambda r: _same(r, math.copysign(0.0 if word == "0cis" else INF, direction))
    if word.startswith("?"):
        size = abs(_VALUES.get(word[1:], 0.0))
        return lambda r: bool(np.isclose(abs(r), size, rtol=1e-6, atol=0))
    if word.startswith("~"):
        sign, name = (-1, word[2:]) if word[1] == "-" else (1, word[1:])
        return lambda r: bool(np.isclose(r, sign * _VALUES[name], rtol=1e-6, atol=0))
    return lambda r: _same(r, _VALUES[word])


def _same(found: Any, value: float) -> bool:
    if math.isnan(value):
        return bool(np.isnan(found))
    return bool(found == value) and bool(np.signbit(found)) == (math.copysign(1, value) < 0)
