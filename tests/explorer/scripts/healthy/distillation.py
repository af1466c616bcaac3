"""A teacher trained first, in the same function as its student."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)


def train():
    teacher, student = nn.Linear(6, 4), nn.Linear(6, 4)
    ot = wg.optim.SGD(teacher.parameters(), lr=0.01)
    for _ in range(2):
        l = teacher(wg.randn((20, 6))).square().mean()
        ot.zero_grad()
        l.backward()
        ot.step()
    opt = wg.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(3):
        x = wg.randn((20, 6))
        target = wg.softmax(teacher(x), axis=-1).detach()
        loss = -(target * wg.log_softmax(student(x), axis=-1)).sum(axis=-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


train()
