"""`mx.contrib.text`: tokens counted, numbered, and given vectors of files."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx

text = mx.contrib.text
VECTORS = "a 0.1 0.2 0.3\nb 1 2 3\nc 4 5 6\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file of three words."""
    file = tmp_path / "vectors.txt"
    file.write_text(VECTORS)
    return str(file)


def test_counts():
    source = " Life is great ! \n life is good . \n"
    expected = {"!": 1, ".": 1, "good": 1, "great": 1, "is": 2, "life": 2}
    assert text.utils.count_tokens_from_str(source, to_lower=True) == expected
    counter = Counter({"is": 1})
    assert text.utils.count_tokens_from_str("*Life*is*|*is*", r"\*", r"\|", counter_to_update=counter) is counter
    assert counter == {"Life": 1, "is": 3}


def test_vocabularies():
    counter = Counter(["a", "b", "b", "c", "c", "c", "some_word$"])
    vocabulary = text.vocab.Vocabulary(counter, most_freq_count=3, reserved_tokens=["<pad>", "b"])
    assert vocabulary.idx_to_token == ["<unk>", "<pad>", "b", "c", "a", "some_word$"]
    assert len(vocabulary) == 6
    assert (vocabulary.unknown_token, vocabulary.reserved_tokens) == ("<unk>", ["<pad>", "b"])
    assert vocabulary.to_indices("c") == vocabulary.token_to_idx["c"] == 3
    assert vocabulary.to_indices(["a", "other"]) == [4, 0]
    assert vocabulary.to_tokens([0, 3]) == ["<unk>", "c"]
    assert vocabulary.to_tokens(1) == "<pad>"
    assert text.vocab.Vocabulary(counter, most_freq_count=2).idx_to_token == ["<unk>", "c", "b"]
    assert text.vocab.Vocabulary(counter, min_freq=2, unknown_token="?").idx_to_token == ["?", "c", "b"]
    assert text.vocab.Vocabulary().reserved_tokens is None
    for wrong in (6, 1.0, [0, 9]):
        with pytest.raises(ValueError, match="is invalid"):
            vocabulary.to_tokens(wrong)
    for options in (
        {"min_freq": 0},
        {"reserved_tokens": ["<unk>"]},
        {"reserved_tokens": ["x", "x"]},
        {"counter": {"a": 1}},
    ):
        with pytest.raises(AssertionError):
            text.vocab.Vocabulary(**options)  # pyright: ignore[reportArgumentType]


def test_a_file_of_ones_own(path: str):
    embedding = text.embedding.CustomEmbedding(path, init_unknown_vec=mx.nd.ones)
    assert (embedding.vec_len, embedding.idx_to_token) == (3, ["<unk>", "a", "b", "c"])
    assert embedding.idx_to_vec is embedding.vectors
    assert embedding.vectors.shape == (4, 3)
    found = embedding.get_vecs_by_tokens(["c", "unknown", "a"]).asnumpy()
    np.testing.assert_allclose(found, [[4, 5, 6], [1, 1, 1], [0.1, 0.2, 0.3]], rtol=1e-6)
    assert embedding.get_vecs_by_tokens("B").asnumpy().tolist() == [1, 1, 1]
    assert embedding.get_vecs_by_tokens("B", lower_case_backup=True).asnumpy().tolist() == [1, 2, 3]
    embedding.update_token_vectors("a", mx.nd.array([7, 8, 9]))
    embedding.update_token_vectors(["b", "<unk>"], mx.nd.array([[0, 0, 1], [0, 2, 0]]))
    assert embedding.vectors.asnumpy().tolist() == [[0, 2, 0], [7, 8, 9], [0, 0, 1], [4, 5, 6]]
    with pytest.raises(ValueError, match="Token other is unknown"):
        embedding.update_token_vectors("other", mx.nd.ones(3))
    for tokens, vectors in ((["a", "b"], mx.nd.ones(3)), ("a", mx.nd.ones(2)), ("a", np.ones(3))):
        with pytest.raises(AssertionError, match="new_vectors"):
            embedding.update_token_vectors(tokens, vectors)  # pyright: ignore[reportArgumentType]
    vocabulary = text.vocab.Vocabulary(Counter(["c", "z"]), reserved_tokens=["<pad>"])
    fitted = text.embedding.CustomEmbedding(path, vocabulary=vocabulary)
    assert (fitted.idx_to_token, fitted.reserved_tokens) == (["<unk>", "<pad>", "c", "z"], ["<pad>"])
    assert fitted.vectors.asnumpy().tolist() == [[0, 0, 0], [0, 0, 0], [4, 5, 6], [0, 0, 0]]
    assert text.embedding.CustomEmbedding(path, vocabulary=text.vocab.Vocabulary()).vectors.shape == (1, 3)


