# SPDX-License-Identifier: Apache-2.0
"""Image networks: classification, segmentation, detection, video, optical flow. torchvision's and timm's."""
import torch
import torchvision
from torch import nn
from torchvision.models import detection, optical_flow, segmentation, video

from .entry import BATCH, BATCH_SIZE, entry, images

CLASSIFIERS = {  # name → size of the image, arguments
    "resnet18": 64, "resnext50_32x4d": 64, "wide_resnet50_2": 64, "densenet121": 64, "squeezenet1_1": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64,
    "shufflenet_v2_x0_5": 64, "mnasnet0_5": 64, "efficientnet_b0": 64, "efficientnet_v2_s": 64, "regnet_y_400mf": 64, "regnet_x_400mf": 64, "googlenet": 64,
    "inception_v3": 96, "convnext_tiny": 64, "alexnet": 80, "vgg11_bn": 64,
}
for _name, _size in CLASSIFIERS.items():
    def _make(name=_name):
        words = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        return getattr(torchvision.models, name)(weights=None, num_classes=20, **words)
    entry(_name, "classification", images(_size, (_size + 32, _size + 64)), BATCH_SIZE)(_make)


@entry("swin_t", "classification", images(64, (96, 128)), BATCH_SIZE)
def swin_t():
    return torchvision.models.SwinTransformer([4, 4], 24, [2, 2, 2], [2, 4, 8], [4, 4], num_classes=20)


@entry("swin_v2_t", "classification", images(64), BATCH)
def swin_v2_t():
    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformerBlockV2
    return torchvision.models.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=20, block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2)


@entry("vit", "classification", images(64), BATCH)
def vit():
    return torchvision.models.VisionTransformer(64, 16, 3, 4, 64, 128, num_classes=20)


@entry("maxvit", "classification", images(64), BATCH)
def maxvit():
    return torchvision.models.MaxVit((64, 64), 16, 4, [16, 32], [1, 1], 16, 0.0, num_classes=20)


TIMM = {  # name → size of the image
    "mixer_s32_224": 64, "gmlp_ti16_224": 64, "resmlp_12_224": 64, "mobilevit_xxs": 64, "edgenext_xx_small": 64, "ghostnet_050": 64, "levit_128s": 64,
    "pvt_v2_b0": 64, "poolformer_s12": 64, "nfnet_f0": 64, "hrnet_w18_small": 64, "dla34": 64, "xcit_nano_12_p16_224": 64, "cait_xxs24_224": 64,
    "beit_base_patch16_224": 64, "efficientformer_l1": 64, "fastvit_t8": 64, "repvgg_a0": 64, "tinynet_e": 64, "tnt_s_patch16_224": 64, "twins_svt_small": 64,
    "visformer_tiny": 64, "coatnet_pico_rw_224": 64, "resnest14d": 64, "res2net50_14w_8s": 64, "sknet": 64, "seresnet18": 64, "convmixer_768_32": 64,
    "volo_d1_224": 64, "crossvit_tiny_240": 64, "mobileone_s0": 64, "deit_tiny_distilled_patch16_224": 64, "eva02_tiny_patch14_224": 56, "focalnet_tiny_srf": 64,
    "davit_tiny": 64, "vovnet39a": 64, "hardcorenas_a": 64, "selecsls42": 64, "botnet26t_256": 64, "lambda_resnet26t": 64, "halonet26t": 64, "mambaout_femto": 64,
    "starnet_s1": 64, "repghostnet_050": 64, "mobilenetv4_conv_small": 64, "rdnet_tiny": 64, "naflexvit_base_patch16_gap": 64,
}
SMALLER = {"beit_base_patch16_224": {"depth": 2, "embed_dim": 96, "num_heads": 4}, "cait_xxs24_224": {"depth": 2}, "xcit_nano_12_p16_224": {"depth": 2},
           "mixer_s32_224": {"num_blocks": 2}, "gmlp_ti16_224": {"num_blocks": 2}, "resmlp_12_224": {"num_blocks": 2}, "convmixer_768_32": {"depth": 3, "dim": 96},
           "tnt_s_patch16_224": {"depth": 2}, "deit_tiny_distilled_patch16_224": {"depth": 2}, "eva02_tiny_patch14_224": {"depth": 2},
           "naflexvit_base_patch16_gap": {"depth": 2, "embed_dim": 96, "num_heads": 4}}
