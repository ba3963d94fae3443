"""The witness compares MXGradient with JAX's autodiff and finite differences."""

from lowering.verify.gradient_check import GradientReport as GradientReport
from lowering.verify.gradient_check import ProjectionReport as ProjectionReport
from lowering.verify.gradient_check import check_gradients as check_gradients
from lowering.verify.gradient_check import check_projection as check_projection
