"""A character LSTM that learns this repository's licence by heart: the fused RNN operator, trained and sampled.

    python examples/char_lstm.py [--steps N]

The network reads windows of text and predicts each next character; at the end it writes on by itself. Gradients are
clipped to a norm of 5, as recurrent networks need it.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np

import datasets
import lowering
from symjax_nnvm import symbol as sym

WINDOW, BATCH, HIDDEN = 48, 32, 128


def network(vocabulary: int, batch: int) -> sym.Symbol:
    """data (batch, WINDOW) of character numbers, softmax_label alike → probabilities (batch · WINDOW, vocabulary)."""
    steps = sym.Embedding(sym.Variable("data"), input_dim=vocabulary, output_dim=32, name="embed").swapaxes(0, 1)
    state = sym.zeros(shape=(1, batch, HIDDEN))
    # All weights of the RNN operator are one vector; its initialiser knows which are weights and which are biases.
    xavier = lowering.initializer.Xavier()
    fused = lowering.initializer.FusedRNN(xavier, num_hidden=HIDDEN, num_layers=1, mode="lstm", forget_bias=1.0)
    parameters = sym.Variable("lstm_parameters", init=fused)
    hidden = sym.RNN(steps, parameters, state, state, state_size=HIDDEN, num_layers=1, mode="lstm", name="lstm")
    hidden = hidden.swapaxes(0, 1).reshape((-1, HIDDEN))
    scores = sym.FullyConnected(hidden, num_hidden=vocabulary, name="scores")
    return sym.SoftmaxOutput(
        scores, sym.Variable("softmax_label").reshape((-1,)), normalization="batch", name="softmax"
    )


def windows(numbers: np.ndarray, count: int, seed: int) -> lowering.Batches:
    """Windows from random places, each with the characters that follow as its labels."""
    starts = np.random.RandomState(seed).randint(0, len(numbers) - WINDOW - 1, size=count)
    read = numbers[starts[:, None] + np.arange(WINDOW + 1)].astype(np.float32)
    return lowering.Batches({"data": read[:, :-1], "softmax_label": read[:, 1:]}, BATCH)


def write(trainer: lowering.Trainer, vocabulary: list[str], start: str, length: int) -> str:
    """The text that the network finds most likely after `start`, character by character."""
    state = trainer.require_state()
    predict = lowering.compile(network(len(vocabulary), 1))
    text = start
    for _ in range(length):
        window = text[-WINDOW:]
        data = np.zeros((1, WINDOW), np.float32)
        data[0, : len(window)] = [vocabulary.index(character) for character in window]
        (probabilities,), _ = predict(state.params | {"data": data, "softmax_label": data}, {}, jax.random.key(0))
        text += vocabulary[int(np.argmax(probabilities[len(window) - 1]))]
    return text


def main(steps: int, length: int = 240) -> float:
    """Train and write; returns the perplexity on windows that were not drawn in training."""
    text = datasets.licence()
    vocabulary = sorted(set(text))
    numbers = np.array([vocabulary.index(character) for character in text])
    trainer = lowering.Trainer(
        network(len(vocabulary), BATCH),
        "adam",
        {"learning_rate": 5e-3, "rescale_grad": 1.0},  # the loss is a mean already
        initializer=lowering.initializer.Xavier(),
        clip_global_norm=5.0,
    )
    trainer.init(0, data=(BATCH, WINDOW))
    epochs = 4
    trainer.fit(windows(numbers, steps // epochs * BATCH, seed=0), epochs, metrics=("perplexity",))
    perplexity = trainer.evaluate(windows(numbers, 10 * BATCH, seed=1), ("perplexity",))["perplexity"]
    print(f"perplexity {perplexity:.2f} of {len(vocabulary)} characters; the network writes:\n")
    print(write(trainer, vocabulary, "You may ", length))
    return perplexity


if __name__ == "__main__":
    lowering.keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    score = main(parser.parse_args().steps)
    if score >= 2.0:
        raise SystemExit(f"perplexity {score:.2f}, expected less than 2")
