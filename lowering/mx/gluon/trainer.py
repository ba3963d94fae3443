"""`Trainer`: an optimiser for the parameters of blocks, which one compiled call per context updates at each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.messages.counts import check_positive, checks_flags, named_values
from lowering.mx import kv
from lowering.mx import optimizer as optimizers
from lowering.mx.context import Context
from lowering.mx.gluon.gluon_errors import BlockValueError, MismatchError, NotInitializedError, StaleGradientError
from lowering.mx.gluon.parameter_dict import ParameterDict
from lowering.mx.gluon.structure import converted
from lowering.mx.gluon.weights import Parameter
from lowering.mx.ndarray.array import CLASSIC, NDArray
from lowering.mx.shared_arguments import explained_by

_ON_STORE = "when parameters are updated on kvstore is not supported."


class Trainer:
    """Updates parameters by their gradients: `trainer.step(batch_size)` after `backward`.

    Args:
        params: `net.collect_params()`, whose parameters are sorted by name, or a list of parameters.
        optimizer: an optimiser or its name.
        optimizer_params: the parameters of a named optimiser.
        kvstore: the store that sums the gradients of several contexts or processes: a name, an object or None.
        compression_params: accepted and ignored.
        update_on_kvstore: let the store update the parameters; None: where it sums gradients.

    Raises:
        BlockValueError: an argument has a wrong value.
        MismatchError: parameters are on different contexts, or options exclude each other.
    """

    @checks_flags
    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: Mapping[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: Any = None,
        update_on_kvstore: bool | None = None,
    ):
        if isinstance(params, Mapping | ParameterDict):
            params = [params[name] for name in sorted(params.keys())]
        problem, fix = "First argument must be a list or dict of Parameters", "net.collect_params()"
        if not isinstance(params, list | tuple):
            raise BlockValueError(problem, got=type(params), fix=fix)
        for param in params:
            if not isinstance(param, Parameter):
                raise BlockValueError(problem, got=f"list of {type(param)}", fix=fix)
        self._params: list[Parameter] = list(params)
        self._param2idx = {param.name: i for i, param in enumerate(self._params)}
        for param in self._params:
            param._set_trainer(self)
        self._compression_params = compression_params
        self._contexts = self._common_contexts()
        self._optimizer = self._made_optimizer(optimizer, named_values(optimizer_params, "optimizer_params"))
        self._updaters = [optimizers.get_updater(self._optimizer) for _ in self._contexts]
        self._scale = self._optimizer.rescale_grad
        self._amp_loss_scaler: Any = None
        self._amp_original_scale = self._scale
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._forget_store()

    def _common_contexts(self) -> Sequence[Context]:
        contexts: Any = None
        for param in self._params:
            own = param.list_ctx()
            if contexts is not None and own != contexts:
                raise MismatchError(
                    "All Parameters must be initialized on the same set of contexts, but Parameter "
                    f"{param.name} is initialized on {own} while previous Parameters are initialized on {contexts}."
                )
            contexts = own
        return contexts or []

    def _made_optimizer(self, optimizer: Any, kwargs: dict[str, Any]) -> Any:
        numbered = dict(enumerate(self._params))
        if not isinstance(optimizer, optimizers.Optimizer):
            return optimizers.create(optimizer, param_dict=numbered, **kwargs)
        if kwargs:
            problem = "optimizer_params must be None if optimizer is an instance of Optimizer instead of str"
            raise MismatchError(problem, got=sorted(kwargs))
        optimizer.param_dict = numbered
        return optimizer

    # -- the store of several contexts ---------------------------------------------------------------------------------

    def _forget_store(self) -> None:
        self._kv_initialized, self._kvstore = False, None
        self._update_on_kvstore: bool | None = None
        self._distributed: bool | None = None
        self._params_to_init = list(self._params)

    def _forget_copy_of(self, param: Parameter) -> None:
        """Have the store take the parameters anew: the value of one was set."""
        if self._kv_initialized and self._update_on_kvstore and param not in self._params_to_init:
            if self._distributed:
                raise NotInitializedError("Cannot reset distributed KVStore.", fix="update_on_kvstore=False")
            self._forget_store()

    def _init_kvstore(self) -> None:
        """Make the store, if one is needed: several contexts, several processes, or an object that was given."""
        kvstore, update = self._kvstore_params["kvstore"], self._kvstore_params["update_on_kvstore"]
        named = isinstance(kvstore, str)
        sparse = any(param._stype != "default" for param in self._params)
        sparse_grads = any(param._grad_stype != "default" for param in self._params)
        if sparse and update is False:
            problem = "Cannot set update_on_kvstore=False when sparse weights are present."
            raise BlockValueError(problem, fix="Leave update_on_kvstore out, or make the parameters without stype.")
        if kvstore is None or (named and len(self._contexts) == 1 and "dist" not in kvstore and not sparse):
            store = None
        else:
            store = kv.create(kvstore) if named else kvstore
        self._distributed = store is not None and "dist" in store.type
        capable = store is not None and store.is_capable("optimizer")
        if update and store is not None and not capable:
            problem = f"{type(store).__name__} does not update parameters"
            raise BlockValueError(problem, fix="Please set update_on_kvstore=False.")
        self._kvstore = store
        preferred = capable and (sparse or not sparse_grads)
        self._update_on_kvstore = None if store is None else bool(preferred if update is None else update)
        if store is not None and self._update_on_kvstore:
            store.set_optimizer(self._optimizer)
        self._kv_initialized = True

    def _init_params(self) -> None:
        """Give the store the parameters that have values, and all contexts the first one's."""
        waiting: list[Parameter] = []
        store = self._kvstore
        for param in self._params_to_init if store is not None else ():
            if param._deferred_init:
                waiting.append(param)
            else:
                arrays = converted(param.list_data(), CLASSIC)
                store.broadcast(self._param2idx[param.name], arrays[0], arrays)  # pyright: ignore
        self._params_to_init = waiting

    def _prepare(self) -> None:
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    # -- rates -------------------------------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """Return the present learning rate."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self) -> Any:
        """Return the optimiser."""
        return self._optimizer

    def set_learning_rate(self, lr: float) -> None:
        """Change the learning rate.

        Args:
            lr: the new rate.

        Raises:
            ScheduledError: a scheduler sets the rate; the error is a UserWarning, too.
        """
        self._optimizer.set_learning_rate(lr)

    # -- steps -------------------------------------------------------------------------------------------------------

    @checks_flags
    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update the parameters; the gradients of several contexts are summed first.

        Args:
            batch_size: the number that gradients are divided by.
            ignore_stale_grad: leave out parameters whose gradient no backward pass has written since the last step.

        Raises:
            StaleGradientError: there is such a parameter; the error is a UserWarning, too.
            CountError: `batch_size` is not a number above 0; the error is a ValueError, too.
        """
        self._rescale(batch_size)
        self._prepare()
        self._allreduce_grads()
        self._update(ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Sum the gradients of several contexts, the first half of `step`; if the store updates, it raises
        MismatchError."""
        self._prepare()
        self._refuse_on_store("allreduce_grads()")
        self._allreduce_grads()

    @checks_flags
    @explained_by(step)
    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update the parameters, the second half of `step`.

        Raises:
            MismatchError: the store updates the parameters.
        """
        self._prepare()
        self._refuse_on_store("update()")
        self._rescale(batch_size)
        self._update(ignore_stale_grad)

    def _refuse_on_store(self, what: str) -> None:
        if self._kvstore is not None and self._update_on_kvstore:
            raise MismatchError(f"{what} {_ON_STORE}", fix="Set update_on_kvstore=False when creating trainer.")

    def _rescale(self, batch_size: float) -> None:
        check_positive(batch_size, "batch_size")
        scale = self._scale / batch_size
        if self._update_on_kvstore and self._distributed and self._optimizer.rescale_grad != scale:
            raise StaleGradientError(
                "batch_size cannot change while the kvstore updates the parameters", got=batch_size
            )
        self._optimizer.rescale_grad = scale

    def _allreduce_grads(self) -> None:
        if self._kvstore is None:
            return
        trained = [(i, param) for i, param in enumerate(self._params) if param.grad_req != "null"]
        keys, grads = [i for i, _ in trained], [converted(param.list_grad(), CLASSIC) for _, param in trained]
        out = [converted(param.list_data(), CLASSIC) for _, param in trained] if self._update_on_kvstore else grads
        if isinstance(self._kvstore, kv.KVStore):
            self._kvstore.pushpull(keys, grads, out=out)
            return
        for key, pushed, pulled in zip(keys, grads, out, strict=True):  # a user's store takes them one by one
            self._kvstore.pushpull(key, pushed, out=pulled, priority=-key)

    def _update(self, ignore_stale_grad: bool) -> None:
        if self._amp_loss_scaler is not None and self._amp_loss_scaler.has_overflow(self._params):
            return
        on_store = self._kvstore is not None and self._update_on_kvstore
        updates: list[list[tuple[int, NDArray, NDArray]]] = [[] for _ in self._updaters]
        trained = [(i, param) for i, param in enumerate(self._params) if param.grad_req != "null"]
        for _, param in () if ignore_stale_grad else trained:
            for array in param.list_data():
                if not array._fresh_grad:
                    raise _stale(param, array)
        for i, param in () if on_store else trained:
            for update, array, grad in zip(updates, param.list_data(), param.list_grad(), strict=True):
                if not ignore_stale_grad or array._fresh_grad:
                    update.append((i, grad, array))
                    array._fresh_grad = False
        for updater, update in zip(self._updaters, updates, strict=True):
            if update:
                updater(*map(list, zip(*update, strict=True)))

    def unscale_grads(self) -> None:
        """Multiply the gradients with the factor of `step` now, for `amp.unscale`; `step` then uses 1."""
        for param in self._params:
            for grad in param.list_grad() if param.grad_req != "null" else ():
                grad[:] *= self._scale
        self._scale = 1.0

    # -- files -------------------------------------------------------------------------------------------------------

    def save_states(self, fname: str) -> None:
        """Write the optimiser's states and counts to a file of arrays, where MXNet writes pickled Python."""
        self._prepare()
        if self._update_on_kvstore and self._params_to_init:
            raise MismatchError("Cannot save trainer states when some parameters are not yet initialized in kvstore.")
        self._updater.save(fname, counts=True)

    def load_states(self, fname: str) -> None:
        """Load what `save_states` wrote; MXNet's own files raise ParamsFormatError."""
        self._prepare()
        for updater in [self._updater] if self._update_on_kvstore else self._updaters:
            updater.load(fname)

    @property
    def _updater(self) -> Any:
        """Return the updater whose states are written: the store's, or that of the first context."""
        return self._kvstore._updater if self._kvstore is not None and self._update_on_kvstore else self._updaters[0]


def _stale(param: Parameter, array: NDArray) -> StaleGradientError:
    return StaleGradientError(
        f"Gradient of Parameter `{param.name}` on context {array.context} has not been updated by backward since last "
        "`step`. This could mean a bug in your model that made it only use a subset of the Parameters (Blocks) for "
        "this iteration",
        fix="If you are intentionally only using a subset, call step with ignore_stale_grad=True to suppress this "
        "warning and skip updating of Parameters with stale gradient.",
    )
