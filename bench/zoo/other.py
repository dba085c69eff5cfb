# SPDX-License-Identifier: Apache-2.0
"""Speech, image and text, DETR and SAM, diffusion blocks, recurrent and time-series networks."""
import torch
import transformers as hf
from torch import nn

from .entry import BATCH, BATCH_SIZE, entry, images

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
CONVS = {"conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}


def wave(k):
    return {"wave": torch.randn((1, 800) if k == 0 else (2, 1200))}


WAVES = {
    "wav2vec2": lambda: hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**SMALL, **CONVS, vocab_size=30)),
    "hubert": lambda: hf.HubertForCTC(hf.HubertConfig(**SMALL, **CONVS, vocab_size=30)),
    "wavlm": lambda: hf.WavLMForCTC(hf.WavLMConfig(**SMALL, **CONVS, vocab_size=30, num_buckets=20)),
    "sew": lambda: hf.SEWForCTC(hf.SEWConfig(**SMALL, **CONVS, vocab_size=30)),
    "data2vec_audio": lambda: hf.Data2VecAudioForCTC(hf.Data2VecAudioConfig(**SMALL, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), vocab_size=30,
                                                                            num_conv_pos_embeddings=2, num_conv_pos_embedding_groups=4)),
}
for _name, _make in WAVES.items():
    entry(_name, "speech", wave, {"wave": {0: "batch", 1: "samples"}})(lambda m=_make: (m(), lambda module, x: module(x).logits))


@entry("whisper", "speech", lambda k: {"features": torch.randn((1 + k, 20, 64)), "decoder_input_ids": torch.randint(3, 99, (1 + k, 6 + 3 * k))},
       {"features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "target"}})
def whisper():
    config = hf.WhisperConfig(vocab_size=99, num_mel_bins=20, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                              encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=32, max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                              decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)
    return hf.WhisperForConditionalGeneration(config), lambda m, f, d: m(input_features=f, decoder_input_ids=d, use_cache=False).logits


@entry("ast", "speech", lambda k: {"features": torch.randn((1 + k, 64, 32))}, {"features": {0: "batch"}})
def ast():
    return hf.ASTForAudioClassification(hf.ASTConfig(**SMALL, max_length=64, num_mel_bins=32)), lambda m, f: m(f).logits


class Conformer(nn.Module):
    """One block: half a feed-forward layer, attention, a gated depthwise convolution, the other half."""

    def __init__(self, width=32):
        super().__init__()
        def forward_layer():
            return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 48), nn.SiLU(), nn.Linear(48, width))
        self.first, self.second = forward_layer(), forward_layer()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
        self.wide, self.depthwise, self.batch = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 7, padding=3, groups=width), nn.BatchNorm1d(width)
        self.narrow, self.last = nn.Conv1d(width, width, 1), nn.LayerNorm(width)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        n = self.norm(x)
        x = x + self.attention(n, n, n, need_weights=False)[0]
        y = nn.functional.glu(self.wide(x.transpose(1, 2)), 1)
        x = x + self.narrow(nn.functional.silu(self.batch(self.depthwise(y)))).transpose(1, 2)
        return self.last(x + 0.5 * self.second(x))


entry("conformer", "speech", lambda k: {"features": torch.randn((1 + k, 20 + 7 * k, 32))}, {"features": {0: "batch", 1: "frames"}})(Conformer)


VISION = {"image_size": 32, "patch_size": 8, **SMALL}


def picture_text(size=32):
    def make(k):
        return {"image": torch.rand((1 + k, 3, size, size)), "input_ids": torch.randint(3, 98, (1 + k, 8)), "attention_mask": torch.ones((1 + k, 8), dtype=torch.int64)}
    return make, {"image": {0: "batch"}, "input_ids": {0: "batch"}, "attention_mask": {0: "batch"}}


TEXT = {**SMALL, "vocab_size": 99, "max_position_embeddings": 16}
_inputs, _free = picture_text()


