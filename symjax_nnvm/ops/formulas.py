"""The formula of each operator whose description is not one already, and the rule of the result where it adds to that.

In formulas x is the first input, y the second, A and B are matrices, out is the result, Σ a sum. Of operators that
differ from another in broadcasting, in a number for an array, in dtype or in how many arrays they take
(`broadcast_mod`, `mp_sgd_update`, `multi_sgd_update`) the table has one.
"""

from __future__ import annotations

import re

_STEP = "h = clip(rescale_grad · grad) + wd · weight"
_CLIPPED_STEP = "h = clip(rescale_grad · grad + wd · weight)"
_MOMENTS = "mean ← β₁ mean + (1 - β₁) h, var ← β₂ var + (1 - β₂) h²"
_LAMB = (
    "h = clip(rescale_grad · grad)",
    f"{_MOMENTS}, with bias_correction mean / (1 - β₁ᵗ) and var / (1 - β₂ᵗ) below",
)
_LAMB_DIRECTION = "g = mean / (√var + epsilon) + wd · weight"
_LAMB_STEP = (
    "weight ← weight - lr · (r1 / r2) · g, r1 = |weight|₂ within the bounds, r2 = |g|₂; r1 / r2 is 1 if one is 0"
)
_NORMAL = "p(x) = exp(-(x - mu)² / (2 sigma²)) / (sigma √(2π))"
_UNIFORM = "p(x) = 1 / (high - low) for low ≤ x < high, else 0"
_EXPONENTIAL = "p(x) = lam · exp(-lam · x) for x ≥ 0"
_POISSON = "P(x) = lamˣ · exp(-lam) / x!"
_NEGATIVE = "P(x) = Γ(x + k) / (x! Γ(k)) · pᵏ · (1 - p)ˣ"
_GENERALIZED = "as the negative binomial with k = 1 / alpha, p = 1 / (mu · alpha + 1)"
_GAMMA = "p(x) = x^(alpha - 1) · exp(-x / beta) / (beta^alpha · Γ(alpha)) for x > 0"
_MEAN_AND_VARIANCE = "out = (x - μ) / √(σ² + eps) · gamma + beta"
_CONVOLUTION = (
    "out[n, f, i, j] = bias[f] + Σ weight[f, c, a, b] · x[n, c, i · stride + a · dilate - pad, j ·"
    " stride + b · dilate - pad]"
    " over c, a, b; c within the group of f"
)
_CONVOLUTION_SIZE = "out.shape = (n, num_filter, …, ⌊(size + 2 · pad - dilate · (kernel - 1) - 1) / stride⌋ + 1, …)"
_POOLING = (
    "out[n, c, i, j] = max, Σ, Σ / count or (Σ xᵖ)^(1/p) of x[n, c, i · stride + a - pad, j · stride"
    " + b - pad], a, b < kernel",
    "out.shape = (n, c, …, ⌊(size + 2 · pad - kernel) / stride⌋ + 1, …); with pooling_convention full ⌈ ⌉ for ⌊ ⌋",
)
_ATTENTION = "with queries, keys, values (steps, n, heads, d) taken apart from the last axis"
_BILINEAR = "out = Σ x[v, u] · (1 - |px - u|) · (1 - |py - v|) over the four elements (v, u) around (py, px)"
_REGION_MEAN = "out[r, c, i, j] = the mean of {samples} in bin (i, j) of region r{channels}"

