"""One pure JAX function of a graph: rules, the order of steps, what is known of arrays, programs and their cache."""
