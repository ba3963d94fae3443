"""Operators of MXNet 1.9.1 and of its forks that are not here, and why: naming one gives an error with the reason."""

from __future__ import annotations

from symjax_nnvm.ir.op import declare_left_out

LEFT_OUT: dict[str, str] = {
    "MXNet's executor makes it for itself; no model needs it": """
        _CachedOp _CachedOpThreadSafe _CrossDeviceCopy _CustomFunction _NDArray _Native _NoGradient _copyto _npi_copyto
        _npi_backward_ediff1d _npi_backward_nan_to_num _npi_backward_polyval
    """,
    "it is a gradient, which a network gets when it is differentiated; files of networks have none": """
        _backward _broadcast_backward _npi_hsplit_backward _split_v2_backward
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
        _cvcopyMakeBorder _cvimdecode _cvimread _cvimresize _imdecode _npi_cvimdecode _npi_cvimread _npi_cvimresize
    """,
    "only MXNet 2 has it, for networks that it fused for oneDNN; load the network from before it was fused": """
        _sg_mkldnn_batch_dot _sg_onednn_batch_dot
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
    "it is an operator of forks of MXNet for depth-wise convolutions; Convolution with num_group= the number of "
    "channels of the data is the same: write that name in the file": """
        ChannelwiseConvolution
    """,
}
"""Reason → names likewise, of operators that no MXNet has, but files that forks of it wrote."""

for _reason, _names in (LEFT_OUT | OF_FORKS).items():
    for _name in _names.split():
        declare_left_out(_name, _reason)
