"""Experts chosen by top-k gates with index_add, adapters on a frozen layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers


class LoRALinear(nn.Module):
    def __init__(self, base, r=2, alpha=4):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad = False
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.lora_A, a=5**0.5)
        self.scaling = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling


class MoE(nn.Module):
    def __init__(self, dim, experts=3, k=2):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(approximate="tanh"), nn.Linear(2 * dim, dim))
            for _ in range(experts)
        )
        self.k = k

    def forward(self, x):
        logits = self.gate(x)
        weights, selected = torch.topk(logits, self.k)
        weights = F.softmax(weights, dim=1, dtype=torch.float64).to(x.dtype)
        results = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            weight = (weights * (selected == i)).sum(-1, keepdim=True)
            results = results + weight * expert(x)
        usage = F.one_hot(selected, len(self.experts)).double().mean((0, 1))
        return results, usage


def main(compiled):
    model = nn.ModuleDict({"lora": LoRALinear(nn.Linear(6, 6)), "moe": MoE(6), "head": nn.Linear(6, 1)})
    fill(torch, model)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.NAdam(trainable, lr=1e-2)

    def step(x, y):
        h, usage = model["moe"](model["lora"](x))
        loss = F.l1_loss(model["head"](h).squeeze(-1), y) + 0.01 * (usage * usage).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = [step(torch.tensor(numbers(9, 6, seed=i)), torch.tensor(numbers(9, seed=50 + i))).item() for i in range(20)]
    return out + [sum(p.numel() for p in trainable)]