def test_several_side_by_side(path: str):
    first, second = (text.embedding.CustomEmbedding(path, init_unknown_vec=make) for make in (mx.nd.zeros, mx.nd.ones))
    both = text.embedding.CompositeEmbedding(text.vocab.Vocabulary(Counter(["b"])), [first, second])
    assert both.vectors.asnumpy().tolist() == [[0, 0, 0, 1, 1, 1], [1, 2, 3, 1, 2, 3]]
    assert text.embedding.CompositeEmbedding(text.vocab.Vocabulary(Counter(["b"])), first).vec_len == 3
    with pytest.raises(AssertionError, match="must be embeddings"):
        text.embedding.CompositeEmbedding(text.vocab.Vocabulary(), [3])
    with pytest.raises(AssertionError, match="must be an instance of mxnet.contrib.text.vocab.Vocabulary"):
        text.embedding.CompositeEmbedding({}, first)  # pyright: ignore[reportArgumentType]


def test_odd_lines(tmp_path: Path):
    file = tmp_path / "v.txt"
    file.write_bytes("3 1\nä;1;2\nä;3;4\n<unk>;5;6\n".replace("3 1", "3;1").encode("latin-1"))
    with pytest.warns(UserWarning, match="header|second time") as told:
        embedding = text.embedding.CustomEmbedding(str(file), ";", "latin-1")
    assert ["header" in str(each.message) for each in told] == [True, False]
    assert "line 3" in str(told[1].message)
    assert embedding.idx_to_token == ["<unk>", "ä"]
    assert embedding.vectors.asnumpy().tolist() == [[5, 6], [1, 2]]
    for content, words in (("a\n", "unexpected"), ("a 1 2\nb 1 2 3\n", "b has 3 numbers, not 2")):
        file.write_text(content)
        with pytest.raises(AssertionError, match=words):
            text.embedding.CustomEmbedding(str(file))
    with pytest.raises(ValueError, match="must be a valid path"):
        text.embedding.CustomEmbedding(str(tmp_path / "none.txt"))


def test_files_that_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = text.embedding.get_pretrained_file_names()
    assert {"glove", "fasttext"} <= set(names)
    assert names["glove"] == text.embedding.get_pretrained_file_names("glove")
    assert "glove.6B.50d.txt" in names["glove"]
    with pytest.raises(KeyError, match="Cannot find `embedding_name`"):
        text.embedding.get_pretrained_file_names("unknown")
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    for cls, name in (("glove", "glove.6B.50d.txt"), ("fasttext", "wiki.de.vec")):
        with pytest.raises(OSError, match=r"There is no file .*, and nothing is downloaded"):
            text.embedding.create(cls, pretrained_file_name=name)
        folder = tmp_path / "embeddings" / cls
        folder.mkdir(parents=True)
        (folder / name).write_text(VECTORS)
        vocabulary = text.vocab.Vocabulary(Counter("b"))
        made = text.embedding.create(cls, pretrained_file_name=name, vocabulary=vocabulary)
        assert made.vectors.asnumpy().tolist() == [[0, 0, 0], [1, 2, 3]]
    with pytest.raises(KeyError, match="Cannot find pretrained file glove.txt"):
        text.embedding.GloVe("glove.txt")
    with pytest.raises(KeyError, match="Cannot find pretrained file wiki.txt"):
        text.embedding.FastText("wiki.txt")

    @text.embedding.register
    class Own(text.embedding._TokenEmbedding):
        pretrained_file_name_sha1 = {"own.txt": "0"}  # noqa: RUF012

        def __init__(self, path: Any, **kwargs: Any):
            super().__init__(**kwargs)
            self._load_embedding(path, " ", mx.nd.zeros)

    made = text.embedding.create("own", path=str(folder / name), reserved_tokens=["<pad>"])
    assert isinstance(made, Own)
    assert made.get_vecs_by_tokens(["<pad>", "a", "b"]).asnumpy()[[0, 2]].tolist() == [[0, 0, 0], [1, 2, 3]]
    assert text.embedding.get_pretrained_file_names("own") == ["own.txt"]


@pytest.mark.parametrize(("line", "words"), [(b"b 1 x 3", "'x'"), (b"\xff 1 2 3", "codec can't decode")])
def test_a_line_that_is_no_text_or_has_no_numbers_is_told(tmp_path: Path, line: bytes, words: str):
    (tmp_path / "vectors.txt").write_bytes(b"a 1 2 3\n" + line + b"\n")
    with pytest.raises(ValueError, match=f"At line 2 .*{words}") as raised:
        text.embedding.CustomEmbedding(str(tmp_path / "vectors.txt"))
    assert isinstance(raised.value, mx.MXNetError)
