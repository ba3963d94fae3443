"""Cases of the table that an ONNX file holds and `from_onnx` does not give back, each with its reason.

`test_from_onnx_cases.py` holds the list to it: what does come back may not stand here.
"""

_EMPTY = "MXNet has no empty arrays"
_PARTS = "its parts"  # of which some are empty
_ALONG = "MXNet 1.9.1 cannot scatter along an axis"
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
}
"""Case → part of what `from_onnx` says."""
