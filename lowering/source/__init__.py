"""A network as source code: plain JAX that needs neither this library nor MXNet."""

from lowering.source.print_source import save_source as save_source
from lowering.source.print_source import to_source as to_source

__all__ = ["save_source", "to_source"]