@entry("clip", "image and text", _inputs, _free)
def clip():
    return hf.CLIPModel(hf.CLIPConfig(text_config={**TEXT, "eos_token_id": 98}, vision_config=VISION, projection_dim=16)), \
        lambda m, p, i, a: [(o := m(input_ids=i, pixel_values=p, attention_mask=a)).logits_per_image, o.text_embeds, o.image_embeds]


@entry("siglip", "image and text", _inputs, _free)
def siglip():
    return hf.SiglipModel(hf.SiglipConfig(text_config=TEXT, vision_config=VISION)), lambda m, p, i, a: m(input_ids=i, pixel_values=p, attention_mask=a).logits_per_image


@entry("vilt", "image and text", _inputs, _free)
def vilt():
    return hf.ViltModel(hf.ViltConfig(**VISION, vocab_size=99)), lambda m, p, i, a: m(input_ids=i, pixel_values=p, attention_mask=a).last_hidden_state


@entry("owlvit", "image and text", _inputs, _free)
def owlvit():
    return hf.OwlViTModel(hf.OwlViTConfig(text_config=TEXT, vision_config=VISION, projection_dim=16)), \
        lambda m, p, i, a: m(input_ids=i, pixel_values=p, attention_mask=a).logits_per_image


@entry("sam", "segmentation", lambda k: {"image": torch.rand((1, 3, 64, 64)), "points": torch.rand((1, 1, 1 + k, 2)) * 60, "labels": torch.ones((1, 1, 1 + k), dtype=torch.int64)},
       {"points": {2: "points"}, "labels": {2: "points"}})
def sam():
    config = hf.SamConfig(vision_config={**SMALL, "image_size": 64, "patch_size": 16, "output_channels": 16, "window_size": 2, "global_attn_indexes": [1], "mlp_dim": 48,
                                         "num_pos_feats": 8},
                          prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4},
                          mask_decoder_config={"hidden_size": 16, "mlp_dim": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "iou_head_hidden_dim": 16})
    return hf.SamModel(config), lambda m, p, q, l: [(o := m(pixel_values=p, input_points=q, input_labels=l)).iou_scores, o.pred_masks]


def _backbone():
    return hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 32, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"])


@entry("detr", "detection", images(64, (96, 80)), BATCH_SIZE)
def detr():
    config = hf.DetrConfig(use_timm_backbone=False, backbone_config=_backbone(), backbone=None, use_pretrained_backbone=False, d_model=32, encoder_layers=1, decoder_layers=1,
                           encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_queries=10, num_labels=4)
    return hf.DetrForObjectDetection(config), lambda m, p: [(o := m(pixel_values=p)).logits, o.pred_boxes]


@entry("rt_detr", "detection", images(64), BATCH)
def rt_detr():
    backbone = hf.RTDetrResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 32, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage2", "stage3", "stage4"])
    config = hf.RTDetrConfig(backbone_config=backbone, backbone=None, use_timm_backbone=False, encoder_hidden_dim=32, encoder_in_channels=[32, 32, 32], encoder_layers=1, encoder_ffn_dim=48,
                             encoder_attention_heads=4, d_model=32, num_queries=10, decoder_in_channels=[32, 32, 32], decoder_ffn_dim=48, decoder_layers=1,
                             decoder_attention_heads=4, num_labels=4, anchor_image_size=None)
    return hf.RTDetrForObjectDetection(config), lambda m, p: [(o := m(pixel_values=p)).logits, o.pred_boxes]


@entry("yolos", "detection", images(64), BATCH)
def yolos():
    return hf.YolosForObjectDetection(hf.YolosConfig(**{**VISION, "image_size": [64, 64], "patch_size": 16}, num_detection_tokens=6, num_labels=4)), \
        lambda m, p: [(o := m(pixel_values=p)).logits, o.pred_boxes]


