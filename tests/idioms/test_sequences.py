"""Sequences, trees and text: recurrent nets, attention, structured losses, embeddings."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import wengert.nn.functional as F
from both_namespaces import wg
from wengert import nn, optim

from .driver import Row, both, data, fresh, program


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def ids(*shape: int, high: int = 7, seed: int = 4) -> Any:
    return wg.tensor(np.random.default_rng(seed).integers(0, high, shape))


class Recurrent(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.rnn = cell(2, 3, batch_first=True)
        self.out = nn.Linear(3, 1)

    def forward(self, x, hidden=None):
        y, hidden = self.rnn(x, hidden)
        return self.out(y), hidden


@program(traces=4)
def truncated_backpropagation(jit: Any) -> Any:
    """An LSTM whose state lives on from window to window, cut off from the gradient."""
    x = data(2, 40, 2)
    y = x.cumsum(dim=1).mean(-1, keepdim=True) / 4
    model = fresh(Recurrent(nn.LSTM))
    opt = optim.Adam(model.parameters(), lr=0.02)
    memory = {"hidden": None}

    @jit
    def step(x, y, hidden):
        opt.zero_grad()
        predicted, hidden = model(x, hidden)
        loss = F.mse_loss(predicted, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss, tuple(h.detach() for h in hidden)

    def call(i):
        loss, memory["hidden"] = step(x[:, 5 * i : 5 * i + 5], y[:, 5 * i : 5 * i + 5], memory["hidden"])
        return loss, memory["hidden"]

    return call, {"model": model, "memory": memory, "opt": opt}


def test_truncated_backpropagation() -> None:
    rows = both(truncated_backpropagation)
    with wg.set_default_dtype(wg.float64):
        x = np.array(data(2, 40, 2))
    h = c = np.zeros((2, 3))
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        w = {k.removeprefix("model.rnn."): v for k, v in before.items()}
        for t in range(5 * i, 5 * i + 5):
            gates = x[:, t] @ w["weight_ih_l0"].T + w["bias_ih_l0"] + h @ w["weight_hh_l0"].T + w["bias_hh_l0"]
            a, f, g, o = np.split(gates, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(a) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(row["result.1.0"][0], h, rtol=1e-11)
        np.testing.assert_allclose(row["result.1.1"][0], c, rtol=1e-11)


@program
def gru_over_lengths(jit: Any) -> Any:
    """Sequences of different lengths in one batch: the last valid output of each classifies it."""
    x, lengths = data(24, 6, 2), 1 + ids(24, high=6)
    y = (x[:, 0, 0] > 0).long()
    rnn, out = fresh(nn.GRU(2, 3, batch_first=True)), fresh(nn.Linear(3, 2), 1)
    opt = optim.RMSprop([*rnn.parameters(), *out.parameters()], lr=0.01)

    @jit
    def step(x, lengths, y):
        opt.zero_grad()
        states, _ = rnn(x)
        last = states[wg.arange(len(x)), lengths - 1]
        loss = F.cross_entropy(out(last), y)
        loss.backward()
        opt.step()
        return loss

    def call(i):
        r = slice(3 * i, 3 * i + 3)
        return step(x[r], lengths[r], y[r])

    return call, {"rnn": rnn, "out": out, "lengths": lengths, "x": x, "y": y}


def test_gru_over_lengths() -> None:
    rows = both(gru_over_lengths)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        w, loss = {k.removeprefix("rnn."): v for k, v in before.items()}, 0.0
        for k in range(3 * i, 3 * i + 3):
            h = np.zeros(3)
            for t in range(before["lengths"][k]):
                a = w["weight_ih_l0"] @ before["x"][k, t] + w["bias_ih_l0"]
                b = w["weight_hh_l0"] @ h + w["bias_hh_l0"]
                r, z = sigmoid(a[:3] + b[:3]), sigmoid(a[3:6] + b[3:6])
                h = (1 - z) * np.tanh(a[6:] + r * b[6:]) + z * h
            p = softmax(before["out.weight"] @ h + before["out.bias"])
            loss -= math.log(p[before["y"][k]]) / 3
        np.testing.assert_allclose(row["result"], loss, rtol=1e-11)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4, padding_idx=0)
        self.encoder = nn.GRU(4, 4, batch_first=True)
        self.decoder = nn.GRUCell(4, 4)
        self.out = nn.Linear(4, 7)

    def forward(self, source, target, forced):
        _, hidden = self.encoder(self.embed(source))
        hidden, token, outputs = hidden[0], wg.ones(len(source), dtype=wg.long), []
        for t in range(target.shape[1]):
            hidden = self.decoder(self.embed(token), hidden)
            outputs.append(self.out(hidden))
            token = wg.where(forced[t], target[:, t], outputs[-1].argmax(dim=1))
        return wg.stack(outputs, dim=1)


@program
def teacher_forcing(jit: Any) -> Any:
    source = ids(16, 4)
    target = source.flip(1)
    model = fresh(Seq2Seq())
    opt = optim.Adam(model.parameters(), lr=0.02)
    criterion = nn.CrossEntropyLoss(ignore_index=0)

    @jit
    def step(source, target, ratio):
        opt.zero_grad()
        logits = model(source, target, wg.rand(4) < ratio)
        loss = criterion(logits.transpose(1, 2), target)
        loss.backward()
        opt.step()
        return loss, logits.argmax(-1)

    return lambda i: step(source[2 * i : 2 * i + 2], target[2 * i : 2 * i + 2], 1 - i / 8), {"model": model, "opt": opt}


def test_teacher_forcing() -> None:
    rows = both(teacher_forcing)
    assert all(not row["model.embed.weight.grad"][0].any() for row in rows[1:])
    assert len({row["rng"].tobytes() for row in rows[1:]}) == 8


class Block(nn.Module):
    """Pre-norm attention and a feed-forward net, written out."""

    def __init__(self, d, heads):
        super().__init__()
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.heads = heads

    def forward(self, x, padding):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(d, dim=2)
        q, k, v = (z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        causal = wg.tril(wg.ones(t, t, dtype=wg.bool))
        scores = scores.masked_fill(~causal, float("-inf"))
        scores = scores.masked_fill(padding[:, None, None, :], float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(7, 4), nn.Embedding(6, 4)
        self.blocks = nn.ModuleList([Block(4, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 7, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(wg.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x, tokens == 0)
        return self.head(self.norm(x))


@program
def transformer(jit: Any) -> Any:
    tokens = ids(16, 6, high=6) + 1
    tokens[1, 4:] = 0
    tokens[6, 3:] = 0
    model = fresh(Transformer())
    opt = optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95))

    @jit
    def step(tokens):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss, logits

    return lambda i: step(tokens[2 * i : 2 * i + 2]), {"model": model, "opt": opt, "tokens": tokens}


def layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def attended(row: Row, tokens: np.ndarray) -> np.ndarray:
    """The logits of one sequence, position by position, head by head."""
    w = {k.removeprefix("model."): v for k, v in row.items()}
    x = w["tokens.weight"][tokens] + w["positions.weight"][: len(tokens)]
    for n in range(2):
        p = {k.removeprefix(f"blocks.{n}."): v for k, v in w.items()}
        made = layer_norm(x, p["norm1.weight"], p["norm1.bias"]) @ p["qkv.weight"].T
        y = np.zeros_like(x)
        for t, h in itertools.product(range(len(x)), range(2)):
            seen = [s for s in range(t + 1) if tokens[s] != 0]
            q, k, v = (made[:, 4 * part + 2 * h : 4 * part + 2 * h + 2] for part in range(3))
            y[t, 2 * h : 2 * h + 2] = softmax(k[seen] @ q[t] / math.sqrt(2)) @ v[seen]
        x = x + y @ p["proj.weight"].T + p["proj.bias"]
        z = layer_norm(x, p["norm2.weight"], p["norm2.bias"])
        x = x + gelu(z @ p["mlp.0.weight"].T + p["mlp.0.bias"]) @ p["mlp.2.weight"].T + p["mlp.2.bias"]
    return layer_norm(x, w["norm.weight"], w["norm.bias"]) @ w["head.weight"].T


def test_transformer() -> None:
    rows = both(transformer)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        for k in range(2):
            logits = attended(before, before["tokens"][2 * i + k, :-1])
            np.testing.assert_allclose(row["result.1"][k], logits, rtol=1e-9, atol=1e-11)


@program
def masked_language_model(jit: Any) -> Any:
    """Of the chosen tokens eight in ten become the mask, one a random token, one stays (Devlin et al. 2019)."""
    tokens = ids(24, 5, high=6) + 1
    embed, encoder = fresh(nn.Embedding(8, 4)), fresh(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True))
    head = fresh(nn.Linear(4, 8), 1)
    opt = optim.Adam([*embed.parameters(), *encoder.parameters(), *head.parameters()], lr=0.01)

    @jit
    def step(tokens):
        labels = tokens.clone()
        chosen = wg.rand(tokens.shape) < 0.4
        chosen[:, 0] = True
        labels[~chosen] = -100
        replaced = chosen & (wg.rand(tokens.shape) < 0.8)
        randomised = chosen & ~replaced & (wg.rand(tokens.shape) < 0.5)
        inputs = wg.where(replaced, 7, tokens)
        inputs = wg.where(randomised, wg.randint(1, 7, tokens.shape), inputs)
        logits = head(encoder(embed(inputs)))
        loss = F.cross_entropy(logits.view(-1, 8), labels.view(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, labels, inputs

    return lambda i: step(tokens[3 * i : 3 * i + 3]), {"embed": embed, "head": head, "opt": opt, "tokens": tokens}


def test_masked_language_model() -> None:
    rows = both(masked_language_model)
    for i, row in enumerate(rows[1:]):
        tokens, labels, inputs = row["tokens"][3 * i : 3 * i + 3], row["result.1"], row["result.2"]
        assert (labels[:, 0] == tokens[:, 0]).all()
        assert ((labels == tokens) | (labels == -100)).all()
        assert (inputs == tokens)[labels == -100].all()
    assert any((row["result.2"] == 7).any() for row in rows[1:])


class TreeLSTM(nn.Module):
    """The state of a node from the sum of its children's (Tai, Socher and Manning 2015), by recursion."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.iou, self.uiou = nn.Linear(3, 9), nn.Linear(3, 9, bias=False)
        self.f, self.uf = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.out = nn.Linear(3, 2)

    def node(self, tree, values):
        word, children = tree
        states = [self.node(child, values) for child in children]
        x = self.embed(values[word])
        h_sum = sum((h for h, _ in states), wg.zeros(3))
        i, o, u = (self.iou(x) + self.uiou(h_sum)).chunk(3)
        c = wg.sigmoid(i) * wg.tanh(u)
        for h_k, c_k in states:
            c = c + wg.sigmoid(self.f(x) + self.uf(h_k)) * c_k
        return wg.sigmoid(o) * wg.tanh(c), c

    def forward(self, tree, values):
        return self.out(self.node(tree, values)[0])


