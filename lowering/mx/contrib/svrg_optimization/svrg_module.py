"""SVRGModule, under MXNet's name of its file."""

from lowering.mx.module.svrg import SVRGModule as SVRGModule
