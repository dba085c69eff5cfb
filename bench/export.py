#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes networks of the benchmark: exported from PyPI's packages with seeded random weights.

    bench/export.py OUT [NAME…]

BERT-base (transformers, batch 1, sequence 128, hidden state and pooled output), networks of torchvision at 224×224
(ViT-B/16, Swin-T, ResNet-18, MobileNetV3-L, EfficientNet-B0), and a U-Net (Ronneberger et al. 2015, with padding and
a quarter of its channels) at 256×256.
This needs the packages of requirements-export.txt and nothing of the other environment. No weights are downloaded.
Weights are normal with a standard deviation of 1/√inputs, so that attention is neither flat nor one-hot and every
part of the network counts in the outputs."""
import argparse
import math
import pathlib
import sys
import warnings

import torch


def randomise(model, seed):
    """Every parameter drawn anew in order of its name."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if p.ndim >= 2:
                embedding = "embedding" in name or "token" in name
                scale = 0.5 if embedding else 1 / math.sqrt(p[0].numel())
                p.copy_(torch.randn(p.shape, generator=generator) * scale)
            else:
                norm = name.endswith("weight")
                p.copy_(torch.randn(p.shape, generator=generator) * 0.1 + (1.0 if norm else 0.0))
    return model.eval()


def bert_base():
    from transformers import BertConfig, BertModel

    class Bert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertModel(BertConfig())

        def forward(self, input_ids, attention_mask):
            out = self.bert(input_ids=input_ids, attention_mask=attention_mask)
            return out.last_hidden_state, out.pooler_output

    ids = torch.randint(0, 30522, (1, 128), generator=torch.Generator().manual_seed(1))
    return Bert(), (ids, torch.ones((1, 128), dtype=torch.int64)), ["input_ids", "attention_mask"], ["last_hidden_state", "pooler_output"]


def image(size):
    return torch.rand((1, 3, size, size), generator=torch.Generator().manual_seed(1))


def vision(name):
    def made():
        import torchvision.models

        return getattr(torchvision.models, name)(weights=None), (image(224),), ["image"], ["logits"]

    return made


def unet():
    from torch import nn

    def block(inputs, outputs):
        layers = []
        for i in (inputs, outputs):
            layers += [nn.Conv2d(i, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        widths = [16, 32, 64, 128, 256]

        def __init__(self):
            super().__init__()
            steps = list(zip(self.widths, self.widths[1:]))
            self.first = block(3, self.widths[0])
            self.down = nn.ModuleList(block(a, b) for a, b in steps)
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(steps))
            self.join = nn.ModuleList(block(b, a) for a, b in reversed(steps))
            self.last = nn.Conv2d(self.widths[0], 2, 1)

        def forward(self, x):
            kept = [self.first(x)]
            for down in self.down:
                kept.append(down(nn.functional.max_pool2d(kept[-1], 2)))
            x = kept.pop()
            for up, join in zip(self.up, self.join):
                x = join(torch.cat([kept.pop(), up(x)], 1))
            return self.last(x)

    return UNet(), (image(256),), ["image"], ["classes"]


MODELS = {"bert_base": bert_base, "vit_b16": vision("vit_b_16"), "swin_t": vision("swin_t"), "resnet18": vision("resnet18"),
          "mobilenet_v3": vision("mobilenet_v3_large"), "efficientnet_b0": vision("efficientnet_b0"), "unet": unet}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=["bert_base", "vit_b16"], help=", ".join(MODELS))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    for name in arguments.names:
        if name not in MODELS:
            sys.exit(f"export: no model {name}; there are {', '.join(MODELS)}")
        target = arguments.out / f"{name}.onnx"
        if target.exists():
            continue
        model, inputs, input_names, output_names = MODELS[name]()
        randomise(model, 1000 + sum(name.encode()))
        temporary = target.with_suffix(".tmp")
        torch.onnx.export(model, inputs, temporary, input_names=input_names, output_names=output_names, opset_version=18,
                          dynamo=True, external_data=False, verbose=False)
        temporary.rename(target)
        print(f"wrote {target} ({target.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
