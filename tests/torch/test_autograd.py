"""Gradients, custom functions and checks of `wengert.torch`, with PyTorch's keywords."""

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.torch.autograd import Function, Variable, forward_ad, gradcheck, gradgradcheck, graph
from wengert.torch.autograd.function import once_differentiable
from wengert.torch.autograd.gradcheck import GradcheckError
from wengert.torch.autograd.profiler import profile, record_function


class Threshold(Function):
    """A ReLU whose backward writes to its gradient in place, as tutorials have it."""

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        assert type(input) is type(grad_output) is torch.Tensor
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        return grad_input


class Affine(Function):
    """A linear function with an argument that may be left out, and gradients only where they are needed."""

    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        out = input.mm(weight.t())
        if bias is not None:
            out += bias.unsqueeze(0).expand_as(out)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class Power(Function):
    """A power in the newer style, with its context set apart."""

    @staticmethod
    def forward(x, n):
        return x**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, n = inputs
        ctx.save_for_backward(x)
        ctx.n = n

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * ctx.n * x ** (ctx.n - 1), None


class Reversed(Function):
    """The identity with a gradient turned round."""

    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.alpha, None


class ByNumpy(Function):
    """An exponential that NumPy computes both ways."""

    @staticmethod
    def forward(ctx, x):
        out = x.new(np.exp(x.detach().numpy()))
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (out,) = ctx.saved_tensors
        return grad_output.new(grad_output.numpy() * out.numpy())


class Largest(Function):
    """A largest element and its index, which has no gradient."""

    @staticmethod
    def forward(ctx, x):
        value, index = x.max(0)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.shape = x.shape
        return value, index

    @staticmethod
    def backward(ctx, grad_value, grad_index):
        (index,) = ctx.saved_tensors
        out = torch.zeros(ctx.shape, dtype=grad_value.dtype)
        out[index] = grad_value
        return out


class Once(Function):
    """A cube whose gradient is not differentiable."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output


class Wrong(Function):
    """A cube whose gradient is wrong."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x**2 * grad_output


