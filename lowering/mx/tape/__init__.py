"""The tape of `mx.autograd`: what was called, what waits, and the backward passes of both."""
