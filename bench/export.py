#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes networks of the benchmark: exported from PyPI's packages with seeded random weights.

    bench/export.py OUT [NAME…] [--free AXIS…]

BERT-base (transformers, batch 1, sequence 128, hidden state and pooled output), networks of torchvision and timm at
224×224 (Inception-v3 at 299, MobileViT at 256, DeepLabV3 at 256), a U-Net (Ronneberger et al. 2015, with padding and
a quarter of its channels) at 256×256, a small YOLO-like detector at 640×640, NAFNet at 128×128, a MiniLM-like encoder, GPT-2 over 128
tokens, the encoder of wav2vec 2.0 over a second of sound, a temporal convolution network and two LSTM layers.
With --free the sizes of these axes of every input are free, and the file is NAME_free.onnx: `--free 0` for a batch of
any size, `--free 0 2 3` for images of any size, too (bench/symbolic.py takes such files and the sizes to time).
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

    ids = tokens(30522)
    return Bert(), (ids, torch.ones((1, 128), dtype=torch.int64)), ["input_ids", "attention_mask"], ["last_hidden_state", "pooler_output"]


def image(size):
    return torch.rand((1, 3, size, size), generator=torch.Generator().manual_seed(1))


def vision(name, size=224, **words):
    def made():
        import torchvision.models

        return getattr(torchvision.models, name)(weights=None, **words), (image(size),), ["image"], ["logits"]

    return made


def timm_vision(name, size=224):
    def made():
        import timm

        return timm.create_model(name, exportable=True), (image(size),), ["image"], ["logits"]

    return made


def deeplab():
    """The classes of every pixel, without the dictionary around them."""
    from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large

    class Classes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)

        def forward(self, x):
            return self.network(x)["out"]

    return Classes(), (image(256),), ["image"], ["classes"]


def tokens(words):
    return torch.randint(0, words, (1, 128), generator=torch.Generator().manual_seed(1))


