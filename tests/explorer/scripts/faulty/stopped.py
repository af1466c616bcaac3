"""stop_gradient on the prediction instead of on the target."""  # finds: missing-gradient

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net, scale = nn.Linear(4, 1), wg.tensor(1.0, requires_grad=True)
opt = wg.optim.SGD([*net.parameters(), scale], lr=0.1)
x, y = wg.randn((16, 4)), wg.randn((16, 1))
for _ in range(2):
    pred = wg.stop_gradient(net(x))  # here
    loss = ((scale * pred - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
