"""A U-net: double convolutions, upsampling, padding by the difference of sizes, concatenation, dice."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)
        else:
            self.up = nn.ConvTranspose2d(
                in_channels - out_channels, in_channels - out_channels, kernel_size=2, stride=2
            )
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc = DoubleConv(1, 3)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(3, 4))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 5))
        self.up1, self.up2 = Up(9, 4, True), Up(7, 3, False)
        self.outc = nn.Conv2d(3, 1, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        return self.outc(self.up2(self.up1(x3, x2), x1))


def dice_loss(input, target, epsilon=1e-6):
    sum_dim = (-1, -2)
    inter = 2 * (input * target).sum(dim=sum_dim)
    sets_sum = input.sum(dim=sum_dim) + target.sum(dim=sum_dim)
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return 1 - ((inter + epsilon) / (sets_sum + epsilon)).mean()


def main(compiled):
    net = fill(torch, UNet())
    x = torch.tensor(numbers(2, 1, 10, 9))
    mask = (torch.tensor(numbers(2, 10, 9, seed=5)) > 0).double()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, foreach=True)
    criterion = nn.BCEWithLogitsLoss()

    def step(x, mask):
        masks_pred = net(x)
        loss = criterion(masks_pred.squeeze(1), mask)
        loss += dice_loss(torch.sigmoid(masks_pred.squeeze(1)), mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.5)
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(x, mask).item() for _ in range(12)]
