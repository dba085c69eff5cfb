// SPDX-License-Identifier: Apache-2.0
// The object of cli/native_main.c, carried in this library: no file is looked for later.
  .section .rodata
  .balign 16
  .globl tenon_native_main_object
  .hidden tenon_native_main_object
tenon_native_main_object:
  .incbin TENON_NATIVE_MAIN
  .globl tenon_native_main_object_end
  .hidden tenon_native_main_object_end
tenon_native_main_object_end:
  .byte 0
  .section .note.GNU-stack,"",%progbits
