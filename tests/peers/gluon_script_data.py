"""Synthetic data for the scripts of example/gluon, and small modules in place of packages that they import."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lowering import mx

_SEED = 7

_MODULES = {
    "word2vec": '"""A package that text_cnn.py imports and does not use, where it learns its own embedding."""\n',
    "bottleneck": "from numpy import argpartition\n",
    "imageio": "import cv2\n\n\ndef imwrite(path, image):\n    cv2.imwrite(path, image)\n",
    "gym": '''"""A pole on a cart, as in OpenAI's gym: four numbers, two actions, a reward for each step."""
import math
import types
import numpy as np


class CartPole:
    observation_space = types.SimpleNamespace(shape=(4,))
    action_space = types.SimpleNamespace(n=2)

    def seed(self, number):
        self.random = np.random.RandomState(number)

    def reset(self):
        self.state, self.steps = self.random.uniform(-0.05, 0.05, 4), 0
        return self.state

    def step(self, action):
        x, speed, angle, turn = self.state
        push = (10 if action == 1 else -10) + 0.05 * turn * turn * math.sin(angle)
        turning = (9.8 * math.sin(angle) - math.cos(angle) * push / 1.1) / (
            0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        )
        moving = (push - 0.05 * turning * math.cos(angle)) / 1.1
        self.state = np.array(
            [x + 0.02 * speed, speed + 0.02 * moving, angle + 0.02 * turn, turn + 0.02 * turning]
        )
        self.steps += 1
        return self.state, 1.0, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21 or self.steps >= 200, {}


def make(name):
    return CartPole()
''',
    "log_uniform": '''"""What large_word_lm compiles from log_uniform.pyx: numbers drawn log-uniformly, each once."""
import numpy as np


class LogUniformSampler:
    def __init__(self, range_max):
        self.range_max, self.random = range_max, np.random.RandomState(0)

    def sample_unique(self, size):
        drawn, tries = set(), 0
        while len(drawn) < size:
            drawn.add(int(np.exp(self.random.uniform(0, np.log(self.range_max + 1)))) - 1)
            tries += 1
        return np.array(sorted(drawn)), tries
''',
    "librosa": '''"""Sounds as numbers: a file's samples, and a spectrum in bands in place of their cepstrum."""
import types
import wave
import numpy as np


def load(path, res_type=None):
    with wave.open(path) as file:
        rate, samples = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return samples.astype(np.float32) / 32768, rate


def mfcc(y, sr, n_mfcc):
    spectrum = np.log1p(np.abs(np.fft.rfft(y)))
    return np.stack([part.mean(keepdims=True) for part in np.array_split(spectrum, n_mfcc)])


