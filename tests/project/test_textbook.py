"""Numbers that textbooks print, and their PyTorch snippets run under `import wengert.torch as torch`."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wengert as wg


def leaf(value: float) -> wg.Tensor:
    return wg.tensor(value, dtype=wg.float64, requires_grad=True)


def test_sum_times_sine() -> None:
    x1, x2 = leaf(math.pi / 2), leaf(1.0)
    f = (x1 + x2) * wg.sin(x1)
    f.backward()
    assert f.item() == pytest.approx(math.pi / 2 + 1)
    # df/dx1 = sin(x1) + (x1 + x2) cos(x1) = 1 here
    assert x1.grad.item() == pytest.approx(1.0)
    assert x2.grad.item() == pytest.approx(1.0)


def test_linear_neuron() -> None:
    w1, w2, b = leaf(1.0), leaf(2.0), leaf(0.0)
    x1, x2, y = 1.0, 1.0, 4.0
    loss = 0.5 * (w1 * x1 + w2 * x2 + b - y) ** 2
    loss.backward()
    assert loss.item() == 0.5
    assert (w1.grad.item(), w2.grad.item(), b.grad.item()) == (-1.0, -1.0, -1.0)


@pytest.mark.parametrize(
    ("x", "w", "b", "t", "loss", "dw", "db", "dx"),
    [(3.0, 2.0, 1.0, 5.0, 4.0, 12.0, 4.0, 8.0), (2.0, 3.0, 1.0, 0.0, 49.0, 28.0, 14.0, 42.0)],
)
def test_squared_error(x: float, w: float, b: float, t: float, loss: float, dw: float, db: float, dx: float) -> None:
    xs, ws, bs = leaf(x), leaf(w), leaf(b)
    out = (ws * xs + bs - t) ** 2
    out.backward()
    assert out.item() == loss
    assert (ws.grad.item(), bs.grad.item(), xs.grad.item()) == (dw, db, dx)


def test_difference_of_squares() -> None:
    x, y = leaf(3.0), leaf(2.0)
    z = (x + y) * (x - y)
    z.backward()
    assert (z.item(), x.grad.item(), y.grad.item()) == (5.0, 6.0, -4.0)


def test_quadratic() -> None:
    x = leaf(2.0)
    y = 3 * x**2 + 2 * x + 1
    y.backward()
    assert (y.item(), x.grad.item()) == (17.0, 14.0)


def test_log_sigmoid() -> None:
    w, b, x = leaf(0.5), leaf(-0.25), 2.0
    out = wg.log(wg.sigmoid(w * x + b))
    out.backward()
    s = 1 / (1 + math.exp(-0.75))
    assert out.item() == pytest.approx(math.log(s))
    assert w.grad.item() == pytest.approx((1 - s) * x)
    assert b.grad.item() == pytest.approx(1 - s)


def test_gradients_accumulate() -> None:
    x = leaf(3.0)
    (x**2).backward()
    assert x.grad.item() == 6.0
    (x**3).backward()
    assert x.grad.item() == 33.0


def test_a_node_used_twice() -> None:
    x = leaf(3.0)
    y = x * x
    (y + y * y).backward()
    assert x.grad.item() == 6.0 + 4 * 27.0


def test_fan_out_sums() -> None:
    x = leaf(2.0)
    (x + 2 * x + 3 * x).backward()
    assert x.grad.item() == 6.0


def test_max_routes() -> None:
    x, y = leaf(4.0), leaf(-1.0)
    wg.maximum(x, y).backward()
    assert (x.grad.item(), y.grad.item()) == (1.0, 0.0)


def test_dead_relu() -> None:
    w = leaf(-2.0)
    out = wg.relu(w * 3.0)
    out.backward()
    assert (out.item(), w.grad.item()) == (0.0, 0.0)


def test_squared_error_by_the_book_where_the_input_is_the_weight() -> None:
    # Printed with dL/dx = 12 where x and w change places: x = 2, w = 3.
    x, w, b = leaf(2.0), leaf(3.0), leaf(1.0)
    ((w * x + b - 5.0) ** 2).backward()
    assert (w.grad.item(), b.grad.item(), x.grad.item()) == (8.0, 4.0, 12.0)


SNIPPETS = {
    "first gradient": """
import wengert.torch as torch
x = torch.tensor(2.0, requires_grad=True)
y = x ** 2 + 3 * x + 1
y.backward()
print(x.grad)
assert x.grad == 7.0
""",
    "grad_fn and next_functions": """
import wengert.torch as torch
a = torch.tensor([2., 3.], requires_grad=True)
b = torch.tensor([6., 4.], requires_grad=True)
Q = 3*a**3 - b**2
external_grad = torch.tensor([1., 1.])
Q.backward(gradient=external_grad)
assert (9*a**2 == a.grad).all()
assert (-2*b == b.grad).all()
assert Q.grad_fn is not None
print(Q.grad_fn)
print(Q.grad_fn.next_functions)
assert Q.grad_fn.next_functions[0][0] is not None
assert a.is_leaf and not Q.is_leaf
""",
    "zeroing a gradient": """
