"""`x.storage()` and `x.untyped_storage()`, and attributes of one's own on parameters."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import WriteError


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4)])
def test_elements_and_bytes(dtype: Any, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, dtype=dtype)
    typed, raw = x.storage(), x.untyped_storage()
    assert typed.size() == len(typed) == x.numel()
    assert typed.nbytes() == raw.nbytes() == raw.size() == len(raw) == x.numel() * x.element_size()
    assert typed.tolist() == x.reshape(-1).tolist()
    assert typed.element_size() == x.element_size()
    assert typed.dtype == dtype
    assert typed.untyped().tolist() == raw.tolist() == list(x.numpy().tobytes())
    assert typed.data_ptr() == raw.data_ptr() == x.data_ptr()
    assert torch.is_storage(typed)
    assert isinstance(raw, torch.UntypedStorage)
    assert not torch.is_storage(x)


def test_order_and_indexing() -> None:
    x = torch.arange(6).reshape(2, 3).T
    assert x.storage().tolist() == [0, 1, 2, 3, 4, 5]
    assert x.storage()[1] == 1
    assert x.storage()[-2:] == [4, 5]
    assert list(x[0].storage()) == [0, 1, 2, 3, 4, 5]
    assert x[1].storage_offset() == 1
    assert x.float().storage().pickle_storage_type() == "FloatStorage"
    assert repr(x[0].clone().storage()) == " 0\n 3\n[TypedStorage(device=cpu) of size 2]"
    with pytest.raises(IndexError):
        x.storage()[6]
    with pytest.raises(IndexError):
        x.storage()[6] = 1


def test_tensors_in_one_memory_have_one_storage() -> None:
    x = torch.arange(6.0)
    part, other = x[2:4], x.clone()
    storage = x.untyped_storage()
    for y in (part, x.t(), x.view(2, 3), x.detach(), x.data, x.view(torch.int32), torch.nn.Parameter(x)):
        assert y.untyped_storage() is storage
        assert y.untyped_storage().data_ptr() == storage.data_ptr() == x.data_ptr()
        assert y.untyped_storage().nbytes() == 24
    assert part.storage() == x.storage()
    assert other.untyped_storage() is not storage
    assert other.untyped_storage().data_ptr() != storage.data_ptr()
    assert part.storage().size() == 6
    # The memory outlives the tensor that it was made for.
    del x, storage
    assert part.storage().tolist() == [0, 1, 2, 3, 4, 5]


def test_writes_to_storages_reach_tensors() -> None:
    x = torch.zeros(2, 2)
    part, storage = x[1], x.storage()
    storage[3] = 5.0
    assert part.tolist() == [0.0, 5.0]
    storage[:2] = 3.0
    assert x.tolist() == [[3, 3], [0, 5]]
    x.mul_(2.0)
    assert storage.tolist() == [6, 6, 0, 10]
    x.untyped_storage()[0:4] = 0
    assert x[0, 0] == 0
    storage.copy_(torch.ones(4).storage())
    assert part.tolist() == [1, 1]
    copied = storage.clone()
    assert storage.fill_(2.0) is storage
    assert x.tolist() == [[2, 2], [2, 2]]
    assert copied.tolist() == [1, 1, 1, 1]
    w = torch.nn.Parameter(torch.ones(2))
    w.untyped_storage().fill_(0)
    assert w.tolist() == [0, 0]
    assert w.is_leaf
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3, 3]


def test_a_write_to_a_storage_leaves_recorded_values() -> None:
    x = torch.ones(2)
    w = torch.ones(2, requires_grad=True)
    y = (w * x).sum()
    x.storage().fill_(5.0)
    y.backward()
    assert w.grad.tolist() == [1, 1]
    assert x.tolist() == [5, 5]


def test_storages_of_their_own() -> None:
    assert torch.UntypedStorage(4).tolist() == [0, 0, 0, 0]
    assert torch.UntypedStorage([1, 2]).tolist() == [1, 2]
    assert torch.TypedStorage(2).dtype == torch.float32
    storage = torch.UntypedStorage(8)
    x = torch.empty(0).set_(storage)
    x.fill_(1.0)
    assert storage.tolist() == [0, 0, 128, 63] * 2
    x, storage = copy.deepcopy([x, x.untyped_storage()])
    storage.fill_(0)
    assert x.tolist() == [0.0, 0.0]


def test_what_storages_refuse() -> None:
    storage = torch.zeros(2).storage()
    storage.resize_(2)
    for write in (lambda: storage.resize_(0), storage.share_memory_):
        with pytest.raises(WriteError):
            write()


def test_a_storage_in_compiled_code() -> None:
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert torch.compile(lambda x: x * x.storage().size())(torch.ones(3)).tolist() == [3.0, 3.0, 3.0]


# -- attributes


def test_attributes_on_parameters() -> None:
    for kind in (wg.nn, torch.nn):
        p = kind.Parameter(torch.ones(2))
        p.no_decay = True
        assert p.no_decay
        # As PyTorch has it, copies are without them.
        for other in (copy.deepcopy(p), copy.copy(p), pickle.loads(pickle.dumps(p)), p * 2, p.detach()):
            assert not hasattr(other, "no_decay")
    with pytest.raises(AttributeError):
        torch.ones(2).no_decay = True
    # The same object becomes one of PyTorch's kind.
    p = wg.nn.Parameter(np.ones((2, 2)))
    p.no_decay = True
    layer = torch.nn.Linear(2, 2)
    layer.weight = p
    assert layer.weight is p
    assert type(p) is torch.nn.Parameter
    assert p.no_decay
    assert layer.double().weight.no_decay


def step_of(scale: Callable[[Any], Any]) -> Callable[..., Any]:
    def step(model: Any, optimizer: Any, x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).sum() * scale(model)
        loss.backward()
        optimizer.step()
        return loss

    return step


def averaging(model: Any) -> Any:
    for p in model.parameters():
        if not hasattr(p, "average"):
            p.average = torch.zeros_like(p)
        p.average = p.average * 0.9 + p.detach()
    return model.weight.average.sum()


def counting(model: Any) -> Any:
    model.weight.count = getattr(model.weight, "count", 0) + 1
    return model.weight.count


def set_all(model: Any, i: int) -> None:
    for p in model.parameters():
        p.tag = 1 + (i >= 3)


def set_late(model: Any, i: int) -> None:
    if i >= 3:
        model.weight.tag = 3


def set_tensor(model: Any, i: int) -> None:
    model.weight.tag = torch.tensor(1.0 + i)


def written_tensor(model: Any, i: int) -> None:
    if i == 0:
        model.weight.tag = torch.tensor(1.0)
    model.weight.tag.add_(1.0)


NAME = "tag"
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, int], None]]] = {
    "read": (lambda m: m.weight.tag, set_all),
    "read of all": (lambda m: sum(p.tag for p in m.parameters()), set_all),
    "getattr": (lambda m: getattr(m.weight, "tag", 1), set_late),
    "hasattr": (lambda m: 2 if hasattr(m.weight, "tag") else 1, set_late),
    "a computed name": (lambda m: getattr(m.weight, NAME[:2] + NAME[2:], 1), set_late),
    "a tensor": (lambda m: m.weight.tag, set_tensor),
    "a tensor that is written": (lambda m: m.weight.tag, written_tensor),
    "written inside": (averaging, lambda m, i: None),
    "counted inside": (counting, lambda m, i: None),
}


@pytest.mark.filterwarnings("ignore:.*was traced:RuntimeWarning")  # a count on a parameter is a part of the program
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_code_sees_attributes_of_parameters(name: str) -> None:
    scale, change = PROGRAMS[name]
    runs = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = step_of(scale)
        run = torch.compile(lambda x: step(model, optimizer, x)) if compiled else lambda x: step(model, optimizer, x)  # noqa: B023
        losses = []
        for i in range(7):
            change(model, i)
            losses.append(run(torch.ones(1, 2)).item())
        runs.append(losses)
    np.testing.assert_allclose(runs[1], runs[0], rtol=1e-5)


def test_attributes_of_a_parameter_that_is_an_argument() -> None:
    p = torch.nn.Parameter(torch.ones(2))
    run = torch.compile(lambda q: (q * q.tag).sum())
    # What stands for an argument in a trace has no attributes: the function runs as it is written.
    for tag in (3, 3, 4):
        p.tag = tag
        with pytest.warns(RuntimeWarning, match="has no attribute 'tag'"):
            found = run(p)
        assert found.item() == 2.0 * tag
