"""Graph attention: scores of all pairs, -9e15 where there is no edge, heads concatenated."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, alpha, concat=True):
        super(GraphAttentionLayer, self).__init__()
        self.out_features, self.concat = out_features, concat
        self.W = nn.Parameter(torch.empty(size=(in_features, out_features)))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)
        self.a = nn.Parameter(torch.empty(size=(2 * out_features, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        Wh = torch.mm(h, self.W)
        Wh1 = torch.matmul(Wh, self.a[: self.out_features, :])
        Wh2 = torch.matmul(Wh, self.a[self.out_features :, :])
        e = self.leakyrelu(Wh1 + Wh2.T)
        zero_vec = -9e15 * torch.ones_like(e)
        attention = F.softmax(torch.where(adj > 0, e, zero_vec), dim=1)
        h_prime = torch.matmul(attention, Wh)
        return F.elu(h_prime) if self.concat else h_prime


class GAT(nn.Module):
    def __init__(self, nfeat, nhid, nclass, nheads):
        super(GAT, self).__init__()
        self.attentions = [GraphAttentionLayer(nfeat, nhid, 0.2) for _ in range(nheads)]
        for i, attention in enumerate(self.attentions):
            self.add_module("attention_{}".format(i), attention)
        self.out_att = GraphAttentionLayer(nhid * nheads, nclass, 0.2, concat=False)

    def forward(self, x, adj):
        x = torch.cat([att(x, adj) for att in self.attentions], dim=1)
        return F.log_softmax(F.elu(self.out_att(x, adj)), dim=1)


def main(compiled):
    n = 9
    x, y = torch.tensor(numbers(n, 5)), torch.tensor(classes(n, 3))
    adj = (torch.tensor(numbers(n, n, seed=3)).abs() > 0.6).double() + torch.eye(n).double()
    model = fill(torch, GAT(5, 4, 3, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)

    def train():
        optimizer.zero_grad()
        loss = F.nll_loss(model(x, adj)[:6], y[:6])
        loss.backward()
        optimizer.step()
        return loss

    train = torch.compile(train) if compiled else train
    return [train().item() for _ in range(20)]
