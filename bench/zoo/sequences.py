# SPDX-License-Identifier: Apache-2.0
"""Sequences: scans, steps with caches, experts, speech made and parted, forecasts, tables, memories of latents."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .entry import entry

SERIES = {"series": {0: "batch", 1: "steps"}}


def series(width, steps=12, other=19, name="series"):
    return lambda k: {name: torch.randn((3 - 2 * k, other if k else steps, width))}


@torch.jit.script
def scanned(decay: torch.Tensor, taken: torch.Tensor, read: torch.Tensor):
    """h = decay·h + taken for each step, and its product with what is read."""
    state, out = torch.zeros_like(taken[:, 0]), []
    for i in range(taken.shape[1]):
        state = decay[:, i] * state + taken[:, i]
        out.append((state * read[:, i, None]).sum(-1))
    return torch.stack(out, 1)


class SelectiveScan(nn.Module):
    """A block of Mamba (Gu, Dao 2023) whose scan is a loop over any number of steps."""

    def __init__(self, width=24, inner=32, states=8):
        super().__init__()
        self.states, self.first, self.last, self.norm = states, nn.Linear(width, 2 * inner), nn.Linear(inner, width), nn.LayerNorm(width)
        self.window, self.given, self.step = nn.Conv1d(inner, inner, 4, padding=3, groups=inner), nn.Linear(inner, 4 + 2 * states), nn.Linear(4, inner)
        self.rates, self.through = nn.Parameter(torch.zeros(inner, states)), nn.Parameter(torch.ones(inner))

    def forward(self, series):
        x, gate = self.first(self.norm(series)).chunk(2, -1)
        x = F.silu(self.window(x.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        step, write, read = self.given(x).split([4, self.states, self.states], -1)
        step = F.softplus(self.step(step))[..., None]
        y = scanned(torch.exp(-step * self.rates.exp()), step * write[:, :, None] * x[..., None], read)
        return series + self.last((y + x * self.through) * F.silu(gate))


entry("selective_scan", "state space", series(24), SERIES, ("script",))(SelectiveScan)


class LongConvolution(nn.Module):
    """Hyena (Poli et al. 2023): a filter as long as the sequence, made of sines, applied by Fourier transforms."""

    def __init__(self, width=16):
        super().__init__()
        self.first, self.last, self.short = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width)
        self.filter, self.decay = nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.Linear(16, width)), nn.Parameter(torch.ones(width))

    def forward(self, series):
        steps = series.shape[1]
        a, b, v = self.short(self.first(series).transpose(1, 2))[..., :steps].chunk(3, 1)
        time = torch.arange(steps, dtype=torch.float32)[:, None] / 64
        waves = torch.cat([time, (2 * math.pi * time).sin(), (2 * math.pi * time).cos(), (4 * math.pi * time).sin(), (4 * math.pi * time).cos()], 1)
        taps = (self.filter(waves) * torch.exp(-time * self.decay.abs())).t()
        y = torch.fft.irfft(torch.fft.rfft(v * b, n=2 * steps) * torch.fft.rfft(taps, n=2 * steps), n=2 * steps)[..., :steps]
        return self.last((y * a).transpose(1, 2))


entry("long_convolution", "state space", series(16, 12, 12), {"series": {0: "batch"}}, ("dynamo",))(LongConvolution)


class Experts(nn.Module):
    """Two of six experts for each token (Shazeer et al. 2017), weighted by their shares; how often each was chosen."""

    def __init__(self, width=32, inner=48, experts=6):
        super().__init__()
        self.experts, self.gate = experts, nn.Linear(width, experts, bias=False)
        self.up, self.down = nn.Parameter(torch.zeros(experts, width, inner)), nn.Parameter(torch.zeros(experts, inner, width))

    def forward(self, series):
        rows = series.flatten(0, 1)
        share, chosen = self.gate(rows).softmax(-1).topk(2, -1)
        share = share / share.sum(-1, keepdim=True)
        taken = F.one_hot(chosen, self.experts).to(share.dtype)
        weights = (taken * share[..., None]).sum(1)
        y = F.silu(torch.einsum("nd,edh->enh", rows, self.up)) @ self.down
        return torch.einsum("ne,end->nd", weights, y).reshape(series.shape), taken.sum((0, 1))


entry("top2_experts", "mixture of experts", series(32), SERIES)(Experts)


class Retention(nn.Module):
    """RetNet (Sun et al. 2023): products of all steps with decays by distance, one for each head, and a gate."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.split, self.gate, self.last, self.norm = heads, nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, width), nn.GroupNorm(heads, width)
        self.register_buffer("decay", torch.log(1 - 2.0 ** -torch.arange(3, 3 + heads, dtype=torch.float32)))

    def forward(self, series):
        batch, steps, width = series.shape
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.split(series).chunk(3, -1))
        away = (torch.arange(steps)[:, None] - torch.arange(steps)[None]).to(torch.float32)
        decay = torch.where(away >= 0, torch.exp(away.clamp(min=0) * self.decay[:, None, None]), torch.zeros_like(away))
        y = ((q @ k.transpose(-1, -2)) * decay / decay.sum(-1, keepdim=True).sqrt()) @ v
        y = self.norm(y.transpose(1, 2).reshape(batch * steps, width)).reshape(batch, steps, width)
        return self.last(F.silu(self.gate(series)) * y)


