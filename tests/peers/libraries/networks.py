"""Build, run and train networks of GluonCV, GluonNLP and GluonTS: `PYTHON script_start.py networks.py TASK …`.

`python -m tests.peers.libraries` starts it. MXNet 1.9.1 runs this file, too, on Python 3.8: it imports nothing of the
project. A task is a function of this file; its arguments are texts.
"""

import importlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from typing import Any

import numpy as np


def module(name) -> Any:
    """A module of a library."""
    return importlib.import_module(name)


mx = module("mxnet")


def picture(*shape):
    """Uniform values of this shape."""
    return mx.nd.array(np.random.RandomState(0).uniform(size=shape).astype("f"))


def words(count, *shape):
    """Numbers of words of a vocabulary of `count`."""
    return mx.nd.array(np.random.RandomState(0).randint(0, count, shape))


# ---------------------------------------------------------------------------------------------------------- GluonCV

SHAPES = {
    r"^siamrpn": [(1, 3, 127, 127), (1, 3, 287, 287)],
    r"^ssd_300": [(1, 3, 300, 300)],
    r"rcnn_fpn": [(1, 3, 128, 128)],  # of few boxes: rounding swaps those whose scores are alike
    r"^(ssd_512|faster|mask|doublehead|custom|center)": [(1, 3, 512, 512)],
    r"^yolo": [(1, 3, 416, 416)],
    r"^fastscnn": [(1, 3, 1024, 1024)],
    r"^(fcn|psp|deeplab|danet|icnet|hrnet.*_s$)": [(1, 3, 480, 480)],
    r"pose": [(1, 3, 256, 192)],
    r"^monodepth": [(1, 3, 192, 640)],
    r"^cifar": [(1, 3, 32, 32)],
    r"^i3d": [(1, 3, 32, 224, 224)],
    r"^slowfast_16x8": [(1, 3, 128, 224, 224)],
    r"^slowfast": [(1, 3, 64, 224, 224)],
    r"^(c3d|p3d|r2plus1d)": [(1, 3, 16, 112, 112)],
    r"^inceptionv3.*int8": [(3, 3, 299, 299)],  # of a video's three pictures; ResNets take seven
    r"^vgg16_ucf101_int8": [(3, 3, 224, 224)],
    r"^resnet.*kinetics400_int8": [(7, 3, 224, 224)],
    r"^inceptionv3|^xception": [(1, 3, 299, 299)],
    r"": [(1, 3, 224, 224)],
}
"""What the inputs of GluonCV's networks look like, by a pattern of the name; the first that matches counts."""

ARGUMENTS = {
    r"custom": {"classes": ["a", "b"]},
    r"^(i3d|slowfast).*(custom|ucf101|hmdb51|sthsthv2)": {"nclass": 2, "use_kinetics_pretrain": False},
    r"^(vgg16|inceptionv1|inceptionv3)_(ucf|hmdb|kinetics|sthsth)": {"pretrained_base": True},
}
"""What further arguments GluonCV's networks need, by a pattern of the name; the first that matches counts."""


def cv_network(name):
    """A network of GluonCV without pretrained parameters."""
    zoo = module("gluoncv.model_zoo")
    store = module("gluoncv.model_zoo.model_store")
    store.get_model_file = cv_file
    given = next((value for pattern, value in ARGUMENTS.items() if re.search(pattern, name)), {})
    try:
        return zoo.get_model(name, pretrained=False, **dict({"pretrained_base": False}, **given))
    except (TypeError, Warning) as error:
        if "got" not in str(error) and "kwargs" not in str(error):
            raise
        return zoo.get_model(name, pretrained=False, **given)


def cv_file(name, tag=None, root=None):
    """A file of parameters in place of what GluonCV would download."""
    path = os.path.join(tempfile.gettempdir(), f"{name}-{os.getpid()}.params")
    if name == "vgg16_atrous":  # no network of the list; all of its parameters may be missing
        mx.nd.save(path, {})
    elif not os.path.exists(path):
        net = cv_network(name)
        net.hybridize()
        net.infer_shape(*cv_inputs(name))
        net.initialize()
        net.save_parameters(path)
    return path


def cv_inputs(name):
    """Arrays for a network of GluonCV."""
    shapes = next(shapes for pattern, shapes in SHAPES.items() if re.search(pattern, name))
    return [picture(*shape) for shape in shapes]


def traces(rows, seconds, *names):
    """Build, hybridise and infer the shapes of GluonCV's networks; a line of JSON in the file `rows` for each.

    names: default: all of the library's list.
    """

    def too_long(signum, frame):
        raise TimeoutError(f"longer than {seconds} s")

    signal.signal(signal.SIGALRM, too_long)
    zoo = module("gluoncv.model_zoo")
    for name in names or list(zoo.get_model_list()):
        began, said = time.time(), ""
        signal.alarm(int(seconds))
        try:
            net = cv_network(name)
            net.hybridize()
            net.infer_shape(*cv_inputs(name))
            unknown = [each.name for each in net.collect_params().values() if not each.shape or 0 in each.shape]
            if unknown:
                said = "no shape: " + " ".join(unknown)
        except Exception as error:  # the networks' own faults are of any class
            said = f"{type(error).__name__}: {error}".split("\n")[0]
        finally:
            signal.alarm(0)
        row = {"test": name, "outcome": "failed" if said else "passed", "said": said}
        with open(rows, "a") as file:
            file.write(json.dumps(dict(row, seconds=round(time.time() - began, 2))) + "\n")


