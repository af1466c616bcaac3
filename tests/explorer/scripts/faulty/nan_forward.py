"""The logarithm of a count that may be 0."""  # finds: infinity-forward

import wengert as wg

wg.manual_seed(0)
counts = wg.tensor([[3.0, 0.0, 5.0], [1.0, 2.0, 0.0]])
model = wg.nn.Linear(3, 1)
loss = (model(counts.log()) ** 2).mean()  # here
loss.backward()
