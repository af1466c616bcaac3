"""What is refused, and why: the crossings that raise an error instead of giving a number.

The page docs/crossings.md is made of these rows (`python scripts/generate.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from .contexts import CONTEXTS, DERIVATIVES
from .kinds import KINDS

EVERYWHERE = tuple(CONTEXTS)
DIFFERENTIATED = tuple(c for c in CONTEXTS if c in DERIVATIVES)
# Traced once for all rows, all steps, or for no value in particular.
WITHOUT_VALUES = ("vmap", "graph", "vmap of jit", "jit of scan")
COMPILED = ("jit", "jit of grad", "grad of jit", "second thread")
TRACED = (*WITHOUT_VALUES, *COMPILED)
ANY = tuple(KINDS)


class Refusal(NamedTuple):
    """Idioms, contexts and kinds of value whose crossings raise an error of the named class."""

    idioms: tuple[str, ...]
    contexts: tuple[str, ...]
    kinds: tuple[str, ...]
    error: str
    why: str


REFUSALS = [
    Refusal(
        (
            "write_to_a_slice_of_a_tensor",
            "augmented_assignment_to_a_slice_under_a_name",
            "write_to_a_reshaped_tensor",
            "write_while_iterating",
            "write_to_what_detach_gives",
        ),
        EVERYWHERE,
        ANY,
        "WriteError",
        "what is taken from a tensor is a value: the write would not reach the tensor, as it would in NumPy",
    ),
    Refusal(
        (
            "branch_on_a_sum",
            "branch_on_all_and_any",
            "loop_until_a_value_is_small",
            "an_error_for_a_bad_value",
            "the_larger_of_two",
            "a_float_of_a_tensor",
            "an_index_from_a_tensor",
            "mathematics_from_python",
            "a_number_in_a_new_numpy_array",
        ),
        WITHOUT_VALUES,
        ANY,
        "TraceError",
        "Python would decide by a value, and there is none: one trace stands for all rows, all steps, all inputs",
    ),
    Refusal(
        ("choose_by_a_mask", "places_that_hold"),
        TRACED,
        ANY,
        "TraceError",
        "the shape of the result would depend on values of the argument",
    ),
    Refusal(
        ("the_larger_of_two", "a_float_of_a_tensor", "mathematics_from_python", "a_number_in_a_new_numpy_array"),
        DIFFERENTIATED,
        ANY,
        "GradientError",
        "a Python number has no derivative: it would be a constant",
    ),
    Refusal(
        ("numbers_in_a_list", "numpys_asarray"),
        DIFFERENTIATED,
        ANY,
        "GradientError",
        "numbers and arrays have no derivative: they would be constants",
    ),
    Refusal(
        ("numbers_in_a_list", "numpys_asarray", "an_array_of_a_detached_tensor", "a_float_in_a_log"),
        TRACED,
        ANY,
        "TraceError",
        "Python has no value while a function is traced; `wg.debug.print` and `wg.callback` see those of each run",
    ),
    Refusal(
        ("a_value_in_a_text",),
        (*COMPILED, "jit of scan"),
        ANY,
        "TraceError",
        "Python has no value while a function is compiled; `wg.debug.print` shows those of each run",
    ),
    Refusal(
        ("a_tensor_in_a_log",),
        (*COMPILED, "jit of scan"),
        ANY,
        "GraphError",
        "a compiled run appends to no list of Python's: return what is to be kept",
    ),
    Refusal(
        ("a_state_that_is_written", "a_state_that_is_added_to", "a_number_in_an_array_from_outside"),
        WITHOUT_VALUES,
        ANY,
        "GraphError",
        "how often and when a write to something outside is to happen, one trace does not say",
    ),
    Refusal(
        ("an_attribute_that_is_replaced",),
        ("jit of scan",),
        ANY,
        "GraphError",
        "the body of a compiled loop runs without Python: what it puts into an attribute is of no step in particular",
    ),
    Refusal(
        (
            "hook_on_a_value_inside",
            "retain_a_gradient",
            "hook_on_a_parameter_for_the_time_of_a_call",
            "hook_on_a_parameter",
            "a_gradient_penalty",
        ),
        EVERYWHERE,
        ("complex",),
        "GradientError",
        "a complex loss has no gradient: `wg.real` or `wg.abs` says which real number is meant",
    ),
    Refusal(
        ("hook_on_a_value_inside", "retain_a_gradient", "a_gradient_inside", "a_leaf_inside", "a_gradient_penalty"),
        EVERYWHERE,
        ("uint8",),
        "DTypeError",
        "integers have no derivative",
    ),
    Refusal(
        ("a_number_in_an_array_from_outside",),
        EVERYWHERE,
        ("complex",),
        "DTypeError",
        "a complex number does not fit a real array",
    ),
    Refusal(
        ("mathematics_from_python", "a_number_in_a_new_numpy_array"),
        EVERYWHERE,
        ("complex",),
        "TypeError",
        "a complex number is no real one (Python's own error)",
    ),
]

# Where Python's own side effects make what a trace runs once another thing than what an eager loop runs often.
ONCE_PER_TRACE = {"a_count_of_calls": ("jit of scan",)}


def refusals(idiom: str, context: str, kind: str) -> list[Refusal]:
    """The rows that a crossing is in."""
    return [r for r in REFUSALS if idiom in r.idioms and context in r.contexts and kind in r.kinds]


def page() -> str:
    """The page of the documentation that tells of the crossings."""
    from .idioms import IDIOMS

    kinds = ", ".join(KINDS)
    lines = [
        "# Crossings",
        "",
        "After this page you know which idioms work inside which transform, and which are refused.",
        "",
        "Faults are likely where two mechanisms meet. So the tests try what programs usually do to tensors in every",
        "transform, loop and compiled call, with values of every kind:",
        f"{len(IDIOMS)} idioms in {len(CONTEXTS)} contexts with {len(KINDS)} kinds of value. Each result must be",
        "NumPy's, and each derivative that of finite differences. Or the idiom is refused by an error that says what",
        "to write instead; the table below lists these. Nothing else may happen.",
        "",
        f"- **Contexts**: {', '.join(CONTEXTS)}. Compiled functions are called six times with different values;",
        "  all results are kept, and compared again at the end. Every run of the tests tries compiled code with",
        "  float64, and some of the other kinds (`pytest -m slow` tries the rest).",
        f"- **Kinds of value**: {kinds}.",
        "- **Idioms**: "
        + "; ".join(
            f"*{group}*: " + ", ".join(i.name.replace("_", " ") for i in IDIOMS.values() if i.group == group)
            for group in dict.fromkeys(i.group for i in IDIOMS.values())
        )
        + ".",
        "",
        "## What is refused",
        "",
        "| idiom | where | with | error | because |",
        "| --- | --- | --- | --- | --- |",
    ]
    for r in REFUSALS:
        where = "everywhere" if r.contexts == EVERYWHERE else ", ".join(r.contexts)
        what = "any value" if r.kinds == ANY else ", ".join(r.kinds)
        idioms = "; ".join(name.replace("_", " ") for name in r.idioms)
        lines.append(f"| {idioms} | {where} | {what} | {r.error} | {r.why} |")
    lines += [
        "",
        "If an idiom has no meaning for a value (an element of a tensor without axes, the largest element of nothing),",
        "it is refused as in NumPy.",
        "",
        "## What happens once",
        "",
        "A function that is traced runs in Python once, and its graph may run many times. So if the body of a",
        "compiled loop increases a Python counter, the counter increases once for all steps. If calls of a compiled",
        "function increase a counter, the function is traced again for each value, so it does what the eager program",
        "does.",
        "",
    ]
    return "\n".join(lines)
