"""A student updated by hand; the teacher's answers are detached."""

import wengert as wg
from wengert import nn

wg.manual_seed(4)
student, teacher = nn.Linear(6, 3), nn.Linear(6, 3)
for _ in range(3):
    x = wg.randn((32, 6))
    loss = (student(x) - teacher(x).detach()).square().mean()
    loss.backward()
    with wg.no_grad():
        for p in student.parameters():
            p.assign_(p - 0.1 * p.grad)
            p.grad = None
