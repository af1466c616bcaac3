"""Classify MNIST digits with a multilayer perceptron or a small convolutional network.

`--data` names a folder with IDX files, plain or gzipped: train-images and train-labels with
t10k-images and t10k-labels, or t10k alone (then the last tenth of its images is held out).

    python examples/mnist.py --data DIR
    python examples/mnist.py --data DIR --model cnn
    python examples/mnist.py --data DIR --jit
    python examples/mnist.py --data DIR --ranks 2
    python examples/mnist.py --data DIR --resume run
    python examples/mnist.py --data DIR --tensorboard runs/mnist
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import sys
import time
import timeit
from functools import partial
from pathlib import Path

import numpy as np

import wengert as wg
from wengert import nn
from wengert.interop.tensorboard import SummaryWriter

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def find(folder: Path, stem: str) -> Path | None:
    """The IDX file with this stem, whatever its spelling and compression."""
    names = [f"{s}{end}" for s in (stem, stem.replace("-idx", ".idx")) for end in (".gz", "")]
    return next((folder / n for n in names if (folder / n).exists()), None)


def load(folder: Path) -> Arrays:
    """Training images and labels, then held-out ones; images float32 in 0..1, (n, 1, 28, 28)."""
    kinds = ("images-idx3-ubyte", "labels-idx1-ubyte")
    test = [find(folder, f"t10k-{k}") or folder / f"t10k-{k}.gz" for k in kinds]
    train = [find(folder, f"train-{k}") for k in kinds]
    held_x, held_y = (wg.data.read_idx(p) for p in test)
    if all(train):
        x, y = (wg.data.read_idx(p) for p in train if p is not None)
    else:
        cut = len(held_x) * 9 // 10
        x, y, held_x, held_y = held_x[:cut], held_y[:cut], held_x[cut:], held_y[cut:]

    def pixels(a: np.ndarray) -> np.ndarray:
        return (a.astype(np.float32) / 255)[:, None]

    return pixels(x), y.astype(np.int64), pixels(held_x), held_y.astype(np.int64)


def shifted(images: np.ndarray, by: int, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by up to `by` pixels in both directions: the same digits, never twice alike."""
    if by == 0:
        return images
    n, _, rows, columns = images.shape
    padded = np.pad(images[:, 0], ((0, 0), (by, by), (by, by)))
    down, right = rng.integers(0, 2 * by + 1, (2, n, 1, 1))
    moved: np.ndarray = padded[np.arange(n)[:, None, None], down + np.arange(rows)[:, None], right + np.arange(columns)]
    return moved[:, None]


def make_model(kind: str) -> nn.Module:
    """The network called `kind`: images (n, 1, 28, 28) to logits (n, 10)."""
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )


def accuracy(model: nn.Module, x: np.ndarray, y: np.ndarray) -> float:
    """The part of the images that the model labels rightly."""
    model.eval()
    right = 0
    with wg.no_grad():
        for xb, yb in wg.data.batches(x, y, size=500):
            right += int((wg.argmax(model(xb), axis=-1) == yb).sum())
    model.train()
    return right / len(y)


def watch(writer: SummaryWriter, model: nn.Module, curve: list[float], every: int) -> None:
    """Write the last loss, and the weights after `every` steps."""
    step = len(curve)
    writer.add_scalar("loss", curve[-1], step)
    if step % every == 0:
        for name, parameter in model.named_parameters():
            writer.add_histogram(name.replace(".", "/"), parameter, step)


