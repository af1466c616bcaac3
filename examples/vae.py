"""Learn to draw handwritten digits with a variational autoencoder (Kingma & Welling 2014).

An encoder gives every image a normal distribution over a few latent numbers, a decoder draws images of such numbers;
both are trained by the bound on the images' likelihood that the two make. With two latent numbers the picture shows
the whole plane: what the decoder draws at the quantiles of a normal distribution.

    python examples/vae.py
    python examples/vae.py --latent 8 --epochs 100
    python examples/vae.py --data t10k-images-idx3-ubyte.gz --width 256

Where `import torch` stands in place of `import wengert.torch as torch`, PyTorch runs this program.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import NormalDist

import numpy as np

import wengert as wg
import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional


class VAE(nn.Module):
    """Images (n, pixels) of numbers from 0 to 1, through `latent` numbers each."""

    def __init__(self, pixels: int, width: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.mean, self.log_variance = nn.Linear(width, latent), nn.Linear(width, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, pixels)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return logits of the pixels from one draw of the latent numbers, their mean and log variance."""
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decoder(z), mean, log_variance


def negative_bound(model: VAE, x: torch.Tensor) -> torch.Tensor:
    """The evidence lower bound's negative: nats an image."""
    logits, mean, log_variance = model(x)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
    return (reconstruction + divergence) / len(x)


@torch.no_grad()
def draw(model: VAE, latent: int, rows: int) -> np.ndarray:
    """What the decoder draws: of the plane's quantiles, or of random numbers where there are more than two."""
    if latent == 2:
        at = [NormalDist().inv_cdf((i + 0.5) / rows) for i in range(rows)]
        z = torch.cartesian_prod(torch.tensor(at), torch.tensor(at))
    else:
        z = torch.randn(rows * rows, latent)
    return torch.sigmoid(model.decoder(z)).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn to draw handwritten digits with a variational autoencoder.")
    parser.add_argument("--data", type=Path, help="an IDX file of images (default: the digits that Wengert brings)")
    parser.add_argument("--epochs", type=int, default=150, help="passes over the images (default %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="images in a step (default %(default)s)")
    parser.add_argument("--width", type=int, default=128, help="hidden units of a layer (default %(default)s)")
    parser.add_argument("--latent", type=int, default=2, help="latent numbers (default %(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of Adam (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of start, order and noise (default %(default)s)")
    parser.add_argument("--eager", action="store_true", help="leave the training step uncompiled")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("vae.svg"), help="picture of digits (default %(default)s)")
    args = parser.parse_args()
    epochs = 8 if args.smoke else args.epochs

    torch.manual_seed(args.seed)
    images = wg.data.read_idx(args.data) / 255 if args.data else wg.data.load_digits()[0]
    height, width = images.shape[1:]
    x = torch.tensor(images.reshape(len(images), -1), dtype=torch.get_default_dtype())
    train, held_out = x[: len(x) * 9 // 10], x[len(x) * 9 // 10 :]
    model = VAE(height * width, args.width, args.latent)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    def step(xb: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = negative_bound(model, xb)
        loss.backward()
        optimizer.step()
        return loss

    run = step if args.eager else torch.compile(step)
    curve, checks = [], []
    started = time.perf_counter()
    for epoch in (bar := wg.train.progress(range(epochs), "training")):
        batches = torch.randperm(len(train)).split(args.batch)[: len(train) // args.batch]  # whole ones
        losses = [run(train[rows]).item() for rows in batches]
        with torch.no_grad():
            checks.append((epoch, negative_bound(model, held_out).item()))
        curve.append((epoch, float(np.mean(losses))))
        bar.note(f"{curve[-1][1]:.2f} nats, held out {checks[-1][1]:.2f}")
    seconds = time.perf_counter() - started

    blank = F.binary_cross_entropy(train.mean(0).expand_as(held_out).clamp(1e-3, 1 - 1e-3), held_out, reduction="sum")
    print(f"{checks[-1][1]:.2f} nats a held-out image; the mean image gives {blank.item() / len(held_out):.2f}")
    print(f"{seconds:.1f} s, {seconds / epochs * 1e3:.0f} ms an epoch")
    title = f"Digits drawn by a decoder of {args.latent} numbers"
    drawn = draw(model, args.latent, 12).reshape(-1, height, width)
    args.out.write_text(wg.train.image_grid(drawn, columns=12, scale=max(1, 32 // height), title=title))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
