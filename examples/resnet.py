"""Classify small colour images with a residual network (He et al. 2016).

The images are drawn here: ten shapes and textures of 32 x 32 pixels in any colours, places, sizes and directions, under
noise. `--data` takes the real ones of the same size, CIFAR-10's binary files. Training images are mirrored, shifted and
darkened anew every time they are seen; with --plain they are not.

    python examples/resnet.py
    python examples/resnet.py --plain
    python examples/resnet.py --data cifar-10-batches-bin --width 16 --epochs 20

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
NAMES = ["disc", "ring", "square", "frame", "triangle", "cross", "star", "stripes", "chessboard", "dots"]
CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
Images = tuple[np.ndarray, np.ndarray]  # bytes (n, 3, 32, 32), and the numbers of their classes


def draw(count: int, rng: np.random.Generator) -> Images:
    """Images of shapes and textures, and which of NAMES each is."""

    def some(low: float, high: float, *more: int) -> np.ndarray:
        return rng.uniform(low, high, (count, 1, 1, *more))

    labels = rng.integers(0, len(NAMES), count)
    radius, turn = some(5, 10), some(0, 2 * np.pi)
    x, y = np.arange(32) - some(11, 20), np.arange(32)[:, None] - some(11, 20)
    x, y = (x * np.cos(turn) + y * np.sin(turn)) / radius, (y * np.cos(turn) - x * np.sin(turn)) / radius
    far, side, near = np.hypot(x, y), np.maximum(abs(x), abs(y)), np.minimum(abs(x), abs(y))
    wave, other = np.cos(6 * x), np.cos(6 * y)
    shapes = [
        far < 1,
        (far > 0.55) & (far < 1),
        side < 0.85,
        (side > 0.5) & (side < 0.85),
        np.maximum(-y, y / 2 + abs(x) * 0.75**0.5) < 0.55,
        (near < 0.3) & (side < 1),
        far < 0.65 + 0.35 * np.cos(5 * np.arctan2(y, x)),
        wave > 0,
        wave * other > 0,
        wave + other > 0.7,
    ]
    inside = np.choose(labels[:, None, None], shapes)[..., None]
    front, back = some(0, 1, 3), some(0, 1, 3)
    images = np.where(inside, front, back) + rng.normal(0, 0.1, (count, 32, 32, 3))
    return np.rint(images.clip(0, 1) * 255).astype(np.uint8).transpose(0, 3, 1, 2), labels


def read(files: list[Path]) -> Images:
    """CIFAR-10's binary files: for each image a byte for the class and 3072 of red, green and blue."""
    rows = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64)


class Augmented(torch.utils.data.Dataset):
    """Images and classes; each time an image is asked for it is mirrored or not, shifted and darkened."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, rng: np.random.Generator) -> None:
        self.images, self.labels, self.rng = F.pad(images, (3, 3, 3, 3)), labels, rng

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        down, right = self.rng.integers(0, 7, 2)
        image = self.images[i, :, down : down + 32, right : right + 32] * self.rng.uniform(0.7, 1.0)
        return (image.flip(2) if self.rng.random() < 0.5 else image), self.labels[i]


class Block(nn.Module):
    """Two convolutions with batch normalisation beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(h)) + self.shortcut(x))


class ResNet(nn.Module):
    """Images (n, 3, 32, 32) to logits (n, 10)."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        stages, before = [], width
        for stage in range(3):
            for block in range(blocks):
                stages.append(Block(before, width << stage, 2 if stage and not block else 1))
                before = width << stage
        self.stages, self.last = nn.Sequential(*stages), nn.Linear(before, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stages(F.relu(self.norm(self.first(x))))
        return self.last(x.mean(dim=(2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Classify small colour images with a residual network.")
    parser.add_argument("--data", type=Path, help="folder of CIFAR-10's binary files (default: images drawn here)")
    parser.add_argument("--images", type=int, default=3000, help="images to draw (default %(default)s)")
    parser.add_argument("--plain", action="store_true", help="show training images as they are")
    parser.add_argument("--epochs", type=int, default=24, help="passes over the images (default %(default)s)")
    parser.add_argument("--batch", type=int, default=50, help="images in a step (default %(default)s)")
    parser.add_argument("--width", type=int, default=10, help="channels at the full size (default %(default)s)")
    parser.add_argument("--blocks", type=int, default=1, help="blocks at each of three sizes (default %(default)s)")
    parser.add_argument("--lr", type=float, default=0.05, help="peak learning rate of SGD (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of images, start and order (default %(default)s)")
    parser.add_argument("--eager", action="store_true", help="leave the training step uncompiled")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("resnet.svg"), help="picture of answers (default %(default)s)")
    args = parser.parse_args()
    if args.smoke:
        args.images, args.width, args.batch, args.epochs, args.plain = 300, 4, 10, 3, True

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    if args.data:
        (images, labels), held = read(sorted(args.data.glob("data_batch*.bin"))), read([args.data / "test_batch.bin"])
        names = CIFAR
    else:
        (images, labels), held, names = draw(args.images, rng), draw(200 if args.smoke else 500, rng), NAMES
    dtype = torch.get_default_dtype()
    x, held_x = (torch.tensor(a, dtype=dtype) / 255 - 0.5 for a in (images, held[0]))
    y = torch.tensor(labels)
    seen = torch.utils.data.TensorDataset(x, y) if args.plain else Augmented(x, y, rng)
    batches = torch.utils.data.DataLoader(seen, batch_size=args.batch, shuffle=True, drop_last=True)
    model = ResNet(args.width, args.blocks)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    total = args.epochs * len(batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=total)
    print(f"{len(x)} images, {len(held_x)} held out; {sum(p.numel() for p in model.parameters()):,} parameters")

    def step(xb: torch.Tensor, yb: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
        return loss

    @torch.no_grad()
    def answers() -> np.ndarray:
        model.eval()
        found = torch.cat([model(piece).argmax(dim=1) for piece in held_x.split(250)])
        model.train()
        return found.numpy()

    run = step if args.eager else torch.compile(step)
    started = time.perf_counter()
    for _ in (bar := wg.train.progress(range(args.epochs), "training")):
        losses = []
        for xb, yb in batches:
            losses.append(run(xb, yb).item())
            schedule.step()
        bar.note(f"loss {np.mean(losses):.3f}")
    seconds = time.perf_counter() - started

    found = answers()
    print(f"{(found == held[1]).mean():.2%} of {len(found)} held-out images right")
    print(f"{seconds:.1f} s, {seconds / args.epochs:.2f} s an epoch")
    titles = [names[f] if f == t else f"{names[f]}?" for f, t in zip(found[:40], held[1][:40], strict=True)]
    title = f"What the network says: {(found == held[1]).mean():.1%} right"
    pixels = held[0][:40].transpose(0, 2, 3, 1) / 255
    args.out.write_text(wg.train.image_grid(pixels, columns=10, titles=titles, title=title, scale=2))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