class LastHidden(torch.nn.Module):
    """The hidden state of a model of transformers behind its last layer."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).last_hidden_state


def minilm():
    """Six layers of 384: one sentence of 128 tokens."""
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    return LastHidden(BertModel(config)), (tokens(30522),), ["input_ids"], ["last_hidden_state"]


def gpt2():
    """The prompt's pass, without the words' scores (a product of 50257 columns would be a third of the time)."""
    from transformers import GPT2Config, GPT2Model

    model = GPT2Model(GPT2Config(use_cache=False, attn_implementation="eager"))
    return LastHidden(model), (tokens(30522),), ["input_ids"], ["last_hidden_state"]


def wav2vec2():
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    model = Wav2Vec2Model(Wav2Vec2Config(num_hidden_layers=6, attn_implementation="eager"))
    sound = torch.rand((1, 16000), generator=torch.Generator().manual_seed(1))
    return LastHidden(model), (sound,), ["sound"], ["last_hidden_state"]


def tcn():
    """Dilated causal convolutions over 512 steps (Bai et al. 2018)."""
    from torch import nn

    class Step(nn.Module):
        def __init__(self, inputs, outputs, dilation):
            super().__init__()
            self.past = 2 * dilation
            self.first, self.second = (nn.Conv1d(i, outputs, 3, dilation=dilation) for i in (inputs, outputs))
            self.same = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

        def forward(self, x):
            y = x
            for conv in (self.first, self.second):
                y = conv(nn.functional.pad(y, (self.past, 0))).relu()
            return (y + self.same(x)).relu()

    class Temporal(nn.Module):
        def __init__(self, inputs=32, width=128, levels=8):
            super().__init__()
            self.steps = nn.Sequential(*(Step(width if i else inputs, width, 2**i) for i in range(levels)))
            self.last = nn.Conv1d(width, 10, 1)

        def forward(self, x):
            return self.last(self.steps(x))

    series = torch.rand((1, 32, 512), generator=torch.Generator().manual_seed(1))
    return Temporal(), (series,), ["series"], ["classes"]


def lstm():
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.last = nn.LSTM(128, 256, 2, batch_first=True), nn.Linear(256, 40)

        def forward(self, x):
            return self.last(self.layers(x)[0])

    series = torch.rand((1, 100, 128), generator=torch.Generator().manual_seed(1))
    return Recurrent(), (series,), ["series"], ["classes"]


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


def nafnet():
    """The image restoration network of the zoo at 128×128."""
    from zoo.deployed import NafNet

    return NafNet(channels=16, levels=3), (image(128),), ["image"], ["restored"]


def yolo():
    """The blocks of a small one-stage detector at 640×640: cross-stage partial bottlenecks, pooling at three scales, two ways
    between the maps, and heads whose boxes are expectations over 16 distances."""
    from torch import nn

    distances, classes = 16, 80

    def conv(inputs, outputs, kernel=1, stride=1):
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())

    class Partial(nn.Module):
        def __init__(self, inputs, outputs, repeats, shortcut):
            super().__init__()
            half = outputs // 2
            self.shortcut, self.first = shortcut, conv(inputs, outputs)
            self.steps = nn.ModuleList(nn.Sequential(conv(half, half, 3), conv(half, half, 3)) for _ in range(repeats))
            self.last = conv((2 + repeats) * half, outputs)

        def forward(self, x):
            parts = list(self.first(x).chunk(2, 1))
            for step in self.steps:
                parts.append(step(parts[-1]) + parts[-1] if self.shortcut else step(parts[-1]))
            return self.last(torch.cat(parts, 1))

    class Pools(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.first, self.last = conv(channels, channels // 2), conv(channels * 2, channels)

        def forward(self, x):
            parts = [self.first(x)]
            for _ in range(3):
                parts.append(nn.functional.max_pool2d(parts[-1], 5, 1, 2))
            return self.last(torch.cat(parts, 1))

    class Yolo(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), Partial(32, 32, 1, True))
            self.down = nn.ModuleList([nn.Sequential(conv(a, 2 * a, 3, 2), Partial(2 * a, 2 * a, n, True)) for a, n in ((32, 2), (64, 2), (128, 1))])
            self.pools = Pools(256)
            self.up = nn.ModuleList([Partial(256 + 128, 128, 1, False), Partial(128 + 64, 64, 1, False)])
            self.halve = nn.ModuleList([conv(64, 64, 3, 2), conv(128, 128, 3, 2)])
            self.join = nn.ModuleList([Partial(64 + 128, 128, 1, False), Partial(128 + 256, 256, 1, False)])
            self.boxes = nn.ModuleList(nn.Sequential(conv(c, 64, 3), conv(64, 64, 3), nn.Conv2d(64, 4 * distances, 1)) for c in (64, 128, 256))
            self.scores = nn.ModuleList(nn.Sequential(conv(c, classes, 3), conv(classes, classes, 3), nn.Conv2d(classes, classes, 1)) for c in (64, 128, 256))

        def forward(self, x):
            maps = [self.stem(x)]
            for down in self.down:
                maps.append(down(maps[-1]))
            small, middle, large = maps[1], maps[2], self.pools(maps[3])
            middle = self.up[0](torch.cat([nn.functional.interpolate(large, scale_factor=2.0), middle], 1))
            small = self.up[1](torch.cat([nn.functional.interpolate(middle, scale_factor=2.0), small], 1))
            middle = self.join[0](torch.cat([self.halve[0](small), middle], 1))
            large = self.join[1](torch.cat([self.halve[1](middle), large], 1))
            boxes = torch.cat([head(m).flatten(2) for head, m in zip(self.boxes, (small, middle, large))], 2)
            scores = torch.cat([head(m).flatten(2) for head, m in zip(self.scores, (small, middle, large))], 2)
            shares = boxes.reshape(1, 4, distances, -1).softmax(2)
            reach = (shares * torch.arange(distances, dtype=torch.float32).reshape(1, 1, distances, 1)).sum(2)
            return torch.cat([reach, scores.sigmoid()], 1)

    return Yolo(), (image(640),), ["image"], ["detections"]


MODELS = {"bert_base": bert_base, "vit_b16": vision("vit_b_16"), "swin_t": vision("swin_t"), "resnet18": vision("resnet18"),
          "mobilenet_v3": vision("mobilenet_v3_large"), "efficientnet_b0": vision("efficientnet_b0"), "unet": unet, "yolo": yolo,
          "shufflenet_v2": vision("shufflenet_v2_x1_0"), "densenet121_224": vision("densenet121"), "squeezenet1_1": vision("squeezenet1_1"),
          "convnext_t": vision("convnext_tiny"), "regnet_y": vision("regnet_y_400mf"), "mnasnet": vision("mnasnet1_0"),
          "googlenet": vision("googlenet", aux_logits=False, init_weights=False),
          "inception_v3": vision("inception_v3", 299, aux_logits=False, init_weights=False), "resnext50": vision("resnext50_32x4d"),
          "deit_tiny": timm_vision("deit_tiny_patch16_224"), "mobilevit_s": timm_vision("mobilevit_s", 256),
          "ghostnet": timm_vision("ghostnet_100"), "efficientformer_l1": timm_vision("efficientformer_l1"), "mobilenet_v1": timm_vision("mobilenetv1_100"),
          "pvt_v2": timm_vision("pvt_v2_b0"), "mobilenet_v4": timm_vision("mobilenetv4_conv_small"), "fasternet": timm_vision("fasternet_t0"),
          "efficientvit": timm_vision("efficientvit_b0"), "convnext_v2": timm_vision("convnextv2_atto"), "rexnet": timm_vision("rexnet_100"),
          "hgnet_v2": timm_vision("hgnetv2_b0"), "tiny_vit": timm_vision("tiny_vit_5m_224"), "nafnet": nafnet,
          "repvgg_a0": timm_vision("repvgg_a0"), "dla34": timm_vision("dla34"), "res2net50": timm_vision("res2net50_14w_8s"),
          "hrnet_w18s": timm_vision("hrnet_w18_small"), "resmlp_12": timm_vision("resmlp_12_224"),
          "poolformer_s12": timm_vision("poolformer_s12"), "xcit_nano": timm_vision("xcit_nano_12_p16_224"),
          "coatnet_nano": timm_vision("coatnet_nano_rw_224"), "maxvit_nano": timm_vision("maxvit_nano_rw_256", 256),
          "edgenext_xs": timm_vision("edgenext_x_small", 256), "cspdarknet53": timm_vision("cspdarknet53", 256),
          "vovnet19b_dw": timm_vision("ese_vovnet19b_dw"), "efficientnetv2_b0": timm_vision("tf_efficientnetv2_b0"),
          "levit_128s": timm_vision("levit_128s"), "selecsls42b": timm_vision("selecsls42b"), "lcnet_100": timm_vision("lcnet_100"),
          "tinynet_a": timm_vision("tinynet_a", 192), "mobilevitv2_050": timm_vision("mobilevitv2_050", 256),
          "crossvit_9": timm_vision("crossvit_9_240", 240), "mixnet_s": timm_vision("mixnet_s"),
          "nf_regnet_b1": timm_vision("nf_regnet_b1", 240), "visformer_tiny": timm_vision("visformer_tiny"),
          "inception_next_a": timm_vision("inception_next_atto"), "dpn48b": timm_vision("dpn48b"),
          "skresnet18": timm_vision("skresnet18"), "ghostnet_v2": timm_vision("ghostnetv2_100"), "fbnet_c": timm_vision("fbnetc_100"),
          "regnetx_004": timm_vision("regnetx_004"), "effnet_lite0": timm_vision("efficientnet_lite0"),
          "mobileone_s0": timm_vision("mobileone_s0"), "pit_ti": timm_vision("pit_ti_224"), "resnest14d": timm_vision("resnest14d"),
          "cspresnet50": timm_vision("cspresnet50", 256), "xception41": timm_vision("xception41", 299),
          "mobilenetv3_small": timm_vision("mobilenetv3_small_100"), "convmixer": timm_vision("convmixer_768_32"),
          "gernet_s": timm_vision("gernet_s"), "mnasnet_small": timm_vision("mnasnet_small"), "eca_nfnet_l0": timm_vision("eca_nfnet_l0"),
          "deeplab_mobilenet": deeplab, "minilm": minilm, "gpt2": gpt2, "wav2vec2": wav2vec2, "tcn": tcn, "lstm": lstm}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=["bert_base", "vit_b16"], help=", ".join(MODELS))
    parser.add_argument("--free", type=int, nargs="+", default=[], metavar="AXIS", help="axes of inputs whose sizes are free")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    for name in arguments.names:
        if name not in MODELS:
            sys.exit(f"export: no model {name}; there are {', '.join(MODELS)}")
        target = arguments.out / f"{name}{'_free' if arguments.free else ''}.onnx"
        if target.exists():
            continue
        model, inputs, input_names, output_names = MODELS[name]()
        randomise(model, 1000 + sum(name.encode()))
        sizes = None
        if arguments.free:  # an example of one image would be a batch of always one
            inputs = tuple(x.repeat([2, *[1] * (x.ndim - 1)]) if 0 in arguments.free else x for x in inputs)
            sizes = tuple({a: torch.export.Dim.DYNAMIC for a in arguments.free if a < x.ndim} for x in inputs)
        temporary = target.with_suffix(".tmp")
        torch.onnx.export(model, inputs, temporary, input_names=input_names, output_names=output_names, opset_version=18,
                          dynamo=True, external_data=False, verbose=False, dynamic_shapes=sizes)
        temporary.rename(target)
        print(f"wrote {target} ({target.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