entry("retention", "state space", series(32), SERIES)(Retention)


class SpeechStep(nn.Module):
    """A step of a decoder with two caches (Whisper): its own keys and values grow, those of the encoder are given."""

    def __init__(self, width=32, heads=4, words=99):
        super().__init__()
        self.heads, self.words, self.places = heads, nn.Embedding(words, width), nn.Embedding(64, width)
        self.split, self.join, self.query, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.norms, self.wide = nn.ModuleList(nn.LayerNorm(width) for _ in range(4)), nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def heads_of(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, ids, past_key, past_value, cross_key, cross_value):
        x = self.words(ids) + self.places(past_key.shape[2] + torch.arange(ids.shape[1]))
        q, k, v = (self.heads_of(t) for t in self.split(self.norms[0](x)).chunk(3, -1))
        key, value = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
        seen = torch.arange(key.shape[2])[None] <= (past_key.shape[2] + torch.arange(ids.shape[1]))[:, None]
        scores = (q @ key.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~seen, float("-inf"))
        x = x + self.join((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))
        y = F.scaled_dot_product_attention(self.heads_of(self.query(self.norms[1](x))), cross_key, cross_value)
        x = x + self.merge(y.transpose(1, 2).flatten(2))
        x = x + self.wide(self.norms[2](x))
        return self.norms[3](x) @ self.words.weight.t(), key, value


def caches(k):
    batch, past, source, new = 3 - 2 * k, 7 + 4 * k, 20 + 11 * k, 2 - k
    feed = {"ids": torch.randint(3, 99, (batch, new))}
    return feed | {f"{n}_{v}": torch.randn((batch, 4, past if n == "past" else source, 8)) for n in ("past", "cross") for v in ("key", "value")}


entry("speech_step", "decoder with cache", caches, {"ids": {0: "batch", 1: "new"}} | {f"{n}_{v}": {0: "batch", 2: n} for n in ("past", "cross") for v in ("key", "value")},
      tools=("optimised", "dynamic", "f16"))(SpeechStep)  # of masks of -inf the quantiser makes infinite scales


class BucketStep(nn.Module):
    """A step of a decoder with positions in buckets (T5): near ones one by one, far ones by logarithms; padding of the cache masked."""

    def __init__(self, width=32, heads=4, buckets=16, most=64):
        super().__init__()
        self.heads, self.buckets, self.most = heads, buckets, most
        self.bias, self.split, self.join, self.norm = nn.Embedding(buckets, heads), nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False), nn.Parameter(torch.ones(width))

    def forward(self, x, past_key, past_value, mask):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.split(y).chunk(3, -1))
        key, value = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
        away = (key.shape[2] - x.shape[1] + torch.arange(x.shape[1]))[:, None] - torch.arange(key.shape[2])[None]
        away, exact = away.clamp(min=0), self.buckets // 2
        far = exact + (torch.log(away.clamp(min=1).to(torch.float32) / exact) / math.log(self.most / exact) * (self.buckets - exact)).to(torch.int64)
        bucket = torch.where(away < exact, away, far.clamp(max=self.buckets - 1))
        scores = q @ key.transpose(-1, -2) + self.bias(bucket).permute(2, 0, 1)
        scores = scores + (1 - mask[:, None, None].to(torch.float32)) * -1e9
        return x + self.join((scores.softmax(-1) @ value).transpose(1, 2).flatten(2)), key, value


