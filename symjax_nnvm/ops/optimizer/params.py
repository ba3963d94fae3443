"""Parameters of the optimisers' updates: of one weight, and of many."""

from __future__ import annotations

from symjax_nnvm.ir.params import MAX_COUNT, Params, Tuple, param

Floats = tuple[float, ...]

LR = "learning rate"
WD = "weight decay: the gradient of wd · weight² / 2 is added"
MOMENTUM = "share of the last step that is taken again"
RESCALE = "factor of the gradient"
CLIP = "largest magnitude of an element of the rescaled gradient; negative: unlimited"
CLIP_WEIGHTS = "largest magnitude of an element of the new weight; negative: unlimited"
LAZY = "in mx.nd's sgd_update, sgd_mom_update and adam_update a row_sparse gradient updates only its own rows"
SIGN = "without effect: only the gradient's sign counts"
MEAN = "share of the old value in the moving average of the gradient"
VAR = "share of the old value in the moving average of the squared gradient"
EPSILON = "keeps the divisor away from 0"
BIAS = "make up for the moving averages having started at 0"
COUNT = "number of weights"

UNCOUNTED = "an update of weights, small beside their gradients"
"""Why the updates have no FFlops."""

# -- of one weight ---------------------------------------------------------------------------------------------------


class SGDParams(Params):
    lr: float = param(doc=LR)
    wd: float = param(0.0, doc=WD)
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)
    lazy_update: bool = param(True, doc=LAZY)


class NAGMomParams(Params):
    lr: float = param(doc=LR)
    momentum: float = param(0.0, doc=MOMENTUM)
    wd: float = param(0.0, doc=WD)
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)


class SGDMomParams(NAGMomParams):
    lazy_update: bool = param(True, doc=LAZY)


class SignSGDParams(Params):
    lr: float = param(doc=LR)
    wd: float = param(0.0, doc=WD)
    rescale_grad: float = param(1.0, doc=SIGN)
    clip_gradient: float = param(-1.0, doc=SIGN)


class SignumParams(Params):
    lr: float = param(doc=LR)
    momentum: float = param(0.0, doc=MEAN)
    wd: float = param(0.0, doc=WD)
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)
    wd_lh: float = param(0.0, doc="weight decay that bypasses the momentum, as Loshchilov and Hutter have it")


class AdamParams(Params):
    lr: float = param(doc=LR)
    beta1: float = param(0.899999976, doc=MEAN)
    beta2: float = param(0.999000013, doc=VAR)
    epsilon: float = param(9.99999994e-09, doc=EPSILON)
    wd: float = param(0.0, doc=WD)
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)
    lazy_update: bool = param(True, doc=LAZY)


class AdamWParams(Params):
    lr: float = param(doc=LR)
    beta1: float = param(0.899999976, doc=MEAN)
    beta2: float = param(0.999000013, doc=VAR)
    epsilon: float = param(9.99999994e-09, doc=EPSILON)
    wd: float = param(0.0, doc="weight decay, which bypasses the moving averages")
    eta: float = param(doc="the schedule's factor of learning rate and weight decay")
    clip_gradient: float = param(-1.0, doc=CLIP)


class FTMLParams(Params):
    lr: float = param(gt=0, doc=LR)
    beta1: float = param(0.600000024, ge=0, le=1, doc=MEAN)
    beta2: float = param(0.999000013, ge=0, le=1, doc=VAR)
    epsilon: float = param(9.9999999392252903e-09, doc=EPSILON)
    t: int = param(ge=1, doc="number of this update, from 1")
    wd: float = param(0.0, doc=WD)
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_grad: float = param(-1.0, doc=CLIP)


class FtrlParams(Params):
    lr: float = param(doc=LR)
    lamda1: float = param(0.00999999978, doc="L1 regularisation")
    beta: float = param(1.0, doc="lowers the learning rate of elements whose gradients have been small")
    wd: float = param(0.0, doc="L2 regularisation")
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)


class RMSPropParams(Params):
    lr: float = param(doc=LR)
    gamma1: float = param(0.949999988, doc=VAR)
    epsilon: float = param(9.99999994e-09, doc=EPSILON)
    wd: float = param(0.0, doc=WD)
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)
    clip_weights: float = param(-1.0, doc=CLIP_WEIGHTS)


