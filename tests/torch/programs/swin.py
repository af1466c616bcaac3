"""Windows of attention, shifted by rolling, with a bias looked up by relative place."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


def window_partition(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, w * w, C)


def window_reverse(windows, w, H, W):
    B = int(windows.shape[0] / (H * W / w / w))
    x = windows.view(B, H // w, W // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, w, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * w - 1) * (2 * w - 1), heads))
        coords = torch.stack(torch.meshgrid([torch.arange(w), torch.arange(w)], indexing="ij")).flatten(1)
        relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        relative[:, :, 0] += w - 1
        relative[:, :, 1] += w - 1
        relative[:, :, 0] *= 2 * w - 1
        self.register_buffer("relative_position_index", relative.sum(-1))
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def forward(self, x):
        B_, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B_, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(N, N, -1)
        attn = (attn + bias.permute(2, 0, 1).contiguous().unsqueeze(0)).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


def main(compiled):
    attention, shifted, head, norm = (
        WindowAttention(6, 2, 2),
        WindowAttention(6, 2, 2),
        nn.Linear(6, 3),
        nn.LayerNorm(6),
    )
    model = fill(torch, nn.ModuleList([attention, shifted, head, norm]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.tensor(numbers(3, 4, 4, 6)), torch.tensor(classes(3, 3))

    def step(x, y):
        h = x + window_reverse(attention(window_partition(norm(x), 2)), 2, 4, 4)
        s = torch.roll(h, shifts=(-1, -1), dims=(1, 2))
        s = window_reverse(shifted(window_partition(s, 2)), 2, 4, 4)
        h = h + torch.roll(s, shifts=(1, 1), dims=(1, 2))
        loss = F.cross_entropy(head(h.mean((1, 2))), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(x, y).item() for _ in range(12)]
