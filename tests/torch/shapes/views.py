"""Programs that write to views: functions of the library, which return what is to be seen afterwards.

Those of TRACED compute with a tensor of (2, 3), are compiled too, and have derivatives.
"""

from __future__ import annotations

from typing import Any


def _plain(*xs: Any) -> list[Any]:
    return [x.detach().tolist() if hasattr(x, "detach") else x for x in xs]


def rows_and_columns(torch: Any) -> list[Any]:
    w = torch.arange(6.0).reshape(2, 3).clone()
    w[0].zero_()
    seen = _plain(w)
    w[:, 1] += 1
    w.view(-1)[3] = 9.0
    seen += _plain(w)
    w.t().copy_(torch.ones(3, 2) * 4)
    w.data[0].fill_(1)
    w[0][1] = 5
    w[1][0] += 2
    return seen + _plain(w)


def slices(torch: Any) -> list[Any]:
    x = torch.arange(10.0).reshape(5, 2).clone()
    x[1:3].mul_(2)
    row = x[0]
    row += 1
    row.add_(1)
    seen = _plain(x, row)
    x[0, 1] = 77
    seen += _plain(row)
    x.mul_(2)
    seen += _plain(x, row)
    a = x[1:]
    b = a[1:]
    b[0] = 5.0
    a[2].fill_(3)
    del a
    b[1:].neg_()
    x[::2][1].sub_(1)
    return seen + _plain(x, b)


def leaves(torch: Any) -> list[Any]:
    p = torch.ones(3, 2, requires_grad=True)
    with torch.no_grad():
        p[0].zero_()
        p.data[1] += 1
        q = p.detach()
        q[2] = 8
        view = p[1]
        p.mul_(2)
    try:
        p[0].zero_()
    except RuntimeError:
        seen = ["refused"]
    (p * p).sum().backward()
    p.grad[0].zero_()
    return seen + _plain(p, q, view, p.grad, p.is_leaf, p.requires_grad)


def recorded(torch: Any) -> list[Any]:
    p = torch.ones(3, 2, requires_grad=True)
    y = p * 2
    r = y[0]
    r.mul_(3)
    y.sum().backward()
    seen = _plain(y, r, p.grad)
    p.grad = None
    y = p * 2
    r = y[0]
    y[0, 1] = 5.0
    (r * r).sum().backward()
    return seen + _plain(y, r, p.grad, r.requires_grad)


def recorded_into_zeros(torch: Any) -> list[Any]:
    p = torch.ones(3, requires_grad=True)
    z = torch.zeros(2, 3)
    row, column = z[0], z[:, 1]
    row.copy_(p * 3)
    (z * z).sum().backward(retain_graph=True)
    seen = _plain(z, column, p.grad, column.requires_grad)
    column.sum().backward()
    seen += _plain(p.grad)
    z = torch.zeros(2, 3)
    z.t()[1] = p[:2] * 2
    z.view(6)[5:].add_(p[:1])
    p.grad = None
    (z**2).sum().backward()
    return seen + _plain(z, p.grad)


def not_recorded(torch: Any) -> list[Any]:
    p = torch.ones(2, 2, requires_grad=True)
    h = p * 2
    with torch.no_grad():
        h.mul_(5)
    h.detach()[0].fill_(7)
    h.sum().backward()
    return _plain(h, p.grad, h.requires_grad)


def parts(torch: Any) -> list[Any]:
    h = torch.zeros(2, 4)
    i, f = h.chunk(2, 1)
    i.fill_(1)
    f.add_(2).mul_(2)
    for row in h:
        row.add_(1)
    a, _ = h.unbind(0)
    a.zero_()
    d = torch.eye(3)
    d.diagonal().mul_(5)
    x = torch.zeros(3)
    first, second, _ = x
    first += 1
    second.add_(2)
    return _plain(h, d, x, first)


def axes(torch: Any) -> list[Any]:
    m = torch.zeros(2, 3, 4)
    m.transpose(0, 2)[1].fill_(1)
    m.permute(2, 0, 1)[0, :, 1] += 7
    m[0].t()[2] = 3
    c = m.transpose(0, 2).contiguous()
    c.zero_()
    c = m.transpose(0, 2).reshape(-1)
    c.fill_(9)
    seen = _plain(m)
    m.reshape(-1)[0] = -1
    m.flatten(1)[1].sub_(2)
    m.unsqueeze(0)[0, 0].add_(4)
    m.squeeze().narrow(0, 0, 1).add_(1)
    m.select(0, 1).sub_(1)
    x = torch.zeros(4, 4)
    blocks = x.view(2, 2, 2, 2).permute(0, 2, 1, 3)
    blocks[1, 1] = torch.arange(4.0).view(2, 2)
    return seen + _plain(m, x, blocks)