# --------------------------------------------------------------------------------------------------------- GluonNLP


def vocabulary(size=50):
    """A vocabulary of words "0", "1", ..."""
    nlp = module("gluonnlp")
    return nlp.Vocab(nlp.data.count_tokens([str(number) for number in range(size)]))


def bert():
    """BERT with a pooler, a classifier and a decoder, of 2 layers."""
    nlp = module("gluonnlp")
    encoder = nlp.model.BERTEncoder(
        units=64, hidden_size=128, num_layers=2, num_heads=4, max_length=32, dropout=0.0, prefix="encoder_"
    )
    net = nlp.model.BERTModel(encoder, vocab_size=100, token_type_vocab_size=2, units=64, embed_size=64, prefix="bert_")
    places = mx.nd.array([[1, 2], [3, 4]])
    return net, [words(100, 2, 16), words(2, 2, 16), mx.nd.array([16, 9]), places]


def bert_classifier():
    """BERT for classes of sentences."""
    nlp = module("gluonnlp")
    encoder = nlp.model.BERTEncoder(
        units=64, hidden_size=128, num_layers=2, num_heads=4, max_length=32, dropout=0.0, prefix="encoder_"
    )
    sizes = {"vocab_size": 100, "token_type_vocab_size": 2, "units": 64, "embed_size": 64}
    inner = nlp.model.BERTModel(encoder, use_decoder=False, use_classifier=False, prefix="bert_", **sizes)
    net = nlp.model.BERTClassifier(inner, num_classes=3, dropout=0.0, prefix="classes_")
    return net, [words(100, 2, 16), words(2, 2, 16), mx.nd.array([16, 9])]


def bert_base():
    """`bert_12_768_12`, as the library's `get_model` gives it."""
    net, _ = module("gluonnlp").model.get_model(
        "bert_12_768_12", dataset_name=None, vocab=vocabulary(), pretrained=False, prefix="bert_"
    )
    return net, [words(50, 1, 16), words(2, 1, 16), mx.nd.array([9]), mx.nd.array([[1, 2]])]


def roberta():
    """`roberta_12_768_12`, as the library's `get_model` gives it."""
    nlp = module("gluonnlp")
    name = "roberta_12_768_12"
    net, _ = nlp.model.get_model(name, dataset_name=None, vocab=vocabulary(), pretrained=False, prefix="roberta_")
    return net, [words(50, 1, 16), mx.nd.array([9]), mx.nd.array([[1, 2]])]


def distilbert():
    """`distilbert_6_768_12`, as the library's `get_model` gives it."""
    nlp = module("gluonnlp")
    name = "distilbert_6_768_12"
    net, _ = nlp.model.get_model(name, dataset_name=None, vocab=vocabulary(), pretrained=False, prefix="distil_")
    return net, [words(50, 1, 16), mx.nd.array([9])]


def transformer():
    """A transformer for translation, of 2 small layers."""
    nlp = module("gluonnlp")
    encoder, decoder, one_step = nlp.model.transformer.get_transformer_encoder_decoder(
        num_layers=2, num_heads=4, units=64, hidden_size=128, dropout=0.0, prefix="transformer_"
    )
    sizes = {"embed_size": 64, "embed_dropout": 0.0, "tie_weights": True, "share_embed": True}
    own = vocabulary()
    net = nlp.model.translation.NMTModel(own, own, encoder, decoder, one_step, prefix="transformer_", **sizes)
    return net, [words(50, 2, 12), words(50, 2, 10), mx.nd.array([12, 7]), mx.nd.array([10, 6])]


def standard_lstm():
    """`standard_lstm_lm_200` without dropout."""
    nlp = module("gluonnlp")
    net, _ = nlp.model.standard_lstm_lm_200(vocab=vocabulary(), dropout=0.0, prefix="standard_")
    return net, [words(50, 8, 3), net.begin_state(batch_size=3, func=mx.nd.zeros)]


def awd_lstm():
    """`awd_lstm_lm_600` without dropout of inputs; outside of training weights are not dropped."""
    net, _ = module("gluonnlp").model.awd_lstm_lm_600(vocab=vocabulary(), prefix="awd_")
    return net, [words(50, 8, 3), net.begin_state(batch_size=3, func=mx.nd.zeros)]


def big_rnn():
    """`big_rnn_lm_2048_512`: cells with projections, unrolled."""
    net, _ = module("gluonnlp").model.big_rnn_lm_2048_512(
        vocab=vocabulary(), embed_dropout=0.0, encode_dropout=0.0, hparam_allow_override=True, prefix="big_"
    )
    return net, [words(50, 6, 2), net.begin_state(batch_size=2, func=mx.nd.zeros)]


