"""Synthetic data in place of what the book downloads: tiny, by seed, of the names and forms that its cells read."""

import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tests.peers.gluon_script_data import cifar10, folders, houses
from tests.peers.script_data import mnist, text

_SEED = 7
_NAMES = ("the", "a", "time", "traveller", "it", "was", "chip", "baby", "beautiful", "man", "woman", "son", "daughter")
_NAMES += ("beijing", "china", "tokyo", "japan", "bad", "worst", "big", "biggest", "do", "did", "go", "went", "great")
_COLOURS = ((0, 0, 0), (128, 0, 0), (0, 128, 0), (192, 128, 0), (128, 128, 128))
"""Colours of classes of segmentation, the ground first."""


def _words(count: int, generator: np.random.Generator) -> str:
    """Words in which each is likely to be followed by the same few."""
    places = [int(generator.integers(0, len(_NAMES)))]
    while len(places) < count:
        places.append((places[-1] * 3 + int(generator.integers(0, 3))) % len(_NAMES))
    return " ".join(_NAMES[place] for place in places)


def _picture(path: Path, shape: tuple[int, int], colour: Sequence[int], generator: np.random.Generator) -> None:
    import cv2

    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), (np.array(colour) + generator.integers(0, 40, (*shape, 3))).clip(0, 255).astype(np.uint8))


def novel(folder: Path, lines: int = 400) -> None:
    """timemachine.txt: lines of words."""
    generator = np.random.default_rng(_SEED)
    (folder / "timemachine.txt").write_text("".join(f"{_words(10, generator).capitalize()},\n" for _ in range(lines)))


def translations(folder: Path, pairs: int = 680) -> None:
    """fra-eng/fra.txt: pairs of sentences, of which a word's translation is the word and a mark."""
    generator = np.random.default_rng(_SEED)
    lines = []
    for _ in range(pairs):
        words = _words(int(generator.integers(1, 5)), generator)
        lines.append(f"{words.capitalize()}.\t{'e '.join(words.split())}e !\n")
    (folder / "fra-eng").mkdir()
    (folder / "fra-eng" / "fra.txt").write_text("Go.\tVa !\n" + "".join(lines), encoding="utf-8")


def sentences(folder: Path) -> None:
    """ptb/ptb.train.txt."""
    (folder / "ptb").mkdir()
    text(folder / "ptb", "ptb.", 200)


def paragraphs(folder: Path, count: int = 30) -> None:
    """wikitext-2/wiki.train.tokens: a paragraph of sentences in a line."""
    generator = np.random.default_rng(_SEED)
    rows = [" . ".join(_words(int(generator.integers(4, 9)), generator) for _ in range(3)) for _ in range(count)]
    (folder / "wikitext-2").mkdir()
    (folder / "wikitext-2" / "wiki.train.tokens").write_text("".join(f" {row} . \n" for row in rows))


def reviews(folder: Path, count: int = 16) -> None:
    """aclImdb: files of words, some of which tell whether the review is good."""
    generator = np.random.default_rng(_SEED)
    for part in ("train", "test"):
        for kind, mark in (("pos", "great"), ("neg", "bad")):
            place = folder / "aclImdb" / part / kind
            place.mkdir(parents=True)
            for i in range(count):
                (place / f"{i}.txt").write_text(f"{mark} {_words(int(generator.integers(5, 40)), generator)} {mark}")


def inferences(folder: Path, count: int = 64) -> None:
    """snli_1.0: a label and two sentences in a line."""
    generator = np.random.default_rng(_SEED)
    (folder / "snli_1.0").mkdir()
    kinds = ("entailment", "contradiction", "neutral")
    for part in ("train", "test"):
        rows = ["gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tother"]
        for i in range(count):
            first, second = (_words(int(generator.integers(3, 9)), generator) for _ in range(2))
            rows.append(f"{kinds[i % 3]}\t( {first} )\t( {second} )\tx")
        (folder / "snli_1.0" / f"snli_1.0_{part}.txt").write_text("\n".join(rows) + "\n")


