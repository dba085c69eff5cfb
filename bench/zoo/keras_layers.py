# SPDX-License-Identifier: Apache-2.0
"""Networks of Keras, written by tf2onnx. `make` gives the network; its weights are drawn anew."""
import keras
import numpy as np
from keras import layers

from .entry import entry


def drawn(*shapes):
    return lambda k: {f"x{i}": np.random.default_rng(9 * i + k).random(s[k], np.float32) for i, s in enumerate(shapes)}


def network(name, first, second, free=None):
    """An entry for a network of one input, of that shape at both sizes; axes that differ are free."""
    axes = {i: f"d{i}" for i, (a, b) in enumerate(zip(first, second)) if a != b or i == 0}
    def register(make):
        def made():
            keras.utils.set_random_seed(1)
            shape = [None if i in axes else n for i, n in enumerate(first)][1:]
            x = keras.Input(shape)
            model = keras.Model(x, make(x))
            r = np.random.default_rng(2)
            for w in model.weights:
                low = 0.5 if "variance" in w.path or "gamma" in w.path else 0.0
                fan = int(np.prod(w.shape[:-1])) if len(w.shape) > 1 else 1
                w.assign(low + np.abs(r.normal(size=w.shape)) if low else r.normal(size=w.shape) / np.sqrt(fan))
            return model
        entry(name, "Keras", drawn((first, second)), {"x0": axes}, ("tf2onnx",))(made)
        return make
    return register


@network("keras_dense", (2, 12), (7, 12))
def dense(x):
    y = layers.Dense(24, activation="selu")(x)
    y = layers.Dropout(0.3)(layers.LayerNormalization()(y))
    return layers.Dense(4, activation="softmax")(layers.concatenate([y, layers.Dense(8, activation="swish")(x)]))


@network("keras_convolutions", (1, 32, 32, 3), (3, 32, 32, 3))
def convolutions(x):
    y = layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False)(x)
    y = layers.ReLU(6)(layers.BatchNormalization()(y))
    z = layers.SeparableConv2D(16, 3, padding="same", activation="leaky_relu")(y)
    y = layers.MaxPooling2D(2)(layers.add([y, z]))
    return layers.Dense(5, activation="softmax")(layers.Flatten()(layers.AveragePooling2D(2)(y)))


@network("keras_mobilenet_v2", (1, 64, 64, 3), (2, 96, 80, 3))
def mobilenet_v2(x):
    return keras.applications.MobileNetV2(input_tensor=x, alpha=0.35, weights=None, include_top=False, pooling="avg").output


@network("keras_resnet50", (1, 64, 64, 3), (2, 64, 64, 3))
def resnet50(x):
    return keras.applications.ResNet50(input_tensor=x, weights=None, classes=10).output


@network("keras_unet", (1, 32, 32, 3), (2, 32, 32, 3))
def unet(x):
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(16, 3, padding="same", activation="elu")(layers.MaxPooling2D()(a))
    c = layers.Conv2D(16, 3, padding="same", dilation_rate=2, activation="relu")(layers.MaxPooling2D()(b))
    c = layers.concatenate([layers.Conv2DTranspose(16, 3, strides=2, padding="same")(c), b])
    c = layers.concatenate([layers.UpSampling2D(2)(c), a])
    return layers.Conv2D(2, 1, activation="sigmoid")(c)


@network("keras_lstm", (1, 10, 6), (3, 15, 6))
def lstm(x):
    return layers.Dense(3)(layers.LSTM(12)(layers.Bidirectional(layers.LSTM(16, return_sequences=True))(x)))


@network("keras_gru", (1, 10, 6), (3, 15, 6))
def gru(x):
    return layers.Dense(3)(layers.GRU(16, reset_after=True)(layers.Conv1D(8, 3, padding="causal")(x)))


@network("keras_attention", (1, 12, 16), (3, 21, 16))
def attention(x):
    y = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 8)(x, x))
    y = layers.LayerNormalization()(y + layers.Dense(16)(layers.Dense(32, activation="silu")(y)))
    return layers.Dense(4)(layers.GlobalAveragePooling1D()(y))


@network("keras_video", (1, 6, 12, 12, 2), (2, 6, 12, 12, 2))
def video(x):
    y = layers.MaxPooling3D((1, 2, 2))(layers.Conv3D(6, 3, padding="same", activation="relu")(x))
    return layers.Dense(3)(layers.GlobalMaxPooling2D()(layers.ConvLSTM2D(4, 3, padding="same")(y)))
