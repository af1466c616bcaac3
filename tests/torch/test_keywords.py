"""Every keyword of a function in PyTorch's namespace does something, or changes no number by its meaning."""

import dis
import importlib
import inspect
import re
import types

import numpy as np
import pytest

import wengert.torch as torch

HOMES = {
    "": torch,
    "Tensor.": torch.Tensor,
    **{
        f"{name}.": importlib.import_module(f"wengert.torch.{name}")
        for name in (
            *("autograd", "autograd.functional", "distributions", "fft", "func", "linalg", "nn", "nn.functional"),
            *("nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.parametrize", "optim", "optim.lr_scheduler"),
            *("signal.windows", "sparse", "special", "testing", "utils.checkpoint", "utils.data"),
        )
    },
}
# Where functions stand that take PyTorch's parameters.
ROOMS = re.compile("/wengert/(torch|nn|optim)/")
# Keywords that choose how PyTorch computes, or where, and no number.
FREE_WORDS = """
    assume_unique cache_enabled check_batched_forward_grad check_batched_grad check_grad_dtypes check_undefined_grad
    cudnn_enable cudnn_enabled determinism_check early_stop foreach gen_non_contig_grad_outputs layout masked
    masked_grad memory_format non_blocking pin_memory pickle_load_args pickle_module sorted sparse
    sparse_grad stable verbose _stacklevel _disable_byteorder_record
"""
FREE = set(FREE_WORDS.split())
# What has the keyword for a reason of its own.
OWN = {
    "Tensor.expand": {"implicit"},  # PyTorch's own use
    "Tensor.is_conj": {"input"},  # never
    "Tensor.pin_memory": {"device"},
    "autograd.gradcheck": {"fast_mode"},
    "func.jacrev": {"_preallocate_and_copy"},  # how memory is taken
    "autograd.gradgradcheck": {"fast_mode"},
    "utils.checkpoint.create_selective_checkpoint_contexts": {"allow_cache_entry_mutation"},  # nothing kept changes
    "compile": {"dynamic", "mode", "options", "_"},  # of other compilers: taken and not used, as documented
    "distributions.Distribution.expand": {"_instance"},
    "func.debug_unwrap": {"recurse"},
    "func.functionalize": {"remove"},
    "is_inference": {"input"},
    "linalg.ldl_factor": {"args", "kwargs"},  # refused
    "linalg.svd": {"driver"},
    "linalg.svdvals": {"driver"},
    "nn.DataParallel.__init__": {"device_ids", "output_device"},
    "nn.Identity.__init__": {"args", "kwargs"},  # as documented
    "nn.functional.linear_cross_entropy": {"options"},
    "nn.Module.compile": {"args", "kwargs"},
    "nn.Module.set_extra_state": {"state"},  # to be written by users
    "nn.Module.to_empty": {"recurse"},
    "nn.functional.adaptive_max_pool1d_with_indices": {"return_indices"},  # which it does, as its name says
    "nn.functional.fractional_max_pool2d_with_indices": {"return_indices"},
    "nn.functional.max_pool1d_with_indices": {"return_indices"},
    "nn.utils.rnn.PackedSequence.cuda": {"args", "kwargs"},
    "nn.UninitializedBuffer.__init__": {"persistent"},
    "optim.SparseAdam.__init__": {"params", "args", "kwargs"},  # refused
    "set_flush_denormal": {"mode"},
    "sparse_coo_tensor": {"check_invariants"},
    "testing.assert_close": {"allow_subclasses", "check_device", "check_layout", "check_stride"},
    "utils.checkpoint.checkpoint": {"debug"},
    "utils.checkpoint.set_checkpoint_debug_enabled": {"enabled"},
    "utils.checkpoint.set_checkpoint_early_stop": {"enable"},
}


def read(code):
    """Return the names that a function's code reads, in functions inside of it too."""
    found = set()
    for step in dis.get_instructions(code):
        if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
            found.update(step.argval if isinstance(step.argval, tuple) else (step.argval,))
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= read(inner) & set(inner.co_freevars)
    return found


def functions():
    """Yield each function of the namespace, methods of its classes and what their fronts are made around."""
    seen = set()

    def one(path, fn):
        while inspect.isfunction(fn):  # several may be made by one wrapper
            if fn.__code__ not in seen and ROOMS.search(fn.__code__.co_filename.replace("\\", "/")):
                yield path, fn
            seen.add(fn.__code__)
            fn = getattr(fn, "__wrapped__", None)

    for home, where in HOMES.items():
        for name in dir(where):
            if name.startswith("_"):
                continue
            found = getattr(where, name)
            yield from one(home + name, found)
            if inspect.isclass(found) and found.__module__.startswith("wengert."):
                for inner, fn in vars(found).items():
                    if not inner.startswith("_") or inner == "__init__":
                        yield from one(f"{home}{name}.{inner}", fn)


def unread(fn):
    code = fn.__code__
    count = code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & flag) for flag in (4, 8))
    return set(code.co_varnames[:count]) - read(code) - {"self", "cls"}