feature = types.SimpleNamespace(mfcc=mfcc)
''',
}
"""Packages that these scripts import for a function or two."""


def module(folder: Path, name: str) -> None:
    """A module in place of a package."""
    (folder / f"{name}.py").write_text(_MODULES[name])


def cifar10(folder: Path, train: int = 320, test: int = 64) -> None:
    """CIFAR-10's six binary files: images of classes that their colours tell."""
    generator = np.random.default_rng(_SEED)
    colours = np.random.default_rng(_SEED).integers(30, 200, (10, 3, 1, 1))
    parts = [(f"data_batch_{i}.bin", train // 5) for i in range(1, 6)]
    for name, count in (*parts, ("test_batch.bin", test)):
        classes = generator.integers(0, 10, count)
        images = colours[classes] + generator.integers(0, 40, (count, 3, 32, 32))
        rows = np.concatenate([classes[:, None], images.reshape(count, -1)], 1)
        (folder / name).write_bytes(rows.astype(np.uint8).tobytes())


def wiki(folder: Path, count: int = 300) -> None:
    """WikiText-2's three files: sentences in which a word is followed by one of two."""
    generator = np.random.default_rng(_SEED)
    for part, rows in (("train", count), ("valid", count // 4), ("test", count // 4)):
        lines = []
        for _ in range(rows):
            words = [int(generator.integers(0, 50))]
            for _ in range(int(generator.integers(4, 20))):
                words.append((words[-1] * 3 + int(generator.integers(0, 2))) % 50)
            lines.append(" ".join(f"w{word}" for word in words))
        (folder / f"wiki.{part}.tokens").write_text(" \n ".join(lines) + " \n")


def houses(folder: Path, count: int = 120) -> None:
    """Kaggle's house prices: numbers, words and gaps, and a price that follows from them."""
    generator = np.random.default_rng(_SEED)
    for name, rows in (("train", count), ("test", count // 3)):
        lines = ["Id,MSSubClass,LotArea,Street,SaleCondition" + (",SalePrice" if name == "train" else "")]
        for i in range(rows):
            kind, area = int(generator.integers(20, 90)), int(generator.integers(50, 300))
            street, sale = generator.choice(["Pave", "Grvl", ""]), generator.choice(["Normal", "Abnorml"])
            price = f",{1000 * area + 500 * kind + 20000 * (sale == 'Normal')}" if name == "train" else ""
            lines.append(f"{i},{kind},{area if i % 9 else ''},{street},{sale}{price}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def sick(folder: Path, count: int = 60) -> None:
    """Pairs of sentences with trees of their words, and how alike they are; vectors of 20 numbers for the words."""
    generator = np.random.default_rng(_SEED)
    words = [f"w{i}" for i in range(40)]
    for part, rows in (("train", count), ("dev", count // 2), ("test", count // 2)):
        place = folder / "sick" / part
        place.mkdir(parents=True)
        lengths = generator.integers(3, 8, (2, rows))
        for side, sizes in zip("ab", lengths, strict=True):
            sentences = [" ".join(generator.choice(words, size)) for size in sizes]
            trees = [" ".join(["0", *(str(generator.integers(1, i)) for i in range(2, size + 1))]) for size in sizes]
            (place / f"{side}.toks").write_text("\n".join(sentences) + "\n")
            (place / f"{side}.parents").write_text("\n".join(trees) + "\n")
        alike = 5 - np.abs(lengths[0] - lengths[1]) * 0.9
        (place / "sim.txt").write_text("\n".join(f"{number:.1f}" for number in alike) + "\n")
    (folder / "glove").mkdir()
    vectors = (f"{word} {' '.join(f'{x:.4f}' for x in generator.normal(size=20))}\n" for word in words)
    (folder / "glove" / "glove.840B.300d.txt").write_text("".join(vectors))


def _picture(path: Path, size: int, colour: Any, generator: np.random.Generator) -> None:
    import cv2

    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), (colour + generator.integers(0, 40, (size, size, 3))).astype(np.uint8))


def folders(folder: Path, count: int, size: int, *names: str) -> None:
    """Folders of pictures, each of a colour."""
    generator = np.random.default_rng(_SEED)
    for name in names:
        colour = generator.integers(30, 200, 3)
        for i in range(count):
            _picture(folder / name / f"{i}.png", size, colour, generator)


def birds(folder: Path, each: int = 2, test: int = 4) -> None:
    """Caltech's birds: pictures of 102 classes, with boxes."""
    generator = np.random.default_rng(_SEED)
    lists: dict[str, list[str]] = {"images": [], "image_class_labels": [], "bounding_boxes": []}
    for label in range(1, 103):
        colour = generator.integers(30, 200, 3)
        for i in range(each if label <= 100 else test):
            _picture(folder / "images" / f"{label}" / f"{i}.png", 64, colour, generator)
            number = len(lists["images"]) + 1
            lists["images"].append(f"{number} {label}/{i}.png\n")
            lists["image_class_labels"].append(f"{number} {label}\n")
            lists["bounding_boxes"].append(f"{number} 4.0 4.0 50.0 50.0\n")
    for name, lines in lists.items():
        (folder / f"{name}.txt").write_text("".join(lines))


def sounds(folder: Path, count: int = 40) -> None:
    """Waves of four tones, in Train/, and train.csv that tells them."""
    import wave

    generator = np.random.default_rng(_SEED)
    lines = ["ID,Class"]
    (folder / "Train").mkdir()
    for i in range(count):
        tone = i % 4
        samples = np.sin(np.arange(4000) * (0.1 + 0.2 * tone)) + 0.1 * generator.normal(size=4000)
        with wave.open(str(folder / "Train" / f"{i}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", "NONE"))
            file.writeframes((samples * 8000).astype(np.int16).tobytes())
        lines.append(f"{i},tone{tone}")
    (folder / "train.csv").write_text("\n".join(lines) + "\n")


def lips(folder: Path) -> None:
    """Speakers of whom there are 75 pictures each, and the words that they say."""
    generator = np.random.default_rng(_SEED)
    (folder / "align").mkdir()
    for speaker, name in (("s3", "aaaa"), ("s4", "bbbb"), ("s1", "cccc")):
        for i in range(75):
            _picture(folder / "datasets" / speaker / name / f"mouth_{i:03}.png", 40, (80, 90, 100 + i), generator)
        (folder / "align" / f"{name}.align").write_text("0 1000 sil\n1000 2000 bin\n2000 3000 blue\n3000 4000 sil\n")


def vgg(folder: Path) -> None:
    """mxvgg.params: the convolutions of VGG-16, drawn."""
    generator = np.random.default_rng(_SEED)
    channels = [3, 64, 64, 128, 128, *[256] * 3, *[512] * 6]
    arrays: dict[str, Any] = {}
    for i, (inputs, outputs) in enumerate(pairwise(channels)):
        weight = generator.standard_normal((outputs, inputs, 3, 3), np.float32) * np.float32((2 / 9 / inputs) ** 0.5)
        arrays |= {f"conv{i}_weight": mx.nd.array(weight), f"conv{i}_bias": mx.nd.zeros(outputs)}
    mx.nd.save(str(folder / "mxvgg.params"), arrays)


_MAKERS = (module, cifar10, wiki, houses, sick, folders, birds, sounds, lips, vgg)
GLUON_MAKERS: dict[str, Callable[..., Any]] = {make.__name__: make for make in _MAKERS}
