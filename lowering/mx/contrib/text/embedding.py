"""Vectors of words: from a file of your own, from GloVe's and fastText's files, several side by side.

Nothing is downloaded: files of GloVe and fastText are read from the folder where MXNet would have put them.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from lowering.mx import ndarray as nd
from lowering.mx import registry
from lowering.mx.base import data_dir
from lowering.mx.contrib.text.vocab import UNKNOWN, Vocabulary
from lowering.mx.ndarray import NDArray
from lowering.mx.shared_arguments import Varied
from symjax_nnvm.errors import FileError, ParamsFormatError, SymbolValueError, UnknownArrayError, listed
from symjax_nnvm.io.files import bounded_lines, open_regular, path_text

_LONGEST = 1 << 24
"""Bytes of a line."""


class _TokenEmbedding(Vocabulary):
    """A vocabulary with a vector for each token. Other words are the vocabulary's.

    pretrained_file_name_sha1: the names of a class's files, and hashes, which are not looked at.
    """

    pretrained_file_name_sha1: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._vec_len: int = 0
        self._idx_to_vec: NDArray | None = None

    # -- from files --------------------------------------------------------------------------------------------------

    @classmethod
    def _get_pretrained_file(cls, embedding_root: str, pretrained_file_name: str) -> str:
        """Return the path of a file of the class. Raises FileError where it is not there, UnknownArrayError, a
        KeyError, for an unknown name."""
        cls._check_pretrained_file_names(pretrained_file_name)
        path = os.path.join(os.path.expanduser(embedding_root), cls.__name__.lower(), pretrained_file_name)
        if not os.path.isfile(path):
            raise FileError(f"There is no file {path}, and nothing is downloaded here. Put the file there yourself.")
        return path

    @classmethod
    def _check_pretrained_file_names(cls, pretrained_file_name: str) -> None:
        files = cls.pretrained_file_name_sha1
        if pretrained_file_name not in files:
            problem = f"Cannot find pretrained file {pretrained_file_name} for token embedding {cls.__name__.lower()}"
            raise UnknownArrayError(problem, expected=f"one of {listed(files, 30)}")

    def _load_embedding(
        self, pretrained_file_path: str, elem_delim: str, init_unknown_vec: Callable[..., Any], encoding: str = "utf8"
    ) -> None:
        """Read a file: a token and its numbers on each line. The first line of a token counts; a line of one number is
        a header. init_unknown_vec: shape → the vector of unknown tokens, where the file has none.

        Raises ParamsFormatError, a ValueError, for no file; AssertionError for a line that is not vector.
        """
        path = os.path.expanduser(path_text(pretrained_file_path, "pretrained_file_path"))
        if not os.path.isfile(path):
            problem = "`pretrained_file_path` must be a valid path to the pre-trained token embedding file."
            raise ParamsFormatError(problem)
        logging.info("Loading pre-trained token embedding vectors from %s", path)
        vectors: dict[str, np.ndarray] = {}
        with open_regular(path) as file:
            for number, line in enumerate(bounded_lines(file, _LONGEST), 1):
                where = f"At line {number} of the pre-trained token embedding file {path}"
                token, *numbers = _text(line, encoding, where).rstrip().split(elem_delim)
                assert numbers, f"{where}: the data format of the pre-trained token embedding file is unexpected."
                if token in vectors:
                    warnings.warn(f"{where}: the vector of {token} is seen a second time and skipped.", stacklevel=3)
                elif len(numbers) == 1 and token != self.unknown_token:
                    warnings.warn(f"{where}: {token} {numbers[0]} is likely a header and is skipped.", stacklevel=3)
                else:
                    vectors[token] = _vector(numbers, where)
                    first = next(iter(vectors.values()))
                    assert len(numbers) == len(first), f"{where}: {token} has {len(numbers)} numbers, not {len(first)}."
        unknown = vectors.pop(self.unknown_token, None)
        self._idx_to_token += list(vectors)
        self._token_to_idx = {token: i for i, token in enumerate(self._idx_to_token)}
        rows = list(vectors.values())
        self._vec_len = len(rows[0]) if rows else 0
        if unknown is None:
            unknown = np.asarray(init_unknown_vec(shape=self._vec_len))
        # Reserved tokens that the file lacks get the unknown token's vector.
        ahead = len(self._idx_to_token) - len(rows)
        self._idx_to_vec = nd.array(np.stack([unknown] * ahead + rows))

    # -- for a vocabulary ----------------------------------------------------------------------------------------------

    def _take(self, vocabulary: Vocabulary, embeddings: list[_TokenEmbedding]) -> None:
        """Have the tokens of a vocabulary, with the vectors of embeddings side by side. Raises AssertionError for what
        is not a vocabulary."""
        problem = "The argument `vocabulary` must be an instance of mxnet.contrib.text.vocab.Vocabulary."
        assert isinstance(vocabulary, Vocabulary), problem
        tokens = vocabulary.idx_to_token
        parts = [
            np.concatenate([embedding.vectors[:1].asnumpy(), embedding.get_vecs_by_tokens(tokens[1:]).asnumpy()])
            if len(tokens) > 1
            else embedding.vectors[:1].asnumpy()
            for embedding in embeddings
        ]
        self._idx_to_token, self._token_to_idx = list(tokens), dict(vocabulary.token_to_idx)
        self._unknown_token, self._reserved_tokens = vocabulary.unknown_token, vocabulary.reserved_tokens
        self._idx_to_vec = nd.array(np.concatenate(parts, 1))
        self._vec_len = self._idx_to_vec.shape[1]

    @property
    def vec_len(self) -> int:
        """Return the length of a vector."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> NDArray | None:
        """Return the vectors (tokens, length) by the tokens' numbers."""
        return self._idx_to_vec

    @property
    def vectors(self) -> NDArray:
        """Return the same. Raises AssertionError where there are none."""
        assert self._idx_to_vec is not None, "The property `idx_to_vec` has not been properly set."
        return self._idx_to_vec

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> NDArray:
        """Return the vector of a token, or (n, length) of a list; the unknown token's for others.

        lower_case_backup: look for a token that is not known in lower case, too.
        """
        listed_tokens = tokens if isinstance(tokens, list) else [tokens]

        def number(token: Any) -> int:
            index = self._token_to_idx.get(token)
            backup = token.lower() if lower_case_backup else token
            return self._token_to_idx.get(backup, UNKNOWN) if index is None else index

        vectors = nd.array(self.vectors.asnumpy()[[number(token) for token in listed_tokens]])
        return vectors if isinstance(tokens, list) else vectors[0]

    def update_token_vectors(self, tokens: Any, new_vectors: NDArray) -> None:
        """Change the vectors of tokens. new_vectors: (n, length), or (length,) of one.

        Raises AssertionError for other shapes, SymbolValueError, a ValueError, for a token that is not known.
        """
        vectors, several = self.vectors, tokens if isinstance(tokens, list) else [tokens]
        dims = (2,) if len(several) > 1 else (1, 2)
        problem = (
            f"`new_vectors` must be an NDArray of {' or '.join(map(str, dims))} dimensions for {len(several)} tokens."
        )
        assert isinstance(new_vectors, NDArray), problem
        assert new_vectors.ndim in dims, problem
        rows = new_vectors.asnumpy().reshape(-1, new_vectors.shape[-1])
        shape = (len(several), self.vec_len)
        assert rows.shape == shape, f"The shape of new_vectors must be {shape}, not {rows.shape}."
        unknown = [token for token in several if token not in self._token_to_idx]
        if unknown:
            fix = f"To change the vector of unknown tokens, use the token {self.unknown_token!r}."
            raise SymbolValueError(f"Token {unknown[0]} is unknown", fix=fix)
        changed = vectors.asnumpy()
        changed[[self._token_to_idx[token] for token in several]] = rows
        vectors[:] = changed


