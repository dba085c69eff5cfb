# SPDX-License-Identifier: Apache-2.0
"""Architectures that nobody had in mind: timm's hybrids, a vocoder, layouts of pages, messages in graphs, separated voices."""
import timm
import torch
import transformers as hf
from torch import nn

from .entry import BATCH, BATCH_SIZE, entry, images, text_free, tokens

TIMM = {  # name → timm's name, size, are height and width free, arguments
    "edgenext": ("edgenext_xx_small", 64, True, {}),
    "hrnet": ("hrnet_w18_small", 64, True, {}),
    "eca_nfnet": ("eca_nfnet_l0", 64, True, {}),
    "levit": ("levit_128s", 224, False, {}),
    "fastvit": ("fastvit_t8", 64, True, {}),
    "davit": ("davit_tiny", 64, False, {"depths": (1, 1, 1, 1), "embed_dims": (16, 32, 48, 64), "num_heads": (2, 2, 4, 4)}),
    "coat_lite": ("coat_lite_tiny", 64, False, {"img_size": 64}),
}
for _name, (_model, _size, _free, _words) in TIMM.items():
    entry(_name, "classification", images(_size, (_size + 32, _size + 64) if _free else None), BATCH_SIZE if _free else BATCH)(
        lambda m=_model, w=_words: timm.create_model(m, pretrained=False, num_classes=20, **w))


@entry("hifigan", "speech", lambda k: {"spectrogram": torch.randn((1 + k, 20 + 9 * k, 16))}, {"spectrogram": {0: "batch", 1: "frames"}})
def hifigan():
    config = hf.SpeechT5HifiGanConfig(model_in_dim=16, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8], resblock_kernel_sizes=[3, 7],
                                      resblock_dilation_sizes=[[1, 3, 5], [1, 3, 5]])
    return hf.SpeechT5HifiGan(config), lambda m, s: m(s)


@entry("layoutlm", "encoder", lambda k: {**tokens()(k), "boxes": torch.randint(0, 200, (1 + k, 17 if k else 12, 1)).repeat(1, 1, 4)},
       {"input_ids": {0: "batch", 1: "length"}, "boxes": {0: "batch", 1: "length"}})
def layoutlm():
    config = hf.LayoutLMConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_2d_position_embeddings=256)
    return hf.LayoutLMModel(config), lambda m, i, b: m(input_ids=i, bbox=b).last_hidden_state


@entry("roformer", "encoder", tokens(), text_free("input_ids"))
def roformer():
    config = hf.RoFormerConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=64)
    return hf.RoFormerModel(config), lambda m, i: m(input_ids=i).last_hidden_state


class MessagePassing(nn.Module):
    """Two rounds of a graph network: messages along edges are added up at their ends and divided by the degree."""

    def __init__(self, width):
        super().__init__()
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))
        self.cells = nn.ModuleList(nn.GRUCell(width, width) for _ in range(2))
        self.head = nn.Linear(width, 3)

    def forward(self, nodes, edges):
        source, target = edges[0], edges[1]
        for message, cell in zip(self.messages, self.cells):
            sent = torch.relu(message(torch.cat([nodes[source], nodes[target]], dim=1)))
            taken = torch.zeros_like(nodes).index_add(0, target, sent)
            degree = torch.zeros(nodes.shape[0]).scatter_add(0, target, torch.ones(target.shape[0])).clamp(min=1)
            nodes = cell(taken / degree[:, None], nodes)
        return self.head(nodes)


@entry("message_passing", "graphs", lambda k: {"nodes": torch.randn((10 + 7 * k, 16)), "edges": torch.randint(0, 10, (2, 30 + 25 * k))}, {"nodes": {0: "nodes"}, "edges": {1: "edges"}})
def message_passing():
    return MessagePassing(16)


class Separator(nn.Module):
    """A waveform becomes a learned spectrum, masks for two speakers, and two waveforms again (as Conv-TasNet)."""

    def __init__(self, basis=32, window=16, width=24, blocks=4):
        super().__init__()
        self.encoder, self.decoder = nn.Conv1d(1, basis, window, window // 2, bias=False), nn.ConvTranspose1d(basis, 1, window, window // 2, bias=False)
        self.norm, self.bottleneck = nn.GroupNorm(1, basis), nn.Conv1d(basis, width, 1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.PReLU(), nn.GroupNorm(1, 2 * width),
                                                  nn.Conv1d(2 * width, 2 * width, 3, padding=2**b, dilation=2**b, groups=2 * width), nn.PReLU(), nn.GroupNorm(1, 2 * width),
                                                  nn.Conv1d(2 * width, width, 1)) for b in range(blocks))
        self.masks = nn.Conv1d(width, 2 * basis, 1)

    def forward(self, wave):
        spectrum = torch.relu(self.encoder(wave[:, None]))
        x = self.bottleneck(self.norm(spectrum))
        for block in self.blocks:
            x = x + block(x)
        masks = torch.sigmoid(self.masks(x)).unflatten(1, (2, spectrum.shape[1]))
        voices = (masks * spectrum[:, None]).flatten(0, 1)
        return self.decoder(voices).unflatten(0, (-1, 2)).squeeze(2)


@entry("conv_tasnet", "speech", lambda k: {"wave": torch.randn((1 + k, 800 + 400 * k))}, {"wave": {0: "batch", 1: "samples"}}, exporters=("dynamo",))
def conv_tasnet():
    return Separator()
