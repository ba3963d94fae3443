"""Operators of MXNet 1.9.1 and of its forks that are not here, and why: naming one gives an error with the reason."""

from __future__ import annotations

from symjax_nnvm.ir.op import declare_left_out

LEFT_OUT: dict[str, str] = {
    "MXNet's executor makes it for itself; no model needs it": """
        _CachedOp _CachedOpThreadSafe _CrossDeviceCopy _CustomFunction _NDArray _Native _NoGradient _copyto
        _npi_backward_ediff1d _npi_backward_nan_to_num _npi_backward_polyval
    """,
    "models that MXNet fused for oneDNN, and all of its 8-bit models, consist of such operators, whose subgraphs only "
    "MXNet on a CPU runs; load the float32 model that it was made from: the files from before quantize_model, "
    "quantize_net, optimize_for('MKLDNN') or get_backend_symbol('MKLDNN') was called": """
        _sg_mkldnn_batch_dot _sg_mkldnn_conv _sg_mkldnn_fully_connected _sg_mkldnn_selfatt_qk
        _sg_mkldnn_selfatt_valatt _sg_onednn_batch_dot _sg_onednn_conv _sg_onednn_fully_connected
        _sg_onednn_selfatt_qk _sg_onednn_selfatt_valatt
    """,
    "it samples graphs in sparse storage, which XLA does not have": """
        _contrib_dgl_adjacency _contrib_dgl_csr_neighbor_non_uniform_sample
        _contrib_dgl_csr_neighbor_uniform_sample _contrib_dgl_graph_compact _contrib_dgl_subgraph
        _contrib_edge_id
    """,
    "it counts what an array stores, outside of graphs; mx.nd.contrib.getnnz of lowering.mx does": """
        _contrib_getnnz
    """,
    "it reads images, outside of graphs; mx.image of lowering.mx does: imdecode, imread, imresize, copyMakeBorder": """
        _cvcopyMakeBorder _cvimdecode _cvimread _cvimresize _imdecode
    """,
    "8-bit quantised models are not supported yet; load the float32 model it was made from": """
        _contrib_calibrate_entropy _contrib_dequantize _contrib_quantize _contrib_quantize_asym
        _contrib_quantize_v2 _contrib_quantized_act _contrib_quantized_batch_norm _contrib_quantized_concat
        _contrib_quantized_conv _contrib_quantized_elemwise_add _contrib_quantized_elemwise_mul
        _contrib_quantized_embedding _contrib_quantized_flatten _contrib_quantized_fully_connected
        _contrib_quantized_pooling _contrib_quantized_rnn _contrib_requantize
    """,
    "it updates sparse arrays, or works in place; use the dense operator": """
        _contrib_group_adagrad_update _onehot_encode _set_value _sparse_adagrad_update _zeros_without_dtype
    """,
}
"""Reason → names, separated by blanks."""

OF_FORKS: dict[str, str] = {
    "it is an operator of BMXNet, a fork of MXNet for binary networks; symjax_nnvm.register_op and lowering's lowers "
    "register one of your own by this name, before the file is loaded": """
        QActivation QConvolution QConvolution_v1 QFullyConnected _contrib_gradcancel approx_sign det_sign round_ste
    """,
    "it is an operator of forks of MXNet for depth-wise convolutions; Convolution with num_group= as many as the data "
    "has channels is the same: write that name in the file": """
        ChannelwiseConvolution
    """,
}
"""Reason → names likewise, of operators that no MXNet has, but files that forks of it wrote."""

for _reason, _names in (LEFT_OUT | OF_FORKS).items():
    for _name in _names.split():
        declare_left_out(_name, _reason)
