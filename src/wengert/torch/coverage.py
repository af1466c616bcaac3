"""The names of PyTorch that differ here or are refused: what whoever asks is told, and what the page lists."""

from __future__ import annotations

import re

# By the dotted name below `torch`, how what is there differs.
DIFFERS: dict[str, str] = {
    "Tensor.view": "copies where PyTorch refuses, for a layout in memory that has no such view",
    "conj": "a copy: PyTorch's shares the memory of complex numbers until it is written to",
    "floor_divide": "as `remainder` and `%`: in compiled code integers divided by 0 are 0, and no error",
    "Tensor.data_ptr": "the address until the next write after the value was read: what was computed keeps its values",
    "Tensor.resize_": "adds zeros; refused where memory that others share is too small",
    "Tensor.share_memory_": "refused where it is called: processes do not share memory that they write to",
    "Tensor.cuda": "places on a GPU of JAX's what compiled steps compute with; refused where there is none",
    "Tensor.pin_memory": "the value itself: nothing is copied faster",
    "empty": "zeros",
    "empty_like": "zeros",
    "gt": "as `ge`, `lt` and `le`: an integer that the dtype does not hold is compared as it is, and not wrapped",
    "dtype": "counts as NumPy's dtype of that name wherever one is asked for, but for `numpy.isdtype`",
    "compile": "is `wengert.jit`; options of PyTorch's compilers are taken and not used",
    "use_deterministic_algorithms": "taken: everything is deterministic",
    "manual_seed": "seeds other streams than PyTorch's: the numbers drawn are others",
}

# Patterns of dotted names below `torch`, and why there is no such thing. The first that matches tells.
_REASONS: tuple[tuple[str, str], ...] = (
    (r".*autocast.*", "autocast"),
    (r".*(quantiz|qint|quint|q_scale|q_zero|q_per|qscheme|int_repr|fbgemm|fake_quant|choose_qparams).*", "quantised"),
    (r"(sparse_(?!.*_loss)|Tensor\.(to_)?(sparse|dense|coalesce)).*", "sparse"),
    (
        r".*(_indices|crow_|ccol_|col_|row_|is_coalesced|to_dense|values|resize_as_sparse|sspaddmm|smm|hspmm|hsmm|saddmm|dsmm).*",
        "sparse",
    ),
    (r".*(cudnn|miopen|mkldnn|xpu|xla|mtia|maia|ipu|vulkan|hip|mps|hpu).*", "device"),
    (r".*(is_pinned|record_stream|cuda|Stream|Event|get_device).*", "device"),
    (r".*Sym(Int|Bool|Float).*", "symbolic"),
    (r".*(align_|refine_names|rename|has_names|names).*", "named"),
    (r".*(int[1-7]|uint[1-7]|bits.*|float4.*|float8.*|complex32|chalf|bit)", "dtype"),
    (r".*(storage|from_file|Storage).*", "storage"),
    (r".*(fork|wait|parse_ir|parse_schema|parse_type_comment|import_ir|merge_type|unify_type|cpp|jit).*", "script"),
    (
        r".*(_copy|native_.*|_forward_only|batch_norm_.*|.*_backward.*|fused_.*|convolution|.*_(data|weight)_.*)",
        "inner",
    ),
    (r".*(grouped_mm|scaled_mm|SwizzleType|ScalingType).*", "dtype"),
)
_WORDS = {
    "quantised": "quantised tensors are not supported",
    "sparse": "sparse layouts are not supported: `wg.sparse` has sparse derivatives, `wg.solve` sparse systems",
    "device": "tensors live on the processor",
    "symbolic": "sizes are plain integers; `wg.Dim` stands for one that is not known",
    "named": "axes have no names",
    "dtype": "the dtype does not exist here",
    "storage": "memory is that of tensors and of NumPy's arrays",
    "script": "TorchScript is left out: `torch.compile` compiles Python as it stands",
    "autocast": '`torch.autocast("cpu")` keeps no casts, blocks nest by themselves, and there is no other device',
    "inner": "it is a kernel's entry point that the public function calls",
}


def reason(path: str) -> str | None:
    """Return why a name below `torch`, such as `Tensor.to_sparse`, is refused; None where nothing says so."""
    for pattern, word in _REASONS:
        if re.fullmatch(pattern, path):
            return _WORDS[word]
    return None
