"""Graph convolutions with a parameter matrix made by hand and a normalised adjacency."""

import math

import torch
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter

from common import classes, fill, numbers


class GraphConvolution(Module):
    def __init__(self, in_features, out_features, bias=True):
        super(GraphConvolution, self).__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.mm(adj, support)
        return output + self.bias if self.bias is not None else output

    def __repr__(self):
        return self.__class__.__name__ + " (" + str(self.in_features) + " -> " + str(self.out_features) + ")"


class GCN(torch.nn.Module):
    def __init__(self, nfeat, nhid, nclass):
        super(GCN, self).__init__()
        self.gc1, self.gc2 = GraphConvolution(nfeat, nhid), GraphConvolution(nhid, nclass)

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, 0.5, training=False)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def accuracy(output, labels):
    preds = output.max(1)[1].type_as(labels)
    correct = preds.eq(labels).double()
    return correct.sum() / len(labels)


def main(compiled):
    n = 15
    features, labels = torch.tensor(numbers(n, 7)), torch.LongTensor(classes(n, 3))
    adj = (torch.tensor(numbers(n, n, seed=4)) > 0.8).double()
    adj = torch.clamp(adj + adj.t() + torch.eye(n, dtype=torch.float64), max=1.0)
    deg = adj.sum(1).pow(-0.5)
    adj = deg.unsqueeze(1) * adj * deg.unsqueeze(0)
    idx_train, idx_val = torch.arange(10), torch.arange(10, n)
    model = fill(torch, GCN(7, 6, 3))
    optimizer = optim.Adam(model.parameters(), lr=0.05, weight_decay=5e-4)

    def train():
        model.train()
        optimizer.zero_grad()
        output = model(features, adj)
        loss_train = F.nll_loss(output[idx_train], labels[idx_train])
        loss_train.backward()
        optimizer.step()
        return loss_train

    train = torch.compile(train) if compiled else train
    out = []
    for epoch in range(20):
        out.append(train().item())
        model.eval()
        output = model(features, adj)
        out += [F.nll_loss(output[idx_val], labels[idx_val]).item(), accuracy(output[idx_val], labels[idx_val]).item()]
    return out