def what_is_a_view(torch: Any) -> list[Any]:
    takes = [
        lambda x: x.flip(0),
        lambda x: x.clone(),
        lambda x: x[torch.tensor([0, 1])],
        lambda x: x[torch.tensor(1)],
        lambda x: x[x > 1],
        lambda x: x.detach(),
        lambda x: x.expand_as(x),
        lambda x: x.float(),
        lambda x: x.to(torch.float64),
        lambda x: x.contiguous(),
        lambda x: x.view(2, 2).t(),
        lambda x: x.view(2, 2).t().contiguous(),
        lambda x: x.view(2, 2).t().reshape(4),
        lambda x: x.view(2, 2).diag(),
        lambda x: x.roll(1),
        lambda x: x.split(2)[1],
        lambda x: x.tile(1),
        lambda x: x.squeeze(),
        lambda x: x.movedim(0, 0),
        lambda x: x.unsqueeze(1),
        lambda x: x.data,
        lambda x: x.view(2, 2).flatten(),
        lambda x: x.ravel(),
        lambda x: x[None, ..., 2],
        lambda x: x.unflatten(0, (2, 2)),
        lambda x: x.cpu(),
        lambda x: torch.cat([x]),
        lambda x: x.view(2, 2).tril(),
        lambda x: x.view(2, 2).mT,
        lambda x: x.take(torch.tensor([0])),
    ]
    seen = []
    for take in takes:
        x = torch.arange(4.0)
        take(x).zero_()
        seen += _plain(x)
    return seen


def masks_and_scatters(torch: Any) -> list[Any]:
    x = torch.arange(4)
    v = x.view(2, 2)
    v[v > 1] = 0
    v.masked_fill_(v == 1, 9)
    y = torch.zeros(3, 3)
    y[1].scatter_(0, torch.tensor([2]), 5.0)
    y[:, 0].index_fill_(0, torch.tensor([1]), 3.0)
    y[2].index_add_(0, torch.tensor([0, 0]), torch.ones(2))
    z = torch.zeros(2, dtype=torch.complex64)
    torch.view_as_real(z)[0, 1] = 3
    return _plain(x, v, y, torch.view_as_real(z))


def a_layer_and_its_optimiser(torch: Any) -> list[Any]:
    layer = torch.nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight[0].fill_(1.0)
        layer.weight.t()[1].fill_(2.0)
        layer.weight.data[1, 0] = 5
        layer.bias[:1].copy_(torch.tensor([3.0]))
    view, value = layer.weight[0], layer.weight.detach()
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer.weight.sum().backward()
    optimiser.step()
    seen = _plain(layer.weight, layer.bias[:1], view, value)
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(1)
    return seen + _plain(layer.weight, view, value)


def shapes_in_place(torch: Any) -> list[Any]:
    x = torch.zeros(2, 2)
    x.unsqueeze_(0)
    x[0, 0].fill_(1)
    y = torch.zeros(2, 3)
    row = y[0]
    row.unsqueeze_(0)
    row.add_(1)
    y.t_()
    y[0].mul_(3)
    return _plain(x, y)


def a_table(torch: Any) -> list[Any]:
    u = torch.zeros(4, 3)
    for i in range(4):
        previous = u[i - 1]
        u[i] = previous + i
    return _plain(u, previous)


def buffers(torch: Any) -> list[Any]:
    layer = torch.nn.BatchNorm1d(3)
    view = layer.running_mean[:2]
    layer(torch.ones(4, 3))
    seen = _plain(view)
    queue = torch.zeros(4, 2)
    for k in range(3):
        start = 2 * k % 4
        queue[start : start + 2] = torch.ones(2, 2) * k
    flat = torch.zeros(6)
    weight, bias = flat[:4].view(2, 2), flat[4:]
    torch.nn.init.ones_(weight)
    bias[:] = 2
    elements = [bias[i] for i in range(2)]
    flat += 1
    elements[1].fill_(9)
    return seen + _plain(queue, flat, weight, bias, *elements)


def new_memory(torch: Any) -> list[Any]:
    w = torch.ones(3)
    view = w[:2]
    w.data = torch.zeros(3)
    x = torch.zeros(3)
    copy = x[1:].clone()
    copy.fill_(1)
    r = torch.arange(6.0).view(2, 3)
    r.resize_(3, 2)
    return _plain(w, view, x, copy, r)


def old_memory_under_other_names(torch: Any) -> list[Any]:
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    kept = w.data
    w.data = kept - 1
    seen = _plain(w, kept)
    w.data = kept + 1
    seen += _plain(w, kept)
    w.data = kept
    seen += _plain(w, kept)
    kept, again, first, rest = w.data, w.data, w.data[0], w.detach()[1:]
    w.data = torch.zeros(3)
    kept.add_(10)
    seen += _plain(w, kept, again, first, rest)
    first.add_(5)
    rest.mul_(2)
    with torch.no_grad():
        w.add_(1)
    return seen + _plain(w, kept, again, first, rest)