SIZED = {"mixer_s32_224", "gmlp_ti16_224", "resmlp_12_224", "xcit_nano_12_p16_224", "cait_xxs24_224", "beit_base_patch16_224", "tnt_s_patch16_224", "levit_128s",
         "volo_d1_224", "crossvit_tiny_240", "deit_tiny_distilled_patch16_224", "eva02_tiny_patch14_224", "twins_svt_small", "efficientformer_l1", "coatnet_pico_rw_224",
         "visformer_tiny"}
for _name in ("mixer_s32_224", "mobilevit_xxs", "ghostnet_050", "levit_128s", "poolformer_s12", "xcit_nano_12_p16_224", "cait_xxs24_224", "beit_base_patch16_224",
              "repvgg_a0", "coatnet_pico_rw_224", "convmixer_768_32", "edgenext_xx_small", "hrnet_w18_small", "resnest14d", "nfnet_f0", "gmlp_ti16_224",
              "eva02_tiny_patch14_224", "efficientformer_l1", "botnet26t_256", "halonet26t"):
    def _make(name=_name):
        import timm
        words = dict(SMALLER.get(name, {}))
        if name in SIZED or name in ("botnet26t_256", "halonet26t"):
            words["img_size"] = TIMM[name]
        return timm.create_model(name, pretrained=False, num_classes=20, **words)
    entry("timm_" + _name, "classification", images(TIMM[_name]), BATCH)(_make)


@entry("deeplabv3_mobilenet", "segmentation", images(64, (96, 80)), BATCH_SIZE)
def deeplabv3_mobilenet():
    return segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)


@entry("lraspp_mobilenet", "segmentation", images(64, (96, 80)), BATCH_SIZE)
def lraspp_mobilenet():
    return segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)


@entry("fcn_resnet50", "segmentation", images(64, (96, 80)), BATCH_SIZE)
def fcn_resnet50():
    return segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=5)


