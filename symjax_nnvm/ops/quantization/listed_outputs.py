"""Operators of MXNet's that list the name of their one output: names of quantised arrays then have it, not a number."""

_NAMES = """
    Activation BatchNorm_v1 Concat Convolution Convolution_v1 Crop Custom Deconvolution FullyConnected MakeLoss Pad
    Pooling Pooling_v1 SVMOutput SequenceLast SequenceMask SequenceReverse SoftmaxActivation SoftmaxOutput SwapAxis
    UpSampling _contrib_DeformableConvolution _contrib_MultiBoxDetection _contrib_MultiBoxPrior _contrib_MultiProposal
    _contrib_PSROIPooling _contrib_ROIAlign _contrib_RROIAlign _contrib_count_sketch _contrib_fft _contrib_ifft
    _contrib_index_array _contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt
    _contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt col2im elemwise_add im2col softmax
    softmin
"""
LISTED_OUTPUTS = frozenset(_NAMES.split())