def weights_put_aside(torch: Any) -> list[Any]:
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
        model.bias.zero_()
    x, seen = torch.tensor([[3.0, 4.0]]), []
    aside, state = {name: p.data for name, p in model.named_parameters()}, model.state_dict()
    for p in model.parameters():
        p.data = 0.5 * p.data
    seen += _plain(model(x), *aside.values(), *state.values())
    for name, p in model.named_parameters():
        p.data = aside[name]
    return seen + _plain(model(x))


def crossing_views(torch: Any) -> list[Any]:
    w = torch.ones(2, 2, requires_grad=True)
    h = w * 1
    row, column = h[0], h[:, 0]
    row *= 2
    column *= 3
    h.sum().backward()
    seen = _plain(h, row, column, w.grad)
    w.grad[0] = 0
    gradient = w.grad
    w.grad[1:].mul_(2)
    z = torch.zeros(2, 3, 4)
    z[0][1][2] += 1
    z[1].t()[0].fill_(2.0)
    n = torch.arange(4)
    n.view(2, 2)[0] //= 1
    n[1:3] <<= 1
    c = torch.zeros(2, dtype=torch.complex128)
    c.real[0] = 1
    c.imag.fill_(2)
    z.mT[1, 0] += 4
    out = torch.zeros(2, 2)
    torch.stack([torch.ones(2), torch.ones(2)], out=out)
    return seen + _plain(gradient, z, n, torch.view_as_real(c), out)


def scaled_row(torch: Any, x: Any) -> Any:
    y = x * 2
    y[0].mul_(3)
    return y


def read_after_write(torch: Any, x: Any) -> Any:
    y = x * 2
    row = y[0]
    y[0, 1] = 5.0
    return row * 1, y


def flat_and_turned(torch: Any, x: Any) -> Any:
    y = x.clone()
    y.view(-1)[2:4].add_(x.sum())
    y.t()[1].mul_(2)
    return y


def filled_zeros(torch: Any, x: Any) -> Any:
    z = torch.zeros(2, 3)
    for i in range(2):
        z[i].copy_(x[i] * (i + 1))
    return z


def axes_and_signs(torch: Any, x: Any) -> Any:
    h = x * 1
    h.permute(1, 0)[0].zero_()
    h.unsqueeze(0)[0, 1].neg_()
    return h


def augmented_row(torch: Any, x: Any) -> Any:
    h = x * 1
    row = h[1]
    row += 1
    row[0] = 7
    return h, row


def diagonal_of_zeros(torch: Any, x: Any) -> Any:
    h = torch.zeros(3, 3)
    h.diagonal().add_(x[0])
    h[:2].narrow(1, 0, 1).sub_(1)
    return h


def copies_stay(torch: Any, x: Any) -> Any:
    h = x * 1
    h.t().contiguous().zero_()
    h.t().reshape(-1).zero_()
    h.flip(0).zero_()
    h[torch.tensor([0])].zero_()
    return h


def views_of_views(torch: Any, x: Any) -> Any:
    h = x * 1
    row = h[0]
    part = row[1:]
    part.fill_(4.0)
    row.mul_(2)
    return h, row, part


def masked_row(torch: Any, x: Any) -> Any:
    h = x * 1
    h[0].masked_fill_(h[0] > 1.5, 0.0)
    h[:, 0].clamp_(min=3)
    h[1].scatter_(0, torch.tensor([2]), 9.0)
    return h


TRACED = {
    f.__name__: f
    for f in (
        scaled_row,
        read_after_write,
        flat_and_turned,
        filled_zeros,
        axes_and_signs,
        augmented_row,
        diagonal_of_zeros,
        copies_stay,
        views_of_views,
        masked_row,
    )
}
EAGER = {
    f.__name__: f
    for f in (
        rows_and_columns,
        slices,
        leaves,
        recorded,
        recorded_into_zeros,
        not_recorded,
        parts,
        axes,
        what_is_a_view,
        masks_and_scatters,
        a_layer_and_its_optimiser,
        shapes_in_place,
        a_table,
        buffers,
        new_memory,
        old_memory_under_other_names,
        weights_put_aside,
        crossing_views,
    )
}


def traced(torch: Any, program: Any, through: Any = lambda f: f) -> list[Any]:
    """Return the results of a traced program, called three times, and the derivative of a sum of their squares."""
    run = through(lambda x: program(torch, x))
    for _ in range(3):
        x = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3).requires_grad_()
        out = run(x)
        outs = out if isinstance(out, tuple) else (out,)
        sum((o * torch.arange(1.0, o.numel() + 1).reshape(o.shape)).pow(2).sum() for o in outs).backward()
    return _plain(*outs, x, x.grad)
