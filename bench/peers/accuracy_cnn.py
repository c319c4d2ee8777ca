"""Trains a CIFAR ResNet with PyTorch by the recipe of `ebb train cnn --net resnetN_cifar --shift 4 --flip
--momentum 0.9 --weight-decay 1e-4 --schedule cosine`, and prints its accuracy on the test images after every
epoch. Images are read from CIFAR-10's binary files (.bin or .bin.gz).

Usage: accuracy_cnn.py FOLDER [--net resnet20_cifar] [--epochs 20] [--batch 128] [--lr 0.1] [--seed 1] [--threads 2]
"""
import argparse
import glob
import gzip
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


def make_net(name):
    blocks = (int(name[len("resnet"):-len("_cifar")]) - 2) // 6
    layers, width = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for wide, stride in ((16, 1), (32, 2), (64, 2)):
        for i in range(blocks):
            layers.append(Block(width, wide, stride if i == 0 else 1))
            width = wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def read(folder, pattern):
    records = []
    for path in sorted(glob.glob(os.path.join(folder, pattern))):
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            records.append(np.frombuffer(file.read(), np.uint8).reshape(-1, 3073))
    data = np.concatenate(records)
    images = data[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32)
    return torch.from_numpy(images), torch.from_numpy(data[:, 0].astype(np.int64))


def augment(images, generator):
    """Shifted by up to 4 pixels, the border being 0 (the mean), and half of them turned."""
    n = len(images)
    padded = F.pad(images, (4, 4, 4, 4))
    dy, dx = torch.randint(0, 9, (2, n), generator=generator).tolist()
    turned = torch.rand(n, generator=generator) < 0.5
    out = torch.stack([padded[i, :, dy[i]:dy[i] + 32, dx[i]:dx[i] + 32] for i in range(n)])
    out[turned] = out[turned].flip(3)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--net", default="resnet20_cifar")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    generator = torch.Generator().manual_seed(o.seed)
    x, y = read(o.folder, "data_batch_*.bin*")
    tx, ty = read(o.folder, "test_batch.bin*")
    mean, std = x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), keepdim=True)
    x, tx = (x - mean) / std, (tx - mean) / std
    net = make_net(o.net).to(memory_format=torch.channels_last)
    steps = len(x) // o.batch * o.epochs
    optimizer = torch.optim.SGD(net.parameters(), lr=o.lr, momentum=0.9, weight_decay=1e-4)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * s / steps)))
    for epoch in range(o.epochs):
        net.train()
        order = torch.randperm(len(x), generator=generator)
        for b in range(len(x) // o.batch):
            pick = order[b * o.batch:(b + 1) * o.batch]
            batch = augment(x[pick], generator).contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad()
            loss = F.cross_entropy(net(batch), y[pick])
            loss.backward()
            optimizer.step()
            rate.step()
        net.eval()
        with torch.no_grad():
            right = sum((net(tx[i:i + 250]).argmax(1) == ty[i:i + 250]).sum().item() for i in range(0, len(tx), 250))
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}, top-1 {100 * right / len(tx):.2f}", flush=True)


if __name__ == "__main__":
    main()
