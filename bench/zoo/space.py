# SPDX-License-Identifier: Apache-2.0
"""Images in space and time: points matched between pictures, depth, stereo, optical flow, point clouds, rays, boxes, clips."""
import math

import torch
import transformers as hf
from torch import nn
from torch.nn import functional as F

from .entry import BATCH, BATCH_SIZE, EXACT_TOOLS, entry, images

PAIR = {n: {0: "batch", 2: "height", 3: "width"} for n in ("left", "right")}


def pair(size=32, other=(40, 56)):
    def make(k):
        height, width = other if k else (size, size)
        return {n: torch.rand((3 - 2 * k, 3, height, width)) for n in ("left", "right")}
    return make


def stack_of(*widths, stride=1):
    """Convolutions 3×3 with ReLU."""
    return nn.Sequential(*(m for a, b in zip(widths, widths[1:]) for m in (nn.Conv2d(a, b, 3, stride, 1), nn.ReLU())))


def grid_of(height, width):
    """Centres of pixels as (height, width, 2), x first."""
    y, x = torch.meshgrid(torch.arange(height, dtype=torch.float32), torch.arange(width, dtype=torch.float32), indexing="ij")
    return torch.stack([x, y], -1)


@entry("clipseg", "segmentation", lambda k: {"image": torch.rand((3 - 2 * k, 3, 32, 32)), "input_ids": torch.randint(3, 98, (3 - 2 * k, 8))}, {"image": {0: "batch"}, "input_ids": {0: "batch"}})
def clipseg():
    words = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = hf.CLIPSegConfig(text_config={**words, "vocab_size": 99, "max_position_embeddings": 16, "eos_token_id": 98}, vision_config={**words, "image_size": 32, "patch_size": 8},
                              projection_dim=24, reduce_dim=16, extract_layers=[0, 1], decoder_num_attention_heads=4, decoder_intermediate_size=32)
    return hf.CLIPSegForImageSegmentation(config), lambda m, image, ids: m(pixel_values=image, input_ids=ids).logits


@entry("depth_anything", "depth", images(56, batch=3), BATCH)
def depth_anything():
    backbone = hf.Dinov2Config(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, image_size=56, patch_size=14, out_features=["stage1", "stage2", "stage3", "stage4"],
                               reshape_hidden_states=False, apply_layernorm=True)
    config = hf.DepthAnythingConfig(backbone_config=backbone, patch_size=14, reassemble_hidden_size=32, neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16, head_hidden_size=8)
    return hf.DepthAnythingForDepthEstimation(config), lambda m, image: m(image).predicted_depth


