# SPDX-License-Identifier: Apache-2.0
"""Networks as products have them: restored images, recognised speech and speakers, prompts for masks, attention in graphs, ranked rows."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .entry import BATCH_SIZE, entry, images


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of each pixel, written out."""

    def __init__(self, channels):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        return self.weight[:, None, None] * centred / (centred.pow(2).mean(1, keepdim=True) + 1e-6).sqrt() + self.bias[:, None, None]


class GateBlock(nn.Module):
    """A block of NAFNet (Chen et al. 2022): gates are products of halves of the channels, attention is a mean of each channel."""

    def __init__(self, channels):
        super().__init__()
        self.norms = nn.ModuleList(ChannelNorm(channels) for _ in range(2))
        self.spread, self.window = nn.Conv2d(channels, 2 * channels, 1), nn.Conv2d(2 * channels, 2 * channels, 3, padding=1, groups=2 * channels)
        self.weigh, self.join = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)
        self.widen, self.last = nn.Conv2d(channels, 2 * channels, 1), nn.Conv2d(channels, channels, 1)

    @staticmethod
    def gate(x):
        a, b = x.chunk(2, 1)
        return a * b

    def forward(self, x):
        y = self.gate(self.window(self.spread(self.norms[0](x))))
        x = x + self.join(y * self.weigh(y.mean((2, 3), keepdim=True)))
        return x + self.last(self.gate(self.widen(self.norms[1](x))))


class NafNet(nn.Module):
    def __init__(self, channels=16, levels=2):
        super().__init__()
        widths = [channels << i for i in range(levels + 1)]
        self.first, self.last = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, 3, 3, padding=1)
        self.before, self.after = (nn.ModuleList(GateBlock(c) for c in widths[:-1]) for _ in range(2))
        self.down = nn.ModuleList(nn.Conv2d(c, 2 * c, 2, 2) for c in widths[:-1])
        self.middle = GateBlock(widths[-1])
        self.up = nn.ModuleList(nn.Sequential(nn.Conv2d(2 * c, 4 * c, 1, bias=False), nn.PixelShuffle(2)) for c in widths[:-1])

    def forward(self, image):
        x, kept = self.first(image), []
        for block, down in zip(self.before, self.down):
            kept.append(block(x))
            x = down(kept[-1])
        x = self.middle(x)
        for block, up in zip(reversed(self.after), reversed(self.up)):
            x = block(up(x) + kept.pop())
        return self.last(x) + image


@entry("nafnet", "restoration", images(64, (48, 80)), BATCH_SIZE)
def nafnet():
    return NafNet()


