"""A language model of LSTM layers over sentences of several lengths: BucketingModule, BucketSentenceIter, mx.rnn."""

import random

import mxnet as mx
import numpy as np

WORDS = ["<eos>", "the", "cat", "dog", "sees", "chases", "a", "small", "bird", "tree", "and"]


def sentences(count):
    """Sentences by a little grammar: 'the small cat sees a bird and the dog chases a tree'."""
    rng = np.random.RandomState(0)

    def noun():
        return [
            "the" if rng.rand() < 0.5 else "a",
            *(["small"] * (rng.rand() < 0.4)),
            rng.choice(WORDS[2:4] + WORDS[8:10]),
        ]

    def clause():
        return [*noun(), rng.choice(["sees", "chases"]), *noun()]

    return [[*clause(), *(["and", *clause()] if rng.rand() < 0.5 else []), "<eos>"] for _ in range(count)]


@mx.init.register
class Wave(mx.init.Initializer):
    """Weights that any library computes alike."""

    def _init_weight(self, name, arr):
        arr[:] = 0.2 * np.sin(np.arange(arr.size) * 1.7 + len(name)).reshape(arr.shape)


def main():
    random.seed(5)
    np.random.seed(5)
    coded, vocab = mx.rnn.encode_sentences(sentences(120), start_label=1, invalid_label=0)
    train = mx.rnn.BucketSentenceIter(coded, batch_size=8, buckets=[7, 14], invalid_label=0)

    stack = mx.rnn.SequentialRNNCell()
    for layer in range(2):
        stack.add(mx.rnn.LSTMCell(num_hidden=12, prefix=f"lstm_l{layer}_"))

    def network(length):
        data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
        embedded = mx.sym.Embedding(data, input_dim=len(vocab), output_dim=8, name="embed")
        stack.reset()
        outputs, _ = stack.unroll(length, inputs=embedded, merge_outputs=True)
        scores = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, 12)), num_hidden=len(vocab), name="pred")
        label = mx.sym.Reshape(label, shape=(-1,))
        return (
            mx.sym.SoftmaxOutput(scores, label, name="softmax", use_ignore=True, ignore_label=0),
            ("data",),
            ("softmax_label",),
        )

    model = mx.mod.BucketingModule(network, default_bucket_key=train.default_bucket_key, context=mx.cpu())
    seen = []
    model.fit(
        train,
        eval_metric=mx.metric.Perplexity(0),
        num_epoch=2,
        optimizer="adam",
        optimizer_params={"learning_rate": 0.02, "clip_gradient": 5.0},
        initializer=Wave(),
        batch_end_callback=lambda param: seen.append(param.eval_metric.get()[1]),
    )
    args, _ = model.get_params()
    apart = stack.unpack_weights(args)
    return {
        "perplexity": seen,
        "score": dict(model.score(train, mx.metric.Perplexity(0))),
        "weights": {name: float(np.abs(value.asnumpy()).sum()) for name, value in sorted(apart.items())},
        "words": len(vocab),
    }


if __name__ == "__main__":
    print(main())