def main() -> None:
    parser = argparse.ArgumentParser(description="Classify MNIST digits.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the IDX files")
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp", help="which network (default %(default)s)")
    parser.add_argument("--epochs", type=int, help="passes over the training images (default 30 for mlp, 8 for cnn)")
    parser.add_argument("--batch", type=int, default=64, help="images in a step (default %(default)s)")
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate of AdamW (default %(default)s)")
    parser.add_argument("--shift", type=int, default=2, help="move training images by up to this (default %(default)s)")
    parser.add_argument("--jit", action="store_true", help="compile the training step")
    parser.add_argument(
        "--ranks", type=int, default=1, help="processes that share each batch, by MPI (default %(default)s)"
    )
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="folder to keep the run in, and to go on from")
    parser.add_argument("--seed", type=int, default=0, help="seed of start and order (default %(default)s)")
    parser.add_argument("--tensorboard", type=Path, metavar="DIR", help="folder for TensorBoard: loss, weights, graph")
    parser.add_argument("--out", type=Path, default=Path("mnist.svg"), help="picture of the loss (default %(default)s)")
    args = parser.parse_args()
    if args.ranks > wg.distribute.size():
        # This script again, on as many ranks.
        sys.exit(wg.distribute.launch(args.ranks, __file__, sys.argv[1:]))
    if wg.distribute.rank():  # the first rank tells and writes
        args.tensorboard, args.out = None, None
        sys.stdout = sys.stderr = io.StringIO()

    wg.manual_seed(args.seed)
    try:
        x, y, held_x, held_y = load(args.data)
    except wg.DataError as e:
        parser.exit(1, f"mnist: {e}\n")
    model = make_model(args.model)
    epochs = args.epochs or (30 if args.model == "mlp" else 8)
    optimizer = wg.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    every = -(-len(x) // args.batch)
    steps = epochs * every
    schedule = wg.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    count = sum(p.size for p in model.parameters())
    print(f"{len(x)} images to train on, {len(held_x)} held out; {args.model} with {count:,} parameters")

    def step(xb: wg.Tensor, yb: wg.Tensor) -> wg.Tensor:
        loss = wg.nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    train = wg.jit(step) if args.jit else step
    if args.ranks > 1:
        train = wg.distribute.jit(step, mesh=wg.distribute.Mesh(data=args.ranks), in_specs=("data", "data"))
    rng = np.random.default_rng(args.seed)
    state = {"model": model, "optimizer": optimizer, "shifts": rng}
    settings = {"model": args.model, "batch": args.batch}
    made_of = {"settings": settings, "images": len(x)}
    # All ranks save and load together, after each epoch; a process alone does so too.
    found = wg.distribute.load_checkpoint(args.resume) if args.resume else None
    if found:
        other = [f"--{name} {value}" for name, value in found["settings"].items() if value != settings[name]]
        other += ["other images"] * (found["images"] != len(x))
        if other:
            parser.exit(1, f"mnist: {args.resume} has a run with {', '.join(other)}: name another folder\n")
        wg.distribute.load_checkpoint(args.resume, **state)
    curve: list[float] = list(found["curve"]) if found else []
    # The rates go by --epochs, which may be others than before.
    schedule.restart()
    for _ in curve[:steps]:
        schedule.step()
    begun = len(curve)
    started = time.perf_counter()
    batches = (
        batch
        for epoch in range(begun // every, epochs)
        for batch in wg.data.batches(
            shifted(x, args.shift, rng), y, size=args.batch, shuffle=True, seed=args.seed + epoch
        )
    )
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(SummaryWriter(args.tensorboard)) if args.tensorboard else None
        if writer:
            writer.add_graph(model, wg.spec((args.batch, 1, 28, 28)))
        for xb, yb in (bar := wg.train.progress(batches, "training", total=max(0, steps - begun))):
            curve.append(train(xb, yb).item())
            schedule.step()
            bar.note(f"loss {curve[-1]:.3f}")
            if args.resume and len(curve) % every == 0:
                wg.distribute.save_checkpoint(args.resume, step=len(curve), keep=2, curve=curve, **made_of, **state)
            if writer:
                watch(writer, model, curve, every=every)
    seconds = time.perf_counter() - started

    print(f"{accuracy(model, held_x, held_y):.2%} of {len(held_x)} held-out images right")
    print(f"last loss {curve[-1]:.5f}; {seconds:.1f} s, {seconds / max(1, len(curve) - begun) * 1e3:.2f} ms a step")
    if args.jit and args.ranks == 1:
        one = next(wg.data.batches(x, y, size=args.batch))
        eager, compiled = (
            statistics.median(timeit.repeat(partial(f, *one), number=1, repeat=9)) for f in (step, train)
        )
        ratio = f"{eager / compiled:.1f} times as long"
        print(f"a step takes {compiled * 1e3:.2f} ms, without --jit {eager * 1e3:.2f}: {ratio}")
    if args.out is None:
        return
    args.out.write_text(wg.train.line_chart({"loss": curve}, title=f"MNIST, {args.model}", y_label="nats", log_y=True))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
