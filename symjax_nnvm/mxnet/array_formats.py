"""The table of array files: a row for each kind. `symjax_nnvm.io.formats` describes the fields of a row."""

from __future__ import annotations

from symjax_nnvm.io.formats import FileFormat, register_format
from symjax_nnvm.mxnet.array_file import is_list_file, read_list_file, write_list
from symjax_nnvm.mxnet.npy_file import is_npy, read_npy_file
from symjax_nnvm.mxnet.safetensors_file import is_safetensors, read_safetensors, write_safetensors
from symjax_nnvm.mxnet.zip_file import is_zip, read_zip

MXNET = register_format(
    FileFormat(
        name="mxnet",
        title="MXNet's file of arrays",
        suffixes=(".params", ".nd"),
        sniff=is_list_file,
        read=read_list_file,
        write=write_list,
    )
)
register_format(
    FileFormat(
        name="npz",
        title="a zip archive, of arrays (.npz, MXNet 2.0) or else to be unpacked",
        suffixes=(".npz",),
        sniff=is_zip,
        read=read_zip,
    )
)
register_format(
    FileFormat(
        name="npy",
        title="an array of NumPy's (.npy)",
        suffixes=(".npy",),
        sniff=is_npy,
        read=read_npy_file,
        named=False,
    )
)
SAFETENSORS = register_format(
    FileFormat(
        name="safetensors",
        title="a safetensors file",
        suffixes=(".safetensors",),
        sniff=is_safetensors,
        read=read_safetensors,
        write=write_safetensors,
        extra="safetensors",
    )
)