register = registry.get_register_func(_TokenEmbedding, "token embedding")
create = registry.get_create_func(_TokenEmbedding, "token embedding")


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """The names of the files of a class of embeddings, or a dict of them by class. Raises UnknownArrayError, a
    KeyError, for an unknown name."""
    files = {name: list(cls.pretrained_file_name_sha1) for name, cls in registry.get_registry(_TokenEmbedding).items()}
    if embedding_name is None:
        return files
    if embedding_name not in files:
        raise UnknownArrayError(f"Cannot find `embedding_name` {embedding_name}", expected=f"one of {listed(files)}")
    return files[embedding_name]


class _OfFile(Varied, _TokenEmbedding):
    """Holds vectors of a named file in embedding_root, by default `$MXNET_HOME/embeddings`."""

    def __init__(
        self,
        pretrained_file_name: str = "",
        embedding_root: str | None = None,
        init_unknown_vec: Callable[..., Any] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ):
        root = (
            os.path.join(data_dir(), "embeddings")
            if embedding_root is None
            else path_text(embedding_root, "embedding_root")
        )
        path = self._get_pretrained_file(root, pretrained_file_name)
        super().__init__(**kwargs)
        self._load_embedding(path, " ", init_unknown_vec)
        if vocabulary is not None:
            self._take(vocabulary, [self])


