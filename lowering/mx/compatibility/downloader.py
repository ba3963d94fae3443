"""The one downloader, of `gluon.utils.download` and `test_utils`: files arrive whole and checked, or not at all."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable

from symjax_nnvm.errors import CallError, FileError
from symjax_nnvm.io.files import StrPath, atomic_write

MOST = 4 << 30
"""Bytes of a download, of all files of an archive, or of a file that is unpacked, at most."""

_PATIENCE = 30.0
"""Seconds to wait for an answer."""
_BLOCK = 1 << 20
_BUSY = (408, 425, 429)
"""HTTP statuses after which another try may succeed."""
_OF_URLS = "!#$%&'()*+,/:;=?@[]~"
"""Characters that stay as they are in a URL; a space or a letter of another alphabet is written as a browser does."""


class ChecksumError(FileError, UserWarning):
    """A downloaded file whose SHA-1 is not the expected one. MXNet raises a UserWarning."""


def require_url(url: str) -> str:
    """Return the URL. Raises CallError for anything that is not text."""
    if not isinstance(url, str):
        raise CallError(
            "url must be the address of a file", expected="text", got=f"{url!r:.80} of type {type(url).__name__}"
        )
    return url


def fetch(
    url: str,
    path: str,
    retries: int,
    *,
    sha1_hash: str | None = None,
    verify_ssl: bool = True,
    in_full: bool = False,
) -> None:
    """Write what a URL gives to a path, whose folder is made.

    retries: how often to try, at least once; again only where another try may do better. in_full: print each try and
    why it failed. Raises ChecksumError, and FileError, which names the file's path; both keep an older file.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    for attempts_left in range(max(retries, 1) - 1, -1, -1):
        if in_full:
            print(f"Downloading {path} from {url}...")
        try:
            return _fetch_once(url, path, sha1_hash, verify_ssl)
        except (OSError, ValueError, EOFError, zlib.error, http.client.HTTPException) as error:
            # no network, no such host or file; no URL; what is packed is cut off or broken
            if not attempts_left or _is_final(error):
                if isinstance(error, FileError):
                    raise
                problem = (
                    f"{url} cannot be downloaded: {error}. Get it elsewhere and put it at {os.path.abspath(path)}."
                )
                raise FileError(problem) from None
            reason = f" due to {error!r}" if in_full else ""
            print(f"download failed{reason}, retrying, {attempts_left} attempt{'s' if attempts_left > 1 else ''} left")


def _fetch_once(url: str, path: str, sha1_hash: str | None, verify_ssl: bool) -> None:
    context = ssl.create_default_context()
    if not verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    quoted = urllib.parse.quote(url, safe=_OF_URLS)
    with urllib.request.urlopen(quoted, timeout=_PATIENCE, context=context) as answer:
        match answer.headers.get("Content-Encoding", "identity").strip().lower():  # although the request accepts none
            case "gzip" | "x-gzip":
                with gzip.GzipFile(fileobj=answer) as unpacked:
                    copy_bounded(unpacked.read, path, url, sha1_hash=sha1_hash)
            case "deflate":
                copy_bounded(_inflating(answer.read), path, url, sha1_hash=sha1_hash)
            case "identity" | "":
                size = _size(answer.headers.get("Content-Length"))
                copy_bounded(answer.read, path, url, size=size, sha1_hash=sha1_hash)
            case packing:
                problem = f"{url} comes packed by {packing!r:.80}, which is not unpacked here"
                raise FileError(f"{problem}. Get it by another program and put it at {os.path.abspath(path)}.")


def _inflating(read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Return what reads the unpacked bytes of deflate, with zlib's head, as it should be, or without, as some servers
    send it. It raises zlib.error, and EOFError where bytes are missing."""
    packed = read(2)
    has_head = len(packed) == 2 and packed[0] & 15 == 8 and int.from_bytes(packed, "big") % 31 == 0
    unpacking = zlib.decompressobj(zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS)

    def unpacked(count: int) -> bytes:
        nonlocal packed
        while not unpacking.eof:
            packed = packed or read(count)
            if not packed:
                raise EOFError("what is packed by deflate is cut off")
            block = unpacking.decompress(packed, count)
            packed = unpacking.unconsumed_tail
            if block:
                return block
        return b""

    return unpacked


def _size(length: str | None) -> int | None:
    """Return the number of bytes that a header announces, or None without a number."""
    return int(length) if length and length.isdecimal() and length.isascii() else None


def _is_final(error: Exception) -> bool:
    """Return whether another try would fail alike: an unknown host, a file that is missing or too large, a path that
    cannot be written to, an invalid URL."""
    match error:
        case urllib.error.HTTPError():
            return error.code < 500 and error.code not in _BUSY
        case urllib.error.URLError():
            return any(words in str(error.reason) for words in ("Name or service", "unknown url type"))
        case http.client.InvalidURL():
            return True
        case ChecksumError():
            return False
        case OSError():
            return isinstance(error, FileError) or error.filename is not None
    return isinstance(error, ValueError)


def copy_bounded(
    read: Callable[[int], bytes],
    path: StrPath,
    source: object,
    *,
    size: int | None = None,
    sha1_hash: str | None = None,
) -> None:
    """Write what is read to a file. size: how many bytes come. Raises FileError for more than 4 GiB, ChecksumError,
    OSError where bytes are missing; all leave what was there."""
    count, sha1 = 0, hashlib.sha1()
    with atomic_write(path) as file:
        while block := read(_BLOCK):
            count += len(block)
            if count > MOST:
                raise FileError(f"{source} has more than {MOST} bytes. Unpack it with another program.")
            sha1.update(block)
            file.write(block)
        if size is not None and count != size:
            raise ConnectionError(f"only {count} of {size} bytes arrived")
        if sha1_hash and sha1.hexdigest() != sha1_hash:
            raise ChecksumError(
                f"File {path} is downloaded but the content hash does not match. The repo may be outdated.",
                expected=f"SHA-1 {sha1_hash}",
                got=sha1.hexdigest(),
            )
