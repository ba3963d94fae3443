"""Synthetic data in the places where MXNet's scripts look for what they would download: the same in every run."""

import bz2
import gzip
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lowering.mx import recordio

_SEED = 7


def _digits(count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 28, 28) uint8 of ten classes, and the classes: a pattern of each class, and noise."""
    patterns = np.random.default_rng(_SEED).random((10, 7, 7)).repeat(4, 1).repeat(4, 2) > 0.6
    classes = generator.integers(0, 10, count)
    noise = generator.integers(0, 180, (count, 28, 28))
    return (patterns[classes] * 75 + noise).astype(np.uint8), classes.astype(np.uint8)


def mnist(folder: Path, train: int = 2000, test: int = 500) -> None:
    """MNIST's four files, as they are and packed."""
    generator = np.random.default_rng(_SEED)
    for part, count in (("train", train), ("t10k", test)):
        images, classes = _digits(count, generator)
        for name, header, values in (
            (f"{part}-images-idx3-ubyte", struct.pack(">IIII", 2051, count, 28, 28), images),
            (f"{part}-labels-idx1-ubyte", struct.pack(">II", 2049, count), classes),
        ):
            content = header + values.tobytes()
            (folder / name).write_bytes(content)
            with gzip.open(folder / f"{name}.gz", "wb", compresslevel=1) as file:
                file.write(content)


def mnist_npz(folder: Path, train: int = 2000, test: int = 500) -> None:
    """MNIST as mnist.npz, rows of 784."""
    generator = np.random.default_rng(_SEED)
    (x, y), (x_test, y_test) = (_digits(count, generator) for count in (train, test))
    flat = {"X": x.reshape(train, 784), "Y": y, "X_test": x_test.reshape(test, 784), "Y_test": y_test}
    np.savez(folder / "mnist.npz", **flat)  # pyright: ignore[reportArgumentType]


def records(
    folder: Path, name: str, count: int, size: int = 32, classes: int = 10, shift: int = 0, coding: str = ".png"
) -> None:
    """A record file of coded images of size × size, of classes that their colours tell; its index and list."""
    generator = np.random.default_rng(_SEED + shift)
    colours = np.random.default_rng(_SEED).integers(30, 200, (classes, 1, 1, 3))
    stem = folder / name
    lines = []
    file = recordio.MXIndexedRecordIO(str(stem.with_suffix(".idx")), str(stem.with_suffix(".rec")), "w")
    for i in range(count):
        label = int(generator.integers(0, classes))
        image = (colours[label] + generator.integers(0, 40, (size, size, 3))).astype(np.uint8)
        header, quality = recordio.IRHeader(0, float(label), i, 0), 95 if coding == ".jpg" else 3
        file.write_idx(i, recordio.pack_img(header, image, quality, coding))
        lines.append(f"{i}\t{label}\t{i}.png\n")
    file.close()
    stem.with_suffix(".lst").write_text("".join(lines))


def boxes(folder: Path, name: str, count: int, size: int = 160, classes: int = 3, shift: int = 0) -> None:
    """A record file of images with one or two boxes each, whose colours tell their classes; labels are of detection."""
    generator = np.random.default_rng(_SEED + shift)
    colours = np.random.default_rng(_SEED).integers(60, 250, (classes, 3))
    stem = folder / name
    file = recordio.MXIndexedRecordIO(str(stem.with_suffix(".idx")), str(stem.with_suffix(".rec")), "w")
    for i in range(count):
        image = generator.integers(0, 40, (size, size, 3)).astype(np.uint8)
        label = [2.0, 6.0]
        for part in range(generator.integers(1, 3)):
            number = int(generator.integers(0, classes))
            left, top = generator.uniform([0.05, 0.05 + 0.45 * part], [0.4, 0.1 + 0.45 * part])
            right, bottom = left + generator.uniform(0.3, 0.5), top + generator.uniform(0.3, 0.4)
            rows, columns = (slice(int(size * low), int(size * high)) for low, high in ((top, bottom), (left, right)))
            image[rows, columns] = colours[number]
            label += [number, left, top, right, bottom, 0]
        file.write_idx(i, recordio.pack_img(recordio.IRHeader(0, np.array(label), i, 0), image, 3, ".png"))
    file.close()


def pictures(folder: Path, count: int, size: int) -> None:
    """PNG files of size × size."""
    import cv2

    generator = np.random.default_rng(_SEED)
    for i in range(count):
        cv2.imwrite(str(folder / f"{i}.png"), generator.integers(0, 255, (size, size, 3)).astype(np.uint8))


