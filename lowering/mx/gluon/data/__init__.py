"""`mx.gluon.data`: data sets, orders of their samples, and loaders that make batches of them."""

from __future__ import annotations

from lowering.mx.gluon.data import dataloader as dataloader
from lowering.mx.gluon.data import dataset as dataset
from lowering.mx.gluon.data import sampler as sampler
from lowering.mx.gluon.data import vision as vision
from lowering.mx.gluon.data.dataloader import DataLoader as DataLoader
from lowering.mx.gluon.data.dataset import ArrayDataset as ArrayDataset
from lowering.mx.gluon.data.dataset import Dataset as Dataset
from lowering.mx.gluon.data.dataset import RecordFileDataset as RecordFileDataset
from lowering.mx.gluon.data.dataset import SimpleDataset as SimpleDataset
from lowering.mx.gluon.data.sampler import BatchSampler as BatchSampler
from lowering.mx.gluon.data.sampler import FilterSampler as FilterSampler
from lowering.mx.gluon.data.sampler import RandomSampler as RandomSampler
from lowering.mx.gluon.data.sampler import Sampler as Sampler
from lowering.mx.gluon.data.sampler import SequentialSampler as SequentialSampler