def test_no_parameter_is_taken_and_not_read():
    found = {path: unread(fn) - FREE - OWN.get(path, set()) for path, fn in functions()}
    assert len(found) > 700
    assert {path: names for path, names in found.items() if names} == {}


def test_exceptions_are_needed():
    found = {path: unread(fn) for path, fn in functions()}
    assert {path: names - found.get(path, set()) for path, names in OWN.items() if names - found.get(path, set())} == {}
    assert set().union(*found.values()) >= FREE


# -- out=

x, m, i = torch.tensor([0.25, 0.5, 0.75]), torch.tensor([[2.0, 0.5], [0.5, 1.0]]), torch.tensor([3, 5, 6])
b, z = torch.tensor([True, False, True]), torch.tensor([1 + 2j, 3 - 1j])
# What is tried in turn, until a function takes it; and what some need.
TRIED = [
    (x,),
    (x, x),
    (x, 0),
    (m,),
    (m, m),
    (i, i),
    (x, 2),
    (2, x),
    (x, m, m),
    (m, m, m),
    (m, m[0]),
    (x, x, x),
    (z,),
    (3,),
]
GIVEN = {
    "addbmm": (m, m[None], m[None]),
    "addmv": (m[0], m, m[0]),
    "addr": (m, m[0], m[0]),
    "baddbmm": (m[None], m[None], m[None]),
    "bmm": (m[None], m[None]),
    "bucketize": (x, x),
    "binomial": (x * 4, x),
    "cat": ([x, x],),
    "constant_pad_nd": (x, (1, 1)),
    "concat": ([x, x],),
    "concatenate": ([x, x],),
    "column_stack": ([x, x],),
    "complex": (x, x),
    "cross": (x, x),
    "dstack": ([x, x],),
    "full": ((2, 2), 3.0),
    "gather": (x, 0, i % 3),
    "hstack": ([x, x],),
    "index_add": (x, 0, i % 3, x),
    "index_copy": (x, 0, torch.arange(3), x),
    "index_reduce": (x, 0, i % 3, x, "mean"),
    "index_select": (x, 0, i % 3),
    "kthvalue": (x, 1),
    "linspace": (0, 1, 3),
    "logspace": (0, 1, 3),
    "lerp": (x, x, 0.5),
    "linalg.cross": (x, x),
    "as_strided_copy": (x, (2,), (1,)),
    "chain_matmul": (m, m),
    "linalg.matrix_power": (m, 2),
    "linalg.solve_triangular": (m, m),
    "lu": (m,),
    "matrix_power": (m, 2),
    "narrow_copy": (x, 0, 0, 2),
    "select_copy": (x, 0, 1),
    "split_with_sizes_copy": (x, [1, 2]),
    "transpose_copy": (m, 0, 1),
    "unfold_copy": (x, 0, 2, 1),
    "linalg.householder_product": (m, m[0]),
    "linalg.lu_solve": (m, torch.tensor([1, 2], dtype=torch.int32), m),
    "linalg.multi_dot": ([m, m],),
    "linalg.tensorinv": (m.reshape(2, 2, 1) + 0.0, 1),
    "linalg.tensorsolve": (m, m[0]),
    "lu_solve": (m, m, torch.tensor([1, 2], dtype=torch.int32)),
    "lu_unpack": (m, torch.tensor([1, 2], dtype=torch.int32)),
    "masked_select": (x, b),
    "mode": (x,),
    "multinomial": (x, 2),
    "nonzero_static": (x,),
    "normal": (x, x),
    "ormqr": (m, m[0], m),
    "polar": (x, x),
    "quantile": (x, 0.5),
    "randint": (3, (2,)),
    "renorm": (m, 2, 0, 1.0),
    "scatter": (x, 0, i % 3, x),
    "scatter_add": (x, 0, i % 3, x),
    "scatter_reduce": (x, 0, i % 3, x, "sum"),
    "stack": ([x, x],),
    "take_along_dim": (x, i % 3, 0),
    "tensordot": (m, m),
    "topk": (x, 2),
    "vstack": ([x, x],),
    "row_stack": ([x, x],),
    "where": (b, x, x),
}
KEYWORDS = {"nonzero_static": {"size": 2}, "linalg.solve_triangular": {"upper": True}}
DRAWN = {"bernoulli", "binomial", "empty", "multinomial", "normal", "poisson", "rand", "randint", "randn", "randperm"}


def with_out():
    for home in ("", "fft.", "linalg.", "special.", "nn.functional."):
        for name in dir(HOMES[home]):
            found = getattr(HOMES[home], name) if not name.startswith("_") else None
            if inspect.isfunction(found) and "out" in inspect.signature(found).parameters:
                yield home + name


def results(out):
    return out if isinstance(out, (tuple, list)) else (out,)


