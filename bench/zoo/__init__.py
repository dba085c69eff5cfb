# SPDX-License-Identifier: Apache-2.0
"""Architectures whose exports `bench/export_zoo.py` compiles and compares with ONNX Runtime."""
