"""`mx.image.image`, MXNet's module of what `mx.image` has that is not for detection."""

from __future__ import annotations

from lowering.mx.image.augmenters import *  # noqa: F403
from lowering.mx.image.crops import *  # noqa: F403
from lowering.mx.image.crops import interpolation as _get_interp_method  # noqa: F401
from lowering.mx.image.iterator import *  # noqa: F403
from lowering.mx.image.pixels import *  # noqa: F403
from lowering.mx.image.rotation import *  # noqa: F403