FORMULAS: dict[str, str | tuple[str, ...]] = {
    # elementwise
    "_greater": "out = 1 if x > y else 0",
    "_greater_equal": "out = 1 if x ≥ y else 0",
    "_lesser": "out = 1 if x < y else 0",
    "_lesser_equal": "out = 1 if x ≤ y else 0",
    "arctan2": "out = arctan(x / y), in the quadrant of the point (y, x)",
    "rarctan2": "out = arctan(scalar / x), in the quadrant of the point (x, scalar)",
    "_np_all": "out = x[0] ≠ 0 and x[1] ≠ 0 and …",
    "_np_any": "out = x[0] ≠ 0 or x[1] ≠ 0 or …",
    "isinf": "out = x = ∞ or x = -∞",
    "cholesky": "A = L Lᵀ",
    "svd": "A = U diag(L) V",
    "eig": "A v = w v",
    "eigh": "A v = w v",
    "eigvals": "A v = w v",
    "eigvalsh": "A v = w v",
    "solve": "A X = B",
    "pinv": "A out A = A, out A out = out",
    "pinv_scalar_rcond": "A out A = A, out A out = out",
    "tensorinv": "Σ out[j…, i…] · a[i…, k…] = 1 if j… = k… else 0",
    "tensorsolve": "Σ a[i…, j…] · x[j…] = b[i…]",
    "_tensor_matrix": "out[i, j] = data[…], n rows of n",
    "average": "out = Σ a · w / Σ w",
    "_weights_like": "out[i, j] = weights[j]",
    "percentile": "out = x[q / 100 · (n - 1)], x ascending",
    "bincount": "out[k] = Σ weights[i] over data[i] = k",
    "_npi_norm": "out = (Σ |x|ᵖ)^(1/p), or singular values of x",
    "_norm_direction": "out = U V",
    "_pad_extremes": "out = data, beside it along each axis Σ data where of is extreme",
    "_polynomial_derivative": "out[i] = (n - 1 - i) · p[i]",
    "diff": "out[i] = a[i + 1] - a[i]",
    "ediff1d": "out[i] = x[i + 1] - x[i]",
    "trace": "out = Σ data[i, i + offset]",
    "subtract": "out = x - y",
    "rsubtract": "out = scalar - x",
    "rtrue_divide": "out = scalar / x",
    "copysign": "out = |x| · sign(y)",
    "rcopysign": "out = |scalar| · sign(x)",
    "lcm": "out = the least n ≥ 0 with n = i · x = j · y for whole i, j",
    "bitwise_not": "out = NOT x, bit by bit",
    "around": "out = round(x · 10^decimals) / 10^decimals",
    "isnan": "out = x ≠ x",
    "nan_to_num": "out = x if |x| < ∞ else nan, posinf or neginf",
    "bitwise_and": "out = x AND y, bit by bit",
    "bitwise_or": "out = x OR y, bit by bit",
    "bitwise_xor": "out = x XOR y, bit by bit",
    "_equal": "out = 1 if x = y else 0",
    "_not_equal": "out = 1 if x ≠ y else 0",
    "_logical_and": "out = 1 if x ≠ 0 and y ≠ 0 else 0",
    "_logical_or": "out = 1 if x ≠ 0 or y ≠ 0 else 0",
    "_logical_xor": "out = 1 if (x ≠ 0) ≠ (y ≠ 0) else 0",
    "logical_not": "out = 1 if x = 0 else 0",
    "_maximum": "out = max(x, y)",
    "_minimum": "out = min(x, y)",
    "_mod": "out = x - ⌊x / y⌋ · y; 0 where y = 0",
    "_rmod_scalar": "out = scalar - ⌊scalar / x⌋ · x; 0 where x = 0",
    "_power": "out = xʸ",
    "_rpower_scalar": "out = scalarˣ",
    "_rminus_scalar": "out = scalar - x",
    "_minus_scalar": "out = x - scalar",
    "elemwise_sub": "out = x - y",
    "add_n": "out = x₁ + x₂ + … + xₙ",
    "_contrib_div_sqrt_dim": "out = x / √d, d = x.shape[-1]",
    "_contrib_gradientmultiplier": "out = x, dX = scalar · dOut",
    "_contrib_round_ste": "out = round(x), dX = dOut",
    "_contrib_sign_ste": "out = sign(x), dX = dOut",
    "_cast_like": "out = x in the dtype of like",
    "_contrib_quantize": "out = round(x · 127 / m), of uint8 x · 255 / m, m = max(|min_range|, |max_range|)",
    "_contrib_quantize_v2": "out = round(x · 127.5 / m), of uint8 x · 255.5 / m, m the greatest magnitude",
    "_contrib_quantize_asym": "out = x · scale + shift, the range from 0 to 255",
    "_contrib_dequantize": "out = x · m / 127.5, of uint8 x · m / 255.5, m = max(|min_range|, |max_range|)",
    "_contrib_requantize": "out = round(x · 127 / m), of uint8 x · 255 / m, x as floats, m the greatest magnitude",
    "Cast": "out = x in the dtype `dtype`",
    "amp_cast": "out = x in the dtype `dtype`",
    "amp_multicast": "out[i] = x[i] in the widest dtype of all, or the narrowest",
    "all_finite": "out = 1 if |x| < ∞ everywhere else 0",
    "multi_all_finite": "out = 1 if |x| < ∞ everywhere in every array else 0",
    "multi_sum_sq": "out[i] = Σ x[i]²",
    "_copy": "out = x",
    "_identity_with_attr_like_rhs": "out = x",
    "BlockGrad": "out = x, dX = 0",
    "_polygamma": "out = dⁿ⁺¹ log Γ(x) / dxⁿ⁺¹",
    "negative": "out = -x",
    "arccos": "out = arccos(x): cos(out) = x, 0 ≤ out ≤ π",
    "arccosh": "out = log(x + √(x² - 1))",
    "arcsin": "out = arcsin(x): sin(out) = x, -π/2 ≤ out ≤ π/2",
    "arcsinh": "out = log(x + √(x² + 1))",
    "arctan": "out = arctan(x): tan(out) = x, -π/2 < out < π/2",
    "arctanh": "out = log((1 + x) / (1 - x)) / 2",
    "cbrt": "out = x^(1/3)",
    "rcbrt": "out = x^(-1/3)",
    "ceil": "out = ⌈x⌉",
    "floor": "out = ⌊x⌋",
    "trunc": "out = sign(x) · ⌊|x|⌋",
    "fix": "out = sign(x) · ⌊|x|⌋",
    "rint": "out = ⌈x - 1/2⌉",
    "round": "out = sign(x) · ⌊|x| + 1/2⌋",
    "cos": "out = cos(x)",
    "sin": "out = sin(x)",
    "tan": "out = sin(x) / cos(x)",
    "cosh": "out = (eˣ + e⁻ˣ) / 2",
    "sinh": "out = (eˣ - e⁻ˣ) / 2",
    "tanh": "out = (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ)",
    "degrees": "out = x · 180 / π",
    "radians": "out = x · π / 180",
    "erf": "out = 2/√π · ∫ exp(-t²) dt from 0 to x",
    "erfinv": "erf(out) = x",
    "expm1": "out = eˣ - 1",
    "log": "out = ln x",
    "log10": "out = ln x / ln 10",
    "log2": "out = ln x / ln 2",
    "log1p": "out = ln(1 + x)",
    "sign": "out = x / |x|, 0 where x = 0",
    "_scatter_minus_scalar": "out = x - scalar",
    "_scatter_plus_scalar": "out = x + scalar",
    "cast_storage": "out = x",
    # control flow
    "_cond": "out = then(…) if cond(…) ≠ 0 else else(…)",
    "_foreach": "out[i], state ← fn(data[i], state), i = 0, 1, …, n - 1",
    "_while_loop": "while cond(vars): out[i], vars ← func(vars), i ← i + 1, i < max_iterations",
    # creation
    "_contrib_arange_like": "out[i] = start + step · ⌊i / repeat⌋, as many as the axis is long",
    "_contrib_index_array": "out[i, j, …] = (i, j, …)",
    "_arange": ("out[i] = start + step · ⌊i / repeat⌋", "out.shape = (⌈(stop - start) / step⌉ · repeat,)"),
    "_eye": "out[i, j] = 1 if j - i = k else 0",
    "_full": "out[i, j, …] = value",
    "_linspace": "out[i] = start + (stop - start) · i / (num - 1); / num without the endpoint",
    "_ones": "out[i, j, …] = 1",
    "_zeros": "out[i, j, …] = 0",
    "_zeros_without_dtype": "out[i, j, …] = 0",
    "ones_like": "out[i, j, …] = 1, out.shape = x.shape",
    "zeros_like": "out[i, j, …] = 0, out.shape = x.shape",
    "reset_arrays": "x[i, j, …] ← 0, of each array",
    # image
    "_image_adjust_lighting": (
        "out = x + E · (alpha · λ), E and λ being the eigenvectors and eigenvalues of ImageNet's colours"
    ),
    "_image_random_lighting": "out = x + E · (alpha · λ), alpha ~ N(0, alpha_std²)",
    "_image_random_brightness": "out = f · x, f ~ U(min_factor, max_factor)",
    "_image_random_contrast": "out = f · x + (1 - f) · m, m the mean grey, f ~ U(min_factor, max_factor)",
    "_image_random_saturation": "out = f · x + (1 - f) · grey, f ~ U(min_factor, max_factor)",
    "_image_flip_left_right": "out[i, j] = x[i, w - 1 - j]",
    "_image_flip_top_bottom": "out[i, j] = x[h - 1 - i, j]",
    "_image_random_flip_left_right": "out[i, j] = x[i, w - 1 - j] with probability 1/2, else x[i, j]",
    "_image_random_flip_top_bottom": "out[i, j] = x[h - 1 - i, j] with probability 1/2, else x[i, j]",
    "_image_crop": "out[i, j] = data[y + i, x + j], out.shape = (height, width, c)",
    "_image_resize": "out.shape = (height, width, c)",
    "_image_normalize": "out[c] = (x[c] - mean[c]) / std[c]",
    # indexing
    "gather_nd": "out[j, …] = data[indices[0, j], indices[1, j], …]",
    "scatter_nd": "out[indices[0, j], indices[1, j], …] = data[j, …], 0 elsewhere",
    "_ravel_multi_index": "out[j] = (…(data[0, j] · shape[1] + data[1, j]) · shape[2] + …)",
    "_unravel_index": "data[j] = (…(out[0, j] · shape[1] + out[1, j]) · shape[2] + …)",
    "_slice_assign_scalar": "out = x, but out[begin:end:step] = scalar",
    "_take_along_axis": "out[i, j] = x[i, indices[i, j]], along the last axis",
    "argsort": "out[j] = p[j], x[p[0]] ≤ x[p[1]] ≤ …",
    "sort": "out = x[p], x[p[0]] ≤ x[p[1]] ≤ …",
    "batch_take": "out[i] = a[i, indices[i]]",
    "one_hot": ("out[i, …, k] = on_value if indices[i, …] = k else off_value", "out.shape = (*indices.shape, depth)"),
    "pick": "out[i] = data[i, index[i]], along the last axis",
    "take": "out[…] = a[indices[…]], along axis 0",
    "_sparse_retain": "out[i] = x[i] if i in indices else 0",
    "_contrib_boolean_mask": "out = x[index ≠ 0]",
    # linalg
    "_linalg_gemm": "out = alpha · A B + beta · C; Aᵀ or Bᵀ as the parameters say",
    "_linalg_gemm2": "out = alpha · A B; Aᵀ or Bᵀ as the parameters say",
    "batch_dot": (
        "out[n, i, j] = Σ lhs[n, i, k] · rhs[n, k, j] over k",
        "out.shape = (n, rows of lhs, columns of rhs)",
    ),
    "dot": ("out[i…, j…] = Σ lhs[i…, k] · rhs[k, j…] over k", "out.shape = (*lhs.shape[:-1], *rhs.shape[1:])"),
    "_np_dot": "out[i…, j…, k] = Σ a[i…, m] · b[j…, m, k] over m",
    "matmul": "out[n, i, k] = Σ a[n, i, j] · b[n, j, k] over j",
    "tensordot": "out[i…, k…] = Σ a[i…, m…] · b[m…, k…] over m…",
    "tensordot_int_axes": "out[i…, k…] = Σ a[i…, m…] · b[m…, k…] over m…",
    "einsum": "out[i…] = Σ x₁[…] · x₂[…] · … over the labels that out lacks",
    "khatri_rao": "out[:, k] = A[:, k] ⊗ B[:, k] ⊗ …",
    "_contrib_count_sketch": "out[n, h[j]] = Σ s[j] · x[n, j] over the j of equal h[j]",
    "_contrib_fft": "out[2 k] + i out[2 k + 1] = Σ x[j] · exp(-2πi j k / d) over j",
    "_contrib_ifft": "out[j] = Re Σ (x[2 k] + i x[2 k + 1]) · exp(2πi j k / d) over k",
    "_linalg_extractdiag": "out[i] = A[i, i + offset]",
    "_linalg_makediag": "out[i, i + offset] = A[i], 0 elsewhere",
    "_linalg_extracttrian": "out = (A[0, 0], A[1, 0], A[1, 1], A[2, 0], …) of a lower triangle",
    "_linalg_maketrian": "extracttrian(out) = A, 0 elsewhere",
    "_linalg_trsm": "A · out = alpha · B, or out · A = alpha · B with rightside",
    "_matrix_fill": "out[n, i, j] = x[n]",
    "_triangle": "out[i, j] = A[i, j] on one side of the diagonal, 0 on the other",
    # losses
    "CTCLoss": "out[n] = -ln Σ Π softmax(data[t, n])[π(t)] over the alignments π that collapse to label[n]",
    "LinearRegressionOutput": "out = X, dX = (X - label) · grad_scale / outputs per sample",
    "LogisticRegressionOutput": "out = 1 / (1 + e⁻ˣ), dX = (out - label) · grad_scale / outputs per sample",
    "MAERegressionOutput": "out = X, dX = (1 if X > label else -1) · grad_scale / outputs per sample",
    "make_loss": "out = X, dX = 1",
    # nn
    "_slopes_like": "out[n, c, i, …] = gamma[c]",
    "_channels_like": "out[n, c, i, …] = x[c]",
    "Activation": "out = max(x, 0), 1 / (1 + e⁻ˣ), tanh(x), log(1 + eˣ) or x / (1 + |x|)",
    "_fused_attention": "out[b, t, n] = Σ softmax(scale · query · keyᵀ + addend)[b, n, t, s] · value[b, s, n] over s",
    "_contrib_interleaved_matmul_encdec_qk": f"out[n · h] = queries · keysᵀ / √d, {_ATTENTION}",
    "_contrib_interleaved_matmul_selfatt_qk": f"out[n · h] = queries · keysᵀ / √d, {_ATTENTION}",
    "_contrib_interleaved_matmul_encdec_valatt": f"out = attention[n · h] · values, {_ATTENTION}",
    "_contrib_interleaved_matmul_selfatt_valatt": f"out = attention[n · h] · values, {_ATTENTION}",
    "BatchNorm": (
        f"{_MEAN_AND_VARIANCE}, μ and σ² over all axes but the channels': of the batch in training, else moving",
        "moving_mean ← momentum · moving_mean + (1 - momentum) · μ; moving_var likewise",
    ),
    "BatchNorm_v1": f"{_MEAN_AND_VARIANCE}, μ and σ² over all axes but axis 1",
    "_contrib_SyncBatchNorm": f"{_MEAN_AND_VARIANCE}, μ and σ² over all axes but axis 1, of the batch on all devices",
    "LayerNorm": f"{_MEAN_AND_VARIANCE}, μ and σ² over `axis` of each row",
    "InstanceNorm": f"{_MEAN_AND_VARIANCE}, μ and σ² over the spatial axes of each sample and channel",
    "GroupNorm": f"{_MEAN_AND_VARIANCE}, μ and σ² over the channels of each group and the spatial axes of each sample",
    "L2Normalization": "out = x / √(Σ x² + eps), Σ over the sample (instance), axis 1 (channel) or the rest (spatial)",
    "LRN": "out[c] = x[c] / (knorm + alpha / nsize · Σ x[k]²)^beta over k with |k - c| ≤ nsize // 2",
    "Convolution": (_CONVOLUTION, _CONVOLUTION_SIZE),
    "Convolution_v1": (_CONVOLUTION, _CONVOLUTION_SIZE),
    "_channels_last_convolution": (_CONVOLUTION.replace("[f, c, a, b]", "[a, b, c, f]"), _CONVOLUTION_SIZE),
    "_fused_convolution": "out = activation(convolution(data, weight) + bias + addend)",
    "_fused_fully_connected": "out = activation(data · weightᵀ + bias + addend)",
    "_winograd_convolution": "out = Aᵀ [(weight) ⊙ (Bᵀ x B)] A of each tile, plus bias (Lavin & Gray, 2016)",
    "_winograd_weight": "out = G weight Gᵀ (Lavin & Gray, 2016)",
    "Deconvolution": (
        "out[n, f, i · stride + a · dilate - pad, …] = bias[f] + Σ weight[c, f, a, …] · x[n, c, i, …]"
        " over c and all such i, a",
        "out.shape = (n, num_filter, …, stride · (size - 1) + dilate · (kernel - 1) + 1 - 2 · pad + adj, …)",
    ),
    "Embedding": ("out[i, …] = weight[data[i, …]]", "out.shape = (*data.shape, output_dim)"),
    "im2col": "out[n, (c, a, b), (i, j)] = x[n, c, i · stride + a · dilate - pad, j · stride + b · dilate - pad]",
    "col2im": "out[n, c, y, x] = Σ data[n, (c, a, b), (i, j)] over i · stride + a · dilate - pad = y, j … = x",
    "Pooling": _POOLING,
    "Pooling_v1": _POOLING,
    "RNN": (
        "plain: h = relu or tanh(W x + b + R h + r)",
        "LSTM: i, f, o = σ(…), g = tanh(…) of W x + b + R h + r; c ← f · c + i · g; h ← o · tanh(c)",
        "GRU: r, z = σ(W x + b + R h + r), n = tanh(W x + b + r · (R h + r)); h ← (1 - z) · n + z · h",
    ),
    "SequenceLast": "out[n] = data[sequence_length[n] - 1, n]",
    "SequenceReverse": "out[t, n] = data[sequence_length[n] - 1 - t, n] for t < sequence_length[n], else data[t, n]",
    "UpSampling": (
        "nearest: out[n, c, i, j] = x[n, c, ⌊i / scale⌋, ⌊j / scale⌋]",
        "out.shape = (n, c, h · scale, w · scale)",
    ),
    # optimizer updates
    "sgd_update": (_STEP, "weight ← weight - lr · h"),
    "sgd_mom_update": (_STEP, "mom ← momentum · mom - lr · h, weight ← weight + mom"),
    "nag_mom_update": (_STEP, "mom ← momentum · mom - lr · h, weight ← weight + momentum · mom - lr · h"),
    "signsgd_update": "weight ← weight - lr · (sign(grad) + wd · weight)",
    "signum_update": (
        _STEP,
        "mom ← momentum · mom - (1 - momentum) · h, weight ← (1 - lr · wd_lh) · weight + lr · sign(mom)",
    ),
    "adam_update": (_CLIPPED_STEP, _MOMENTS, "weight ← weight - lr · mean / (√var + epsilon)"),
    "adamw_update": (
        f"h = clip(rescale_grad · grad), {_MOMENTS}",
        "weight ← weight - eta · (lr · mean / (√var + epsilon) + wd · weight)",
    ),
    "ftml_update": (
        f"{_CLIPPED_STEP}, v ← β₂ v + (1 - β₂) h²",
        "d' = (1 - β₁ᵗ) / lr · (√(v / (1 - β₂ᵗ)) + epsilon), z ← β₁ z + (1 - β₁) h - (d' - β₁ d) · weight",
        "weight ← -z / d', d ← d'",
    ),
    "ftrl_update": (
        "h = clip(rescale_grad · grad), z ← z + h - (√(n + h²) - √n) · weight / lr, n ← n + h²",
        "weight ← (lamda1 · sign(z) - z) / ((beta + √n) / lr + wd) if |z| > lamda1 else 0",
    ),
    "rmsprop_update": (_CLIPPED_STEP, "n ← γ₁ n + (1 - γ₁) h², weight ← weight - lr · h / √(n + epsilon)"),
    "rmspropalex_update": (
        f"{_CLIPPED_STEP}, n ← γ₁ n + (1 - γ₁) h², g ← γ₁ g + (1 - γ₁) h",
        "delta ← γ₂ delta - lr · h / √(n - g² + epsilon), weight ← weight + delta",
    ),
    "lamb_update_phase1": (*_LAMB, _LAMB_DIRECTION),
    "lamb_update_phase2": _LAMB_STEP,
    "lamb_update": (*_LAMB, _LAMB_DIRECTION, _LAMB_STEP),
    # random
    "_random_exponential": _EXPONENTIAL,
    "_random_gamma": _GAMMA,
    "_random_generalized_negative_binomial": _GENERALIZED,
    "_random_negative_binomial": _NEGATIVE,
    "_random_normal": _NORMAL,
    "_random_poisson": _POISSON,
    "_random_randint": "P(x) = 1 / (high - low), x = low, low + 1, …, high - 1",
    "_random_uniform": _UNIFORM,
    "_sample_multinomial": "P(out = k) = data[k]",
    "_sample_unique_zipfian": "P(c) = ln((c + 2) / (c + 1)) / ln(range_max + 1)",
    "_probability_of_draw": "out[s, t] = data[s, draws[s, t]]",
    "_shuffle": "out = x[p], p any permutation, each with probability 1 / n!",
    "_random_pdf_dirichlet": "p(x) = Γ(Σ alpha) / Π Γ(alpha) · Π x^(alpha - 1)",
    "_random_pdf_exponential": _EXPONENTIAL,
    "_random_pdf_gamma": "p(x) = beta^alpha · x^(alpha - 1) · exp(-beta · x) / Γ(alpha)",
    "_random_pdf_generalized_negative_binomial": _GENERALIZED,
    "_random_pdf_negative_binomial": _NEGATIVE,
    "_random_pdf_normal": _NORMAL,
    "_random_pdf_poisson": _POISSON,
    "_random_pdf_uniform": _UNIFORM,
    # reduce
    "_histogram": "out[i] = the number of x with edges[i] ≤ x < edges[i + 1]; ≤ in the last bin",
    "argmax": "x[out] = max x along the axis",
    "argmax_channel": "x[n, out[n]] = max x[n, :]",
    "argmin": "x[out] = min x along the axis",
    "mean": "out = Σ x / count, over the axes",
    "sum": "out = Σ x, over the axes",
    "_sum_like": "out = Σ x, over the axes along which like has 1; out.shape = like.shape",
    # shape
    "_repeat_over_samples": "out[s, t] = x[s], out.shape = sample.shape",
    "_rnn_param_concat": "out = x₁ followed by x₂, …",
    "Concat": "out.shape[dim] = x₁.shape[dim] + x₂.shape[dim] + …; other sizes are equal",
    "stack": "out.shape = x.shape with the number of arrays inserted at axis",
    "diag": "out[i] = x[i, i + k]; of a vector out[i, i + k] = x[i]",
    "reshape_like": "out.shape = rhs.shape",
    "shape_array": "out = x.shape",
    "size_array": "out = [the product of x.shape]",
    "_sharding_constraint": "out = x",
    "reverse": "out[i] = x[n - 1 - i], along the axes",
    "slice": ("out = x[begin:end:step]", "out.shape[k] = ⌈(end[k] - begin[k]) / step[k]⌉"),
    "slice_axis": "out.shape[axis] = end - begin; out[i] = x[begin + i] along the axis",
    "slice_like": "out = x[:shape_like.shape[k]] along each axis k",
    "depth_to_space": "out[n, c, i · b + a, j · b + e] = x[n, (a · b + e) · (channels / b²) + c, i, j]",
    "space_to_depth": "out[n, (a · b + e) · channels + c, i, j] = x[n, c, i · b + a, j · b + e]",
    "expand_dims": "out.shape = (*x.shape[:axis], 1, *x.shape[axis:])",
    "squeeze": "out.shape = x.shape without the axes of size 1",
    "SwapAxis": "out.shape[dim1] = x.shape[dim2], out.shape[dim2] = x.shape[dim1]",
    # vision
    "_contrib_box_iou": "out[i, j] = |lhs[i] ∩ rhs[j]| / |lhs[i] ∪ rhs[j]|",
    "_contrib_box_encode": "out = ((x - xₐ) / wₐ, (y - yₐ) / hₐ, ln(w / wₐ), ln(h / hₐ)), less means, over stds",
    "_contrib_box_decode": (
        "x = dx · std0 · wₐ + xₐ, y = dy · std1 · hₐ + yₐ, w = wₐ · exp(dw · std2), h = hₐ · exp(dh · std3)"
    ),
    "Correlation": (
        "out[n, i] = the mean of data1[n, c, y, x] · data2[n, c, y + dy(i), x + dx(i)], or of |data1 - data2|"
    ),
    "_contrib_DeformableConvolution": (
        "out[n, f, p] = bias[f] + Σ weight[f, c, k] · x[n, c, p · stride + k · dilate - pad + offset[n,"
        " k, p]] over c, k"
    ),
    "_contrib_ModulatedDeformableConvolution": (
        "out[n, f, p] = bias[f] + Σ weight[f, c, k] · mask[n, k, p] · x[n, c, p · stride + k · dilate -"
        " pad + offset[n, k, p]]"
    ),
    "_contrib_DeformablePSROIPooling": _REGION_MEAN.format(
        samples="bilinear samples", channels=", moved by trans, from the bin's own channels"
    ),
    "_contrib_PSROIPooling": _REGION_MEAN.format(samples="the elements", channels=", from the bin's own channels"),
    "_contrib_ROIAlign": _REGION_MEAN.format(samples="bilinear samples", channels=""),
    "_contrib_RROIAlign": _REGION_MEAN.format(samples="bilinear samples", channels=", turned by its angle"),
    "_contrib_AdaptiveAvgPooling2D": (
        "out[n, c, i, j] = the mean of x[n, c, ⌊i h / h'⌋ : ⌈(i + 1) h / h'⌉, ⌊j w / w'⌋ : ⌈(j + 1) w / w'⌉]"
    ),
    "_contrib_BilinearResize2D": f"{_BILINEAR} = (i · (h - 1) / (height - 1), j · (w - 1) / (width - 1))",
    "Crop": "out[n, c, i, j] = x[n, c, offset_y + i, offset_x + j]",
    "BilinearSampler": f"{_BILINEAR} = ((y + 1) (h - 1) / 2, (x + 1) (w - 1) / 2) of the grid's (x, y)",
    "GridGenerator": (
        "affine: grid = data · (x, y, 1)ᵀ, x and y from -1 to 1; warp: grid = (x, y) + flow, in those units"
    ),
    "SpatialTransformer": "out = BilinearSampler(data, GridGenerator(loc))",
    **dict.fromkeys(
        ("_np_atleast_1d", "_np_atleast_2d", "_np_atleast_3d"),
        "out.shape = x.shape with axes of 1 until there are enough",
    ),
    "_np_diagflat": "out[i, i + k] = x[i], x as a vector; else 0",
    "_np_diagonal": "out[…, i] = x[…, i, i + offset], along axis1 and axis2",
    "_npi_diag_indices_from": "out[a, i] = i",
    "_npi_tril": "out[…, i, j] = x[…, i, j] if j - i ≤ k else 0",
    "_npi_concatenate": "out.shape[axis] = a₁.shape[axis] + a₂.shape[axis] + …; axis None: of the arrays as vectors",
    "_npi_hstack": "_npi_concatenate along the second axis, of vectors along the first",
    "_npi_vstack": "_npi_concatenate along the first axis of arrays of two axes at least",
    "_npi_dstack": "_npi_concatenate along the third axis of arrays of three axes at least",
    "_npi_column_stack": "_npi_concatenate along the second axis; vectors are columns",
    "_npi_hsplit": "parts along the second axis, of a vector along the first",
    "_npi_dsplit": "parts along the third axis",
    "_npi_flip": "out[i] = x[n - 1 - i], along the axes",
    "_npi_full_like": "out[i] = fill_value",
    "_npi_identity": "out[i, j] = 1 if i = j else 0",
    "_npi_indices": "out[a, i₀, i₁, …] = the index along axis a",
    "_npi_logspace": "out[i] = base^(start + (stop - start) · i / (num - 1)); / num without the endpoint",
    "_npi_blackman": "out[i] = 0.42 - 0.5 cos(2πi / (M - 1)) + 0.08 cos(4πi / (M - 1))",
    "_npi_hamming": "out[i] = 0.54 - 0.46 cos(2πi / (M - 1))",
    "_npi_hanning": "out[i] = 0.5 - 0.5 cos(2πi / (M - 1))",
    "_npi_boolean_mask_assign_scalar": "out[i] = value where mask[i], else data[i]",
    "_values_at_mask": "out[i] = the value of the place among those that the mask has",
    "_npi_delete": "out = x without the places along the axis",
    **dict.fromkeys(
        ("_npi_insert_scalar", "_npi_insert_slice", "_npi_insert_tensor"), "out = x with values before the places of x"
    ),
    "_npi_share_memory": "out = 1 if both are one memory; here they never are",
    "_npi_unique": "the different values of x, in order",
    "_npi_where": "out[i] = x[i] if condition[i] ≠ 0 else y[i]",
    "_npi_where_lscalar": "out[i] = scalar if condition[i] ≠ 0 else x[i]",
    "_npi_where_rscalar": "out[i] = x[i] if condition[i] ≠ 0 else scalar",
    "_npi_where_scalar2": "out[i] = x if condition[i] ≠ 0 else y",
    "_npx_constraint_check": "out = 1 if all of x is true",
    "_npx_nonzero": "out[k] = the indices of the k-th number that is not 0",
    "_npi_bernoulli": "P(out = 1) = prob, or 1 / (1 + exp(-logit))",
    "_npi_choice": "P(out = k) = weights[k], or the same for all k < a",
    "_npi_multinomial": "P(out) = n! ∏ pvals[k]^out[k] / out[k]!",
    "_npi_exponential": "p(x) = exp(-x / scale) / scale for x ≥ 0",
    "_npi_gamma": "p(x) = x^(shape - 1) · exp(-x / scale) / (scale^shape · Γ(shape)) for x > 0",
    "_npi_gumbel": "out = loc - scale · log(-log(u)), u uniform in (0, 1)",
    "_npi_logistic": "out = loc + scale · log(u / (1 - u)), u uniform in (0, 1)",
    **dict.fromkeys(("_npi_normal", "_npi_normal_n"), "p(x) = exp(-(x - loc)² / (2 scale²)) / (scale √(2π))"),
    "_npi_pareto": "p(x) = a / (1 + x)^(a + 1) for x ≥ 0",
    "_npi_powerd": "p(x) = a x^(a - 1) for 0 ≤ x ≤ 1",
    "_npi_rayleigh": "p(x) = x / scale² · exp(-x² / (2 scale²)) for x ≥ 0",
    **dict.fromkeys(("_npi_uniform", "_npi_uniform_n"), _UNIFORM),
    "_npi_weibull": "p(x) = a x^(a - 1) · exp(-xᵃ) for x ≥ 0",
}
"""Operator, or function of a family of them → its formula, or lines of it."""