def vectors(folder: Path) -> None:
    """Vectors of words: those of GloVe in 50 and 100 numbers."""
    generator = np.random.default_rng(_SEED)
    for name, size, count in (("glove.6B.50d", 50, 3500), ("glove.6B.100d", 100, 100)):
        words = [*_NAMES, *(f"word{i}" for i in range(count))]
        (folder / name).mkdir()
        rows = (f"{word} {' '.join(f'{x:.4f}' for x in generator.normal(size=size))}\n" for word in words)
        (folder / name / "vec.txt").write_text("".join(rows))


def trained(folder: Path) -> None:
    """bert.small.torch: a vocabulary, and an empty file in place of parameters."""
    for name in ("bert.small", "bert.base"):
        (folder / name).mkdir()
        (folder / name / "vocab.json").write_text(json.dumps(["<unk>", "<pad>", "<mask>", "<cls>", "<sep>", *_NAMES]))
        (folder / name / "pretrained.params").write_bytes(b"")


def films(folder: Path, users: int = 40, items: int = 50, each: int = 20) -> None:
    """ml-100k/u.data: users, films, ratings and times."""
    generator = np.random.default_rng(_SEED)
    rows = []
    for user in range(1, users + 1):
        seen = np.unique([user, *generator.choice(np.arange(1, items + 1), each, replace=False)])
        seen = np.unique(np.append(seen, [items - user % 10]))
        rows += [f"{user}\t{film}\t{1 + (user + film) % 5}\t{int(generator.integers(1, 9999))}\n" for film in seen]
    (folder / "ml-100k").mkdir()
    (folder / "ml-100k" / "u.data").write_text("".join(rows))