def leaf(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def slopes(out, *ins):
    return [g.numpy() for g in torch.autograd.grad(out.sum(), ins)]


def same(found, wanted) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_custom_functions_have_the_gradients_they_say():
    x, w, b = leaf(4, 3), leaf(2, 3, seed=1), leaf(2, seed=2)
    same(slopes(Threshold.apply(x * 2), x), slopes((x * 2).relu(), x))
    same(slopes(Affine.apply(x, w, b) ** 2, x, w, b), slopes((x @ w.T + b) ** 2, x, w, b))
    same(slopes(Affine.apply(x, w) ** 2, x, w), slopes((x @ w.T) ** 2, x, w))
    same(slopes(Power.apply(x, 3), x), slopes(x**3, x))
    same(slopes(Reversed.apply(x * x, 0.5), x), [-x.detach().numpy()])
    same(slopes(ByNumpy.apply(x), x), slopes(x.exp(), x))
    value, index = Largest.apply(x[:, 0])
    assert not index.requires_grad
    same(slopes(value, x), slopes(x[:, 0].max(), x))
    for made in (Power.apply(x, 3), Threshold.apply(x), value, index):
        assert type(made) is torch.Tensor


def test_custom_functions_in_transforms_and_compiled():
    x = leaf(4, 3).detach()
    mapped = torch.vmap(torch.func.grad(lambda v: Power.apply(v, 3).sum()))(x)
    np.testing.assert_allclose(mapped.numpy(), 3 * x.numpy() ** 2, rtol=1e-12)
    compiled = wg.jit(torch.func.grad(lambda v: Power.apply(v, 3).sum()))
    for _ in range(6):
        found = compiled(x)
    np.testing.assert_allclose(found.numpy(), 3 * x.numpy() ** 2, rtol=1e-12)
    assert type(found) is torch.Tensor


def test_second_derivatives_of_custom_functions():
    x = leaf(3)
    (g,) = torch.autograd.grad(Power.apply(x, 3).sum(), x, create_graph=True)
    same(slopes(g, x), [6 * x.detach().numpy()])
    same(slopes(Once.apply(x), x), [3 * x.detach().numpy() ** 2])
    (g,) = torch.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(g.sum(), x)
    (g,) = torch.autograd.grad((Once.apply(x) * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        torch.autograd.grad(g.sum(), x)


def test_what_a_custom_function_cannot_do_is_refused():
    class TooMany(Power):
        @staticmethod
        def backward(ctx, g):
            return g, None, g

    with pytest.raises(RuntimeError, match="3 gradients for 2"):
        TooMany.apply(leaf(2), 3).sum().backward()


class Put(Function):
    """Writes a value into its first argument behind autograd's back, and returns it."""

    @staticmethod
    def forward(ctx, store, value, index):
        ctx.index = index
        store.data[index] = value
        return store

    @staticmethod
    def backward(ctx, g):
        return g, g[ctx.index], None


class AddTo(Function):
    """Adds its second argument to the first, in place."""

    @staticmethod
    def forward(ctx, x, y):
        x.add_(y)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g, 2 * g


class Counted(Function):
    """Doubles its argument, and counts the calls in another, which it does not return."""

    @staticmethod
    def forward(ctx, x, count):
        count += 1
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g, None


def filled_by_parts(v):
    store = torch.zeros(2, 3, dtype=v.dtype)
    first = store
    for i in range(3):
        store = Put.apply(store, v * (i + 1), (..., i))
    return first, store


def test_setup_context_is_given_arguments_that_were_left_out():
    class Raised(torch.autograd.Function):
        @staticmethod
        def forward(x, y=3):
            return x**y

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.y = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.y * x ** (ctx.y - 1), None

    x = leaf(3)
    same(slopes(Raised.apply(x), x), slopes(x**3, x))
    same(slopes(Raised.apply(x, 2), x), slopes(x**2, x))
    assert torch.func.grad(lambda v: Raised.apply(v).sum())(x.detach()).tolist() == (3 * x.detach() ** 2).tolist()


def test_gradcheck_sees_what_a_second_pass_and_other_values_change():
    x = leaf(3)

    class Jitters(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * (1 + 1e-6 * torch.rand_like(g))

    with pytest.raises(RuntimeError, match="not reentrant"):
        torch.autograd.gradcheck(Jitters.apply, (x,))
    assert torch.autograd.gradcheck(Jitters.apply, (x,), nondet_tol=1e-5)
    for changes in (lambda v: torch.cat([v, v]) if bool((v >= x.detach()).all()) else v, lambda v: _narrowed(v, x)):
        with pytest.raises(RuntimeError, match="depend on its values in shape and dtype"):
            torch.autograd.gradcheck(changes, (x,))

    def bent(v):  # forward mode sees another slope
        primal, tangent = torch.autograd.forward_ad.unpack_dual(v)
        return v * 2 if tangent is None else torch.autograd.forward_ad.make_dual(primal, tangent * 1.1) * 2

    assert torch.autograd.gradcheck(bent, (x,))
    with pytest.raises(RuntimeError, match="forward mode along argument 0"):
        torch.autograd.gradcheck(bent, (x,), check_forward_ad=True)

    def hooked(v):  # the function may ask for gradients of what it makes of the arguments
        made = v.clone()
        made.register_hook(lambda g: g + 1e-2)
        return made

    assert not torch.autograd.gradcheck(hooked, (x,), raise_exception=False)


def _narrowed(v, x):
    return v.float() if bool((v >= x.detach()).all()) else v


def test_custom_functions_write_to_arguments():
    v = leaf(2)
    first, store = filled_by_parts(v)
    same([first, store.detach()], [np.outer(v.detach(), [1.0, 2.0, 3.0])] * 2)
    assert not first.requires_grad
    (store * torch.arange(3.0)).sum().backward()
    same([v.grad], [[8.0, 8.0]])
    with torch.no_grad():
        first, store = filled_by_parts(v)
    assert first is store


def test_custom_functions_that_write_compile():
    def loss(v):
        return (filled_by_parts(v)[1] * torch.arange(3.0)).sum()

    compiled = torch.compile(wg.value_and_grad(loss), fullgraph=True)
    for i in range(7):
        v = torch.tensor([1.0 + i, 2.0])
        value, slopes = compiled(v)
        same([slopes, value], [[8.0, 8.0], 8.0 * (3.0 + i)])


def test_what_is_marked_as_dirty_is_the_result():
    y = leaf(2)
    for x in (torch.ones(2), torch.ones(2, requires_grad=True) * 1.0):
        x, base = x.double(), torch.zeros(3, 2, dtype=torch.float64)
        for target in (x, base[1]):
            before = target.detach().clone()
            y.grad = None
            out = AddTo.apply(target, y)
            assert out is target
            same([out.detach()], [before + y.detach()])
            (out * torch.tensor([1.0, 3.0])).sum().backward()
            same([y.grad], [[2.0, 6.0]])
        same([base[1].detach()], [y.detach()])
    plain = torch.ones(2)
    assert AddTo.apply(plain, torch.ones(2)) is plain
    same([plain], [[2.0, 2.0]])
    with pytest.raises(RuntimeError, match="leaf"):
        AddTo.apply(torch.ones(2, requires_grad=True), y)


def test_custom_functions_write_to_what_they_do_not_return():
    x, count = leaf(2), torch.zeros(())
    Counted.apply(x, count).sum().backward()
    with torch.no_grad():
        Counted.apply(x, count)
    assert count.item() == 2
    same([x.grad], [[2.0, 2.0]])
    with pytest.raises(RuntimeError, match="does not return it"):
        torch.compile(lambda v: Counted.apply(v, count).sum(), fullgraph=True)(x)

    class Forgets(AddTo):
        @staticmethod
        def forward(ctx, x, y):
            AddTo.forward(ctx, x, y)
            return y * 1.0

    with pytest.raises(RuntimeError, match="marks its argument 0"):
        Forgets.apply(torch.ones(2), x)


def test_grad_takes_pytorchs_keywords():
    x, w = leaf(4), leaf(4, seed=1)
    found = torch.autograd.grad(outputs=(x * x).sum(), inputs={"x": x}, retain_graph=False, only_inputs=True)
    same([found["x"].numpy()], [2 * x.detach().numpy()])
    assert torch.autograd.grad(x.sum(), [x, w], allow_unused=True)[1] is None
    assert torch.autograd.grad(x.sum(), [x, w], materialize_grads=True)[1].tolist() == [0.0] * 4
    with pytest.raises(RuntimeError):
        torch.autograd.grad(x.sum(), [x, w])
    with pytest.raises(RuntimeError):
        torch.autograd.grad(x.sum(), x, materialize_grads=True, allow_unused=False)
    weights = torch.stack([torch.ones_like(x), 2 * torch.ones_like(x)])
    (rows,) = torch.autograd.grad(x * x, x, grad_outputs=weights, is_grads_batched=True)
    np.testing.assert_allclose(rows.numpy(), np.outer([2, 4], x.detach().numpy()))


def test_backward_takes_pytorchs_keywords():
    x, w = leaf(3), leaf(3, seed=1)
    torch.autograd.backward([x.sum(), (x * 2)], grad_tensors=[None, torch.ones(3, dtype=torch.float64)])
    assert x.grad.tolist() == [3.0] * 3
    with pytest.warns(FutureWarning):
        torch.autograd.backward(x * 2, grad_variables=torch.ones(3, dtype=torch.float64))
    assert x.grad.tolist() == [5.0] * 3
    x.grad = None
    (x * w).sum().backward(inputs=[w])
    assert x.grad is None
    assert torch.equal(w.grad, x.detach())
    with pytest.raises(RuntimeError):
        torch.autograd.backward(x.sum(), inputs=[])


def test_gradcheck():
    x, w = leaf(3, 2), leaf(2, 2, seed=1)
    assert gradcheck(Power.apply, (x, 3))
    assert gradcheck(lambda a, b: (a @ b, a.sin()), (x, w), check_forward_ad=True)
    assert gradgradcheck(Power.apply, (x, 3))
    assert gradgradcheck(lambda a, b: (a @ b).sin(), (x, w))
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    assert gradcheck(lambda v: (v * v.conj()).real + v.imag, z)
    assert not gradcheck(Wrong.apply, (x,), raise_exception=False)
    with pytest.raises(GradcheckError):
        gradcheck(Wrong.apply, (x,))
    with pytest.raises(RuntimeError, match="requires gradients"):
        gradcheck(torch.sin, (torch.ones(2),))


def test_variables_are_tensors():
    x = Variable(torch.ones(2), requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert isinstance(x, Variable)
    assert isinstance(torch.ones(1), Variable)
    assert not isinstance(1.0, Variable)
    assert not Variable(x).requires_grad
    assert not Variable(torch.ones(1), volatile=True).requires_grad


def test_forward_mode():
    x = leaf(3).detach()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x), level=0)
        found = forward_ad.unpack_dual(dual.sin())
    np.testing.assert_allclose(found.tangent.numpy(), np.cos(x.numpy()))
    assert type(found.tangent) is torch.Tensor
    assert forward_ad.enter_dual_level() == 0
    assert forward_ad.unpack_dual(forward_ad.make_dual(x, x) * 2).tangent.tolist() == (2 * x).tolist()
    forward_ad.exit_dual_level()
    with pytest.raises(RuntimeError):
        forward_ad.exit_dual_level()


def test_nan_in_gradients_is_found_where_asked():
    x = torch.tensor([0.0], requires_grad=True)
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="NaN"):
        (x.sqrt() * 0).sum().backward()
    with torch.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError, match="NaN"):
        torch.autograd.grad((x.sqrt() * 0).sum(), x)
    (x.sqrt() * 0).sum().backward()
    assert not torch.autograd.anomaly_mode.is_anomaly_enabled()


def test_hooks_of_several_tensors():
    a, b, seen = leaf(2), leaf(2, seed=1), []
    handle = graph.register_multi_grad_hook((a, b), seen.append)
    (a * b).sum().backward()
    assert [g.tolist() for g in seen[0]] == [b.tolist(), a.tolist()]
    handle.remove()
    (a * b).sum().backward()
    assert len(seen) == 1
    with graph.save_on_cpu(), graph.allow_mutation_on_saved_tensors(), record_function("part"):
        pass
    with pytest.raises((RuntimeError, ValueError)):
        profile()
    with profile(enabled=False):
        pass


class Pair(Function):
    """Two results, with a backward that is told which of them matter."""

    @staticmethod
    def forward(ctx, x, materialize):
        ctx.set_materialize_grads(materialize)
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx, first, second):
        Pair.given = (first is None, second is None)
        found = [weight * g for weight, g in ((2, first), (3, second)) if g is not None]
        return sum(found[1:], found[0]), None