class DeformableAttention(nn.Module):
    """Attention of queries to four places in each of two maps (Zhu et al. 2021); values between pixels by grid_sample."""

    def __init__(self, width=32, heads=4, levels=2, points=4):
        super().__init__()
        self.heads, self.levels, self.points = heads, levels, points
        self.offsets, self.weights = nn.Linear(width, heads * levels * points * 2), nn.Linear(width, heads * levels * points)
        self.value, self.out, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)
        self.first, self.smaller = nn.Conv2d(3, width, 3, 4, 1), nn.Conv2d(width, width, 3, 2, 1)

    def forward(self, image, queries, places):
        batch, count, width = queries.shape
        maps = [self.first(image)]
        maps.append(self.smaller(maps[0]))
        offsets = self.offsets(queries).reshape(batch, count, self.heads, self.levels, self.points, 2)
        weights = self.weights(queries).reshape(batch, count, self.heads, self.levels * self.points).softmax(-1)
        taken = []
        for level, x in enumerate(maps):
            height, across = x.shape[-2:]
            values = self.value(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(batch * self.heads, width // self.heads, height, across)
            scale = torch.stack([torch.as_tensor(across), torch.as_tensor(height)]).to(torch.float32)
            where = places[:, :, None, None] + offsets[:, :, :, level] / scale
            where = (2 * where - 1).transpose(1, 2).flatten(0, 1)
            taken.append(F.grid_sample(values, where, mode="bilinear", padding_mode="zeros", align_corners=False))
        weights = weights.transpose(1, 2).reshape(batch * self.heads, 1, count, self.levels * self.points)
        mixed = (torch.cat(taken, -1) * weights).sum(-1).reshape(batch, width, count).transpose(1, 2)
        return self.norm(queries + self.out(mixed))


entry("deformable_attention", "detection", lambda k: {**images(64, (72, 104), 3)(k), "queries": torch.randn((1 + 2 * k, 10 + 7 * k, 32)), "places": torch.rand((1 + 2 * k, 10 + 7 * k, 2))},
      {"image": {0: "batch", 2: "height", 3: "width"}, "queries": {0: "batch", 1: "queries"}, "places": {0: "batch", 1: "queries"}})(DeformableAttention)


class SuperPoint(nn.Module):
    """Interest points and their descriptors (DeTone et al. 2018): 64 places and "none" in each cell, peaks by max-pooling, the best 32."""

    def __init__(self):
        super().__init__()
        self.stages = nn.Sequential(stack_of(3, 16, 16), nn.MaxPool2d(2), stack_of(16, 24), nn.MaxPool2d(2), stack_of(24, 32), nn.MaxPool2d(2), stack_of(32, 32))
        self.score, self.descriptor = nn.Conv2d(32, 65, 1), nn.Conv2d(32, 48, 1)

    def forward(self, image):
        x = self.stages(image)
        scores = F.pixel_shuffle(self.score(x).softmax(1)[:, :-1], 8)
        scores = torch.where(scores == F.max_pool2d(scores, 9, 1, 4), scores, torch.zeros_like(scores))[:, 0]
        best, index = scores.flatten(1).topk(32)
        width = scores.shape[2]
        points = torch.stack([index % width, index // width], -1).to(torch.float32)
        where = (points + 0.5) / torch.stack([torch.as_tensor(width), torch.as_tensor(scores.shape[1])]).to(torch.float32) * 2 - 1
        found = F.grid_sample(F.normalize(self.descriptor(x), dim=1), where[:, None], align_corners=False)[:, :, 0]
        return points, best, F.normalize(found, dim=1)


entry("superpoint", "matching", images(64, (72, 104), 3), BATCH_SIZE, tools=EXACT_TOOLS)(SuperPoint)


class LightGlue(nn.Module):
    """Matches of two sets of points (Lindenberger et al. 2023): rotary positions, attention inside and between the sets, double softmax."""

    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.heads, self.place = heads, nn.Linear(2, width // heads // 2, bias=False)
        self.own, self.other = (nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers)) for _ in range(2))
        self.mix = nn.ModuleList(nn.Sequential(nn.Linear(2 * width, 2 * width), nn.LayerNorm(2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(2 * layers))
        self.last, self.matched = nn.Linear(width, width), nn.Linear(width, 1)

    def split(self, x):
        return (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in x.chunk(3, -1))

    @staticmethod
    def turn(x, angle):
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        sine, cosine = angle.sin(), angle.cos()
        return torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)

    def forward(self, places_0, words_0, places_1, words_1):
        angles = [self.place(p)[:, None] for p in (places_0, places_1)]
        xs = [words_0, words_1]
        for i, (own, other) in enumerate(zip(self.own, self.other)):
            for s in (0, 1):
                q, k, v = self.split(own(xs[s]))
                y = F.scaled_dot_product_attention(self.turn(q, angles[s]), self.turn(k, angles[s]), v).transpose(1, 2).flatten(2)
                xs[s] = xs[s] + self.mix[2 * i](torch.cat([xs[s], y], -1))
            parts = [list(self.split(other(x))) for x in xs]
            alike = parts[0][0] @ parts[1][1].transpose(-1, -2) / math.sqrt(parts[0][0].shape[-1])
            taken = [alike.softmax(-1) @ parts[1][2], alike.transpose(-1, -2).softmax(-1) @ parts[0][2]]
            xs = [x + self.mix[2 * i + 1](torch.cat([x, t.transpose(1, 2).flatten(2)], -1)) for x, t in zip(xs, taken)]
        alike = self.last(xs[0]) @ self.last(xs[1]).transpose(1, 2)
        sure = F.logsigmoid(self.matched(xs[0])) + F.logsigmoid(self.matched(xs[1])).transpose(1, 2)
        scores = alike.log_softmax(2) + alike.log_softmax(1) + sure
        best = scores.argmax(2)
        return scores, torch.where(scores.argmax(1).gather(1, best) == torch.arange(scores.shape[1])[None], best, -torch.ones_like(best))


entry("lightglue", "matching", lambda k: {f"{n}_{s}": torch.randn((1 + 2 * k, 12 + 9 * k + 5 * s, 2 if n == "places" else 32)) for s in (0, 1) for n in ("places", "words")},
      {f"{n}_{s}": {0: "batch", 1: f"points_{s}"} for s in (0, 1) for n in ("places", "words")}, tools=EXACT_TOOLS)(LightGlue)


class Loftr(nn.Module):
    """Coarse matching (Sun et al. 2021): linear attention between two maps with sines of positions, mutual best ones above a threshold."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.features = heads, stack_of(3, 16, width, width, stride=2)
        self.query, self.key, self.value, self.join = (nn.ModuleList(nn.Linear(width, width) for _ in range(2)) for _ in range(4))
        self.mix = nn.ModuleList(nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width), nn.LayerNorm(width)) for _ in range(2))
        self.register_buffer("rates", torch.exp(torch.arange(0, width // 2, 2, dtype=torch.float32) * (-math.log(10000.0) / (width // 2)))[:, None, None])

    def attend(self, i, x, source):
        q, k, v = (f[i](s).unflatten(-1, (self.heads, -1)) for f, s in ((self.query, x), (self.key, source), (self.value, source)))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = torch.einsum("bshd,bshv->bhdv", k, v)
        near = 1 / (torch.einsum("blhd,bhd->blh", q, k.sum(1)) + 1e-6)
        y = torch.einsum("blhd,bhdv,blh->blhv", q, sums, near).flatten(2)
        return x + self.mix[i](torch.cat([x, self.join[i](y)], -1))

    def maps(self, image):
        x = self.features(image)
        places = grid_of(x.shape[2], x.shape[3])
        across, down = places[None, ..., 0] * self.rates, places[None, ..., 1] * self.rates
        x = x + torch.stack([across.sin(), across.cos(), down.sin(), down.cos()], 1).flatten(0, 1)
        return x.flatten(2).transpose(1, 2)

    def forward(self, left, right):
        a, b = self.maps(left), self.maps(right)
        a, b = self.attend(0, a, a), self.attend(0, b, b)
        a, b = self.attend(1, a, b), self.attend(1, b, a)
        alike = torch.einsum("nlc,nsc->nls", a, b) / a.shape[-1]
        sure = alike.softmax(1) * alike.softmax(2)
        mutual = (sure == sure.max(2, keepdim=True)[0]) & (sure == sure.max(1, keepdim=True)[0])
        return sure, (mutual & (sure > 1e-4)).sum((1, 2)), sure.max(2)[0]


entry("loftr_coarse", "matching", pair(), PAIR, tools=EXACT_TOOLS)(Loftr)


def neighbours(x, points, count):
    """Values of x (batch, points, width) at the `count` nearest points of each: (batch, points, count, width)."""
    squares = (points * points).sum(-1)
    away = squares[:, :, None] + squares[:, None] - 2 * points @ points.transpose(1, 2)
    index = away.topk(count, dim=-1, largest=False)[1]
    return torch.gather(x[:, None].expand(-1, x.shape[1], -1, -1), 2, index[..., None].expand(-1, -1, -1, x.shape[2]))


class EdgeConvolutions(nn.Module):
    """A point cloud's class (Wang et al. 2019): edges to the eight nearest neighbours, found anew in each layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(2 * a, b), nn.LeakyReLU(0.2), nn.Linear(b, b)) for a, b in ((3, 24), (24, 32)))
        self.out = nn.Sequential(nn.Linear(112, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, points):
        x, kept = points, []
        for layer in self.layers:
            near = neighbours(x, x, 8)
            x = layer(torch.cat([near - x[:, :, None], x[:, :, None].expand(-1, -1, 8, -1)], -1)).max(2)[0]
            kept.append(x)
        x = torch.cat(kept, -1)
        return self.out(torch.cat([x.max(1)[0], x.mean(1)], -1))


entry("edge_convolutions", "point clouds", lambda k: {"points": torch.randn((1 + 2 * k, 40 + 23 * k, 3))}, {"points": {0: "batch", 1: "points"}})(EdgeConvolutions)


class PointSets(nn.Module):
    """A level of PointNet++ (Qi et al. 2017): the farthest of the points, balls around them by sorting, maxima of each."""

    def __init__(self, centres=8, radius=0.9, most=12):
        super().__init__()
        self.centres, self.radius, self.most = centres, radius, most
        self.layers, self.out = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 32), nn.ReLU()), nn.Linear(32, 10)

    def forward(self, points):
        away, chosen = torch.full_like(points[:, :, 0], 1e10), points[:, :1]
        centres = [chosen]
        for _ in range(self.centres - 1):
            away = torch.minimum(away, ((points - chosen) ** 2).sum(-1))
            chosen = torch.gather(points, 1, away.argmax(1)[:, None, None].expand(-1, 1, 3))
            centres.append(chosen)
        centres = torch.cat(centres, 1)
        count = points.shape[1]
        index = torch.arange(count)[None, None].expand(points.shape[0], self.centres, count)
        outside = ((points[:, None] - centres[:, :, None]) ** 2).sum(-1) > self.radius**2
        index = torch.where(outside, torch.full_like(index, count), index).sort(-1)[0][..., :self.most]
        index = torch.where(index == count, index[..., :1].expand(-1, -1, self.most), index)
        ball = torch.gather(points[:, None].expand(-1, self.centres, -1, -1), 2, index[..., None].expand(-1, -1, -1, 3))
        return self.out(self.layers(torch.cat([ball - centres[:, :, None], ball], -1)).max(2)[0].max(1)[0])


entry("point_sets", "point clouds", lambda k: {"points": torch.randn((1 + 2 * k, 40 + 23 * k, 3))}, {"points": {0: "batch", 1: "points"}})(PointSets)


class RadianceField(nn.Module):
    """NeRF (Mildenhall et al. 2020): sines of places along rays, a network with a skip, colours summed by what light gets through."""

    def __init__(self, samples=24, width=64):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(39, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.second, self.density = nn.Sequential(nn.Linear(width + 39, width), nn.ReLU()), nn.Linear(width, 1)
        self.colour = nn.Sequential(nn.Linear(width + 27, 32), nn.ReLU(), nn.Linear(32, 3), nn.Sigmoid())
        self.register_buffer("depths", torch.linspace(2, 6, samples))

    @staticmethod
    def waves(x, rates):
        scaled = x[..., None, :] * 2.0 ** torch.arange(rates, dtype=torch.float32)[:, None]
        return torch.cat([x, scaled.sin().flatten(-2), scaled.cos().flatten(-2)], -1)

    def forward(self, origins, directions):
        places = origins[:, None] + directions[:, None] * self.depths[:, None]
        x = self.waves(places, 6)
        y = self.second(torch.cat([self.first(x), x], -1))
        view = self.waves(F.normalize(directions, dim=-1), 4)[:, None].expand(-1, y.shape[1], -1)
        opaque = F.softplus(self.density(y))[..., 0] * (self.depths[1] - self.depths[0])
        reached = torch.exp(-(torch.cumsum(opaque, -1) - opaque))
        share = reached * (1 - torch.exp(-opaque))
        return (share[..., None] * self.colour(torch.cat([y, view], -1))).sum(1), (share * self.depths).sum(-1), share.sum(-1)


entry("radiance_field", "rays", lambda k: {n: torch.randn((16 + 47 * k, 3)) for n in ("origins", "directions")}, {n: {0: "rays"} for n in ("origins", "directions")})(RadianceField)


class ShiftedClip(nn.Module):
    """TSM (Lin et al. 2019): an eighth of the channels comes from the frame before, one from the frame behind."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.out = nn.Conv2d(3, width, 3, 2, 1), nn.Linear(width, 6)
        self.layers = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()) for _ in range(3))

    def forward(self, clip):
        batch, frames = clip.shape[:2]
        x = self.first(clip.flatten(0, 1))
        for layer in self.layers:
            y = x.unflatten(0, (batch, frames))
            before, behind, rest = y.split([4, 4, y.shape[2] - 8], 2)
            before = torch.cat([before[:, 1:], torch.zeros_like(before[:, :1])], 1)
            behind = torch.cat([torch.zeros_like(behind[:, :1]), behind[:, :-1]], 1)
            x = x + layer(torch.cat([before, behind, rest], 2).flatten(0, 1))
        return self.out(x.mean((2, 3)).unflatten(0, (batch, frames)).mean(1))


entry("shifted_clip", "video", lambda k: {"clip": torch.rand((1 + 2 * k, 4 + k, 3, 32 + 8 * k, 32 - 4 * k))}, {"clip": {0: "batch", 1: "frames", 3: "height", 4: "width"}})(ShiftedClip)
