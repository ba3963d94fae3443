"""Labels of images for detection: a header, and objects with a class and a box each.

A label is [header's width, object's width, …, then of each object class, left, top, right, bottom, …], float32; boxes
are relative to the image's width and height. A region is (left, top, width, height), relative likewise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from symjax_nnvm.errors import TrainingError

Region = tuple[float, float, float, float]

_LEAST = 7
"""Numbers of the shortest label: two of the header, and an object of five."""


class DetectionLabel(NamedTuple):
    """A label. header: (h,). objects: (n, w), those whose boxes have an area; w is 5 or more."""

    header: np.ndarray
    objects: np.ndarray

    def array(self) -> np.ndarray:
        """Return the label in one row."""
        return np.concatenate([self.header, self.objects.reshape(-1)])

    def mirrored(self) -> DetectionLabel:
        """Return the label of the image with left and right exchanged."""
        objects = self.objects.copy()
        objects[:, 1], objects[:, 3] = 1 - self.objects[:, 3], 1 - self.objects[:, 1]
        return self._replace(objects=objects)

    def within(self, region: Region) -> DetectionLabel:
        """Return the label of a region, which may be larger than the image: boxes end where it ends."""
        left, top, width, height = np.asarray(region, np.float32)
        objects = self.objects.copy()
        objects[:, 1:5] = (objects[:, 1:5] - np.array([left, top, left, top])) / np.array([width, height] * 2)
        objects[:, 1:3], objects[:, 3:5] = np.maximum(objects[:, 1:3], 0), np.minimum(objects[:, 3:5], 1)
        return self._replace(objects=objects)

    def areas(self) -> np.ndarray:
        """Return the areas of the boxes."""
        return (self.objects[:, 3] - self.objects[:, 1]) * (self.objects[:, 4] - self.objects[:, 2])

    def shared_areas(self, region: Region) -> np.ndarray:
        """Return the areas that the boxes have in common with a region."""
        left, top, width, height = region
        wide = np.minimum(self.objects[:, 3], left + width) - np.maximum(self.objects[:, 1], left)
        high = np.minimum(self.objects[:, 4], top + height) - np.maximum(self.objects[:, 2], top)
        return np.maximum(wide, 0) * np.maximum(high, 0)

    def centred_in(self, region: Region) -> np.ndarray:
        """Return whether the middle of each box is in a region."""
        left, top, width, height = region
        x, y = (self.objects[:, 1] + self.objects[:, 3]) / 2, (self.objects[:, 2] + self.objects[:, 4]) / 2
        return (left <= x) & (x < left + width) & (top <= y) & (y < top + height)


def detection_label(raw: np.ndarray, where: str) -> DetectionLabel:
    """Return a label from its row. where: the record's name. Raises TrainingError for anything else."""
    raw = np.asarray(raw, np.float32).reshape(-1)
    header, width = (int(number) if np.isfinite(number) else 0 for number in raw[:2]) if len(raw) > 1 else (0, 0)
    problem = None
    if len(raw) < _LEAST:
        problem = f"{len(raw)} numbers, but needs at least {_LEAST}: a header of 2 and an object of 5"
    elif not 2 <= header <= len(raw):
        problem = f"a header of {header} numbers: the first number is the header's width, 2 or more"
    elif width < 5:
        problem = f"objects of {width} numbers: the second number is an object's width, 5 or more"
    elif (len(raw) - header) % width:
        problem = f"{len(raw) - header} numbers after the header, which is not a multiple of an object's {width}"
    if problem is not None:
        raise TrainingError(
            f"{where} has no label for detection: it has {problem}",
            got=np.array2string(raw[:8], separator=", "),
            fix="Write a label as [2, 5, class, left, top, right, bottom, class, …], boxes relative to the image.",
        )
    objects = raw[header:].reshape(-1, width)
    return DetectionLabel(raw[:header], objects[(objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])])