def test_absent_gradients_are_none_where_asked() -> None:
    x = torch.ones(2, requires_grad=True)
    for materialize in (True, False):
        for which, weight in ((0, 2.0), (1, 3.0)):
            (g,) = torch.autograd.grad(Pair.apply(x, materialize)[which].sum(), x)
            assert g.tolist() == [weight] * 2
            assert Pair.given == ((False, False) if materialize else (which == 1, which == 0))
    (g,) = torch.autograd.grad(sum(Pair.apply(x, False)).sum(), x)
    assert g.tolist() == [5.0] * 2
    assert Pair.given == (False, False)
    # The same in batches, and compiled.
    slope = wg.grad(lambda x: Pair.apply(x, False)[1].sum())
    assert wg.vmap(slope)(torch.ones(3, 2)).tolist() == [[3.0, 3.0]] * 3
    run = torch.compile(slope)
    assert [run(torch.ones(2)).tolist() for _ in range(6)] == [[3.0, 3.0]] * 6


def test_functional_graphs_of_plain_inputs() -> None:
    """With create_graph results carry gradients wherever PyTorch's do: also where the inputs have none."""
    functional = torch.autograd.functional
    for needs in (False, True):
        x = torch.ones(2, requires_grad=needs)
        assert not functional.jacobian(lambda x: 2 * x, x, create_graph=True).requires_grad
        assert functional.jacobian(lambda x: x * x, x, create_graph=True).requires_grad
        for product in (functional.vjp, functional.jvp):
            found = [product(f, x, torch.ones(2), create_graph=True) for f in (lambda x: 2 * x, lambda x: x * x)]
            assert [[part.requires_grad for part in both] for both in found] == [[True, False], [True, True]]
        assert not functional.jacobian(lambda x: x * x, x).requires_grad


