"""Draw handwritten digits with two convolutional networks that play against each other.

The discriminator learns to tell images from drawings, the generator to draw what it takes for images (Goodfellow et
al. 2014; the networks after Radford, Metz & Chintala 2016).

    python examples/dcgan.py
    python examples/dcgan.py --epochs 300 --width 64

Where `import torch` stands in place of `import wengert.torch as torch`, PyTorch runs this program.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import wengert as wg
import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional


def make_generator(noise: int, width: int) -> nn.Sequential:
    """Noise (n, noise, 1, 1) to drawings (n, 1, 8, 8) with values from -1 to 1."""
    return nn.Sequential(
        nn.ConvTranspose2d(noise, 2 * width, 2, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
        nn.Tanh(),
    )


def make_discriminator(width: int, dropout: float) -> nn.Sequential:
    """Images (n, 1, 8, 8) to the log-odds (n, 1) that they are no drawings."""
    return nn.Sequential(
        nn.Conv2d(1, width, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 2 * 2, 1),
    )


def init_weights(module: nn.Module) -> None:
    """Normal weights of deviation 0.02, as in the paper."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def nearest(drawn: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Each drawing's distance to the image next to it: root mean square over the pixels."""
    return np.sqrt(((drawn[:, None] - images) ** 2).mean((2, 3)).min(1))


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw handwritten digits with two networks that play.")
    parser.add_argument("--epochs", type=int, default=120, help="passes over the images (default %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="images in a step (default %(default)s)")
    parser.add_argument("--width", type=int, default=48, help="channels at half the size (default %(default)s)")
    parser.add_argument("--noise", type=int, default=32, help="numbers that a drawing is made of (default %(default)s)")
    parser.add_argument("--dropout", type=float, default=0.3, help="features that the discriminator loses")
    parser.add_argument("--lr", type=float, default=5e-4, help="learning rate of Adam (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of start, order and noise (default %(default)s)")
    parser.add_argument("--eager", action="store_true", help="leave the training step uncompiled")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("dcgan.svg"), help="picture of digits (default %(default)s)")
    args = parser.parse_args()
    if args.smoke:
        args.epochs, args.width = 3, 8

    torch.manual_seed(args.seed)
    digits, _ = wg.data.load_digits()
    x = torch.tensor(digits[:, None] * 2 - 1, dtype=torch.get_default_dtype())
    generator, discriminator = make_generator(args.noise, args.width), make_discriminator(args.width, args.dropout)
    for network in (generator, discriminator):
        network.apply(init_weights)
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=args.lr, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=args.lr, betas=(0.5, 0.999))
    real, fake = torch.full((args.batch, 1), 0.9), torch.zeros(args.batch, 1)  # 0.9: never quite sure

    def step(images: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        drawn = generator(noise)
        d_optimizer.zero_grad()
        d_loss = F.binary_cross_entropy_with_logits(discriminator(images), real)
        d_loss = d_loss + F.binary_cross_entropy_with_logits(discriminator(drawn.detach()), fake)
        d_loss.backward()
        d_optimizer.step()
        g_optimizer.zero_grad()
        g_loss = F.binary_cross_entropy_with_logits(discriminator(drawn), real)
        g_loss.backward()
        g_optimizer.step()
        return d_loss, g_loss

    run = step if args.eager else torch.compile(step)
    started = time.perf_counter()
    for _ in (bar := wg.train.progress(range(args.epochs), "training")):
        for rows in torch.randperm(len(x)).split(args.batch)[: len(x) // args.batch]:  # whole batches
            d_loss, g_loss = run(x[rows], torch.randn(args.batch, args.noise, 1, 1))
        bar.note(f"discriminator {d_loss.item():.2f}, generator {g_loss.item():.2f}")
    seconds = time.perf_counter() - started

    generator.eval()
    with torch.no_grad():
        drawn = (generator(torch.randn(80, args.noise, 1, 1))[:, 0].numpy() + 1) / 2
    away = np.median(nearest(drawn, digits))
    mean = nearest(digits.mean(0, keepdims=True), digits)[0]
    print(f"a drawing is {away:.3f} from the nearest digit, the mean digit {mean:.3f}")
    print(f"pixels differ between drawings by {drawn.std(0).mean():.3f}, between digits by {digits.std(0).mean():.3f}")
    print(f"{seconds:.1f} s, {seconds / args.epochs * 1e3:.0f} ms an epoch")
    args.out.write_text(wg.train.image_grid(drawn, columns=16, title="Digits drawn by a generator"))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
