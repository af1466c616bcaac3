"""Draw handwritten digits by denoising diffusion (Ho, Jain & Abbeel 2020).

Noise is added to images in many small steps; a network learns to say which noise it was. Run backwards from noise
alone, it draws new digits. Steps are spaced by a cosine (Nichol & Dhariwal 2021), and the digits are drawn by an
exponential average of the weights.

    python examples/ddpm.py
    python examples/ddpm.py --steps 6000 --width 64

Where `import torch` stands in place of `import wengert.torch as torch`, PyTorch runs this program.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from pathlib import Path

import numpy as np

import wengert as wg
import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    """Two convolutions beside a shortcut; the time's features are added between them."""

    def __init__(self, before: int, after: int, features: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, before), nn.Conv2d(before, after, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, after), nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(features, after)
        self.shortcut = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(h)))


class UNet(nn.Module):
    """Noisy images (n, 1, 8, 8) and their times (n,) to the noise: down to half the size, and up again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, 2 * width), nn.SiLU())
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.down = Block(width, width, 2 * width)
        self.middle = Block(width, 2 * width, 2 * width)
        self.up = Block(3 * width, width, 2 * width)
        self.norm, self.last = nn.GroupNorm(4, width), nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        scales = torch.exp(torch.arange(self.width // 2) * (-math.log(1e4) / (self.width // 2)))
        angles = t[:, None] * scales
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1).to(x.dtype))
        fine = self.down(self.first(x), time)
        coarse = self.middle(F.avg_pool2d(fine, 2), time)
        x = self.up(torch.cat([fine, F.interpolate(coarse, scale_factor=2)], dim=1), time)
        return self.last(F.silu(self.norm(x)))


class Diffusion:
    """How much of an image and of noise is left after each of so many steps."""

    def __init__(self, steps: int) -> None:
        kept = torch.cos((torch.arange(steps + 1) / steps + 0.008) / 1.008 * math.pi / 2) ** 2
        self.beta = (1 - kept[1:] / kept[:-1]).clamp(max=0.999).to(torch.get_default_dtype())
        self.kept = torch.cumprod(1 - self.beta, dim=0)

    def noisy(self, x: torch.Tensor, t: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Images after step t of the noising."""
        kept = self.kept[t][:, None, None, None]
        return kept.sqrt() * x + (1 - kept).sqrt() * noise

    @torch.no_grad()
    def sample(self, model: UNet, count: int) -> torch.Tensor:
        """Images that the model draws, from noise, with values from -1 to 1."""
        x = torch.randn(count, 1, 8, 8)
        predict = torch.compile(model)
        for t in reversed(range(len(self.beta))):
            noise = predict(x, torch.full((count,), t))
            beta, kept = self.beta[t], self.kept[t]
            clean = ((x - (1 - kept).sqrt() * noise) / kept.sqrt()).clamp(-1, 1)
            before = self.kept[t - 1] if t else torch.ones_like(kept)
            x = (before.sqrt() * beta * clean + (1 - beta).sqrt() * (1 - before) * x) / (1 - kept)
            if t:
                x = x + (beta * (1 - before) / (1 - kept)).sqrt() * torch.randn_like(x)
        return x


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw handwritten digits by denoising diffusion.")
    parser.add_argument("--steps", type=int, default=2000, help="training steps (default %(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="images in a step (default %(default)s)")
    parser.add_argument("--width", type=int, default=32, help="channels of the network (default %(default)s)")
    parser.add_argument("--noise-steps", type=int, default=200, help="steps of the noising (default %(default)s)")
    parser.add_argument("--lr", type=float, default=2e-3, help="peak learning rate of AdamW (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of start, order and noise (default %(default)s)")
    parser.add_argument("--eager", action="store_true", help="leave the training step uncompiled")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("ddpm.svg"), help="picture of digits (default %(default)s)")
    args = parser.parse_args()
    if args.smoke:
        args.steps, args.width, args.noise_steps, args.batch = 40, 8, 10, 32

    torch.manual_seed(args.seed)
    digits, _ = wg.data.load_digits()
    x = torch.tensor(digits[:, None] * 2 - 1, dtype=torch.get_default_dtype())
    diffusion, model = Diffusion(args.noise_steps), UNet(args.width)
    averaged = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1)

    def step(images: torch.Tensor, t: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(diffusion.noisy(images, t, noise), t), noise)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for average, p in zip(averaged.parameters(), model.parameters(), strict=True):
                average.lerp_(p, 0.01)
        return loss

    run = step if args.eager else torch.compile(step)
    curve = []
    started = time.perf_counter()
    for _ in (bar := wg.train.progress(range(args.steps), "training")):
        images = x[torch.randint(len(x), (args.batch,))]
        t = torch.randint(args.noise_steps, (args.batch,))
        curve.append(run(images, t, torch.randn_like(images)).item())
        schedule.step()
        bar.note(f"loss {curve[-1]:.3f}")
    seconds = time.perf_counter() - started

    # Guessing 0 gives 1, the noise's variance.
    print(f"mean squared error of the noise {np.mean(curve[-100:]):.3f} over the last steps")
    print(f"{seconds:.1f} s, {seconds / args.steps * 1e3:.2f} ms a step")
    drawn = (diffusion.sample(averaged, 8 if args.smoke else 80)[:, 0].numpy() + 1) / 2
    print(f"the drawn images' mean grey is {drawn.mean():.3f}, the digits' {digits.mean():.3f}")
    args.out.write_text(wg.train.image_grid(drawn, columns=16, title="Digits drawn by diffusion"))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
