"""A classifier of handwritten digits that is trained by a C program, and a page to draw digits on.

    python examples/without_python.py --out built         # needs a C compiler, cc

The training step, with its optimiser and dropout, is exported with its state; thirty lines of C go over images. What
they have learned is read by name into two more exports: a program that NumPy alone calls, and a page that runs offline.
"""

from __future__ import annotations

import argparse
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg

BATCH, HELD_OUT = 32, 360

TRAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "step.h"

static _Alignas(64) unsigned char weights[STEP_WEIGHTS_BYTES], state[STEP_STATE_BYTES], memory[STEP_BYTES];
static float images[IMAGES][STEP_X_SIZE / BATCH], x[BATCH][STEP_X_SIZE / BATCH];
static int64_t labels[IMAGES], y[BATCH];

static void part(const char *path, long skip, void *to, size_t size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, skip, SEEK_SET) || fread(to, 1, size, file) != size) exit(1);
    fclose(file);
}

int main(int count, char **arguments) {
    float loss = 0, mean = 0;
    step_call call = {.weights = weights, .state = state, .memory = memory, .x = x[0], .y = y, .result = &loss};
    part("weights.safetensors", WEIGHTS_HEADER, weights, sizeof weights);
    part("state.safetensors", STATE_HEADER, state, sizeof state);
    part("images.bin", 0, images, sizeof images);
    part("labels.bin", 0, labels, sizeof labels);
    for (int i = 0, steps = atoi(arguments[count - 1]) * (IMAGES / BATCH); i < steps; i++) {
        for (int k = 0; k < BATCH; k++) {
            int from = rand() % IMAGES;
            for (int j = 0; j < STEP_X_SIZE / BATCH; j++) x[k][j] = images[from][j];
            y[k] = labels[from];
        }
        int code = step_run(&call);
        if (code) { puts(step_error(code)); return 1; }
        mean = i ? 0.99f * mean + 0.01f * loss : loss;
        if (i % 100 == 99) printf("step %4d: loss %.4f\n", i + 1, mean);
    }
    FILE *file = fopen("trained.bin", "wb");
    return !file || fwrite(state, 1, sizeof state, file) != sizeof state || fclose(file);
}
"""


def model() -> wg.nn.Module:
    """Return the classifier: from images (n, 64) to logits (n, 10)."""
    nn = wg.nn
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))


def header_of(path: Path) -> int:
    """Return the bytes before the data of a safetensors file."""
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def train_in_c(net: wg.nn.Module, images: Any, labels: Any, epochs: int, folder: Path) -> None:
    """Export the training step, and let a C program train; the module gets what that has learned."""
    optimizer = wg.optim.AdamW(net.parameters(), lr=3e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = wg.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    print(wg.export(step, (wg.spec((BATCH, 64)), wg.spec(BATCH, "int64")), folder))
    (folder / "train.c").write_text(TRAIN)
    images.astype("float32").tofile(folder / "images.bin")
    labels.astype("int64").tofile(folder / "labels.bin")
    sizes = {"IMAGES": len(images), "BATCH": BATCH}
    sizes |= {f"{x.upper()}_HEADER": header_of(folder / f"{x}.safetensors") for x in ("weights", "state")}
    defined = [f"-D{name}={size}" for name, size in sizes.items()]
    objects = sorted(p.name for p in folder.glob("step*.o"))
    subprocess.run(["cc", "-O2", *defined, "-o", "train", "train.c", *objects], cwd=folder, check=True)
    subprocess.run(["./train", str(epochs)], cwd=folder, check=True)
    whole = (folder / "state.safetensors").read_bytes()[: sizes["STATE_HEADER"]] + (folder / "trained.bin").read_bytes()
    (folder / "trained.safetensors").write_bytes(whole)
    learned = wg.storage.load(folder / "trained.safetensors")
    net.load_state_dict({name: learned[f"net.{name}"] for name in net.state_dict()})


def main() -> None:
    """Train in C, test in NumPy, and write the page."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--epochs", type=int, default=20, help="passes over the images (default 20)")
    p.add_argument("--seed", type=int, default=0, help="seed of the weights, the split and the dropout (default 0)")
    p.add_argument("--out", type=Path, default=Path("without-python"), help="a new folder (default without-python)")
    args = p.parse_args()
    if shutil.which("cc") is None:
        p.error("there is no C compiler, cc")
    wg.manual_seed(args.seed)
    images, labels = wg.data.load_digits()
    order = np.random.default_rng(args.seed).permutation(len(images))
    test, train = order[:HELD_OUT], order[HELD_OUT:]
    flat = images.reshape(-1, 64).astype("float32")

    net = model()
    train_in_c(net, flat[train], labels[train], args.epochs, args.out / "step")

    def classify(image: Any) -> Any:
        return {"probability": wg.nn.functional.softmax(net(image.reshape(-1, 64)), -1)}

    net.eval()
    with wg.no_grad():
        wg.export(classify, wg.spec((HELD_OUT, 64)), args.out / "classify")
        wg.export(classify, flat[test[0]].reshape(1, 8, 8), args.out / "page", target="web", name="digits")
    program = runpy.run_path(str(args.out / "classify" / "load.py"))["Model"](str(args.out / "classify"))
    correct = program(flat[test]).argmax(-1) == labels[test]
    print(
        f"{correct.mean():.2%} of {HELD_OUT} held-out images right; draw digits on {args.out / 'page' / 'digits.html'}"
    )


if __name__ == "__main__":
    main()