def computed(fn, name):
    """Return arguments that the function takes, and what it gives."""
    for args in [GIVEN[name]] if name in GIVEN else TRIED:
        try:
            return args, fn(*args, **KEYWORDS.get(name, {}))
        except (ValueError, TypeError, IndexError, AttributeError, RuntimeError):
            if name in GIVEN:
                raise
    raise AssertionError(f"no arguments for {name}")


@pytest.mark.parametrize("name", sorted(with_out()))
def test_out_takes_the_shape_and_the_values(name):
    home, _, last = name.rpartition(".")
    fn = getattr(HOMES[f"{home}." if home else ""], last)
    args, wanted = computed(fn, name)
    made = [torch.zeros((0,), dtype=w.dtype) for w in results(wanted)]
    given = fn(*args, out=tuple(made) if isinstance(wanted, (tuple, list)) else made[0], **KEYWORDS.get(name, {}))
    for one, w, o in zip(results(given), results(wanted), made, strict=True):
        assert one is o
        assert (tuple(o.shape), o.dtype) == (tuple(w.shape), w.dtype)
        if last not in DRAWN:
            np.testing.assert_array_equal(o.numpy(), w.numpy())


def test_out_keeps_its_dtype():
    for call in (lambda o: torch.arange(3, out=o), lambda o: torch.add(torch.arange(3), 0, out=o)):
        assert call(torch.zeros(7)).tolist() == [0.0, 1.0, 2.0]
    assert torch.linspace(0, 2, 3, out=torch.zeros(0, dtype=torch.int64)).tolist() == [0, 1, 2]
    assert torch.zeros(2, out=torch.ones(0), requires_grad=True).requires_grad
    assert set(torch.rand(500, out=torch.zeros(0, dtype=torch.complex64)).imag.gt(0.5).tolist()) == {True, False}
    for call in (
        lambda: torch.zeros(2, dtype=torch.float64, out=torch.zeros(2)),
        lambda: torch.add(torch.ones(2), 1, out=torch.zeros(2, dtype=torch.int64)),
        lambda: torch.add(torch.ones(2), 1, out=[1.0, 2.0]),
    ):
        with pytest.raises(TypeError):
            call()


def test_out_and_gradients():
    w, o = torch.ones(2, requires_grad=True), torch.zeros(2)
    with pytest.raises(RuntimeError, match="requires gradients"):
        torch.mul(w, 2, out=o)
    with pytest.raises(TypeError, match="requires gradients"):
        torch.mul(o, 2, out=w)
    with torch.no_grad():
        assert torch.mul(w, 2, out=o).tolist() == [2.0, 2.0]
        assert torch.mul(o, 2, out=w).tolist() == [4.0, 4.0]
    assert w.requires_grad


def test_out_reaches_what_shares_its_memory():
    whole = torch.zeros(2, 3)
    torch.add(torch.ones(3), 1, out=whole[1])
    torch.arange(3, out=whole[0])
    assert whole.tolist() == [[0.0, 1.0, 2.0], [2.0, 2.0, 2.0]]
    with pytest.raises(ValueError, match="share"):
        torch.add(torch.ones(2), 1, out=whole[1])


# -- other keywords that were taken and not read


def test_layouts_that_there_are_not():
    for call in (
        lambda: torch.zeros(2, layout=torch.sparse_coo),
        lambda: torch.zeros_like(x, layout=torch.sparse_coo),
        lambda: torch.arange(2, layout=torch.sparse_coo),
    ):
        with pytest.raises(TypeError, match="sparse"):
            call()
    assert torch.zeros(2, layout=torch.strided).tolist() == [0.0, 0.0]


def test_generators_of_counts():
    first, second = (torch.poisson(x * 9, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)


def test_sizes_that_do_not_fit():
    assert torch.repeat_interleave(x, 2, output_size=6).shape == (6,)
    with pytest.raises(ValueError, match="output_size"):
        torch.repeat_interleave(x, 2, output_size=5)
    with pytest.raises(TypeError):
        torch.nn.Sigmoid(inplace=True)


def test_gradients_alone_or_tangents_alone_are_checked():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

        @staticmethod
        def jvp(ctx, t):
            return t * 2

    given = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Wrong.apply, (given,), check_backward_ad=False, check_forward_ad=True)
    with pytest.raises(RuntimeError, match="one of them"):
        torch.autograd.gradcheck(Wrong.apply, (given,), check_backward_ad=False)
    assert not torch.autograd.gradcheck(Wrong.apply, (given,), raise_exception=False)
    assert torch.autograd.gradgradcheck(torch.sin, (given,), check_fwd_over_rev=True)
    with pytest.raises(TypeError):
        torch.autograd.gradcheck(torch.sin, (given,), nonsense=True)


def test_numbers_between_complex_ends():
    assert torch.linspace(0, 1 + 2j, 3).tolist() == [0j, 0.5 + 1j, 1 + 2j]
    np.testing.assert_allclose(torch.logspace(0, 1j, 2).numpy(), [1, -0.6682015 + 0.7439803j], rtol=1e-6)
    with pytest.raises(TypeError, match="complex"):
        torch.linspace(0, 1j, 3, dtype=torch.float32)
