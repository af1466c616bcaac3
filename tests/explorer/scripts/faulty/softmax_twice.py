"""Probabilities given to a loss that wants logits."""  # finds: squashed-twice

import wengert as wg

wg.manual_seed(0)
model = wg.nn.Linear(10, 4)
x, labels = wg.randn((32, 10)), wg.arange(32) % 4
probabilities = wg.softmax(model(x), axis=-1)
loss = wg.nn.functional.cross_entropy(probabilities, labels)  # here
loss.backward()