def test_a_generator_is_closed_in_its_mode():
    seen = []

    @torch.no_grad()
    def steps():
        try:
            yield torch.is_grad_enabled()
        finally:
            seen.append(torch.is_grad_enabled())

    run = steps()
    assert not next(run)
    assert torch.is_grad_enabled()
    run.close()
    assert seen == [False]
    assert torch.is_grad_enabled()


STRICT = ("jacobian", "vjp", "jvp", "hessian", "hvp", "vhp")


@pytest.mark.parametrize("name", STRICT)
def test_strict_looks_at_gradients_that_are_differentiated(name):
    call = getattr(torch.autograd.functional, name)
    x, v = torch.ones(3), () if name in ("jacobian", "hessian") else (torch.ones(3),)
    second = name in ("hessian", "hvp", "vhp")
    linear, curved = (lambda a: (3 * a).sum(), lambda a: (a**3).sum()) if second else (lambda a: 3 * a, lambda a: a**3)
    call(curved, x, *v, strict=True)
    call(linear, x, *v, strict=False)
    with pytest.raises(RuntimeError, match="does not depend on input 0"):
        call(linear, x, *v, strict=True, create_graph=True)
    if second:
        with pytest.raises(RuntimeError, match="the gradient of output 0 in input 0"):
            call(linear, x, *v, strict=True)
    else:
        call(linear, x, *v, strict=True)
    with pytest.raises(RuntimeError, match="does not depend on input 0"):
        call(lambda a: torch.ones(()) * 2 if second else torch.ones(3), x, *v, strict=True)
    if not v:
        with pytest.raises(RuntimeError, match="vectorize"):
            call(curved, x, strict=True, vectorize=True)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_recorded_pass_leaves_the_gradient_of_before_as_it_is(recorded: bool) -> None:
    x = torch.ones(2, requires_grad=True)
    y = (x + 2).sum()
    y.backward(retain_graph=True)
    before = x.grad
    y.backward(create_graph=recorded)
    assert x.grad.tolist() == [2.0, 2.0]
    assert before.tolist() == ([1.0, 1.0] if recorded else [2.0, 2.0])
    assert (before is x.grad) is not recorded


