"""Checkpoints: the state of a run and where it stands in its data, in a directory that is never half written.

Orbax writes each checkpoint into a temporary directory and renames it when it is whole, in the background; older ones
go when a newer one is there. What is stored: `state` (params, frozen and aux by name, the optimiser's arrays by their
path, the key's data, the step) and `about` (shapes and dtypes of all these, and the position), which is JSON.
One run at a time writes into a directory (`run_lock.py`).

Of several processes each writes and reads what its devices hold; process 0 does what is done once for all: it holds the
directory, renames and tidies. All of them make the same calls.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from lowering.messages.migration_hints import with_migration_hints
from lowering.training.processes import is_of_network, on_first, run_in_daemon
from lowering.training.run_lock import TIDYING, RunLock
from lowering.training.state import TrainState
from symjax_nnvm.errors import CheckpointError, missing_extra

_FORMAT = 1
_LISTED = 20
"""Differences of one kind that an error lists."""

_TEMPORARY = ".orbax-checkpoint-tmp"
_REPLACED = ".replaced"
"""The end of the name under which a checkpoint waits until the one that replaces it is whole."""

_REASON = re.compile(r"os_error_code=\\?'(\d{1,5})")
"""The system's number in tensorstore's errors, which are some hundred characters long."""

# What Orbax raises when a file cannot be written or read: tensorstore's failures are ValueErrors.
_FAILURES = (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError)


class Checkpoints:
    """The newest checkpoints of a run, in a directory.

    `fit`, or the first `save`, takes the directory for its run until that ends or is closed. Another run's `save` is
    then an error that names the first.

    Args:
        directory: the directory.
        keep: the number of checkpoints to keep.
        every: the number of steps between two checkpoints in `Trainer.fit`, which continues from the latest one it
            finds.
        asynchronous: write while training goes on, and wait only for the copy from the device. This holds in `fit` and
            in a `with` block, whose ends wait for the last checkpoint; any other `save` waits until it is written.

    Raises:
        MissingExtraError: the package Orbax is not installed.
        CheckpointError: the directory cannot be used.
    """

    @with_migration_hints("Checkpoints", "lowering.Checkpoints('folder', keep=3, every=100)")
    def __init__(self, directory: str | os.PathLike[str], keep: int = 3, every: int = 100, asynchronous: bool = True):
        for name, value in (("keep", keep), ("every", every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise CheckpointError(
                    "keep and every must be whole numbers", param=name, expected="1 or more", got=repr(value)
                )
        self.directory = Path(os.path.abspath(directory))
        self.keep = keep
        self.every = every
        self.asynchronous = asynchronous
        self._saving: int | None = None
        self._inside = False
        self._lock = RunLock(self.directory)
        self._shares = False
        self._run: dict[str, Any] = {}
        self._team_lives: Callable[[], None] | None = None
        self._open()

    @contextmanager
    def claim(self, run: Mapping[str, Any], team_lives: Callable[[], None] | None = None) -> Iterator[None]:
        """Take the directory for a run inside a `with` block.

        Args:
            run: plain data about the run, which is stored with checkpoints and shown to other runs.
            team_lives: with several processes, a function that raises JaxRuntimeError when one is lost. It is called
                while this one waits for the others' parts of a checkpoint; such errors leave all methods as they are.

        Raises:
            CheckpointError: another run holds the directory (the message has that run's data), or it cannot be written
                to.
        """
        was_held, inside = self._held, self._inside
        self._run = dict(run)
        self._take()
        self._inside, self._team_lives = True, team_lives
        try:
            yield
        finally:
            self._inside, self._team_lives = inside, None
            if not was_held:
                self._let_go()

    def abandon(self) -> None:
        """Stop waiting for saves: another process that took part in one is lost."""
        self._saving = None
        self._let_go()

    def save(self, step: int, state: TrainState, position: Mapping[str, Any]) -> None:
        """Write a checkpoint.

        It first waits for the previous checkpoint, and warns if that one could not be written. A checkpoint of the same
        step is replaced when the new one is complete.

        Args:
            step: the number of steps taken.
            state: the state.
            position: plain data, which `restore` returns.

        Raises:
            CheckpointError: it cannot be written; older checkpoints are intact.
        """
        self._take()
        try:
            self.wait()
        except CheckpointError as error:
            warnings.warn(str(error), stacklevel=2)
        ocp = self._ocp
        tree = _tree(state)
        about = {
            "format": _FORMAT,
            "key": str(jax.random.key_impl(state.key)) if _is_key(state.key) else None,
            "arrays": {path: [list(leaf.shape), str(leaf.dtype)] for path, leaf in _listed(tree)},
            "position": dict(position),
            "run": self._run,
        }
        self._saving = step
        try:
            self._check_writable(sum(leaf.nbytes for _, leaf in _listed(tree)) // jax.process_count())
            if step in self._manager.all_steps():
                on_first(lambda: self._set_aside(step), "set the older checkpoint of this step aside")
                self._manager.reload()
            items = ocp.args.Composite(state=ocp.args.StandardSave(tree), about=ocp.args.JsonSave(about))
            run_in_daemon(lambda: self._manager.save(step, args=items, force=True), self._team_lives)
        except _FAILURES as error:
            self._raise_lost(error)
            raise self._failed(error) from error
        if not (self.asynchronous and self._inside):
            self.wait()

    def restore(self, like: TrainState | None = None) -> tuple[TrainState, dict[str, Any]] | None:
        """Return the state and position of the latest checkpoint; None when there is none.

        Args:
            like: a state of the model, which must have the same arrays; the restored arrays are placed like them.
                Without it the optimiser's state is a dict of its arrays by path.

        Raises:
            CheckpointError: the checkpoint cannot be read, or differs from `like`; the message lists the differences.
        """
        step = self.latest()
        if step is None:
            return None
        ocp, where = self._ocp, self.directory / str(step)
        try:
            about = self._manager.restore(step, args=ocp.args.Composite(about=ocp.args.JsonRestore()))["about"]
            arrays = {path: (tuple(shape), dtype) for path, (shape, dtype) in about["arrays"].items()}
            position, impl, stored_format = about["position"], about["key"], about["format"]
        except _FAILURES as error:
            self._raise_lost(error)
            raise _unreadable(where, error) from error
        if stored_format != _FORMAT:
            raise CheckpointError(f"{where} was written by another version", expected=_FORMAT, got=stored_format)
        if like is not None:
            _check_same(where, arrays, {path: (leaf.shape, str(leaf.dtype)) for path, leaf in _listed(_tree(like))})
        try:
            target = None if like is None else jax.tree.map(_abstract, _tree(like))
            tree = self._manager.restore(step, args=ocp.args.Composite(state=ocp.args.StandardRestore(target)))["state"]
        except _FAILURES as error:
            self._raise_lost(error)
            raise _unreadable(where, error) from error
        return _state(tree, like, impl), position

    def latest(self) -> int | None:
        """Return the step of the latest checkpoint; None when there is none."""
        self.wait()
        if not self._held:  # another run may be writing
            self._manager.reload()
        return self._manager.latest_step()

    def wait(self) -> None:
        """Wait until the last checkpoint is written; if it could not be, raise CheckpointError."""
        try:
            if self._team_lives is None:
                self._manager.wait_until_finished()
            else:
                run_in_daemon(self._manager.wait_until_finished, self._team_lives)
        except _FAILURES as error:
            self._raise_lost(error)
            raise self._failed(error) from error
        if self._saving is not None and jax.process_index() == 0:
            shutil.rmtree(self.directory / f"{self._saving}{_REPLACED}", ignore_errors=True)
        self._saving = None

    def close(self) -> None:
        """Wait for the last checkpoint and release the directory; if it could not be written, raise CheckpointError."""
        try:
            self.wait()
        finally:
            self._manager.close()
            self._let_go()

    def __enter__(self) -> Checkpoints:
        self._inside = True
        return self

    def __exit__(self, *_: object) -> None:
        self._inside = False
        self.close()

    def _open(self) -> None:
        """Open the directory and remove what interrupted saves left there, unless a run is writing into it."""
        try:
            import orbax.checkpoint as ocp
        except ImportError as error:
            raise missing_extra(str(error), "checkpoints") from error
        self._ocp = ocp
        policies = ocp.checkpoint_managers
        options = ocp.CheckpointManagerOptions(
            preservation_policy=policies.LatestN(self.keep),
            enable_async_checkpointing=self.asynchronous,
        )
        try:
            on_first(self._prepare, "prepare the directory of checkpoints")
            self._manager = ocp.CheckpointManager(self.directory, options=options)
        except _FAILURES as error:
            raise CheckpointError(f"The directory {self.directory} cannot be used for checkpoints: {error}") from error

    def _prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._tidy()

    def _set_aside(self, step: int) -> None:
        os.rename(self.directory / str(step), self.directory / f"{step}{_REPLACED}")

    def _take(self) -> None:
        """Take the directory, and find the checkpoints that the run before left in it."""
        if self._held:
            return
        on_first(self._take_lock, f"take {self.directory} for this run")
        self._shares = True
        self._manager.reload()

    @property
    def _held(self) -> bool:
        """Return whether this run has the directory: process 0 for all of its processes."""
        return self._lock.held if jax.process_index() == 0 else self._shares

    def _let_go(self) -> None:
        self._shares = False
        self._lock.let_go()

    def _take_lock(self) -> None:
        try:
            self._lock.take(self._run)
        except OSError as error:
            raise CheckpointError(
                f"The directory {self.directory} cannot be written to: {_reason(error)}. Give another one."
            ) from error
        self._tidy()

    def _tidy(self) -> None:
        """Remove what interrupted saves left, and put back what they were to replace; not in a run's directory."""
        was_held = self._lock.held
        try:
            self._lock.take({TIDYING: True})
        except (CheckpointError, OSError):  # another run's, or read-only
            return
        try:
            for path in self.directory.iterdir():
                if _TEMPORARY in path.name:
                    shutil.rmtree(path, ignore_errors=True)
            for path in self.directory.glob(f"*{_REPLACED}"):
                if path.with_suffix("").exists():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    with suppress(OSError):  # it has become read-only: the next run that can write will do it
                        os.rename(path, path.with_suffix(""))
        finally:
            if not was_held:
                self._lock.let_go()

    def _check_writable(self, size: int) -> None:
        """Raise OSError if no folder, or no file of this size, can be made. It is checked before Orbax starts threads,
        which would wait for the folder and log a page each."""
        probe = self.directory / f"{secrets.token_hex(8)}{_TEMPORARY}"
        probe.mkdir()
        try:
            file = os.open(probe / "room", os.O_CREAT | os.O_WRONLY)
            try:
                _take_room(file, size)
            finally:
                os.close(file)
        finally:
            shutil.rmtree(probe, ignore_errors=True)

    def _raise_lost(self, error: BaseException) -> None:
        """Raise an error of the connection to other processes as it is: nothing is the matter with the checkpoint."""
        if self._team_lives is not None and is_of_network(error):
            raise error

    def _failed(self, error: BaseException) -> CheckpointError:
        """Return the error of a save; Orbax's own list of checkpoints, which is wrong by now, is read again."""
        step, self._saving = self._saving, None
        if jax.process_count() == 1:  # the others would not open it again
            self._open_again()
        older = sorted(self._manager.all_steps())
        return CheckpointError(
            f"The checkpoint of step {step} could not be written to {self.directory}: {_reason(error)}. "
            + (f"Those of steps {', '.join(map(str, older))} are intact. " if older else "There is no older one. ")
            + "The state in memory is intact too: make room, or make the directory writable, and save again."
        )

    def _open_again(self) -> None:
        with suppress(*_FAILURES):  # what failed may fail once more
            self._manager.close()
        self._open()


def _take_room(file: int, size: int) -> None:
    """Reserve as many bytes on the disk, which takes no time. Raises OSError where there is no room for them."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, max(size, 1))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # others: a file system that cannot reserve
                raise


def _reason(error: BaseException) -> str:
    """Return the system's message for an error, or else the beginning of Orbax's."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error) or type(error).__name__
    match = _REASON.search(text)
    return os.strerror(int(match[1])) if match else text.splitlines()[0][:300]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> jax.Array:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _tree(state: TrainState) -> dict[str, Any]:
    """Return a state as dicts of arrays by name, which is what is stored."""
    optimizer, _ = jax.tree_util.tree_flatten_with_path(state.opt_state)
    return {
        "params": dict(state.params),
        "frozen": dict(state.frozen),
        "aux": dict(state.aux),
        "opt_state": {jax.tree_util.keystr(path): _plain(leaf) for path, leaf in optimizer},
        "key": _plain(state.key),
        "step": state.step,
    }


def _state(tree: Mapping[str, Any], like: TrainState | None, impl: str | None) -> TrainState:
    """Return the state of a stored tree."""
    opt_state = tree["opt_state"]
    if like is not None:
        leaves, structure = jax.tree_util.tree_flatten_with_path(like.opt_state)
        leaves_by_path = [(leaf, opt_state[jax.tree_util.keystr(path)]) for path, leaf in leaves]
        keys = [
            jax.random.wrap_key_data(value, impl=jax.random.key_impl(leaf)) if _is_key(leaf) else value
            for leaf, value in leaves_by_path
        ]
        opt_state = jax.tree.unflatten(structure, keys)
    key = tree["key"] if impl is None else jax.random.wrap_key_data(tree["key"], impl=impl)
    return TrainState(tree["params"], tree["frozen"], tree["aux"], opt_state, key, tree["step"])


def _listed(tree: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return (path, array) of everything in a tree: `params.fc1_weight`, `step`."""
    rows: list[tuple[str, Any]] = []
    for part, value in tree.items():
        rows += [(f"{part}.{n}", leaf) for n, leaf in value.items()] if isinstance(value, dict) else [(part, value)]
    return sorted(rows, key=lambda row: row[0])


def _abstract(leaf: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)


def _check_same(where: Path, stored: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """Raise CheckpointError that lists what differs between a checkpoint and a model."""

    def list_rows(rows: list[str]) -> str:
        return "".join(f"\n    {row}" for row in rows[:_LISTED]) + (
            f"\n    and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
        )

    both = [path for path in model if path in stored]
    kinds = {
        "missing in the checkpoint": [f"{p} {model[p][1]}{model[p][0]}" for p in model if p not in stored],
        "not in the model": [f"{p} {stored[p][1]}{stored[p][0]}" for p in stored if p not in model],
        "of another shape": [
            f"{p}: {stored[p][0]} stored, {model[p][0]} needed" for p in both if stored[p][0] != model[p][0]
        ],
        "of another dtype": [
            f"{p}: {stored[p][1]} stored, {model[p][1]} needed" for p in both if stored[p][1] != model[p][1]
        ],
    }
    if any(kinds.values()):
        listed = "".join(f"\n  {kind} ({len(rows)}):{list_rows(rows)}" for kind, rows in kinds.items() if rows)
        raise CheckpointError(
            f"The checkpoint {where} belongs to another model or optimiser:{listed}\n"
            "Use another directory; or take the parameters that fit from Checkpoints(directory).restore()[0].params."
        )


def _unreadable(where: Path, error: BaseException) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint {where} cannot be read: {_reason(error)}. Remove that directory to go on from the one before."
    )
