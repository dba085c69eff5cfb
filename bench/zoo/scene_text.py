# SPDX-License-Identifier: Apache-2.0
"""Text detectors whose boxes are decoded by loops that the data ends: scripted functions, which the exporter writes as Loop and If."""
import torch
import torchvision
from torch import nn

from .entry import entry, images


def maps(channels):
    """Maps of a quarter of the image's size, smooth, so that regions hold together."""
    return nn.Sequential(nn.Conv2d(3, 8, 5, 2, 2), nn.ReLU(), nn.Conv2d(8, 8, 5, 2, 2), nn.ReLU(), nn.AvgPool2d(3, 1, 1), nn.Conv2d(8, channels, 1))


@torch.jit.script
def merged_in_order(boxes: torch.Tensor, scores: torch.Tensor, limit: float):
    """Boxes that overlap the one before are joined with it, weighted by their scores (the local merging of EAST)."""
    kept, weights = boxes[:0], scores[:0]
    for i in range(boxes.size(0)):
        box, score = boxes[i:i + 1], scores[i:i + 1]
        join = False
        if kept.size(0) > 0:
            last = kept[-1:]
            width = torch.clamp(torch.minimum(last[:, 2], box[:, 2]) - torch.maximum(last[:, 0], box[:, 0]), min=0.0)
            height = torch.clamp(torch.minimum(last[:, 3], box[:, 3]) - torch.maximum(last[:, 1], box[:, 1]), min=0.0)
            areas = (last[:, 2] - last[:, 0]) * (last[:, 3] - last[:, 1]) + (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
            common = width * height
            join = bool((common / (areas - common) > limit).any())
        if join:
            both = weights[-1:] + score
            box = (kept[-1:] * weights[-1:, None] + box * score[:, None]) / both[:, None]
            kept, weights = torch.cat([kept[:-1], box]), torch.cat([weights[:-1], both])
        else:
            kept, weights = torch.cat([kept, box]), torch.cat([weights, score])
    return kept, weights


class Boxes(nn.Module):
    """A score and the distances of four sides at each place; boxes above a limit are merged and picked (EAST)."""

    def __init__(self):
        super().__init__()
        self.maps = maps(5)

    def forward(self, image):
        out = self.maps(image)[0]
        score, sides = torch.sigmoid(out[0]), torch.nn.functional.softplus(out[1:]) * 8
        rows, columns = torch.nonzero(score > score.mean(), as_tuple=True)
        x, y, side = columns * 4.0, rows * 4.0, sides[:, rows, columns]
        boxes = torch.stack([x - side[0], y - side[1], x + side[2], y + side[3]], 1)
        boxes, weights = merged_in_order(boxes, score[rows, columns], 0.6)
        kept = torchvision.ops.nms(boxes, weights, 0.3)
        return boxes[kept], weights[kept]


@torch.jit.script
def regions(mask: torch.Tensor):
    """A number for each place of the mask that is equal in what hangs together: the largest spreads until nothing changes."""
    height, width = mask.size(0), mask.size(1)
    numbers = torch.arange(1, height * width + 1).reshape(1, 1, height, width).float() * mask.float()
    changed = True
    while changed:
        grown = torch.nn.functional.max_pool2d(numbers, 3, 1, 1) * mask.float()
        changed = bool((grown != numbers).any())
        numbers = grown
    return numbers[0, 0]


@torch.jit.script
def boxes_of(numbers: torch.Tensor, score: torch.Tensor, least: int):
    """The box of each region of enough places, and its largest score."""
    found = torch.unique(numbers)
    boxes, scores = found[:0, None].repeat(1, 4), found[:0]
    for i in range(found.size(0)):
        if bool(found[i] > 0):
            places = torch.nonzero(numbers == found[i])
            if places.size(0) >= least:
                low, high = places.min(0)[0], places.max(0)[0]
                box = torch.stack([low[1], low[0], high[1] + 1, high[0] + 1]).float()
                boxes = torch.cat([boxes, box[None] * 4])
                best = torch.where(numbers == found[i], score, torch.zeros_like(score)).max()
                scores = torch.cat([scores, best[None]])
    return boxes, scores


class Regions(nn.Module):
    """Regions of a score and of links between them, each with its box (CRAFT)."""

    def __init__(self):
        super().__init__()
        self.maps = maps(2)

    def forward(self, image):
        score, link = torch.sigmoid(self.maps(image)[0]).unbind(0)
        mask = (score > score.mean() + score.std() / 2) & (link > link.mean() - link.std())
        return boxes_of(regions(mask), score, 2)


FREE = {"image": {2: "height", 3: "width"}}
entry("text_boxes", "text detection", images(64, (96, 80), batch=1), FREE, ("script",))(Boxes)
entry("text_regions", "text detection", images(64, (96, 80), batch=1), FREE, ("script",))(Regions)
