# SPDX-License-Identifier: Apache-2.0
"""Scenes: optical flow and stereo by volumes of costs, larger pictures, boxes without anchors, views from above, codes of pictures, diffusion."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .entry import BATCH_SIZE, EXACT_TOOLS, entry, images
from .space import PAIR, grid_of, pair, stack_of


class CorrelationFlow(nn.Module):
    """PWC-Net (Sun et al. 2018), two levels: the right map warped by the flow so far, products with its neighbours, a better flow."""

    def __init__(self, reach=2):
        super().__init__()
        self.reach, costs = reach, (2 * reach + 1) ** 2
        self.levels = nn.ModuleList([stack_of(3, 16, stride=2), stack_of(16, 24, stride=2)])
        self.guess = nn.ModuleList(nn.Sequential(stack_of(costs + c + 2, 24), nn.Conv2d(24, 2, 3, padding=1)) for c in (16, 24))

    @staticmethod
    def warped(x, flow):
        height, width = x.shape[2:]
        most = torch.stack([torch.as_tensor(width - 1), torch.as_tensor(height - 1)]).to(torch.float32)
        where = (grid_of(height, width) + flow.permute(0, 2, 3, 1)) / most * 2 - 1
        return F.grid_sample(x, where, align_corners=True)

    def costs(self, a, b):
        height, width = a.shape[2:]
        padded, steps = F.pad(b, [self.reach] * 4), range(2 * self.reach + 1)
        return torch.cat([(a * padded[:, :, y:y + height, x:x + width]).mean(1, keepdim=True) for y in steps for x in steps], 1)

    def forward(self, left, right):
        maps = []
        for level in self.levels:
            left, right = level(left), level(right)
            maps.append((left, right))
        flow = torch.zeros_like(left[:, :2])
        for guess, (a, b) in zip(reversed(self.guess), reversed(maps)):
            if flow.shape[2:] != a.shape[2:]:
                flow = 2 * F.interpolate(flow, scale_factor=2.0, mode="bilinear", align_corners=False)
            flow = flow + guess(torch.cat([F.leaky_relu(self.costs(a, self.warped(b, flow)), 0.1), a, flow], 1))
        return flow


entry("correlation_flow", "optical flow", pair(), PAIR)(CorrelationFlow)


class StereoVolume(nn.Module):
    """GC-Net (Kendall et al. 2017): both maps side by side at each shift, convolutions over the volume, the mean shift."""

    def __init__(self, shifts=6, width=12):
        super().__init__()
        self.shifts, self.features = shifts, stack_of(3, width, width, stride=2)
        self.volume = nn.Sequential(nn.Conv3d(2 * width, 16, 3, padding=1), nn.ReLU(), nn.Conv3d(16, 16, 3, 2, 1), nn.ReLU(),
                                    nn.ConvTranspose3d(16, 8, 4, 2, 1), nn.ReLU(), nn.Conv3d(8, 1, 3, padding=1))

    def forward(self, left, right):
        a, b = self.features(left), self.features(right)
        pairs = [torch.cat([a, F.pad(b, (d, 0))[..., :b.shape[3]]], 1) for d in range(self.shifts)]
        costs = self.volume(torch.stack(pairs, 2))
        costs = F.interpolate(costs[:, 0], scale_factor=4.0, mode="bilinear", align_corners=False)
        shares = (-costs).softmax(1)
        return (shares * torch.arange(self.shifts, dtype=torch.float32)[:, None, None]).sum(1)


entry("stereo_volume", "depth", pair(32, (40, 56)), PAIR)(StereoVolume)


class DenseResidual(nn.Module):
    """A block of ESRGAN (Wang et al. 2018): each convolution sees all before it."""

    def __init__(self, width=24, growth=12):
        super().__init__()
        self.steps = nn.ModuleList(nn.Conv2d(width + i * growth, growth if i < 4 else width, 3, padding=1) for i in range(5))

    def forward(self, x):
        kept = [x]
        for step in self.steps[:-1]:
            kept.append(F.leaky_relu(step(torch.cat(kept, 1)), 0.2))
        return x + 0.2 * self.steps[-1](torch.cat(kept, 1))


class Enlarged(nn.Module):
    """Four times the size: dense residual blocks, two steps of nearest pixels and convolutions."""

    def __init__(self, width=24, blocks=2):
        super().__init__()
        self.first, self.body = nn.Conv2d(3, width, 3, padding=1), nn.Sequential(*(DenseResidual(width) for _ in range(blocks)))
        self.ups, self.last = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2)), nn.Sequential(stack_of(width, width), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, image):
        x = self.first(image)
        x = x + self.body(x)
        for up in self.ups:
            x = F.leaky_relu(up(F.interpolate(x, scale_factor=2.0, mode="nearest")), 0.2)
        return self.last(x)


entry("enlarged", "restoration", images(24, (17, 31), 3), BATCH_SIZE)(Enlarged)


class CentrePoints(nn.Module):
    """CenterNet (Zhou et al. 2019): peaks of a map for each class, the best 20 of all, sizes and offsets taken there."""

    def __init__(self, classes=5, most=20):
        super().__init__()
        self.classes, self.most, self.body = classes, most, stack_of(3, 16, 24, stride=2)
        self.heat, self.size, self.offset = (nn.Sequential(stack_of(24, 24), nn.Conv2d(24, c, 1)) for c in (classes, 2, 2))

    def forward(self, image):
        x = self.body(image)
        heat = self.heat(x).sigmoid()
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).to(heat.dtype)
        width, area = heat.shape[3], heat.shape[2] * heat.shape[3]
        score, index = heat.flatten(1).topk(self.most)
        kind, place = index // area, index % area
        taken = place[:, None].expand(-1, 2, -1)
        size, offset = (head(x).flatten(2).gather(2, taken) for head in (self.size, self.offset))
        centre = torch.stack([place % width, place // width], 1).to(torch.float32) + offset
        return torch.cat([centre - size / 2, centre + size / 2], 1).transpose(1, 2) * 4, score, kind


entry("centre_points", "detection", images(64, (72, 104), 3), BATCH_SIZE, tools=EXACT_TOOLS)(CentrePoints)


class SplitJoin(nn.Module):
    """The block of YOLOv8: channels split in two, bottlenecks one behind the other, all joined."""

    def __init__(self, a, b, count):
        super().__init__()
        def step(a, b, k):
            return nn.Sequential(nn.Conv2d(a, b, k, padding=k // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU())
        self.first, self.last = step(a, b, 1), step(b // 2 * (count + 2), b, 1)
        self.steps = nn.ModuleList(nn.Sequential(step(b // 2, b // 2, 3), step(b // 2, b // 2, 3)) for _ in range(count))

    def forward(self, x):
        kept = list(self.first(x).chunk(2, 1))
        for step in self.steps:
            kept.append(kept[-1] + step(kept[-1]))
        return self.last(torch.cat(kept, 1))


class DistributedBoxes(nn.Module):
    """YOLOv8: a pyramid of two maps, each edge of a box as the mean of a distribution over 16 distances."""

    def __init__(self, classes=6, bins=16):
        super().__init__()
        self.bins, self.first = bins, stack_of(3, 16, 24, stride=2)
        self.down, self.blocks = nn.ModuleList([nn.Conv2d(24, 32, 3, 2, 1), nn.Conv2d(32, 32, 3, 2, 1)]), nn.ModuleList([SplitJoin(32, 32, 1), SplitJoin(32, 32, 1)])
        self.join = SplitJoin(64, 32, 1)
        self.box, self.kind = (nn.ModuleList(nn.Sequential(stack_of(32, 24), nn.Conv2d(24, c, 1)) for _ in range(2)) for c in (4 * bins, classes))

    def forward(self, image):
        x = self.first(image)
        low = self.blocks[0](self.down[0](x))
        high = self.blocks[1](self.down[1](low))
        low = self.join(torch.cat([F.interpolate(high, size=low.shape[2:], mode="nearest"), low], 1))
        boxes, kinds = [], []
        for i, x in enumerate((low, high)):
            away = self.box[i](x).flatten(2).unflatten(1, (4, self.bins)).softmax(2)
            away = torch.einsum("bekp,k->bep", away, torch.arange(self.bins, dtype=torch.float32))
            place = (grid_of(x.shape[2], x.shape[3]) + 0.5).flatten(0, 1).t()[None]
            boxes.append(torch.cat([place - away[:, :2], place + away[:, 2:]], 1) * (8 << i))
            kinds.append(self.kind[i](x).flatten(2))
        return torch.cat(boxes, 2), torch.cat(kinds, 2).sigmoid()


entry("distributed_boxes", "detection", images(64, (72, 104), 3), BATCH_SIZE)(DistributedBoxes)


class LiftSplat(nn.Module):
    """Lift, Splat, Shoot (Philion, Fidler 2020): pixels at each depth by its likelihood, added up in the cells of a view from above."""

    def __init__(self, depths=8, width=16, cells=16):
        super().__init__()
        self.depths, self.width, self.cells = depths, width, cells
        self.features, self.head = stack_of(3, 16, 24, stride=2), nn.Conv2d(24, depths + width, 1)
        self.above = nn.Sequential(stack_of(width, 24), nn.Conv2d(24, 3, 1))

    def forward(self, image, camera):
        x = self.head(self.features(image))
        batch, height, width = x.shape[0], x.shape[2], x.shape[3]
        likely, values = x[:, :self.depths].softmax(1), x[:, self.depths:]
        lifted = likely[:, None] * values[:, :, None]
        rays = torch.cat([grid_of(height, width) / 8 - 1, torch.ones((height, width, 1))], -1)
        depth = torch.arange(1, self.depths + 1, dtype=torch.float32)[:, None, None, None]
        places = torch.einsum("bij,dhwj->bdhwi", camera, rays * depth)
        cell = ((places[..., [0, 2]] + 8) * (self.cells / 16)).floor().clamp(0, self.cells - 1).to(torch.int64)
        index = (torch.arange(batch)[:, None, None, None] * self.cells + cell[..., 0]) * self.cells + cell[..., 1]
        rows = lifted.permute(0, 2, 3, 4, 1).reshape(-1, self.width)
        total = torch.zeros((batch * self.cells * self.cells, self.width)).index_add(0, index.reshape(-1), rows)
        return self.above(total.reshape(batch, self.cells, self.cells, self.width).permute(0, 3, 1, 2))


entry("lift_splat", "driving", lambda k: {**images(48, (40, 72), 3)(k), "camera": torch.randn((1 + 2 * k, 3, 3))}, {"image": {0: "batch", 2: "height", 3: "width"}, "camera": {0: "batch"}})(LiftSplat)


class PointPillars(nn.Module):
    """Columns of points (Lang et al. 2019): the maximum of each column, written into its cell of a map, convolved there."""

    def __init__(self, width=24, cells=16):
        super().__init__()
        self.cells, self.points = cells, nn.Sequential(nn.Linear(7, width), nn.BatchNorm1d(12), nn.ReLU())
        self.body, self.head = nn.Sequential(stack_of(width, 24), stack_of(24, 32, stride=2)), nn.ConvTranspose2d(32, 10, 2, 2)

    def forward(self, pillars, counts, cells):
        there = (torch.arange(pillars.shape[1])[None] < counts[:, None]).to(torch.float32)[..., None]
        mean = (pillars[..., :3] * there).sum(1, keepdim=True) / counts[:, None, None].to(torch.float32)
        x = self.points(torch.cat([pillars, pillars[..., :3] - mean], -1) * there).max(1)[0]
        canvas = torch.zeros((self.cells * self.cells, x.shape[1])).index_copy(0, cells[:, 0] * self.cells + cells[:, 1], x)
        return self.head(self.body(canvas.t().reshape(1, -1, self.cells, self.cells)))


def columns(k):
    count = 20 + 33 * k
    cells = torch.randperm(256)[:count]
    return {"pillars": torch.randn((count, 12, 4)), "counts": torch.randint(1, 13, (count,)), "cells": torch.stack([cells // 16, cells % 16], 1)}


entry("point_pillars", "driving", columns, {n: {0: "columns"} for n in ("pillars", "counts", "cells")})(PointPillars)


class ResidualCodes(nn.Module):
    """VQ-VAE with residual codes: the nearest of 32 vectors, twice, and the picture from their sum."""

    def __init__(self, width=16, codes=32):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1))
        self.up = nn.Sequential(nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
        self.codes = nn.ParameterList(nn.Parameter(torch.zeros(codes, width)) for _ in range(2))

    def forward(self, image):
        x = self.down(image)
        rest, total, chosen = x.permute(0, 2, 3, 1), 0, []
        for table in self.codes:
            away = (rest**2).sum(-1, keepdim=True) - 2 * rest @ table.t() + (table**2).sum(1)
            chosen.append(away.argmin(-1))
            found = F.embedding(chosen[-1], table)
            rest, total = rest - found, total + found
        return self.up(total.permute(0, 3, 1, 2)), torch.stack(chosen, 1)


entry("residual_codes", "diffusion", images(32, (20, 44), 3), BATCH_SIZE)(ResidualCodes)


class DiffusionTransformer(nn.Module):
    """DiT (Peebles, Xie 2023): patches, layers whose shifts, scales and gates come from time and class, patches put together again."""

    def __init__(self, width=32, heads=4, layers=2, patch=2):
        super().__init__()
        self.patch, self.heads = patch, heads
        self.first, self.kinds, self.time = nn.Conv2d(4, width, patch, patch), nn.Embedding(10, width), nn.Sequential(nn.Linear(32, width), nn.SiLU(), nn.Linear(width, width))
        self.shape = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(layers))
        self.attention = nn.ModuleList(nn.ModuleList([nn.Linear(width, 3 * width), nn.Linear(width, width)]) for _ in range(layers))
        self.wide = nn.ModuleList(nn.Sequential(nn.Linear(width, 64), nn.GELU(approximate="tanh"), nn.Linear(64, width)) for _ in range(layers))
        self.norm, self.last, self.ends = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6), nn.Linear(width, 4 * patch * patch), nn.Linear(width, 2 * width)

    def forward(self, latent, time, kind):
        x = self.first(latent)
        down, across = x.shape[2:]
        places = grid_of(down, across).flatten(0, 1)
        rates = torch.exp(torch.arange(8, dtype=torch.float32) * (-math.log(10000.0) / 8))
        waves = places[:, :, None] * rates
        x = x.flatten(2).transpose(1, 2) + torch.cat([waves.sin(), waves.cos()], -1).flatten(1)
        angle = time[:, None].to(torch.float32) * torch.exp(torch.arange(16, dtype=torch.float32) * (-math.log(10000.0) / 16))
        given = F.silu(self.time(torch.cat([angle.cos(), angle.sin()], -1)) + self.kinds(kind))
        for shape, (split, join), wide in zip(self.shape, self.attention, self.wide):
            shift, scale, gate, shift_2, scale_2, gate_2 = shape(given)[:, None].chunk(6, -1)
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in split(self.norm(x) * (1 + scale) + shift).chunk(3, -1))
            x = x + gate * join(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            x = x + gate_2 * wide(self.norm(x) * (1 + scale_2) + shift_2)
        shift, scale = self.ends(given)[:, None].chunk(2, -1)
        x = self.last(self.norm(x) * (1 + scale) + shift).reshape(x.shape[0], down, across, self.patch, self.patch, 4)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(x.shape[0], 4, down * self.patch, across * self.patch)


entry("diffusion_transformer", "diffusion", lambda k: {**images(16, (12, 20), 3, 4, "latent")(k), "time": torch.randint(0, 1000, (1 + 2 * k,)), "kind": torch.randint(0, 10, (1 + 2 * k,))},
      {"latent": {0: "batch", 2: "height", 3: "width"}, "time": {0: "batch"}, "kind": {0: "batch"}})(DiffusionTransformer)