@program
def tree_lstm(jit: Any) -> Any:
    leaf = lambda k: (k, [])
    trees = [(0, [leaf(1), (2, [leaf(3), leaf(4)])]), (0, [leaf(1), leaf(2), leaf(3)])]
    words = ids(16, 5, high=5)
    model = fresh(TreeLSTM())
    opt = optim.Adagrad(model.parameters(), lr=0.1)

    @jit
    def step(values, labels):
        opt.zero_grad()
        logits = wg.stack([model(tree, v) for tree, v in zip(trees, values)])
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        opt.step()
        return loss, logits

    def call(i):
        values = words[2 * i : 2 * i + 2]
        return step(values, values.sum(1) % 2)

    return call, {"model": model, "opt": opt, "words": words}


def test_tree_lstm() -> None:
    rows = both(tree_lstm)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        w = {k.removeprefix("model."): v for k, v in before.items()}

        def state(word: int, children: list[Any], w: Row = w) -> tuple[np.ndarray, np.ndarray]:
            x, total = w["embed.weight"][word], sum((h for h, _ in children), np.zeros(3))
            a, o, u = np.split(w["iou.weight"] @ x + w["iou.bias"] + w["uiou.weight"] @ total, 3)
            c = sigmoid(a) * np.tanh(u)
            for h, kept in children:
                c = c + sigmoid(w["f.weight"] @ x + w["f.bias"] + w["uf.weight"] @ h) * kept
            return sigmoid(o) * np.tanh(c), c

        a, b = row["words"][2 * i], row["words"][2 * i + 1]
        first = state(a[0], [state(a[1], []), state(a[2], [state(a[3], []), state(a[4], [])])])
        second = state(b[0], [state(b[1], []), state(b[2], []), state(b[3], [])])
        for k, (h, _) in enumerate((first, second)):
            np.testing.assert_allclose(row["result.1"][k], w["out.weight"] @ h + w["out.bias"], rtol=1e-11)