WITHOUT = {
    "an operator of the user's own": ("Custom",),
    "steps that a formula does not shorten": (
        *("_contrib_box_nms", "_contrib_bipartite_matching", "_contrib_MultiBoxDetection", "_contrib_MultiBoxPrior"),
        *("_contrib_MultiBoxTarget", "_contrib_MultiProposal", "_contrib_Proposal"),
        *("_image_random_color_jitter", "_image_random_hue", "_contrib_calibrate_entropy"),
    ),
    "the order of a weight in memory": ("_blocked_weight",),
    "an operator of floats, on 8-bit integers with their range": (
        *("_contrib_quantized_act", "_contrib_quantized_batch_norm", "_contrib_quantized_concat"),
        *("_contrib_quantized_conv", "_contrib_quantized_elemwise_add", "_contrib_quantized_elemwise_mul"),
        *("_contrib_quantized_embedding", "_contrib_quantized_flatten", "_contrib_quantized_fully_connected"),
        *("_contrib_quantized_pooling", "_contrib_quantized_rnn", "_sg_mkldnn_conv", "_sg_mkldnn_fully_connected"),
        *("_sg_mkldnn_selfatt_qk", "_sg_mkldnn_selfatt_valatt"),
    ),
    "another operator": ("_contrib_SparseEmbedding",),
}
"""Why an operator has neither a formula in its description nor a row above → which."""


