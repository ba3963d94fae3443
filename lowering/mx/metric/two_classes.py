"""What `F1().metrics` is: how often each of two classes was taken for which, and the scores of these counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TwoClasses:
    """Counts of class 1 (positive) against class 0: those of the log line, and `global_…` those since `reset`."""

    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    true_negatives: int = 0
    global_true_positives: int = 0
    global_false_positives: int = 0
    global_false_negatives: int = 0
    global_true_negatives: int = 0

    @property
    def total_examples(self) -> int:
        """How many labels were seen."""
        return sum(self._counts(False))

    @property
    def global_total_examples(self) -> int:
        """How many since `reset`."""
        return sum(self._counts(True))

    @property
    def precision(self) -> float:
        """Share of the positive outputs that are right; 0.0 where there are none."""
        return _share(self.true_positives, self.false_positives)

    @property
    def global_precision(self) -> float:
        """The same since `reset`."""
        return _share(self.global_true_positives, self.global_false_positives)

    @property
    def recall(self) -> float:
        """Share of the positive labels that were found; 0.0 where there are none."""
        return _share(self.true_positives, self.false_negatives)

    @property
    def global_recall(self) -> float:
        """The same since `reset`."""
        return _share(self.global_true_positives, self.global_false_negatives)

    @property
    def fscore(self) -> float:
        """Return the harmonic mean of precision and recall; 0.0 where both are."""
        return _harmonic_mean(self.precision, self.recall)

    @property
    def global_fscore(self) -> float:
        """The same since `reset`."""
        return _harmonic_mean(self.global_precision, self.global_recall)

    def matthewscc(self, use_global: bool = False) -> float:
        """Matthews' correlation coefficient, in which an empty row or column counts as 1; 0.0 where nothing was seen.
        use_global: since `reset`."""
        true_pos, false_pos, false_neg, true_neg = self._counts(use_global)
        root = 1.0
        for size in (true_pos + false_pos, true_pos + false_neg, true_neg + false_pos, true_neg + false_neg):
            root *= size**0.5 or 1.0
        return (true_pos * true_neg - false_pos * false_neg) / root

    def _counts(self, use_global: bool) -> tuple[int, int, int, int]:
        if use_global:
            positives = self.global_true_positives, self.global_false_positives
            return *positives, self.global_false_negatives, self.global_true_negatives
        return self.true_positives, self.false_positives, self.false_negatives, self.true_negatives


def _share(right: int, wrong: int) -> float:
    return right / (right + wrong) if right + wrong else 0.0


def _harmonic_mean(a: float, b: float) -> float:
    return 2 * a * b / (a + b) if a + b else 0.0
