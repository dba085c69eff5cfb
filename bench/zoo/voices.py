# SPDX-License-Identifier: Apache-2.0
"""Voices and rows: speech made from text, parted and followed step by step; tables of features, forecasts as distributions, bags of codes."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .entry import entry
from .sequences import Layer


class LengthRegulator(nn.Module):
    """FastSpeech 2 (Ren et al. 2021): each sound gets frames by its predicted duration, so that the durations say how long the result is."""

    def __init__(self, width=32, sounds=40):
        super().__init__()
        self.sounds, self.layer = nn.Embedding(sounds, width), Layer(width)
        self.duration, self.pitch = (nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width), nn.Linear(width, 1)) for _ in range(2))
        self.lift, self.last = nn.Linear(1, width), nn.Sequential(nn.Linear(width, 48), nn.Tanh(), nn.Linear(48, 20))

    def forward(self, ids):
        x = self.layer(self.sounds(ids))
        x = x + self.lift(self.pitch(x))
        frames = (self.duration(x)[..., 0].exp() * 2).clamp(1, 12).to(torch.int64)
        ends = frames.cumsum(1)
        count = ends[:, -1].max()
        place = torch.arange(count)
        taken = (place[None, :, None] >= ends[:, None]).sum(-1).clamp(max=ids.shape[1] - 1)
        y = x.gather(1, taken[..., None].expand(-1, -1, x.shape[2]))
        return self.last(y) * (place[None] < ends[:, -1:]).to(x.dtype)[..., None], frames


entry("length_regulator", "speech", lambda k: {"ids": torch.randint(0, 40, (3 - 2 * k, 9 + 8 * k))}, {"ids": {0: "batch", 1: "sounds"}}, ("script",))(LengthRegulator)


class GatedStack(nn.Module):
    """Dilated convolutions with gates, sums of skips (WaveNet)."""

    def __init__(self, width, layers=3):
        super().__init__()
        self.first, self.width = nn.Conv1d(width // 2, width, 1), width
        self.windows = nn.ModuleList(nn.Conv1d(width, 2 * width, 3, padding=2**i, dilation=2**i) for i in range(layers))
        self.joins = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(layers))

    def forward(self, x, mask):
        x, total = self.first(x) * mask, 0
        for window, join in zip(self.windows, self.joins):
            a, b = window(x).chunk(2, 1)
            rest, skip = join(a.tanh() * b.sigmoid()).chunk(2, 1)
            x, total = (x + rest) * mask, total + skip
        return total * mask


class CouplingFlow(nn.Module):
    """VITS (Kim et al. 2021): couplings run backwards, channels reversed between them, a spline of eight pieces at the end."""

    def __init__(self, width=16, flows=2, bins=8):
        super().__init__()
        self.bins, self.stacks = bins, nn.ModuleList(GatedStack(width) for _ in range(flows))
        self.means, self.pieces = nn.ModuleList(nn.Conv1d(width, width // 2, 1) for _ in range(flows)), nn.Conv1d(width // 2, width // 2 * (3 * bins - 1), 1)

    def spline(self, x, given, tail=3.0):
        """A monotone rational quadratic spline inside of ±tail, the identity outside."""
        widths, heights, slopes = given.split([self.bins, self.bins, self.bins - 1], -1)
        edges = [F.pad(torch.cumsum(1e-3 + (1 - 1e-3 * self.bins) * t.softmax(-1), -1), (1, 0)) * 2 * tail - tail for t in (widths, heights)]
        slopes = F.pad(1e-3 + F.softplus(slopes), (1, 1), value=1.0)
        index = ((x[..., None] >= edges[0]).sum(-1) - 1).clamp(0, self.bins - 1)[..., None]
        left, right, low, high = (e.gather(-1, index + d)[..., 0] for e in edges for d in (0, 1))
        before, behind = (slopes.gather(-1, index + d)[..., 0] for d in (0, 1))
        t, rise = (x - left) / (right - left), (high - low) / (right - left)
        y = low + (high - low) * (rise * t * t + before * t * (1 - t)) / (rise + (before + behind - 2 * rise) * t * (1 - t))
        return torch.where(x.abs() <= tail, y, x)

    def forward(self, noise, lengths):
        mask = (torch.arange(noise.shape[2])[None] < lengths[:, None]).to(noise.dtype)[:, None]
        x = noise * mask
        for stack, mean in zip(reversed(self.stacks), reversed(self.means)):
            a, b = x.flip(1).chunk(2, 1)
            x = torch.cat([a, (b - mean(stack(a, mask))) * mask], 1)
        a, b = x.chunk(2, 1)
        given = self.pieces(a).unflatten(1, (b.shape[1], -1)).transpose(2, 3)
        return torch.cat([a, self.spline(b, given)], 1) * mask


def noise(k):
    return {"noise": torch.randn((1 + 2 * k, 16, 20 + 17 * k)), "lengths": torch.randint(10, 21, (1 + 2 * k,))}


entry("coupling_flow", "speech", noise, {"noise": {0: "batch", 2: "frames"}, "lengths": {0: "batch"}})(CouplingFlow)


class Demucs(nn.Module):
    """Demucs (Défossez et al. 2019): strided convolutions with gates, an LSTM both ways in the middle, the way back with skips that are cut."""

    def __init__(self, width=12, levels=2, sources=2):
        super().__init__()
        widths = [1] + [width << i for i in range(levels)]
        self.down = nn.ModuleList(nn.Sequential(nn.Conv1d(a, b, 8, 4), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1)) for a, b in zip(widths, widths[1:]))
        self.middle, self.narrow = nn.LSTM(widths[-1], widths[-1], 2, bidirectional=True, batch_first=True), nn.Linear(2 * widths[-1], widths[-1])
        self.up = nn.ModuleList(nn.Sequential(nn.Conv1d(b, 2 * b, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(b, a if i else sources, 8, 4)) for i, (a, b) in enumerate(zip(widths, widths[1:])))

    def forward(self, wave):
        deviation = wave.std(1, keepdim=True) + 1e-3
        x, kept = (wave / deviation)[:, None], []
        for step in self.down:
            x = step(x)
            kept.append(x)
        x = self.narrow(self.middle(x.transpose(1, 2))[0]).transpose(1, 2)
        for i in reversed(range(len(self.up))):
            x = self.up[i](x + kept[i][..., :x.shape[2]])
            x = x.relu() if i else x
        return x * deviation[:, None]


entry("demucs", "speech", lambda k: {"wave": torch.randn((1 + 2 * k, 500 + 333 * k))}, {"wave": {0: "batch", 1: "samples"}}, ("script",))(Demucs)


class Transducer(nn.Module):
    """RNN-T (Graves 2012): an LSTM over frames, one over words so far, and all pairs of their steps."""

    def __init__(self, width=32, words=40):
        super().__init__()
        self.words, self.sound, self.text = nn.Embedding(words, width), nn.LSTM(20, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        self.left, self.right, self.out = nn.Linear(width, 48), nn.Linear(width, 48), nn.Linear(48, words)

    def forward(self, features, ids):
        a, b = self.left(self.sound(features)[0]), self.right(self.text(self.words(F.pad(ids, (1, 0))))[0])
        return self.out(torch.tanh(a[:, :, None] + b[:, None])).log_softmax(-1)


entry("transducer", "speech", lambda k: {"features": torch.randn((1 + 2 * k, 12 + 9 * k, 20)), "ids": torch.randint(0, 40, (1 + 2 * k, 5 + 4 * k))},
      {"features": {0: "batch", 1: "frames"}, "ids": {0: "batch", 1: "words"}})(Transducer)


class LocatedStep(nn.Module):
    """A step of Tacotron 2 (Shen et al. 2018): attention that sees where it was, by a convolution over its weights so far."""

    def __init__(self, width=32, bands=16):
        super().__init__()
        self.before = nn.Sequential(nn.Linear(bands, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.first, self.second = nn.LSTMCell(2 * width, width), nn.LSTMCell(2 * width, width)
        self.query, self.memory, self.place, self.energy = nn.Linear(width, 24), nn.Linear(width, 24), nn.Linear(8, 24), nn.Linear(24, 1)
        self.windows, self.frame, self.stop = nn.Conv1d(2, 8, 15, padding=7, bias=False), nn.Linear(2 * width, bands), nn.Linear(2 * width, 1)

    def forward(self, frame, memory, mask, context, weights, total, h_1, c_1, h_2, c_2):
        h_1, c_1 = self.first(torch.cat([self.before(frame), context], 1), (h_1, c_1))
        places = self.place(self.windows(torch.stack([weights, total], 1)).transpose(1, 2))
        energy = self.energy(torch.tanh(self.query(h_1)[:, None] + self.memory(memory) + places))[..., 0]
        weights = energy.masked_fill(mask, -1e9).softmax(1)
        context = (weights[:, None] @ memory)[:, 0]
        h_2, c_2 = self.second(torch.cat([h_1, context], 1), (h_2, c_2))
        y = torch.cat([h_2, context], 1)
        return self.frame(y), self.stop(y).sigmoid(), context, weights, total + weights, h_1, c_1, h_2, c_2


def located(k):
    batch, length = 1 + 2 * k, 14 + 9 * k
    feed = {"frame": torch.randn((batch, 16)), "memory": torch.randn((batch, length, 32)), "mask": torch.arange(length)[None] >= length - torch.arange(batch)[:, None]}
    feed |= {"context": torch.randn((batch, 32)), "weights": torch.rand((batch, length)), "total": torch.rand((batch, length))}
    return feed | {n: torch.randn((batch, 32)) for n in ("h_1", "c_1", "h_2", "c_2")}


entry("located_step", "speech", located, {n: {0: "batch"} | ({1: "length"} if n in ("memory", "mask", "weights", "total") else {}) for n in located(0)})(LocatedStep)


class VoiceActivity(nn.Module):
    """Is there a voice: a spectrum by convolution with sines, convolutions, an LSTM whose state the caller keeps."""

    def __init__(self, window=64):
        super().__init__()
        angle = 2 * math.pi / window * torch.arange(window)[None] * torch.arange(window // 2 + 1)[:, None]
        self.register_buffer("sines", (torch.cat([angle.cos(), -angle.sin()]) * torch.hann_window(window))[:, None])
        self.layers = nn.Sequential(nn.Conv1d(window // 2 + 1, 24, 3, padding=1), nn.ReLU(), nn.Conv1d(24, 24, 3, 2, 1), nn.ReLU())
        self.lstm, self.out = nn.LSTM(24, 32, batch_first=True), nn.Conv1d(32, 1, 1)

    def forward(self, wave, h, c):
        x = F.conv1d(F.pad(wave[:, None], (32, 32), mode="reflect"), self.sines, stride=32)
        real, imaginary = x.chunk(2, 1)
        y, (h, c) = self.lstm(self.layers(torch.log1p((real**2 + imaginary**2).sqrt())).transpose(1, 2), (h, c))
        return self.out(y.relu().transpose(1, 2)).sigmoid().mean((1, 2)), h, c


entry("voice_activity", "speech", lambda k: {"wave": torch.randn((1 + 2 * k, 512 + 93 * k)), "h": torch.randn((1, 1 + 2 * k, 32)), "c": torch.randn((1, 1 + 2 * k, 32))},
      {"wave": {0: "batch", 1: "samples"}, "h": {1: "batch"}, "c": {1: "batch"}})(VoiceActivity)


def sparsemax(x):
    """The nearest point of the simplex (Martins, Astudillo 2016): a threshold from sorted values and their running sums."""
    ordered = x.sort(-1, descending=True)[0]
    sums = ordered.cumsum(-1)
    places = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    count = (1 + places * ordered > sums).sum(-1, keepdim=True)
    return (x - (sums.gather(-1, count - 1) - 1) / count.to(x.dtype)).clamp(min=0)


class TabNet(nn.Module):
    """TabNet (Arik, Pfister 2021): in each of three steps a sparse choice of features, which later ones use less."""

    def __init__(self, features=14, width=16, steps=3):
        super().__init__()
        self.norm, self.shared = nn.BatchNorm1d(features), nn.Linear(features, 4 * width)
        self.own, self.choose = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(steps + 1)), nn.ModuleList(nn.Linear(width, features) for _ in range(steps))
        self.norms, self.out, self.width = nn.ModuleList(nn.BatchNorm1d(features) for _ in range(steps)), nn.Linear(width, 3), width

    def transform(self, i, x):
        x = F.glu(self.shared(x), -1)
        return (x + F.glu(self.own[i](x), -1)) * math.sqrt(0.5)

    def forward(self, rows):
        rows = self.norm(rows)
        prior, total, used = torch.ones_like(rows), 0, 0
        x = self.transform(0, rows)[:, self.width:]
        for i, (choose, norm) in enumerate(zip(self.choose, self.norms)):
            mask = sparsemax(norm(choose(x)) * prior)
            prior = prior * (1.5 - mask)
            y = self.transform(i + 1, rows * mask)
            decided, x = y[:, :self.width].relu(), y[:, self.width:]
            total, used = total + decided, used + mask * decided.sum(1, keepdim=True)
        return self.out(total), used


entry("tabnet", "tables", lambda k: {"rows": torch.randn((1 + 30 * k, 14))}, {"rows": {0: "rows"}})(TabNet)


class Forecast(nn.Module):
    """DeepAR (Salinas et al. 2020): scaled series, lags and classes through an LSTM, a Student distribution for each step."""

    def __init__(self, width=32, classes=12, lags=(1, 2, 7)):
        super().__init__()
        self.lags, self.classes, self.lstm = lags, nn.Embedding(classes, 8), nn.LSTM(len(lags) + 10, width, 2, batch_first=True)
        self.out = nn.Linear(width, 3)

    def forward(self, series, kind):
        scale = series.abs().mean(1, keepdim=True).clamp(min=1e-3)
        scaled, most = series / scale, max(self.lags)
        lagged = torch.stack([scaled[:, most - lag:scaled.shape[1] - lag] for lag in self.lags], -1)
        given = torch.cat([self.classes(kind), scale.log(), scale], -1)[:, None].expand(-1, lagged.shape[1], -1)
        y = self.out(self.lstm(torch.cat([lagged, given], -1))[0])
        return 2 + F.softplus(y[..., 0]), y[..., 1] * scale, F.softplus(y[..., 2]) * scale


entry("deepar", "time series", lambda k: {"series": torch.randn((1 + 2 * k, 20 + 13 * k)), "kind": torch.randint(0, 12, (1 + 2 * k,))}, {"series": {0: "batch", 1: "steps"}, "kind": {0: "batch"}})(Forecast)


class CodedBags(nn.Module):
    """Embeddings kept as bytes with a scale and a bias for each row; bags are slices of one list, given by where they start."""

    def __init__(self, rows=300, width=16):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.register_buffer("codes", torch.randint(0, 256, (rows, width), generator=generator, dtype=torch.uint8))
        self.scale, self.bias, self.out = nn.Parameter(torch.ones(rows)), nn.Parameter(torch.zeros(rows)), nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, ids, starts):
        rows = self.codes[ids].to(torch.float32) * (self.scale[ids] / 255)[:, None] + self.bias[ids][:, None]
        bag = (torch.arange(ids.shape[0])[:, None] >= starts[None]).sum(1) - 1
        return self.out(torch.zeros((starts.shape[0], rows.shape[1])).index_add(0, bag, rows))


def bags(k):
    count, many = 60 + 45 * k, 8 + 5 * k
    return {"ids": torch.randint(0, 300, (count,)), "starts": torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(1, count, (many - 1,)).sort()[0]])}


entry("coded_bags", "ranking", bags, {"ids": {0: "ids"}, "starts": {0: "bags"}})(CodedBags)


class Interest(nn.Module):
    """DIN (Zhou et al. 2018): what a person looked at, weighted by how it fits the thing that is ranked."""

    def __init__(self, things=200, width=16):
        super().__init__()
        self.things, self.fit = nn.Embedding(things, width), nn.Sequential(nn.Linear(4 * width, 24), nn.PReLU(24), nn.Linear(24, 1))
        self.out = nn.Sequential(nn.Linear(2 * width, 24), nn.BatchNorm1d(24), nn.PReLU(24), nn.Linear(24, 1), nn.Sigmoid())

    def forward(self, history, thing):
        x, y = self.things(history), self.things(thing)
        other = y[:, None].expand_as(x)
        pairs = torch.cat([x, other, x - other, x * other], -1)
        score = self.fit[2](self.fit[1](self.fit[0](pairs).flatten(0, 1))).reshape(history.shape)
        score = torch.where(history > 0, score, torch.full_like(score, -1e9)).softmax(1)
        return self.out(torch.cat([(score[:, None] @ x)[:, 0], y], 1))


entry("interest", "ranking", lambda k: {"history": torch.randint(0, 200, (1 + 20 * k, 10 + 7 * k)), "thing": torch.randint(1, 200, (1 + 20 * k,))},
      {"history": {0: "rows", 1: "seen"}, "thing": {0: "rows"}})(Interest)