class RelativeAttention(nn.Module):
    """Attention with positions relative to each other (Transformer-XL): a table of 2·length - 1 sines, shifted row by row."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.query, self.key, self.value, self.out, self.place = (nn.Linear(width, width) for _ in range(5))
        self.content, self.position = (nn.Parameter(torch.zeros(heads, width // heads)) for _ in range(2))

    def forward(self, x):
        batch, length, width = x.shape
        x = self.norm(x)
        away = torch.arange(length - 1, -length, -1, dtype=torch.float32)[:, None]
        rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
        sines = torch.stack([torch.sin(away * rates), torch.cos(away * rates)], -1).reshape(2 * length - 1, width)
        query, key, value = (f(x).reshape(batch, length, self.heads, -1) for f in (self.query, self.key, self.value))
        near = (query + self.content).transpose(1, 2) @ key.permute(0, 2, 3, 1)
        far = (query + self.position).transpose(1, 2) @ self.place(sines).reshape(2 * length - 1, self.heads, -1).permute(1, 2, 0)
        shifted = F.pad(far, (1, 0)).reshape(batch, self.heads, 2 * length, length)[:, :, 1:].reshape(batch, self.heads, length, 2 * length - 1)[..., :length]
        shares = torch.softmax((near + shifted) / math.sqrt(width // self.heads), -1)
        return self.out((shares @ value.transpose(1, 2)).transpose(1, 2).reshape(batch, length, width))


class ConformerBlock(nn.Module):
    def __init__(self, width, heads, window=15):
        super().__init__()
        self.feeds = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)) for _ in range(2))
        self.attention, self.norm, self.last = RelativeAttention(width, heads), nn.LayerNorm(width), nn.LayerNorm(width)
        self.convolutions = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(1), nn.Conv1d(width, width, window, padding=window // 2, groups=width), nn.BatchNorm1d(width),
                                          nn.SiLU(), nn.Conv1d(width, width, 1))

    def forward(self, x):
        x = x + 0.5 * self.feeds[0](x)
        x = x + self.attention(x)
        x = x + self.convolutions(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.last(x + 0.5 * self.feeds[1](x))


class Conformer(nn.Module):
    def __init__(self, width=48, heads=4, layers=2, bands=40):
        super().__init__()
        self.halve = nn.Sequential(nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU())
        self.first, self.out = nn.Linear(width * ((bands - 3) // 4), width), nn.Linear(width, 64)
        self.layers = nn.Sequential(*(ConformerBlock(width, heads) for _ in range(layers)))

    def forward(self, x):
        x = self.halve(x[:, None]).transpose(1, 2).flatten(2)
        return torch.log_softmax(self.out(self.layers(self.first(x))), -1)


@entry("relative_conformer", "speech", lambda k: {"features": torch.randn((1 + k, 80 + 61 * k, 40))}, {"features": {0: "batch", 1: "frames"}})
def relative_conformer():
    return Conformer()


class Scales(nn.Module):
    """Convolutions of parts of the channels, each of which gets the one before it added, and a gate for each channel."""

    def __init__(self, channels, dilation, parts=4):
        super().__init__()
        width, self.parts = channels // parts, parts
        self.first, self.last = nn.Conv1d(channels, channels, 1), nn.Conv1d(channels, channels, 1)
        self.steps = nn.ModuleList(nn.Sequential(nn.Conv1d(width, width, 3, dilation=dilation, padding=dilation), nn.ReLU(), nn.BatchNorm1d(width)) for _ in range(parts - 1))
        self.gate = nn.Sequential(nn.Conv1d(channels, 16, 1), nn.ReLU(), nn.Conv1d(16, channels, 1), nn.Sigmoid())

    def forward(self, x):
        kept, *rest = self.first(x).relu().chunk(self.parts, 1)
        out = [kept]
        for part, step in zip(rest, self.steps):
            out.append(step(part if len(out) == 1 else part + out[-1]))
        y = self.last(torch.cat(out, 1)).relu()
        return x + y * self.gate(y.mean(2, keepdim=True))


class Speaker(nn.Module):
    """ECAPA-TDNN (Desplanques et al. 2020): all scales joined, weighted means and deviations over time."""

    def __init__(self, channels=64, bands=40):
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(bands, channels, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(channels))
        self.layers = nn.ModuleList(Scales(channels, d) for d in (2, 3, 4))
        self.join, self.out = nn.Conv1d(3 * channels, 96, 1), nn.Linear(192, 48)
        self.weigh = nn.Sequential(nn.Conv1d(96, 32, 1), nn.Tanh(), nn.Conv1d(32, 96, 1))

    def forward(self, x):
        x, all_scales = self.first(x), []
        for layer in self.layers:
            x = layer(x)
            all_scales.append(x)
        y = self.join(torch.cat(all_scales, 1)).relu()
        shares = self.weigh(y).softmax(2)
        mean = (y * shares).sum(2)
        return self.out(torch.cat([mean, ((y * y * shares).sum(2) - mean * mean).clamp(min=1e-4).sqrt()], 1))


@entry("ecapa", "speech", lambda k: {"features": torch.randn((1 + k, 40, 90 + 57 * k))}, {"features": {0: "batch", 2: "frames"}})
def ecapa():
    return Speaker()


class GraphAttention(nn.Module):
    """Two layers of attention of nodes to their neighbours (Veličković et al. 2018): softmax over the edges that end in a node."""

    def __init__(self, width=32, heads=4, classes=7):
        super().__init__()
        sizes = [(32, width), (heads * width, classes)]
        self.lines = nn.ModuleList(nn.Linear(a, heads * b) for a, b in sizes)
        self.ends = nn.ParameterList(nn.Parameter(torch.zeros(2, heads, b)) for _, b in sizes)
        self.heads = heads

    def layer(self, i, x, source, target):
        nodes = x.shape[0]
        y = self.lines[i](x).reshape(nodes, self.heads, -1)
        score = F.leaky_relu((y * self.ends[i][0]).sum(-1)[source] + (y * self.ends[i][1]).sum(-1)[target], 0.2)
        place = target[:, None].expand(-1, self.heads)
        most = torch.full((nodes, self.heads), -1e9).scatter_reduce(0, place, score, "amax")
        share = torch.exp(score - most[target])
        total = torch.zeros((nodes, self.heads)).scatter_add(0, place, share)
        return torch.zeros_like(y).index_add(0, target, y[source] * (share / (total[target] + 1e-9))[..., None])

    def forward(self, nodes, edges):
        x = F.elu(self.layer(0, nodes, edges[0], edges[1])).flatten(1)
        return torch.log_softmax(self.layer(1, x, edges[0], edges[1]).mean(1), -1)


@entry("graph_attention", "graphs", lambda k: {"nodes": torch.randn((60 + 31 * k, 32)), "edges": torch.randint(0, 60, (2, 400 + 101 * k))}, {"nodes": {0: "nodes"}, "edges": {1: "edges"}})
def graph_attention():
    return GraphAttention()


class Ranking(nn.Module):
    """DLRM (Naumov et al. 2019): sums of embeddings, products of all pairs of them."""

    def __init__(self, tables=6, width=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(200, width) for _ in range(tables))
        self.dense = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + tables * (tables + 1) // 2, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
        rows, columns = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense, sparse):
        x = self.dense(dense)
        all_vectors = torch.stack([x] + [table(sparse[:, i]).sum(1) for i, table in enumerate(self.tables)], 1)
        pairs = (all_vectors @ all_vectors.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([x, pairs], 1))


@entry("dlrm", "ranking", lambda k: {"dense": torch.randn((32 + 37 * k, 13)), "sparse": torch.randint(0, 200, (32 + 37 * k, 6, 3))}, {"dense": {0: "rows"}, "sparse": {0: "rows"}})
def dlrm():
    return Ranking()