_SEVERAL_UPDATES = re.compile(r"^_?(?:preloaded_)?(?:multi_)?(?:mp_)?(?=\w+_update)")
_SECOND = re.compile(r"\by\b|ʸ")
"""The second operand in a formula."""


def formula_of(name: str) -> tuple[str, ...]:
    """The lines of an operator's formula, from the row of its family; empty where the table has none."""
    name = name.replace("_npi_less", "_npi_lesser")
    bare = name.removeprefix("broadcast")
    numpy = name.removeprefix("_npi_").removeprefix("_np_")
    candidates = (
        *(name, bare, f"elemwise{bare}", name.removesuffix("_scalar")),
        _SEVERAL_UPDATES.sub("", name),
        name.removesuffix("_like").replace("_sample_", "_random_"),
        *(f"{start}{numpy.removesuffix(end)}" for start in ("", "_") for end in ("", "_scalar")),
    )
    rows = [FORMULAS[candidate] for candidate in candidates if candidate in FORMULAS]
    if not rows:
        return ()
    lines = (rows[0],) if isinstance(rows[0], str) else rows[0]
    if name.endswith("_scalar") and name not in FORMULAS:
        return tuple(_SECOND.sub(lambda y: "scalar" if y[0] == "y" else "^scalar", line) for line in lines)
    return lines
