"""Cases of the operators on bounding boxes, and tensors that hold boxes."""

from dataclasses import dataclass

import numpy as np

from tests.cases import Case, T, Tensor

ZERO = "MXNet stops the gradient here: it is zero"
AS_IT_CAME = "MXNet copies the head gradient to the row that was kept, whatever the format"
HALF = "float16 keeps 11 bits"


@dataclass(frozen=True)
class Boxes(Tensor):
    """Boxes of the unit square (…, 4), large enough that many overlap; corners, or centres and sizes."""

    form: str = "corner"

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        return self.boxes(rng, self.shape[:-1]).astype(np.float32).astype(self.dtype)

    def boxes(self, rng: np.random.RandomState, shape: tuple[int, ...]) -> np.ndarray:
        centre, size = rng.uniform(0.25, 0.75, (*shape, 2)), rng.uniform(0.15, 0.5, (*shape, 2))
        halves = (centre - size / 2, centre + size / 2) if self.form == "corner" else (centre, size)
        return np.concatenate(halves, -1)


@dataclass(frozen=True)
class Detections(Boxes):
    """Rows (…, n, 6): class, score (no two alike in a batch), box. Whole parts of classes count: `part` is added."""

    classes: int = 3
    part: float = 0.0

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        *batch, n, _ = self.shape
        classes = rng.randint(0, self.classes, (*batch, n, 1)) + self.part
        scores = np.argsort(rng.uniform(size=(*batch, n)), -1)[..., None] / n + 0.02
        rows = np.concatenate([classes, scores, self.boxes(rng, (*batch, n))], -1)
        return rows.astype(np.float32).astype(self.dtype)


def nms(data: Tensor, tag: str = "", **params: object) -> Case:
    return Case("_contrib_box_nms", (data,), params, tag=tag, wrt=())


DATA = Detections((2, 6, 6))
ENCODED = (
    T(2, 3, low=-0.2, high=1.2),
    T(2, 3, low=0, high=2, kind="integers"),
    Boxes((2, 3, 4)),
    Boxes((2, 2, 4)),
    T(4),
    T(4, low=0.2),
)
SCORES = T(2, 4, 5, kind="spread")

CASES = [
    Case("_contrib_box_iou", (Boxes((2, 3, 4)), Boxes((4, 4))), not_derivative=ZERO),
    Case(
        "_contrib_box_iou", (Boxes((3, 4), form="center"), Boxes((2, 4), form="center")), {"format": "center"}, wrt=()
    ),
    Case("_contrib_box_iou", (T(4, 4), T(4, 4)), wrt=(), tag="boxes turned inside out"),
    Case(
        "_contrib_box_iou",
        (Boxes((2, 4), dtype="float16"), Boxes((2, 4), dtype="float16")),
        wrt=(),
        rtol=1e-2,
        rtol_reason=HALF,
    ),
    Case("_contrib_box_nms", (DATA,), {"overlap_thresh": 0.3}),
    Case("_contrib_box_nms", (Detections((8, 6), dtype="float64", part=0.25),), {"overlap_thresh": 0.3, "id_index": 0}),
    nms(Detections((6, 6), dtype="float16"), overlap_thresh=0.3),
    nms(DATA, overlap_thresh=0.2, id_index=0, background_id=1),
    nms(DATA, overlap_thresh=0.2, id_index=0, force_suppress=True, topk=4),
    # rows of the default background_id, -1, are padding that detection pipelines add
    Case(
        "_contrib_box_nms",
        (Detections((2, 6, 6), part=-1.0),),
        {"overlap_thresh": 0.3, "id_index": 0},
        not_derivative="a class next to that of the background is another one, so rows jump in and out",
    ),
    nms(Detections((2, 6, 6), part=-1.0), overlap_thresh=0.3, id_index=0, background_id=-1, force_suppress=True),
    nms(Detections((2, 6, 6), part=-2.0), overlap_thresh=0.3, id_index=0, background_id=-2, topk=3),
    nms(Detections((6, 6), part=-1.5), overlap_thresh=0.2, id_index=0),
    nms(Detections((6, 6), part=-1.0, classes=1), overlap_thresh=0.2, id_index=0, tag="background alone"),
    nms(Detections((6, 6), part=-1.0), overlap_thresh=0.2, id_index=-2),
    *(nms(DATA, overlap_thresh=0.4, valid_thresh=valid_thresh) for valid_thresh in (0.5, 2.0)),
    nms(T(5, 7, low=0.1), overlap_thresh=0.1, coord_start=0, score_index=6, id_index=4, tag="rows in another order"),
    nms(Detections((7, 6), form="center"), overlap_thresh=0.3, in_format="center", out_format="center"),
    nms(Detections((7, 6), form="center"), overlap_thresh=0.3, in_format="center"),
    Case(
        "_contrib_box_nms",
        (Detections((7, 6)),),
        {"overlap_thresh": 0.3, "out_format": "center"},
        not_derivative=AS_IT_CAME,
    ),
    Case("_contrib_box_nms", (Detections((3, 6)),), {"topk": 0}),
    Case("_contrib_bipartite_matching", (SCORES,), {"threshold": -0.6}, not_derivative=ZERO),
    Case("_contrib_bipartite_matching", (SCORES,), {"threshold": 0.1, "is_ascend": True}, wrt=()),
    Case("_contrib_bipartite_matching", (SCORES,), {"threshold": -2.0, "topk": 1}, wrt=()),
    Case(
        "_contrib_bipartite_matching",
        (T(5, 4, low=0, high=3, kind="integers"),),
        {"threshold": 0.5},
        wrt=(),
        tag="ties",
    ),
    Case("_contrib_bipartite_matching", (T(3, 2, kind="spread", dtype="float16"),), {"threshold": 0.0}, wrt=()),
    Case("_contrib_box_encode", ENCODED, not_derivative=ZERO),
    Case("_contrib_box_decode", (T(2, 3, 4), Boxes((1, 3, 4), form="center")), not_derivative=ZERO),
    Case(
        "_contrib_box_decode",
        (T(2, 3, 4), Boxes((1, 3, 4))),
        {"format": "corner", "std0": 0.1, "std1": 0.2, "std2": 0.3, "std3": 0.4, "clip": 0.1},
        wrt=(),
    ),
]