@register
class GloVe(_OfFile, pretrained_file_name="glove.840B.300d.txt"):
    """GloVe's vectors (Pennington, Socher, Manning 2014), of a file in `embeddings/glove`. Raises FileError."""

    pretrained_file_name_sha1: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            "glove.42B.300d.txt",
            *(f"glove.6B.{size}d.txt" for size in (50, 100, 200, 300)),
            "glove.840B.300d.txt",
            *(f"glove.twitter.27B.{size}d.txt" for size in (25, 50, 100, 200)),
        ),
        "",
    )


class _AnyName(dict[str, str]):
    """fastText has some 300 files, named like `wiki.{language}.vec`: any such name is accepted."""

    def __contains__(self, name: object) -> bool:
        return str(name).endswith(".vec")


@register
class FastText(_OfFile, pretrained_file_name="wiki.simple.vec"):
    """fastText's vectors (Bojanowski et al. 2016), of a file in `embeddings/fasttext`. Raises FileError."""

    pretrained_file_name_sha1: ClassVar[Mapping[str, str]] = _AnyName(
        dict.fromkeys(("crawl-300d-2M.vec", "wiki.en.vec", "wiki.simple.vec"), "")
    )


class CustomEmbedding(_TokenEmbedding):
    """Vectors of a file of your own: on each line a token and its numbers, elem_delim between them.

    init_unknown_vec: shape → the vector of unknown tokens. vocabulary: keep only its tokens. Raises ParamsFormatError,
    AssertionError.
    """

    def __init__(
        self,
        pretrained_file_path: str,
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: Callable[..., Any] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        if vocabulary is not None:
            self._take(vocabulary, [self])


class CompositeEmbedding(_TokenEmbedding):
    """The tokens of a vocabulary, with the vectors of one or several embeddings side by side. Raises AssertionError."""

    def __init__(self, vocabulary: Vocabulary, token_embeddings: Any):
        super().__init__()
        embeddings = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for embedding in embeddings:
            assert isinstance(embedding, _TokenEmbedding), "The argument `token_embeddings` must be embeddings."
        self._take(vocabulary, embeddings)


def _text(line: bytes, encoding: str, where: str) -> str:
    """Return a line as text. Raises ParamsFormatError."""
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        raise ParamsFormatError(f"{where}: {error}", fix="Pass the encoding of the file as encoding=.") from None


def _vector(numbers: list[str], where: str) -> np.ndarray:
    """Return words as numbers. Raises ParamsFormatError."""
    try:
        return np.array([float(number) for number in numbers], np.float32)
    except ValueError as error:
        raise ParamsFormatError(f"{where}: {error}", fix="Pass the separator between numbers as elem_delim=.") from None
