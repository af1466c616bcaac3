"""Linear models, encoders and scalers of tables, of the domain ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg

from ....core.spec import category
from ....core.tensor import Tensor
from ..errors import refuse
from ..operators.casts import values_of
from ..registry import ML, operator
from ..values import Known, tensor


def post_transformed(scores: Any, how: str) -> Any:
    """Return scores after a model's last step."""
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return wg.sigmoid(scores)
    if how == "SOFTMAX":
        return wg.softmax(scores, -1)
    if how == "SOFTMAX_ZERO":
        # Scores that are 0 stay so.
        there = scores != 0
        powers = wg.where(there, wg.exp(scores - wg.max(scores, -1, keepdims=True)), wg.zeros_like(scores))
        total = wg.sum(powers, -1, keepdims=True)
        return wg.where(there, powers / wg.where(total == 0, wg.ones_like(total), total), wg.zeros_like(scores))
    if how == "PROBIT":
        return wg.special.ndtri(scores)
    refuse(f"post_transform is {how!r}")


def _float(x: Any) -> Any:
    return x if x.dtype == wg.float64 else x.astype(wg.float32)


def _features(values: Sequence[float], x: Any) -> Any:
    return wg.asarray(np.asarray(values, dtype=x.dtype))


@operator("Binarizer", domain=ML)
def _binarizer(x: Any, *, threshold: float = 0.0) -> Any:
    return (x > threshold).astype(x.dtype)


@operator("Scaler", domain=ML)
def _scaler(x: Any, *, offset: Any = (0.0,), scale: Any = (1.0,)) -> Any:
    x = _float(x)
    return ((x - _features(offset, x)) * _features(scale, x)).astype(wg.float32)


@operator("Normalizer", domain=ML)
def _normalizer(x: Any, *, norm: str = "MAX") -> Any:
    x = _float(x)
    if norm == "MAX":
        by = wg.max(wg.abs(x), -1, keepdims=True)
    elif norm == "L1":
        by = wg.sum(wg.abs(x), -1, keepdims=True)
    elif norm == "L2":
        by = wg.sqrt(wg.sum(x * x, -1, keepdims=True))
    else:
        refuse(f"norm is {norm!r}, and none of MAX, L1, L2")
    return (x / wg.where(by == 0, wg.ones_like(by), by)).astype(wg.float32)


