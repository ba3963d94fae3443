"""Cases of the single-shot detector's operators, on grids of anchors as the detector has them."""

from dataclasses import dataclass

import numpy as np

from tests.cases import Case, T, Tensor
from tests.cases.vision.bounding_box import ZERO, Boxes

ONLY_FLOAT32 = "MXNet's knows float32 only"


@dataclass(frozen=True)
class Anchors(Tensor):
    """(1, 3·s², 4): at each place of an s × s map a small square, a large one and a wide box."""

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        side = int((self.shape[1] / 3) ** 0.5)
        centre = (np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 1, 2) + 0.5) / side
        half = np.array([[0.12, 0.12], [0.2, 0.2], [0.17, 0.085]])
        boxes = np.concatenate([centre - half, centre + half], -1)
        return boxes.reshape(self.shape).astype(np.float32).astype(self.dtype)


@dataclass(frozen=True)
class Labels(Boxes):
    """(b, g, 5 or more): class, box, and noise. The first image has g objects, the last of several has none."""

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        b, g, k = self.shape
        rows = np.concatenate(
            [rng.randint(0, 3, (b, g, 1)), self.boxes(rng, (b, g)), rng.uniform(size=(b, g, k - 5))], -1
        )
        counts = np.linspace(g, 0, b, dtype=int) if b > 1 else np.array([g])
        rows[np.arange(g) >= counts[:, None]] = -1
        return rows.astype(np.float32).astype(self.dtype)


@dataclass(frozen=True)
class Probabilities(Tensor):
    """(b, c, a): a softmax over classes, of which one stands out."""

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        powers = np.exp(rng.uniform(-2, 2, self.shape))
        return (powers / powers.sum(1, keepdims=True)).astype(np.float32).astype(self.dtype)


def target(**params: object) -> Case:
    return Case("_contrib_MultiBoxTarget", (Anchors((1, 48, 4)), Labels((3, 4, 5)), T(3, 4, 48)), params, wrt=())


def detection(**params: object) -> Case:
    inputs = (Probabilities((2, 4, 48)), T(2, 192), Anchors((1, 48, 4)))
    return Case("_contrib_MultiBoxDetection", inputs, params, wrt=())


MINED = {"negative_mining_ratio": 3.0}
SMALL = (Anchors((1, 12, 4)), Labels((2, 2, 5)), T(2, 3, 12))

CASES = [
    Case("_contrib_MultiBoxPrior", (T(2, 1, 2, 3),)),
    Case("_contrib_MultiBoxPrior", (T(1, 1, 3, 2),), {"sizes": (0.5, 0.35), "ratios": (1.0, 2.0, 0.5)}),
    Case(
        "_contrib_MultiBoxPrior",
        (T(1, 2, 3, 4),),
        {"sizes": (0.4,), "ratios": (3.0,), "clip": True, "steps": (0.3, 0.2), "offsets": (0.25, 1.0)},
        wrt=(),
    ),
    Case("_contrib_MultiBoxPrior", (T(1, 1, 2, 2, dtype="float16"),), wrt=(), no_mxnet=ONLY_FLOAT32),
    target(),
    target(overlap_threshold=0.2, variances=(0.1, 0.3, 0.2, 0.4), ignore_label=-2.0),
    target(overlap_threshold=0.0),
    target(**MINED),
    target(**MINED, negative_mining_thresh=0.2, overlap_threshold=0.3, minimum_negative_samples=3),
    target(overlap_threshold=-1.0, negative_mining_ratio=0.5, ignore_label=7.0),
    Case("_contrib_MultiBoxTarget", SMALL, not_derivative=ZERO),
    Case("_contrib_MultiBoxTarget", (Anchors((1, 12, 4)), Labels((1, 5, 7)), T(1, 2, 12)), MINED, wrt=(), tag="wide"),
    Case(
        "_contrib_MultiBoxTarget",
        (Anchors((1, 12, 4), dtype="float64"), Labels((1, 3, 5), dtype="float64"), T(1, 2, 12, dtype="float64")),
        wrt=(),
        no_mxnet=ONLY_FLOAT32,
    ),
    detection(),
    detection(threshold=0.4, nms_threshold=0.3, clip=False, variances=(0.1, 0.2, 0.3, 0.4)),
    detection(nms_threshold=0.2, force_suppress=True),
    detection(nms_threshold=0.3, nms_topk=20),
    detection(nms_threshold=0.0, threshold=0.5),
    detection(nms_threshold=0.3, threshold=0.5, nms_topk=30, background_id=2),
    Case("_contrib_MultiBoxDetection", (Probabilities((2, 3, 12)), T(2, 48), Anchors((1, 12, 4))), not_derivative=ZERO),
    Case(
        "_contrib_MultiBoxDetection",
        (Probabilities((1, 1, 12)), T(1, 48), Anchors((1, 12, 4))),
        wrt=(),
        tag="background alone",
    ),
    Case(
        "_contrib_MultiBoxDetection",
        (Probabilities((1, 3, 12), dtype="float16"), T(1, 48, dtype="float16"), Anchors((1, 12, 4), dtype="float16")),
        wrt=(),
        no_mxnet=ONLY_FLOAT32,
    ),
]
