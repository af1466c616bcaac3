"""A convolutional classifier with max pooling and SGD with momentum."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


class ConvNet(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(1, 4, kernel_size=3, stride=1, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2),
        )
        self.layer2 = nn.Sequential(
            nn.Conv2d(4, 6, kernel_size=3, stride=1, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2),
        )
        self.fc = nn.Linear(3 * 3 * 6, num_classes)

    def forward(self, x):
        out = self.layer1(x)
        out = self.layer2(out)
        out = out.reshape(out.size(0), -1)
        return self.fc(out)


def main(compiled):
    images = torch.tensor(numbers(8, 1, 12, 12))
    labels = torch.tensor(classes(8, 5))
    model = fill(torch, ConvNet())
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)

    def train(images, labels):
        outputs = model(images)
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    train = torch.compile(train) if compiled else train
    losses = [train(images, labels).item() for i in range(20)]
    model.eval()
    with torch.no_grad():
        _, predicted = torch.max(model(images).data, 1)
        probability = F.softmax(model(images), dim=-1)
    return losses + [(predicted == labels).sum().item(), probability.max().item()]
