"""`mx.image`: images read, resized, cut and augmented outside of networks, and iterators over batches of them."""

from __future__ import annotations

from lowering.mx.image import detection as detection
from lowering.mx.image import image as image
from lowering.mx.image.augmenters import Augmenter as Augmenter
from lowering.mx.image.augmenters import BrightnessJitterAug as BrightnessJitterAug
from lowering.mx.image.augmenters import CastAug as CastAug
from lowering.mx.image.augmenters import CenterCropAug as CenterCropAug
from lowering.mx.image.augmenters import ColorJitterAug as ColorJitterAug
from lowering.mx.image.augmenters import ColorNormalizeAug as ColorNormalizeAug
from lowering.mx.image.augmenters import ContrastJitterAug as ContrastJitterAug
from lowering.mx.image.augmenters import CreateAugmenter as CreateAugmenter
from lowering.mx.image.augmenters import ForceResizeAug as ForceResizeAug
from lowering.mx.image.augmenters import HorizontalFlipAug as HorizontalFlipAug
from lowering.mx.image.augmenters import HueJitterAug as HueJitterAug
from lowering.mx.image.augmenters import LightingAug as LightingAug
from lowering.mx.image.augmenters import RandomCropAug as RandomCropAug
from lowering.mx.image.augmenters import RandomGrayAug as RandomGrayAug
from lowering.mx.image.augmenters import RandomOrderAug as RandomOrderAug
from lowering.mx.image.augmenters import RandomSizedCropAug as RandomSizedCropAug
from lowering.mx.image.augmenters import ResizeAug as ResizeAug
from lowering.mx.image.augmenters import SaturationJitterAug as SaturationJitterAug
from lowering.mx.image.augmenters import SequentialAug as SequentialAug
from lowering.mx.image.crops import center_crop as center_crop
from lowering.mx.image.crops import color_normalize as color_normalize
from lowering.mx.image.crops import fixed_crop as fixed_crop
from lowering.mx.image.crops import random_crop as random_crop
from lowering.mx.image.crops import random_size_crop as random_size_crop
from lowering.mx.image.crops import resize_short as resize_short
from lowering.mx.image.crops import scale_down as scale_down
from lowering.mx.image.detection import CreateDetAugmenter as CreateDetAugmenter
from lowering.mx.image.detection import CreateMultiRandCropAugmenter as CreateMultiRandCropAugmenter
from lowering.mx.image.detection import DetAugmenter as DetAugmenter
from lowering.mx.image.detection import DetBorrowAug as DetBorrowAug
from lowering.mx.image.detection import DetHorizontalFlipAug as DetHorizontalFlipAug
from lowering.mx.image.detection import DetRandomCropAug as DetRandomCropAug
from lowering.mx.image.detection import DetRandomPadAug as DetRandomPadAug
from lowering.mx.image.detection import DetRandomSelectAug as DetRandomSelectAug
from lowering.mx.image.detection import ImageDetIter as ImageDetIter
from lowering.mx.image.iterator import ImageIter as ImageIter
from lowering.mx.image.pixels import copyMakeBorder as copyMakeBorder
from lowering.mx.image.pixels import imdecode as imdecode
from lowering.mx.image.pixels import imread as imread
from lowering.mx.image.pixels import imresize as imresize
from lowering.mx.image.rotation import imrotate as imrotate
from lowering.mx.image.rotation import random_rotate as random_rotate
from symjax_nnvm.errors import UnknownAttributeError, did_you_mean

det = detection


def __getattr__(name: str) -> object:
    raise UnknownAttributeError(f"mx.image has no {name!r}. {did_you_mean(name, globals())}".rstrip(), name=name)
