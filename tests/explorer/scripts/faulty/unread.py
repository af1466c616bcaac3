"""A large computation for a log message, recorded for gradients that nobody takes."""  # finds: unread-saved

import wengert as wg

wg.manual_seed(0)
w = wg.randn((256, 256)) / 16
w.requires_grad_()
x = wg.randn((512, 256))
statistics = wg.exp(wg.tanh(x @ w)).mean()  # here
loss = (x[:4] @ w).square().mean()
loss.backward()
print(f"mean activation {statistics.item():.3f}")
