"""A layer of Keras on TensorFlow, for `timeroof study examples/study/keras_layer.py:make`.

timeroof study examples/study/keras_layer.py:make --set filters=8,32,128
"""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import tensorflow as tf


def make(batch: int = 4, size: int = 32, filters: int = 32, separable: bool = False):
    """A layer and its inputs."""
    kind = keras.layers.SeparableConv2D if separable else keras.layers.Conv2D
    return kind(filters, 3, activation="relu"), tf.random.normal((batch, size, size, 16))