@entry("segformer", "segmentation", images(64, (96, 128)), BATCH_SIZE)
def segformer():
    return hf.SegformerForSemanticSegmentation(hf.SegformerConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16,
                                                                  num_labels=5)), lambda m, p: m(pixel_values=p).logits


@entry("mask2former_like_dpt", "segmentation", images(64), BATCH)
def dpt():
    config = hf.DPTConfig(**{**VISION, "image_size": 64, "patch_size": 16, "num_hidden_layers": 4}, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 16, 16],
                          fusion_hidden_size=16, is_hybrid=False)
    return hf.DPTForDepthEstimation(config), lambda m, p: m(pixel_values=p).predicted_depth


@entry("videomae", "video", lambda k: {"clip": torch.rand((1 + k, 4, 3, 32, 32))}, {"clip": {0: "batch"}})
def videomae():
    return hf.VideoMAEForVideoClassification(hf.VideoMAEConfig(**VISION, num_frames=4, tubelet_size=2)), lambda m, c: m(c).logits


@entry("dinov2", "classification", images(56, (70, 84)), BATCH_SIZE)
def dinov2():
    return hf.Dinov2Model(hf.Dinov2Config(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=56, patch_size=14)), lambda m, p: m(p).last_hidden_state


class CrossBlock(nn.Module):
    """A residual block with a time embedding, self and cross attention, as in latent diffusion."""

    def __init__(self, channels):
        super().__init__()
        self.norm_a, self.conv_a = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.norm_b, self.conv_b = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.time, self.norm = nn.Linear(32, channels), nn.LayerNorm(channels)
        self.own, self.cross = (nn.MultiheadAttention(channels, 4, batch_first=True, kdim=d, vdim=d) for d in (channels, 24))
        self.gate = nn.Linear(channels, 4 * channels)
        self.out = nn.Linear(2 * channels, channels)

    def forward(self, x, t, text):
        h = self.conv_a(nn.functional.silu(self.norm_a(x))) + self.time(t)[:, :, None, None]
        x = x + self.conv_b(nn.functional.silu(self.norm_b(h)))
        b, c, height, width = x.shape
        y = x.flatten(2).transpose(1, 2)
        n = self.norm(y)
        y = y + self.own(n, n, n, need_weights=False)[0]
        y = y + self.cross(self.norm(y), text, text, need_weights=False)[0]
        a, g = self.gate(y).chunk(2, -1)
        y = y + self.out(a * nn.functional.gelu(g))
        return y.transpose(1, 2).reshape(b, c, height, width)


class Diffusion(nn.Module):
    """Sinusoidal time, two levels with cross attention, nearest upsampling and joined channels."""

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first, self.a = nn.Conv2d(4, 16, 3, padding=1), CrossBlock(16)
        self.down, self.b = nn.Conv2d(16, 32, 3, 2, 1), CrossBlock(32)
        self.up, self.c, self.last = nn.Conv2d(32, 16, 3, padding=1), CrossBlock(32), nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, x, t, text):
        angles = t[:, None].float() * torch.exp(-torch.arange(8) / 2)
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        a = self.a(self.first(x), time, text)
        b = self.b(self.down(a), time, text)
        up = self.up(nn.functional.interpolate(b, scale_factor=2.0, mode="nearest"))
        return self.last(self.c(torch.cat([up, a], 1), time, text))


entry("diffusion_unet", "diffusion", lambda k: {"latent": torch.randn((1 + k, 4, 16, 16 + 8 * k)), "time": torch.randint(0, 1000, (1 + k,)), "text": torch.randn((1 + k, 5 + 2 * k, 24))},
      {"latent": {0: "batch", 2: "height", 3: "width"}, "time": {0: "batch"}, "text": {0: "batch", 1: "words"}})(Diffusion)


