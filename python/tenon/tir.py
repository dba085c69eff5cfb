# SPDX-License-Identifier: Apache-2.0
"""Tensor programs: expressions, statements, functions. Names are looked up in the compiler when they are used first."""
from .object import namespace

__getattr__, __dir__ = namespace(__name__.rpartition(".")[2])