class RMSPropAlexParams(Params):
    lr: float = param(doc=LR)
    gamma1: float = param(
        0.949999988, doc="share of the old value in the moving averages of the gradient and its square"
    )
    gamma2: float = param(0.899999976, doc="share of the last step that is taken again")
    epsilon: float = param(9.99999994e-09, doc=EPSILON)
    wd: float = param(0.0, doc=WD)
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)
    clip_weights: float = param(-1.0, doc=CLIP_WEIGHTS)


class LambPhase1Params(Params):
    beta1: float = param(0.899999976, ge=0, le=1, doc=MEAN)
    beta2: float = param(0.999000013, ge=0, le=1, doc=VAR)
    epsilon: float = param(9.99999997e-07, doc=EPSILON)
    t: int = param(ge=1, doc="number of this update, from 1")
    bias_correction: bool = param(True, doc=BIAS)
    wd: float = param(doc="weight decay, which bypasses the moving averages")
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)


class LambPhase2Params(Params):
    lr: float = param(doc=LR)
    lower_bound: float = param(-1.0, doc="smallest norm of the weight; negative: none")
    upper_bound: float = param(-1.0, doc="largest norm of the weight; negative: none")


# -- of many weights -------------------------------------------------------------------------------------------------


class _ManyParams(Params):
    """Tuples among the parameters have a number for each weight; the last parameter is the number of weights."""

    def check(self) -> str | None:
        (*_, (count, expected)) = vars(self).items()
        for name, value in vars(self).items():
            if isinstance(value, tuple) and len(value) != expected:
                numbers = f"{len(value)}: {value}"
                return f"Parameter {name} has one number for each of {count}={expected} weights, got {numbers}"
        return None


class MultiSGDParams(_ManyParams):
    lrs: Floats = param(doc="learning rate of each weight")
    wds: Floats = param(doc="weight decay of each weight")
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)
    num_weights: int = param(1, ge=1, le=MAX_COUNT, doc=COUNT)


class MultiSGDMomParams(_ManyParams):
    lrs: Floats = param(doc="learning rate of each weight")
    wds: Floats = param(doc="weight decay of each weight")
    momentum: float = param(0.0, doc=MOMENTUM)
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)
    num_weights: int = param(1, ge=1, le=MAX_COUNT, doc=COUNT)


class PreloadedMultiSGDParams(Params):
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)
    num_weights: int = param(1, ge=1, le=MAX_COUNT, doc=COUNT)


class PreloadedMultiSGDMomParams(Params):
    momentum: float = param(0.0, doc=MOMENTUM)
    rescale_grad: float = param(1.0, doc=RESCALE)
    clip_gradient: float = param(-1.0, doc=CLIP)
    num_weights: int = param(1, ge=1, le=MAX_COUNT, doc=COUNT)


class MultiAdamWParams(_ManyParams):
    lrs: Floats = param(doc="learning rate of each weight")
    beta1: float = param(0.899999976, doc=MEAN)
    beta2: float = param(0.999000013, doc=VAR)
    epsilon: float = param(9.99999994e-09, doc=EPSILON)
    wds: Floats = param(doc="weight decay of each weight")
    etas: Floats = param(doc="the schedule's factor of each weight")
    clip_gradient: float = param(-1.0, doc=CLIP)
    num_weights: int = param(1, ge=1, le=MAX_COUNT, doc=COUNT)


class MultiLambParams(_ManyParams):
    learning_rates: Floats = param(doc="learning rate of each weight")
    beta1: float = param(0.899999976, doc=MEAN)
    beta2: float = param(0.999000013, doc=VAR)
    epsilon: float = param(9.99999997e-07, doc=EPSILON)
    wds: Floats = param(doc="weight decay of each weight")
    rescale_grad: float = param(1.0, doc=RESCALE)
    lower_bound: float = param(-1.0, doc="smallest norm of a weight; negative: none")
    upper_bound: float = param(-1.0, doc="largest norm of a weight; negative: none")
    clip_gradient: float = param(-1.0, doc=CLIP)
    bias_correction: bool = param(True, doc=BIAS)
    step_count: Tuple = param(doc="number of this update, from 1, of each weight")
    num_tensors: int = param(1, ge=1, le=MAX_COUNT, doc=COUNT)


class LarsParams(Params):
    eta: float = param(doc="factor of the ratio of the norms")
    eps: float = param(doc="keeps the divisor away from 0")
    rescale_grad: float = param(1.0, doc=RESCALE)
