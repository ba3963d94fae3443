"""The numbers that decide how calls, tapes and updates run: what waits, what is compiled together, and what is kept.

Each is read where it decides, so that a test or a measurement may set another. The figures that they rest on are of two
cores with AVX-512, jaxlib 0.10.2, while others used them.
"""

LONGEST = 32
"""Calls of a tape that is short, which one program of all differentiates: the calls of longer ones are worth their
time, and compiling takes longer the more there are. A step of 8, 32 and 64 calls: 0.46, 0.98 and 1.4 ms as one program,
0.59, 1.1 and 2.9 ms call by call."""

MOST_WAITING = 8
"""The maximal number of calls that wait for each other, or are computed together with their gradients; a longer chain
runs. A step of 2 and 8 blocks: 0.46 and 1.2 ms together, 0.94 and 2.2 ms if they do not wait."""

PATIENCE_WITH_TAPES = 2
"""The number of times that a tape is differentiated call by call before its program is compiled: one whose calls ran,
or whose functions are all called by many tapes, as those of a tree's nodes are. Compiling 8 tapes of at most 8 blocks
takes 0.7 to 2 s, as long as 400 steps call by call."""

MOST_TAPES = 4
"""Different tapes that call a function and are compiled at once. Twenty steps of 1, 2 and 8 tapes: 0.13, 0.20 and 0.95
s; 0.27, 0.37 and 0.28 s if none is."""

UPDATES = 8
"""The most updates of parameters that are compiled together with the gradients of a tape. A step of a block of one
layer: 0.47 ms together, 0.50 ms as two programs."""

UPDATED_OFTEN = 16
"""The number of times that any but the first update of a tape's gradients is a program of its own: compiling another
one with the gradients takes as long as some thousand steps of two programs take longer."""

SIZES_OF_DRAWS = (256, 4096, 65536)
"""The numbers of values that are drawn for any smaller shape. A draw of a new shape of 100, 1,800 and 60,000 numbers:
1.2, 1.2 and 3.7 ms so, 6.5, 6.0 and 9.2 ms if it is evaluated by itself, 16 to 490 ms if it is compiled. Three numbers
of 256 and of 4,096, when that is compiled: 0.5 and 1.0 ms."""

SERVED_AFTER, SERVED_LATER = 64, 8
"""Calls in inference with the same parameters after which a block gets a Predictor again, where they had changed; each
later change multiplies them. Making one takes 0.06, 2.6 and 1.7 s for an MLP, LeNet and ResNet-18 at 32²; a call takes
0.11, 1.6 and 43 ms with it, 0.10, 1.9 and 107 ms without."""

KEPT_NUMBERS, KEPT_UPDATES = 1024, 2048
"""Numbers that are kept as arrays: making one takes 37 µs, finding it 0.2. Compiled updates of all optimisers: one for
each parameter where they are updated one by one."""

NUMBERS_AS_PARAMETERS = 8
"""The numbers of an operator, for example places of a slice, that are parameters of programs; others are inputs of one
program. A slice that is recorded at a new place takes 2.4 ms as an input, 7 to 10 as a parameter; at one that was met
0.7 to 1.0 ms both ways. Compiled, a constant is faster: a network has few."""

LARGEST_TAKEN = 1 << 17
"""The most elements of a slice whose indices are inputs: its gradient adds element by element. A slice of new length
of 1e5, 3e5 and 4e6 numbers: 18, 58 and 550 ms so, 23, 27 and 29 ms with its places as parameters."""

KEPT_EXPRESSIONS = 4096
"""The number of different expressions, and of calls, that keep their compiled functions."""

BYTES_OF_GRAPHS = 40_000
"""What an expression keeps whose programs are made: graphs, plans and names. It counts in the bound of all programs."""

KEPT_TAPES = 256
"""The number of tapes that keep their programs, and of kinds of calls whose functions a block keeps. All programs
together have a bound in bytes (`lowering/xla/program_bound.py`)."""
