# SPDX-License-Identifier: Apache-2.0
"""Keeps this process and those that it starts from Intel's matrix registers (AMX): Linux gives them on request, and here
every request fails, as on a processor without them. Libraries then take their dot instructions, and a comparison is one
of code for the same instructions."""
import ctypes
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD_WORD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # codes of the kernel's packet filters
ALLOW, FAIL_INVALID = 0x7FFF0000, 0x00050000 | 22
SYSCALL_NUMBER, FIRST_ARGUMENT = 0, 16  # offsets in what a filter sees
ARCH_PRCTL, GET_COMPONENT_PERMISSION = 158, 0x1022  # of x86-64; 0x1023 asks for one


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("when_true", ctypes.c_ubyte), ("when_false", ctypes.c_ubyte), ("value", ctypes.c_uint)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction))]


def refuse_matrix_registers():
    words = [(LOAD_WORD, 0, 0, SYSCALL_NUMBER), (EQUAL, 0, 3, ARCH_PRCTL), (LOAD_WORD, 0, 0, FIRST_ARGUMENT),
             (AT_LEAST, 0, 1, GET_COMPONENT_PERMISSION), (RETURN, 0, 0, FAIL_INVALID), (RETURN, 0, 0, ALLOW)]
    program = Program(len(words), (Instruction * len(words))(*words))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        sys.exit(f"bench: the kernel takes no filter (error {ctypes.get_errno()})")
