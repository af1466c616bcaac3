"""Comparisons for programs' own tests: what is close, and what an error says."""

import pytest

import wengert.torch as torch
from wengert.core.errors import ShapeError

NAN = float("nan")


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 2e-6]), {}),
        (torch.tensor([1, 2]), torch.tensor([1, 2]), {}),
        (torch.tensor([1.0]), torch.tensor([1.05]), {"rtol": 0.1, "atol": 0.0}),
        (torch.tensor([NAN, float("inf")]), torch.tensor([NAN, float("inf")]), {"equal_nan": True}),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), {"check_dtype": False}),
        ([torch.ones(2), {"a": 1.0}], [torch.ones(2), {"a": 1.0}], {}),
        (torch.tensor(1 + 1j), torch.tensor(1 + 1j), {}),
        (torch.zeros(0), torch.zeros(0), {}),
        (2, 2, {}),
    ],
)
def test_close(actual, expected, options):
    torch.testing.assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    ("actual", "expected", "options", "text"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), {}, r"1 of 2 elements .* at \(1,\)"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), {}, "1 of 2"),
        (torch.tensor([2**62]), torch.tensor([2**62 + 1]), {}, "1 of 1"),
        (torch.tensor([NAN]), torch.tensor([NAN]), {}, "1 of 1"),
        (torch.tensor([1.0]), torch.tensor([float("inf")]), {"rtol": 1.0, "atol": 1.0}, "1 of 1"),
        (torch.ones(2), torch.ones(3), {}, r"shapes .* \(2,\) and \(3,\)"),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), {}, "float32 and torch.float64"),
        ([1.0], [1.0, 2.0], {}, "lengths"),
        ({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]}, {}, r"\['a'\]\[1\]"),
        ({"a": 1}, {"b": 1}, {}, "keys"),
        (None, torch.ones(1), {}, "None"),
    ],
)
def test_not_close(actual, expected, options, text):
    with pytest.raises(AssertionError, match=text):
        torch.testing.assert_close(actual, expected, **options)


def test_texts_of_the_callers():
    with pytest.raises(AssertionError, match=r"^mine$"):
        torch.testing.assert_close(1.0, 2.0, msg="mine")
    with pytest.raises(AssertionError, match=r"^mine: 1 of 1"):
        torch.testing.assert_close(1.0, 2.0, msg=lambda text: f"mine: {text}")
    with pytest.raises(ShapeError, match="one of rtol and atol"):
        torch.testing.assert_close(1.0, 1.0, rtol=0.1)
    torch.testing.assert_allclose(torch.ones(2), [1.0, 1.0])
