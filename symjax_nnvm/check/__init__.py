"""`check` reports all problems that keep a model from running, at once, before anything is traced."""

from symjax_nnvm.check.examine import check as check
from symjax_nnvm.check.report import CheckReport as CheckReport
from symjax_nnvm.check.report import Problem as Problem
