"""`mx.gluon.data.vision`: data sets of images, read from files that are there, and transforms of images."""

from __future__ import annotations

from lowering.mx.gluon.data.vision import transforms as transforms
from lowering.mx.gluon.data.vision.datasets import CIFAR10 as CIFAR10
from lowering.mx.gluon.data.vision.datasets import CIFAR100 as CIFAR100
from lowering.mx.gluon.data.vision.datasets import MNIST as MNIST
from lowering.mx.gluon.data.vision.datasets import FashionMNIST as FashionMNIST
from lowering.mx.gluon.data.vision.datasets import ImageFolderDataset as ImageFolderDataset
from lowering.mx.gluon.data.vision.datasets import ImageRecordDataset as ImageRecordDataset