class UNet(nn.Module):
    """Two levels down and up, with transposed convolutions and joined channels."""

    def __init__(self, width=16):
        super().__init__()
        def twice(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.a, self.b, self.c = twice(3, width), twice(width, 2 * width), twice(2 * width, 4 * width)
        self.up_b, self.up_a = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.d, self.e, self.out = twice(4 * width, 2 * width), twice(2 * width, width), nn.Conv2d(width, 4, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(nn.functional.max_pool2d(a, 2))
        c = self.c(nn.functional.max_pool2d(b, 2))
        d = self.d(torch.cat([self.up_b(c), b], 1))
        return self.out(self.e(torch.cat([self.up_a(d), a], 1)))


entry("unet", "segmentation", images(64, (96, 80)), BATCH_SIZE)(UNet)


def one_image(size, other):
    """Detectors take one image without a batch, as torchvision's exports do."""
    return lambda k: {"image": torch.rand((3, *(size if k == 0 else other)))}


FREE_IMAGE = {"image": {1: "height", 2: "width"}}


def _detector(make):
    def call(module, image):
        return module([image])[0]
    return lambda: (make(), call)


_SMALL = {"min_size": 96, "max_size": 160, "weights": None, "weights_backbone": None, "num_classes": 5}
_RCNN = {**_SMALL, "rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_test": 30, "box_detections_per_img": 10, "box_score_thresh": 0.05}
DETECTORS = {
    "fasterrcnn_mobilenet": lambda: detection.fasterrcnn_mobilenet_v3_large_320_fpn(**_RCNN),
    "fasterrcnn_resnet50": lambda: detection.fasterrcnn_resnet50_fpn(**_RCNN),
    "maskrcnn_resnet50": lambda: detection.maskrcnn_resnet50_fpn(**_RCNN),
    "keypointrcnn_resnet50": lambda: detection.keypointrcnn_resnet50_fpn(**{**_RCNN, "num_classes": 2, "num_keypoints": 4}),
    "retinanet_resnet50": lambda: detection.retinanet_resnet50_fpn(**_SMALL, topk_candidates=50, detections_per_img=10),
    "fcos_resnet50": lambda: detection.fcos_resnet50_fpn(**_SMALL, topk_candidates=50, detections_per_img=10),
    "ssd300_vgg16": lambda: detection.ssd300_vgg16(weights=None, weights_backbone=None, num_classes=5, topk_candidates=50, detections_per_img=10),
    "ssdlite320_mobilenet": lambda: detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5, topk_candidates=50, detections_per_img=10),
}
for _name, _make in DETECTORS.items():
    entry(_name, "detection", one_image((96, 128), (128, 100)), FREE_IMAGE)(_detector(_make))


class YoloHead(nn.Module):
    """A small backbone, two anchor-free heads, decoding, and non-maximum suppression with batches of classes."""

    def __init__(self, classes=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.SiLU(), nn.Conv2d(32, 32, 3, 2, 1), nn.SiLU())
        self.down = nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.SiLU())
        self.heads = nn.ModuleList([nn.Conv2d(32, 5 + classes, 1), nn.Conv2d(64, 5 + classes, 1)])

    def forward(self, image):
        a = self.stem(image)
        levels = [a, self.down(a)]
        rows = []
        for x, head, stride in zip(levels, self.heads, (8, 16)):
            y = head(x)
            h, w = y.shape[-2:]
            grid = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")[::-1], -1).to(y.dtype)
            y = y.permute(0, 2, 3, 1)
            centre, size = (y[..., :2].sigmoid() + grid) * stride, y[..., 2:4].exp() * stride
            rows.append(torch.cat([centre - size / 2, centre + size / 2, y[..., 4:].sigmoid()], -1).flatten(1, 2))
        boxes = torch.cat(rows, 1)[0]
        scores, labels = (boxes[:, 4:5] * boxes[:, 5:]).max(1)
        keep = scores > 0.2
        boxes, scores, labels = boxes[keep][:, :4], scores[keep], labels[keep]
        kept = torchvision.ops.batched_nms(boxes, scores, labels, 0.5)[:20]
        return boxes[kept], scores[kept], labels[kept]


entry("yolo_nms", "detection", images(64, (96, 80), batch=1), {"image": {2: "height", 3: "width"}})(YoloHead)


def clip(frames=4, size=32):
    return lambda k: {"clip": torch.rand((1 + k, 3, frames, size, size))}


for _name in ("r3d_18", "mc3_18", "r2plus1d_18"):
    def _make(name=_name):
        return getattr(video, name)(weights=None, num_classes=5)
    entry(_name, "video", clip(), {"clip": {0: "batch"}})(_make)


@entry("s3d", "video", clip(16, 64), {"clip": {0: "batch"}})
def s3d():
    return video.s3d(weights=None, num_classes=5)


@entry("swin3d", "video", clip(4, 32), {"clip": {0: "batch"}})
def swin3d():
    from torchvision.models.video.swin_transformer import SwinTransformer3d
    return SwinTransformer3d([2, 4, 4], 24, [2, 2], [2, 4], [2, 4, 4], num_classes=5)


@entry("raft_small", "optical flow", lambda k: {n: torch.rand((1, 3, 128, 128)) for n in ("first", "second")})
def raft_small():
    def call(module, first, second):
        return module(first, second, num_flow_updates=2)
    return optical_flow.raft_small(weights=None), call