def elmo():
    """`elmo_2x1024_128_2048cnn_1xhighway`: characters, convolutions, highways, two directions."""
    net, _ = module("gluonnlp").model.get_model(
        "elmo_2x1024_128_2048cnn_1xhighway", dataset_name=None, pretrained=False, prefix="elmo_"
    )
    states = net.begin_state(mx.nd.zeros, batch_size=2)
    return net, [words(200, 2, 5, 50), states]


def network(library, name):
    """A network, and the arrays that it is called with: GluonNLP's are functions of this file."""
    return (cv_network(name), cv_inputs(name)) if library == "cv" else globals()[name]()


def first(library, name, parameters):
    """Write the parameters of a network to a file: of first values that start_alike draws.

    Scales and variances are ones, also where GluonCV takes parts of a network apart and forgets their initialisers.
    """
    net, inputs = network(library, name)
    net.initialize()
    net(*inputs)
    for param in net.collect_params().values():
        if param.name.endswith(("gamma", "running_var", "moving_var")):
            param.set_data(mx.nd.ones(param.shape))
    net.save_parameters(parameters)


def loaded(library, name, parameters):
    """A network with the parameters of a file, hybridised and called once; its inputs, and outputs."""
    net, inputs = network(library, name)
    net.load_parameters(parameters)
    net.hybridize()
    return net, inputs, net(*inputs)


def outputs(library, name, parameters, folder):
    """Write the outputs of a network, and what it exports, to a folder."""
    net, _, values = loaded(library, name, parameters)
    np.savez(os.path.join(folder, "outputs.npz"), *[each.asnumpy() for each in flat(values)])
    exported(net, folder, "net")


def flat(value):
    """The arrays in nested lists, in order."""
    if isinstance(value, (list, tuple)):
        return [array for each in value for array in flat(each)]
    return [] if value is None else [value]


def exported(net, folder, name):
    """Export a block, or the blocks in it that can be."""
    try:
        net.export(os.path.join(folder, name))
    except (AttributeError, RuntimeError):  # a Block, or one that was not called as a whole
        for key in net._children:
            exported(net._children[key], folder, f"{name}.{key}")


def steps(library, name, parameters, folder):
    """Write the losses of five steps of Adam, and the parameters after them, to a folder."""
    net, inputs, _ = loaded(library, name, parameters)
    # A larger epsilon than Adam's: rounding alone moves a gradient that is zero in theory.
    optimizer = "bertadam" if name.startswith("bert") else "adam"
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 1e-3, "epsilon": 1e-3})
    losses = []
    for _ in range(5):
        with mx.autograd.record():
            loss = mx.nd.add_n(*[(each**2).mean() for each in flat(net(*inputs))])
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    np.savez(os.path.join(folder, "outputs.npz"), np.array(losses))
    net.save_parameters(os.path.join(folder, "net-0005.params"))


# ---------------------------------------------------------------------------------------------------------- GluonTS

ESTIMATORS = {
    "SimpleFeedForwardEstimator": {},
    "DeepAREstimator": {"freq": "D", "num_layers": 1, "num_cells": 16},
    "TemporalFusionTransformerEstimator": {"freq": "D", "hidden_dim": 16},
    "MQCNNEstimator": {"freq": "D"},
}
"""What is trained of GluonTS: its arguments."""


def trains(rows, name):
    """Train an estimator of GluonTS for three epochs, and predict: a line of JSON in the file `rows`."""
    began = time.time()
    ts = module("gluonts.mx")
    trainers = module("gluonts.mx.trainer.callback")
    common = module("gluonts.dataset.common")
    days, draws = np.arange(300), np.random.RandomState(0)
    series = [np.sin(days / 12 * 2 * np.pi + i) + 0.1 * draws.randn(300) + i for i in range(4)]
    data = common.ListDataset([{"target": each, "start": "2020-01-01"} for each in series], freq="D")
    history = trainers.TrainingHistory()
    trainer = ts.Trainer(epochs=3, num_batches_per_epoch=20, callbacks=[history])
    estimator = getattr(ts, name)(prediction_length=12, context_length=24, trainer=trainer, **ESTIMATORS[name])
    predictor = estimator.train(data)
    forecasts = [each.quantile(0.5) for each in predictor.predict(data)]
    losses = [float(each) for each in history.loss_history]
    falls = len(losses) == 3 and losses[0] > losses[1] > losses[2]
    finite = len(forecasts) == 4 and all(each.shape == (12,) and np.isfinite(each).all() for each in forecasts)
    said = f"losses {np.round(losses, 4)}; forecasts {'finite' if finite else 'not'}"
    outcome = "passed" if falls and finite else "failed"
    row = {"test": name, "outcome": outcome, "said": said, "seconds": round(time.time() - began, 2)}
    with open(rows, "a") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    TASKS = {each.__name__: each for each in (traces, first, outputs, steps, trains)}
    TASKS[sys.argv[1]](*sys.argv[2:])
