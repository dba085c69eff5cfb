// SPDX-License-Identifier: Apache-2.0
// The target `stack`: programs become the text of a small stack machine. One word of code per line:
//
//   kernel NAME      begins a kernel; `return` ends it
//   const.i N        pushes an integer          const.f X        pushes a float
//   get V            pushes the variable V      set V            pops it
//   load B TYPE      pops an index, pushes that element of buffer B (TYPE: f32, i32 or i64)
//   store B TYPE     pops a value, then an index
//   add.i add.f …    pop b, then a, push a + b: also sub, mul, div, mod, min, max, eq, ne, lt, le
//   not              0 becomes 1, all else 0
//   float  int       an integer as a float, a float as the integer towards zero
//   round TYPE       the value as TYPE holds it
//   label L   jump L   jump_if_not L (pops)
//   alloc B N TYPE   buffer B has N elements
//
// Buffers 0, 1, … and variables 0, 1, … are at first the tensors and the numbers that the kernel is called
// with.
#pragma once

namespace custom_target {

/// The code generator: needs the compiler library.
void register_stack_target();
/// What runs the text, in any process that runs models: needs the runtime library alone.
void register_stack_loader();

}  // namespace custom_target