import wengert.torch as torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
for i in range(3):
    loss = (x ** 2).sum()
    loss.backward()
    print(x.grad)
    assert x.grad.tolist() == [2.0, 4.0]
    x.grad.zero_()
""",
    "no_grad and detach": """
import wengert.torch as torch
x = torch.ones(5)
w = torch.randn(5, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
z = torch.matmul(x, w) + b
print(z.requires_grad)
assert z.requires_grad
with torch.no_grad():
    z = torch.matmul(x, w) + b
print(z.requires_grad)
assert not z.requires_grad
z = torch.matmul(x, w) + b
z_det = z.detach()
assert not z_det.requires_grad
""",
    "gradient descent by hand": """
import wengert.torch as torch
torch.manual_seed(0)
x = torch.linspace(-1, 1, 50)
y = 3 * x + 7
w = torch.randn(1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for epoch in range(200):
    y_pred = w * x + b
    loss = ((y_pred - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
        w.grad.zero_()
        b.grad.zero_()
print(w.item(), b.item())
assert abs(w.item() - 3) < 1e-2 and abs(b.item() - 7) < 1e-2
""",
    "polynomial fit with autograd": """
import wengert.torch as torch
import math
dtype = torch.float
x = torch.linspace(-math.pi, math.pi, 2000, dtype=dtype)
y = torch.sin(x)
a = torch.randn((), dtype=dtype, requires_grad=True)
b = torch.randn((), dtype=dtype, requires_grad=True)
c = torch.randn((), dtype=dtype, requires_grad=True)
d = torch.randn((), dtype=dtype, requires_grad=True)
learning_rate = 1e-6
first = None
for t in range(500):
    y_pred = a + b * x + c * x ** 2 + d * x ** 3
    loss = (y_pred - y).pow(2).sum()
    first = first if first is not None else loss.item()
    loss.backward()
    with torch.no_grad():
        a -= learning_rate * a.grad
        b -= learning_rate * b.grad
        c -= learning_rate * c.grad
        d -= learning_rate * d.grad
        a.grad = None
        b.grad = None
        c.grad = None
        d.grad = None
assert loss.item() < first
print(f'Result: y = {a.item()} + {b.item()} x + {c.item()} x^2 + {d.item()} x^3')
""",
    "nn and optim": """
import wengert.torch as torch
import wengert.torch.nn as nn
import wengert.torch.nn.functional as F
import wengert.torch.optim as optim
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return self.fc2(x)

net = Net()
print(net)
inputs = torch.randn(32, 4)
labels = torch.randint(0, 3, (32,))
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
losses = []
for epoch in range(30):
    optimizer.zero_grad()
    outputs = net(inputs)
    loss = criterion(outputs, labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] * 0.7
_, predicted = torch.topk(outputs, 1)
assert predicted.shape == (32, 1)
""",
    "second derivative": """
import wengert.torch as torch
x = torch.tensor(3.0, requires_grad=True)
y = x ** 3
first = torch.autograd.grad(y, x, create_graph=True)[0]
second = torch.autograd.grad(first, x)[0]
assert first.item() == 27.0 and second.item() == 18.0
""",
    "hooks and retain_grad": """
import wengert.torch as torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * 2
y.retain_grad()
h = x.register_hook(lambda g: g * 10)
y.sum().backward()
assert y.grad.tolist() == [1.0, 1.0]
assert x.grad.tolist() == [20.0, 20.0]
h.remove()
""",
    "retain_graph": """
import wengert.torch as torch
x = torch.tensor(2.0, requires_grad=True)
y = x ** 2
y.backward(retain_graph=True)
y.backward()
assert x.grad == 8.0
""",
    "saving and loading": """
import copy
import wengert.torch as torch
import wengert.torch.nn as nn
model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
other = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
other.load_state_dict(model.state_dict())
x = torch.randn(4, 2)
assert torch.allclose(model(x), other(x))
frozen = copy.deepcopy(model)
for param in frozen.parameters():
    param.requires_grad = False
assert not frozen(x).requires_grad
""",
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippet_runs_verbatim(name: str) -> None:
    exec(compile(SNIPPETS[name], f"<{name}>", "exec"), {"__name__": "__main__"})


def test_repr() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x * x) == "tensor([1., 4.], grad_fn=<MultiplyBackward>)"
    assert repr(wg.tensor([1, 2])) == "tensor([1, 2])"
    assert repr(wg.tensor(np.zeros(2))) == "tensor([0., 0.], dtype=float64)"
    assert repr(wg.tensor([True])) == "tensor([ True])"