def _sentences(count: int, words: int, generator: np.random.Generator, longest: int) -> list[list[str]]:
    """Sentences in which a word is likely to be followed by the same few words."""
    found = []
    for _ in range(count):
        word, sentence = int(generator.integers(0, words)), []
        for _ in range(int(generator.integers(4, longest))):
            sentence.append(f"w{'abcdefghij'[word % 10]}{word}")
            word = (word * 3 + int(generator.integers(0, 3))) % words
        found.append(sentence)
    return found


def text(folder: Path, prefix: str, count: int = 400, words: int = 60, longest: int = 30) -> None:
    """Three files of a sentence in a line, `prefix` + train.txt, valid.txt, test.txt, and a file of the words."""
    generator = np.random.default_rng(_SEED)
    counts: dict[str, int] = {}
    for part, rows in (("train", count), ("valid", count // 4), ("test", count // 4)):
        sentences = _sentences(rows, words, generator, longest)
        (folder / f"{prefix}{part}.txt").write_text("".join(f"{' '.join(words)} \n" for words in sentences))
        for word in (word for sentence in sentences for word in sentence):
            counts[word] = counts.get(word, 0) + 1
    (folder / f"{prefix}words.txt").write_text("".join(f"{word} {n}\n" for word, n in counts.items()))


def text8(folder: Path, count: int = 20000, words: int = 200) -> None:
    """Words in one line."""
    sentences = _sentences(count // 15, words, np.random.default_rng(_SEED), 28)
    (folder / "text8").write_text(" ".join(word for sentence in sentences for word in sentence))


def polarity(folder: Path, positive: str, negative: str, count: int = 900) -> None:
    """Two files of sentences of different words."""
    generator = np.random.default_rng(_SEED)
    for name, mark in ((positive, "good"), (negative, "bad")):
        sentences = _sentences(count, 40, generator, 12)
        (folder / name).write_text("".join(f"{mark} {' '.join(words)} {mark}{len(words) % 5}\n" for words in sentences))


def ratings(folder: Path, count: int = 4000) -> None:
    """MovieLens' ratings of users and films, split into r1.train and r1.test."""
    generator = np.random.default_rng(_SEED)
    for name, rows in (("r1.train", count), ("r1.test", count // 4)):
        users, films = generator.integers(1, 500, rows), generator.integers(1, 500, rows)
        scores = (users % 3 + films % 3) / 2 + 1
        lines = (f"{u}::{f}::{s}::{i}\n" for i, (u, f, s) in enumerate(zip(users, films, scores, strict=True)))
        (folder / name).write_text("".join(lines))


def implicit(folder: Path, users: int = 40, films: int = 60) -> None:
    """MovieLens as neural_collaborative_filtering converts it: films that users saw, one to find, and 20 others."""
    generator = np.random.default_rng(_SEED)
    seen, wanted, others = [], [], []
    for user in range(users):
        liked = [film for film in range(films) if film % 3 == user % 3]
        found = generator.choice(liked, 9, replace=False)
        seen += [f"{user}\t{film}\t1\n" for film in found[:-1]]
        wanted.append(f"{user}\t{found[-1]}\t1\n")
        rest = generator.choice([film for film in range(films) if film not in found], 20, replace=False)
        others.append("\t".join(map(str, rest)) + "\n")
    seen.append(f"{users - 1}\t{films - 1}\t1\n")
    for name, lines in (("train-ratings", seen), ("test-ratings", wanted), ("test-negative", others)):
        (folder / f"{name}.csv").write_text("".join(lines))


def vocabulary(folder: Path, name: str, counts: str) -> None:
    """The words of a file of words and counts, after the marks of a sentence's end and of an unknown word."""
    (folder / name).write_text("<S> 1\n<UNK> 1\n" + (folder / counts).read_text())


def libsvm(folder: Path, name: str, count: int, features: int, used: int = 20, shift: int = 0) -> None:
    """Rows of a class, 0 or 1, and of `used` features, of which the class follows."""
    generator = np.random.default_rng(_SEED + shift)
    lines = []
    for _ in range(count):
        label = int(generator.integers(0, 2))
        places = np.unique(np.append(generator.integers(0, features // 2, used) * 2 + label, label))
        lines.append(f"{label} {' '.join(f'{place}:{1 + place % 3}' for place in places)}\n")
    (folder / name).write_text("".join(lines))


def years(folder: Path, count: int = 1000) -> None:
    """YearPredictionMSD: rows of a year and of 90 features, packed by bz2."""
    features = np.random.default_rng(_SEED).normal(size=(count, 90)).round(3)
    labels = (1990 + 5 * features[:, :4].sum(1)).round()
    lines = [
        f"{int(label)} {' '.join(f'{i + 1}:{value}' for i, value in enumerate(row))}\n"
        for label, row in zip(labels, features, strict=True)
    ]
    (folder / "YearPredictionMSD.bz2").write_bytes(bz2.compress("".join(lines).encode()))


_ADULT: tuple[tuple[str, ...], ...] = (
    ("Private", "Self-emp-not-inc", "State-gov"),
    ("Bachelors", "HS-grad", "Masters"),
    ("Never-married", "Divorced"),
    ("Sales", "Tech-support", "Other-service"),
    ("Own-child", "Wife", "Husband"),
    ("White", "Black"),
    ("Male", "Female"),
    ("United-States", "Cuba", "India"),
)


def adult(folder: Path, train: int = 2000, test: int = 600) -> None:
    """The census data adult.data and adult.test, comma-separated, whose last column follows from two others."""
    generator = np.random.default_rng(_SEED)
    for name, count in (("adult.data", train), ("adult.test", test)):
        lines = []
        for _ in range(count):
            words = [kinds[int(generator.integers(0, len(kinds)))] for kinds in _ADULT]
            age, hours = (int(n) for n in generator.integers(18, 70, 2))
            rich = ">50K" if words[1] == "Masters" or words[3] == "Tech-support" else "<=50K"
            first = [age, words[0], 1000 + age, words[1], 1 + age % 16, *words[2:7]]
            lines.append(", ".join(map(str, [*first, 0, 0, hours, words[7], rich])) + "\n")
        (folder / name).write_text("".join(lines))


def electricity(folder: Path, rows: int = 300, columns: int = 6) -> None:
    """A table of waves of a day's period."""
    generator = np.random.default_rng(_SEED)
    hours = np.arange(rows)[:, None]
    waves = 2 + np.sin((hours + 3 * np.arange(columns)) * np.pi / 12) + 0.1 * generator.normal(size=(rows, columns))
    np.savetxt(folder / "electricity.txt", waves, delimiter=",", fmt="%.4f")


def entities(folder: Path, count: int = 400) -> None:
    """ner_data.pkl: a table of sentences and of their words' tags."""
    import pandas  # pyright: ignore[reportMissingImports]

    sentences = _sentences(count, 50, np.random.default_rng(_SEED), 12)
    tags = [
        [("O", "B-per", "B-geo")[len(word) % 3 if word[1] in "abc" else 0] for word in words] for words in sentences
    ]
    table = pandas.DataFrame({"token": [np.array(w) for w in sentences], "BILOU_tag": [np.array(t) for t in tags]})
    table.to_pickle(folder / "ner_data.pkl", protocol=4)


def sorting(folder: Path, count: int = 400) -> None:
    """sort.train.txt, sort.valid.txt: five numbers in a line."""
    generator = np.random.default_rng(_SEED)
    for name, rows in (("train", count), ("valid", count // 2)):
        numbers = generator.integers(100, 130, (rows, 5))
        (folder / f"sort.{name}.txt").write_text("".join(f"{' '.join(map(str, row))}\n" for row in numbers))


def heart(folder: Path, count: int = 64) -> None:
    """Kaggle's second bowl: rows of 30 · 64 · 64 pixels, their volumes, and a submission to fill in."""
    generator = np.random.default_rng(_SEED)
    for part, rows in (("train", count), ("validate", count // 8)):
        pixels = generator.integers(0, 255, (rows, 30 * 64 * 64))
        np.savetxt(folder / f"{part}-64x64-data.csv", pixels, delimiter=",", fmt="%d")
        volumes = np.stack([np.arange(rows), 60 + np.arange(rows) % 40, 130 + np.arange(rows) % 40], 1)
        np.savetxt(folder / f"{part}-label.csv", volumes, delimiter=",", fmt="%d")
    (folder / "data").mkdir()
    wanted = [f"{i}_{kind}" for i in range(count // 8) for kind in ("Diastole", "Systole")]
    header = ",".join(["Id", *(f"P{i}" for i in range(600))])
    (folder / "data" / "sample_submission_validate.csv").write_text("\n".join([header, *wanted]) + "\n")


def digits_pickle(folder: Path, train: int = 2000, test: int = 500) -> None:
    """mnist.pkl.gz: three pairs of rows from 0 to 1 and classes."""
    generator = np.random.default_rng(_SEED)
    parts = []
    for count in (train, test, test):
        images, classes = _digits(count, generator)
        parts.append((images.reshape(count, 784).astype(np.float32) / 255, classes.astype(np.int64)))
    with gzip.open(folder / "mnist.pkl.gz", "wb") as file:
        pickle.dump(tuple(parts), file, protocol=2)


def empty(folder: Path, name: str) -> None:
    """A file that a script asks for alone whether it is there."""
    (folder / name).write_bytes(b"")


_MAKERS = (
    *(mnist, mnist_npz, records, boxes, pictures, text, text8, polarity, ratings, implicit, vocabulary, libsvm),
    *(years, adult, electricity, entities, sorting, heart, digits_pickle, empty),
)
MAKERS: dict[str, Callable[..., Any]] = {make.__name__: make for make in _MAKERS}