def bucketed(k):
    batch, past, new = 3 - 2 * k, 7 + 14 * k, 2 - k
    cache = {f"past_{v}": torch.randn((batch, 4, past, 8)) for v in ("key", "value")}
    return {"x": torch.randn((batch, new, 32))} | cache | {"mask": (torch.arange(past + new)[None] >= torch.arange(batch)[:, None]).to(torch.int64)}


entry("bucket_step", "decoder with cache", bucketed, {"x": {0: "batch", 1: "new"}, "past_key": {0: "batch", 2: "past"}, "past_value": {0: "batch", 2: "past"}, "mask": {0: "batch", 1: "total"}})(BucketStep)


class GruD(nn.Module):
    """GRU-D (Che et al. 2018): values that are missing decay to their means, states decay by the time since."""

    def __init__(self, values=6, width=24):
        super().__init__()
        self.width, self.cell, self.out = width, nn.GRUCell(2 * values, width), nn.Linear(width, 2)
        self.fade, self.forget, self.mean = nn.Parameter(torch.ones(values)), nn.Linear(values, width), nn.Parameter(torch.zeros(values))

    def forward(self, values, there, since):
        state, last = torch.zeros((values.shape[0], self.width)), self.mean.expand(values.shape[0], -1)
        for i in range(values.shape[1]):
            x, m, d = values[:, i], there[:, i], since[:, i]
            keep = torch.exp(-F.relu(self.fade * d))
            last = torch.where(m, x, last)
            known = m.to(torch.float32)
            filled = known * x + (1 - known) * (keep * last + (1 - keep) * self.mean)
            state = self.cell(torch.cat([filled, known], 1), state * torch.exp(-F.relu(self.forget(d))))
        return self.out(state)


entry("gru_d", "time series", lambda k: {"values": torch.randn((1 + 2 * k, 8, 6)), "there": torch.rand((1 + 2 * k, 8, 6)) < 0.6, "since": torch.rand((1 + 2 * k, 8, 6)) * 3},
      {n: {0: "batch"} for n in ("values", "there", "since")})(GruD)


class Gated(nn.Module):
    """The gated residual network of temporal fusion transformers."""

    def __init__(self, a, b):
        super().__init__()
        self.first, self.second, self.gate, self.norm = nn.Linear(a, b), nn.Linear(b, b), nn.Linear(b, 2 * b), nn.LayerNorm(b)
        self.skip = nn.Linear(a, b) if a != b else nn.Identity()

    def forward(self, x):
        return self.norm(self.skip(x) + F.glu(self.gate(self.second(F.elu(self.first(x)))), -1))


class FusionTransformer(nn.Module):
    """Temporal fusion transformer (Lim et al. 2021): variables weighted at each step, an LSTM, attention with shared values, quantiles."""

    def __init__(self, variables=5, width=16, heads=2):
        super().__init__()
        self.heads, self.lift = heads, nn.ModuleList(nn.Linear(1, width) for _ in range(variables))
        self.each, self.weigh = nn.ModuleList(Gated(width, width) for _ in range(variables)), Gated(variables * width, variables)
        self.past, self.future = nn.LSTM(width, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        self.gate, self.norm, self.after = nn.Linear(width, 2 * width), nn.LayerNorm(width), Gated(width, width)
        self.query, self.key, self.value, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width // heads), nn.Linear(width // heads, width)
        self.quantiles = nn.Linear(width, 3)

    def chosen(self, x):
        lifted = [lift(x[..., i:i + 1]) for i, lift in enumerate(self.lift)]
        shares = self.weigh(torch.cat(lifted, -1)).softmax(-1)
        return (torch.stack([each(v) for each, v in zip(self.each, lifted)], -1) * shares[..., None, :]).sum(-1)

    def forward(self, past, future):
        a, b = self.chosen(past), self.chosen(future)
        y, state = self.past(a)
        z, _ = self.future(b, state)
        x = self.norm(F.glu(self.gate(torch.cat([y, z], 1)), -1) + torch.cat([a, b], 1))
        steps = x.shape[1]
        q, k = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key))
        hidden = torch.triu(torch.ones((steps, steps), dtype=torch.bool), 1)
        shares = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(hidden, -1e9).softmax(-1)
        mixed = self.out((shares @ self.value(x)[:, None]).mean(1))
        return self.quantiles(self.after(x + mixed)[:, past.shape[1]:]), shares.mean(1)


