"""A mean teacher: the student is pulled to the teacher's probabilities, the teacher is its moving average."""

import copy

import wengert as wg
from wengert import nn

wg.manual_seed(2)
student = nn.Sequential(nn.Linear(5, 20), nn.GELU(), nn.Linear(20, 3))
teacher = copy.deepcopy(student)
opt = wg.optim.Adam(student.parameters(), lr=1e-3)
x, y = wg.randn((48, 5)), wg.arange(16) % 3
for _ in range(3):
    logits = student(x + 0.1 * wg.randn((48, 5)))
    with wg.no_grad():
        soft = wg.softmax(teacher(x), axis=-1)
    agree = -(soft * wg.log_softmax(logits, axis=-1)).sum(axis=-1).mean()
    loss = nn.functional.cross_entropy(logits[:16], y) + 0.5 * agree
    opt.zero_grad()
    loss.backward()
    opt.step()
    with wg.no_grad():
        for a, b in zip(teacher.parameters(), student.parameters()):
            a.assign_(0.99 * a + 0.01 * b)
