"""GluonCV 0.10.5, GluonNLP 0.10 and GluonTS 0.14 on `lowering.mx`: `python -m tests.peers.libraries`.

The interpreter has the three libraries; nothing of them is kept here. `import mxnet` is `lowering.mx`, and NumPy has
again the names that it dropped in its version 2. What GluonCV would download is made. The parts:

- cv-traces: every network of GluonCV's list builds, hybridises and infers its shapes.
- cv-outputs, nlp-outputs: from parameters that MXNet wrote, networks give MXNet's outputs within 1e-5 of the largest,
  and export the same bytes. They need `--mxnet PYTHON`, an interpreter with MXNet 1.9.1, GluonCV and GluonNLP.
- nlp-steps: five steps of Adam have MXNet's losses, and end at its parameters. They need it, too.
- ts-trains: estimators of GluonTS train for three epochs with falling loss, and predict.

`reasons.toml` lists what is not expected to pass, each with its reason. The command fails where anything else fails,
and where one that is listed passes.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from symjax_nnvm import load_arrays
from tests.peers.run import Row, report
from tests.peers.scripts import START, Script, command

HERE = Path(__file__).parent
OURS = (sys.executable, "-W", "ignore", "-m", "lowering.mx")

CV = (
    # classification
    *("resnet18_v1", "resnet50_v2", "se_resnet18_v1", "resnest14", "vgg11_bn", "alexnet", "densenet121", "dla34"),
    *("shufflenet_v1", "squeezenet1.0", "googlenet", "inceptionv3", "xception", "mobilenetv2_0.25", "darknet53"),
    *("mobilenetv3_small", "cifar_resnext29_32x4d", "nasnet_4_1056", "residualattentionnet56", "resnext50_32x4d"),
    *("resnet50_v1d_0.11", "hrnet_w18_small_v1_c"),
    # detection
    *(
        "ssd_300_vgg16_atrous_voc",
        "ssd_512_mobilenet1.0_voc",
        "yolo3_mobilenet0.25_coco",
        "center_net_resnet18_v1b_voc",
    ),
    *("faster_rcnn_resnet50_v1b_voc", "faster_rcnn_fpn_resnet50_v1b_coco", "mask_rcnn_fpn_resnet18_v1b_coco"),
    *("center_net_resnet18_v1b_dcnv2_voc",),
    # segmentation
    *("fcn_resnet50_voc", "psp_resnet50_ade", "deeplab_resnet50_ade", "icnet_resnet50_citys", "fastscnn_citys"),
    *("danet_resnet50_citys",),
    # poses
    *("simple_pose_resnet18_v1b", "mobile_pose_mobilenetv3_small", "alpha_pose_resnet101_v1b_coco"),
    # actions
    *("inceptionv1_ucf101", "resnet18_v1b_sthsthv2", "c3d_kinetics400", "p3d_resnet50_kinetics400"),
    *("r2plus1d_resnet18_kinetics400", "i3d_inceptionv1_kinetics400", "slowfast_4x16_resnet50_kinetics400"),
    # tracking, depth
    *("siamrpn_alexnet_v2_otb15", "monodepth2_resnet18_kitti_stereo_640x192"),
)
"""GluonCV's networks whose outputs are compared: some of each family."""
NLP = (
    *("bert", "bert_classifier", "bert_base", "roberta", "distilbert", "transformer", "standard_lstm", "awd_lstm"),
    *("big_rnn", "elmo"),
)
STEPS = ("bert", "bert_classifier", "transformer", "standard_lstm", "big_rnn")
TS = ("SimpleFeedForwardEstimator", "DeepAREstimator", "TemporalFusionTransformerEstimator", "MQCNNEstimator")


TOLERANCES = {"outputs.npz": (1e-5, 0.0), "net-0005.params": (1e-4, 1e-3)}
"""How far arrays may be apart, of the largest value, or of the second number where that is larger: a step of Adam."""

NEAR = 20
"""How many places away a box is looked for."""


def run(python: Sequence[str], seconds: int, *words: str) -> tuple[bool, str]:
    """Run a task of networks.py. Returns whether it ended well, and what it said."""
    script = Script("", "", old=True, seconds=seconds)
    with tempfile.TemporaryDirectory() as folder:
        return command([*python, START, str(HERE / "networks.py"), *words], Path(folder), script, until="")


def traced(names: Sequence[str], seconds: int) -> Iterator[Row]:
    """A row for each network of GluonCV's list."""
    yield from written("traces", 600 * seconds, str(seconds), *names)


def written(task: str, seconds: int, *words: str) -> list[Row]:
    """The rows that a task of ours writes. A process that dies gives a row of its own."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows")
        well, said = run(OURS, seconds, task, str(rows), *words)
        lines = rows.read_text(encoding="utf-8").splitlines() if rows.exists() else []
    ended = [] if well else [Row(words[0], "failed", _last(said), 0.0)]
    return [Row(**json.loads(line)) for line in lines] + ended


def _last(said: str) -> str:
    """The last line of what a process said."""
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def compared(task: str, library: str, names: Sequence[str], mxnet: str, seconds: int) -> Iterator[Row]:
    """A row for each network: MXNet's run of it beside ours, on parameters that MXNet wrote."""
    for name in names:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            problem, said = beside(
                task, [library, name, str(Path(folder, "first.params"))], mxnet, seconds, Path(folder)
            )
        row = Row(name, "failed" if problem else "passed", problem or said, round(time.monotonic() - began, 1))
        print(" ".join(map(str, row)), file=sys.stderr, flush=True)
        yield row


