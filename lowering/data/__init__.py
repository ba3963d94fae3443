"""This package reads data sets that MXNet's users have: record files, images in them, and text, as batches or as
sources for Grain."""

from lowering.data.augmenter_parameters import Augmentation as Augmentation
from lowering.data.box_augmenter import DetectionAugmentation as DetectionAugmentation
from lowering.data.detection_iter import ImageDetRecordIter as ImageDetRecordIter
from lowering.data.record_iter import ImageRecordIter as ImageRecordIter
from lowering.data.text_tables import CSVIter as CSVIter
from lowering.data.text_tables import LibSVMIter as LibSVMIter
from lowering.data.transform import ImageTransform as ImageTransform
from symjax_nnvm.mxnet.images import decode_image as decode_image
from symjax_nnvm.mxnet.images import encode_image as encode_image
from symjax_nnvm.mxnet.record_file import RecordFile as RecordFile
from symjax_nnvm.mxnet.record_format import IRHeader as IRHeader
from symjax_nnvm.mxnet.record_format import pack as pack
from symjax_nnvm.mxnet.record_format import unpack as unpack
from symjax_nnvm.mxnet.record_lists import ImageRow as ImageRow
from symjax_nnvm.mxnet.record_lists import list_images as list_images
from symjax_nnvm.mxnet.record_lists import read_list as read_list
from symjax_nnvm.mxnet.record_lists import write_list as write_list
from symjax_nnvm.mxnet.record_lists import write_records as write_records
from symjax_nnvm.mxnet.record_writer import RecordWriter as RecordWriter
