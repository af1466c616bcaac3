"""Record what PyTorch's autocast on the processor makes of calls: needs PyTorch.

`python tests/torch/record_amp.py` writes `tests/torch/data/amp.json.gz`: for each call, each lower precision and each
dtype of the operands the dtypes of the results and, of calls without random parameters, their values. The calls are the
lines below; `N` gives normal numbers, `P` probabilities, `S` a positive definite matrix.
"""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parent / "data" / "amp.json.gz"
LOWER = ("bfloat16", "float16")

# In a lower precision; in float32; in the widest of the operands'; in that of the operands; in float64, which is there.
CALLS = """
F.conv1d(N(1,2,5), N(3,2,3), N(3))
F.conv2d(N(1,2,5,5), N(3,2,3,3), N(3))
F.conv3d(N(1,2,4,4,4), N(3,2,3,3,3))
F.conv_transpose1d(N(1,2,5), N(2,3,3))
F.conv_transpose2d(N(1,2,5,5), N(2,3,3,3), N(3))
F.conv_transpose3d(N(1,2,4,4,4), N(2,3,3,3,3))
torch.conv_tbc(N(5,1,2), N(3,2,3), N(3))
torch.bmm(N(2,3,4), N(2,4,2))
torch.mm(N(3,4), N(4,2))
torch.mv(N(3,4), N(4))
torch.dot(N(4), N(4))
torch.matmul(N(3,4), N(4))
N(3,4) @ N(4,2)
torch.linalg.vecdot(N(3,4), N(3,4))
torch.baddbmm(N(2,3,2), N(2,3,4), N(2,4,2))
torch.addmm(N(3,2), N(3,4), N(4,2))
torch.addbmm(N(3,2), N(2,3,4), N(2,4,2))
torch.addmv(N(3), N(3,4), N(4))
torch.addr(N(3,2), N(3), N(2))
torch.chain_matmul(N(3,4), N(4,2))
torch.linalg.multi_dot([N(3,4), N(4,2), N(2,2)])
F.linear(N(3,4), N(2,4), N(2))
F.prelu(N(3,4), N(1))
F.scaled_dot_product_attention(N(1,2,3,4), N(1,2,3,4), N(1,2,3,4))
torch.einsum('ij,jk->ik', N(3,4), N(4,2))
torch.tensordot(N(3,4), N(4,2), 1)
torch.inner(N(3,4), N(2,4))
torch.outer(N(3), N(4))
torch.kron(N(2,2), N(2,2))
F.bilinear(N(3,4), N(3,2), N(5,4,2), N(5))
torch.matrix_power(N(3,3), 2)
torch.nn.Linear(4,2)(N(3,4).float())
torch.nn.LSTM(4,2)(N(3,1,4).float())[0]
torch.nn.GRU(4,2)(N(3,1,4).float())[0]
torch.nn.RNN(4,2)(N(3,1,4).float())[0]
torch.nn.LSTMCell(4,2)(N(1,4).float())[0]
torch.nn.MultiheadAttention(4,2)(N(3,1,4).float(), N(3,1,4).float(), N(3,1,4).float())[0]
torch.nn.TransformerEncoderLayer(4,2,8,dropout=0.0)(N(3,1,4).float())
F.avg_pool3d(N(1,1,4,4,4), 2)
F.binary_cross_entropy(P(3), P(3))
F.grid_sample(N(1,1,3,3), N(1,2,2,2), align_corners=False)
torch.polar(N(3), N(3))
torch.prod(N(3))
N(3).prod()
torch.prod(N(3,2), 0)
torch.quantile(N(5), 0.5)
torch.nanquantile(N(5), 0.5)
torch.stft(N(16), 8, return_complex=True)
torch.cdist(N(3,2), N(4,2))
torch.trace(N(3,3))
torch.view_as_complex(N(3,2))
torch.cholesky(S(3))
torch.cholesky_inverse(S(3))
torch.cholesky_solve(N(3,1), S(3))
torch.inverse(S(3))
torch.lu_solve(N(3,1), *torch.linalg.lu_factor(S(3).float()))
torch.orgqr(N(3,3), N(3))
torch.ormqr(N(3,3), N(3), N(3,2))
torch.pinverse(S(3))
F.max_pool3d(N(1,1,4,4,4), 2)
F.max_unpool2d(*F.max_pool2d(N(1,1,4,4), 2, return_indices=True), 2)
F.adaptive_avg_pool3d(N(1,1,4,4,4), 2)
F.pad(N(1,1,4), (1,1), 'reflect')
F.pad(N(1,1,4,4), (1,1,1,1), 'reflect')
F.pad(N(1,1,4,4,4), (1,1,1,1,1,1), 'reflect')
F.pad(N(1,1,4), (1,1), 'replicate')
F.pad(N(1,1,4,4), (1,1,1,1), 'replicate')
F.pad(N(1,1,4,4,4), (1,1,1,1,1,1), 'replicate')
F.pad(N(1,1,4), (1,1), 'circular')
F.pad(N(1,1,4), (1,1))
F.mse_loss(N(3), N(3))
F.mse_loss(N(3), N(3), reduction='none')
F.cosine_embedding_loss(N(3,2), N(3,2), torch.tensor([1,-1,1]))
F.nll_loss(N(3,2), torch.tensor([0,1,0]))
F.nll_loss(N(3,2,2,2), torch.zeros(3,2,2,dtype=torch.int64))
F.hinge_embedding_loss(N(3), torch.tensor([1,-1,1]))
F.poisson_nll_loss(N(3), P(3))
F.smooth_l1_loss(N(3), N(3))
F.cross_entropy(N(3,2), torch.tensor([0,1,0]))
F.l1_loss(N(3), N(3))
F.l1_loss(N(3), N(3), reduction='none')
F.huber_loss(N(3), N(3))
F.margin_ranking_loss(N(3), N(3), torch.tensor([1,-1,1]))
F.soft_margin_loss(N(3), torch.tensor([1,-1,1]))
F.triplet_margin_loss(N(3,2), N(3,2), N(3,2))
F.multi_margin_loss(N(3,2), torch.tensor([0,1,0]))
F.ctc_loss(torch.log_softmax(N(5,1,3), -1), torch.tensor([[1,2]]), torch.tensor([5]), torch.tensor([2]))
F.kl_div(N(3), P(3))
F.kl_div(N(3), P(3), reduction='none')
F.multilabel_margin_loss(N(3), torch.tensor([1,-1,0]))
F.binary_cross_entropy_with_logits(N(3), P(3))
F.binary_cross_entropy_with_logits(N(3), P(3), reduction='none')
F.gaussian_nll_loss(N(3), N(3), P(3))
F.multilabel_soft_margin_loss(N(2,3), P(2,3))
F.pairwise_distance(N(3,2), N(3,2))
F.cosine_similarity(N(3,2), N(3,2))
torch.pdist(N(3,2))
torch.dist(N(3), N(3))
torch.fft.fft(N(4))
torch.fft.ifft(N(4))
torch.fft.fft2(N(4,4))
torch.fft.rfft(N(4))
torch.fft.irfft(N(4).float()+0j)
torch.fft.hfft(N(4))
torch.fft.ihfft(N(4))
torch.fft.fftn(N(4,4))
torch.linalg.cond(S(3))
torch.linalg.matrix_rank(S(3))
torch.linalg.solve(S(3), N(3,1))
torch.linalg.cholesky(S(3))
torch.linalg.svdvals(S(3))
torch.linalg.eigvals(S(3))
torch.linalg.eigvalsh(S(3))
torch.linalg.inv(S(3))
torch.linalg.householder_product(N(3,3), N(3))
torch.linalg.tensorinv(S(4).reshape(2,2,4), 2)
torch.linalg.tensorsolve(S(4).reshape(2,2,4), N(2,2))
torch.geqrf(S(3))
torch.triangular_solve(N(3,1), S(3))[0]
torch.linalg.qr(S(3))
torch.linalg.lstsq(S(3), N(3,1))[0]
torch.svd(S(3))
torch.linalg.eigh(S(3))
torch.linalg.eig(S(3))
torch.linalg.svd(S(3))
torch.linalg.lu_factor(S(3))
torch.linalg.det(S(3))
torch.det(S(3))
torch.linalg.slogdet(S(3))
torch.logdet(S(3))
torch.linalg.matrix_exp(S(3))
torch.linalg.norm(N(3))
torch.linalg.matrix_norm(N(3,3))
torch.linalg.vector_norm(N(3))
torch.norm(N(3))
torch.linalg.lu(S(3))
torch.linalg.solve_triangular(S(3).triu(), N(3,1), upper=True)
torch.stack([N(3), N(3).float()])
torch.cat([N(3), N(3).float()])
torch.cat([N(3), N(3).bfloat16()])
torch.index_copy(N(3), 0, torch.tensor([0]), N(1).float())
torch.stack([N(3), N(3)])
torch.cat([N(3), N(3)])
torch.index_copy(N(3), 0, torch.tensor([0]), N(1))
torch.exp(N(3))
torch.log(P(3))
torch.softmax(N(3), 0)
F.log_softmax(N(3,2), 1)
torch.sum(N(3))
torch.mean(N(3))
N(3).var()
torch.cumsum(N(3), 0)
F.layer_norm(N(3,4), (4,))
F.batch_norm(N(3,4), None, None, training=True)
F.group_norm(N(3,4), 2)
F.gelu(N(3))
torch.tanh(N(3))
N(3) ** 2.5
N(3) + N(3).float()
N(3) * 2.0
F.max_pool2d(N(1,1,4,4), 2)
F.avg_pool2d(N(1,1,4,4), 2)
F.embedding(torch.tensor([0]), N(3,2))
torch.mm(N(2,2), N(2,2)) + N(2,2).float()
torch.logsumexp(N(3), 0)
F.interpolate(N(1,1,3), scale_factor=2)
torch.maximum(N(3), N(3))
torch.where(N(3) > 0, N(3), N(3).float())
N(3).sort()[0]
torch.mm(N(3,4).double(), N(4,2).double())
F.mse_loss(N(3).double(), N(3).double())
F.linear(N(3,4).double(), N(2,4).double())
""".strip().split("\n")