def beside(task: str, words: Sequence[str], mxnet: str, seconds: int, folder: Path) -> tuple[str, str]:
    """What differs between the runs of a task, empty where nothing does; and figures. words: its first arguments."""
    live = (mxnet, "-W", "ignore")
    folders = Path(folder, "mxnet"), Path(folder, "ours")
    for path in folders:
        path.mkdir()
    runs = (live, "first", ()), (live, task, [str(folders[0])]), (OURS, task, [str(folders[1])])
    for python, each, further in runs:
        well, text = run(python, seconds, each, *words, *further)
        if not well:
            return f"{'ours' if python is OURS else 'MXNet'}: {_last(text)}", ""
    return difference(*folders)


def difference(theirs: Path, ours: Path) -> tuple[str, str]:
    """What differs between the files of two runs, empty where nothing does; and how far the arrays are apart."""
    names = sorted(path.name for path in theirs.iterdir())
    if names != sorted(path.name for path in ours.iterdir()):
        return f"files: {sorted(path.name for path in ours.iterdir())}, MXNet's {names}", ""
    problems, figures = [], []
    for name in names:
        if name.endswith("symbol.json"):
            same = _same_symbol(theirs / name, ours / name)
            figures += [f"{name} alike"] if same else []
            problems += [] if same else [f"{name} differs"]
            continue
        expected, actual = _arrays(theirs / name), _arrays(ours / name)
        if list(expected) != list(actual):
            problems.append(f"{name}: {list(actual)}, MXNet's {list(expected)}")
            continue
        if name == "outputs.npz":
            actual = _in_order(expected, actual)
        within, least = TOLERANCES.get(name, (0.0, 0.0))
        distance = max(_apart(expected[key], actual[key], least) for key in expected)
        figures.append(f"{name} {distance:.1e}")
        problems += [] if distance <= within else [f"{name} {distance:.1e} of the largest apart"]
    return "; ".join(problems), "; ".join(figures)


def _arrays(path: Path) -> dict[Any, np.ndarray]:
    """The arrays of a file, by name or number."""
    arrays = load_arrays(path)
    pairs = arrays.items() if isinstance(arrays, dict) else enumerate(arrays)
    return {name: np.asarray(array) for name, array in pairs}


def _in_order(expected: dict[Any, np.ndarray], actual: dict[Any, np.ndarray]) -> dict[Any, np.ndarray]:
    """Outputs of a detector, (1, boxes, …), with the boxes in the order of others.

    Boxes stand in the order of their scores, and rounding swaps those whose scores are alike: a box is looked for among
    the next ones.
    """
    counts = {array.shape[:2] for array in (*expected.values(), *actual.values())}
    if len(expected) < 2 or len(counts) > 1 or len(next(iter(counts))) < 2 or next(iter(counts))[0] != 1:
        return actual
    rows, others = (
        np.concatenate([values.reshape(values.shape[1], -1) for values in arrays.values()], axis=1)
        for arrays in (expected, actual)
    )
    if rows.shape != others.shape:
        return actual
    shifts = range(-NEAR, NEAR + 1)
    distances = [np.abs(rows - np.roll(others, shift, axis=0)).max(axis=1) for shift in shifts]
    order = (np.arange(len(rows)) - np.array(shifts)[np.argmin(distances, axis=0)]) % len(rows)
    return {key: array[:, order] for key, array in actual.items()}


def _same_symbol(theirs: Path, ours: Path) -> bool:
    """Whether symbol files have the same bytes.

    But for the addresses of objects: a constant's initialiser has its own in its name, and MXNet writes the one of an
    initialiser in the attributes of an operator, for which ours is written out.
    """
    texts = [re.sub(r"(Constant_\w+_)\d{9,}", r"\1", path.read_text(encoding="utf-8")) for path in (theirs, ours)]
    if " object at 0x" in texts[0]:
        texts = [re.sub(r'"__init__": "(?:\\.|[^"\\])*"', '"__init__"', text) for text in texts]
    return texts[0] == texts[1]


def _apart(expected: np.ndarray, actual: np.ndarray, least: float) -> float:
    """The largest difference of two arrays, of the largest value of the first, or of `least` where that is larger."""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return np.inf
    if np.array_equal(expected, actual):
        return 0.0
    scale = max(float(np.abs(expected.astype(np.float64)).max()), least)
    return float(np.abs(expected.astype(np.float64) - actual).max()) / (scale or 1.0)


def main() -> int:
    """Returns 1 where a result is not as the list says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=("cv", "nlp", "ts"), help="cv, nlp, ts, or parts of their names")
    parser.add_argument("--mxnet", help="an interpreter that has MXNet 1.9.1, GluonCV and GluonNLP")
    parser.add_argument("--seconds", type=int, default=90, help="for building a network; ten times that for a run")
    parser.add_argument("--out", type=Path, help="a file for a line of JSON for each network")
    parser.add_argument("--names", nargs="*", help="of networks; default: all")
    options = parser.parse_args()

    def chosen(names: Sequence[str]) -> list[str]:
        return [name for name in names if not options.names or name in options.names]

    longest, mxnet = 10 * options.seconds, options.mxnet
    parts = {"cv-traces": lambda: traced(options.names or (), options.seconds)}
    if mxnet:
        parts["cv-outputs"] = lambda: compared("outputs", "cv", chosen(CV), mxnet, longest)
        parts["nlp-outputs"] = lambda: compared("outputs", "nlp", chosen(NLP), mxnet, longest)
        parts["nlp-steps"] = lambda: compared("steps", "nlp", chosen(STEPS), mxnet, longest)
    parts["ts-trains"] = lambda: (row for name in chosen(TS) for row in written("trains", longest, name))
    asked = [part for part in parts if any(part.startswith(word) for word in options.only)]
    return report(((part, parts[part]()) for part in asked), HERE / "reasons.toml", options.out)


if __name__ == "__main__":
    sys.exit(main())