def clicks(folder: Path, count: int = 300) -> None:
    """ctr: whether an advertisement was clicked, and 34 words about it."""
    generator = np.random.default_rng(_SEED)
    (folder / "ctr").mkdir()
    for name, rows in (("train", count), ("test", count // 3)):
        values = generator.integers(0, 6, (rows, 34))
        lines = ("\t".join([str(row[0] % 2), *(f"v{x}" for x in row)]) + "\n" for row in values)
        (folder / "ctr" / f"{name}.csv").write_text("".join(lines))


def segments(folder: Path, count: int = 6) -> None:
    """VOCdevkit/VOC2012: pictures, and pictures of their classes' colours."""
    import cv2

    generator = np.random.default_rng(_SEED)
    top = folder / "VOCdevkit" / "VOC2012"
    for place in ("ImageSets/Segmentation", "JPEGImages", "SegmentationClass"):
        (top / place).mkdir(parents=True)
    for part in ("train", "val"):
        names = [f"{part}{i}" for i in range(count)]
        (top / "ImageSets" / "Segmentation" / f"{part}.txt").write_text("\n".join(names) + "\n")
        for i, name in enumerate(names):
            colours = np.zeros((330, 490, 3), np.uint8)
            colours[100:250, 120:300] = _COLOURS[1 + i % 4]
            noise = generator.integers(0, 60, colours.shape).astype(np.uint8)
            cv2.imwrite(str(top / "JPEGImages" / f"{name}.jpg"), colours[..., ::-1] + noise)
            cv2.imwrite(str(top / "SegmentationClass" / f"{name}.png"), colours[..., ::-1])


def bananas(folder: Path, count: int = 12) -> None:
    """banana-detection: pictures of 256 pixels, and where one thing is in each."""
    generator = np.random.default_rng(_SEED)
    for part in ("train", "val"):
        place = folder / "banana-detection" / f"bananas_{part}"
        rows = ["img_name,label,xmin,ymin,xmax,ymax"]
        for i in range(count):
            _picture(place / "images" / f"{i}.png", (256, 256), (40, 200, 200), generator)
            left, top = (int(x) for x in generator.integers(10, 150, 2))
            rows.append(f"{i}.png,0,{left},{top},{left + 60},{top + 50}")
        (place / "label.csv").write_text("\n".join(rows) + "\n")


def competition(folder: Path, name: str, labels: str, size: int, kinds: int, ending: str) -> None:
    """Pictures to train on and to test, and a table of the labels of the first."""
    generator = np.random.default_rng(_SEED)
    rows = ["id,label"]
    for i in range(1, 4 * kinds + 1):
        colour = [(i % kinds) * 20, 100, 200 - (i % kinds) * 18]
        _picture(folder / name / "train" / f"{i}.{ending}", (size, size), colour, generator)
        rows.append(f"{i},kind{i % kinds}")
    for i in range(1, 7):
        _picture(folder / name / "test" / f"{i}.{ending}", (size, size), (90, 90, 90), generator)
    (folder / name / labels).write_text("\n".join(rows) + "\n")


def sausages(folder: Path) -> None:
    """hotdog: folders of two kinds of pictures."""
    for part, count in (("train", 8), ("test", 4)):
        folders(folder / "hotdog" / part, count, 240, "hotdog", "not-hotdog")


def creatures(folder: Path) -> None:
    """pokemon: folders of small pictures."""
    folders(folder / "pokemon", 12, 48, "first", "second")


_PACKED: dict[str, tuple[Callable[..., None], str, tuple[object, ...]]] = {
    "fra-eng.zip": (translations, "fra-eng", ()),
    "ptb.zip": (sentences, "ptb", ()),
    "wikitext-2-v1.zip": (paragraphs, "wikitext-2", ()),
    "aclImdb_v1.tar.gz": (reviews, "aclImdb", ()),
    "snli_1.0.zip": (inferences, "snli_1.0", ()),
    "glove.6B.50d.zip": (vectors, "glove.6B.50d", ()),
    "glove.6B.100d.zip": (vectors, "glove.6B.100d", ()),
    "bert.small.zip": (trained, "bert.small", ()),
    "ml-100k.zip": (films, "ml-100k", ()),
    "ctr.zip": (clicks, "ctr", ()),
    "VOCtrainval_11-May-2012.tar": (segments, "VOCdevkit", ()),
    "banana-detection.zip": (bananas, "banana-detection", ()),
    "kaggle_cifar10_tiny.zip": (competition, "kaggle_cifar10_tiny", ("trainLabels.csv", 32, 10, "png")),
    "kaggle_dog_tiny.zip": (competition, "kaggle_dog_tiny", ("labels.csv", 240, 4, "jpg")),
    "hotdog.zip": (sausages, "hotdog", ()),
    "pokemon.zip": (creatures, "pokemon", ()),
}
"""Name of a packed file → what makes its folder, the folder's name, what else the maker is told."""


def pack(files: Path, name: str) -> None:
    """Make a packed file of this name."""
    make, folder, told = _PACKED[name]
    with tempfile.TemporaryDirectory() as made:
        top = Path(made)
        make(top, *((folder, *told) if told else ()))
        if name.endswith(".zip"):
            shutil.make_archive(str(files / name.removesuffix(".zip")), "zip", top, folder)
        else:
            with tarfile.open(files / name, "w:gz" if name.endswith("gz") else "w") as archive:
                archive.add(top / folder, folder)


def make_files(files: Path) -> None:
    """Make what the book downloads, and MNIST and CIFAR-10 with few pictures."""
    mnist(files, 64, 32)
    (files / "cifar").mkdir()
    cifar10(files / "cifar", 40, 10)
    novel(files)
    for name in _PACKED:
        pack(files, name)
    with tempfile.TemporaryDirectory() as made:
        houses(Path(made))
        for part in ("train", "test"):
            shutil.copy(Path(made) / f"{part}.csv", files / f"kaggle_house_pred_{part}.csv")
    values = np.random.default_rng(_SEED).normal(size=(200, 6))  # a chapter tells its loss after each 200 rows
    np.savetxt(files / "airfoil_self_noise.dat", values, delimiter="\t", fmt="%.5f")
