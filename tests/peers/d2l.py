"""Dive into Deep Learning on `lowering.mx` and on MXNet: `python -m tests.peers.d2l --source CHECKOUT --mxnet PYTHON`.

CHECKOUT is d2l-ai/d2l-en at v1.0.3; nothing of it is kept here. Its pages run as tutorials do (`tutorials.py`): of a
page the cells for MXNet, with tiny synthetic data (`book_data.py`) and with first values in place of trained ones.
Data are loaded in the page's process, and chance leaves pictures as they are. Both interpreters need pandas.

Pages whose numbers are not MXNet's:
- preliminaries/lookup-api prints the help of `np.ones`, whose text is this library's.
- generative-adversarial-networks/dcgan, natural-language-processing-pretraining/bert-pretraining and
  computational-performance/multiple-gpus-concise: MXNet's own numbers move as much where its first values differ by a
  millionth (9.436 becomes 9.457, 31.200 becomes 31.059; -0.550 becomes -0.521; one more of 32 pictures is right).
- computer-vision/fcn: at the first step MXNet's gradients in float32 are 3 % (median; at most 5.6 %) away from those
  that it computes in float64 of the same values, this library's at most 0.0005 %; in float64 both are equal.
- computer-vision/image-augmentation (a loss of 0.619, MXNet's 0.622; in a later run 0.622 and 0.621) and fine-tuning
  (0.101, 0.100) train a ResNet. multiple-gpus-concise had MXNet's numbers in that later run.
"""

import sys

from tests.peers.book_data import make_files
from tests.peers.tutorials import Pages, main

_WORDS = {
    "reshape(2000, -1)": "reshape(-1, 784)",
    "(num_batches // 5)": "(num_batches // 5 or 1)",
    "(4000, 4000)": "(200, 200)",
    "(450, 300)": "(90, 60)",
    "enumerate(feat_values)": "enumerate(sorted(feat_values))",
    "timer.cumsum(), animator.Y[0]": "[0] * len(animator.Y[0]), animator.Y[0]",
    "timer.stop()\n```": "timer.stop(); None\n```",
    "dummy_na=True)": "dummy_na=True, dtype=int)",
    "Crop(224": "Crop(64",
    "resize=(96, 96)": "resize=(32, 32)",
    "resize=(224, 224)": "resize=(96, 96)",
    "(1, 1, 224, 224)": "(1, 1, 96, 96)",
    "(320, 480)": "(64, 96)",
    "(0, 0, 480, 320)": "(0, 0, 96, 64)",
}
"""Words that suppose many data, a fast device, a clock, the order of a set in one Python, or a version of pandas."""

BOOK = Pages(make_files, "gpu old numpy", only="^chapter_", words=_WORDS, modules=("d2l/mxnet.py",))

if __name__ == "__main__":
    sys.exit(main(BOOK, __doc__))
