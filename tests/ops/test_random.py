"""Random numbers: the bits by definition, reproducibility, independence, distributions."""

from __future__ import annotations

import copy
import pickle
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import wengert as wg
from wengert.core.ops.op import TABLE
from wengert.ops.random import philox

WORD = (1 << 64) - 1


def philox_block(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """Philox 4x64-10 as Salmon et al. 2011 print it."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        p0, p1 = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (p1 >> 64) ^ c1 ^ k0, p1 & WORD, (p0 >> 64) ^ c3 ^ k1, p0 & WORD
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & WORD, (k1 + 0xBB67AE8584CAA73B) & WORD
    return [c0, c1, c2, c3]


def generator(seed: int = 0) -> wg.random.Generator:
    return wg.random.Generator(seed)


# -- bits


def test_known_answer() -> None:
    # From the Random123 distribution's kat_vectors: philox4x64 10, all zero.
    assert philox_block((0, 0), (0, 0, 0, 0)) == [
        0x16554D9ECA36314C,
        0xDB20FE9D672D0FDC,
        0xD7E772CEE186176B,
        0x7E68B68AEC7BA23B,
    ]


@settings(max_examples=50, deadline=None)
@given(
    low=st.integers(0, WORD),
    high=st.integers(0, WORD),
    counter=st.sampled_from([0, 1, 5, 2**32, 2**64 - 2]),
    count=st.integers(0, 9),
)
def test_words_are_philox_by_definition(low: int, high: int, counter: int, count: int) -> None:
    blocks = [w for b in range(counter, counter + 3) for w in philox_block((low, high), (b & WORD, b >> 64, 0, 0))]
    assert philox.words64((low, high), counter, count).tolist() == blocks[:count]
    halves = [h for w in blocks for h in (w & 0xFFFFFFFF, w >> 32)]
    assert philox.words32((low, high), counter, count).tolist() == halves[:count]


def test_numbers_are_made_of_bits_as_documented() -> None:
    words = [w for b in range(2) for w in philox_block((3, 0), (b, 0, 0, 0))]
    halves = [h for w in words for h in (w & 0xFFFFFFFF, w >> 32)]
    assert wg.rand(5, dtype=wg.float64, generator=generator(3)).tolist() == [(w >> 11) / 2**53 for w in words[:5]]
    assert wg.rand(5, generator=generator(3)).tolist() == [(h >> 8) / 2**24 for h in halves[:5]]
    assert wg.rand(5, dtype=wg.float16, generator=generator(3)).tolist() == [(h >> 21) / 2**11 for h in halves[:5]]
    assert wg.rand(5, dtype="bfloat16", generator=generator(3)).tolist() == [(h >> 24) / 2**8 for h in halves[:5]]
    u, v = ((words[0] >> 11) + 1) / 2**53, (words[1] >> 11) / 2**53
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    np.testing.assert_allclose(
        wg.randn(2, dtype=wg.float64, generator=generator(3)).numpy(),
        [radius * np.cos(angle), radius * np.sin(angle)],
        rtol=1e-13,
    )
    u, v = (halves[0] + 1) / 2**32, (halves[1] >> 8) / 2**24
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    np.testing.assert_allclose(
        wg.randn(2, generator=generator(3)).numpy(), [radius * np.cos(angle), radius * np.sin(angle)], rtol=1e-5
    )
    drawn = wg.random.bernoulli(0.3, (5,), generator=generator(3)).tolist()
    assert drawn == [h < round(0.3 * 2**32) for h in halves[:5]]
    assert wg.randint(-5, 12, (5,), generator=generator(3)).tolist() == [-5 + (w * 17 >> 64) for w in words[:5]]
    keys = sorted(w >> 3 << 3 | i for i, w in enumerate(words[:5]))  # 4 takes 3 bits
    assert wg.random.randperm(5, generator=generator(3)).tolist() == [k & 7 for k in keys]


@given(factor=st.integers(1, 2**64), words=st.lists(st.integers(0, WORD), min_size=1, max_size=4))
def test_scaling_words_to_a_range_is_exact(factor: int, words: list[int]) -> None:
    got = philox._multiply_high(np.array(words, np.uint64), factor).tolist()
    assert got == [w * factor >> 64 for w in words]


# -- reproducibility


DRAWS = {
    "rand": lambda g: wg.rand(4, 3, generator=g),
    "rand64": lambda g: wg.rand(5, dtype=wg.float64, generator=g),
    "randn": lambda g: wg.randn(7, generator=g),
    "randint": lambda g: wg.randint(3, 9, (5,), generator=g),
    "randperm": lambda g: wg.random.randperm(9, generator=g),
    "bernoulli": lambda g: wg.random.bernoulli(0.4, (9,), generator=g),
    "bernoulli_tensor": lambda g: wg.torch.bernoulli(wg.tensor([0.2, 0.9]), generator=g),
    "categorical": lambda g: wg.random.categorical(wg.tensor([0.1, 0.2, 0.3]), (8,), generator=g),
    "multinomial": lambda g: wg.random.multinomial(wg.tensor([1.0, 2.0, 3.0]), 2, generator=g),
    "permutation": lambda g: wg.random.permutation(wg.tensor([[1, 2], [3, 4], [5, 6]]), generator=g),
    "uniform_": lambda g: wg.zeros((4,)).uniform_(1, 2, generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_same_numbers_and_the_stream_moves_on(name: str) -> None:
    f, g = DRAWS[name], generator(5)
    first, following = f(g), [f(g) for _ in range(8)]
    assert f(generator(5)).tolist() == first.tolist()
    assert any(x.tolist() != first.tolist() for x in following)


@pytest.mark.parametrize("name", ["random_uniform", "random_normal", "random_bits"])
def test_ops_replay_from_their_attributes(name: str) -> None:
    attrs = {"key": (9, 1), "counter": 4, "shape": (3, 2)}
    attrs["dtype"] = np.dtype("uint64") if name == "random_bits" else np.dtype("float64")
    op = TABLE[name]
    np.testing.assert_array_equal(op.forward(**attrs), op.forward(**attrs))
    longer = op.forward(**{**attrs, "shape": (20,)})
    np.testing.assert_array_equal(op.forward(**attrs).ravel(), longer[:6])


def test_consecutive_draws_do_not_overlap() -> None:
    g = generator(1)
    drawn = np.concatenate([wg.rand(n, dtype=wg.float64, generator=g).numpy() for n in (1, 3, 4, 5, 1, 9)])
    assert len(set(drawn.tolist())) == drawn.size


def test_default_generator() -> None:
    state = wg.random.get_rng_state()
    try:
        wg.manual_seed(11)
        assert wg.random.initial_seed() == 11
        a = wg.rand(3).tolist()
        middle = wg.random.get_rng_state()
        b = wg.rand(3).tolist()
        wg.random.set_rng_state(middle)
        assert wg.rand(3).tolist() == b != a
        wg.manual_seed(11)
        assert wg.rand(3).tolist() == a == wg.rand(3, generator=generator(11)).tolist()
        assert wg.random.seed() == wg.random.initial_seed() != wg.random.seed()
        assert wg.random.seed(5) == 5 == wg.random.initial_seed()
        drawn = wg.rand(3)
        wg.manual_seed(5)
        assert (wg.rand(3) == drawn).all()
        with pytest.raises(wg.DTypeError, match="a seed must be an int, not 'x'"):
            wg.random.seed("x")
    finally:
        wg.random.set_rng_state(state)


def test_copies_and_pickles_continue_alike() -> None:
    g = generator(3)
    wg.rand(5, generator=g)
    twins = [copy.deepcopy(g), pickle.loads(pickle.dumps(g))]
    expected = wg.rand(3, generator=g).tolist()
    assert [wg.rand(3, generator=t).tolist() for t in twins] == [expected, expected]


def test_seeds_of_any_size_and_sign_differ() -> None:
    seeds = [0, 1, -1, 2**64, 2**64 + 1, 2**127]
    assert len({wg.rand(2, generator=generator(s)).numpy().tobytes() for s in seeds}) == len(seeds)


# -- generators


def test_split_is_reproducible_and_leaves_the_parent_alone() -> None:
    g = generator(2)
    before = wg.rand(2, generator=generator(2)).tolist()
    a, b = g.split()
    c = g.fork()
    assert wg.rand(2, generator=g).tolist() == before
    again = generator(2).split(3)
    assert [x.initial_seed() for x in (a, b, c)] == [x.initial_seed() for x in again]
    assert len({x.initial_seed() for x in (g, a, b, c, *a.split(2))}) == 6


def test_split_generators_are_uncorrelated() -> None:
    x = np.stack([wg.randn(20_000, generator=c).numpy() for c in generator(0).split(6)])
    off_diagonal = np.corrcoef(x)[np.triu_indices(6, 1)]
    assert np.abs(off_diagonal).max() < 4.5 / np.sqrt(20_000)


def test_neighbouring_seeds_are_uncorrelated() -> None:
    x = np.stack([wg.randn(20_000, generator=generator(s)).numpy() for s in range(6)])
    assert np.abs(np.corrcoef(x)[np.triu_indices(6, 1)]).max() < 4.5 / np.sqrt(20_000)


def test_threads_never_draw_the_same_numbers() -> None:
    g, drawn = generator(4), []

    def work() -> None:
        drawn.append([float(x) for _ in range(200) for x in wg.rand(3, dtype=wg.float64, generator=g).numpy()])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    numbers = [x for part in drawn for x in part]
    assert len(numbers) == len(set(numbers)) == 2400
    # Together they drew what one thread would have drawn.
    alone = generator(4)
    assert set(numbers) == {float(x) for _ in range(800) for x in wg.rand(3, dtype=wg.float64, generator=alone).numpy()}


# -- distributions (fixed seeds: they cannot fail by chance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_distribution(dtype: str) -> None:
    x = wg.rand(100_000, dtype=dtype, generator=generator(0)).numpy()
    assert x.min() >= 0
    assert x.max() < 1
    assert stats.kstest(x, "uniform").pvalue > 0.01


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_distribution(dtype: str) -> None:
    x = wg.randn(100_001, dtype=dtype, generator=generator(0)).numpy()
    assert np.isfinite(x).all()
    assert stats.kstest(x, "norm").pvalue > 0.01
    assert abs(stats.skew(x)) < 0.03
    assert abs(stats.kurtosis(x)) < 0.06
    # The two halves of a pair are independent, in value and in size.
    pairs = x[:-1].reshape(-1, 2)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.02
    assert abs(np.corrcoef(pairs.T**2)[0, 1]) < 0.02


@pytest.mark.parametrize(("dtype", "step"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_half_precision_uniform_stays_below_one(dtype: str, step: float) -> None:
    x = wg.rand(20_000, dtype=dtype, generator=generator(0))
    assert x.dtype.name == dtype
    values = x.astype("float64").numpy()
    assert values.max() == 1 - step
    assert abs(values.mean() - 0.5 + step / 2) < 0.01


def test_half_precision_normal() -> None:
    x = wg.randn(20_000, dtype="float16", generator=generator(0)).astype("float64").numpy()
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.03


def test_integers_are_uniform() -> None:
    x = wg.randint(-3, 7, (50_000,), generator=generator(0)).numpy()
    assert stats.chisquare(np.bincount(x + 3, minlength=10)).pvalue > 0.01


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(-(2**63), 2**63, "int64"), (0, 2**64, "uint64"), (-128, 128, "int8"), (2**40, 2**40 + 1, "int64")],
)
def test_integer_ranges(low: int, high: int, dtype: str) -> None:
    x = wg.randint(low, high, (1000,), dtype=dtype, generator=generator(0))
    values = [int(v) for v in x.numpy()]
    assert x.dtype.name == dtype
    assert all(low <= v < high for v in values)
    span = (high - low) / 2
    assert abs(sum(values) / 1000 - (low + span)) < 0.1 * span + 0.5


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_bernoulli(p: float) -> None:
    for x in (
        wg.random.bernoulli(p, (50_000,), generator=generator(0)),
        wg.random.bernoulli(wg.full((50_000,), p), generator=generator(0)),
    ):
        assert x.dtype == np.bool_
        count = int(x.numpy().sum())
        assert stats.binomtest(count, 50_000, p).pvalue > 0.01


def test_categorical() -> None:
    probs = np.array([[0.1, 0.2, 0.7, 0.0], [0.25, 0.25, 0.25, 0.25]])
    with np.errstate(divide="ignore"):
        logits = wg.tensor(np.log(probs) + 3)
    x = wg.random.categorical(logits, (20_000,), generator=generator(0)).numpy()
    assert x.shape == (20_000, 2)
    for column, p in zip(x.T, probs):
        counts = np.bincount(column, minlength=4)
        assert counts[p == 0].sum() == 0
        assert stats.chisquare(counts[p > 0], 20_000 * p[p > 0]).pvalue > 0.01
    assert wg.random.categorical(logits, axis=0).shape == (4,)
    assert wg.random.categorical(logits, (5,), axis=0, generator=generator(0)).shape == (5, 4)


def test_multinomial() -> None:
    weights = wg.tensor([[1.0, 3.0], [5.0, 0.0]])
    x = wg.random.multinomial(weights, 10_000, replacement=True, generator=generator(0)).numpy()
    assert x.shape == (2, 10_000)
    assert (x[1] == 0).all()
    assert stats.binomtest(int(x[0].sum()), 10_000, 0.75).pvalue > 0.01
    # Without replacement: the order of drawing one after the other.
    g = generator(1)
    three = [tuple(wg.random.multinomial(wg.tensor([1.0, 2.0, 3.0]), 2, generator=g).tolist()) for _ in range(3000)]
    counts = Counter(three)
    w = {0: 1 / 6, 1: 2 / 6, 2: 3 / 6}
    expected = {(a, b): 3000 * w[a] * w[b] / (1 - w[a]) for a in w for b in w if a != b}
    assert stats.chisquare([counts[k] for k in expected], list(expected.values())).pvalue > 0.01


@pytest.mark.parametrize(("count", "replacement"), [(5, True), (1, False), (3, False)])
@pytest.mark.parametrize("shape", [(4,), (2, 4)])
def test_multinomial_in_compiled_code(shape: tuple[int, ...], count: int, replacement: bool) -> None:
    held = wg.tensor(np.random.default_rng(0).uniform(size=shape))

    def draws(scale: wg.Tensor, g: wg.random.Generator) -> tuple[wg.Tensor, wg.Tensor]:
        args = (count, replacement)
        return wg.random.multinomial(held, *args, generator=g), wg.random.multinomial(
            held * scale + 0.1, *args, generator=g
        )

    eager, compiled = generator(3), generator(3)
    step = wg.jit(lambda scale: draws(scale, compiled))
    for i in range(4):
        for found, expected in zip(step(wg.tensor(float(i))), draws(wg.tensor(float(i)), eager)):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    assert compiled.get_state().tolist() == eager.get_state().tolist()


@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0], [-1.0, 2.0, 3.0], [np.nan, 1.0, 1.0], [np.inf, 1.0, 1.0]])
@pytest.mark.parametrize("replacement", [True, False])
def test_weights_of_no_distribution_are_refused_in_compiled_code(row: list[float], replacement: bool) -> None:
    step = wg.jit(lambda w: wg.random.multinomial(w, 2, replacement))
    assert step(wg.tensor([[1.0, 2.0, 0.0]] * 2)).shape == (2, 2)
    with pytest.raises(wg.ShapeError, match="multinomial"):
        step(wg.tensor([[1.0, 2.0, 0.0], row]))


def test_multinomial_for_each_example() -> None:
    weights = wg.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    drawn = wg.vmap(lambda w: wg.random.multinomial(w, 2, True), randomness="different")(weights)
    assert drawn.tolist() == [[0, 0], [2, 2]]


def test_several_classes_for_each_example() -> None:
    never = float("-inf")
    logits = wg.tensor([[[0.0, never], [never, 0.0]], [[never, 0.0], [never, 0.0]], [[0.0, never], [0.0, never]]])
    drawn = wg.vmap(lambda x: wg.random.categorical(x, (4,)), randomness="different")(logits)
    assert drawn.tolist() == [[[0, 1]] * 4, [[1, 1]] * 4, [[0, 0]] * 4]
    shared = wg.vmap(lambda _: wg.random.categorical(logits[0], (4,)), randomness="different")(wg.zeros(3))
    assert shared.tolist() == [[[0, 1]] * 4] * 3


def test_permutations_are_uniform() -> None:
    g = generator(0)
    counts = Counter(tuple(wg.random.randperm(4, generator=g).tolist()) for _ in range(4800))
    assert len(counts) == 24
    assert stats.chisquare(list(counts.values())).pvalue > 0.01


def test_permutation_of_a_tensor() -> None:
    x = wg.tensor(np.arange(12).reshape(3, 4))
    rows = wg.random.permutation(x, generator=generator(1)).numpy()
    columns = wg.random.permutation(x, axis=1, generator=generator(1)).numpy()
    assert sorted(map(tuple, rows)) == sorted(map(tuple, x.numpy()))
    assert sorted(map(tuple, columns.T)) == sorted(map(tuple, x.numpy().T))


# -- functions


def test_shapes_and_dtypes() -> None:
    assert wg.rand().shape == wg.rand(()).shape == wg.randn(()).shape == ()
    assert wg.rand(2, 3).shape == wg.rand((2, 3)).shape == wg.rand([2, 3]).shape == (2, 3)
    assert wg.randn(0, 3).shape == (0, 3)
    assert wg.random.randperm(0).shape == (0,)
    assert wg.rand(1).dtype == wg.float32
    assert wg.randint(5, (2,)).dtype == wg.random.randperm(2).dtype == wg.int64
    assert wg.random.randperm(3, dtype="int32").dtype == wg.int32
    assert wg.randint(low=2, high=3, size=(2,)).tolist() == [2, 2]
    x = wg.zeros((2, 2), dtype=wg.float64)
    assert wg.random.rand_like(x).spec == wg.random.randn_like(x).spec == x.spec
    assert wg.random.randn_like(x, dtype=wg.float32).dtype == wg.float32


def test_requires_grad_gives_a_leaf() -> None:
    x = wg.randn(3, requires_grad=True)
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    assert x.is_leaf
    assert wg.rand(3).requires_grad_().requires_grad


def test_parameters_are_differentiable() -> None:
    mean, std = wg.tensor(1.0, requires_grad=True), wg.tensor([2.0, 3.0], requires_grad=True)
    z = wg.random.normal((4, 2), mean, std, generator=generator(0))
    z.sum().backward()
    noise = wg.random.normal((4, 2), generator=generator(0)).numpy()
    assert mean.grad.item() == 8
    np.testing.assert_allclose(std.grad.numpy(), noise.sum(0), rtol=1e-5)
    low = wg.tensor(0.0, requires_grad=True)
    u = wg.random.uniform((5,), low, 4.0, generator=generator(0))
    u.sum().backward()
    np.testing.assert_allclose(low.grad.item(), 5 - wg.rand(5, generator=generator(0)).numpy().sum(), rtol=1e-5)


def test_filling_in_place() -> None:
    x = wg.zeros((1000,), dtype=wg.float64)
    assert x.normal_(5.0, 0.1, generator=generator(0)) is x
    assert abs(x.numpy().mean() - 5) < 0.02
    assert x.dtype == np.float64
    x.uniform_(-2, -1, generator=generator(0))
    assert -2 <= x.numpy().min() < x.numpy().max() < -1
    x.bernoulli_(0.25, generator=generator(0))
    assert set(x.tolist()) == {0.0, 1.0}
    w = wg.zeros((3,), requires_grad=True)
    with wg.no_grad():
        w.normal_()
    assert w.requires_grad
    assert w.is_leaf


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: wg.rand(-1), wg.ShapeError, "negative"),
        (lambda: wg.rand(2.5), wg.DTypeError, "shape"),
        (lambda: wg.rand(2, dtype=wg.int64), wg.DTypeError, "randint"),
        (lambda: wg.randn(2, dtype=wg.complex64), wg.DTypeError, "real floating"),
        (lambda: wg.randint(3, 3, (2,)), wg.ShapeError, "low=3, high=3"),
        (lambda: wg.randint(0, 300, (2,), dtype="int8"), wg.ShapeError, "int8"),
        (lambda: wg.randint(0.5, 3, (2,)), wg.DTypeError, "low must be an int"),
        (lambda: wg.randint(3), wg.DTypeError, "randint takes"),
        (lambda: wg.randint(1, 2, 3, 4), wg.DTypeError, "randint takes"),
        (lambda: wg.randint(3, (2,), color=1), wg.DTypeError, "randint takes"),
        (lambda: wg.random.randperm(-1), wg.ShapeError, "negative"),
        (lambda: wg.manual_seed("x"), wg.DTypeError, "seed"),
        (lambda: wg.rand(2, generator=np.random.default_rng(0)), wg.DTypeError, "Generator"),
        (lambda: wg.random.bernoulli(1.5), wg.ShapeError, "probability"),
        (lambda: wg.torch.bernoulli(wg.tensor([0.5, float("nan")])), wg.ShapeError, "probability"),
        (lambda: wg.random.normal((2,), 0.0, -1.0), wg.ShapeError, "negative"),
        (lambda: wg.random.multinomial(wg.tensor([0.5, 0.5]), 3), wg.ShapeError, "without replacement"),
        (lambda: wg.random.multinomial(wg.tensor([-0.5, 0.5]), 1), wg.ShapeError, "negative"),
        (lambda: wg.random.categorical(wg.zeros((2, 0))), wg.ShapeError, "no classes"),
        (lambda: wg.random.set_rng_state(wg.zeros((4,))), wg.DTypeError, "state"),
        (lambda: generator().split(-1), wg.ShapeError, "split"),
    ],
)
def test_errors(call, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert "test_random.py" in str(caught.value).splitlines()[0]


def test_probabilities_are_looked_at_when_compiled_code_runs() -> None:
    draw = wg.jit(lambda p: wg.random.bernoulli(p))
    for _ in range(6):
        assert draw(wg.tensor([0.0, 1.0])).tolist() == [False, True]
        assert draw(wg.tensor([1, 0])).tolist() == [True, False]
        for wrong in ([2.0, -1.0], [2, 0]):
            with pytest.raises(wg.ShapeError, match=r"bernoulli: p .* outside 0..1"):
                draw(wg.tensor(wrong))