entry("fusion_transformer", "time series", lambda k: {"past": torch.randn((3 - 2 * k, 12 + 7 * k, 5)), "future": torch.randn((3 - 2 * k, 4 + k, 5))},
      {"past": {0: "batch", 1: "past"}, "future": {0: "batch", 1: "future"}})(FusionTransformer)


class SparseQueries(nn.Module):
    """Informer (Zhou et al. 2021): the queries that differ most from the mean attend, the others get running sums; distilled by pooling."""

    def __init__(self, width=32, heads=4, most=5):
        super().__init__()
        self.heads, self.most, self.split, self.join = heads, most, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.distil = nn.LayerNorm(width), nn.Sequential(nn.Conv1d(width, width, 3, padding=1, padding_mode="circular"), nn.BatchNorm1d(width), nn.ELU(), nn.MaxPool1d(3, 2, 1))

    def forward(self, series):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.split(series).chunk(3, -1))
        scores = q @ k[:, :, ::2].transpose(-1, -2)
        index = (scores.max(-1)[0] - scores.mean(-1)).topk(self.most, -1)[1][..., None].expand(-1, -1, -1, v.shape[-1])
        shares = (q.gather(2, index) @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        y = v.cumsum(2).scatter(2, index, shares @ v)
        x = self.norm(series + self.join(y.transpose(1, 2).flatten(2)))
        return self.distil(x.transpose(1, 2)).transpose(1, 2)


entry("sparse_queries", "time series", series(32, 12, 21), SERIES)(SparseQueries)


class Layer(nn.Module):
    """Attention of all to all and a feed-forward layer, norms in front; written out, as exporters do not know the fused one."""

    def __init__(self, width, heads=4, inner=48):
        super().__init__()
        self.heads, self.norms, self.split, self.join = heads, nn.ModuleList(nn.LayerNorm(width) for _ in range(2)), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.split(self.norms[0](x)).chunk(3, -1))
        x = x + self.join(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.wide(self.norms[1](x))


class Latents(nn.Module):
    """Perceiver (Jaegle et al. 2021): eight latents read any number of values, think, and are read by any number of queries."""

    def __init__(self, width=32, latents=8):
        super().__init__()
        self.latents, self.first, self.last = nn.Parameter(torch.zeros(latents, width)), nn.Linear(14, width), nn.Linear(width, 4)
        self.read, self.write = nn.MultiheadAttention(width, 4, batch_first=True), nn.MultiheadAttention(width, 1, batch_first=True)
        self.think = Layer(width)

    def forward(self, series, queries):
        place = torch.linspace(-1, 1, 64)[:series.shape[1], None] * math.pi * torch.arange(1, 5, dtype=torch.float32)
        place = torch.cat([place.sin(), place.cos()], -1)[None].expand(series.shape[0], -1, -1)
        x = self.first(torch.cat([series, place], -1))
        y = self.latents[None].expand(series.shape[0], -1, -1)
        y = self.think(y + self.read(y, x, x, need_weights=False)[0])
        return self.last(self.write(queries, y, y, need_weights=False)[0])


entry("latents", "encoder", lambda k: {**series(6)(k), "queries": torch.randn((3 - 2 * k, 5 + 4 * k, 32))}, {**SERIES, "queries": {0: "batch", 1: "queries"}})(Latents)
