"""Operators of texts. They run on values, as NumPy arrays of Python's strings."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import refuse
from ..registry import operator
from ..values import Known
from .casts import by_values


def texts(x: Any) -> Known:
    """Return an array of texts. Raises OnnxError for any other."""
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "OUS":
        refuse("the operand is not of texts")
    return x.astype(object)


def _each(x: Known, function: Callable[[str], Any], dtype: Any) -> Known:
    out = np.empty(x.shape, dtype=dtype)
    for i, value in enumerate(x.ravel()):
        out.reshape(-1)[i] = function(str(value))
    return out


@operator("StringConcat", raw=True)
def _string_concat(x: Any, y: Any) -> Any:
    return np.asarray(texts(x) + texts(y), dtype=object)


@operator("StringSplit", raw=True)
def _string_split(x: Any, *, delimiter: str = "", maxsplit: int | None = None) -> Any:
    found = texts(x)
    parts = [str(v).split(delimiter or None, -1 if maxsplit is None else maxsplit) for v in found.ravel()]
    counts = np.array([len(p) for p in parts], dtype=np.int64).reshape(found.shape)
    width = max(map(len, parts), default=0)
    out = np.full((len(parts), width), "", dtype=object)
    for row, words in zip(out, parts):
        row[: len(words)] = words
    return out.reshape((*found.shape, width)), counts


@operator("RegexFullMatch", raw=True)
def _regex_full_match(x: Any, *, pattern: str) -> Any:
    if len(pattern) > 1000:
        refuse("the pattern is longer than 1000 characters")
    try:
        compiled = re.compile(pattern)
    except re.error as e:
        refuse(f"the pattern {pattern[:80]!r} is no regular expression: {e}")
    return _each(texts(x), lambda v: compiled.fullmatch(v) is not None, np.bool_)


def _plain(text: str) -> str:
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


@operator("StringNormalizer", raw=True)
def _string_normalizer(
    x: Any, *, case_change_action: str = "NONE", is_case_sensitive: int = 0, locale: str = "", stopwords: Any = ()
) -> Any:
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    change = changes.get(case_change_action)
    if change is None:
        refuse(f"case_change_action is {case_change_action!r}")
    found = texts(x)
    if found.ndim not in (1, 2) or (found.ndim == 2 and found.shape[0] != 1):
        refuse(f"texts of shape {found.shape} are neither (C,) nor (1, C)")
    stops = set(stopwords) if is_case_sensitive else {w.lower() for w in stopwords}
    kept = []
    for value in found.ravel():
        text = _plain(str(value))
        if (text if is_case_sensitive else text.lower()) not in stops:
            kept.append(change(text))
    out = np.array([*(kept or [""]), None], dtype=object)[:-1]
    return out if found.ndim == 1 else out.reshape((1, -1))


@operator("TfIdfVectorizer", raw=True)
def _tf_idf(
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Any,
    ngram_indexes: Any,
    pool_int64s: Any = (),
    pool_strings: Any = (),
    weights: Any = (),
    context: Any,
) -> Any:
    if mode not in ("TF", "IDF", "TFIDF"):
        refuse(f"mode is {mode!r}")
    pool: Sequence[Any] = pool_strings or pool_int64s
    grams: dict[tuple[Any, ...], int] = {}
    ends = [*ngram_counts[1:], len(pool)]
    if any(not 0 <= start <= end <= len(pool) for start, end in zip(ngram_counts, ends)):
        refuse(f"ngram_counts {tuple(ngram_counts)[:8]} do not part a pool of {len(pool)}")
    for n, (start, end) in enumerate(zip(ngram_counts, ends), start=1):
        for i in range(start, end - n + 1, n):
            grams[tuple(pool[i : i + n])] = len(grams)
    if (
        len(grams) != len(ngram_indexes)
        or (weights and len(weights) != len(grams))
        or any(i < 0 for i in ngram_indexes)
    ):
        refuse(f"{len(grams)} n-grams have {len(ngram_indexes)} indexes and {len(weights)} weights")
    width = max(ngram_indexes, default=-1) + 1
    if x.ndim > 2:
        refuse(f"rows of words have one or two axes, not {x.ndim}")
    context.run.room(width * max(1, x.shape[0] if x.ndim == 2 else 1))

    def counted(found: Known) -> Known:
        rows = found.reshape((1, -1)) if found.ndim < 2 else found
        out = np.zeros((len(rows), width), dtype=np.float32)
        for into, row in zip(out, rows):
            for gram, times in _grams(row.tolist(), min_gram_length, max_gram_length, max_skip_count, grams).items():
                weight = weights[gram] if weights else 1.0
                into[ngram_indexes[gram]] += {"TF": times, "IDF": weight, "TFIDF": times * weight}[mode]
        return out[0] if found.ndim < 2 else out

    shape = (x.shape[0], width) if x.ndim == 2 else (width,)
    return by_values(counted, shape, np.dtype(np.float32), x, "a count of n-grams")


def _grams(row: list[Any], low: int, high: int, skips: int, known: dict[tuple[Any, ...], int]) -> Counter[int]:
    counts: Counter[int] = Counter()
    lengths = sorted({len(gram) for gram in known if low <= len(gram) <= high})
    for skip in range(1, min(skips + 1, len(row)) + 1):
        for n in lengths:
            # A single word has nothing between its parts: it counts once.
            if n == 1 and skip > 1:
                continue
            for start in range(len(row) - (n - 1) * skip):
                gram = known.get(tuple(row[start : start + (n - 1) * skip + 1 : skip]))
                if gram is not None:
                    counts[gram] += 1
    return counts