@program(traces=3)
def conditional_random_field(jit: Any) -> Any:
    """A tagger's score of its sequence against all sequences, by the forward algorithm in log space."""
    x, tags = data(16, 5, 3), ids(16, 5, high=3)
    emit = fresh(nn.Linear(3, 3))
    transitions = nn.Parameter(data(3, 3, seed=2) * 0.1)
    opt = optim.SGD([*emit.parameters(), transitions], lr=0.1)

    @jit
    def step(x, tags):
        scores = emit(x)
        n = x.shape[0]
        alpha = scores[:, 0]
        for t in range(1, x.shape[1]):
            alpha = wg.logsumexp(alpha.unsqueeze(2) + transitions.unsqueeze(0), dim=1) + scores[:, t]
        total = wg.logsumexp(alpha, dim=1)
        gold = scores.gather(2, tags.unsqueeze(2)).squeeze(2).sum(1) + transitions[tags[:, :-1], tags[:, 1:]].sum(1)
        loss = (total - gold).sum() / n
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    @jit
    @wg.no_grad()
    def viterbi(x):
        scores, back = emit(x), []
        best = scores[:, 0]
        for t in range(1, x.shape[1]):
            through = best.unsqueeze(2) + transitions
            back.append(through.argmax(dim=1))
            best = through.amax(dim=1) + scores[:, t]
        path = [best.argmax(dim=1)]
        for choice in reversed(back):
            path.append(choice.gather(1, path[-1].unsqueeze(1)).squeeze(1))
        return wg.stack(path[::-1], dim=1)

    def call(i):
        return step(x[2 * i : 2 * i + 2], tags[2 * i : 2 * i + 2]), viterbi(x[:2])

    return call, {"emit": emit, "transitions": transitions, "x": x, "tags": tags}