def test_a_result_that_is_returned_twice_is_one_tensor():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x * 2
            return out, out

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 2

    x = leaf(3)
    a, b = Twice.apply(x)
    assert a is b
    same(slopes(a + b, x), [[4.0] * 3])
    assert torch.autograd.gradcheck(lambda v: sum(Twice.apply(v)), (x,))


def test_two_rules_for_one_gradient_are_refused():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="both 'backward' and 'vjp'"):
        Both.apply(leaf(3))


def test_tangents_that_are_refused():
    ad, x = torch.autograd.forward_ad, torch.ones(2)
    with ad.dual_level():
        with pytest.raises(TypeError, match="floating point or complex"):
            ad.make_dual(x, torch.ones(2, dtype=torch.int64))
        with pytest.raises(RuntimeError, match="at the same level"):
            ad.make_dual(x, ad.make_dual(x, x))
        assert ad.unpack_dual(ad.make_dual(x, x * 2)).tangent.tolist() == [2.0, 2.0]


def test_gradients_that_are_none_become_zeros_that_are_differentiated():
    x, a = torch.tensor(0.5, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    first = torch.autograd.grad(x * a, x, create_graph=True)
    second = torch.autograd.grad(first, x, create_graph=True, materialize_grads=True)
    third = torch.autograd.grad(second, x, materialize_grads=True)
    assert [g.item() for g in (*first, *second, *third)] == [1.0, 0.0, 0.0]
    del x.grad
    assert x.grad is None


def test_gradients_at_and_of_places_in_the_graph():
    edge_of = torch.autograd.graph.get_gradient_edge
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    middle = x.sin().cos().sum()
    out, edge = middle.exp().sin(), edge_of(middle)
    (at,) = torch.autograd.grad(out, (edge,), retain_graph=True)
    (found,) = torch.autograd.grad(edge, (x,), grad_outputs=(at,), retain_graph=True)
    same([found.detach()], [torch.autograd.grad(out, x, retain_graph=True)[0].detach()])
    other = (torch.ones(2, requires_grad=True) * 2).sum()
    (at, zeros) = torch.autograd.grad(out, (edge, other), allow_unused=True, materialize_grads=True, retain_graph=True)
    assert zeros.item() == 0.0
    with pytest.raises(RuntimeError, match="of an edge"):
        torch.autograd.grad(out, (x, edge_of(other)), allow_unused=True, materialize_grads=True)
