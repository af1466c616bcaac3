"""A loss and its gradients, looked at and not used: the target's branch is detached."""

import wengert as wg
from wengert import nn

wg.manual_seed(24)
student, teacher = nn.Linear(6, 4), nn.Linear(6, 4)
x = wg.randn((16, 6))
agreement = (student(x) * teacher(x).detach()).sum(axis=-1).mean()
(-agreement).backward()
print([float(p.grad.abs().max()) for p in student.parameters()])