@operator("Imputer", domain=ML)
def _imputer(
    x: Any,
    *,
    imputed_value_floats: Any = (),
    imputed_value_int64s: Any = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Any:
    floating = category(x.dtype) == 2
    filled = imputed_value_floats if floating else imputed_value_int64s
    if len(filled) not in (1, x.shape[-1]):
        refuse(f"{len(filled)} values for {x.shape[-1]} features")
    if floating and np.isnan(replaced_value_float):
        gone = wg.isnan(x)
    else:
        gone = x == (replaced_value_float if floating else replaced_value_int64)
    return wg.where(gone, wg.broadcast_to(_features(filled, x), tuple(x.shape)), x)


@operator("FeatureVectorizer", domain=ML)
def _feature_vectorizer(*xs: Any, inputdimensions: Any = None) -> Any:
    rows = [x.reshape((1, -1)) if x.ndim == 1 else x.reshape((x.shape[0], -1)) for x in xs]
    return wg.concat([r.astype(wg.float32) for r in rows], 1)


@operator("ArrayFeatureExtractor", domain=ML)
def _array_feature_extractor(x: Any, places: Any) -> Any:
    out = wg.take(x, places.reshape((-1,)), -1)
    return out.reshape((1, -1)) if x.ndim == 1 else out


@operator("LinearRegressor", domain=ML)
def _linear_regressor(
    x: Any, *, coefficients: Any, intercepts: Any = (), post_transform: str = "NONE", targets: int = 1
) -> Any:
    x = _float(x).astype(wg.float32)
    scores = wg.matmul(x, _features(coefficients, x).reshape((targets, -1)).mT)
    return post_transformed(scores + _features(intercepts, x) if intercepts else scores, post_transform)


@operator("LinearClassifier", domain=ML)
def _linear_classifier(
    x: Any,
    *,
    classlabels_ints: Any = (),
    classlabels_strings: Any = (),
    coefficients: Any,
    intercepts: Any = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
    context: Any,
) -> Any:
    x = _float(x).astype(wg.float32)
    scores = wg.matmul(x, _features(coefficients, x).reshape((-1, x.shape[1])).mT)
    if intercepts:
        scores = scores + _features(intercepts, x)
    labels = classlabels_strings or classlabels_ints
    if scores.shape[1] == 1 and len(labels) == 2:
        scores = wg.concat([-scores, scores], 1)
    scores = post_transformed(scores, post_transform)
    if scores.shape[1] == 1:
        chosen = (scores[:, 0] >= (0 if post_transform == "NONE" else 0.5)).astype(wg.int64)
        return chosen, scores
    return labelled(wg.argmax(scores, 1), classlabels_ints, classlabels_strings, context), scores


_MEND = "load(..., zipmap=False) gives the scores as a tensor, and the places of labels in `model.labels`."


def labelled(chosen: Any, ints: Sequence[int], strings: Sequence[str], context: Any) -> Any:
    """Return the labels of chosen classes: numbers, or texts, of which the model may give the places instead."""
    if strings and context.run.zipmap:
        if chosen.is_abstract:
            refuse("labels are texts, which no traced function has", _MEND)
        return np.array(strings, dtype=object)[values_of(chosen, "a label")]
    return wg.take(wg.asarray(np.array(ints, dtype=np.int64)), chosen, 0) if ints else chosen


# -- tables of labels


def _table(kinds: dict[str, Any], what: str) -> tuple[Sequence[Any], Any]:
    given = {k: v for k, v in kinds.items() if v is not None and len(v)}
    if len(given) != 1:
        refuse(f"{len(given)} kinds of {what} are given instead of one")
    ((kind, values),) = given.items()
    if kind == "tensor":
        return values.ravel().tolist(), values.dtype
    return list(values), {"floats": np.dtype(np.float32), "int64s": np.dtype(np.int64), "strings": np.dtype(object)}[
        kind
    ]


@operator("LabelEncoder", domain=ML, raw=True)
def _label_encoder(
    x: Any,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Any = None,
    keys_floats: Any = None,
    keys_int64s: Any = None,
    keys_strings: Any = None,
    keys_tensor: Any = None,
    values_floats: Any = None,
    values_int64s: Any = None,
    values_strings: Any = None,
    values_tensor: Any = None,
    classes_strings: Any = None,
) -> Any:
    if classes_strings is not None:
        text = isinstance(x, np.ndarray) and x.dtype == object
        keys: Sequence[Any] = list(classes_strings) if text else list(range(len(classes_strings)))
        values: Sequence[Any] = list(range(len(classes_strings))) if text else list(classes_strings)
        dtype = np.dtype(np.int64) if text else np.dtype(object)
    else:
        keys, _ = _table(
            {"floats": keys_floats, "int64s": keys_int64s, "strings": keys_strings, "tensor": keys_tensor}, "keys"
        )
        values, dtype = _table(
            {"floats": values_floats, "int64s": values_int64s, "strings": values_strings, "tensor": values_tensor},
            "values",
        )
    if len(keys) != len(values):
        refuse(f"{len(keys)} keys have {len(values)} values")
    fallback: Any = default_string if dtype.kind == "O" else default_int64 if dtype.kind in "iu" else default_float
    if default_tensor is not None:
        fallback = default_tensor.reshape(-1)[0]
    if not (isinstance(x, np.ndarray) and x.dtype == object) and dtype.kind != "O":
        return _numbers_encoded(tensor(x), keys, values, fallback, dtype)
    found = dict(zip(keys, values))
    source = values_of(x, "a label")
    out = np.empty(source.shape, dtype=dtype)
    for i, key in enumerate(source.ravel().tolist()):
        out.reshape(-1)[i] = found.get(key, fallback)
    return out


def _numbers_encoded(x: Any, keys: Sequence[Any], values: Sequence[Any], fallback: Any, dtype: Any) -> Any:
    """Return numbers for numbers, which needs no values: the place of each in the sorted keys."""
    first = {k: i for i, k in reversed(list(enumerate(keys)))}
    nan = next((values[i] for k, i in first.items() if k != k), None)
    ordered = sorted(k for k in first if k == k)
    if not ordered:
        out = wg.full(tuple(x.shape), fallback, dtype=dtype)
    else:
        sorted_keys = wg.asarray(np.array(ordered, dtype=x.dtype))
        table = wg.asarray(np.array([values[first[k]] for k in ordered], dtype=dtype))
        flat = x.reshape((-1,))
        at = wg.minimum(wg.searchsorted(sorted_keys, flat), len(ordered) - 1)
        hit = wg.take(sorted_keys, at, 0) == flat
        out = wg.where(hit, wg.take(table, at, 0), wg.full((), fallback, dtype=dtype)).reshape(x.shape)
    return out if nan is None else wg.where(wg.isnan(x), wg.full((), nan, dtype=dtype), out)


@operator("CategoryMapper", domain=ML, raw=True)
def _category_mapper(
    x: Any, *, cats_int64s: Any, cats_strings: Any, default_int64: int = -1, default_string: str = "_Unused"
) -> Any:
    if len(cats_int64s) != len(cats_strings):
        refuse(f"{len(cats_int64s)} numbers have {len(cats_strings)} texts")
    source = values_of(x, "a category")
    text = source.dtype == object
    found: dict[Any, Any] = dict(zip(cats_strings, cats_int64s) if text else zip(cats_int64s, cats_strings))
    out = np.empty(source.shape, dtype=np.int64 if text else object)
    for i, key in enumerate(source.ravel().tolist()):
        out.reshape(-1)[i] = found.get(key, default_int64 if text else default_string)
    return out


@operator("OneHotEncoder", domain=ML, raw=True)
def _one_hot_encoder(x: Any, *, cats_int64s: Any = (), cats_strings: Any = (), zeros: int = 1) -> Any:
    if cats_strings:
        found: Known = values_of(x, "a category")
        out = np.asarray(found[..., None] == np.array(cats_strings, dtype=object))
        if not zeros and not out.any(-1).all():
            refuse("an element is of no category")
        return out.astype(np.float32)
    whole = tensor(x)
    whole = wg.trunc(whole).astype(wg.int64) if category(whole.dtype) == 2 else whole.astype(wg.int64)
    met = wg.expand_dims(whole, -1) == wg.asarray(np.array(cats_int64s, dtype=np.int64))
    if not zeros and not bool(wg.all(wg.any(met, -1))):
        refuse("an element is of no category")
    return met.astype(wg.float32)


# -- dictionaries


@operator("DictVectorizer", domain=ML, raw=True)
def _dict_vectorizer(x: Any, *, int64_vocabulary: Any = (), string_vocabulary: Any = ()) -> Any:
    words = string_vocabulary or int64_vocabulary
    if not isinstance(x, dict):
        refuse(f"the operand is a {type(x).__name__}, where a dictionary is needed")
    values = list(x.values())
    dtype = (
        np.dtype(np.int64) if values and all(isinstance(v, (int, np.integer)) for v in values) else np.dtype(np.float32)
    )
    out = np.zeros((1, len(words)), dtype=dtype)
    places = {w: i for i, w in enumerate(words)}
    for key, value in x.items():
        if key not in places:
            refuse(f"{str(key)[:40]!r} is not in the vocabulary")
        out[0, places[key]] = value
    return out


@operator("CastMap", domain=ML, raw=True)
def _cast_map(x: Any, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1, context: Any) -> Any:
    kinds: dict[str, tuple[Any, Any]] = {
        "TO_FLOAT": (np.float32, float),
        "TO_INT64": (np.int64, lambda v: int(float(v))),
        "TO_STRING": (object, lambda v: v if isinstance(v, str) else f"{float(v):f}"),
    }
    if cast_to not in kinds or map_form not in ("DENSE", "SPARSE") or not isinstance(x, dict):
        refuse(f"cast_to is {cast_to!r} and map_form {map_form!r} for a {type(x).__name__}")
    dtype, convert = kinds[cast_to]
    places = {int(k): v for k, v in sorted(x.items())}
    if map_form == "DENSE":
        places = dict(enumerate(places.values()))
    count = max_map if map_form == "SPARSE" else len(places)
    context.run.room(count)
    out = np.full((1, count), "" if dtype is object else 0, dtype=dtype)
    for at, value in places.items():
        if not 0 <= at < count:
            refuse(f"the key {at} is not among the {count} of max_map")
        out[0, at] = convert(value)
    return out


@operator("ZipMap", domain=ML, raw=True)
def _zip_map(x: Any, *, classlabels_int64s: Any = (), classlabels_strings: Any = (), context: Any) -> Any:
    if not context.run.zipmap:
        return x
    labels = list(classlabels_strings or classlabels_int64s)
    if isinstance(x, Tensor) and x.is_abstract:
        refuse("dictionaries have numbers, which no traced function has", _MEND)
    rows = values_of(x, "a dictionary")
    if rows.ndim == 1:
        rows = rows.reshape((1, -1))
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        refuse(f"{len(labels)} labels for scores of shape {rows.shape}")
    return [dict(zip(labels, row.tolist())) for row in rows]
