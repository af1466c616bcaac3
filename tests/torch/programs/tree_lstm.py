"""A Child-Sum Tree-LSTM over nested tuples: recursion, stacked children, empty children."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill


class ChildSumTreeLSTM(nn.Module):
    def __init__(self, in_dim, mem_dim):
        super(ChildSumTreeLSTM, self).__init__()
        self.mem_dim = mem_dim
        self.ioux, self.iouh = nn.Linear(in_dim, 3 * mem_dim), nn.Linear(mem_dim, 3 * mem_dim)
        self.fx, self.fh = nn.Linear(in_dim, mem_dim), nn.Linear(mem_dim, mem_dim)

    def node_forward(self, inputs, child_c, child_h):
        child_h_sum = torch.sum(child_h, dim=0, keepdim=True)
        iou = self.ioux(inputs) + self.iouh(child_h_sum)
        i, o, u = torch.split(iou, iou.size(1) // 3, dim=1)
        i, o, u = torch.sigmoid(i), torch.sigmoid(o), torch.tanh(u)
        f = torch.sigmoid(self.fh(child_h) + self.fx(inputs).repeat(len(child_h), 1))
        fc = torch.mul(f, child_c)
        c = torch.mul(i, u) + torch.sum(fc, dim=0, keepdim=True)
        return c, torch.mul(o, torch.tanh(c))

    def forward(self, tree, inputs):
        index, children = tree
        states = [self.forward(child, inputs) for child in children]
        if not states:
            child_c = inputs[0].detach().new(1, self.mem_dim).fill_(0.0)
            child_h = inputs[0].detach().new(1, self.mem_dim).fill_(0.0)
        else:
            child_c, child_h = zip(*states)
            child_c, child_h = torch.cat(child_c, dim=0), torch.cat(child_h, dim=0)
        return self.node_forward(inputs[index : index + 1], child_c, child_h)


def main(compiled):
    emb, tree = nn.Embedding(7, 4), ChildSumTreeLSTM(4, 5)
    model = fill(torch, nn.ModuleDict({"emb": emb, "tree": tree, "out": nn.Linear(5, 3)}))
    trees = [((0, [(1, []), (2, [(3, [])])]), [1, 2, 3, 4], 0), ((0, [(1, []), (2, []), (3, [])]), [5, 6, 0, 2], 2)]
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1, weight_decay=1e-4)

    def step(k, tokens):
        optimizer.zero_grad()
        c, h = model["tree"](trees[k][0], model["emb"](tokens))
        loss = F.cross_entropy(model["out"](h), torch.tensor([trees[k][2]]))
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(i % 2, torch.tensor(trees[i % 2][1])).item() for i in range(16)]
