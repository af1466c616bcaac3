"""`wengert demo`: train a classifier of handwritten digits and show what was computed."""

from __future__ import annotations

import argparse
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import wengert as wg

from .arguments import positive

if TYPE_CHECKING:
    from ..explorer import Exploration

HELD_OUT = 360


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    p = commands.add_parser(
        "demo",
        help="train a digit classifier on embedded data and draw its graph",
        description="Train a small convolutional network on 1,437 real images of handwritten digits (UCI, embedded), "
        "test it on 360 others, show predictions, and write the training curve and the graph as SVG, and a training "
        "step as a page to look into.",
    )
    p.add_argument("--epochs", type=positive, default=20, help="passes over the training images (default %(default)s)")
    p.add_argument("--channels", type=positive, default=16, help="channels of the first layer (default %(default)s)")
    p.add_argument("--batch", type=positive, default=32, help="images in a step (default %(default)s)")
    p.add_argument("--lr", type=float, default=3e-3, help="learning rate of AdamW (default %(default)s)")
    p.add_argument("--seed", type=int, default=0, help="seed of the split, the weights and the order (default 0)")
    p.add_argument(
        "--out", type=Path, default=Path("wengert-demo"), help="folder for the pictures (default %(default)s)"
    )
    p.add_argument("--open", action="store_true", help="open the page of a training step in the browser")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train, test, draw."""
    args.out.mkdir(parents=True, exist_ok=True)
    wg.manual_seed(args.seed)
    images, labels = wg.data.load_digits()
    order = np.random.default_rng(args.seed).permutation(len(images))
    test, train = order[:HELD_OUT], order[HELD_OUT:]
    pixels = images[:, None]

    model = make_model(args.channels)
    optimizer = wg.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    schedule = wg.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)

    def loss_of(x: Any, y: Any) -> wg.Tensor:
        loss: wg.Tensor = wg.nn.functional.cross_entropy(model(x), y)
        return loss

    print(f"{len(train)} images to train on, {len(test)} held out\n\n{model}\n")
    describe(model, loss_of, pixels[train[: args.batch]], labels[train[: args.batch]], args.out)

    curve: dict[str, list[tuple[float, float]]] = {"training": [], "held out": []}
    started = time.perf_counter()
    steps = 0
    bar = wg.train.progress(range(args.epochs), "training")
    for epoch in bar:
        losses: list[float] = []
        batches = wg.data.batches(pixels[train], labels[train], size=args.batch, shuffle=True, seed=args.seed + epoch)
        for x, y in batches:
            loss = loss_of(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            losses.append(loss.item())
        schedule.step()
        with wg.no_grad():
            held_out = loss_of(wg.asarray(pixels[test]), wg.asarray(labels[test])).item()
        curve["training"].append((steps, sum(losses) / len(losses)))
        curve["held out"].append((steps, held_out))
        bar.note(f"held-out loss {held_out:.3f}")
    seconds = time.perf_counter() - started

    with wg.no_grad():
        predicted = np.asarray(wg.argmax(model(pixels[test]), axis=-1))
    correct = predicted == labels[test]
    print(f"\n{correct.mean():.2%} of {len(test)} held-out images right, after {steps} steps in {seconds:.1f} s\n")
    show(images[test], labels[test], predicted)
    picture = wg.train.line_chart(curve, title="Handwritten digits", y_label="cross-entropy (nats)", log_y=True)
    (args.out / "curve.svg").write_text(picture)
    print(f"\nwrote {args.out / 'curve.svg'} and {args.out / 'graph.svg'}")
    page = args.out / "step.html"
    record(model, loss_of, optimizer, pixels[train[: args.batch]], labels[train[: args.batch]]).save(page)
    print(f"wrote {page}: look inside one training step in any browser")
    if args.open:
        webbrowser.open(page.resolve().as_uri())
    return 0


def record(model: wg.nn.Module, loss_of: Any, optimizer: wg.optim.Optimizer, x: Any, y: Any) -> Exploration:
    """Record one more training step, forward, backward and update."""

    def training_step() -> wg.Tensor:
        loss: wg.Tensor = loss_of(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return wg.explore(training_step)


def make_model(channels: int) -> wg.nn.Module:
    """Return the model, from images (n, 1, 8, 8) to logits (n, 10)."""
    nn = wg.nn
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * channels * 16, 10),
    )


def describe(model: wg.nn.Module, loss_of: Any, x: Any, y: Any, out: Path) -> None:
    """Print the graph of one training step's loss and draw it."""
    images, labels = wg.asarray(x), wg.asarray(y)
    names = dict(model.named_parameters())
    graph = wg.Graph.of(loss_of(images, labels), {"images": images, "labels": labels}, name="loss", names=names)
    size = graph.summary()
    print(f"the graph of the loss of a batch of {len(y)}")
    print(f"  {size.parameters} parameters with {size.parameter_elements:,} elements ({size.parameter_bytes:,} bytes)")
    print(f"  {size.nodes} nodes, {size.computations} of them computations")
    print(f"  {size.value_bytes:,} bytes of values, {size.saved_bytes:,} bytes saved for backward\n")
    (out / "graph.svg").write_text(graph.to_svg())


def show(images: Any, labels: Any, predicted: Any) -> None:
    """Print a few predictions, wrong ones first, with the images as text."""
    wrong = np.flatnonzero(predicted != labels)[:2]
    chosen = np.concatenate([wrong, np.flatnonzero(predicted == labels)[: 6 - len(wrong)]])
    shades = " .:-=+*#%@"
    for row in range(8):
        cells = ("".join(shades[round(float(v) * 9)] * 2 for v in images[i, row]) for i in chosen)
        print("  ".join(cells).rstrip())
    captions = (f"{predicted[i]}" + ("" if predicted[i] == labels[i] else f" (is {labels[i]})") for i in chosen)
    print("  ".join(f"{c:<16}" for c in captions).rstrip())
