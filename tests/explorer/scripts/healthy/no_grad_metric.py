"""A metric beside the loss, computed without gradients."""

import wengert as wg

wg.manual_seed(0)
model = wg.nn.Sequential(wg.nn.Linear(6, 16), wg.nn.Tanh(), wg.nn.Linear(16, 2))
x, labels = wg.randn((40, 6)), wg.arange(40) % 2
loss = wg.nn.functional.cross_entropy(model(x), labels)
loss.backward()
with wg.no_grad():
    accuracy = (wg.argmax(model(x), axis=-1) == labels).mean(dtype=wg.float32)
print(f"accuracy {accuracy.item():.2f}")
