"""MXNet's curves in notebooks are not here; the import error says what to use."""

from lowering.messages.mxnet_words import missing_module

raise missing_module("notebook")
