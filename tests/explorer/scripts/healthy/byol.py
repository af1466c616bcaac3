"""A student that follows a teacher, a moving average of its own weights."""

import wengert as wg
from wengert import nn

wg.manual_seed(13)
student, teacher = nn.Linear(6, 4), nn.Linear(6, 4)
pred = nn.Linear(4, 4)
opt = wg.optim.Adam([*student.parameters(), *pred.parameters()], lr=1e-3)
for _ in range(3):
    x = wg.randn((16, 6))
    loss = (pred(student(x)) - teacher(x).detach()).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with wg.no_grad():
        for a, b in zip(teacher.parameters(), student.parameters()):
            a.assign_(0.99 * a + 0.01 * b)