def test_conditional_random_field() -> None:
    rows = both(conditional_random_field)

    def score(row: Row, x: np.ndarray, tags: Any) -> float:
        scores = x @ row["emit.weight"].T + row["emit.bias"]
        return sum(scores[t, k] for t, k in enumerate(tags)) + sum(
            row["transitions"][a, b] for a, b in itertools.pairwise(tags)
        )

    every = list(itertools.product(range(3), repeat=5))
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        loss = 0.0
        for x, tags in zip(row["x"][2 * i : 2 * i + 2], row["tags"][2 * i : 2 * i + 2]):
            loss += np.log(sum(np.exp(score(before, x, path)) for path in every)) - score(before, x, tags)
        np.testing.assert_allclose(row["result.0"], loss / 2, rtol=1e-11)
        best = [max(every, key=lambda path: score(row, x, path)) for x in row["x"][:2]]
        assert row["result.1"].tolist() == [list(path) for path in best]


@program
def connectionist_temporal_classification(jit: Any) -> Any:
    """CTC written out: the sum over all alignments, blanks between the labels (Graves et al. 2006)."""
    x = data(16, 5, 3)
    targets = wg.tensor([[1, 2], [2, 2]] * 8)
    net = fresh(nn.Linear(3, 3))
    opt = optim.SGD(net.parameters(), lr=0.3)

    @jit
    def step(x, targets):
        logs = F.log_softmax(net(x), dim=-1)
        n, length = targets.shape
        extended = wg.zeros(n, 2 * length + 1, dtype=wg.long)
        extended[:, 1::2] = targets
        skip = wg.zeros(n, 2 * length + 1, dtype=wg.bool)
        skip[:, 2:] = (extended[:, 2:] != 0) & (extended[:, 2:] != extended[:, :-2])
        never = wg.full((n, 1), -1e30)
        alpha = wg.full((n, 2 * length + 1), -1e30)
        alpha[:, :2] = logs[:, 0].gather(1, extended[:, :2])
        for t in range(1, x.shape[1]):
            one = wg.cat([never, alpha[:, :-1]], dim=1)
            two = wg.cat([never, never, alpha[:, :-2]], dim=1)
            two = wg.where(skip, two, -1e30)
            alpha = wg.logsumexp(wg.stack([alpha, one, two]), dim=0) + logs[:, t].gather(1, extended)
        loss = -wg.logsumexp(alpha[:, -2:], dim=1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[2 * i : 2 * i + 2], targets[2 * i : 2 * i + 2]), {"net": net, "x": x}


def test_connectionist_temporal_classification() -> None:
    rows = both(connectionist_temporal_classification)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        loss = 0.0
        for x, target in zip(row["x"][2 * i : 2 * i + 2], ((1, 2), (2, 2))):
            p = softmax(x @ before["net.weight"].T + before["net.bias"])
            total = 0.0
            for path in itertools.product(range(3), repeat=5):
                if tuple(k for k, _ in itertools.groupby(path) if k) == target:
                    total += np.prod([p[t, k] for t, k in enumerate(path)])
            loss -= np.log(total) / 2
        np.testing.assert_allclose(row["result"], loss, rtol=1e-10)


