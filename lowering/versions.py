"""The oldest JAX that the library runs with; importing this module raises ImportError under an older one."""

import jax

OLDEST = (0, 10, 0)
"""Before it oneDNN's call ends the process (0.8, 0.9), and names are missing (`jax.enable_x64`, `jax.set_mesh`)."""

if jax.__version_info__ < OLDEST:
    _oldest = ".".join(map(str, OLDEST))
    raise ImportError(
        f"lowering needs jax {_oldest} or newer and found {jax.__version__}: "
        f"pip install --upgrade 'jax>={_oldest}' 'jaxlib>={_oldest}' (on Python 3.11 or newer)."
    )