def inputs(torch: Any, given: str) -> dict[str, Any]:
    """Return what the calls name: the same numbers for each call, in a dtype."""
    seeds = iter(range(1, 100))
    dtype = getattr(torch, given)

    def normal(*shape: int) -> Any:
        return torch.from_numpy(np.random.default_rng(next(seeds)).normal(size=shape).astype("float32")).to(dtype)

    def probable(*shape: int) -> Any:
        return torch.sigmoid(normal(*shape).float()).to(dtype)

    def definite(n: int) -> Any:
        a = normal(n, n).float()
        return (a @ a.mT + n * torch.eye(n)).to(dtype)

    return {"torch": torch, "F": torch.nn.functional, "N": normal, "P": probable, "S": definite}


def results(torch: Any, call: str, lower: str, given: str) -> list[Any]:
    """Return the tensors that a call gives under an autocast."""
    names = inputs(torch, given)
    with torch.autocast("cpu", dtype=getattr(torch, lower)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = eval(call, names)
    return [t for t in (out if isinstance(out, (tuple, list)) else (out,)) if isinstance(t, torch.Tensor)]


def values(torch: Any, tensors: list[Any]) -> list[list[float]]:
    """Return the numbers in tensors, complex ones as pairs."""
    plain = [torch.view_as_real(t.detach().resolve_conj()) if t.is_complex() else t for t in tensors]
    return [t.detach().double().reshape(-1).tolist() for t in plain]


def main() -> None:
    """Run all and write the file."""
    import torch

    found: dict[str, Any] = {}
    for call in CALLS:
        for lower in LOWER:
            for given in ("float32", lower):
                try:
                    out = results(torch, call, lower, given)
                except (RuntimeError, NotImplementedError):  # what PyTorch does not have in half precision
                    continue
                entry: dict[str, Any] = {"dtypes": [str(t.dtype).removeprefix("torch.") for t in out]}
                if "torch.nn." not in call:
                    entry["values"] = [[float(f"{v:.5g}") for v in t] for t in values(torch, out)]
                found.setdefault(call, {})[f"{lower} of {given}"] = entry
    with gzip.GzipFile(FILE, "wb", mtime=0) as file:
        file.write(json.dumps(found).encode())


if __name__ == "__main__":
    main()
