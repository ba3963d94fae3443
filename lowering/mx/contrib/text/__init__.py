"""`mx.contrib.text`: vocabularies, and vectors of words from files."""

from lowering.mx.contrib.text import embedding as embedding
from lowering.mx.contrib.text import utils as utils
from lowering.mx.contrib.text import vocab as vocab