class Decoder(nn.Module):
    """Half of a variational autoencoder: group norms, attention, nearest upsampling."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.attention = nn.Conv2d(4, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.MultiheadAttention(32, 1, batch_first=True)
        self.ups = nn.ModuleList([nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(32, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.SiLU()) for _ in range(2)])
        self.last = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, z):
        x = self.first(z)
        y = self.norm(x).flatten(2).transpose(1, 2)
        x = x + self.attention(y, y, y, need_weights=False)[0].transpose(1, 2).reshape(x.shape)
        for up in self.ups:
            x = up(x)
        return self.last(x).tanh()


entry("vae_decoder", "diffusion", images(8, (12, 10), channels=4, name="latent"), {"latent": {0: "batch", 2: "height", 3: "width"}})(Decoder)


def series(features=6, steps=10, other=15, name="series"):
    return lambda k: {name: torch.randn((1, steps, features) if k == 0 else (2, other, features))}, {name: {0: "batch", 1: "steps"}}


class Recurrent(nn.Module):
    """Layers of one recurrent kind and a head on the last step."""

    def __init__(self, kind, **words):
        super().__init__()
        self.layers = kind(6, 16, batch_first=True, **words)
        self.head = nn.Linear(32 if words.get("bidirectional") else 16, 3)

    def forward(self, x):
        y, _ = self.layers(x)
        return self.head(y[:, -1]), y


for _name, _kind, _words in (("lstm", nn.LSTM, {"num_layers": 2}), ("bilstm", nn.LSTM, {"bidirectional": True}), ("gru", nn.GRU, {"num_layers": 2}),
                             ("bigru", nn.GRU, {"bidirectional": True}), ("rnn", nn.RNN, {"num_layers": 2})):
    _inputs, _free = series()
    entry(_name, "recurrent", _inputs, _free)(lambda k=_kind, w=_words: Recurrent(k, **w))


class Temporal(nn.Module):
    """Dilated causal convolutions with residuals."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(6, 16, 1)
        self.layers = nn.ModuleList([nn.Conv1d(16, 16, 3, dilation=2 ** i) for i in range(3)])
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        y = self.first(x.transpose(1, 2))
        for i, layer in enumerate(self.layers):
            y = y + torch.relu(layer(nn.functional.pad(y, (2 * 2 ** i, 0))))
        return self.last(y.transpose(1, 2))


_inputs, _free = series()
entry("tcn", "time series", _inputs, _free)(Temporal)


class ConvLSTM(nn.Module):
    """A convolutional cell over the steps of a clip, unrolled."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Conv2d(3 + 8, 32, 3, padding=1)

    def forward(self, x):
        h = c = torch.zeros((x.shape[0], 8, *x.shape[-2:]))
        for i in range(x.shape[1]):
            i_, f, g, o = self.cell(torch.cat([x[:, i], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i_.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h


entry("convlstm", "recurrent", lambda k: {"clip": torch.randn((1 + k, 4, 3, 12, 12 + 4 * k))}, {"clip": {0: "batch", 4: "width"}})(ConvLSTM)


@entry("patchtst", "time series", lambda k: {"series": torch.randn((1 + k, 32, 3))}, {"series": {0: "batch"}})
def patchtst():
    return hf.PatchTSTForPrediction(hf.PatchTSTConfig(num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, prediction_length=8, d_model=16,
                                                      num_attention_heads=4, num_hidden_layers=2, ffn_dim=32)), lambda m, s: m(past_values=s).prediction_outputs


@entry("patchtsmixer", "time series", lambda k: {"series": torch.randn((1 + k, 32, 3))}, {"series": {0: "batch"}})
def patchtsmixer():
    return hf.PatchTSMixerForPrediction(hf.PatchTSMixerConfig(num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, prediction_length=8, d_model=16,
                                                              num_layers=2)), lambda m, s: m(past_values=s).prediction_outputs


@entry("encoder_layers", "encoder", lambda k: {"x": torch.randn((1 + k, 7 + 4 * k, 32)), "mask": torch.arange(7 + 4 * k)[None].expand(1 + k, -1) > 4},
       {"x": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}})
def encoder_layers():
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), lambda m, x, mask: m(x, src_key_padding_mask=mask)
