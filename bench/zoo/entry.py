# SPDX-License-Identifier: Apache-2.0
"""What an architecture of the zoo is: a module with seeded weights, and inputs of two sizes."""
import dataclasses
import math
import typing

import torch

ENTRIES = {}


@dataclasses.dataclass
class Entry:
    """`make()` gives the module and `call(module, *inputs)` that results come from (None: the module itself);
    `inputs(size)` gives name → tensor for size 0 (that of the export) and 1; `free` gives name → {axis: symbol} of
    the exports with free sizes (empty: only fixed sizes exist); `tools` limits what is derived of it (None: all)."""
    name: str
    family: str
    make: typing.Callable
    inputs: typing.Callable
    free: dict
    exporters: tuple = ("dynamo", "script")
    tools: tuple | None = None


# Results that say which of many values is the largest: of values in a few steps many are the largest, and which of
# these is, rounding decides.
EXACT_TOOLS = ("optimised", "dynamic")


def entry(name, family, inputs, free=None, exporters=("dynamo", "script"), tools=None):
    """Registers the function below it as `make` of an architecture."""
    def register(make):
        assert name not in ENTRIES, name
        ENTRIES[name] = Entry(name, family, make, inputs, free or {}, exporters, tools)
        return make
    return register


def images(size, other=None, batch=2, channels=3, name="image"):
    """Random images of size × size; the second size changes the batch, and height and width where `other` says so."""
    def make(k):
        height, width = (size, size) if k == 0 or other is None else other
        return {name: torch.rand((1, channels, height, width) if k == 0 else (batch, channels, height, width))}
    return make


def tokens(length=12, other=17, vocabulary=99, names=("input_ids",), batch=2):
    """Token ids (and whatever else `names` lists: masks of ones with a padded end, types) of batch × length."""
    def make(k):
        shape = (1, length) if k == 0 else (batch, other)
        feed = {}
        for name in names:
            if "mask" in name:
                feed[name] = torch.ones(shape, dtype=torch.int64)
                feed[name][:, -2:] = 0
            elif "type" in name:
                feed[name] = torch.randint(0, 2, shape)
            else:
                feed[name] = torch.randint(3, vocabulary, shape)
        return feed
    return make


BATCH = {"image": {0: "batch"}}
BATCH_SIZE = {"image": {0: "batch", 2: "height", 3: "width"}}


def text_free(*names):
    return {n: {0: "batch", 1: "length"} for n in names}


def randomise(module, seed):
    """Every parameter drawn anew in order of its name, 1/√inputs wide; statistics of batch normalisations too. Gains of
    standardised weights are near 1: drawn like weights, they let values grow until sigmoids of these are subnormal."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(module.named_parameters()):
            if not p.is_floating_point():
                continue
            gain = name.endswith(".gain")
            if p.ndim >= 2 and not gain:
                scale = 0.5 if "embed" in name else 1.4 / math.sqrt(max(1, p[0].numel()))
                p.copy_(torch.randn(p.shape, generator=generator) * scale)
            else:
                norm = gain or name.endswith("weight")
                p.copy_(torch.randn(p.shape, generator=generator) * 0.1 + (1.0 if norm else 0.0))
    return module.eval()


class Called(torch.nn.Module):
    """A module whose inputs are tensors in order, and whose results are a tuple of tensors."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *xs):
        return flat(self.call(self.module, *xs) if self.call else self.module(*xs))


def flat(value):
    """All tensors in tuples, lists and mappings, in order."""
    if isinstance(value, torch.Tensor):
        return (value,)
    if hasattr(value, "items"):
        value = [v for _, v in value.items()]
    if isinstance(value, (tuple, list)):
        return tuple(t for v in value for t in flat(v))
    return ()


def module_of(name):
    """The entry's module with seeded weights."""
    torch.manual_seed(0)
    made = ENTRIES[name].make()
    module, call = made if isinstance(made, tuple) else (made, None)
    return Called(randomise(module, 1000 + sum(name.encode())), call).eval()
