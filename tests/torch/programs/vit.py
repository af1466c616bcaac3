"""A vision transformer: unfolded patches, a class token, pre-norm blocks with dropout off."""

import torch
import torch.nn.functional as F
from torch import nn

from common import classes, fill, numbers


class Attention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=4):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads, self.scale = heads, dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.attend, self.dropout = nn.Softmax(dim=-1), nn.Dropout(0.0)
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, dim), nn.Dropout(0.0))

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = map(lambda t: t.reshape(b, n, self.heads, -1).permute(0, 2, 1, 3), qkv)
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        out = torch.matmul(self.dropout(self.attend(dots)), v)
        return self.to_out(out.permute(0, 2, 1, 3).flatten(2))


class ViT(nn.Module):
    def __init__(self, image, patch, dim, depth, num_classes):
        super().__init__()
        self.patch = patch
        self.to_patch_embedding = nn.Sequential(
            nn.LayerNorm(patch * patch), nn.Linear(patch * patch, dim), nn.LayerNorm(dim)
        )
        self.pos_embedding = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            self.layers.append(nn.ModuleList([Attention(dim), ff]))
        self.mlp_head = nn.Linear(dim, num_classes)

    def forward(self, img):
        x = F.unfold(img, self.patch, stride=self.patch).transpose(1, 2)
        x = self.to_patch_embedding(x)
        cls_tokens = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls_tokens, x), dim=1)
        x += self.pos_embedding[:, : x.shape[1]]
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.mlp_head(x[:, 0])


def main(compiled):
    model = fill(torch, ViT(8, 4, 8, 2, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    x, y = torch.tensor(numbers(5, 1, 8, 8)), torch.tensor(classes(5, 3))

    def step(x, y):
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, F.one_hot(y, 3).to(logits.dtype))
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(x, y).item() for _ in range(15)]
