"""Cases of the table that an ONNX file holds and `from_onnx` does not give back, each with its reason.

`test_from_onnx_cases.py` holds the list to it: what does come back may not stand here.
"""

from __future__ import annotations

_EMPTY = "MXNet has no empty arrays"
_PARTS = "its parts"  # of which some are empty
_ALONG = "MXNet 1.9.1 writes along no axis"
_LEVELS = "quantised arithmetic"
_FOURIER = "ONNX keeps real and imaginary parts in an axis"

NOT_BACK: dict[str, str] = {
    "topk:ret_typ=mask,k=2:(2,4)": _ALONG,
    "topk:ret_typ=mask,k=3,axis=1,is_ascend=True:(2,4,2)": _ALONG,
    "topk:ret_typ=mask,k=4,axis=None:(2,3)": _ALONG,
    "topk:ret_typ=mask,k=0,axis=0:(3,2)": _ALONG,
    "_contrib_fft:(2,4)": _FOURIER,
    "_contrib_fft:compute_size=3:(2,1,2,5)": _FOURIER,
    "_contrib_fft:(6,)": _FOURIER,
    "_contrib_fft:(2,4)float16": _FOURIER,
    "_contrib_ifft:(2,8)": _FOURIER,
    "_contrib_ifft:compute_size=3:(2,1,2,6)": _FOURIER,
    "_contrib_ifft:(2,10)float64": _FOURIER,
    "broadcast_axis:axis=2,size=0:(1,3,1)": _EMPTY,
    "_split_v2:indices=(),axis=0,sections=4:(2,3)": _PARTS,
    "_split_v2:indices=(0,0,4),axis=0:(4,2)": _PARTS,
    "_split_v2:indices=(0,3,3),axis=0:(4,2)": _PARTS,
    "slice:begin=(None,-1,None),end=(1,1,-1):(2,4,3)": _EMPTY,
    "slice:begin=(1,),end=(3,),step=(-2,):(4,3)": _EMPTY,
    "slice:begin=(0,2),end=(2,2):(2,4)": _EMPTY,
    "_npi_broadcast_to:shape=(0,3):(1,3)": _EMPTY,
    "_contrib_dequantize:(2,3)int8x(1,)x(1,):eval": _LEVELS,
    "_contrib_dequantize:(2,3,2,2)uint8x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantize:(2,3,4)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantize:out_type=int8:(2,3,4)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantize_v2:(2,3,4):eval": _LEVELS,
    "_contrib_quantize_v2:min_calib_range=-1.5,max_calib_range=2.5:(2,3,4):eval": _LEVELS,
    "_contrib_quantize_v2:out_type=auto,min_calib_range=-1.0:(2,3,4,5):eval": _LEVELS,
    "_contrib_quantize_v2:out_type=auto,min_calib_range=0.0,max_calib_range=2.5:(2,3,4):eval": _LEVELS,
    "_contrib_quantized_concat:num_args=2,dim=1:(2,3)int8x(2,4)int8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_concat:num_args=2,dim=1:(2,3)int8x(2,4)uint8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_conv:kernel=(3,3),num_filter=4,pad=(1,1),stride=(2,2),dilate=(1,1):"
    "(2,3,6,6)uint8x(4,3,3,3)int8x(4,)int8x(1,)x(1,)x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_conv:no_bias:(1,3,4,4)int8x(4,3,3,3)int8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_conv:no_bias:(1,70,4,4)uint8x(4,70,3,3)int8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_elemwise_add:min_calib_range=-3.0,max_calib_range=3.5:"
    "(3,4)int8x(3,4)int8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_elemwise_add:min_calib_range=-3.0,max_calib_range=3.5:"
    "(3,4)uint8x(3,4)uint8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_fully_connected:no_bias:(2,3,4)uint8x(5,12)int8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_fully_connected:num_hidden=5,flatten=False:"
    "(2,3,600)uint8x(5,600)int8x(5,)int8x(1,)x(1,)x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_fully_connected:num_hidden=5,flatten=True:"
    "(3,600)int8x(5,600)int8x(5,)int8x(1,)x(1,)x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_pooling:kernel=(1,1),global_pool=True,pool_type=avg:(2,3,6,6)uint8x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_pooling:kernel=(3,3),stride=(2,2),pad=(1,1),pool_type=avg,count_include_pad=False:"
    "(2,3,6,6)uint8x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_pooling:kernel=(3,3),stride=(2,2),pad=(1,1),pool_type=avg,pooling_convention=full:"
    "(2,3,6,6)uint8x(1,)x(1,):eval": _LEVELS,
    "_contrib_quantized_pooling:kernel=(3,3),stride=(2,2),pad=(1,1),pool_type=avg:(2,3,6,6)int8x(1,)x(1,):"
    "eval": _LEVELS,
    "_contrib_quantized_pooling:kernel=(3,3),stride=(2,2),pad=(1,1),pooling_convention=full:"
    "(2,3,6,6)uint8x(1,)x(1,):eval": _LEVELS,
    "_contrib_requantize:(3,5)int32x(1,)x(1,):eval": _LEVELS,
    "_contrib_requantize:min_calib_range=-0.05,max_calib_range=0.06:(3,5)int32x(1,)x(1,):eval": _LEVELS,
    "_contrib_requantize:out_type=auto,min_calib_range=0.0,max_calib_range=0.06:(3,5)int32x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_conv:added_uint8:"
    "(2,3,5,5)uint8x(4,3,3,3)x(4,)x(4,)x(4,)x(4,)x(4,)x(2,4,5,5)uint8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_conv:int8:(2,3,5,5)int8x(4,3,3,3)x(4,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_conv:leaky_relu:(2,3,5,5)uint8x(4,3,3,3)x(4,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_conv:old:(2,3,5,5)uint8x(4,3,3,3)x(4,)x(4,)x(4,)x(4,)x(4,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_conv:relu6:(2,3,5,5)uint8x(4,3,3,3)x(4,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_fully_connected:calibrated:(3,12)int8x(5,12)int8x(5,)int8x(1,)x(1,)x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_fully_connected:channels:(3,12)uint8x(5,12)x(5,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_fully_connected:floats:(3,12)uint8x(5,12)int8x(5,)int8x(1,)x(1,)x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_fully_connected:no_bias:(3,12)uint8x(5,12)int8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_fully_connected:relu:(3,12)uint8x(5,12)int8x(5,)int8x(1,)x(1,)x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_selfatt_qk:calibrated:(4,3,12)int8x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_selfatt_qk:float_output:(4,3,12)int8x(1,)x(1,):eval": _LEVELS,
    "_sg_mkldnn_selfatt_valatt:calibrated:(4,3,12)int8x(6,4,4)uint8x(1,)x(1,)x(1,)x(1,):eval": _LEVELS,
}
"""Case → part of what `from_onnx` says."""