@program
def word2vec(jit: Any) -> Any:
    """Skip-gram with negatives that are drawn in the step (Mikolov et al. 2013)."""
    centre, context = ids(64, high=9), ids(64, high=9, seed=5)
    inner, outer = fresh(nn.Embedding(9, 3)), fresh(nn.Embedding(9, 3), 1)
    weights = wg.tensor([5.0, 4.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0, 1.0]) ** 0.75
    opt = optim.SGD([*inner.parameters(), *outer.parameters()], lr=0.5)

    @jit
    def step(centre, context):
        negative = wg.multinomial(weights, 8 * 3, replacement=True).view(8, 3)
        v = inner(centre)
        positive = F.logsigmoid((v * outer(context)).sum(1))
        others = F.logsigmoid(-wg.bmm(outer(negative), v.unsqueeze(2)).squeeze(2)).sum(1)
        loss = -(positive + others).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, negative

    return lambda i: step(centre[8 * i : 8 * i + 8], context[8 * i : 8 * i + 8]), {
        "inner": inner, "outer": outer, "centre": centre, "context": context,
    }  # fmt: skip


def test_word2vec() -> None:
    rows = both(word2vec)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        loss, r = 0.0, slice(8 * i, 8 * i + 8)
        for a, b, negative in zip(row["centre"][r], row["context"][r], row["result.1"]):
            v, u = before["inner.weight"][a], before["outer.weight"]
            loss -= np.log(sigmoid(u[b] @ v)) + np.log(sigmoid(-(u[negative] @ v))).sum()
        np.testing.assert_allclose(row["result.0"], loss / 8, rtol=1e-11)


@program
def bag_of_words(jit: Any) -> Any:
    """Ragged documents as one list of ids with the document of each: sums by index_add, means by counts."""
    words, documents = ids(80, high=9), wg.tensor(np.repeat(np.arange(32), [1, 2, 3, 4] * 8))
    embed, out = fresh(nn.Embedding(9, 4)), fresh(nn.Linear(4, 2), 1)
    opt = optim.Adam([*embed.parameters(), *out.parameters()], lr=0.05)

    @jit
    def step(words, documents, labels):
        bags = wg.zeros(4, 4).index_add(0, documents, embed(words))
        counts = wg.zeros(4).index_add(0, documents, wg.ones(len(words)))
        loss = F.cross_entropy(out(bags / counts[:, None]), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    def call(i):
        r = slice(10 * i, 10 * i + 10)
        return step(words[r], documents[r] - 4 * i, wg.tensor([0, 1, 0, 1]))

    return call, {"embed": embed, "out": out, "words": words}


def test_bag_of_words() -> None:
    rows = both(bag_of_words)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        parts = np.split(row["words"][10 * i : 10 * i + 10], [1, 3, 6])
        means = np.array([before["embed.weight"][part].mean(0) for part in parts])
        p = softmax(means @ before["out.weight"].T + before["out.bias"])
        np.testing.assert_allclose(row["result"], -np.log(p[np.arange(4), [0, 1, 0, 1]]).mean(), rtol=1e-11)


@program
def matrix_factorisation(jit: Any) -> Any:
    users, items = ids(64, high=6), ids(64, high=8, seed=5)
    ratings = data(64) + 3
    u, v = fresh(nn.Embedding(6, 3)), fresh(nn.Embedding(8, 3), 1)
    bu, bv = nn.Parameter(wg.zeros(6)), nn.Parameter(wg.zeros(8))
    mean = wg.zeros(())
    decayed = {"params": [*u.parameters(), *v.parameters()], "weight_decay": 0.02}
    opt = optim.SGD([decayed, {"params": [bu, bv]}], lr=0.2)

    @jit
    def step(users, items, ratings):
        with wg.no_grad():
            mean.add_(0.1 * (ratings.mean() - mean))
        predicted = mean + bu[users] + bv[items] + (u(users) * v(items)).sum(dim=1)
        loss = F.mse_loss(predicted, ratings)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    def call(i):
        r = slice(8 * i, 8 * i + 8)
        return step(users[r], items[r], ratings[r])

    state = {"u": u, "v": v, "bu": bu, "bv": bv, "mean": mean, "opt": opt}
    return call, {**state, "users": users, "items": items, "ratings": ratings}


def test_matrix_factorisation() -> None:
    rows = both(matrix_factorisation)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        a, b, r = (row[k][8 * i : 8 * i + 8] for k in ("users", "items", "ratings"))
        mean = before["mean"] + 0.1 * (r.mean() - before["mean"])
        u, v = before["u.weight"][a], before["v.weight"][b]
        error = mean + before["bu"][a] + before["bv"][b] + (u * v).sum(1) - r
        np.testing.assert_allclose(row["result"], (error**2).mean(), rtol=1e-11)
        step = before["u.weight"] * (1 - 0.2 * 0.02)
        np.subtract.at(step, a, 0.2 * 2 / 8 * error[:, None] * v)
        np.testing.assert_allclose(row["u.weight"], step, rtol=1e-10, atol=1e-13)
